"""Draw the Pareto front of RAM and time. In: the record of `plan --pareto`. Out: an SVG as text.

The front is a staircase, and plans by other strategies are squares. Plans that are far from the front appear only in the list
beside it, so that the scale suits the front.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from .columns import clean, rounded
from .figure import COLOURS, FOOT, HEAD, LEFT, MOST_NAMED, NAMES, PANEL, RIGHT, TOP, WIDTH, grid, sheet
from .front import by_rows
from .record import Record

MOST_TICKS = 12
FAR_OFF = 2.5  # a plan beyond this multiple of the front's most RAM or time is not drawn
LINE = 18  # height of a line of text in pixels
LIMIT, OTHER = "#c03028", "#c07020"
END = WIDTH - RIGHT - NAMES


class _Axes(NamedTuple):
    """The axes of the picture: time (ms, or multiples of the fastest plan) to x in pixels, and bytes to y."""

    begin: float
    last: float
    largest: int
    bottom: int

    def x(self, time: float) -> float:
        return LEFT + (time - self.begin) / (self.last - self.begin) * (END - LEFT)

    def y(self, size: int) -> float:
        return self.bottom - (self.bottom - TOP - HEAD) * size / self.largest


def front_svg(record: Record) -> str:
    """Return an SVG of RAM over milliseconds, or over relative cycles if some milliseconds are unknown."""
    points, others = record["points"], [each for each in record["schedules"] if "arena" in each]
    has_ms = all(each["latency_ms_at_least"] is not None for each in [*points, *others])

    def time(entry: Record) -> float:
        return float(entry["latency_ms_at_least"] if has_ms else entry["slowdown"])

    most = FAR_OFF * max(point["arena"] for point in points)
    latest = FAR_OFF * max(map(time, points))
    near = [each for each in others if each["arena"] <= most and time(each) <= latest]
    ram = record["limit"] if record["limit"] and record["limit"] <= most else None
    late = record["limit_ms"] if has_ms and record["limit_ms"] and record["limit_ms"] <= latest else None
    times = [*map(time, [*points, *near]), late]
    legend = _legend(record, has_ms)
    begin, last = (of(value for value in times if value is not None) for of in (min, max))
    edge = max((last - begin) / 30, begin / 1000)
    largest = max(1, ram or 0, *(each["arena"] for each in [*points, *near]))
    panel = max(PANEL, LINE * len(legend) - HEAD // 2)
    axes = _Axes(max(begin - edge, 0), last + edge, largest, TOP + HEAD + panel)
    title = f"{escape(clean(record['model']['name']))}: what RAM costs in time{by_rows(record)}"
    about = f"ms on {record['device']}, estimated" if has_ms else "cycles, estimated, in multiples of those of the fastest plan"
    lines = [
        *sheet(axes.bottom + FOOT + 8, title),
        *grid(largest, axes.bottom, END, -FOOT, panel),
        f'<path d="M{LEFT} {axes.bottom}H{END}" stroke="black"/>',
        *(f'<text x="{axes.x(tick):.2f}" y="{axes.bottom + 16}" text-anchor="middle">{tick:g}</text>' for tick in _ticks(axes)),
        f'<text x="{(LEFT + END) / 2:.0f}" y="{axes.bottom + 34}" text-anchor="middle">{escape(about)}</text>',
    ]
    dashed = f'stroke="{LIMIT}" stroke-dasharray="5 3"/>'
    lines += [] if ram is None else [f'<path d="M{LEFT} {axes.y(ram):.2f}H{END}" {dashed}']
    lines += [] if late is None else [f'<path d="M{axes.x(late):.2f} {axes.bottom}V{TOP + HEAD}" {dashed}']
    lines += _steps(points, time, axes, has_ms)
    names = defaultdict[tuple[float, int], list[str]](list)
    for each in near:
        names[time(each), each["arena"]].append(each["schedule"])
    for (at, size), schedules in names.items():
        lines += _square(", ".join(schedules), axes.x(at), axes.y(size))
    lines += [
        f'<text x="{END + 14}" y="{TOP + HEAD + LINE * number + 10}" fill="{colour}">{escape(text)}</text>'
        for number, (colour, text) in enumerate(legend)
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _steps(points: list[Record], time: Callable[[Record], float], axes: _Axes, has_ms: bool) -> list[str]:
    """Return the staircase of the Pareto front, with a circle per plan."""
    places = [(axes.x(time(point)), axes.y(point["arena"])) for point in points]
    (first, top), *rest = places
    path = f"M{first:.2f} {top:.2f}" + "".join(f"H{x:.2f}V{y:.2f}" for x, y in rest)
    said = [escape(_said(point, has_ms)) for point in points]
    return [
        f'<path d="{path}H{END}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>',
        *(
            f'<circle cx="{x:.2f}" cy="{y:.2f}" r="4" fill="{COLOURS[0]}"><title>{title}</title></circle>'
            for title, (x, y) in zip(said, places, strict=True)
        ),
    ]


def _square(name: str, x: float, y: float) -> list[str]:
    anchor, beside = ("end", x - 8) if x > (LEFT + END) / 2 else ("start", x + 8)
    return [
        f'<rect x="{x - 4:.2f}" y="{y - 4:.2f}" width="8" height="8" fill="white" stroke="{OTHER}"/>',
        f'<text x="{beside:.2f}" y="{y - 6:.2f}" text-anchor="{anchor}" fill="{OTHER}">{name}</text>',
    ]


def _legend(record: Record, has_ms: bool) -> list[tuple[str, str]]:
    """Return (colour, text) per line of the legend: the Pareto front, then plans by other strategies."""
    points = record["points"]
    lines = [("black", _said(point, has_ms)) for point in points[:MOST_NAMED]]
    lines += [("black", f"{len(points) - MOST_NAMED} more")] if len(points) > MOST_NAMED else []
    return lines + [(OTHER, f"{each['schedule']} {_said(each, has_ms)}") for each in record["schedules"] if "arena" in each]


def _said(entry: Record, has_ms: bool) -> str:
    """Return the label of a plan: time, arena, and the MAC overhead if it is at least 0.5 %."""
    time = f"{rounded(entry['latency_ms_at_least'])} ms" if has_ms else f"{entry['slowdown']:.2f}"
    work = f", MACs x{entry['mac_overhead']:.2f}" if (entry["mac_overhead"] or 1) >= 1.005 else ""
    return f"{time}: {entry['arena']:,} B{work}"


def _ticks(axes: _Axes) -> list[float]:
    """Return at most about MOST_TICKS round numbers on the time axis."""
    span = axes.last - axes.begin
    unit = 10.0 ** math.floor(math.log10(span)) / 100
    step = next(unit * factor for factor in (1, 2, 5, 10, 20, 50, 100, 1000) if span <= MOST_TICKS * unit * factor)
    return [round(count * step, 9) for count in range(math.ceil(axes.begin / step), math.floor(axes.last / step) + 1)]
