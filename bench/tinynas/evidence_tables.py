"""The tables of docs/EVIDENCE.md with repeated experiments of the thesis. In: Results. Out: Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean

from evidence import BEST_ENGINE, CURVES, KIB, LIMITS, LONGER, MACS, MIDDLE, NARROW_FLASH, RIVALS, best_settings
from evidence_jobs import ENGINES
from evidence_results import Difference, Results, Table, Tested, difference, mean_of, outcomes
from page_text import table

NAMES = {
    "layers": "layer by layer",
    "patches": "first layers by patches",
    "fused": "fused",
    "streamed": "fused, streamed input",
    "mobilenet_v2": "MobileNetV2, scaled",
    "proxyless": "ProxylessNAS, scaled",
    "plain": "hand-made, plain",
    "ds_cnn": "DS-CNN, scaled",
}
REMEDIES = {
    "largest": "train the evaluated network with the most MACs",
    "tuned": "start from the supernet's weights",
    "finalists": "train the best three, choose on the validation part",
}
JOINT_NAMES = {"fixed": "one size and width", "uniform": "size and one width", "flexible": "size and a width per group"}
CURVE_NAMES = {
    f"evolution, {NAMES[BEST_ENGINE]}": f"evolution images {BEST_ENGINE}",
    f"random search, {NAMES[BEST_ENGINE]}": f"random images {BEST_ENGINE}",
    f"evolution, {NAMES['layers']}": "evolution images layers",
}
EVOLUTION = ("train evolution {place}", BEST_ENGINE)  # words of a key, without the limit of RAM and the seed
COMPARISONS = {  # the words of the first and of the second network, whose difference is taken
    f"evolution: {NAMES[BEST_ENGINE]}, minus {NAMES['layers']}": (EVOLUTION, ("train evolution {place}", "layers")),
    f"evolution: {NAMES['patches']}, minus {NAMES['layers']}": (
        ("train evolution {place}", "patches"),
        ("train evolution {place}", "layers"),
    ),
    "evolution minus random search": (EVOLUTION, ("train random {place}", BEST_ENGINE)),
    **{
        f"evolution minus {NAMES[name]}": (EVOLUTION, ("rival {place}", name, BEST_ENGINE))
        for name in ("mobilenet_v2", "proxyless", "ds_cnn", "plain")
    },
}
HEADLINES = {  # some of COMPARISONS, and words for "better than"
    "evolution minus MobileNetV2, scaled": "than scaled MobileNetV2",
    f"evolution minus {NAMES['plain']}": "than hand-made, plain networks",
    "evolution minus random search": "than random search",
    f"evolution: {NAMES[BEST_ENGINE]}, minus {NAMES['layers']}": "than evolution for an engine that runs layer by layer",
}


def kilobytes(count: float) -> str:
    """Return bytes in KiB."""
    return f"{count / KIB:.1f}"


def costs_of(found: Tested) -> list[str]:
    """Return the cells of weights (KiB) and multiply-accumulates (millions) of networks, means over the seeds."""
    return [kilobytes(found.average("weights")), f"{found.average('macs') / 1e6:.2f}"] if found else ["", ""]


def rows_of(label: str, named: dict[str, Tested], *, first_minus: bool = False) -> Iterator[list[object]]:
    """Yield a row for each kind of networks: label, name, costs, accuracy, and the difference to the first kind.

    With `first_minus`, the difference is the first kind minus this kind, otherwise this kind minus the first.
    """
    first, *_ = named.values()
    for name, found in named.items():
        pair = (first, found) if first_minus else (found, first)
        yield [label, name, *costs_of(found), found.accuracy(), None if found is first else difference(*pair)]


def compared(results: Results, title: str) -> tuple[list[Difference], int]:
    """Return the differences of a comparison in all cases, and the number of cases in which only the first network fits.

    A case is a task and its RAM. `title` is a key of COMPARISONS.
    """
    kinds = COMPARISONS[title]
    of = [tuple(outcomes(results, task, *kind, ram) for kind in kinds) for task in LIMITS for ram in LIMITS[task]]
    alone = sum(bool(first) and second.measured and not second for first, second in of)
    return [each for pair in of if (each := difference(*pair)) is not None], alone


def summary(results: Results, limit: float) -> str:
    """Return the table that counts in how many cases one kind of network is better than another; `limit`: `holm.cutoff`."""
    rows = list[Sequence[object]]()
    for title in COMPARISONS:
        found, alone = compared(results, title)
        if found:
            middles, verdicts = [each.middle for each in found], [each.verdict(limit) for each in found]
            counts = (len(found), *(verdicts.count(each) for each in ("better", "worse", "not shown")), alone)
            rows.append([title, *counts, f"{min(middles):+.1f} to {max(middles):+.1f}"])
    return table(["networks", "cases", "better", "worse", "not shown", "only the first fits", "differences, points"], rows, 1)


def engines(results: Results) -> Iterator[Table]:
    """Yield the table of the best network that a search finds with each engine."""
    rows = list[Sequence[object]]()
    for task in LIMITS:
        for ram in LIMITS[task]:
            names = ENGINES if task == "images" else ("layers", BEST_ENGINE)
            of = {NAMES[engine]: outcomes(results, task, "train evolution {place}", engine, ram) for engine in names}
            rows += rows_of(f"{task}, {ram} KiB", of)
    heads = ["task, RAM", "engine", "weights, KiB", "million MACs", "test accuracy, %", "minus layer by layer, points"]
    yield Table(heads, rows)


def rivals(results: Results) -> Iterator[Table]:
    """Yield the table of searched and scaled networks."""
    rows = list[Sequence[object]]()
    for task in LIMITS:
        for ram in LIMITS[task]:
            of = {
                "evolution": outcomes(results, task, *EVOLUTION, ram),
                "random search": outcomes(results, task, "train random {place}", BEST_ENGINE, ram),
                **{NAMES[name]: outcomes(results, task, "rival {place}", name, BEST_ENGINE, ram) for name in RIVALS[task]},
            }
            rows += rows_of(f"{task}, {ram} KiB", of, first_minus=True)
    yield Table(
        ["task, RAM", "network", "weights, KiB", "million MACs", "test accuracy, %", "evolution minus this, points"], rows
    )


def without_engine(results: Results) -> Iterator[Table]:
    """Yield table 5.1: scaled and searched networks of the images, layer by layer and with the best engine."""
    rows = list[Sequence[object]]()
    for ram in LIMITS["images"]:
        for engine in ("layers", BEST_ENGINE):
            columns = [outcomes(results, "images", "rival {place}", name, engine, ram) for name in RIVALS["images"]]
            columns.append(outcomes(results, "images", "train evolution {place}", engine, ram))
            rows.append([f"{ram} KiB", NAMES[engine], *(each.accuracy() for each in columns)])
    yield Table(["RAM", "engine", *(NAMES[name] for name in RIVALS["images"]), "evolution"], rows)


def remedies(results: Results) -> Iterator[Table]:
    """Yield the table of what was tried to improve the searches of images."""
    rows = list[Sequence[object]]()
    for ram in LIMITS["images"]:
        found = outcomes(results, "images", "train evolution {place}", BEST_ENGINE, ram)
        others = [outcomes(results, "images", "rival {place}", name, BEST_ENGINE, ram) for name in RIVALS["images"]]
        best = max(filter(None, others), key=lambda each: each.average("validation"), default=found)
        for name, title in REMEDIES.items():
            tried = outcomes(results, "images", name, "evolution {place}", BEST_ENGINE, ram)
            rows.append([f"{ram} KiB", title, tried.accuracy(), difference(tried, found), difference(tried, best)])
    heads = ["RAM", "change", "test accuracy, %", "minus evolution alone, points", "minus best other family, points"]
    yield Table(heads, rows)


def longer(results: Results) -> Iterator[Table]:
    """Yield the table of longer trainings of searched networks and of their rivals."""
    kinds = {
        "evolution": ("evolution images", BEST_ENGINE),
        **{NAMES[name]: (f"rival images {name}", BEST_ENGINE) for name in RIVALS["images"]},
    }
    of = {title: outcomes(results, "images", f"longer {words[0]}", *words[1:], MIDDLE) for title, words in kinds.items()}
    rows = list[Sequence[object]]()
    for title, words in kinds.items():
        first = f"train {words[0]}" if title == "evolution" else words[0]
        against = None if title == "evolution" else difference(of["evolution"], of[title])
        short = outcomes(results, "images", first, *words[1:], MIDDLE)
        rows.append([title, short.accuracy(), of[title].accuracy(), difference(of[title], short), against])
    heads = ["network", "test accuracy, %", f"with {LONGER} times the epochs, %", "difference, points"]
    yield Table([*heads, "evolution minus this, both with more epochs, points"], rows)


def curves(results: Results) -> Iterator[Table]:
    """Yield the table of figure 5-6: the best accuracy so far of evolution and random search."""
    plan, rows, last = results.plan, list[Sequence[object]](), list[dict[int, float]]()
    counts = [plan.population * (1 + generation) for generation in range(plan.generations + 1)]
    for title, name in CURVE_NAMES.items():
        found = {seed: record["curve"] for seed in range(CURVES) if (record := results.record(name, MIDDLE, seed))}
        bests = [[100 * max(curve[:count]) for curve in found.values()] for count in counts]
        last.append({seed: 100 * max(curve) for seed, curve in found.items()})
        ranges = [f" ({min(best):.1f} to {max(best):.1f})" if len(best) > 1 else "" for best in bests]
        cells = (f"{mean(best):.1f}{span}" if best else "" for best, span in zip(bests, ranges, strict=True))
        rows.append([title, len(found), *cells])
    yield Table(["search", "seeds", *(f"after {count} networks" for count in counts)], rows)
    pairs = [
        (title, [last[0][seed] - other[seed] for seed in sorted(set(last[0]) & set(other))])
        for title, other in zip(list(CURVE_NAMES)[1:], last[1:], strict=True)
    ]
    rows = [[title, len(by_seed), mean_of(by_seed)] for title, by_seed in pairs if len(by_seed) > 1]
    yield Table(["the first row minus", "seeds", "difference, points"], rows)


def spaces(results: Results) -> Iterator[Table]:
    """Yield table 5.6 and the data of figure 5-4: searches in spaces of one image size and width."""
    prefix = "train evolution images space"
    settings = {tuple(name.removeprefix(prefix).split()[:2]) for name in results.lines if name.startswith(prefix)}
    first, *_ = best_settings(MIDDLE)
    assert first.size is not None
    best = str(first.size[0]), str(first.width)
    of_setting = {pair: outcomes(results, "images", prefix, *pair) for pair in (best, *sorted(settings - {best}))}
    kinds = {
        f"{'best' if pair == best else 'next best'}: {pair[0]} px, width {pair[1]}": each for pair, each in of_setting.items()
    }
    kinds["best, own supernet"] = outcomes(results, "images", "train evolution images-own own")
    kinds["all sizes and widths"] = outcomes(results, "images", "train evolution images", BEST_ENGINE, MIDDLE)
    heads = ["space", "seeds", "weights, KiB", "million MACs", "test accuracy, %", "best space minus this, points"]
    space, *others = kinds.values()
    against = [None, *(difference(space, each) for each in others)]
    rows = [
        [name, len(each.records), *costs_of(each), each.accuracy(), gained]
        for (name, each), gained in zip(kinds.items(), against, strict=True)
    ]
    yield Table(heads, rows)


def joint(results: Results) -> Iterator[Table]:
    """Yield table 5.8: joint search of image size and width within limits of multiply-accumulates."""
    rows = list[Sequence[object]]()
    for most in MACS:
        of = {title: outcomes(results, "images", "train evolution {place}", kind, most) for kind, title in JOINT_NAMES.items()}
        rows += rows_of(f"{most / 1e6:.0f} M", of)
    heads = ["MACs", "searched", "weights, KiB", "million MACs", "test accuracy, %", "minus one size and width, points"]
    yield Table(heads, rows)


def bits(results: Results) -> Iterator[Table]:
    """Yield tables 5.3 and 5.4: networks with weights of 8 and of 4 bits in equal Flash."""
    rows = list[Sequence[object]]()
    for flash in NARROW_FLASH:
        of = {each: outcomes(results, "images", "quantise train evolution {place} bits", each, flash) for each in (8, 4)}
        for each, found in of.items():
            real = outcomes(results, "images", "train evolution {place} bits", each, flash)
            against = None if each == 8 else difference(found, of[8])
            rows.append([f"{flash} KiB", f"{each} bits", *costs_of(real), real.accuracy(), found.accuracy(), against])
    heads = ["Flash", "weights", "weights, Ki", "million MACs", "float, %", "quantised, %", "4 bits minus 8, points"]
    yield Table(heads, rows)
