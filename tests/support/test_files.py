"""Files and folders are written completely or not at all, for any target, and if the process is interrupted at any time."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cases import tiny

import tinyweave
from tinynas.tasks.annotations import read_annotations
from tinynas.tasks.dataset import files_of, listed
from tinynas.tasks.formats.reading import sample_files
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Tensor
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.support.files import finished_folder, write_file, write_files

DEFAULT = {"preexec_fn": lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGTERM)]}


PACKAGE = Path(tinyweave.__file__).parent
WHOLE = {"plan": "add --all", "verify": "verified against", "deploy": "\nnext: "}  # words printed late by each command
LINES = {signal.SIGTERM: "tinyweave: ended by SIGTERM\n", signal.SIGINT: "tinyweave: interrupted\n"}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return everything below a folder: path -> bytes, None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_is_created_with_its_parents_or_not_at_all(tmp_path: Path) -> None:
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


def test_if_a_file_cannot_be_replaced_the_folder_is_unchanged(tmp_path: Path) -> None:
    """The target of the last of three files is a folder; the first two are restored or removed."""
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").mkdir()
    with pytest.raises(CompileError, match=r"cannot write '.*c'"), finished_folder(tmp_path) as scratch:
        for name in "abc":
            (scratch / name).write_text("new")
    assert contents(tmp_path) == {"a": b"old", "c": None}


def test_nested_folders_are_created_and_removed_again_on_failure(tmp_path: Path) -> None:
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


def test_names_of_255_characters_work_and_longer_ones_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / ("n" * 255), "x")
    assert contents(tmp_path) == {"n" * 255: b"x"}
    with pytest.raises(CompileError, match="too long"):
        write_file(tmp_path / ("n" * 256), "x")
    with pytest.raises(CompileError, match="too long"), finished_folder(tmp_path / ("n" * 256)):
        pass
    assert contents(tmp_path) == {"n" * 255: b"x"}


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
def test_links_and_pipes_are_written_through_and_not_replaced(tmp_path: Path) -> None:
    """A device such as /dev/null must never be replaced by a file."""
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
def test_written_files_and_folders_follow_the_umask(tmp_path: Path) -> None:
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
from tinyweave.support.files import finished_folder, write_file
folder = Path(sys.argv[1])
with finished_folder(folder) as scratch:
    (scratch / "a").write_text("1")
write_file(folder / "b", "2")
print(sorted(path.name for path in folder.iterdir()))
"""


def test_a_mount_point_in_a_read_only_folder_can_be_written(tmp_path: Path) -> None:
    """Docker volumes are such targets: another file system than its read-only parent."""
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
def test_a_folder_in_a_read_only_folder_can_be_written(tmp_path: Path) -> None:
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


def start_command(arguments: list[str], **options: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tinyweave", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **DEFAULT, **options)  # type: ignore[call-overload]


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not true():
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code", "exists"), [(signal.SIGTERM, 143, False), (signal.SIGINT, 130, True)])
def test_a_signal_while_writing_leaves_no_files(tmp_path: Path, number: int, code: int, exists: bool) -> None:
    """The C compiler, which `deploy` runs while it writes, is replaced by a program that never ends."""
    model, reached, out = tmp_path / "chain.tflite", tmp_path / "reached", tmp_path / "out"
    model.write_bytes(to_tflite(tiny.chain()))
    if exists:
        out.mkdir()
        (out / "mine").write_text("kept")
    endless = shlex.join(["sh", "-c", f"echo > {shlex.quote(str(reached))}; exec sleep 600"])
    compilers = dict.fromkeys(("TINYWEAVE_CC", "TINYWEAVE_ARM_CC"), endless)
    with start_command(["deploy", str(model), "--optimize", "size", "-o", str(out)], env=os.environ | compilers) as process:
        wait_until(reached.exists, process)
        during = contents(out)
        process.send_signal(number)
        said = process.communicate(timeout=60)
    assert any(name.startswith(".tinyweave-") for name in during)
    assert (process.returncode, *said) == (code, "", LINES[number])
    reached.unlink()
    assert sorted(contents(tmp_path)) == sorted(["chain.tflite", *(["out", "out/mine"] if exists else [])])


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_an_endless_import(tmp_path: Path, number: int, code: int) -> None:
    """The import of an early module never ends."""
    reached = tmp_path / "reached"
    (tmp_path / "typer.py").write_text(f"import time\nopen({str(reached)!r}, 'w').close()\ntime.sleep(600)\n")
    with start_command(["--version"], env=os.environ | {"PYTHONPATH": str(tmp_path)}) as process:
        wait_until(reached.exists, process)
        process.send_signal(number)
        said = process.communicate(timeout=60)
    assert (process.returncode, *said) == (code, "", LINES[number])


INTERRUPTED_AT = """
import os, signal, sys

at, patience, model = sys.argv[1:]
seen = []

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            seen.append(name)
            if len(seen) == int(at):
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
sys.argv[1:] = ["plan", model]
from tinyweave import __main__
__main__.PATIENCE = int(patience)
code = __main__.main()
print(len(seen))
sys.exit(code)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("patience", "at"), [*((1000, at) for at in (1, 15, 60, 110, 200)), *((1, at) for at in (15, 110, 150, 160, 185))]
)
def test_a_signal_during_an_import_prints_one_line_and_exits_with_130(tmp_path: Path, patience: int, at: int) -> None:
    """An interrupted import leaves an incomplete module, whose users then fail with other errors.

    An import is interrupted if it takes longer than `patience` attempts, as on a slow machine.
    """
    (tmp_path / "chain.tflite").write_bytes(to_tflite(tiny.chain()))
    code, out, said = run_python(INTERRUPTED_AT, str(at), str(patience), str(tmp_path / "chain.tflite"))
    assert (code, said) == (130, "tinyweave: interrupted\n"), f"of {out.splitlines()[-1:]} imports"


def run_python(code: str, *words: str) -> tuple[int, str, str]:
    """Run Python code with the default signal handlers; return its exit code and outputs."""
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **DEFAULT)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr


SWALLOWED = """
import os, signal, sys, time
from tinyweave import __main__, cli

class Noisy:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

def work():
    Noisy()
    time.sleep(float(sys.argv[1]))
    return 0

cli.main = work
sys.exit(__main__.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("seconds", [600, 0])  # 0: the work is done before the next attempt
def test_a_signal_swallowed_by_a_destructor_ends_the_process(seconds: int) -> None:
    assert run_python(SWALLOWED, str(seconds)) == (130, "", "tinyweave: interrupted\n")


CLEANED = """
import os, signal, sys, time
from tinyweave import __main__, cli

def work():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.3)
        print("cleaned up", flush=True)

cli.main = work
sys.exit(__main__.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_second_signal_does_not_interrupt_the_clean_up() -> None:
    assert run_python(CLEANED) == (130, "cleaned up\n", "tinyweave: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.emulator
@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("verb", ["plan", "verify", "deploy"])
def test_ctrl_c_at_any_time_prints_one_line_and_exits_with_130(tmp_path: Path, verb: str, count: int) -> None:
    """A terminal sends Ctrl-C to all processes of a command, including compilers and those that run the C.

    The folder of `deploy` is missing or complete. It is complete if the signal comes while the results are printed.
    """
    (tmp_path / "chain.tflite").write_bytes(to_tflite(tiny.chain()))
    before = contents(tmp_path)
    words = [verb, str(tmp_path / "chain.tflite"), *(["-o", str(tmp_path / "out")] if verb == "deploy" else [])]
    with start_command(words) as process:
        all_out, _ = process.communicate(timeout=60)
    complete = contents(tmp_path)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    delays = random.Random(verb)
    for _ in range(count):
        delay = delays.uniform(0.1, 1.2)
        with start_command(words, start_new_session=True) as process:
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGINT)
            out, said = process.communicate(timeout=60)
        if process.returncode == 0:  # the command had succeeded
            assert "interrupted" not in said and WHOLE[verb] in out, (delay, out, said)
        elif "tinyweave: " in said or str(PACKAGE) in said:  # otherwise the start of Python was interrupted
            assert (process.returncode, said) == (130, LINES[signal.SIGINT]), delay
            found = contents(tmp_path)
            assert found == complete or (found == before and out == ""), delay
            assert all_out.startswith(out), delay
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.skipif(os.name != "posix", reason="needs limits of a process")
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("compile", "-o", "out"), "out/chain.h"),
        (("export", "--format", "cmake", "-o", "out"), "out/CMakeLists.txt"),
        (("report", "-o", "page.html"), "page.html"),
        (("plan", "-o", "plan.json"), "plan.json"),
        (("reorder", "-o", "new.tflite"), "new.tflite"),
    ],
)
def test_a_full_disk_is_reported_with_the_file_and_leaves_no_files(tmp_path: Path, words: tuple[str, ...], file: str) -> None:
    """Files are limited to 1,000 bytes; Python's error does not name the file."""
    (tmp_path / "chain.tflite").write_bytes(to_tflite(tiny.chain()))
    verb, *others = words
    with subprocess.Popen(
        [sys.executable, "-m", "tinyweave", verb, "chain.tflite", *others],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        preexec_fn=small_files,  # noqa: PLW1509 - no thread of this process runs
    ) as process:
        out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert said == f"tinyweave: cannot write '{file}': File too large; give another path\n"
    assert [path.name for path in tmp_path.iterdir()] == ["chain.tflite"]


def small_files() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["devices"], ["plan", "{model}"], ["plan", "{model}", "--json"]])
def test_unwritable_output_is_an_error_and_an_unwritable_message_is_not(tmp_path: Path, words: list[str]) -> None:
    model = tmp_path / "chain.tflite"
    model.write_bytes(to_tflite(tiny.chain()))
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    run = [sys.executable, "-m", "tinyweave"]
    with Path("/dev/full").open("w") as full:
        arguments = [word.format(model=model) for word in words]
        done = subprocess.run([*run, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, check=False)
        assert (done.returncode, done.stderr) == (2, "tinyweave: standard output: No space left on device\n")
        wrong = [*run, "plan", str(tmp_path / "none.tflite")]
        assert subprocess.run(wrong, stderr=full, env=buffered, check=False).returncode == 2


def test_the_command_and_the_module_are_the_same_program() -> None:
    """The module of the console script must import nothing slow before signal handlers are set."""
    root = Path(__file__).parents[2]
    assert 'tinyweave = "tinyweave.__main__:main"' in (root / "pyproject.toml").read_text()
    program = "import sys; import tinyweave.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "typer", "rich", "tinyweave.cli", "tinyweave.api"} & set(done.stdout.split())


def test_links_out_of_a_data_set_are_refused(tmp_path: Path) -> None:
    """A data set is untrusted: its links could lead to private files. The folder itself, and files inside it, may be links."""
    outside, inside = tmp_path / "outside", tmp_path / "data"
    for folder in (outside, inside / "a", inside / "b"):
        folder.mkdir(parents=True)
        np.save(folder / "x.npy", np.zeros(5))
    (inside / "b" / "y.npy").symlink_to(inside / "b" / "x.npy")
    (tmp_path / "link").symlink_to(inside)
    network = Graph("empty", {"x": Tensor("x", (1, 5), "float32")}, (), ("x",), ())
    readers: dict[str, Callable[[Path], object]] = {
        "task": lambda folder: files_of(folder, [".npy"]),
        "calibration": lambda folder: open_samples(folder, network),
        "list": lambda folder: listed(folder, {"test.txt": "test"}),
        "arrays": lambda folder: sample_files(folder / "b", [".npy"]),
        "boxes": read_annotations,
    }
    image = {"id": 1, "file_name": "b/x.npy", "height": 5, "width": 5}
    box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2]}
    labels = {"images": [image], "annotations": [box], "categories": [{"id": 1, "name": "c"}]}
    (inside / "labels.json").write_text(json.dumps(labels))
    (inside / "test.txt").write_text("b/x.npy")
    for folder in (inside, tmp_path / "link"):
        for read in readers.values():
            read(folder)
    for path in ("b/x.npy", "test.txt", "labels.json", "b"):
        target = outside / Path(path).name
        own = (inside / path).rename(tmp_path / "own")
        if not target.exists():
            target.write_bytes(b"" if own.is_dir() else own.read_bytes())
        (inside / path).symlink_to(outside if own.is_dir() else target)
        refused = {
            "b/x.npy": {"task", "calibration", "arrays", "boxes"},
            "test.txt": {"list"},
            "labels.json": {"boxes"},
            "b": {"boxes"},
        }[path]
        for name, read in readers.items():
            if name in refused:
                with pytest.raises(CompileError, match=r"is a link out of '.*', to '.*outside.*'; copy what it leads to"):
                    read(inside)
        (inside / path).unlink()
        own.rename(inside / path)
