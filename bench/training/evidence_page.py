"""Write docs/EVIDENCE.md from the measurements of `evidence.py` and `small_sets.py`: tables with commands, intervals, costs.

In: the files of measurements (--results, --sets). Out: the page, printed, or written to docs/EVIDENCE.md with --write.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import small_sets
import small_sets_page
from baselines import TABLES
from evidence import (
    BATCHES,
    BEST_ENGINE,
    CURVES,
    KIB,
    LIMITS,
    LONGER,
    MACS,
    MIDDLE,
    NARROW_FLASH,
    RIVALS,
    ROTATIONS,
    TIMES,
    best_settings,
    chosen,
    jobs,
)
from evidence_jobs import ENGINES, PER_CHANNEL
from evidence_results import (
    CORE_WATTS,
    GPU_WATTS,
    KG_PER_KWH,
    Cost,
    Results,
    Tested,
    difference,
    gpu_seconds,
    mean_of,
    outcomes,
    read,
    shown,
)
from page_text import filled, table
from proxies import spearman

from tinyweave.nas.journal import entries
from tinyweave.nas.proxies import PROXIES

ROOT = Path(__file__).resolve().parents[2]
PAGE, FILE = ROOT / "docs" / "EVIDENCE.md", Path(__file__).with_name("evidence.jsonl")
SETS_FILE = Path(__file__).with_name(small_sets.RESULTS)
PLACES = ("images", *(f"keywords-{rotation}" for rotation in range(ROTATIONS)))  # folders of samples
NAMES = {
    "layers": "layer by layer",
    "patches": "first layers by patches",
    "fused": "fused",
    "streamed": "fused, streamed input",
    "mobilenet_v2": "MobileNetV2, scaled",
    "proxyless": "ProxylessNAS, scaled",
    "plain": "hand-made separable convolutions",
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
    "evolution from the supernet's weights, minus evolution": (("tuned", "evolution {place}", BEST_ENGINE), EVOLUTION),
    f"evolution from the supernet's weights, minus {NAMES['plain']}": (
        ("tuned", "evolution {place}", BEST_ENGINE),
        ("rival {place}", "plain", BEST_ENGINE),
    ),
}


LEAD = """# Evidence for the search

This page compares the networks that `tinyweave search` finds on small data sets with simple classifiers and with a hand-made
network. Then it reproduces tables of the MCUNet thesis (MIT, 2024) with smaller data sets and shorter trainings: searched and
scaled networks, inference engines, and search spaces. `bench/training/evidence_page.py` generates this
page from the files `small_sets.jsonl` and `evidence.jsonl` in its folder, which list every run. [Find a network](SEARCH.md)
describes the search.
"""
INTRODUCTION = """## Tables of the MCUNet thesis, reproduced at small scale

**Samples.** Images are a fifth of CIFAR-10 at 32 px: {images[train]:,} for training, {images[validation]:,} for validation,
{images[test]:,} for the test. Keywords are spoken digits of six speakers. In each of three rotations {keywords[train]:,}
recordings of three speakers are for training, the recordings of a fourth speaker for validation, and {keywords[test]:,}
recordings of the other two speakers for the test. So each speaker is in the test once.

**Networks.** One supernet serves all searches of images (a row "own supernet" has another), and one serves each rotation of
keywords. Each supernet was trained for {plan.supernet_epochs} epochs, after {plan.warm_up} epochs of its largest network. A
search evaluates {plan.evolution.evaluations} networks with the supernet's weights on the validation part. Supernets only rank
networks: each network in a table is then trained from random weights for {epochs[images]} epochs (images) or
{epochs[keywords]} epochs (keywords), unless the table says otherwise. All trainings have one recipe (batches of
{batches[images]} images or {batches[keywords]} recordings). Networks are tested in float on the test part. RAM is the arena.
Flash is the weights, and {per_channel} bytes per output channel for bias, multiplier and shift.

**Intervals.** Accuracies are means over seeds (images) or rotations (keywords), with the least and the most in brackets.
Differences have 95 % intervals. Intervals of images are paired over the test samples, and contain the spread over the seeds
(Student's t; its variance is pooled over all trained networks), but not that of other supernets. Intervals of keywords come
from resampled speakers; the two speakers of a rotation have the same network, so these intervals are rather too narrow.
"Better" and "worse" mean that the interval excludes 0. The tables have {differences} intervals, so about {false} of these
words are expected by chance alone.

**Cost.** {gpu}A busy core takes {core} W (assumed), and electricity {kg} kg CO2 per kWh (mean of the world in 2018, IEA). All
together: {total}, on {device}. The supernets alone: {supernets}. Sections share measurements, so their costs overlap.

Every command below begins with `bench/training/evidence.py {command}` and needs `-o DIR` and enough `--minutes`. Measurements
that are in the folder DIR are not repeated.
"""
UNFINISHED = """
**Unfinished.** So far {done} of {all} measurements were made. The tables say "not measured" where a network is missing. Means
are of the seeds or rotations that were measured. With a single seed, intervals lack the spread over seeds. With a single
rotation, intervals of keywords come from two speakers and cannot be trusted.
"""
SUMMARY = """
A case is a task and its RAM. The table counts the cases in which the first network is better or worse than the second; in the
other cases the interval contains 0. The sections below have each case.
"""
LEGEND = """
A name has what was done, the search or the family, the samples (keywords-0 is the first rotation), the engine, and the RAM in
KiB. Before each accuracy is its seed, or the rotation.
"""
GPU = "A GPU takes {} W (the most that an H100 may take); measurements that run at the same time share its seconds equally. "


def kilobytes(count: float) -> str:
    """Return bytes in KiB."""
    return f"{count / KIB:.1f}"


def costs_of(found: Tested) -> list[str]:
    """Return the cells of weights (KiB) and multiply-accumulates (millions) of networks, means over the seeds."""
    return [kilobytes(found.average("weights")), f"{found.average('macs') / 1e6:.2f}"] if found else ["", ""]


def summary(results: Results) -> str:
    """Return the table that counts in how many cases, a task and its RAM, one kind of network is better than another."""
    rows = list[Sequence[object]]()
    for title, kinds in COMPARISONS.items():
        cases = [
            difference(*(outcomes(results, task, *kind, ram) for kind in kinds)) for task in LIMITS for ram in LIMITS[task]
        ]
        found = list(filter(None, cases))
        if found:
            middles = [middle for middle, _ in found]
            spans = f"{mean(middles):+.1f} ({min(middles):+.1f} to {max(middles):+.1f})"
            better, worse = sum(low > 0 for _, (low, _) in found), sum(high < 0 for _, (_, high) in found)
            rows.append([title, len(found), better, worse, spans])
    return table(["networks", "cases", "better", "worse", "mean difference (least to most), points"], rows, 1)


def engines(results: Results) -> Iterator[str]:
    """Yield the table of the best network that a search finds with each engine."""
    rows = list[Sequence[object]]()
    for task in LIMITS:
        for ram in LIMITS[task]:
            of = {engine: outcomes(results, task, "train evolution {place}", engine, ram) for engine in ENGINES}
            for engine, found in of.items():
                if task == "images" or engine in ("layers", BEST_ENGINE):
                    against = "" if engine == "layers" else shown(difference(found, of["layers"]))
                    rows.append([f"{task}, {ram} KiB", NAMES[engine], *costs_of(found), found.accuracy(), against])
    heads = ["task, RAM", "engine", "weights, KiB", "million MACs", "test accuracy, %", "minus layer by layer, points"]
    yield table(heads, rows)


def rivals(results: Results) -> Iterator[str]:
    """Yield the table of searched and scaled networks."""
    rows = list[Sequence[object]]()
    for task in LIMITS:
        for ram in LIMITS[task]:
            found = outcomes(results, task, "train evolution {place}", BEST_ENGINE, ram)
            rows.append([f"{task}, {ram} KiB", "evolution", *costs_of(found), found.accuracy(), ""])
            others = {"random search": outcomes(results, task, "train random {place}", BEST_ENGINE, ram)}
            others |= {NAMES[name]: outcomes(results, task, "rival {place}", name, BEST_ENGINE, ram) for name in RIVALS[task]}
            for name, other in others.items():
                rows.append([f"{task}, {ram} KiB", name, *costs_of(other), other.accuracy(), shown(difference(found, other))])
    yield table(
        ["task, RAM", "network", "weights, KiB", "million MACs", "test accuracy, %", "evolution minus this, points"], rows
    )


def without_engine(results: Results) -> Iterator[str]:
    """Yield table 5.1: scaled and searched networks of the images, layer by layer and with the best engine."""
    rows = list[Sequence[object]]()
    for ram in LIMITS["images"]:
        for engine in ("layers", BEST_ENGINE):
            columns = [outcomes(results, "images", "rival {place}", name, engine, ram) for name in RIVALS["images"]]
            columns.append(outcomes(results, "images", "train evolution {place}", engine, ram))
            rows.append([f"{ram} KiB", NAMES[engine], *(each.accuracy() for each in columns)])
    yield table(["RAM", "engine", *(NAMES[name] for name in RIVALS["images"]), "evolution"], rows)


def remedies(results: Results) -> Iterator[str]:
    """Yield the table of what was tried to improve the searches of images."""
    rows = list[Sequence[object]]()
    for ram in LIMITS["images"]:
        found = outcomes(results, "images", "train evolution {place}", BEST_ENGINE, ram)
        others = [outcomes(results, "images", "rival {place}", name, BEST_ENGINE, ram) for name in RIVALS["images"]]
        best = max(filter(None, others), key=lambda each: each.average("validation"), default=found)
        for name, title in REMEDIES.items():
            tried = outcomes(results, "images", name, "evolution {place}", BEST_ENGINE, ram)
            rows.append(
                [f"{ram} KiB", title, tried.accuracy(), shown(difference(tried, found)), shown(difference(tried, best))]
            )
    heads = ["RAM", "change", "test accuracy, %", "minus evolution alone, points", "minus best other family, points"]
    yield table(heads, rows)


def longer(results: Results) -> Iterator[str]:
    """Yield the table of longer trainings of searched and of scaled networks."""
    kinds = {
        "evolution": ("evolution images", BEST_ENGINE),
        **{NAMES[name]: (f"rival images {name}", BEST_ENGINE) for name in TABLES},
    }
    of = {title: outcomes(results, "images", f"longer {words[0]}", *words[1:], MIDDLE) for title, words in kinds.items()}
    rows = list[Sequence[object]]()
    for title, words in kinds.items():
        first = f"train {words[0]}" if title == "evolution" else words[0]
        against = "" if title == "evolution" else shown(difference(of["evolution"], of[title]))
        short = outcomes(results, "images", first, *words[1:], MIDDLE)
        rows.append([title, short.accuracy(), of[title].accuracy(), shown(difference(of[title], short)), against])
    heads = ["network", "test accuracy, %", f"with {LONGER} times the epochs, %", "difference, points"]
    yield table([*heads, "evolution minus this, both with more epochs, points"], rows)


def curves(results: Results) -> Iterator[str]:
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
    yield table(["search", "seeds", *(f"after {count} networks" for count in counts)], rows)
    for title, other in zip(list(CURVE_NAMES)[1:], last[1:], strict=True):
        by_seed = [last[0][seed] - other[seed] for seed in sorted(set(last[0]) & set(other))]
        if len(by_seed) > 1:
            yield f"Evolution minus {title}, over {len(by_seed)} seeds: {shown(mean_of(by_seed))} points.\n"


def proxies(results: Results) -> Iterator[str]:
    """Yield the table of the proxies' rank correlations with accuracy."""
    records = [line["result"] for name, line in results.lines.items() if name.startswith("proxies ")]
    if not records:
        return
    accuracies = np.array([100 * record["test"] for record in records])
    yield (
        f"{len(records)} networks have {min(accuracies):.1f} to {max(accuracies):.1f} % on the test part after "
        f"{records[0]['epochs']} epochs.\n"
    )
    rng, rows = np.random.default_rng(0), dict[str, tuple[float, list[float]]]()
    draws = [rng.integers(0, len(records), len(records)) for _ in range(500)]
    for name in (*PROXIES, "supernet"):
        values = np.array([record["proxies"][name] for record in records], float)
        drawn = [spearman(values[each].tolist(), accuracies[each].tolist()) for each in draws if np.ptp(values[each])]
        rows[name] = spearman(values.tolist(), accuracies.tolist()), drawn
    ordered = sorted(rows.items(), key=lambda row: -row[1][0])
    heads = ["proxy", "Spearman's rank correlation", "95 % interval (bootstrap of networks)"]
    cells = [(name, rank, *np.quantile(drawn, (0.025, 0.975))) for name, (rank, drawn) in ordered]
    yield table(heads, [[name, f"{rank:+.2f}", f"{low:+.2f} to {high:+.2f}"] for name, rank, low, high in cells])


def spaces(results: Results) -> Iterator[str]:
    """Yield table 5.6 and the data of figure 5-4: searches in spaces of one image size and width."""
    prefix = "train evolution images space"
    settings = {tuple(name.removeprefix(prefix).split()[:2]) for name in results.lines if name.startswith(prefix)}
    first, *_ = best_settings(MIDDLE)
    assert first.size is not None
    best = str(first.size[0]), str(first.width)
    of_setting = {pair: outcomes(results, "images", prefix, *pair) for pair in (best, *sorted(settings - {best}))}
    kinds = {
        f"{'best' if pair == best else 'random'}: {pair[0]} px, width {pair[1]}": each for pair, each in of_setting.items()
    }
    kinds["best, own supernet"] = outcomes(results, "images", "train evolution images-own own")
    kinds["huge"] = outcomes(results, "images", "train evolution images", BEST_ENGINE, MIDDLE)
    yield table(
        ["space", "seeds", "weights, KiB", "million MACs", "test accuracy, %", "best space minus this, points"],
        [
            [
                name,
                len(each.records),
                *costs_of(each),
                each.accuracy(),
                "" if each is of_setting[best] else shown(difference(of_setting[best], each)),
            ]
            for name, each in kinds.items()
        ],
    )


def joint(results: Results) -> Iterator[str]:
    """Yield table 5.8: joint search of image size and width within limits of multiply-accumulates."""
    rows = list[Sequence[object]]()
    for most in MACS:
        of = {kind: outcomes(results, "images", "train evolution {place}", kind, most) for kind in JOINT_NAMES}
        for kind, found in of.items():
            against = "" if kind == "fixed" else shown(difference(found, of["fixed"]))
            rows.append([f"{most / 1e6:.0f} M", JOINT_NAMES[kind], *costs_of(found), found.accuracy(), against])
    heads = ["MACs", "searched", "weights, KiB", "million MACs", "test accuracy, %", "minus one size and width, points"]
    yield table(heads, rows)


def bits(results: Results) -> Iterator[str]:
    """Yield tables 5.3 and 5.4: networks with weights of 8 and of 4 bits in equal Flash."""
    rows = list[Sequence[object]]()
    for flash in NARROW_FLASH:
        of = {each: outcomes(results, "images", "quantise train evolution {place} bits", each, flash) for each in (8, 4)}
        for each, found in of.items():
            real = outcomes(results, "images", "train evolution {place} bits", each, flash)
            against = "" if each == 8 else shown(difference(found, of[8]))
            rows.append([f"{flash} KiB", f"{each} bits", *costs_of(real), real.accuracy(), found.accuracy(), against])
    heads = [
        "Flash",
        "weights",
        "weights, Ki",
        "million MACs",
        "float, %",
        "quantised, %",
        "4 bits minus 8, points",
    ]
    yield table(heads, rows)


class Section(NamedTuple):
    """A section of the page: its title, its words, its tables, and the patterns of the keys of its measurements."""

    title: str
    words: str
    tables: Iterator[str]
    patterns: tuple[str, ...]


def sections(results: Results) -> list[Section]:
    """Return the sections with tables."""
    return [
        Section(
            "Accuracy with different inference engines",
            "All rows of a limit have the same search, space, RAM and Flash (8 times the RAM). But the engines need different\n"
            "RAM for a network. Layer by layer, and first layers by patches with at most 15 % recomputation, are\n"
            "counted as in the thesis, without skip connections. Fused is tinyweave's best plan without recomputation; with\n"
            "streamed input, the input arrives row by row. Engines have equal rows if their searches found the same network.",
            engines(results),
            tuple(f"train evolution * {engine} *" for engine in ENGINES),
        ),
        Section(
            "Search compared with scaled networks and random search (tables 5.1 and 5.2)",
            "RAM is counted for the engine that needs the least (fused, streamed input). Scaled networks have other widths\n"
            "than published, and for images other sizes. Of each family, at most the two networks with the most MACs that fit\n"
            "are trained, and the validation part chooses between them. Above 0, evolution is better.",
            rivals(results),
            (f"train evolution * {BEST_ENGINE} *", f"train random * {BEST_ENGINE} *", f"rival * {BEST_ENGINE} *"),
        ),
        Section(
            "Engine and network together (table 5.1)",
            "Test accuracy on images in percent, for each family within the same RAM: with the engine that needs the most RAM\n"
            "and with the one that needs the least. The section above has the intervals.",
            without_engine(results),
            ("rival images *", "train evolution images layers *", f"train evolution images {BEST_ENGINE} *"),
        ),
        Section(
            "Three changes of the search",
            "Three changes of the search of images; all results are shown. A network that starts from the supernet's weights\n"
            "has had the supernet's training in addition to its own epochs; the networks it is compared with have not. The\n"
            "last column compares with the scaled or hand-made network that has the best validation accuracy.\n"
            "+0.0 [+0.0, +0.0] means that both are one network.",
            remedies(results),
            tuple(f"{name} *" for name in REMEDIES),
        ),
        Section(
            "Longer trainings",
            f"Images, {MIDDLE} KiB, best engine. Deep networks may only train more slowly, so these were trained for\n"
            f"{LONGER} times as many epochs, too.",
            longer(results),
            ("longer *",),
        ),
        Section(
            "Evolution beside random search (figure 5-6)",
            f"Images, {MIDDLE} KiB. Best accuracy so far on the validation part with the supernet's weights, in percent: mean\n"
            "(least to most) over the seeds, all of which use one supernet.",
            curves(results),
            tuple(f"{name} {MIDDLE} *" for name in CURVE_NAMES.values()),
        ),
        Section(
            "Zero-cost proxies",
            f"Random networks for images that fit {MIDDLE} KiB, each trained alone for half as many epochs as the networks\n"
            'above. The row "supernet" is the accuracy on the validation part with the weights of the supernet.',
            proxies(results),
            ("proxies *",),
        ),
        Section(
            "The best space, other spaces and a huge space (table 5.6, figure 5-4)",
            f"Images, {MIDDLE} KiB. The best space is the image size and the width that stage one chooses. The random spaces\n"
            "are drawn from the next nine. The huge space holds all sizes and widths. All rows but one use one supernet.",
            spaces(results),
            ("supernet images-own", "train evolution images-own *", "train evolution images space *"),
        ),
        Section(
            "Joint search of resolution and width (table 5.8)",
            f"Images, {max(LIMITS['images'])} KiB, with a limit of MACs. The one size and width are those that stage one\n"
            "chooses within the same limits.",
            joint(results),
            tuple(f"train evolution images {kind} *" for kind in JOINT_NAMES),
        ),
        Section(
            "4-bit weights beside 8-bit weights in equal Flash (tables 5.3 and 5.4)",
            f"Images, {MIDDLE} KiB. A search may use twice as many weights if each has 4 bits. The networks are quantised\n"
            "without further training.",
            bits(results),
            ("quantise *",),
        ),
    ]


def page(results: Results, sets: Sequence[small_sets.Line]) -> str:
    """Return the page, given the measurements of `evidence.py` and the results of `small_sets.py`."""
    plan, counts, shares = results.plan, results.header["samples"], gpu_seconds(results)

    def cost(names: Iterable[str]) -> Cost:
        lines = [results.lines[name] for name in names]
        return Cost(len(lines), sum(line["cpu_seconds"] for line in lines), sum(shares[line["key"]] for line in lines))

    tables = [(section, "\n".join(section.tables)) for section in sections(results)]
    differences = sum(text.count(" [") for _, text in tables)
    total = cost(results.lines)
    supernets = cost(name for name in results.lines if name.startswith("supernet"))
    introduction = INTRODUCTION.format(
        images=counts["images"],
        keywords=counts["keywords-0"],
        plan=plan,
        epochs={task: times * plan.epochs for task, times in TIMES.items()},
        batches=BATCHES,
        gpu=GPU.format(GPU_WATTS) if total.gpu else "",
        core=CORE_WATTS,
        kg=KG_PER_KWH,
        total=total,
        device=results.header["device"],
        supernets=supernets,
        per_channel=PER_CHANNEL,
        differences=differences,
        false=round(0.05 * differences),
        command=" ".join(results.header["command"]),
    )
    parts = [filled(LEAD), small_sets_page.section(sets), filled(introduction)]
    if len(results.lines) < results.header["measurements"]:
        parts.append(filled(UNFINISHED.format(done=len(results.lines), all=results.header["measurements"])))
    parts.append(f"### Summary\n\n{filled(SUMMARY)}\n{summary(results)}")
    all_jobs = jobs(Path(), plan, CURVES)
    for section, text in tables:
        names = [job.key for job in chosen(all_jobs, section.patterns) if job.key in results.lines]
        trained = [name for name in names if not name.startswith("supernet ") or name in section.patterns]
        if not any(fnmatchcase(name, each) for name in trained for each in section.patterns):
            continue
        parts.append(f"### {section.title}\n\n{filled(section.words)}\n{text}")
        words = " ".join(f"'{each}'" for each in section.patterns)
        others = ", without the common supernets" if len(trained) < len(names) else ""
        parts.append(filled(f"Command: `--only {words}`. Cost{others}: {cost(trained)}."))
    parts.append(f"### Every trained network\n\n{filled(LEGEND)}\n{every_run(results)}")
    return "\n".join(parts)


def every_run(results: Results) -> str:
    """Return the table of all trained networks, with the test accuracy of each seed, and the measurements that failed."""
    by_label = dict[str, dict[str, float]]()
    for name, line in sorted(results.lines.items(), key=lambda each: [word.zfill(8) for word in each[0].split()]):
        if "test" in line["result"] and not name.startswith("proxies"):
            label, seed = name.rsplit(" ", 1)
            by_label.setdefault(label, {})[seed] = 100 * line["result"]["test"]
    rows = [
        [label, ", ".join(f"{seed}: {value:.1f}" for seed, value in sorted(each.items()))] for label, each in by_label.items()
    ]
    text = table(["measurement", "test accuracy by seed, %"], rows)
    others = [name for name in results.lines if not results.lines[name]["result"]]
    text += f"\nNo network fits the limits: {', '.join(sorted(others)) or 'none'}.\n"
    return text + f"\nFailed: {'; '.join(f'{name}: {why}' for name, why in sorted(results.failed.items())) or 'none'}.\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--sets", type=Path, default=SETS_FILE)
    parser.add_argument("--write", action="store_true", help="to docs/EVIDENCE.md")
    args = parser.parse_args()
    text = page(read(args.results), list(entries(args.sets)))
    if args.write:
        PAGE.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
