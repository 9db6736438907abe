"""Which parameters of a test run with every change, and which in sweeps alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_in_sweeps(values: Iterable[Any], usual: int) -> list[Any]:
    """Return parameters of which the first `usual` run with every change and the others in sweeps; tuples stay several."""
    return [
        value if number < usual else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.sweep)
        for number, value in enumerate(values)
    ]
