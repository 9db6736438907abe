"""Files and folders that are written: all or nothing, wherever the target lies, whenever the process is told to end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import tiny

from tinyweave.exporters.tflite import to_tflite
from tinyweave.files import finished_folder, write_file, write_files
from tinyweave.ir import CompileError

DEFAULT = {"preexec_fn": lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)]}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: path -> bytes, None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_appears_with_its_parents_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "c"
    with pytest.raises(ZeroDivisionError), finished_folder(target) as scratch:
        (scratch / "x").write_text("1")
        raise ZeroDivisionError
    assert contents(tmp_path) == {}
    with finished_folder(target) as scratch:
        (scratch / "x").write_text("1")
    assert contents(target) == {"x": b"1"}


def test_an_existing_folder_keeps_its_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "x").write_text("old")
    with finished_folder(tmp_path) as scratch:
        (scratch / "x").write_text("new")
    assert contents(tmp_path) == {"mine": b"kept", "x": b"new"}


def test_what_cannot_be_replaced_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """The last of three files to move has a folder in its place; the first two are put back, or taken away again."""
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").mkdir()
    with pytest.raises(CompileError, match=r"cannot write '.*c'"), finished_folder(tmp_path) as scratch:
        for name in "abc":
            (scratch / name).write_text("new")
    assert contents(tmp_path) == {"a": b"old", "c": None}


def test_folders_inside_are_kept_or_made_and_unmade(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "mine").write_text("kept")
    (tmp_path / "z").write_text("a file in the place of a folder")
    before = contents(tmp_path)
    for name, is_written in (("z", False), ("y", True)):
        try:
            with finished_folder(tmp_path) as scratch:
                for path in ("new/deep/a", "old/b", f"{name}/c"):
                    (scratch / path).parent.mkdir(parents=True, exist_ok=True)
                    (scratch / path).write_text(path)
        except CompileError as error:
            assert not is_written and "cannot write" in str(error) and contents(tmp_path) == before
    added = {"new": None, "new/deep": None, "new/deep/a": b"new/deep/a", "old/b": b"old/b", "y": None, "y/c": b"y/c"}
    assert contents(tmp_path) == before | added


def test_several_files_are_written_or_none(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("mine")
    with pytest.raises(CompileError, match="cannot write"):
        write_files({tmp_path / "new" / "a.csv": "1", blocker / "below" / "b.csv": "2"})
    assert contents(tmp_path) == {"file": b"mine"}
    write_files({tmp_path / "new" / "a.csv": "1", tmp_path / "other" / "b.csv": b"2"})
    assert contents(tmp_path / "new") == {"a.csv": b"1"} and contents(tmp_path / "other") == {"b.csv": b"2"}


def test_names_as_long_as_names_can_be(tmp_path: Path) -> None:
    write_file(tmp_path / ("n" * 255), "x")
    assert contents(tmp_path) == {"n" * 255: b"x"}
    with pytest.raises(CompileError, match="too long"):
        write_file(tmp_path / ("n" * 256), "x")
    with pytest.raises(CompileError, match="too long"), finished_folder(tmp_path / ("n" * 256)):
        pass
    assert contents(tmp_path) == {"n" * 255: b"x"}


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_links_stay_links_and_pipes_stay_pipes(tmp_path: Path) -> None:
    """A device as target, such as /dev/null, must never be replaced by a file."""
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data" / "real")
    write_file(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink() and contents(tmp_path / "data") == {"real": b"x"}
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through" and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    os.close(reader)


@pytest.mark.skipif(os.name != "posix", reason="a umask is a thing of POSIX")
def test_the_umask_says_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new" / "x", "1")
        with finished_folder(tmp_path / "folder") as scratch:
            (scratch / "y").write_text("2")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "new" / "x").stat().st_mode) == 0o640


WRITE = """
import sys
from pathlib import Path
from tinyweave.files import finished_folder, write_file
folder = Path(sys.argv[1])
with finished_folder(folder) as scratch:
    (scratch / "a").write_text("1")
write_file(folder / "b", "2")
print(sorted(path.name for path in folder.iterdir()))
"""


def test_a_mount_point_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """As a Docker volume is: the target is another file system than its parent, and the parent is read-only."""
    unshare = shutil.which("unshare")
    parent = tmp_path / "parent"
    (parent / "volume").mkdir(parents=True)
    mounts = f"mount --rbind {parent} {parent} && mount -t tmpfs none {parent}/volume && mount -o remount,ro,bind {parent}"
    enter = [unshare or "", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not unshare or subprocess.run([*enter, mounts], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount in a namespace of its own")
    write = shlex.join([sys.executable, "-c", WRITE, f"{parent}/volume"])
    refused = shlex.join([sys.executable, "-c", WRITE, f"{parent}/new"])
    done = subprocess.run([*enter, f"{mounts} && {write} && ! {refused}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['a', 'b']\n"), done.stderr
    assert "cannot write" in done.stderr and "Read-only file system" in done.stderr


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_whose_parent_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "folder"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o555)
    try:
        with finished_folder(folder) as scratch:
            (scratch / "a").write_text("1")
        write_file(folder / "b", "2")
        assert contents(folder) == {"a": b"1", "b": b"2"}
    finally:
        folder.parent.chmod(0o755)


def started(arguments: list[str], **options: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tinyweave", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **DEFAULT, **options)  # type: ignore[call-overload]


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not true():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code", "exists"), [(signal.SIGTERM, 143, False), (signal.SIGINT, 130, True)])
def test_a_signal_while_writing_leaves_nothing(tmp_path: Path, number: int, code: int, exists: bool) -> None:
    """The C compiler, which `deploy` runs while it writes, says that it was reached and then never ends."""
    model, reached, out = tmp_path / "chain.tflite", tmp_path / "reached", tmp_path / "out"
    model.write_bytes(to_tflite(tiny.chain()))
    if exists:
        out.mkdir()
        (out / "mine").write_text("kept")
    endless = shlex.join(["sh", "-c", f"echo > {shlex.quote(str(reached))}; exec sleep 600"])
    compilers = dict.fromkeys(("TINYWEAVE_CC", "TINYWEAVE_ARM_CC"), endless)
    with started(["deploy", str(model), "--optimize", "size", "-o", str(out)], env=os.environ | compilers) as process:
        wait_until(reached.exists, process)
        during = contents(out)
        process.send_signal(number)
        said = process.communicate(timeout=60)
    assert any(name.startswith(".tinyweave-") for name in during)
    assert (process.returncode, *said) == (code, "", "")
    reached.unlink()
    assert sorted(contents(tmp_path)) == sorted(["chain.tflite", *(["out", "out/mine"] if exists else [])])


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_during_imports_prints_nothing(tmp_path: Path, number: int, code: int) -> None:
    """A module that is imported early never ends being imported."""
    reached = tmp_path / "reached"
    (tmp_path / "typer.py").write_text(f"import time\nopen({str(reached)!r}, 'w').close()\ntime.sleep(600)\n")
    with started(["--version"], env=os.environ | {"PYTHONPATH": str(tmp_path)}) as process:
        wait_until(reached.exists, process)
        process.send_signal(number)
        said = process.communicate(timeout=60)
    assert (process.returncode, *said) == (code, "", "")


def test_the_command_and_the_module_are_the_same_program() -> None:
    """What the console script calls must import nothing slow before it heeds signals."""
    root = Path(__file__).parents[1]
    assert 'tinyweave = "tinyweave.__main__:main"' in (root / "pyproject.toml").read_text()
    program = "import sys; import tinyweave.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "typer", "rich", "tinyweave.cli", "tinyweave.api"} & set(done.stdout.split())
