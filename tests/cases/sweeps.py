"""The division of a test's parameters between the usual tests and sweeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_in_sweeps(values: Iterable[Any], usual: int) -> list[Any]:
    """Return parameters; the first `usual` run in the usual tests, the others in sweeps only. Tuples stay several arguments."""
    return [
        value if number < usual else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.sweep)
        for number, value in enumerate(values)
    ]
