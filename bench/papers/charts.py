"""Charts of figures that belong to names. In: panels. Out: an SVG's text, one panel below the other, each to its own scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

from tinyweave.report.figure import COLOURS

WIDTH, PANEL, LEFT, RIGHT, TOP, HEAD, FOOT = 1000, 220, 80, 20, 40, 56, 50


class Panel(NamedTuple):
    """series: name -> a figure per label, or None. lines: joined points instead of bars. limit: a line across, and its name."""

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    about: str
    lines: bool = False
    limit: tuple[float, str] | None = None


def svg(title: str, panels: Sequence[Panel]) -> str:
    each = HEAD + PANEL + FOOT
    height = TOP + each * len(panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        lines += _panel(panel, TOP + number * each)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(panel: Panel, top: int) -> list[str]:
    figures = [figure for row in panel.series.values() for figure in row if figure is not None]
    bottom, end = top + HEAD + PANEL, WIDTH - RIGHT
    largest = max(*figures, panel.limit[0] if panel.limit else 0)
    unit = _round(largest / 4)
    scale = PANEL / largest
    lines = [f'<text x="{LEFT}" y="{top + 14}" font-size="13">{escape(panel.title)}</text>']
    for count in range(floor(largest / unit) + 1):
        y = bottom - count * unit * scale
        lines.append(f'<path d="M{LEFT} {y:.1f}H{end}" stroke="#dddddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#888888">{count * unit:,.10g}</text>')
    column = (end - LEFT) / len(panel.labels)
    for at, label in enumerate(panel.labels):
        lines.append(
            f'<text x="{LEFT + (at + 0.5) * column:.1f}" y="{bottom + 15}" text-anchor="middle">{escape(label)}</text>'
        )
    lines.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{bottom + 34}" text-anchor="middle">{escape(panel.about)}</text>')
    for number, (name, row) in enumerate(panel.series.items()):
        colour, x = COLOURS[number % len(COLOURS)], LEFT + number * 240
        lines.append(f'<rect x="{x}" y="{top + 21}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 16}" y="{top + 30}">{escape(name)}</text>')
        tops = {at: bottom - figure * scale for at, figure in enumerate(row) if figure is not None}
        width = 0.8 * column / len(panel.series)
        middle = 0.5 if panel.lines else 0.1 + 0.8 * (number + 0.5) / len(panel.series)
        places = {at: (LEFT + (at + middle) * column, y) for at, y in tops.items()}
        if panel.lines:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places.values())
            lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, (x, y) in places.items():
            shown = f"<title>{escape(f'{panel.labels[at]}, {name}: {row[at]:,.6g}')}</title>"
            if panel.lines:
                lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">{shown}</circle>')
            else:
                size = f'width="{width:.1f}" height="{bottom - y:.1f}"'
                lines.append(f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" {size} fill="{colour}">{shown}</rect>')
            if number == 0:  # of more there is no room
                lines.append(f'<text x="{x:.1f}" y="{y - 7:.1f}" text-anchor="middle">{row[at]:,.4g}</text>')
    lines.append(f'<path d="M{LEFT} {bottom}H{end}" stroke="black"/>')
    if panel.limit:
        y = bottom - panel.limit[0] * scale
        lines.append(f'<path d="M{LEFT} {y:.1f}H{end}" stroke="#c03028" stroke-dasharray="5 3"/>')
        lines.append(f'<text x="{end}" y="{y - 5:.1f}" text-anchor="end" fill="#c03028">{escape(panel.limit[1])}</text>')
    return lines


def _round(value: float) -> float:
    """The next lower 1, 2 or 5 times a power of ten."""
    power = 10 ** floor(log10(value))
    return max(step for step in (power, 2 * power, 5 * power) if step <= value)
