"""The cache folder has a bounded size, keeps entries in use, and may be shared by several processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tinyweave import cli, toolchain
from tinyweave.ir import CompileError
from tinyweave.toolchain import Toolchain

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
    os.utime(path.parent, (used, used))
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
    assert toolchain.cache_bytes() == 60 * 100, "only what was built long ago is gone"


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
