"""Find C compilers for this machine, Arm Cortex-M and RISC-V, run them, and cache the files that they build.

Compilers come from TINYWEAVE_CC, TINYWEAVE_ARM_CC and TINYWEAVE_RISCV_CC ("zig", or a command line), from PATH, or from the
package ziglang, never from the current folder. A cached file is found by a hash of compiler, flags and sources, and used only
if its content has the hash stored when it was built.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from ..ir import CompileError
from .installing import pip

COMPILE_LIMIT_S = 900
FORMAT = b"2"  # of cache entries; entries of other formats, by other versions of this package, have other keys
ATTEMPTS = 3  # to move a build into the cache
LEAST_SPACE = 1 << 20  # bytes; a compiler that fails with less free space may have failed for this reason
BUILDS_BYTES, ZIG_BYTES = 128 << 20, 128 << 20  # limits in bytes: our cached builds, and zig's own cache
TRIM_EVERY_S = 600
CACHES = {
    "win32": ("LOCALAPPDATA", ""),
    "darwin": ("", "~/Library/Caches"),
}  # platform -> environment variable with the cache folder, default folder
SINCE = "since"  # a file in zig's folder whose time is that of the folder's creation
IN_USE_S = 2 * COMPILE_LIMIT_S  # younger cache entries are kept, since another process may be reading them


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: gcc, clang or zig, one line of `version` for reports, and the words of its `command`."""

    name: str
    version: str
    command: tuple[str, ...]


def host() -> Toolchain:
    """Return the C compiler for this machine; raise CompileError if none is found."""
    return _find(os.environ.get("TINYWEAVE_CC", ""), ("gcc", "cc", "clang"), "a C compiler (gcc or clang)", "TINYWEAVE_CC")


def arm() -> Toolchain:
    """Return the C compiler for Arm Cortex-M; raise CompileError if none is found."""
    return _find(os.environ.get("TINYWEAVE_ARM_CC", ""), ("arm-none-eabi-gcc",), "arm-none-eabi-gcc", "TINYWEAVE_ARM_CC")


def riscv() -> Toolchain:
    """Return the C compiler for 32-bit RISC-V; raise CompileError if none is found. A riscv64 gcc also builds for 32 bits."""
    programs = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc", "riscv-none-elf-gcc")
    return _find(os.environ.get("TINYWEAVE_RISCV_CC", ""), programs, programs[0], "TINYWEAVE_RISCV_CC")


def zig(wanted: str = "zig, which builds WebAssembly,") -> Toolchain:
    """Return the C compiler zig, which builds for all targets; raise CompileError if it is not installed."""
    if path := _zig_of_package() or which("zig"):
        return _describe((path, "cc"), f"{pip()} install ziglang")
    raise CompileError(f"{wanted} is not installed", f"{pip()} install ziglang")


@lru_cache
def _find(forced: str, programs: tuple[str, ...], wanted: str, variable: str) -> Toolchain:
    try:
        words = shlex.split(forced)
    except ValueError as error:
        raise CompileError(f"{variable} is not a command line: {error}", "set it to a compiler, or to zig") from error
    if words == ["zig"]:
        return zig(f"{variable} is zig, which")
    if words:
        named = os.path.abspath(words[0]) if os.path.dirname(words[0]) else which(words[0]) or words[0]
        return _describe((named, *words[1:]), f"correct {variable}")
    for program in programs:
        if path := which(program):
            return _describe((path,), f"set {variable} to another compiler")
    if path := _zig_of_package():
        return _describe((path, "cc"), f"{pip()} install ziglang")
    what_to_do = f"{pip()} install ziglang, install {wanted}, or set {variable}"
    raise CompileError(f"found no C compiler: neither {wanted} nor ziglang", what_to_do)


def which(program: str) -> str | None:
    """Return the path of a program, searched in the absolute folders of PATH only, or None if it is not found."""
    return next((path for folder in search_path() if (path := shutil.which(os.path.join(folder, program)))), None)


def search_path() -> list[str]:
    """Return the absolute folders of PATH; relative folders would depend on the current folder."""
    return [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def import_folders() -> list[str]:
    """Return the folders that this process imports modules from, without the current folder."""
    here = os.path.realpath(os.curdir)
    return [folder for folder in sys.path if os.path.isabs(folder) and os.path.realpath(folder) != here]


def _zig_of_package() -> str | None:
    """Return the path of zig in the installed package ziglang, None if it is not installed."""
    spec = PathFinder.find_spec("ziglang", import_folders())
    folders = spec.submodule_search_locations or () if spec else ()
    return next((path for folder in folders if (path := shutil.which(os.path.join(folder, "zig")))), None)


def _describe(command: tuple[str, ...], what_to_do: str) -> Toolchain:
    text = _run((*command, "--version"), f"{command[0]} cannot be run", what_to_do)
    version = text.splitlines()[0].strip() if text.strip() else ""
    if "zig" in Path(command[0]).name or "ziglang" in command:
        number = _run((*command[:-1], "version"), f"{command[0]} cannot be run", what_to_do).strip()
        return Toolchain("zig", f"zig {number} ({version})", command)
    return Toolchain("clang" if "clang" in version else "gcc", version, command)


def compile_c(toolchain: Toolchain, arguments: Iterable[str | Path]) -> None:
    """Run the compiler with `arguments`; raise CompileError with the compiler's error lines if it fails.

    It runs in the cache folder, so a Path is made absolute; a string is passed on unchanged.
    """
    words = tuple(os.path.abspath(word) if isinstance(word, Path) else word for word in arguments)
    why = f"{toolchain.name} could not build the C code"
    what_to_do = "correct the C code, or set TINYWEAVE_CC, TINYWEAVE_ARM_CC or TINYWEAVE_RISCV_CC to another compiler"
    if toolchain.name != "zig":
        _run((*toolchain.command, *words), why, what_to_do)
        return
    # zig believes what is in its caches. So each call has a local cache of its own, and only libraries are in the global one.
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as local:
        try:
            _run((*toolchain.command, *words), why, what_to_do, local)
        except CompileError:
            if "-c" in words or "-nostdlib" in words:  # no library was read
                raise
            _begin_zig_folder(_zig_folders()[-1])  # zig builds its libraries again, in case that one is damaged
            _run((*toolchain.command, *words), why, what_to_do, local)


def _run(command: tuple[str, ...], why: str, what_to_do: str, local: str = "") -> str:
    # zig keeps its own cache, by default in a home folder that may be read-only
    zig = str(_zig_folders()[-1])
    environment = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": local or zig} | os.environ
    environment |= {"LC_ALL": "C", "PATH": os.pathsep.join(search_path())}  # where compilers look for assembler and linker
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            cwd=cache_folder(),
            timeout=COMPILE_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompileError(f"{why}: {error}", what_to_do) from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.search(r"error|undefined|cannot", line, re.IGNORECASE)]
        said = "\n".join((lines or done.stderr.splitlines())[:8]) or f"exit code {done.returncode}"
        raise CompileError(f"{why}: {said}", what_to_do)
    return done.stdout


@lru_cache
def cache_folder() -> Path:
    """Return the user's cache folder for tinyweave, or a private temporary folder if that one is not writable."""
    variable, usual = CACHES.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    try:
        folder = Path(os.environ.get(variable, "") or Path(usual).expanduser()) / "tinyweave"
        if not folder.is_absolute():
            raise OSError("no home folder")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):
        return Path(_temporary().name)


@lru_cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tinyweave-")


def cached(name: str, toolchain: Toolchain, flags: Iterable[str], files: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """Return the path of the cached file `name`, and build it first if it is not in the cache.

    `files` are all that the build reads: the key is a hash of name, compiler, flags, and their names and contents. `make`
    builds the file at the path that it gets.
    """
    digest = hashlib.sha256(FORMAT)
    for text in (name, *toolchain.command, toolchain.version, *flags):
        digest.update(text.encode() + b"\0")
    for path in files:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    entry = Path("builds", digest.hexdigest()[:32])
    try:
        return _cached_in(cache_folder() / entry, name, toolchain, make)
    except OSError:  # the cache folder is full, or parts of it cannot be written
        pass
    try:
        return _cached_in(Path(_temporary().name) / entry, name, toolchain, make)
    except OSError as error:
        what_to_do = "free some space there, or set TMPDIR to another folder"
        raise CompileError(f"cannot write '{_temporary().name}': {error.strerror or error}", what_to_do) from error


def _cached_in(entry: Path, name: str, toolchain: Toolchain, make: Callable[[Path], None]) -> Path:
    """Return the path of the file `name` of a cache entry; build the file first if it is missing or damaged.

    The file is in a folder that is named by its hash, so one that another program or a crash has changed is recognised. Raise
    OSError if the entry cannot be written.
    """
    with contextlib.suppress(OSError):  # never built, or just deleted by another process
        path = _intact(entry, name)
        if path:
            os.utime(entry)
            return path
    entry.parent.mkdir(parents=True, exist_ok=True)
    _trim_now_and_then()
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix="making-", ignore_cleanup_errors=True) as making:
        built = Path(making) / name
        try:
            make(built)
        except CompileError:
            (Path(making) / "space").write_bytes(bytes(LEAST_SPACE))  # an OSError, if it failed since the disk is full
            raise
        if not built.is_file():
            raise CompileError(f"{toolchain.command[0]} built no {name} and reported no error", "use another C compiler")
        target = entry / _hash(built) / name
        for attempt in range(ATTEMPTS):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                built.replace(target)  # at no moment is the file missing for those who were faster, nor is it half-written
                break
            except OSError:  # another process is deleting the entry, or something else stands in its place
                if attempt == ATTEMPTS - 1:
                    raise
                if target.is_dir() or target.parent.is_file() or entry.is_file():
                    _remove(entry)
    path = _intact(entry, name)
    if path is None:
        raise OSError(errno.EIO, f"the file {name} changed after it was written")
    return path


def _intact(entry: Path, name: str) -> Path | None:
    """Return the path of the file `name` of a cache entry if its content has the hash that was stored with it, else None."""
    for folder in _children(entry):
        with contextlib.suppress(OSError):
            if _hash(folder / name) == folder.name:
                return folder / name
    return None


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


LIBRARY_FLAGS = ("-shared", "-fPIC", "-O3", "-std=c99")


def library_file(compiler: Toolchain, *sources: Path) -> Path:
    """Return the path of a cached shared library of C files; call this before each use, so that it is not evicted."""
    name, files = sources[0].with_suffix(".so").name, [path for source in sources for path in _read_with(source)]
    words: list[str | Path] = [*LIBRARY_FLAGS, *sources, "-o"]
    return cached(name, compiler, LIBRARY_FLAGS, files, lambda path: compile_c(compiler, [*words, path]))


@lru_cache
def library(*sources: Path) -> ctypes.CDLL | None:
    """Return our C files `sources` as a loaded shared library, built for this machine, or None if no compiler can build it."""
    try:
        return ctypes.CDLL(str(library_file(host(), *sources)))
    except (CompileError, OSError):
        return None


def _read_with(source: Path) -> list[Path]:
    """Return a C file and all files that it includes, directly or indirectly, with `#include "path"`."""
    names = re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE)
    return [source, *(path for name in names for path in _read_with(source.parent / name))]


class BuildCache(NamedTuple):
    """The cache of built programs: its folder, its size in bytes, and the size in bytes to which it is trimmed."""

    folder: Path
    bytes: int
    limit: int


def cache(*, clear: bool = False) -> BuildCache:
    """Return the folder and the size of the cache of built programs; `clear` first deletes all files in it."""
    for path in cache_folder().iterdir() if clear else ():
        _remove(path)
    return BuildCache(cache_folder(), _bytes_of(cache_folder()), BUILDS_BYTES + ZIG_BYTES)


def trim_cache() -> None:
    """Delete the least recently used builds until they are within BUILDS_BYTES, and limit zig's own cache to ZIG_BYTES.

    Entries younger than IN_USE_S stay. zig's cache cannot be trimmed in part: if it is too large, zig gets a new folder, and
    the old one is deleted once no compiler can be using it.
    """
    now = time.time()
    entries = sorted((used, path) for path in _children(cache_folder() / "builds") if (used := _used(path)) is not None)
    sizes = {path: _bytes_of(path) for _, path in entries}
    total = sum(sizes.values())
    for used, path in entries:
        if total <= BUILDS_BYTES or now - used < IN_USE_S:
            break
        total -= sizes[path]
        if _used(path) == used:  # not used meanwhile
            _remove(path)
    *older, current = _zig_folders()
    since = _used(current / SINCE)
    if since is not None and now - since > IN_USE_S:
        for path in older:
            _remove(path)
    if _bytes_of(current) > ZIG_BYTES:
        _begin_zig_folder(current)


def _trim_now_and_then() -> None:
    stamp = cache_folder() / "trimmed"
    trimmed = _used(stamp)
    if trimmed is None or abs(time.time() - trimmed) > TRIM_EVERY_S:
        with contextlib.suppress(OSError):  # a cache that cannot be written is not trimmed
            stamp.touch()
            trim_cache()


def _zig_folders() -> list[Path]:
    """Return the folders that zig caches its files in: old ones, to be deleted, and last the current one."""
    folders = [path for path in _children(cache_folder()) if re.fullmatch(r"zig(-\d+)?", path.name)]
    return sorted(folders, key=_number) or [cache_folder() / "zig"]


def _begin_zig_folder(current: Path) -> None:
    """Make a new, empty folder for zig's global cache; the old one `current` is deleted once no compiler can be using it."""
    with contextlib.suppress(OSError):
        following = current.with_name(f"zig-{_number(current) + 1}")
        following.mkdir(parents=True, exist_ok=True)
        (following / SINCE).touch()


def _number(folder: Path) -> int:
    return int(folder.name[len("zig-") :] or 0)


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _used(path: Path) -> float | None:
    """Return when a path was last used (its modification time in seconds), or None if it does not exist."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return None


def _bytes_of(folder: Path) -> int:
    """Return the total size of all files below a folder in bytes; files that other processes delete meanwhile are skipped."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def _remove(path: Path) -> None:
    """Delete a file or folder of the cache. A folder is first moved away, so that other processes never see a part of it."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=path.parent, prefix="old-") as folder:
        path.rename(Path(folder) / "entry")


def objects(toolchain: Toolchain, flags: Sequence[str], files: Sequence[Path], include: Sequence[str] = ()) -> list[Path]:
    """Return the path of an object file for each C file in `files`, compiled once and cached, since all models share kernels.

    `files` are C files and headers. -DTW_TRACE, and the header of a word -includeFILE, are left out for a C file that does not
    use the trace hook, itself or in a header, so that builds with and without it share its object. `include` are further words,
    such as header folders.
    """
    headers = {file.name: file for file in files}
    paths = []
    for file in (file for file in files if file.suffix == ".c"):
        used = _included(file, headers)
        traced = any("TW_TRACE" in header.read_text() for header in used)
        chosen = ["-c", *(flag for flag in flags if traced or not flag.startswith(("-DTW_TRACE", "-include")))]
        used += [Path(flag.removeprefix("-include")) for flag in chosen if flag.startswith("-include")]

        def make(path: Path, file: Path = file, chosen: Sequence[str] = chosen) -> None:
            compile_c(toolchain, [*chosen, "-I", file.parent, *include, file, "-o", path])

        paths.append(cached(f"{file.stem}.o", toolchain, chosen, used, make))
    return paths


def _included(file: Path, headers: Mapping[str, Path]) -> list[Path]:
    """Return `file` and the files of `headers` (name -> path) that it includes, directly or indirectly, sorted by name."""
    waiting, included = [file], {file.name: file}
    while waiting:
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)', waiting.pop().read_text(), re.MULTILINE):
            if name in headers and name not in included:
                included[name] = headers[name]
                waiting.append(headers[name])
    return [included[name] for name in sorted(included)]


def sources(folder: Path, model: str) -> list[Path]:
    """Return the C files and headers of an emitted model in a folder; raise CompileError if the model is not there."""
    if not (folder / f"{model}.h").is_file():
        what_to_do = "give the folder and the name of a model written by 'tinyweave compile'"
        raise CompileError(f"there is no {model}.h in {folder}", what_to_do)
    return sorted((*folder.glob("*.c"), *folder.glob("*.h")))
