"""Write docs/EVIDENCE.md from measurements of the other scripts of this folder: tables, commands, costs.

In: the files of measurements. Out: the page, printed, or written to docs/EVIDENCE.md with --write.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import by_hand
import detection
import small_sets
import small_sets_page
import strategies
from evidence import (
    BATCHES,
    BEST_ENGINE,
    CURVES,
    IMAGES,
    KEYWORDS,
    LIMITS,
    LONGER,
    MIDDLE,
    MIN_SHARE,
    PLAIN_WIDTHS,
    ROTATIONS,
    SETTINGS,
    SETTINGS_TRIED,
    TIMES,
    chosen,
    jobs,
)
from evidence_jobs import BYTES, ENGINES, PER_CHANNEL
from evidence_results import CORE_WATTS, GPU_WATTS, KG_PER_KWH, Cost, Results, Table, gpu_seconds, read
from evidence_tables import (
    CURVE_NAMES,
    HEADLINES,
    JOINT_NAMES,
    NAMES,
    REMEDIES,
    bits,
    compared,
    curves,
    engines,
    joint,
    longer,
    remedies,
    rivals,
    spaces,
    summary,
    without_engine,
)
from holm import LEVEL, cutoff, p_of
from page_text import filled, listed, table

from tinynas.journal import entries

ROOT = Path(__file__).resolve().parents[2]
PAGE, FILE = ROOT / "docs" / "EVIDENCE.md", Path(__file__).with_name("evidence.jsonl")
SETS_FILE, HAND_FILE, STRATEGIES_FILE = (Path(__file__).with_name(each.RESULTS) for each in (small_sets, by_hand, strategies))
PLACES = ("images", *(f"keywords-{rotation}" for rotation in range(ROTATIONS)))  # folders of samples
LEAD = """# Evidence for the search

The first part of this page compares networks that `tinyweave search` finds on small data sets, by successive halving, with
simple classifiers and with networks written by hand. The second part repeats experiments of the [MCUNet thesis](PAPERS.md)
with smaller data and shorter trainings: evolution with a supernet, other inference engines, scaled networks, and other search
spaces. `bench/tinynas/evidence_page.py` generates this page from the files `small_sets.jsonl`, `by_hand.jsonl` and
`evidence.jsonl` in its folder, which hold every measurement of this page. [Find a network](SEARCH.md) describes the search,
and [How the search works](TINYNAS.md) its terms.

In short:

- {sets}

- {hands}

- {tables}

- {verdicts}

- No network of this page was run on a board: times are estimates. Accuracies are of the int8 reference in the first part,
and of float networks in the second.
"""
INTRODUCTION = """## Experiments of the MCUNet thesis at small scale

**Samples.** Images are a fifth of CIFAR-10 at 32 px: {images[train]:,} for training, {images[validation]:,} for validation,
{images[test]:,} for the test. Keywords are spoken digits of six speakers. In each of three rotations {keywords[train]:,}
recordings of three speakers are for training, the recordings of a fourth speaker for validation, and {keywords[test]:,}
recordings of the other two speakers for the test. So each speaker is in the test once.

**Networks.** A supernet holds the weights of all networks of a search space. One supernet serves all searches of images (a
row "own supernet" has another), and one serves each rotation of keywords. Each was trained for {plan.supernet_epochs}
epochs, after {plan.warm_up} epochs of its largest network. Evolution and random search evaluate
{plan.evolution.evaluations} networks with the supernet's weights on the validation part. The best network is then trained
from random weights for {epochs[images]} epochs (images) or {epochs[keywords]} epochs (keywords), unless the table says
otherwise. These trainings have one recipe (batches of {batches[images]} images or {batches[keywords]} recordings). They are
short: a full training gives far higher accuracies, and may change the order of the networks.
Networks are tested in float on the test part. RAM is the arena. Flash is the weights, and {per_channel} bytes per output
channel for bias, multiplier and shift. An engine is a way of running a network that needs a certain RAM.

**Intervals.** Accuracies are means over seeds (images) or rotations (keywords), with minimum and maximum in brackets.
Differences have 95 % intervals. For images, the half-width combines the error over the test samples, which are paired, with
the error over seeds (Student's t). The variance over seeds is pooled over all searched networks, and over all scaled and
hand-made networks, which have one architecture for all seeds. All seeds have the same samples and the same supernet, so the
intervals do not contain the chance of the supernet. For keywords the interval is Student's t over the three rotations.
The p-value of a difference is 1 minus the highest confidence at which its interval, made in this way, excludes 0.

**Cost.** {gpu}A busy core takes {core} W (assumed), and electricity {kg} kg CO2 per kWh (mean of the world in 2018, IEA).
All together: {total}, on {device}. The supernets alone: {supernets}. Sections share measurements, so their costs overlap.
Reading the samples and starting Python are not counted.

Every command below begins with `bench/tinynas/evidence.py {command}` and needs `-o DIR` and enough `--minutes`.
Measurements that are in the folder DIR are not repeated.
"""
UNFINISHED = """
**Unfinished.** So far {done} of {all} measurements were made. The tables say "not measured" where a network is missing.
Means are of the seeds or rotations that were measured. Until some networks have several seeds (images) or rotations
(keywords), intervals are over the test samples only, and there are no verdicts.
"""
SUMMARY = """
A case is one task with one limit of RAM. The table counts the cases in which the first network is better or worse than the
second, or in which this is not shown; in the other cases the interval contains 0. The last column has the smallest and the
largest difference. Cases share samples and supernets, so they are not independent. The sections below have each case.
"""
LEGEND = """
A name lists the step, the search or the family, the samples (keywords-0 is the first rotation), the engine, and the RAM in
KiB. Before each accuracy is its seed, or the rotation.
"""
GPU = "A GPU takes {} W (the most that an H100 may take); measurements that run at the same time share its seconds equally. "


class Section(NamedTuple):
    """A section of the page: its title, its words, its tables, and the patterns of the keys of its measurements."""

    title: str
    words: str
    tables: Iterator[Table]
    patterns: tuple[str, ...]


def sections(results: Results) -> list[Section]:
    """Return the sections with tables."""
    best = NAMES[BEST_ENGINE]
    return [
        Section(
            "Accuracy with different inference engines",
            "Rows with the same limit of RAM have the same search, space and Flash (8 times the RAM). But the engines need\n"
            "different RAM for a network. Layer by layer, and first layers by patches with at most 15 % recomputation, are\n"
            "counted as in the thesis, without skip connections, which favours them: their networks may need more RAM in\n"
            "practice. Fused is tinyweave's best plan without recomputation, with everything counted; with streamed input,\n"
            "the input arrives row by row. Rows are equal if the searches found the same network. In the thesis, patches are\n"
            "3 points better than layer by layer (table 5.4, figure 5-3).",
            engines(results),
            tuple(f"train evolution * {engine} *" for engine in ENGINES),
        ),
        Section(
            "Search compared with scaled networks and random search, without a limit of time (table 5.1)",
            f"RAM is counted for the engine that needs the least ({best}). Scaled networks differ from the published ones in\n"
            "width, image size and strides; DS-CNN also in kernel, activations and skip connections. They are weak at this\n"
            "scale. Hand-made, plain networks have kernels of 3, the smallest expansions of the space and one factor for all\n"
            f"widths, up to {max(PLAIN_WIDTHS):g}; evolution has factors of at most {max(IMAGES.widths):g} for images and\n"
            f"{max(KEYWORDS.widths):g} for keywords, so it could not find the widest of them. Of each family the two fitting\n"
            "networks with the most MACs are trained, and the one with the higher validation accuracy is kept. Above 0,\n"
            "evolution is better. In the thesis, the search is better than scaled MobileNetV2 and ProxylessNAS.",
            rivals(results),
            (f"train evolution * {BEST_ENGINE} *", f"train random * {BEST_ENGINE} *", f"rival * {BEST_ENGINE} *"),
        ),
        Section(
            "Engine and network together (table 5.1)",
            "Test accuracy on images in percent, for each family within the same RAM: with the engine that needs the most RAM\n"
            "and with the one that needs the least. The section above has the intervals. In the thesis, both the engine and\n"
            "the search add accuracy.",
            without_engine(results),
            ("rival images *", "train evolution images layers *", f"train evolution images {BEST_ENGINE} *"),
        ),
        Section(
            "Three changes to the search",
            "Three changes to the search of images; all results are shown. A network that starts from the supernet's weights\n"
            f"has had the {results.plan.warm_up + results.plan.supernet_epochs} epochs of the supernet in addition to its\n"
            "own; the networks it is compared with have not, and longer trainings help them, too (next section). The last\n"
            "column compares with the scaled or hand-made network that has the best validation accuracy. +0.0 [+0.0, +0.0]\n"
            "means that both are one network.",
            remedies(results),
            tuple(f"{name} *" for name in REMEDIES),
        ),
        Section(
            "Longer trainings",
            f"Images, {MIDDLE} KiB, {best}. Deep networks may need more epochs, so these were trained for {LONGER} times as\n"
            "many epochs, too.",
            longer(results),
            ("longer *",),
        ),
        Section(
            "Evolution compared with random search (figure 5-6)",
            f"Images, {MIDDLE} KiB. Best accuracy so far on the validation part with the supernet's weights, in percent: mean\n"
            "(minimum to maximum) over the seeds, all of which use one supernet. With the same seed and engine, the first\n"
            f"{results.plan.population} networks of evolution and of random search are the same. In the thesis, the best\n"
            "network of evolution is 1 point better than the best of random search; evolution layer by layer is much worse.",
            curves(results),
            tuple(f"{name} {MIDDLE} *" for name in CURVE_NAMES.values()),
        ),
        Section(
            "The best space, other spaces and all sizes and widths (table 5.6)",
            f"Images, {MIDDLE} KiB. The best space is the image size and the width that stage one chooses if at least\n"
            f"{100 * MIN_SHARE:.0f} % of its networks must fit. {SETTINGS_TRIED} of the {SETTINGS - 1} next best spaces\n"
            "were drawn. The last row searches all sizes and widths. All rows but one use one supernet. In the thesis, the\n"
            "best space is better than others of the best ten, and better than a huge space.",
            spaces(results),
            ("supernet images-own", "train evolution images-own *", "train evolution images space *"),
        ),
        Section(
            "Joint search of resolution and width (table 5.8 without networks scaled after the search)",
            f"Images, {max(LIMITS['images'])} KiB, with a limit of MACs. Stage one chooses the single size and width within\n"
            "the same limits. In the thesis, a width per block is better than one width if MACs are few.",
            joint(results),
            tuple(f"train evolution images {kind} *" for kind in JOINT_NAMES),
        ),
        Section(
            "4-bit weights compared with 8-bit weights in equal Flash, quantised after the training",
            f"Images, {MIDDLE} KiB. With 4 bits, a search may use up to {1 / BYTES[4]:.2f} times as many weights. The\n"
            "networks are not trained for 4 bits, as those of tables 5.3 and 5.4 are. They differ also in architecture.",
            bits(results),
            ("quantise *",),
        ),
    ]


def in_short(
    results: Results, sets: Sequence[small_sets.Line], hands: Sequence[by_hand.Line], p_values: Sequence[float]
) -> dict[str, str]:
    """Return the sentences that sum up both parts, given the p-values of all comparisons of the page."""
    limit = cutoff(p_values)
    kinds = Counter(small_sets.kind_of(line) for line in sets)
    kinds_of_verdict = product(("baseline_interval", "by_hand_interval"), ("better", "worse"))
    wins, losses, better, worse = (len(small_sets.those(sets, key, said, limit)) for key, said in kinds_of_verdict)
    first = (
        f"On {wins} of {len(sets)} small sets the search is better than the best simple classifier, on"
        f" {losses} it is worse. Compared with a hand-made network that was trained for about the same CPU"
        f" time, it is better on {better} and worse on {worse}; on {kinds['hand-made']} it returned this very network, on"
        f" {kinds['sampled']} a sampled one."
    )
    alone, survivors = (sum(p <= most for p in p_values) for most in (LEVEL, limit))
    verdicts = (
        f"This page has {len(p_values)} comparisons; one that stands in two tables counts twice. The p-value of {alone} is at"
        f" most {LEVEL}. Holm's correction for the number of comparisons leaves {survivors} of them; only these are called"
        ' better or worse, and "not shown" marks the others whose interval excludes 0. So the chance of any false verdict is at'
        f" most {100 * LEVEL:.0f} %, as far as the intervals are right."
    )
    parts = list[str]()
    for title, words in HEADLINES.items():
        said = [each.verdict(limit) for each in compared(results, title)[0]]
        if said:
            parts.append(f"{words} in {said.count('better')} of {len(said)} cases (worse in {said.count('worse')})")
    second = (
        f"With short trainings, evolution with a supernet and the engine that needs the least RAM is better {listed(parts)}."
    )
    return {"sets": first, "hands": by_hand.in_short(hands, limit), "tables": second, "verdicts": verdicts}


def page(
    results: Results,
    sets: Sequence[small_sets.Line],
    hands: Sequence[by_hand.Line],
    detectors: detection.Lines,
    searches: Sequence[strategies.Line] = (),
) -> str:
    """Return the page, given the results of `evidence.py`, `small_sets.py`, `by_hand.py`, `detection.py`, `strategies.py`."""
    plan, counts, shares = results.plan, results.header["samples"], gpu_seconds(results)

    def cost(names: Iterable[str]) -> Cost:
        lines = [results.lines[name] for name in names]
        return Cost(len(lines), sum(line["cpu_seconds"] for line in lines), sum(shares[line["key"]] for line in lines))

    tables = [(section, list(section.tables)) for section in sections(results)]
    p_values = [each.p for _, own in tables for one in own for each in one.differences()]
    p_values += [p_of(line[key]) for line in sets for key in ("baseline_interval", "by_hand_interval") if key in line]
    p_values += by_hand.p_values(hands) + detection.p_values(detectors) + strategies.p_values(searches)
    limit = cutoff(p_values)
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
        command=" ".join(results.header["command"]),
    )
    lead = filled(LEAD.format(**in_short(results, sets, hands, p_values)))
    parts = [lead, small_sets_page.section(sets, limit), by_hand.section(hands, limit)]
    parts += [strategies.section(searches, limit)] if searches else []
    parts += [detection.section(detectors, limit), filled(introduction)]
    if len(results.lines) < results.header["measurements"]:
        parts.append(filled(UNFINISHED.format(done=len(results.lines), all=results.header["measurements"])))
    parts.append(f"### Summary\n\n{filled(SUMMARY)}\n{summary(results, limit)}")
    all_jobs = jobs(Path(), plan, CURVES)
    for section, own in tables:
        names = [job.key for job in chosen(all_jobs, section.patterns) if job.key in results.lines]
        trained = [name for name in names if not name.startswith("supernet ") or name in section.patterns]
        if not any(fnmatchcase(name, each) for name in trained for each in section.patterns):
            continue
        text = "\n".join(each.text(limit) for each in own if each.rows)
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
        if "test" in line["result"]:
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
    parser.add_argument("--by-hand", type=Path, default=HAND_FILE)
    parser.add_argument("--write", action="store_true", help="to docs/EVIDENCE.md")
    args = parser.parse_args()
    text = page(
        read(args.results),
        list(entries(args.sets)),
        list(entries(args.by_hand)),
        detection.read(),
        list(entries(STRATEGIES_FILE)),
    )
    if args.write:
        PAGE.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
