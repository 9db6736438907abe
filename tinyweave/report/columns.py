"""Text in columns: names and numbers as people read them, aligned, wrapped, with bars. In: plain values. Out: lines.

Names out of model files are cleaned before they are shown, so that no file can write control codes to a terminal.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from ..ir import printable

WIDTH = 100  # columns
MIN_WIDTH = 40
MIN_BAR = 4
GOOD_BAR = 8
MAX_BAR = 24


def clean(text: str, limit: int = 60) -> str:
    """Return text from a file without control characters, cut to `limit` characters."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 12]}...{shown[-9:]}"


def size(count: int) -> str:
    """Return a size in bytes, with KiB added if it is large."""
    return f"{count:,} B" + (f" ({count / 1024:,.1f} KiB)" if count >= 1024 else "")


def rounded(value: float) -> str:
    """Return a number with three significant digits, but never in powers of ten: 0.0712, 70.7, 3,560."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(0, digits)}f}"


def duration(milliseconds: float) -> str:
    """Return a time in milliseconds with three significant digits."""
    return f"{rounded(milliseconds)} ms"


def counted(count: int, word: str) -> str:
    """Return a count and its noun: `1 step`, `2 steps`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def count_text(value: int | None) -> str:
    """Return a number with thousands separated, or `-` for None."""
    return "-" if value is None else f"{value:,}"


def bytes_of(memories: Mapping[str, int] | None) -> str:
    """Return the bytes of each memory in one line."""
    return ", ".join(f"{name} {count:,} B" for name, count in (memories or {}).items()) or "nothing"


def align(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), gap: str = "  ") -> list[str]:
    """Return rows of cells as lines with aligned columns; the columns in `right` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def fitted(rows: Sequence[Sequence[str]], right: frozenset[int], width: int, dispensable: Sequence[str] = ()) -> list[str]:
    """Return headed rows as aligned lines, at most `width` wide if possible.

    If lines are too wide, first gaps get narrow, then the columns headed `dispensable` are dropped in turn.
    """
    lines = list[str]()
    for count in range(len(dispensable) + 1):
        shown = [index for index, head in enumerate(rows[0]) if head not in dispensable[:count]]
        flush = frozenset(place for place, index in enumerate(shown) if index in right)
        for gap in ("  ", " "):
            lines = align([[row[index] for index in shown] for row in rows], flush, gap)
            if max(map(len, lines)) <= width:
                return lines
    return lines


def beside_bars(rows: Sequence[Sequence[str]], right: frozenset[int], width: int, dispensable: Sequence[str]) -> list[str]:
    """Return headed rows as lines that leave room for a bar; drop columns only if no short bar fits."""
    lines = fitted(rows, right, width - GOOD_BAR - 2)
    is_narrow = max(map(len, lines)) > width - MIN_BAR - 1
    return fitted(rows, right, width - GOOD_BAR - 2, dispensable) if is_narrow else lines


def hanging(rows: Sequence[Sequence[str]], right: frozenset[int], width: int) -> list[str]:
    """Return rows as aligned lines, the text of the last column wrapped below itself."""
    heads = align([row[:-1] for row in rows], right)
    start = max(map(len, heads)) + 2
    lines = []
    for head, row in zip(heads, rows, strict=True):
        first, *rest = textwrap.wrap(row[-1], max(16, width - start), break_on_hyphens=False) or [""]
        lines += [f"{head:<{start}}{first}".rstrip(), *(" " * start + part for part in rest)]
    return lines


def bar(value: int, largest: int, width: int, blocks: bool) -> str:
    """Return a bar of at most `width` columns; `blocks` draws it in eighths of a column, else in #."""
    if largest <= 0 or value <= 0:
        return ""
    if not blocks:
        return "#" * max(1, round(value * width / largest))
    eighths = max(1, round(value * width * 8 / largest))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
