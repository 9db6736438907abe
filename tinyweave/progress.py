"""Report how far long work is. In: a function that is told. Out: nothing."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called while working: what, how many of it are done, of how many in all; 0 where that is not known."""


def silent(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""
