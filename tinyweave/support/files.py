"""Read files of limited size; write files atomically, which means all of them or none. In: paths, contents.

Out: contents, finished files and folders, or a CompileError of one line. New files are first written to a scratch folder: a
hidden one inside the target, so that both are on one file system and no other folder must be writable.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..ir import CompileError

SCRATCH = ".tinyweave-"  # prefix of scratch folders
SOURCES = Path(__file__).parents[1:3]  # where docs/ and examples/ are: the package in a wheel, the root of a checkout


def shipped_folder(name: str) -> Path:
    """Return the path of a folder such as "docs"; raise CompileError if this copy of tinyweave was installed without it."""
    folder = next((source / name for source in SOURCES if (source / name).is_dir()), None)
    if folder is None:
        raise CompileError(f"this copy of tinyweave was installed without {name}", "install it with pip, which adds the folder")
    return folder


def read_file(path: Path, limit: int, what_to_do: str) -> bytes:
    """Return the bytes of a file, read at most to `limit` + 1; raise CompileError if it cannot be read or is larger."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise CompileError(f"cannot read '{path}': {said or error}", what_to_do) from error
    if len(content) > limit:
        raise CompileError(f"'{path}' has more than {limit:,} bytes", what_to_do)
    return content


def check_inside(folder: Path, paths: Sequence[Path]) -> None:
    """Raise CompileError if a path in a folder leads out of it, by a symbolic link; the folder itself may be a link."""
    root, parents = folder.resolve(), {parent: parent.resolve() for parent in {path.parent for path in paths}}
    for path in paths:
        target = path.resolve() if path.is_symlink() else parents[path.parent] / path.name
        if not target.is_relative_to(root):
            raise CompileError(f"'{path}' is a link out of '{folder}', to '{target}'", "copy what it leads to into the folder")


@contextmanager
def finished_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder; its files move to `target` if the block succeeds, and are deleted if it raises.

    Other files in it stay. Raise CompileError if the target, or a folder needed inside it, is no folder or cannot be written.
    """
    with write_errors(target):
        if target.exists() and not target.is_dir():
            raise CompileError(f"'{target}' exists and is not a folder", "give another path")
    with _scratch(target) as scratch:
        with _scratch_errors(scratch, target):
            yield scratch
        _move_in([(file, target / file.relative_to(scratch)) for file in files_below(scratch)])


def files_below(folder: Path) -> list[Path]:
    """Return all files in a folder and its subfolders, sorted."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def write_below(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files into a folder and its subfolders, which are created; `contents` maps relative paths to contents."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with named(path):
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically: an error leaves an existing file unchanged."""
    write_files({path: content})


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write all files, or none if one of them cannot be written. Only special files such as pipes are written directly."""
    with ExitStack() as stack:
        moves: list[tuple[Path, Path]] = []
        for path, content in contents.items():
            raw = content.encode() if isinstance(content, str) else content
            with write_errors(path):
                target = Path(os.path.realpath(path))  # a symbolic link stays a link
                special = target.exists() and not target.is_file() and not target.is_dir()
            # a scratch folder, and not a longer temporary name: the file's name may already have the largest length
            copy = path if special else stack.enter_context(_scratch(target.parent)) / target.name
            with write_errors(path):
                copy.write_bytes(raw)
            moves += [] if special else [(copy, target)]
        _move_in(moves)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a new scratch folder inside `folder`, deleted at the end, with the parents it created if the block raises."""
    scratch = folder / f"{SCRATCH}{secrets.token_hex(4)}"
    new: list[Path] = []
    try:
        with write_errors(folder):
            new += [path for path in (folder, *folder.parents) if not path.exists()]
            scratch.mkdir(parents=True)
        yield scratch
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise
    shutil.rmtree(scratch, ignore_errors=True)


def _move_in(moves: Sequence[tuple[Path, Path]]) -> None:
    """Move each (source, target) file from its scratch folder to its target; after an error, restore all targets."""
    undo: list[tuple[Path, Path | None]] = []
    new: list[Path] = []  # created folders, outer ones first
    try:
        for source, target in moves:
            with write_errors(target.parent):
                new += reversed([path for path in (target.parent, *target.parent.parents) if not path.exists()])
                target.parent.mkdir(parents=True, exist_ok=True)
            with write_errors(target):
                backup = source.with_name(f"{len(undo)}.old") if target.exists() else None
                if backup:
                    shutil.copy2(target, backup)
                undo.append((target, backup))
                source.replace(target)
    except BaseException:
        for target, backup in undo:
            with suppress(OSError):
                if backup:
                    backup.replace(target)
                else:
                    target.unlink(missing_ok=True)
        for path in reversed(new):
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Run a block; give an OSError without a file name, as of failed writes, the name `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def _scratch_errors(scratch: Path, target: Path) -> Iterator[None]:
    """Run a block; if it raises an OSError about a file in the scratch folder, raise a CompileError that names its target."""
    try:
        with named(scratch):
            yield
    except OSError as error:
        path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else None
        if path is None or not path.is_relative_to(scratch):
            raise
        with write_errors(target / path.relative_to(scratch)):
            raise


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Run a block; if it raises an OSError, raise a CompileError that names `path`."""
    try:
        yield
    except OSError as error:
        raise CompileError(f"cannot write '{path}': {error.strerror or error}", "give another path") from error
