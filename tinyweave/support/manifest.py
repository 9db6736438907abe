"""Write a folder of generated files again, and remove the files of an earlier run that are not written any more.

The file MANIFEST (tinyweave.json) in the folder lists our files with their SHA-256. It is not trusted: a file is removed only
if it is inside the folder, is no link, and has the listed SHA-256. Files of the user are never touched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from .. import __version__
from ..ir import CompileError
from .files import files_below, finished_folder, read_file, write_below

MANIFEST = "tinyweave.json"
NAME = re.compile(r"[a-z][a-z0-9_]{0,200}\.(c|h|md|json|html|weights)")  # name of a file in the folder
NESTED = re.compile(
    r"([A-Za-z0-9][\w.+-]{0,200}/){0,8}[A-Za-z0-9][\w.+-]{0,200}", re.ASCII
)  # path of a file that may be in subfolders
MAX_BYTES = 1 << 20


@dataclass
class Written:
    """A generated folder while it is written: `scratch` is the temporary folder that takes its files.

    Then `removed` names the files of an earlier run that were deleted, and `changed` those kept because they had been edited.
    """

    scratch: Path
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@contextmanager
def generated_folder(
    target: Path, command: str, models: Mapping[str, tuple[str, str]], *, is_nested: bool = False
) -> Iterator[Written]:
    """Yield a Written, whose scratch folder takes the files; if the block succeeds, move them to `target`.

    Files of an earlier run that this run did not write are removed, unless they have been edited.

    `command` and `models` (name in C -> name and SHA-256 of its file) are recorded in MANIFEST, which may list files in
    subfolders if `is_nested`. Raise CompileError if the folder cannot be written (`finished_folder`); then nothing is removed.
    """
    with finished_folder(target) as scratch:
        written = Written(scratch)
        yield written
        files = digests(scratch)
        about = {
            "tinyweave": __version__,
            "command": command,
            "models": [{"name": name, "file": file, "sha256": sha256} for name, (file, sha256) in models.items()],
            "files": files,
        }
        write_below(scratch, {MANIFEST: json.dumps(about, indent=2) + "\n"})
        earlier = _listed(target, NESTED if is_nested else NAME)
    for name in sorted(set(earlier) - set(files)):
        path = target / name
        if path.is_file() and not _has_link(target, path):
            is_removed = _digest(path) == earlier[name] and _remove(path, target)
            (written.removed if is_removed else written.changed).append(name)


def digests(folder: Path) -> dict[str, str | None]:
    """Return the SHA-256 of each file in a folder and its subfolders, by relative path; None for an unreadable file."""
    return {path.relative_to(folder).as_posix(): _digest(path) for path in files_below(folder)}


def _has_link(folder: Path, path: Path) -> bool:
    """Return whether a path below `folder` is a symbolic link or passes through one."""
    return any(part.is_symlink() for part in (path, *path.parents) if part != folder and part.is_relative_to(folder))


def _listed(folder: Path, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the files, with their SHA-256, that MANIFEST lists and whose name matches `pattern`; {} if it is damaged."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        return {}
    try:
        manifest: Any = json.loads(read_file(path, MAX_BYTES, ""))
    except (CompileError, ValueError, RecursionError):
        return {}
    files = manifest.get("files") if isinstance(manifest, dict) else None
    listed = files.items() if isinstance(files, dict) else ()
    return {name: digest for name, digest in listed if pattern.fullmatch(name) and name != MANIFEST and isinstance(digest, str)}


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return None
    return digest.hexdigest()


def _remove(path: Path, folder: Path) -> bool:
    """Remove a file and the folders that it leaves empty; return whether the file could be removed."""
    try:
        path.unlink()
    except OSError:
        return False
    with suppress(OSError):  # stops at the first folder that is not empty
        for parent in takewhile(lambda parent: parent != folder, path.parents):
            parent.rmdir()
    return True
