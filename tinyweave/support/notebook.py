"""HTML tables and memory maps for notebooks, in the colours of a light or dark page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil
from typing import NamedTuple

WIDTH, HEIGHT = 960, 340  # of a memory map without the labels of its axes and its legend, in pixels
LEFT, LINE, LETTER = 64, 13, 6.7  # pixels: room for the axis of bytes, height of a label, width of a letter
# kind of a buffer -> its words, its colour, and the lines drawn over the colour; report/page draws the same
KINDS = {
    "input": ("network input", "#4878a8", ""),
    "output": ("network output", "#3d8f63", ""),
    "map": ("map", "#85b6b2", ""),
    "ring": ("rows of a map (ring)", "#e49444", "M0 6L6 0"),
    "tile": ("tiles", "#e7ca60", "M0 3H6"),
    "scratch": ("scratch", "#b8b0ac", "M0 0L6 6M0 6L6 0"),
    "state": ("state", "#a87c9f", "M3 0V6"),
}


class Area(NamedTuple):
    """A rectangle of a memory map: a buffer in the steps in which it is alive."""

    name: str
    kind: str  # a key of KINDS
    start: int  # first step, from 0
    end: int  # step after the last one
    offset: int  # in bytes
    bytes: int


class Rectangle(NamedTuple):
    """A rectangle in pixels: its left and top edge, its width and height."""

    x: float
    y: float
    wide: float
    high: float

    def meets(self, other: Rectangle) -> bool:
        """Return whether the two rectangles overlap."""
        across = self.x < other.x + other.wide and other.x < self.x + self.wide
        return across and self.y < other.y + other.high and other.y < self.y + self.high


def memory_map(steps: int, size: int, areas: Sequence[Area]) -> str:
    """Return an SVG with a rectangle for each buffer: steps from left to right, addresses from bottom to top.

    The colour of a rectangle shows its kind; the tooltip has name, kind, bytes, offset and steps. `size` is in bytes.
    """
    if not steps or not size:
        return ""
    column, up, unit = (WIDTH - LEFT) / steps, HEIGHT / size, 1 << max(0, (size // 3).bit_length() - 1)
    shapes, boxes, x = [], [], LEFT
    for at in range(0, size + 1, unit):
        shown = f"{at // 1024} KiB" if unit >= 1024 and at else f"{at:,}"
        shapes.append(f'<path d="M{LEFT} {HEIGHT - at * up:.1f}H{WIDTH}" stroke="currentColor" stroke-opacity="0.3"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{HEIGHT - at * up + 4:.1f}" text-anchor="end">{shown}</text>')
    for step in range(0, steps, ceil(28 / column)):
        shapes.append(f'<text x="{LEFT + step * column + 2:.1f}" y="{HEIGHT + LINE}">{step + 1}</text>')
    for area in areas:
        width, height = (area.end - area.start) * column, area.bytes * up
        boxes.append(box := Rectangle(LEFT + area.start * column, HEIGHT - area.offset * up - height, width, height))
        which = f"step {area.start + 1}" if area.end == area.start + 1 else f"steps {area.start + 1} to {area.end}"
        told = f"{area.name} ({KINDS[area.kind][0]}): {area.bytes:,} B at {area.offset:,}, {which}"
        shapes.append(f"<g><title>{escape(told)}</title>{_rectangle(box, area.kind)}</g>")
    for kind in [kind for kind in KINDS if kind in {area.kind for area in areas}]:  # the legend
        words = KINDS[kind][0]
        shapes.append(
            _rectangle(Rectangle(x, HEIGHT + 22, 11, 11), kind) + f'<text x="{x + 16}" y="{HEIGHT + 32}">{words}</text>'
        )
        x += 34 + round(LETTER * len(words))
    patterns = "".join(
        f'<pattern id="tw-{kind}" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 0H6V6H0Z" fill="{colour}"/>'
        f'<path d="{lines}" stroke="white" stroke-opacity="0.55"/></pattern>'
        for kind, (_, colour, lines) in KINDS.items()
    )
    style = "display: block; font: 11px monospace; fill: currentColor; max-width: 100%"
    head = f'<svg viewBox="0 -8 {WIDTH + 2} {HEIGHT + 48}" width="{WIDTH}" style="{style}"><defs>{patterns}</defs>'
    return f"{head}{''.join([*shapes, *_labels(boxes, areas)])}</svg>"


def _rectangle(box: Rectangle, kind: str) -> str:
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.wide:.1f}" height="{box.high:.1f}"'
    return f'<rect {place} fill="url(#tw-{kind})" fill-opacity="0.75" stroke="white"/>'


def _labels(boxes: Sequence[Rectangle], areas: Sequence[Area]) -> list[str]:
    """Return SVG elements that name the buffers, by the rules of the report (`labels` in report/page/draw.js).

    A label lies inside its box, overlaps no other label, and other boxes only if there is no other place. A long name runs
    upwards; a box without room for it has no label.
    """
    placed: list[Rectangle] = []
    shapes = []
    for box, area in sorted(zip(boxes, areas, strict=True), key=lambda pair: pair[0].wide * pair[0].high):
        labels, others = ([each for each in all_of if each is not box and each.meets(box)] for all_of in (placed, boxes))
        for words, upwards in ((f"{area.name}  {area.bytes:,} B", False), (area.name, False), (area.name, True)):
            length = LETTER * len(words) + 4
            size = (LINE, length) if upwards else (length, LINE)
            spot = _spot(box, size, [*labels, *others]) or _spot(box, size, labels)
            if spot:
                placed.append(spot)
                turn = f'transform="translate({spot.x + 10:.1f} {spot.y + spot.high - 2:.1f}) rotate(-90)"'
                where = turn if upwards else f'x="{spot.x + 2:.1f}" y="{spot.y + 10:.1f}"'
                ground = f'x="{spot.x:.1f}" y="{spot.y:.1f}" width="{spot.wide:.1f}" height="{spot.high}" fill="white"'
                named = f'<rect {ground} fill-opacity="0.8"/><text {where} fill="black">{escape(words)}</text>'
                shapes.append(f'<g pointer-events="none">{named}</g>')
                break
    return shapes


def _spot(box: Rectangle, size: tuple[float, float], obstacles: Sequence[Rectangle]) -> Rectangle | None:
    """Return a place of this width and height inside a box that overlaps no obstacle, the topmost and then the leftmost."""
    wide, high = size
    for y in sorted({box.y + 1, *(each.y + each.high + 1 for each in obstacles)}):
        for x in sorted({box.x + 2, *(each.x + each.wide + 2 for each in obstacles)}):
            spot = Rectangle(x, y, wide, high)
            is_inside = box.x <= x <= box.x + box.wide - wide and box.y <= y <= box.y + box.high - high
            if is_inside and not any(spot.meets(each) for each in obstacles):
                return spot
    return None


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; `head` are the column titles, and all cells are escaped."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
