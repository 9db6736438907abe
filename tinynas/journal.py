"""Files of JSON lines that record the measurements of a run when they are made, so that an interrupted run resumes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tinyweave.support.files import named

from .arch import Arch, to_json


def append(file: Path, value: Any) -> None:
    """Append a JSON value to a file as a line of its own, and close the file."""
    with named(file), file.open("a") as out:
        out.write("\n" + json.dumps(value))  # newline first: an interrupted write may have cut off the last line


def entries(file: Path) -> Iterator[Any]:
    """Yield the JSON value of each line of a file; skip lines that an interruption cut off. Without a file, yield nothing."""
    for line in file.read_text().splitlines() if file.is_file() else ():
        with suppress(ValueError):
            yield json.loads(line)


class Ledger:
    """Recorded measurements: "costs" (False: cannot fit by lower bounds), "accuracy", and "built" (costs of a build)."""

    def __init__(self, file: Path | None) -> None:
        """Read the measurements in `file` if it exists. If `file` is None, measurements are kept in memory only."""
        self.file, self.known = file, dict[tuple[str, str], Any]()
        for entry in entries(file) if file is not None else ():
            with suppress(ValueError, TypeError):
                arch, kind, value = entry
                self.known[arch, kind] = value

    def __call__(self, arch: Arch, kind: str) -> Any:
        """Return the recorded measurement of a network, or None if there is none; `kind` is "costs", "accuracy" or "built"."""
        return self.known.get((to_json(arch), kind))

    def add(self, arch: Arch, kind: str, value: Any) -> None:
        """Record a measurement of a network, in memory and in the file."""
        self.known[to_json(arch), kind] = value
        if self.file is not None:
            append(self.file, [to_json(arch), kind, value])
