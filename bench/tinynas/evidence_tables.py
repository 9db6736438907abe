"""The tables and figures of docs/EVIDENCE.md with experiments of the thesis. In: Results. Out: Tables, SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import mean

from evidence import COMPARED, KIB, SEEDS, SUPERNET, Experiment, experiments, label, spaces
from evidence_results import Results, Table, Tested, difference, mean_of, outcomes, ranged
from scipy.stats import spearmanr
from sheet import COLOURS, LEFT, sheet

from tinynas.stage_one import By

NAMES = {
    "mobilenet_v2": "scaled MobileNetV2",
    "proxyless": "scaled ProxylessNAS",
    "plain": "plain networks",
}
EXTRA = {"tune": "in float, %", "double": "with half the epochs, %"}  # accuracy before the last step of an Experiment
PLOT, DEPTH, TOP, BELOW, TICKS = 620, 320, 56, 60, 5  # width and height of a chart, room around it, steps of its axes
Points = Sequence[tuple[float, float]]


def networks(results: Results, experiment: Experiment, step: str = "") -> dict[str, dict[str, Tested]]:
    """Return the networks of an experiment, after a step (by default its own), by the labels of groups and of rows."""
    return {
        group: {name: outcomes(results, step or experiment.step, kind.name, experiment.seeds) for name, kind in kinds.items()}
        for group, kinds in experiment.groups.items()
    }


def compared(results: Results, experiment: Experiment) -> Table:
    """Return the table of an experiment, which compares the rows of each group with the first.

    If networks are trained for twice as many epochs, each is compared with itself before.
    """
    rows, before = list[Sequence[object]](), networks(results, experiment, "train")
    for group, own in networks(results, experiment).items():
        first, *_ = own.values()
        for name, found in own.items():
            short = before[group][name]
            extra = [ranged(short.percent) if short else ""] if experiment.step in EXTRA else []
            pair = (found, short) if experiment.step == "double" else (first, found)
            gained = None if pair[0] is pair[1] else difference(*pair)
            accuracy = ranged(found.percent) if found else "none fits"
            rows.append([group, NAMES.get(name, name), *costs_of(found), *extra, accuracy, gained])
    extra = [EXTRA[experiment.step]] if experiment.step in EXTRA else []
    last = "minus half the epochs, points" if experiment.step == "double" else "first row minus this, points"
    heads = [experiment.limit, "network", "RAM, KiB", "Ki weights", "million MACs", "ms", *extra, "test accuracy, %", last]
    return Table(heads, rows)


def costs_of(found: Tested) -> list[str]:
    """Return the cells of RAM, weights, multiply-accumulates (millions) and milliseconds, means over the seeds."""
    if not found:
        return ["", "", "", ""]
    ram, weights, macs, ms = map(found.average, ("ram", "weights", "macs", "ms"))
    return [f"{ram / KIB:.1f}", f"{weights / KIB:.1f}", f"{macs / 1e6:.2f}", f"{ms:.1f}"]


def at_equal_accuracy(ours: Sequence[Tested], other: Tested, cost: str) -> float | None:
    """Return how many times more of a cost networks need than the cheapest of ours that are at least as accurate, or None.

    Accuracies and costs are means over the seeds.
    """
    costs = [each.average(cost) for each in ours if each and mean(each.percent) >= mean(other.percent)]
    return other.average(cost) / min(costs) if costs else None


def fronts(results: Results) -> Table:
    """Return the table of how much faster and smaller evolution's networks are at the accuracy of others."""
    by_limit, rows = networks(results, experiments()["5.2"]), list[Sequence[object]]()
    ours = [own["evolution"] for own in by_limit.values()]
    for name in COMPARED:
        for group, own in by_limit.items():
            if found := own[name]:
                times = (at_equal_accuracy(ours, found, cost) for cost in ("ms", "ram"))
                said = ["none as accurate" if each is None else f"{each:.2f}" for each in times]
                rows.append([NAMES[name], group, f"{mean(found.percent):.1f}", *said])
    return Table(["beside", "limit of time", "its accuracy, %", "times faster", "times less SRAM"], rows)


def front_series(results: Results, cost: str, scale: float) -> dict[str, Points]:
    """Return the (cost / scale, accuracy) of evolution and of families, one point for each limit of time."""
    by_limit = networks(results, experiments()["5.2"]).values()
    return {
        NAMES.get(name, name): sorted(
            (own[name].average(cost) / scale, mean(own[name].percent)) for own in by_limit if own[name]
        )
        for name in ("evolution", *COMPARED)
    }


def curves(results: Results) -> tuple[Table, Table, dict[str, Points]]:
    """Return figure 5-6 (the best accuracy so far of each search) as a table, the differences at the end, and its points."""
    (kinds,), evolution = experiments()["5-6"].groups.values(), SUPERNET.evolution
    counts = [
        evolution.population + number * (evolution.crossovers + evolution.mutations)
        for number in range(evolution.generations + 1)
    ]
    found = {
        name: [results.record("search", kind.name, seed)["curve"] for seed in range(SEEDS)] for name, kind in kinds.items()
    }
    bests = {name: [[100 * max(curve[:count]) for curve in each] for count in counts] for name, each in found.items()}
    rows = [[name, *map(ranged, each)] for name, each in bests.items()]
    (_, first), *others = bests.items()
    against = [[name, mean_of([a - b for a, b in zip(first[-1], each[-1], strict=True)])] for name, each in others]
    points = {name: [(count, mean(best)) for count, best in zip(counts, each, strict=True)] for name, each in bests.items()}
    heads = ["search", *(f"after {count} networks" for count in counts)]
    return Table(heads, rows), Table(["search", "evolution minus this, points"], against), points


def correlation(results: Results, by: By) -> tuple[float, float]:
    """Return Spearman's correlation of the spaces' p80, or mean, of MACs with the accuracy found in each, and its p-value."""
    found = spearmanr(*zip(*(point for (point,) in space_series(results, by).values()), strict=True))
    return float(found.statistic), float(found.pvalue)


def space_series(results: Results, by: By) -> dict[str, Points]:
    """Return for each space the 80th percentile, or the mean, of millions of MACs, and the accuracy of the networks found."""
    (own,) = networks(results, experiments()["5.6"]).values()
    return {
        label(each): [((each.p80 if by == "p80" else each.mean) / 1e6, mean(own[label(each)].percent))] for each in spaces()
    }


def ranking() -> Table:
    """Return the table of the spaces as stage one ranks them."""
    rows = [[label(each), f"{100 * each.share:.0f}", f"{each.p80 / 1e6:.2f}", f"{each.mean / 1e6:.2f}"] for each in spaces()]
    return Table(["space", "networks that fit, %", "p80, million MACs", "mean, million MACs"], rows)


def chart(title: str, axis: str, series: Mapping[str, Points]) -> str:
    """Draw accuracies in percent over a cost, a line with a circle at each point for each of some series."""
    every = [point for points in series.values() for point in points]
    right, low, high = max(x for x, _ in every), min(y for _, y in every), max(y for _, y in every)
    low, high, bottom = low - 0.1 * (high - low or 1), high + 0.1 * (high - low or 1), TOP + DEPTH
    lines = sheet(TOP + DEPTH + BELOW, escape(title))
    for step in range(TICKS + 1):
        x, y, share = LEFT + PLOT * step / TICKS, bottom - DEPTH * step / TICKS, step / TICKS
        lines.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + PLOT}" stroke="#bbbbbb"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{low + share * (high - low):.1f} %</text>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{share * right:.3g}</text>')
    lines.append(f'<text x="{LEFT + PLOT / 2}" y="{bottom + 40}" text-anchor="middle">{escape(axis)}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour, at = COLOURS[number % len(COLOURS)], TOP + 14 + 18 * number
        places = [(LEFT + PLOT * x / right, bottom - DEPTH * (y - low) / (high - low)) for x, y in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
        lines.append(f'<rect x="{LEFT + PLOT + 24}" y="{at - 9}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + PLOT + 40}" y="{at}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
