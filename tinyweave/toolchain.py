"""Finds and runs C compilers, for this machine, for Arm Cortex-M and for RISC-V.

In: PATH, the installed ziglang package, and TINYWEAVE_CC, TINYWEAVE_ARM_CC, TINYWEAVE_RISCV_CC ("zig", or a command line).
Out: a Toolchain, and built files in a cache folder that is keyed by everything that went into them. A missing compiler is a
CompileError. Nothing of the folder that this process was started in is run, whatever PATH and sys.path say.
"""

from __future__ import annotations

import contextlib
import ctypes
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

from .ir import CompileError

COMPILE_LIMIT_S = 900
BUILDS_BYTES, ZIG_BYTES = 128 << 20, 128 << 20  # of the cache folder: what we built, and what zig keeps
TRIM_EVERY_S = 600
CACHES = {"win32": ("LOCALAPPDATA", ""), "darwin": ("", "~/Library/Caches")}  # variable and folder, where not XDG's
SINCE = "since"  # a file in zig's folder, as old as the folder
IN_USE_S = 2 * COMPILE_LIMIT_S  # what was used since then stays, for another process may be reading it


@dataclass(frozen=True)
class Toolchain:
    """A C compiler driver. name: gcc, clang or zig (clang as ziglang ships it). version: one line, for reports."""

    name: str
    version: str
    command: tuple[str, ...]


def host() -> Toolchain:
    """Return the C compiler for programs that run here."""
    return _find(os.environ.get("TINYWEAVE_CC", ""), ("gcc", "cc", "clang"), "a C compiler (gcc or clang)", "TINYWEAVE_CC")


def arm() -> Toolchain:
    """Return the C compiler for Cortex-M."""
    return _find(os.environ.get("TINYWEAVE_ARM_CC", ""), ("arm-none-eabi-gcc",), "arm-none-eabi-gcc", "TINYWEAVE_ARM_CC")


def riscv() -> Toolchain:
    """Return the C compiler for 32-bit RISC-V; a riscv64 gcc builds for both."""
    programs = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc", "riscv-none-elf-gcc")
    return _find(os.environ.get("TINYWEAVE_RISCV_CC", ""), programs, programs[0], "TINYWEAVE_RISCV_CC")


@lru_cache
def _find(forced: str, programs: tuple[str, ...], wanted: str, variable: str) -> Toolchain:
    try:
        words = shlex.split(forced)
    except ValueError as error:
        raise CompileError(f"{variable} is not a command line: {error}", "name a compiler, or zig") from error
    if words == ["zig"]:
        if path := _zig_of_package() or which("zig"):
            return _describe((path, "cc"), "pip install ziglang")
        raise CompileError(f"{variable} asks for zig, which is not installed", "pip install ziglang")
    if words:
        named = os.path.abspath(words[0]) if os.path.dirname(words[0]) else which(words[0]) or words[0]
        return _describe((named, *words[1:]), f"{variable} names it")
    for program in programs:
        if path := which(program):
            return _describe((path,), f"{variable} may name another")
    if path := _zig_of_package():
        return _describe((path, "cc"), "pip install ziglang")
    what_to_do = f"pip install ziglang, install {wanted}, or set {variable}"
    raise CompileError(f"found no C compiler: neither {wanted} nor ziglang", what_to_do)


def which(program: str) -> str | None:
    """Return the path of a program in PATH, of whose folders only those count that are absolute."""
    return next((path for folder in search_path() if (path := shutil.which(os.path.join(folder, program)))), None)


def search_path() -> list[str]:
    """Return the folders of PATH, without those that depend on the folder that this process runs in."""
    return [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def import_folders() -> list[str]:
    """Return where this process imports from, without the folder that it runs in."""
    here = os.path.realpath(os.curdir)
    return [folder for folder in sys.path if os.path.isabs(folder) and os.path.realpath(folder) != here]


def _zig_of_package() -> str | None:
    """Return the program that the package ziglang brings."""
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
    """Run the compiler in a folder of our own; paths may be relative to this process's, words may not.

    What it says about an error is the CompileError's text.
    """
    _run(
        (*toolchain.command, *(os.path.abspath(word) if isinstance(word, Path) else word for word in arguments)),
        f"{toolchain.name} could not build the C code",
        "mend the C, or name another compiler in TINYWEAVE_CC, TINYWEAVE_ARM_CC or TINYWEAVE_RISCV_CC",
    )


def _run(command: tuple[str, ...], why: str, what_to_do: str) -> str:
    # zig keeps its own cache, by default in a home folder that may be read-only
    zig = str(_zig_folders()[-1])
    environment = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig} | os.environ
    environment |= {"LC_ALL": "C", "PATH": os.pathsep.join(search_path())}  # compilers look for assembler and linker there
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
    """Return where built files live: the user's cache folder, or a private temporary one where that cannot be written."""
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
    """Return the file `name` that `make(path)` writes, made only once for the same compiler, flags and contents of `files`."""
    digest = hashlib.sha256()
    for text in (name, *toolchain.command, toolchain.version, *flags):
        digest.update(text.encode() + b"\0")
    for path in files:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    builds = cache_folder() / "builds"
    entry = builds / digest.hexdigest()[:32]
    with contextlib.suppress(FileNotFoundError):  # never built, or removed by another process just now
        if (entry / name).is_file():
            os.utime(entry)
            return entry / name
    builds.mkdir(exist_ok=True)
    _trim_now_and_then()
    with tempfile.TemporaryDirectory(dir=builds, prefix="making-") as making:
        folder = Path(making) / "entry"
        folder.mkdir()
        make(folder / name)
        if not (folder / name).is_file():
            raise CompileError(f"{toolchain.command[0]} built no {name} and gave no error", "name a C compiler")
        try:
            folder.rename(entry)
        except OSError:  # another process was faster, or is removing an older one
            if not (entry / name).is_file():
                folder.rename(entry)
    return entry / name


LIBRARY_FLAGS = ("-shared", "-fPIC", "-O3", "-std=c99")


def library_file(source: Path, compiler: Toolchain) -> Path:
    """Return a C file of ours as a shared library; asked for each time, the cache knows that it is in use."""
    name, files = source.with_suffix(".so").name, _read_with(source)
    words = [*LIBRARY_FLAGS, source, "-o"]
    return cached(name, compiler, LIBRARY_FLAGS, files, lambda path: compile_c(compiler, [*words, path]))


@lru_cache
def library(source: Path) -> ctypes.CDLL | None:
    """Return a C file of ours as functions to call, built once for this machine; None where nothing can build it."""
    try:
        return ctypes.CDLL(str(library_file(source, host())))
    except (CompileError, OSError):
        return None


def _read_with(source: Path) -> list[Path]:
    """Return a C file and the C files that it includes, by their paths from it."""
    names = re.findall(r'^#include "([^"]+)"', source.read_text(), re.MULTILINE)
    return [source, *(path for name in names for path in _read_with(source.parent / name))]


def cache_bytes() -> int:
    """Return the bytes of all files in the cache folder."""
    return _bytes_of(cache_folder())


def clear_cache() -> None:
    """Remove all files of the cache folder."""
    for path in cache_folder().iterdir():
        _remove(path)


def trim_cache() -> None:
    """Remove the builds that were used the longest ago until the rest is within its limit, and zig's folder beyond its own.

    zig cannot do with parts of its folder, so it gets a new one; the one before stays as long as a compiler may be using it.
    """
    now = time.time()
    entries = sorted((used, path) for path in _children(cache_folder() / "builds") if (used := _used(path)) is not None)
    sizes = {path: _bytes_of(path) for _, path in entries}
    total = sum(sizes.values())
    for used, path in entries:
        if total <= BUILDS_BYTES or now - used < IN_USE_S:
            break
        total -= sizes[path]
        if _used(path) == used:  # nobody asked for it since
            _remove(path)
    *older, current = _zig_folders()
    since = _used(current / SINCE)
    if since is not None and now - since > IN_USE_S:
        for path in older:
            _remove(path)
    if _bytes_of(current) > ZIG_BYTES:
        following = current.with_name(f"zig-{_number(current) + 1}")
        following.mkdir(exist_ok=True)
        (following / SINCE).touch()


def _trim_now_and_then() -> None:
    stamp = cache_folder() / "trimmed"
    trimmed = _used(stamp)
    if trimmed is None or abs(time.time() - trimmed) > TRIM_EVERY_S:
        stamp.touch()
        trim_cache()


def _zig_folders() -> list[Path]:
    """Return the folders in which zig keeps what it built, the current one last."""
    folders = [path for path in _children(cache_folder()) if re.fullmatch(r"zig(-\d+)?", path.name)]
    return sorted(folders, key=_number) or [cache_folder() / "zig"]


def _number(folder: Path) -> int:
    return int(folder.name[len("zig-") :] or 0)


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _used(path: Path) -> float | None:
    """Return when a path was last used, in seconds, or None where there is none."""
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return None


def _bytes_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; other processes may be removing some."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def _remove(path: Path) -> None:
    """Remove a file or folder of the cache: it vanishes at once for other processes, then its bytes are freed."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=path.parent, prefix="old-") as folder:
        path.rename(Path(folder) / "entry")


def objects(toolchain: Toolchain, flags: Sequence[str], files: Sequence[Path], include: Sequence[str] = ()) -> list[Path]:
    """Return an object per C file of `files`, made only once for the same flags and contents: kernels are shared by all models.

    `include` says where to look for headers; which ones a file uses is found among `files`. A file that does not speak of
    TW_TRACE is the same with and without the trace hook.
    """
    headers = {file.name: file for file in files}
    paths = []
    for file in (file for file in files if file.suffix == ".c"):
        used = _included(file, headers)
        traced = any("TW_TRACE" in header.read_text() for header in used)
        chosen = ["-c", *(flag for flag in flags if traced or not flag.startswith("-DTW_TRACE"))]

        def make(path: Path, file: Path = file, chosen: Sequence[str] = chosen) -> None:
            compile_c(toolchain, [*chosen, "-I", file.parent, *include, file, "-o", path])

        paths.append(cached(f"{file.stem}.o", toolchain, chosen, used, make))
    return paths


def _included(file: Path, headers: Mapping[str, Path]) -> list[Path]:
    """`file` and all that it includes of `headers`, by name."""
    waiting, included = [file], {file.name: file}
    while waiting:
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^">]+)', waiting.pop().read_text(), re.MULTILINE):
            if name in headers and name not in included:
                included[name] = headers[name]
                waiting.append(headers[name])
    return [included[name] for name in sorted(included)]


def sources(folder: Path, model: str) -> list[Path]:
    """Return the C files and headers of an emitted model, which must be there."""
    if not (folder / f"{model}.h").is_file():
        raise CompileError(f"{folder} holds no {model}.h", "give the folder and the name that 'tinyweave compile' wrote")
    return sorted((*folder.glob("*.c"), *folder.glob("*.h")))
