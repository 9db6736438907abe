"""Bars in cells: a row per technique, a column per network, each column to its own scale. In: blocks. Out: an SVG's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from tinyweave.report.figure import COLOURS

WIDTH, LEFT, NAMES, RIGHT, TOP = 1120, 16, 172, 12, 44
HEAD, PITCH, BAR, FOOT = 46, 19, 13, 26  # of a block: its titles; from a row to the next; a bar; what follows
NUMBER = 46  # room for the figure behind the longest bar
GREY = "#9a9a9a"


class Block(NamedTuple):
    """bars: name -> a figure per column, or None. ours, others: names whose bars have a colour of their own."""

    title: str
    columns: Sequence[str]
    bars: Mapping[str, Sequence[float | None]]
    ours: Sequence[str] = ()
    others: Sequence[str] = ()


def svg(title: str, blocks: Sequence[Block]) -> str:
    heights = [HEAD + PITCH * len(shown(block)) + FOOT for block in blocks]
    height = TOP + sum(heights)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    for number, block in enumerate(blocks):
        lines += _block(block, TOP + sum(heights[:number]))
    return "\n".join([*lines, "</svg>"]) + "\n"


def shown(block: Block) -> dict[str, Sequence[float | None]]:
    """The rows in which there is a figure."""
    return {name: row for name, row in block.bars.items() if any(value is not None for value in row)}


def _block(block: Block, top: int) -> list[str]:
    rows = shown(block)
    column = (WIDTH - LEFT - NAMES - RIGHT) / max(4, len(block.columns))
    lines = [f'<text x="{LEFT}" y="{top + 12}" font-size="13" font-weight="bold">{escape(block.title)}</text>']
    for at, head in enumerate(block.columns):
        x = LEFT + NAMES + at * column
        lines.append(f'<text x="{x:.1f}" y="{top + 32}" fill="#555555">{escape(head)}</text>')
        values = [row[at] for row in rows.values()]
        scale = (column - NUMBER - 10) / max(value for value in values if value is not None)
        bottom = top + HEAD + PITCH * len(rows) - 4
        lines.append(f'<path d="M{x:.1f} {top + HEAD - 6}V{bottom}" stroke="#bbbbbb"/>')
        for number, (name, value) in enumerate(zip(rows, values, strict=True)):
            y = top + HEAD + number * PITCH
            if value is None:
                lines.append(f'<text x="{x + 4:.1f}" y="{y + 8}" fill="#888888">not measured</text>')
                continue
            colour = GREY if name in block.others else COLOURS[1] if name in block.ours else COLOURS[0]
            about = f"<title>{escape(f'{head}, {name}: {value:,.2f}')}</title>"
            size = f'width="{value * scale:.1f}" height="{BAR}"'
            lines.append(f'<rect x="{x:.1f}" y="{y - 2}" {size} fill="{colour}">{about}</rect>')
            lines.append(f'<text x="{x + value * scale + 5:.1f}" y="{y + 8}">{figure(value)}</text>')
    for number, name in enumerate(rows):
        y = top + HEAD + number * PITCH + 8
        lines.append(f'<text x="{LEFT + NAMES - 8}" y="{y}" text-anchor="end">{escape(name)}</text>')
    return lines


def figure(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
