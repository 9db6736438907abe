"""Memory over time as a picture. In: the record of `reorder`. Out: an SVG's text, or a PNG's bytes where cairosvg is there.

One panel per order, to one scale: a column per step, in it the live tensors on top of each other; the peak is a line.
"""

from __future__ import annotations

import importlib.util
from html import escape
from itertools import chain

from ..ir import CompileError
from .record import Record
from .text import clean

WIDTH, PANEL, TOP, LEFT, GAP = 960, 240, 48, 88, 56
TITLES = {"file": "order of the file", "best": "best order"}
COLOURS = ("#4878a8", "#e49444", "#85b6b2", "#6a9f58", "#e7ca60", "#a87c9f", "#f1a2a9", "#967662", "#b8b0ac", "#d1615d")


def svg(record: Record) -> str:
    """The panels below each other."""
    orders = record["orders"]
    largest = max(1, *(order["peak"] for order in orders.values()))
    names = dict.fromkeys(chain.from_iterable(step["tensors"] for order in orders.values() for step in order["steps"]))
    colour = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    height = TOP + len(orders) * (PANEL + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(clean(record["model"]["name"]))}: bytes alive in each step</text>',
    ]
    for number, (key, order) in enumerate(orders.items()):
        lines += _panel(TITLES[key], order, colour, largest, TOP + number * (PANEL + GAP))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(title: str, order: Record, colour: dict[str, str], largest: int, top: int) -> list[str]:
    room, bottom = WIDTH - LEFT - 16, top + 24 + PANEL
    column = room / max(1, len(order["steps"]))
    line = bottom - PANEL * order["peak"] / largest
    lines = [f'<text x="{LEFT}" y="{top + 12}">{title}, peak {order["peak"]:,} B in step {(order["step"] or 0) + 1}</text>']
    for number, step in enumerate(order["steps"]):
        x, y = LEFT + number * column, float(bottom)
        for name, size in step["tensors"].items():
            y -= PANEL * size / largest
            shown = f"{number + 1} {step['op']}: {clean(name)}, {size:,} B"
            lines.append(
                f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0.5, column * 0.92):.2f}" height="{PANEL * size / largest:.2f}"'
                f' fill="{colour[name]}"><title>{escape(shown)}</title></rect>'
            )
    return [
        *lines,
        f'<path d="M{LEFT} {bottom}H{WIDTH - 16}" stroke="black"/>',
        f'<path d="M{LEFT} {line:.2f}H{WIDTH - 16}" stroke="#c03028" stroke-dasharray="5 3"/>',
        f'<text x="{LEFT - 8}" y="{line + 4:.2f}" text-anchor="end" fill="#c03028">{order["peak"]:,}</text>',
        f'<text x="{LEFT - 8}" y="{bottom + 4}" text-anchor="end">0</text>',
        f'<text x="{WIDTH - 16}" y="{bottom + 18}" text-anchor="end">step {len(order["steps"])}</text>',
    ]


def check_figure(name: str) -> None:
    """Whether a file of this name can be drawn here; CompileError says what to do when not."""
    if not name.endswith((".svg", ".png")):
        raise CompileError(f"--figure {name} is neither .svg nor .png", "give a name that ends in .svg or .png")
    if name.endswith(".png") and importlib.util.find_spec("cairosvg") is None:
        raise CompileError("a PNG needs the package cairosvg", "install it, or give a name that ends in .svg")


def figure(record: Record, name: str) -> bytes:
    """The bytes of a .svg or .png file."""
    drawn = svg(record).encode()
    if name.endswith(".svg"):
        return drawn
    import cairosvg  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return bytes(cairosvg.svg2png(bytestring=drawn))
