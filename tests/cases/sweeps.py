"""The division of a test's parameters between the usual tests and sweeps, and of the real models between parts of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

PARTS = 8  # of the real models, so that a run of CI, which takes one in eight parameters of a sweep, takes one part


def part_of(files: Iterable[Path], part: int) -> list[Path]:
    """Return the files of a part: every eighth of them in order."""
    return sorted(files)[part::PARTS]


def rest_in_sweeps(values: Iterable[Any], usual: int) -> list[Any]:
    """Return parameters; the first `usual` run in the usual tests, the others in sweeps only. Tuples stay several arguments."""
    return [
        value if number < usual else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.sweep)
        for number, value in enumerate(values)
    ]
