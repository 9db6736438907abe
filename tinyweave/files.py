"""Read files of bounded size, and write results so that all of them are there or none.

In: paths and contents. Out: contents, finished files and folders; a CompileError of one line where that cannot be done.
Scratch lies in the folder that the results go to, so that both are on one file system and no other folder must be writable.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .ir import CompileError

SCRATCH = ".tinyweave-"  # how the names of scratch folders begin


def read_file(path: Path, limit: int, what_to_do: str) -> bytes:
    """Return a file's bytes; raise CompileError where it cannot be read or has more than `limit` of them.

    No more than that is read, because a file may claim any size, and a device such as /dev/zero has none.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise CompileError(f"cannot read '{path}': {said or error}", what_to_do) from error
    if len(content) > limit:
        raise CompileError(f"'{path}' has more than {limit:,} bytes", what_to_do)
    return content


@contextmanager
def finished_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder whose files move to the folder `target` when the block ends well, and vanish when it does not.

    An existing folder keeps its other files, and so do folders inside it. Raise CompileError where `target`, or a folder inside
    it that is needed, is no folder or cannot be written.
    """
    with told(target):
        if target.exists() and not target.is_dir():
            raise CompileError(f"'{target}' exists and is not a folder", "give another path")
    with _scratch(target) as scratch:
        yield scratch
        _move_in([(file, target / file.relative_to(scratch)) for file in files_below(scratch)])


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder of ours, sorted."""
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def write_below(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write new files into a folder of ours, by their paths inside it; their folders are made."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_file(path: Path, content: str | bytes) -> None:
    """Write all of `content` or nothing."""
    write_files({path: content})


def write_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write every file, or none where one of them cannot be written; what is no regular file, as a pipe, is written to."""
    with ExitStack() as stack:
        moves: list[tuple[Path, Path]] = []
        for path, content in contents.items():
            raw = content.encode() if isinstance(content, str) else content
            with told(path):
                target = Path(os.path.realpath(path))  # a link to a file stays a link
                special = target.exists() and not target.is_file() and not target.is_dir()
            # a scratch folder gets the file, because the file's own name may be as long as a name can be
            copy = path if special else stack.enter_context(_scratch(target.parent)) / target.name
            with told(path):
                copy.write_bytes(raw)
            moves += [] if special else [(copy, target)]
        _move_in(moves)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Yield a new folder inside `folder`, which is made if it does not exist, and unmade when the block fails."""
    scratch = folder / f"{SCRATCH}{secrets.token_hex(4)}"
    new: list[Path] = []
    try:
        with told(folder):
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
    """Move each file from its scratch folder to its target; when one cannot be moved, put back what was there."""
    undo: list[tuple[Path, Path | None]] = []
    new: list[Path] = []  # folders that were made, the outer ones first
    try:
        for source, target in moves:
            with told(target.parent):
                new += reversed([path for path in (target.parent, *target.parent.parents) if not path.exists()])
                target.parent.mkdir(parents=True, exist_ok=True)
            with told(target):
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
def told(path: Path) -> Iterator[None]:
    """Tell a failure to write as one line that names the path."""
    try:
        yield
    except OSError as error:
        raise CompileError(f"cannot write '{path}': {error.strerror or error}", "give another path") from error
