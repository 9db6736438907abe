"""HTML tables and memory maps for notebooks, in the colours of a light or dark page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 240  # of a memory map, in pixels
LETTER = 6.7  # width of a letter of a label, in pixels
LINE = 12  # height of a label


class Area(NamedTuple):
    """A rectangle of a memory map: a buffer in the steps in which it is alive."""

    name: str
    start: int  # first step, from 0
    end: int  # step after the last one
    offset: int  # in bytes
    bytes: int


def memory_map(steps: int, size: int, areas: Iterable[Area]) -> str:
    """Return an SVG with a rectangle for each buffer: steps from left to right, addresses from bottom to top.

    A rectangle is labelled with the buffer's name if there is room; the tooltip has name, bytes, offset and steps.

    Args:
        steps: number of steps of the plan.
        size: bytes of the memory that the plan uses.
        areas: the buffers.
    """
    if not steps or not size:
        return ""
    across, up = WIDTH / steps, HEIGHT / size
    shapes = []
    for number, area in enumerate(areas):
        x, y = area.start * across, HEIGHT - (area.offset + area.bytes) * up
        width, height = (area.end - area.start) * across, area.bytes * up
        which = f"step {area.start + 1}" if area.end == area.start + 1 else f"steps {area.start + 1} to {area.end}"
        shapes.append(
            f'<g><title>{escape(area.name)}: {area.bytes:,} B at {area.offset:,}, {which}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" fill="hsl({number * 137 % 360} 70% 50% / 0.35)" stroke="currentColor" '
            'stroke-width="0.5"/>'
        )
        label = area.name[: int((width - 6) / LETTER)] if width > 6 else ""
        if height >= LINE and len(label) >= min(4, len(area.name)):
            shapes.append(f'<text x="{x + 3:.1f}" y="{y + LINE - 2:.1f}">{escape(label)}</text>')
        shapes.append("</g>")
    style = "display: block; font: 11px monospace; fill: currentColor; max-width: 100%"
    return f'<svg viewBox="-1 -1 {WIDTH + 2} {HEIGHT + 2}" width="{WIDTH}" style="{style}">{"".join(shapes)}</svg>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; `head` are the column titles, and all cells are escaped."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
