"""Write results so that a file or folder is there as a whole or not at all.

In: target paths and contents. Out: finished files and folders; a CompileError of one line where a target cannot be written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .ir import CompileError


@contextmanager
def finished_folder(target: Path) -> Iterator[Path]:
    """A folder to write in; it becomes `target` when the block ends well and vanishes when it does not.

    An existing target is replaced file by file only where the new folder has the same file; anything that is not a
    folder stays and is an error.
    """
    if target.exists() and not target.is_dir():
        raise CompileError(f"'{target}' exists and is not a folder", "give another -o")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise CompileError(f"cannot write to '{target.parent}': {error.strerror or error}", "give another -o") from error
    try:
        yield scratch
        scratch.chmod(0o755)
        if not target.exists():
            scratch.rename(target)
            return
        for file in scratch.iterdir():
            file.replace(target / file.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write all of `content` or nothing."""
    with finished_folder(path.parent) as scratch:
        (scratch / path.name).write_bytes(content.encode() if isinstance(content, str) else content)
