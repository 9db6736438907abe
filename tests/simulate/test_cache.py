"""The cache folder has a bounded size, keeps entries in use, is shared by several processes, and notices damaged files."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tinyweave import cli
from tinyweave.ir import CompileError
from tinyweave.support import toolchain
from tinyweave.support.toolchain import Toolchain

COMPILER = Toolchain("gcc", "1", ("gcc",))
LONG_AGO = time.time() - 10 * toolchain.IN_USE_S


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty cache limited to 1000 bytes of builds and 1000 bytes of zig."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(toolchain, "BUILDS_BYTES", 1000)
    monkeypatch.setattr(toolchain, "ZIG_BYTES", 1000)
    toolchain.cache_folder.cache_clear()
    yield toolchain.cache_folder()
    toolchain.cache_folder.cache_clear()


def build(number: int, size: int = 100, used: float = LONG_AGO) -> Path:
    """Make a build that was last used at the time `used`."""
    path = toolchain.cached("x", COMPILER, [str(number)], [], lambda path: path.write_bytes(bytes(size)))
    os.utime(path.parents[1], (used, used))
    return path


def test_the_least_recently_used_builds_are_deleted() -> None:
    paths = [build(number, used=LONG_AGO + number % 7) for number in range(21)]
    toolchain.trim_cache()
    left = [path.is_file() for path in paths]
    assert sum(left) == 10
    assert all(left[number] for number in range(21) if number % 7 > 3)
    assert not any(left[number] for number in range(21) if number % 7 < 3)


def test_a_cache_hit_marks_the_build_as_recently_used() -> None:
    paths = [build(number) for number in range(20)]
    again = toolchain.cached("x", COMPILER, ["0"], [], lambda path: pytest.fail("built twice"))
    toolchain.trim_cache()
    assert again == paths[0] and again.is_file() and sum(path.is_file() for path in paths) == 10


def test_builds_of_other_file_names_are_cached_separately() -> None:
    first = build(0)
    other = toolchain.cached("y", COMPILER, ["0"], [], lambda path: path.write_bytes(b"other"))
    assert first.is_file() and other.read_bytes() == b"other"


def test_recently_used_builds_are_kept_even_above_the_limit() -> None:
    paths = [build(number, used=time.time()) for number in range(20)]
    toolchain.trim_cache()
    assert all(path.is_file() for path in paths)


def test_building_trims_the_cache_at_intervals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(toolchain, "trim_cache", lambda: trims.append(1))
    for number in range(9):
        build(number)
    assert len(trims) == 1
    os.utime(folder / "trimmed", (LONG_AGO, LONG_AGO))
    build(9)
    assert len(trims) == 2


def test_zig_s_folder_is_replaced_and_the_old_one_deleted_once_unused(folder: Path) -> None:
    old = folder / "zig"
    (old / "o").mkdir(parents=True)
    (old / "o" / "x").write_bytes(bytes(2000))
    toolchain.trim_cache()
    new = toolchain._zig_folders()[-1]
    assert new != old and old.is_dir()
    toolchain.trim_cache()
    assert old.is_dir() and toolchain._zig_folders()[-1] == new
    os.utime(new / toolchain.SINCE, (LONG_AGO, LONG_AGO))
    toolchain.trim_cache()
    assert not old.exists() and new.is_dir()


def test_concurrent_building_and_trimming_keeps_builds_in_use() -> None:
    for number in range(30):
        build(number)

    def work(seed: int) -> None:
        for number in range(30):
            flags = [f"{seed % 2}, {number}"]  # each build is made by two threads
            path = toolchain.cached("y", COMPILER, flags, [], lambda path: path.write_bytes(bytes(100)))
            toolchain.trim_cache()
            assert path.read_bytes() == bytes(100)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert toolchain.cache().bytes == 60 * 100, "only what was built long ago is gone"


def test_the_cache_command_shows_and_clears_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(1, 300)
    assert cli.main(["cache"]) == 0
    assert capsys.readouterr().out == f"{folder}: 300 B, kept below about 2,000 B\n"
    assert cli.main(["cache", "--clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "bytes": 0, "limit": 2000}
    assert list(folder.iterdir()) == []


def test_a_compiler_that_builds_nothing_is_reported() -> None:
    with pytest.raises(CompileError, match=r"^gcc built no x and reported no error; use another C compiler$"):
        toolchain.cached("x", COMPILER, [], [], lambda path: None)


def test_a_user_without_a_home_folder_has_a_temporary_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> object:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    toolchain.cache_folder.cache_clear()
    assert toolchain.cache_folder().name.startswith("tinyweave-")


CONTENT = bytes(range(100))


def entry() -> Path:
    """Build a file, and return its path."""
    return toolchain.cached("x", COMPILER, [], [], lambda path: path.write_bytes(CONTENT))


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_entry(path: Path) -> None:
    folder = path.parents[1]
    shutil.rmtree(folder)
    folder.write_bytes(b"")


def unreadable(path: Path) -> None:
    """Make reading fail for root, too."""
    path.unlink()
    path.symlink_to(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(CONTENT[:50]),
    "longer": lambda path: path.write_bytes(CONTENT + b"\0"),
    "a flipped bit": lambda path: path.write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:]),
    "deleted": lambda path: path.unlink(),
    "a folder": replaced_by_a_folder,
    "unreadable": unreadable,
    "another hash": lambda path: path.parent.rename(path.parent.with_name("0" * 32)),
    "no hash": lambda path: shutil.move(path, path.parents[1] / path.name),
    "a file instead of the entry": replaced_entry,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_the_cache_is_built_again(damage: str, folder: Path) -> None:
    DAMAGES[damage](entry())
    path = entry()
    assert path.read_bytes() == CONTENT and folder in path.parents
    assert toolchain.cached("x", COMPILER, [], [], lambda path: pytest.fail("built twice")) == path


def test_a_damaged_object_and_a_damaged_library_are_built_again(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    builds = (
        lambda: toolchain.objects(toolchain.host(), ["-O1"], [source])[0],
        lambda: toolchain.library_file(toolchain.host(), source),
    )
    for build_one in builds:
        content = build_one().read_bytes()
        build_one().write_bytes(content[: len(content) // 2])
        assert build_one().read_bytes() == content


def test_a_build_that_was_killed_leaves_no_entry(folder: Path) -> None:
    code = "import os, signal; from tinyweave.support import toolchain as t; "
    code += "t.cached('x', t.Toolchain('gcc', '1', ('gcc',)), [], [], "
    code += "lambda path: path.write_bytes(b'half') and os.kill(os.getpid(), signal.SIGKILL))"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL and list((folder / "builds").iterdir())
    assert entry().read_bytes() == CONTENT


def test_several_threads_replace_a_damaged_file_at_once() -> None:
    for _ in range(20):
        entry().write_bytes(b"damaged")
        with ThreadPoolExecutor(4) as pool:
            paths = list(pool.map(lambda _: entry().read_bytes(), range(4)))
        assert paths == [CONTENT] * 4


def test_files_are_built_elsewhere_if_the_cache_cannot_be_written(folder: Path) -> None:
    (folder / "builds").write_bytes(b"a file instead of a folder")
    path = entry()
    assert path.read_bytes() == CONTENT and folder not in path.parents
    assert entry() == path


def test_files_are_built_elsewhere_if_the_disk_of_the_cache_is_full(folder: Path) -> None:
    def make(path: Path) -> None:
        if folder in path.parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(CONTENT)

    path = toolchain.cached("x", COMPILER, [], [], make)
    assert path.read_bytes() == CONTENT and folder not in path.parents


def test_a_compiler_that_fails_on_a_full_disk_is_not_blamed() -> None:
    def make(path: Path) -> None:
        raise CompileError("gcc could not build the C code", "correct the C code")

    with pytest.raises(CompileError, match=r"^gcc could not build the C code; correct the C code$"):
        toolchain.cached("never", COMPILER, [], [], make)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (toolchain.LEAST_SPACE - 1, usual[1]))
    try:
        with pytest.raises(CompileError, match=r"^cannot write '.*': File too large; free some space there, or set TMPDIR"):
            toolchain.cached("never", COMPILER, [], [], make)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


ZIG = """#!/bin/sh
echo "$ZIG_LOCAL_CACHE_DIR" >> {log}
test -d "$ZIG_LOCAL_CACHE_DIR" || exit 3
test "$ZIG_GLOBAL_CACHE_DIR" != {damaged} || {{ echo "error: bad library" >&2; exit 1; }}
"""


def test_a_damaged_library_in_zig_s_cache_is_built_again(folder: Path, tmp_path: Path) -> None:
    """zig believes its caches: a failed link is repeated with an empty global cache, and no call finds old objects."""
    damaged, log, zig = folder / "zig", tmp_path / "log", tmp_path / "cc"
    damaged.mkdir()
    zig.write_text(ZIG.format(log=log, damaged=damaged))
    zig.chmod(0o755)
    compiler = Toolchain("zig", "1", (str(zig),))
    for words in (["-c", "x.c"], ["-nostdlib", "x.o"]):  # these read no library
        with pytest.raises(CompileError, match="bad library"):
            toolchain.compile_c(compiler, words)
        assert toolchain._zig_folders()[-1] == damaged
    toolchain.compile_c(compiler, ["x.o", "-o", "x"])
    assert toolchain._zig_folders()[-1] == folder / "zig-1"
    local = log.read_text().split()
    assert len(local) == 4 and len(set(local)) == 3 and not any(Path(path).exists() for path in local)
