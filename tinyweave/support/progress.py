"""The type of functions that report the progress of long work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with what is counted, the number done, and the total, 0 if that is unknown."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing; the default Progress function."""
