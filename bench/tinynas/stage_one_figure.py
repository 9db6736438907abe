"""Stage one as two pictures, as figures 3-2 and 5-5 of the thesis. In: Settings; names by limits. Out: an SVG's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tinynas.stage_one import PERCENTILE, Setting
from tinyweave.report.figure import COLOURS, LEFT, sheet

PLOT, DEPTH, BELOW, TOP = 700, 360, 60, 56  # width and height of the plot, room for its axis, and for its title
CELL, ROW = 130, 44


def name_of(setting: Setting) -> str:
    assert setting.size is not None
    return f"w{setting.width:g}-r{setting.size[0]}"


def cdf(settings: Sequence[Setting], title: str) -> str:
    """Draw which share of the networks that fit has at most so many multiply-accumulates, one line per setting."""
    largest = max(setting.macs[-1] for setting in settings if setting.macs)
    lines, right, bottom = sheet(TOP + DEPTH + BELOW, escape(title)), LEFT + PLOT, TOP + DEPTH
    for share in (0, 20, 40, 60, 80, 100):
        y = bottom - DEPTH * share / 100
        dash = ' stroke-dasharray="4 3"' if share == PERCENTILE else ""
        lines.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#bbbbbb"{dash}/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share} %</text>')
    for step in range(6):
        x = LEFT + PLOT * step / 5
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{largest * step / 5e6:.0f}</text>')
    lines.append(f'<text x="{LEFT + PLOT / 2}" y="{bottom + 40}" text-anchor="middle">M multiply-accumulates</text>')
    for number, setting in enumerate(settings):
        colour, count = COLOURS[number % len(COLOURS)], len(setting.macs)
        if count:
            points = [(macs, (rank + 1) / count) for rank, macs in enumerate(setting.macs)]
            path = "L".join(f"{LEFT + PLOT * macs / largest:.1f} {bottom - DEPTH * share:.1f}" for macs, share in points)
            lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        y = TOP + 14 + 18 * number
        told = (
            f"{name_of(setting)}: {100 * setting.share:.0f} % fit, mean {setting.mean / 1e6:.1f}, p80 {setting.p80 / 1e6:.1f}"
        )
        lines.append(f'<rect x="{right + 24}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{right + 40}" y="{y}">{escape(told)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def best_map(names: Mapping[tuple[int, int], str], title: str) -> str:
    """Draw the best setting for limits (KiB of RAM, KiB of Flash): more RAM to the right, one colour for each width."""
    rams, flashes = (sorted({limits[axis] for limits in names}) for axis in (0, 1))
    widths = sorted({name.split("-")[0] for name in names.values()})
    lines = sheet(TOP + ROW * len(flashes) + BELOW, escape(title))
    for row, flash in enumerate(reversed(flashes)):
        y = TOP + ROW * row
        lines.append(f'<text x="{LEFT - 8}" y="{y + ROW / 2 + 4}" text-anchor="end">{flash} KiB</text>')
        for column, ram in enumerate(rams):
            x, name = LEFT + CELL * column, names[ram, flash]
            size, colour = f'width="{CELL - 3}" height="{ROW - 3}"', COLOURS[widths.index(name.split("-")[0]) % len(COLOURS)]
            lines.append(f'<rect x="{x}" y="{y}" {size} fill="{colour}" fill-opacity="0.55"/>')
            lines.append(
                f'<text x="{x + CELL / 2}" y="{y + ROW / 2 + 4}" text-anchor="middle" font-size="13">{escape(name)}</text>'
            )
    bottom = TOP + ROW * len(flashes) + 18
    for column, ram in enumerate(rams):
        lines.append(f'<text x="{LEFT + CELL * column + CELL / 2}" y="{bottom}" text-anchor="middle">{ram} KiB</text>')
    lines.append(f'<text x="{LEFT}" y="{bottom + 22}">Flash upwards, RAM to the right</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
