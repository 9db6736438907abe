"""Format text in columns: aligned cells, wrapped lines, bars. Names of files cannot write control codes to a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from ..ir import printable

# all in columns (characters) of the terminal
WIDTH = 100
MIN_WIDTH = 40
MIN_BAR = 4
GOOD_BAR = 8
MAX_BAR = 24


def clean(text: str, limit: int = 60) -> str:
    """Return text from a file without control characters; text above `limit` characters is shortened in its middle."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 12]}...{shown[-9:]}"


def size(count: int) -> str:
    """Return a size in bytes as text, with KiB added from 1024 bytes on."""
    return f"{count:,} B" + (f" ({count / 1024:,.1f} KiB)" if count >= 1024 else "")


def rounded(value: float) -> str:
    """Return a number as text with three significant digits, without powers of ten: 0.0712, 70.7, 3,560."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(0, digits)}f}"


def duration(milliseconds: float) -> str:
    """Return milliseconds as text with three significant digits, such as `70.7 ms`."""
    return f"{rounded(milliseconds)} ms"


def counted(count: int, word: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1: `1 step`, `2 steps`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def count_text(value: int | None) -> str:
    """Return a number as text with thousands separated, or `-` for None."""
    return "-" if value is None else f"{value:,}"


def bytes_of(memories: Mapping[str, int] | None) -> str:
    """Return memory -> bytes as text in one line, or "nothing" if there is no memory."""
    return ", ".join(f"{name} {count:,} B" for name, count in (memories or {}).items()) or "nothing"


def align(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), gap: str = "  ") -> list[str]:
    """Return rows of cells as lines with aligned columns, `gap` between them; columns with an index in `right` align right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        gap.join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def fitted(rows: Sequence[Sequence[str]], right: frozenset[int], width: int, dispensable: Sequence[str] = ()) -> list[str]:
    """Return rows, the header first, as aligned lines; to fit in `width`, drop the columns headed `dispensable` one by one."""
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
    """Return rows as aligned lines that leave space for a bar at the end of each; the arguments are those of `fitted`."""
    lines = fitted(rows, right, width - GOOD_BAR - 2)
    is_narrow = max(map(len, lines)) > width - MIN_BAR - 1
    return fitted(rows, right, width - MIN_BAR - 1, dispensable) if is_narrow else lines


def hanging(rows: Sequence[Sequence[str]], right: frozenset[int], width: int) -> list[str]:
    """Return rows as aligned lines; long text of the last column is wrapped to `width`, but to 16 characters at least."""
    heads = align([row[:-1] for row in rows], right)
    start = max(map(len, heads)) + 2
    lines = []
    for head, row in zip(heads, rows, strict=True):
        first, *rest = textwrap.wrap(row[-1], max(16, width - start), break_on_hyphens=False) or [""]
        lines += [f"{head:<{start}}{first}".rstrip(), *(" " * start + part for part in rest)]
    return lines


def bar(value: int, largest: int, width: int, blocks: bool) -> str:
    """Return a bar for `value` beside one of `width` columns for `largest`, of block characters if `blocks`, else of #."""
    if largest <= 0 or value <= 0:
        return ""
    if not blocks:
        return "#" * max(1, round(value * width / largest))
    eighths = max(1, round(value * width * 8 / largest))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
