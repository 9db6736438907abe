"""Stage one of TinyNAS in the setting of the MCUNet thesis, beside what the thesis prints: figures 3-2 and 5-5.

In: the number of networks of each setting. Out: the page docs/STAGE_ONE.md and its three SVG figures, in a folder. The
sampled networks are counted twice: with the RAM of a layer-by-layer run, as the thesis counts it, and with that of the
planner's best plans. The counts are kept in a JSON file in the same folder, and are not computed again if the file is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from html import escape
from pathlib import Path
from textwrap import fill

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from sheet import COLOURS, LEFT, sheet

from tinynas.space import MOBILE
from tinynas.stage_one import PERCENTILE, Schedule, Setting, StageLimits, best_setting, stage_one_per_limit

KIB, CLASSES = 1024, 100
RAMS, FLASHES = (192, 256, 320, 384, 512), (512, 1024, 1536, 2048)
WHERE = 320, 1024  # KiB of RAM and Flash of figure 3-2
SCHEDULES: tuple[Schedule, ...] = ("layer", "best")
PRINTED = {  # legend of figure 3-2: mean multiply-accumulates in millions
    **{"w0.3-r160": 32.5, "w0.4-r112": 32.4, "w0.4-r128": 39.3, "w0.4-r144": 46.9, "w0.5-r112": 38.3},
    **{"w0.5-r128": 46.9, "w0.5-r144": 52.0, "w0.6-r112": 41.3, "w0.7-r96": 31.4, "w0.7-r112": 38.4},
}
SHARES = (0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of a setting's networks, which must fit for it to be chosen
PRINTED_P80 = 50.3  # of the chosen setting, in the caption
PLOT, DEPTH, BELOW, TOP = 700, 360, 60, 56  # width and height of the plot, room for its axis, and for its title
CELL, ROW = 130, 44
Names = dict[tuple[int, int], str]  # limits in KiB -> name of the best setting


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


def counted(schedule: Schedule, count: int, processes: int) -> dict[str, object]:
    """Return the best setting within each limit, all settings within WHERE, and the seconds that this took, as JSON values."""
    begin, pairs = time.perf_counter(), [(ram, flash) for flash in FLASHES for ram in RAMS]
    limits = [StageLimits(ram * KIB, flash * KIB, schedule) for ram, flash in pairs]
    every = stage_one_per_limit(MOBILE, limits, CLASSES, count, processes=processes)
    best = [best_setting(settings, "mean") for settings in every]
    return {
        "best": [[*pair, name_of(each) if each else "none"] for pair, each in zip(pairs, best, strict=True)],
        "settings": [asdict(each) for each in every[pairs.index(WHERE)]],
        "seconds": time.perf_counter() - begin,
    }


def named(found: dict[str, object]) -> tuple[Names, dict[str, Setting]]:
    """Return the names of the best settings by limits, and all settings within WHERE by name."""
    settings = [Setting(**{**each, "size": tuple(each["size"]), "macs": tuple(each["macs"])}) for each in found["settings"]]
    return {(ram, flash): name for ram, flash, name in found["best"]}, {name_of(each): each for each in settings}


def page(names: dict[str, Names], settings: dict[str, dict[str, Setting]], count: int, seconds: dict[str, float]) -> str:
    """Return the page docs/STAGE_ONE.md."""
    layer, best = (settings[schedule] for schedule in SCHEDULES)
    chosen = {schedule: names[schedule][WHERE] for schedule in SCHEDULES}
    own = layer[chosen["layer"]]
    points = [names["layer"][limits] for limits in ((192, 512), (512, 512), (192, 2048))]
    ratios = [layer[name].mean / 1e6 / mean for name, mean in PRINTED.items()]
    paragraph, item = (partial(fill, width=140, subsequent_indent=indent) for indent in ("", "  "))
    more = best[chosen["best"]]
    rows = [[name, f"{mean:.1f}", *numbers(layer[name]), *numbers(best[name])] for name, mean in PRINTED.items()]
    rows.append([chosen["best"], "-", *numbers(layer[chosen["best"]]), *numbers(more)])
    rows.append(["**chosen**", "**w0.5-r144**", f"**{chosen['layer']}**", "", f"**{chosen['best']}**", ""])
    lines = [
        "# Stage one beside the thesis",
        "",
        paragraph(
            "`tinyweave search` chooses the size of a network's input as stage one of TinyNAS does "
            "([how](TINYNAS.md#stage-one-the-size-of-the-input)). This page runs stage one with the limits of the MCUNet "
            "thesis, and compares the choice with the thesis' choice. A setting is a pair of width and image size: w0.5-r144 "
            "is a width of 0.5 and images of 144 x 144 pixels."
        ),
        "",
        paragraph(
            f"`bench/tinynas/stage_one_thesis.py --count {count} -o FOLDER` samples {count:,} networks of each of 108 "
            "settings (12 image sizes and 9 widths; 100 classes), counts the networks whose arena and weights fit (stack and "
            "code are not counted). Of the settings of which at least 80 % of the networks fit, it chooses the one with the "
            "largest mean of multiply-accumulates, as in figures 3-2 and 5-5. (The thesis names no such share; 80 % is that of "
            "MIT's lecture on TinyML. `tinyweave search` compares 80th percentiles instead of means.) There are two models of "
            "RAM: the thesis' model, in which a network runs layer by layer, and "
            f"tinyweave's best plans. One process on a busy machine took {seconds['layer']:.0f} s layer by layer and "
            f"{seconds['best']:.0f} s with best plans. The thesis states about 2 CPU hours for stage one."
        ),
        "",
        paragraph(
            f"**Figure 3-2**, within {WHERE[0]} KiB of RAM and {WHERE[1] // KIB} MiB of Flash. Means and 80th percentiles "
            "(p80) are of the networks that fit, in millions of multiply-accumulates. All sampled networks fit unless the "
            "table says otherwise."
        ),
        "",
        "| setting | thesis: mean | layer by layer: mean | p80 | best plans: mean | p80 |",
        "|---|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        item(
            f"- Layer by layer, stage one chooses {chosen['layer']}; the thesis chooses w0.5-r144. The 80th percentile of our "
            f"choice is {own.p80 / 1e6:.1f} M; the thesis states {PRINTED_P80} M."
        ),
        item(
            f"- Our means are {min(ratios):.2f} to {max(ratios):.2f} times those of the thesis. The means differ even if all "
            "sampled networks fit, so the thesis sampled from another space. Its text states 3.3e25 networks for "
            "each setting and its appendix 2e19; ours has 2e20. The thesis also prints a mean (52.0 M) above the 80th "
            f"percentile ({PRINTED_P80} M) of the same setting, which is hardly possible."
        ),
        item(f"- {thresholds(list(layer.values()))}"),
        item(
            f"- With best plans (fused layers, no recomputation) {chosen['best']} fits the same memory. Its mean is "
            f"{more.mean / own.mean:.1f} times that of {chosen['layer']} layer by layer."
        ),
        "",
        "![Multiply-accumulates of networks that fit, layer by layer](images/stage_one_3_2.svg)",
        "",
        paragraph(
            "**Figure 5-5** shows the best setting by mean multiply-accumulates, within other limits. The text of the "
            "thesis prints no values of this figure. It describes two trends that begin at 192 KiB of RAM and 512 KiB of Flash "
            "(point 1): more RAM leads to point 2, more Flash to point 3. The last two rows compare single choices:"
        ),
        "",
        "| limits | thesis, or lecture | ours, layer by layer |",
        "|---|---|---|",
        f"| point 1 to 2: RAM 192 to 512 KiB | same width, larger image | {points[0]} to {points[1]} |",
        f"| point 1 to 3: Flash 512 to 2,048 KiB | larger width, smaller image | {points[0]} to {points[2]} |",
        f"| 320 KiB of RAM, 1 MiB of Flash | w0.5-r144 (figure 3-2) | {names['layer'][WHERE]} |",
        "| 320 KiB of RAM, 512 KiB of Flash | w0.4-r144 (MIT 6.5940, lecture on MCUNet: if the Flash is smaller) | "
        f"{names['layer'][320, 512]} |",
        "",
        "![Best settings, layer by layer](images/stage_one_5_5_layer.svg)",
        "",
        paragraph(
            "With best plans RAM hardly limits these settings. Flash decides the width, and the image is the largest or almost "
            "the largest:"
        ),
        "",
        "![Best settings with best plans](images/stage_one_5_5_best.svg)",
        "",
        paragraph(
            "Figure 5-4 and tables 5.6 and 5.8 (the accuracy that the chosen setting gains) need trainings on ImageNet. "
            "`bench/tinynas/evidence.py` repeats them in small. None of its tables is measured with today's search; the script "
            "first prints how many CPU hours its measurements take."
        ),
        "",
    ]
    return "\n".join(lines)


def thresholds(settings: Sequence[Setting]) -> str:
    """Return text about the choice if another share of a setting's networks must fit."""
    by_choice = dict[str, list[str]]()
    for share in SHARES:
        best = best_setting(settings, "mean", share)
        by_choice.setdefault("none" if best is None else name_of(best), []).append(f"{100 * share:g} %")
    choices = [f"{name} (at {', '.join(shares)})" for name, shares in by_choice.items()]
    return f"The required share decides: layer by layer, the setting with the largest mean is {', '.join(choices)}."


def numbers(setting: Setting) -> list[str]:
    """Return mean and 80th percentile as text, with the share of networks that fit if some do not."""
    if not setting.macs:
        return ["none fits", "-"]
    share = "" if setting.share == 1 else f" ({100 * setting.share:.0f} % fit)"
    return [f"{setting.mean / 1e6:.1f}{share}", f"{setting.p80 / 1e6:.1f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="networks of each setting")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("-o", "--output", required=True, type=Path, help="folder of the page, its figures and the counts")
    args = parser.parse_args()
    (images := args.output / "images").mkdir(parents=True, exist_ok=True)
    kept = args.output / f"stage_one_{args.count}.json"
    if not kept.is_file():
        kept.write_text(json.dumps({each: counted(each, args.count, args.processes) for each in SCHEDULES}))
    found = json.loads(kept.read_text())
    both = {schedule: named(found[schedule]) for schedule in SCHEDULES}
    names, settings = ({schedule: each[index] for schedule, each in both.items()} for index in (0, 1))
    shown = [settings["layer"][name] for name in PRINTED]
    (images / "stage_one_3_2.svg").write_text(cdf(shown, "Networks within 320 KiB of RAM and 1 MiB of Flash, layer by layer"))
    for schedule, how in (("layer", "layer by layer"), ("best", "with best plans")):
        title = f"The best width and image by mean multiply-accumulates, {how}"
        (images / f"stage_one_5_5_{schedule}.svg").write_text(best_map(names[schedule], title))
    seconds = {schedule: found[schedule]["seconds"] for schedule in SCHEDULES}
    (args.output / "STAGE_ONE.md").write_text(page(names, settings, args.count, seconds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
