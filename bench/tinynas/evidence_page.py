"""Write docs/EVIDENCE.md from measurements of the other scripts of this folder: tables, figures, commands, costs.

In: the files of measurements. Out: the page, printed, or written to docs/EVIDENCE.md, with its figures, with --write.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
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
from evidence import EPOCHS, IMAGES, KIB, LIMITS, MIN_SHARE, NARROW, QAT_EPOCHS, SAMPLED, SEEDS, SUPERNET, experiments, jobs
from evidence_jobs import DEVICE, PER_CHANNEL, PLAIN_WIDTHS, SCALED_SIZES, TRIED
from evidence_results import CORE_WATTS, KG_PER_KWH, Results, Table, cost_of, read
from evidence_tables import (
    Points,
    chart,
    compared,
    correlation,
    curves,
    front_series,
    fronts,
    ranking,
    space_series,
)
from holm import LEVEL, cutoff, p_of
from page_text import filled, listed

from tinynas.journal import entries
from tinyweave.support.files import write_file

ROOT = Path(__file__).resolve().parents[2]
PAGE, FILE = ROOT / "docs" / "EVIDENCE.md", Path(__file__).with_name("evidence.jsonl")
SETS_FILE, HAND_FILE, STRATEGIES_FILE = (Path(__file__).with_name(each.RESULTS) for each in (small_sets, by_hand, strategies))
LEAD = """# Evidence for the search

This page compares networks that `tinyweave search` finds on small data sets with simple classifiers and with networks written
by hand.{second} `bench/tinynas/evidence_page.py` generates this page from the files `*.jsonl` in its folder, which hold every
measurement of this page. [Find a network](SEARCH.md) describes the search, and [How the search works](TINYNAS.md) its terms.

In short:

{points}
"""
SECOND = " Its last part repeats experiments of the [MCUNet thesis](PAPERS.md) with smaller data."
RAM = f"{LIMITS.ram // KIB} KiB"
INTRODUCTION = f"""## Experiments of the MCUNet thesis at small scale

**Samples.** Images are a fifth of CIFAR-10: {{train:,}} for training, {{validation:,}} for validation, {{test:,}} for the test.
Networks see them with at most {max(IMAGES.sizes)[0]} pixels on each side, and need at most {RAM} of RAM (the arena) and
{LIMITS.flash // KIB} KiB of Flash (the weights, and {PER_CHANNEL} bytes per output channel), unless a table says otherwise.
Images and RAM are small, so that long trainings are affordable, and so that the RAM excludes networks. The RAM is that of
tinyweave's best plan without recomputation, with an image that arrives row by row. Milliseconds are estimates for an
{DEVICE}, of the fastest plan within {RAM}.

**Networks.** A supernet holds the weights of all networks of a search space. One supernet serves all searches of one space; it
was trained for {SUPERNET.epochs} epochs, after {SUPERNET.warm_up} epochs of its largest network. Evolution and random search
evaluate {SUPERNET.evolution.evaluations} networks with the supernet's weights on the validation part. The best network is then
trained from random weights for {EPOCHS} epochs with the recipe of `tinyweave search` (AdamW; CutMix in long trainings), as are
all networks that it is compared with. Networks are tested in float on the test part, unless a table says otherwise.

**Intervals.** Accuracies are means over {SEEDS} seeds of search and training, with minimum and maximum in brackets. Differences
have 95 % intervals, whose half-width combines the error over the test samples, which are paired, with the error over seeds
(Student's t). The variance over seeds is pooled over all searched networks, and over all scaled and plain networks, which
have one architecture for all seeds. All seeds share samples and supernets, so the intervals do not contain their chance. The
p-value of a difference is 1 minus the highest confidence at which its interval, made in this way, excludes 0.

**Cost.** A busy core takes {CORE_WATTS} W (assumed), and electricity {KG_PER_KWH} kg CO2 per kWh (mean of the world in 2018,
IEA). All together: {{total}}, on {{device}}. Sections share measurements, so their costs overlap. Reading the samples, starting
Python and trainings that were interrupted are not counted. Commands need `-o DIR`; measurements that are in the folder DIR are
not repeated.
"""


TEXTS = {  # title and words of each experiment
    "5.1": (
        "Evolution beside random search, scaled and plain networks (table 5.1 without scaled networks layer by layer)",
        f"""
The RAM of evolution layer by layer is counted as in the thesis: without skip connections, and the image does not arrive row by
row. The column RAM has tinyweave's count. Scaled networks differ from the published ones in width, in image size
({SCALED_SIZES[0][0]} to {SCALED_SIZES[-1][0]} pixels), and in their last strides, which are 1 if the image is too small for
them. Plain networks have kernels of 3, the smallest expansions of the space and one factor for all widths, up to
{max(PLAIN_WIDTHS):g}; evolution has factors of at most {max(IMAGES.widths):g}. Of each family the {TRIED} fitting networks with
the most multiply-accumulates are trained with the first seed, and the one with the higher validation accuracy counts. In the
thesis the search is 5.4 points better than scaled ProxylessNAS and 14.4 points better than scaled MobileNetV2.
""",
    ),
    "5-6": (
        "Evolution beside random search, by the number of networks (figure 5-6)",
        f"""
The best accuracy so far on the validation part, with the supernet's weights, in percent. All {SEEDS} seeds share one supernet,
so the intervals (Student's t over the seeds) do not contain its chance. In the thesis evolution ends 1 point above random
search, and evolution layer by layer is much worse.
""",
    ),
    "doubled": (
        "Trainings of twice as many epochs",
        f"""
Whether {EPOCHS} epochs suffice: two networks of table 5.1, with one seed, were trained for {2 * EPOCHS} epochs, too. The
intervals are over the test samples only.
""",
    ),
    "5.2": (
        "No limit of time, and two limits (table 5.2 and figure 5-2, without networks layer by layer)",
        """
The second table has, for each scaled or plain network, how many times faster, and how many times smaller in SRAM, the cheapest
of evolution's networks is that is at least as accurate, by the means of the first table; below 1 it is slower or larger. In the
thesis these are 2.4 to 3.4 times and 3.7 to 4.1 times; there the baselines run on other engines, too.
""",
    ),
    "5.8": (
        "Joint search of image size and width, and networks scaled down after the search (table 5.8)",
        f"""
All searches use one supernet. The one size and width are those that stage one chooses within the same limits, if at least
{100 * MIN_SHARE:.0f} % of the networks must fit. The networks that are scaled down are those of evolution without a limit of
multiply-accumulates; image sides and widths are scaled by the largest common factor with which the network fits. In the thesis
a joint search is better than networks that were scaled after a search, and a width per block is better than one width if
multiply-accumulates are few.
""",
    ),
    "5.3": (
        "8-bit and 4-bit weights in equal Flash (table 5.3 and table 5.4 at one limit, with quantised training and 8-bit maps)",
        f"""
Two searches within {NARROW // KIB} KiB of Flash: weights have 8 bits, or 4 bits, and then there may be about twice as many. The
trained networks are trained on for {QAT_EPOCHS} epochs with fake quantisation (`tw.prepare_qat`), and the int8 network that
`tw.convert_qat` makes is tested. Maps have 8 bits in both. In the thesis, MCUNet with 4 bits is 2.2 points better than with 8
(table 5.4, 2 MB of Flash).
""",
    ),
    "5.6": (
        "Spaces of stage one, from best to worst, each with a supernet of its own (table 5.6 without ResNet-18, figure 5-4)",
        f"""
A space has one image size and one width. Stage one samples {SAMPLED} networks of each; spaces of which less than
{100 * MIN_SHARE:.0f} % fit are left out. Stage one of `tinyweave search` ranks spaces by the 80th percentile (p80) of the
multiply-accumulates of the networks that fit, the thesis by their mean. The last row searches all sizes and widths, by another
supernet. Spearman's correlation with the accuracy is {{p80[0]:+.2f}} (p = {{p80[1]:.2g}}) for p80, and {{mean[0]:+.2f}}
(p = {{mean[1]:.2g}}) for the mean; Holm's correction counts both. In the thesis the relation is clearly positive, and the best
space is better than others and than a huge space.
""",
    ),
}


class Section(NamedTuple):
    """A section of the page: an experiment's name, the section's title, words and tables, and its figures by file and title."""

    experiment: str
    title: str
    words: str
    tables: Sequence[Table]
    figures: dict[str, tuple[str, str]]  # name of a file in docs/images -> title, SVG
    p_values: Sequence[float]  # of all comparisons


def sections(results: Results) -> list[Section]:
    """Return the sections of the experiments whose measurements are complete."""
    names = (name for name in experiments() if results.lines.keys() >= {job.key for job in jobs(Path(), [name])})
    return [section(results, name) for name in names]


def section(results: Results, name: str) -> Section:
    """Return the section of an experiment."""
    (title, words), found, charts = TEXTS[name], list[tuple[float, float]](), dict[str, tuple[str, str, dict[str, Points]]]()
    if name == "5-6":
        best, against, points = curves(results)
        tables = [best, against]
        charts["5_6"] = "Best accuracy on the validation part, mean over the seeds", "networks evaluated", points
    else:
        tables = [compared(results, experiments()[name])]
    if name == "5.2":
        tables.append(fronts(results))
        for cost, scale, axis in (("ms", 1.0, "milliseconds (estimated)"), ("ram", KIB, "KiB of SRAM")):
            charts[f"5_2_{cost}"] = f"Accuracy over {axis}", axis, front_series(results, cost, scale)
    if name == "5.6":
        tables.insert(0, ranking())
        found = [correlation(results, by) for by in ("p80", "mean")]
        words = words.format(p80=found[0], mean=found[1])
        series = space_series(results, "p80")
        charts["5_4"] = "Accuracy of the networks found over the p80 of their space", "M multiply-accumulates (p80)", series
    figures = {f"evidence_{file}.svg": (said, chart(said, axis, series)) for file, (said, axis, series) in charts.items()}
    p_values = [each.p for table in tables for each in table.differences()] + [p for _, p in found]
    return Section(name, title, words, tables, figures, p_values)


def in_short(
    shown: Sequence[Section], sets: Sequence[small_sets.Line], hands: Sequence[by_hand.Line], p_values: Sequence[float]
) -> list[str]:
    """Return the sentences that sum up the page, given the p-values of all its comparisons."""
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
    boards = "No network of this page was run on a board: times are estimates."
    second = [headline(table, limit) for each in shown if each.experiment == "5.1" for table in each.tables]
    return [first, by_hand.in_short(hands, limit), *second, verdicts, boards]


def headline(table: Table, limit: float) -> str:
    """Return the sentence that sums up table 5.1."""
    of = {str(name): each.verdict(limit) for _, name, *_, each in table.rows if each is not None}
    named = {said: [name for name, own in of.items() if own == said] for said in ("better", "worse")}
    parts = [f"{said} than {listed(names)}" for said, names in named.items() if names]
    others = [name for name, said in of.items() if said not in named]
    parts += [f"not shown to be better or worse than {listed(others)}"] if others else []
    return f"Within {RAM} of RAM, networks that evolution finds with a supernet are {listed(parts)}."


def page(
    results: Results,
    sets: Sequence[small_sets.Line],
    hands: Sequence[by_hand.Line],
    detectors: detection.Lines,
    searches: Sequence[strategies.Line] = (),
) -> str:
    """Return the page, given the results of `evidence.py`, `small_sets.py`, `by_hand.py`, `detection.py`, `strategies.py`."""
    shown = sections(results)
    p_values = [p for each in shown for p in each.p_values]
    p_values += [p_of(line[key]) for line in sets for key in ("baseline_interval", "by_hand_interval") if key in line]
    p_values += by_hand.p_values(hands) + detection.p_values(detectors) + strategies.p_values(searches)
    limit = cutoff(p_values)
    points = "\n\n".join(f"- {each}" for each in in_short(shown, sets, hands, p_values))
    lead = filled(LEAD.format(second=SECOND if shown else "", points=points))
    parts = [lead, small_sets_page.section(sets, limit), by_hand.section(hands, limit)]
    parts += [strategies.section(searches, limit)] if searches else []
    parts.append(detection.section(detectors, limit))
    if shown:
        needed = [job.key for job in jobs(Path(), [each.experiment for each in shown])]
        total, device = cost_of(results.lines[key] for key in needed), results.lines[needed[0]]["device"]
        parts.append(filled(INTRODUCTION.format(**results.header["samples"], total=total, device=device)))
    for each in shown:
        parts.append(f"### {each.title}\n\n{filled(each.words)}")
        parts += [table.text(limit) for table in each.tables]
        parts += [f"![{title}](images/{name})\n" for name, (title, _) in each.figures.items()]
        cost = cost_of(results.lines[job.key] for job in jobs(Path(), [each.experiment]))
        parts.append(filled(f"Command: `bench/tinynas/evidence.py -o DIR --only {each.experiment}`. Cost: {cost}."))
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--write", action="store_true", help="to docs/EVIDENCE.md")
    args = parser.parse_args()
    results = read(args.results)
    others = list(entries(SETS_FILE)), list(entries(HAND_FILE)), detection.read(), list(entries(STRATEGIES_FILE))
    text = page(results, *others)
    if args.write:
        PAGE.write_text(text)
        for each in sections(results):
            for name, (_, drawn) in each.figures.items():
                write_file(PAGE.parent / "images" / name, drawn)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
