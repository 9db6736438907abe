"""Write folders again without leaving stale files of ours, or losing anybody else's.

In: a folder, and what its files are of. Out: MANIFEST in it, which lists them with their SHA-256. One that is already there may
be anybody's: it can name only files that lie in the folder itself, or where asked for below it without a link on the way, and
these are removed only if they are what it says.
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

from . import __version__
from .files import files_below, finished_folder, read_file
from .ir import CompileError

MANIFEST = "tinyweave.json"
NAME = re.compile(r"[a-z][a-z0-9_]{0,200}\.(c|h|md|json|html)")  # of a file that is written, no path to elsewhere
NESTED = re.compile(r"([A-Za-z0-9][\w.+-]{0,200}/){0,8}[A-Za-z0-9][\w.+-]{0,200}", re.ASCII)  # of one in a folder of folders
MAX_BYTES = 1 << 20


@dataclass
class Written:
    """A folder that is being written; `scratch` is where.

    Afterwards: names of files that an earlier run wrote and this one did not, `removed`, or left because they were `changed`.
    """

    scratch: Path
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@contextmanager
def generated_folder(
    target: Path, command: str, models: Mapping[str, tuple[str, str]], *, is_nested: bool = False
) -> Iterator[Written]:
    """Yield a Written whose files move to `target` when the block ends well; then remove what an earlier run left there.

    models: name in C -> file and its SHA-256. is_nested: files may lie in folders of the folder, too.
    Raise CompileError as `finished_folder` does, before anything is removed.
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
        (scratch / MANIFEST).write_text(json.dumps(about, indent=2) + "\n", encoding="ascii")
        earlier = _listed(target, NESTED if is_nested else NAME)
    for name in sorted(set(earlier) - set(files)):
        path = target / name
        if path.is_file() and not _has_link(target, path):
            is_removed = _digest(path) == earlier[name] and _remove(path, target)
            (written.removed if is_removed else written.changed).append(name)


def digests(folder: Path) -> dict[str, str | None]:
    """Return the SHA-256 of each file below a folder, by its path there."""
    return {path.relative_to(folder).as_posix(): _digest(path) for path in files_below(folder)}


def _has_link(folder: Path, path: Path) -> bool:
    """Return whether a path below `folder` is a link, or leads over one."""
    return any(part.is_symlink() for part in (path, *path.parents) if part != folder and part.is_relative_to(folder))


def _listed(folder: Path, pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the SHA-256 by name of the files that the list in a folder names; none where it is not of our making."""
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
    """Return the SHA-256 of a file, None for one that cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return None
    return digest.hexdigest()


def _remove(path: Path, folder: Path) -> bool:
    """Remove a file, and the folders below `folder` that it leaves empty; return whether the file could be removed."""
    try:
        path.unlink()
    except OSError:
        return False
    with suppress(OSError):  # the first that is not empty ends it
        for parent in takewhile(lambda parent: parent != folder, path.parents):
            parent.rmdir()
    return True
