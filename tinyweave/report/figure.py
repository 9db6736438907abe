"""Draw the live memory of each step, for `reorder -o`. In: the record of `reorder`. Out: SVG, or PNG made by cairosvg.

There is one panel per order of the ops, all with the same scale. In each panel, a column per step stacks the live tensors. A
dashed line marks the peak, and a list beside the panel names the tensors that are alive then.
"""

from __future__ import annotations

import importlib.util
from html import escape
from itertools import chain

from ..ir import CompileError
from ..support.installing import install
from .columns import clean
from .record import Record

# pixels: of the picture, the height of a panel, the margins, and the width of the list beside a panel
WIDTH, PANEL, TOP, LEFT, RIGHT, NAMES = 1120, 240, 44, 88, 16, 232
HEAD, FOOT = 34, 40  # height of a panel's title, and of the labels of its steps
LETTER = 6.2  # approximate width of a letter in a font of 11 px
MOST_NAMED = 12
SUFFIXES = (".svg", ".png")
TITLES = {"file": "order of the file", "best": "best order"}
COLOURS = ("#4878a8", "#e49444", "#85b6b2", "#6a9f58", "#e7ca60", "#a87c9f", "#f1a2a9", "#967662", "#b8b0ac", "#d1615d")


def svg(record: Record) -> str:
    """Return an SVG with a panel for each order in a record of `reorder`."""
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
    """Return the first lines of an SVG of width WIDTH and this height: a white background and a title (already escaped)."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{title}</text>',
    ]


def _longest_name(record: Record) -> int:
    """Return the number of letters of the longest layer name if names must be drawn vertically below the steps, else 0."""
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
    """Return the rectangles of a panel: (tensor, first step, steps, bytes of the tensors below it in the stack)."""
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
    """Return faint horizontal lines at round numbers of bytes, with labels except where they would cover that of the peak."""
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
    """Return the labels below the steps: layer names (vertical if long), or some step numbers if columns are narrow."""
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
    """Return the legend at (x, top): tensors alive in the first of `steps`, with bytes and colours, small ones together."""
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


def check_figure(name: str, neither: str = "neither .svg nor .png") -> None:
    """Raise CompileError if the file name ends in `neither` of its suffixes, or if a PNG cannot be made on this machine."""
    if not name.endswith(SUFFIXES):
        raise CompileError(f"the name '{name}' ends in {neither}", "give another name")
    if name.endswith(".png") and importlib.util.find_spec("cairosvg") is None:
        raise CompileError("a PNG needs the package cairosvg", f"{install('report')}, or give a name that ends in .svg")


def figure(record: Record, name: str) -> bytes:
    """Draw a record of `reorder`, and return the contents of a file of this name: SVG, or PNG if it ends in .png."""
    return encoded(svg(record), name)


def encoded(drawn: str, name: str) -> bytes:
    """Return the text of an SVG as bytes, converted to PNG if the file name does not end in .svg."""
    if name.endswith(".svg"):
        return drawn.encode()
    import cairosvg  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return bytes(cairosvg.svg2png(bytestring=drawn.encode()))
