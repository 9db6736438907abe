"""What does RAM cost in cycles? In: real models. Out: per model its front on a Cortex-M4, streamed and not: a row per plan.

Every tenth plan of a front, and its first and last, is built and compared with the reference, byte by byte, and its arena with
what the C touches. At the end the least RAM beside what ST publishes for the
same network, and the goals of RAM with the cycles that they cost as a multiple of those of the fastest plan. With --record it
goes on where it was stopped, with --figures it draws a picture per front. Exit code 1 when a byte differs or a claim is not
exact. CPU time is of one process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tinyweave import api
from tinyweave.api.results import Limits, Model
from tinyweave.ir import CompileError
from tinyweave.ops import macs
from tinyweave.planning import Plan
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.report.figure import encoded
from tinyweave.report.front import front_record
from tinyweave.report.front_figure import front_svg

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
CORE = "cortex-m4"
OVERHEAD = 1.1
BUILT = 10  # of so many plans of a front one is built
# model -> the RAM, in bytes, at which its activations are to fit, inputs by rows
GOALS = {
    "mlcommons__tiny__vww_96_int8": 12_800,
    "mlcommons__tiny__pretrainedResnet_quant": 13_300,
    "mlcommons__tiny__kws_ref_model": 4_900,
    "mit-han-lab__tinyengine__vww": 12_300,
    "harvard-edge__Wake_Vision__wv_quality_mcunet-320kb-1mb_vww": 30_700,
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": 53_000,
    "mit-han-lab__tinyengine__mcunetv2_large": 110_000,
}
OTHERS = ("mlcommons__tiny__ad01_int8", "mlcommons__tiny__str_ww_ref_model")
WAKE_VISION = tuple(
    f"harvard-edge__Wake_Vision__wv_quality_{name}"
    for name in (
        *("benx13", "cezar", "k_4_c_5", "k_8_c_5", "mcunet-10fps_vww", "mcunet-5fps_vww", "micronets_vww2_50_50_INT8"),
        *("micronets_vww4_128_128_INT8", "mobilenetv2", "mohammad_hallaq", "samy", "ymac"),
    )
)
# model -> KiB of activations that ST publishes for this network (X-CUBE-AI 8.1), and what part of it is to be enough
ST = {
    f"MohamedElhadidy0019__stm32ai-modelzoo__{name}_int8": row
    for name, row in {
        "resnet_v1_8_32_tfs": (45.4, 3),
        "mobilenet_v1_0.25_96_grayscale_tfs": (41.2, 3),
        "mobilenet_v1_0.5_224_tfs": (404.7, 3),
        "mobilenet_v2_0.35_128_tl": (225.2, 8),
        "mobilenet_v2_0.35_224_tfs": (686.5, 8),
        "resnet_v1_32_32_tfs": (45.4, 3),
        "squeezenetv1.1_128_tfs": (242.2, 3),
        "ssd_mobilenet_v2_fpnlite_035_192": (565.3, 3),
        "st_ssd_mobilenet_v1_025_192": (249.5, 3),
        "st_yolo_lc_v1_192": (158.7, 3),
        "st_efficientnet_lc_v1_128_tfs": (129.2, 3),
        "st_mnist_v1_28_tfs": (14.1, 3),
    }.items()
}
STREAMED = {True: "input by rows", False: "input in RAM"}
Row = dict[str, Any]


def loaded(name: str) -> Model:
    """The model with channels last, as it is streamed."""
    return api.load(MODELS / f"{name}.tflite", io="int8", layout="nhwc")


def size(plan: Plan) -> int:
    return sum(plan.arena.values())


def is_exact(model: Model, plan: Plan) -> bool:
    """Whether the C of a plan gives the bytes of the reference and touches its arena and nothing else."""
    return api.verify_plan(model, plan, api.ProofOptions(count=1), core=CORE).ok


def busiest(plan: Plan) -> str:
    """Say what is alive in the step that needs most: its largest buffers, and the ops that run in it."""
    alive = [[b for b in plan.buffers if b.start <= step < b.end] for step in range(len(plan.stages))]
    step = max(range(len(alive)), key=lambda step: sum(b.bytes for b in alive[step]))
    kinds = Counter(plan.graph.ops[index].kind for index in plan.stages[step].ops)
    held = sorted(alive[step], key=lambda b: -b.bytes)
    buffers = " + ".join(f"{b.bytes:,}" for b in held[:3]) + (f" + {len(held) - 3} more" if len(held) > 3 else "")
    ops = ", ".join(f"{count} {kind}" if count > 1 else kind for kind, count in kinds.items())
    return f"step {step + 1} of {len(alive)} ({ops}) holds {buffers} B"


def front(name: str, *, streamed: bool, builds: bool, pictures: Path | None) -> Row:
    """A front, its points as [bytes, cycles, times the network's work, whether it is exact or None where it was not built]."""
    model, begun = loaded(name), time.process_time()
    row: Row = {"input": sum(model.graph.tensors[name].bytes for name in model.graph.inputs)}
    try:
        plans = api.pareto(model, CORE, stream_inputs=streamed, max_mac_overhead=OVERHEAD)
    except CompileError as error:
        return row | {"refused": str(error).splitlines()[0]}
    row |= {"seconds": time.process_time() - begun, "busiest": busiest(plans[-1])}
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
        picture = f"{name}{'_streamed' if streamed else ''}.svg"
        record = front_record(model, plans, Limits(GOALS.get(name), None), CORE)
        (pictures / picture).write_bytes(encoded(front_svg(record), picture))
    work = macs(model.graph)
    row["points"] = [
        (
            size(plan),
            cycles_to_compare(plan, CORE),
            sum(plan_macs(plan)) / work,
            is_exact(model, plan) if builds and (number % BUILT == 0 or number == len(plans) - 1) else None,
        )
        for number, plan in enumerate(plans)
    ]
    return row


def goal(name: str, *, builds: bool) -> Row:
    """The fastest plan within the goal of RAM, input by rows, and its cycles beside those of the fastest unfused one."""
    model, begun = loaded(name), time.process_time()
    limits = Limits(GOALS[name], None)
    fits = api.make_plan(model, api.Request(limits=limits, stream_inputs=True, max_mac_overhead=OVERHEAD, core=CORE))
    spent = time.process_time() - begun
    fastest = cycles_to_compare(api.plan(model, CORE, schedule="unfused", optimize="speed"), CORE)
    times = cycles_to_compare(fits, CORE) / fastest
    return {"bytes": size(fits), "times": times, "seconds": spent, "exact": is_exact(model, fits) if builds else None}


def show(name: str, row: Row, *, streamed: bool) -> int:
    """Print a row per plan; how many are wrong."""
    said = row.get("refused") or f"{row['seconds']:.1f} s"
    print(f"\n{name}, {STREAMED[streamed]}: {said}", flush=True)
    points = row.get("points", [])
    if points:
        print(f"{'arena, B':>12} {'cycles x':>9} {'M cycles':>12} {'MACs x':>9}")
    for bytes_, cycles, work, exact in points:
        verdict = "" if exact is None else "bytes equal, arena exact" if exact else "WRONG"
        print(f"{bytes_:>12,} {cycles / points[0][1]:>9.2f} {cycles / 1e6:>12.2f} {work:>9.3f}  {verdict}")
    return sum(exact is False for *_, exact in points)


def beside_st(fronts: Mapping[tuple[str, bool], Row]) -> None:
    """Print the least RAM of each front beside ST's."""
    print("\nleast RAM beside ST's; the input counts where it lies in RAM and is less than the part of ST's that is the goal")
    print(f"{'ST, B':>9} {'input, B':>9} {'in RAM, B':>10} {'by rows, B':>10} {'ST / in RAM':>11} {'ST / by rows':>12}  goal")
    for name, (kib, part) in ST.items():
        if not {(name, True), (name, False)} <= fronts.keys():
            continue
        theirs, ends = kib * 1024, {streamed: fronts[name, streamed].get("points", [[0]])[-1][0] for streamed in STREAMED}
        input_bytes = fronts[name, False]["input"]
        by_rows = bool(ends[True]) and (part == 8 or input_bytes >= theirs / part)
        met = 0 < part * ends[by_rows] <= theirs
        verdict = "met" if met else f"MISSED: {fronts[name, by_rows].get('busiest', fronts[name, True].get('refused'))}"
        figures = "".join(
            f" {theirs / ends[streamed] if ends[streamed] else 0:>{11 + streamed}.1f}" for streamed in (False, True)
        )
        print(
            f"{theirs:>9,.0f} {input_bytes:>9,} {ends[False]:>10,} {ends[True]:>10,}{figures}"
            f"  1/{part} {STREAMED[by_rows]}: {verdict}  {name.rpartition('__')[2]}"
        )


def recorder(path: Path | None) -> Callable[[list, Callable[[], Row]], Row]:
    """A function that returns the row of a key as it was recorded, or else works it out and records it."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    known = {tuple(key): row for key, row in map(json.loads, lines)}

    def row_of(key: list, make: Callable[[], Row]) -> Row:
        if tuple(key) not in known:
            known[tuple(key)] = make()
            if path:
                with path.open("a") as file:
                    file.write(json.dumps([key, known[tuple(key)]]) + "\n")
        return known[tuple(key)]

    return row_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--goals", action="store_true", help="only the goals")
    parser.add_argument("--no-build", action="store_true", help="build nothing")
    parser.add_argument("--figures", type=Path, help="folder for a picture per front")
    parser.add_argument("--record", type=Path, metavar="FILE", help="rows that are known, to go on from; new ones are added")
    options = parser.parse_args()
    names = [
        name
        for name in (*OTHERS, *ST, *WAKE_VISION, *GOALS)
        if not options.names or any(part in name for part in options.names)
    ]
    row_of, builds, wrong = recorder(options.record), not options.no_build, 0
    fronts, goals = dict[tuple[str, bool], Row](), list[str]()
    for name in () if options.goals else names:
        for streamed in STREAMED:
            fronts[name, streamed] = row_of(
                ["front", name, streamed], partial(front, name, streamed=streamed, builds=builds, pictures=options.figures)
            )
            wrong += show(name, fronts[name, streamed], streamed=streamed)
    if fronts:
        beside_st(fronts)
    for name in names:
        if name in GOALS:
            row = row_of(["goal", name], partial(goal, name, builds=builds))
            found = f"{row['bytes']:>9,} B, {row['times']:.2f} times the cycles of the unfused plan"
            exact = {None: "", True: ", bytes equal, arena exact", False: ", WRONG"}[row["exact"]]
            wrong += row["exact"] is False
            verdict = found if row["bytes"] <= GOALS[name] else f"MISSED: {found}"
            goals.append(f"{GOALS[name]:>9,} B  {verdict}, {row['seconds']:.1f} s{exact}  {name}")
    if goals:
        print("\ngoals of RAM, with the core's own kernels, F <= 1.1, int8 edges, inputs by rows\n" + "\n".join(goals))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
