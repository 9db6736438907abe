"""Draw memory over time. In: the record of `reorder`. Out: an SVG's text, or a PNG's bytes with cairosvg.

One panel per order, all to one scale: a column per step, in which the live tensors are stacked. A line marks the peak; the
tensors alive then are listed beside the panel.
"""

from __future__ import annotations

import importlib.util
from html import escape
from itertools import chain

from ..installing import install
from ..ir import CompileError
from .columns import clean
from .record import Record

WIDTH, PANEL, TOP, LEFT, RIGHT, NAMES = 1120, 240, 44, 88, 16, 232  # NAMES: the room for what is alive at the peak
HEAD, FOOT = 34, 40  # of a panel: its title, and its steps
LETTER = 6.2  # the width of a letter of 11 px, roughly
MOST_NAMED = 12
TITLES = {"file": "order of the file", "best": "best order"}
COLOURS = ("#4878a8", "#e49444", "#85b6b2", "#6a9f58", "#e7ca60", "#a87c9f", "#f1a2a9", "#967662", "#b8b0ac", "#d1615d")


def svg(record: Record) -> str:
    """Return the panels of a `reorder` record below each other."""
    orders = record["orders"]
    largest = max(1, *(order["peak"] for order in orders.values()))
    names = dict.fromkeys(chain.from_iterable(step["tensors"] for order in orders.values() for step in order["steps"]))
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    each = HEAD + PANEL + FOOT + round(LETTER * _longest_name(record))
    lines = sheet(TOP + len(orders) * each, f"{escape(clean(record['model']['name']))}: bytes alive in each step")
    for number, (key, order) in enumerate(orders.items()):
        lines += _panel(TITLES[key], order, record["producers"], colour, largest=largest, top=TOP + number * each)
    return "\n".join([*lines, "</svg>"]) + "\n"


def sheet(height: int, title: str) -> list[str]:
    """Return the head of an SVG on white."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{title}</text>',
    ]


def _longest_name(record: Record) -> int:
    """Return the letters of the longest layer name if names are drawn vertically below the steps, else 0."""
    names = [_step_name(0, step) for step in record["orders"]["file"]["steps"]]
    column = (WIDTH - LEFT - RIGHT - NAMES) / max(1, len(names))
    longest = max(map(len, names), default=0)
    return longest if 13 <= column < LETTER * longest else 0


def _step_name(number: int, step: Record) -> str:
    return f"{number + 1} {clean(step['op'], 32)}"


def _panel(title: str, order: Record, producers: Record, colour: dict[str, str], *, largest: int, top: int) -> list[str]:
    end, bottom = WIDTH - RIGHT - NAMES, top + HEAD + PANEL
    steps, at = order["steps"], order["step"] or 0
    column = (end - LEFT) / max(1, len(steps))
    peak = bottom - PANEL * order["peak"] / largest
    lines = [
        f'<text x="{LEFT}" y="{top + 14}" font-size="13">{title}: peak {order["peak"]:,} B in step {at + 1}</text>',
        *grid(largest, bottom, end, peak),
    ]
    for name, first, count, below in _bands(steps):
        size = steps[first]["tensors"][name]
        x, y = LEFT + first * column, bottom - PANEL * (below + size) / largest
        until = f" to {first + count}" if count > 1 else ""
        shown = f"step {first + 1}{until}: {clean(name)}, {size:,} B"
        lines.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{column * count:.2f}" height="{PANEL * size / largest:.2f}"'
            f' fill="{colour[name]}" stroke="white" stroke-width="0.6"><title>{escape(shown)}</title></rect>'
        )
    lines += [
        f'<path d="M{LEFT} {bottom}H{end}" stroke="black"/>',
        f'<path d="M{LEFT} {peak:.2f}H{end}" stroke="#c03028" stroke-dasharray="5 3"/>',
        f'<text x="{LEFT - 6}" y="{peak + 4:.2f}" text-anchor="end" fill="#c03028">{order["peak"]:,}</text>',
    ]
    return lines + _steps(steps, column, bottom) + _alive(steps[at:], producers, colour, end + 14, top + HEAD)


def _bands(steps: list[Record]) -> list[tuple[str, int, int, int]]:
    """Return rectangles: (tensor, first step, number of steps, bytes below it); one per offset of a tensor."""
    bands: list[tuple[str, int, int, int]] = []
    open_bands: dict[tuple[str, int], int] = {}
    for number, step in enumerate([*steps, {"tensors": {}}]):
        below, here = 0, {}
        for name, size in step["tensors"].items():
            here[name, below] = open_bands.pop((name, below), number)
            below += size
        bands += [(name, first, number - first, under) for (name, under), first in open_bands.items()]
        open_bands = here
    return sorted(bands, key=lambda band: (band[1], band[3]))


def grid(largest: int, bottom: int, end: int, peak: float, panel: int = PANEL) -> list[str]:
    """Return faint horizontal lines at round numbers of bytes, labelled except next to the peak."""
    unit = 1 << max(0, (largest // 3).bit_length() - 1)
    lines = []
    for count in range(0, largest + 1, unit):
        y = bottom - panel * count / largest
        shown = f"{count // 1024} KiB" if unit >= 1024 and count else f"{count:,}"
        lines.append(f'<path d="M{LEFT} {y:.2f}H{end}" stroke="#dddddd"/>')
        if abs(y - peak) > 11:
            lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.2f}" text-anchor="end" fill="#888888">{shown}</text>')
    return lines


def _steps(steps: list[Record], column: float, bottom: int) -> list[str]:
    """Return labels below the steps: layer names, vertical if they are long, or only every tenth step number."""
    names = [_step_name(number, step) for number, step in enumerate(steps)]
    places = [LEFT + (number + 0.5) * column for number in range(len(names))]
    flat = column >= LETTER * max(map(len, names), default=0)
    if column >= 13 and not flat:
        return [
            f'<text transform="translate({x + 4:.2f} {bottom + 6}) rotate(-90)" text-anchor="end">{escape(name)}</text>'
            for x, name in zip(places, names, strict=True)
        ]
    every = max(1, len(steps) // 100) * 10
    return [
        f'<text x="{x:.2f}" y="{bottom + 15}" text-anchor="middle">{escape(name) if flat else number}</text>'
        for number, (x, name) in enumerate(zip(places, names, strict=True), 1)
        if flat or number % every == 0 or number == 1
    ]


def _alive(steps: list[Record], producers: Record, colour: dict[str, str], x: int, top: int) -> list[str]:
    if not steps:
        return []
    tensors = list(steps[0]["tensors"].items())[::-1]
    shown = tensors if len(tensors) <= MOST_NAMED else sorted(tensors, key=lambda item: -item[1])[: MOST_NAMED - 1]
    lines = [f'<text x="{x}" y="{top + 9}" fill="#c03028">alive at the peak ({escape(clean(steps[0]["op"], 22))})</text>']
    rest = sum(size for _, size in tensors) - sum(size for _, size in shown)
    texts = [f"{size:,} B  {escape(clean(producers.get(name, 'input'), 26))}" for name, size in shown]
    texts += [f"{rest:,} B  {len(tensors) - len(shown)} more"] if len(shown) < len(tensors) else []
    for number, text in enumerate(texts):
        y = top + 18 * (number + 1)
        if number < len(shown):
            lines.append(f'<rect x="{x}" y="{y + 1}" width="10" height="10" fill="{colour[shown[number][0]]}"/>')
        lines.append(f'<text x="{x + 16}" y="{y + 10}">{text}</text>')
    return lines


def check_figure(name: str) -> None:
    """Raise CompileError if no picture of this file type can be drawn on this machine."""
    if not name.endswith((".svg", ".png")):
        raise CompileError(f"--figure {name} is neither .svg nor .png", "give a name that ends in .svg or .png")
    if name.endswith(".png") and importlib.util.find_spec("cairosvg") is None:
        raise CompileError("a PNG needs the package cairosvg", f"{install('report')}, or give a name that ends in .svg")


def figure(record: Record, name: str) -> bytes:
    """Return the bytes of a .svg or .png file."""
    return encoded(svg(record), name)


def encoded(drawn: str, name: str) -> bytes:
    """Return an SVG as bytes, converted to PNG if the file name ends in .png."""
    if name.endswith(".svg"):
        return drawn.encode()
    import cairosvg  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return bytes(cairosvg.svg2png(bytestring=drawn.encode()))
