"""Bars in cells: a row per technique, a column per network. In: blocks of cells. Out: an SVG's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from tinyweave.report.figure import COLOURS

WIDTH, LEFT, NAMES, RIGHT, TOP = 1120, 16, 172, 12, 92
HEAD, PITCH, BAR, FOOT = 48, 19, 13, 26  # of a block: its titles; from a row to the next; a bar; what follows
NUMBER = 46  # room for the figure behind the longest bar
SPREAD = 28  # between the entries of the legend


class Block(NamedTuple):
    """bars: name -> a figure per column, or None. kinds: name -> kind of its bars, by number. largest: what the longest bar of
    any column stands for; if left out, each column's own largest figure."""

    title: str
    columns: Sequence[str]
    bars: Mapping[str, Sequence[float | None]]
    kinds: Mapping[str, int]
    largest: float | None = None


def svg(title: str, kinds: Mapping[str, str], note: str, blocks: Sequence[Block]) -> str:
    """kinds: what bars of a kind are -> their colour; the first is number 0."""
    heights = [HEAD + PITCH * len(_shown(block)) + FOOT for block in blocks]
    height = TOP + sum(heights)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="16">{escape(title)}</text>',
    ]
    x = float(LEFT)
    for name, colour in kinds.items():
        lines.append(f'<rect x="{x:.1f}" y="39" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 15:.1f}" y="48">{escape(name)}</text>')
        x += 15 + 6.2 * len(name) + SPREAD
    lines.append(f'<text x="{LEFT}" y="68" fill="#555555">{escape(note)}</text>')
    for number, block in enumerate(blocks):
        lines += _block(block, list(kinds.values()), TOP + sum(heights[:number]))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _shown(block: Block) -> dict[str, Sequence[float | None]]:
    """The rows in which there is a figure."""
    return {name: row for name, row in block.bars.items() if any(value is not None for value in row)}


def _block(block: Block, colours: Sequence[str], top: int) -> list[str]:
    rows = _shown(block)
    column = (WIDTH - LEFT - NAMES - RIGHT) / len(block.columns)
    lines = [f'<text x="{LEFT}" y="{top + 12}" font-size="13" font-weight="bold">{escape(block.title)}</text>']
    for number, name in enumerate(rows):
        y = top + HEAD + number * PITCH + 8
        lines.append(f'<text x="{LEFT + NAMES - 8}" y="{y}" text-anchor="end">{escape(name)}</text>')
    for at, head in enumerate(block.columns):
        x, first = LEFT + NAMES + at * column, top + HEAD
        lines.append(f'<text x="{x:.1f}" y="{top + 34}" fill="#555555">{escape(head)}</text>')
        lines.append(f'<path d="M{x:.1f} {first - 6}V{first + PITCH * len(rows) - 4}" stroke="#bbbbbb"/>')
        largest = block.largest or max(row[at] or 0 for row in rows.values())
        for number, (name, row) in enumerate(rows.items()):
            value, y = row[at], first + number * PITCH
            if value is None:
                lines.append(f'<text x="{x + 5:.1f}" y="{y + 8}" fill="#777777">-</text>')
                continue
            length = value / largest * (column - NUMBER - 10)
            about = f"<title>{escape(f'{head}, {name}: {value:,.2f}')}</title>"
            size = f'width="{length:.1f}" height="{BAR}" fill="{colours[block.kinds[name]]}"'
            lines.append(f'<rect x="{x:.1f}" y="{y - 2}" {size}>{about}</rect>')
            lines.append(f'<text x="{x + length + 5:.1f}" y="{y + 8}">{_figure(value)}</text>')
    return lines


def _figure(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


THEIRS, OF_BOTH, OURS = "#9a9a9a", COLOURS[0], COLOURS[1]
