"""How little RAM do fused plans of real models need, what does it cost, and do they give the right bytes?

In: a folder of .tflite files (--models). Out: per model and question (input by rows or in RAM, work at most F times the
network's) the arena, its F, the goal, how much that is of what others need, whether C of the plan gives the bytes of the
reference on this machine and on an emulated core and touches the arena that it claims; with --all the schedules of others
beside it; and its instructions there, divided by F times those of schedule unfused. Exit code 1 when a goal is missed, a byte
differs, or schedule best needs more than 15 % more instructions than that. Others: TFLite Micro's arena (models.py), or, where
it was not measured, --schedule layer; TinyEngine by patches, its image and working memory included, from the benchmark notes.

With --ram instead, per model and limit of RAM, its input by rows, at most 1.1 times the work, the core's fastest kernels: the
arena, F, instructions and cycles divided by F times those of the fastest plan of schedule unfused, the goal for instructions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from models import ROOT, TFLITE_MICRO, lcg_samples

from tinyweave import api
from tinyweave.api import results
from tinyweave.ir import CompileError
from tinyweave.ops import macs
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.planning.kernels.flash_budget import OtherFlash, constant_bytes, unfused_kernels

KIB = 1024
IN_RAM = 1.15  # times what the prototype needs with the input in RAM, without computing anything twice
MOST_MORE = 1.15  # instructions, times F and those of schedule unfused
THIRD = 1 / 3  # of others' arena, at F <= 1.1


class Goals(NamedTuple):
    """KiB by rows at F = 1.0 and at most 1.1; bytes of the prototype with the input in RAM, nothing computed twice."""

    once: int | None = None
    more: int | None = None
    prototype: int | None = None


MODELS = {
    "mlcommons__tiny__vww_96_int8": Goals(16, 14, 28_032),
    "mlcommons__tiny__pretrainedResnet_quant": Goals(16, 16, 16_384),
    "mlcommons__tiny__kws_ref_model": Goals(6, 6, 5_240),
    "mit-han-lab__tinyengine__vww": Goals(18, 14, 21_840),
    "harvard-edge__Wake_Vision__wv_quality_mcunet-320kb-1mb_vww": Goals(46, 36, 66_960),
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": Goals(128, 80, 198_912),
    "mit-han-lab__tinyengine__mcunetv2_large": Goals(240, 112, 239_680),
    "harvard-edge__Wake_Vision__wv_quality_mcunet-10fps_vww": Goals(),
    "harvard-edge__Wake_Vision__wv_quality_mcunet-5fps_vww": Goals(),
}
# TinyEngine per patch: activations and im2col, the image besides; times the network's work that it executes
TINYENGINE = {
    "mit-han-lab__tinyengine__vww": (62_352 + 19_200, 11_910_000 / 11_578_816),
    "mit-han-lab__tinyengine__mcunetv2_large": (444_168 + 150_528, 1.04),
}
OTHERS = ("layer", "unfused", "patch", "patch:2", "patch:4", "msf", "stream2d")


class Limit(NamedTuple):
    """Bytes of RAM, and the most instructions there, in F times those of the fastest plan of schedule unfused.

    without_winograd: that one is without kernels that keep more constants."""

    ram: int
    goal: float
    without_winograd: bool = False


LIMITS = {
    "mlcommons__tiny__vww_96_int8": (Limit(12_600, 1.18), Limit(13_500, 1.1)),
    "mlcommons__tiny__kws_ref_model": (Limit(4_900, 1.33), Limit(5_200, 1.05)),
    "mit-han-lab__tinyengine__vww": (Limit(12_400, 1.1),),
    "harvard-edge__Wake_Vision__wv_quality_mcunet-320kb-1mb_vww": (Limit(31_000, 1.15),),
    "mlcommons__tiny__pretrainedResnet_quant": (Limit(13_700, 1.1, without_winograd=True),),
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": (Limit(53_000, 1.15),),
    "mit-han-lab__tinyengine__mcunetv2_large": (Limit(110_000, 1.15),),
}


class Beside(NamedTuple):
    """What a model's plans are held against: bytes that others need, instructions of schedule unfused."""

    others: float
    unfused: int


class Case(NamedTuple):
    """A plan that is asked for, and the bytes that it may need."""

    schedule: str
    streamed_inputs: bool
    overhead: float | None
    goal: float | None


def cases(name: str, others: float, *, everything: bool) -> Iterator[Case]:
    """What is asked of a model; others: bytes."""
    goals = MODELS[name]
    most, work = TINYENGINE.get(name, (others, 1.1))
    for streamed_inputs in (False, True):
        once = goals.once if streamed_inputs else goals.prototype
        yield Case("best", streamed_inputs, 1.0, once and once * (KIB if streamed_inputs else IN_RAM))
        if name in TINYENGINE:
            yield Case("best", streamed_inputs, work, most)
        more = goals.more * KIB if streamed_inputs and goals.more else others * THIRD
        yield Case("best", streamed_inputs, 1.1, min(more, others * THIRD))
        if everything:
            yield from (
                Case(s, streamed_inputs, None, None) for s in OTHERS if not streamed_inputs or s not in ("layer", "unfused")
            )


def row(model: results.Model, name: str, case: Case, beside: Beside, options: argparse.Namespace) -> bool:
    """Print one; whether the goals are reached and the bytes are right."""
    chosen = {"stream_inputs": case.streamed_inputs, "max_mac_overhead": case.overhead, "optimize": options.optimize}
    try:
        plan = api.plan(model, schedule=case.schedule, **chosen)
    except CompileError as error:
        print(f"| {name} | {case.schedule} | {'rows' if case.streamed_inputs else 'RAM'} | | {error} | | | | | |", flush=True)
        return True
    arena, factor = sum(plan.arena.values()), sum(plan_macs(plan)) / macs(model.graph)
    given = lcg_samples(model.graph, options.samples)
    result = api.verify_plan(model, plan, api.ProofOptions(given, count=options.samples), core=options.core or None)
    reached = case.goal is None or arena <= case.goal
    asked = "any" if case.overhead is None else f"{case.overhead:.3g}"
    goal = "-" if case.goal is None else f"{case.goal:,.0f}{'' if reached else ' MISSED'}"
    said = "yes" if result.ok else "NO"
    cells = (name, case.schedule, "rows" if case.streamed_inputs else "RAM", asked, f"{arena:,}", f"{factor:.3f}", goal)
    more = (
        api.profile_plan(model, plan, options.core, given[0]).instructions / (factor * beside.unfused) if options.core else 0.0
    )
    is_fast = case.schedule != "best" or more <= MOST_MORE
    cost = f"{more:.3f}{'' if is_fast else ' MISSED'}" if more else "-"
    print("| " + " | ".join((*cells, f"{arena / beside.others:.1%}", said, cost)) + " |", flush=True)
    return reached and result.ok and is_fast


def within(model: results.Model, name: str, limit: Limit, options: argparse.Namespace) -> bool:
    """Print what the fastest plan within a limit costs; whether its goal is reached and the bytes are right."""
    core, given = options.core, lcg_samples(model.graph, options.samples)
    flash = None
    if limit.without_winograd:
        kernels = unfused_kernels(model.graph, KernelRule(core))
        flash = constant_bytes(model.graph, kernels)
    alone = api.make_plan(
        model,
        api.Request("unfused", objective="speed", limits=results.Limits(None, flash), core=core, other_flash=OtherFlash(0)),
    )
    limits = results.Limits(limit.ram, None)
    plan = api.make_plan(model, api.Request(limits=limits, stream_inputs=True, max_mac_overhead=1.1, core=core))
    arena, factor = sum(plan.arena.values()), sum(plan_macs(plan)) / macs(model.graph)
    runs = [api.profile_plan(model, each, core, given[0]) for each in (alone, plan)]
    instructions = runs[1].instructions / (factor * runs[0].instructions)
    cycles = [run.cycles.likely for run in runs if run.cycles]
    relative = f"{cycles[1] / (factor * cycles[0]):.3f}" if len(cycles) == len(runs) else "-"
    result = api.verify_plan(model, plan, api.ProofOptions(given, count=options.samples), core=core)
    reached = instructions <= limit.goal and arena <= limit.ram
    cells = (
        name,
        f"{limit.ram:,}",
        f"{arena:,}",
        f"{factor:.3f}",
        f"{runs[1].instructions:,}",
        f"{instructions:.3f}",
        relative,
    )
    print(
        "| " + " | ".join((*cells, f"{limit.goal}{'' if reached else ' MISSED'}", "yes" if result.ok else "NO")) + " |",
        flush=True,
    )
    return reached and result.ok


def print_within(files: Mapping[str, Path], options: argparse.Namespace) -> int:
    """Print the table of limits; return how many of its rows miss something."""
    print("| model | limit | arena | F | instructions | of F times unfused | in cycles | goal | equal |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    missed = 0
    for name, path in files.items():
        model = api.load(path, io="int8", layout="nhwc")
        missed += sum(not within(model, name, limit, options) for limit in LIMITS.get(name, ()))
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--core", default=api.DEFAULT_CORE, help="the emulated core that runs the plans, '' for none")
    parser.add_argument("--samples", type=int, default=2, help="inputs per plan")
    parser.add_argument("--optimize", default="size", choices=api.OPTIMIZE, help="memory or cycles first; scratch counts")
    parser.add_argument("--ram", action="store_true", help="what little RAM costs with the core's fastest kernels")
    parser.add_argument("--all", action="store_true", help="the schedules of others, too")
    options = parser.parse_args()
    files = {name: options.models / f"{name}.tflite" for name in MODELS}
    wanted = [name for name in MODELS if not options.names or any(part in name for part in options.names)]
    if not all(files[name].is_file() for name in wanted) or not wanted:
        print(f"not all models are in {options.models}; name their folder with --models", file=sys.stderr)
        return 2
    if options.ram:
        missed = print_within({name: files[name] for name in wanted}, options)
        print(f"\n{missed} goals missed or plans that give other bytes")
        return 1 if missed else 0
    print("| model | schedule | input | F asked | arena | F | goal | of others | equal | instructions |")
    print("|---|---|---|---|---:|---:|---:|---:|---|---:|")
    missed = 0
    for name in wanted:
        model = api.load(files[name], io="int8", layout="nhwc")
        others = float(TFLITE_MICRO[name][0] if name in TFLITE_MICRO else sum(api.plan(model, schedule="layer").arena.values()))
        alone, given = api.plan(model, schedule="unfused", optimize=options.optimize), lcg_samples(model.graph, 1)
        unfused = api.profile_plan(model, alone, options.core, given[0]).instructions if options.core else 0
        for case in cases(name, others, everything=options.all):
            missed += not row(model, name, case, Beside(others, unfused), options)
    print(f"\n{missed} goals missed or plans that give other bytes")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
