"""What does RAM cost in cycles? In: real models. Out: per model its front on a Cortex-M4, streamed and not: a row per plan.

Every tenth plan of a front, and its first and last, is built and compared with the reference, byte by byte, and its arena with
what the C touches. At the end the goals of RAM, and the cycles that they cost as a multiple of those of the fastest plan. With
--figures a picture per front. Exit code 1 when a byte differs or a claim is not exact. CPU time is of one process.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tinyweave import api
from tinyweave.planning import Plan
from tinyweave.planning.fuse.schedule import plan_macs
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.report.figure import encoded
from tinyweave.report.front import front_record
from tinyweave.report.front_figure import front_svg
from tinyweave.results import Limits, Model

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
CORE = "cortex-m4"
OVERHEAD = 1.1
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


def loaded(name: str) -> Model:
    """The model with channels last, as it is streamed."""
    return api.load(MODELS / f"{name}.tflite", "int8", layout="nhwc")


def size(plan: Plan) -> int:
    return sum(plan.arena.values())


def is_exact(model: Model, plan: Plan) -> bool:
    """Whether the C of a plan gives the bytes of the reference and touches its arena and nothing else."""
    return api.verify(model, plan, count=1, core=CORE).ok


def show(model: Model, plans: list[Plan], *, is_built: bool) -> int:
    """Print a row per plan; how many are wrong."""
    fewest, work, wrong = cycles_to_compare(plans[0], CORE), sum(plan_macs(plans[0])), 0
    for number, plan in enumerate(plans):
        built = is_built and (number % 10 == 0 or number == len(plans) - 1)
        exact = is_exact(model, plan) if built else None
        wrong += exact is False
        verdict = "" if exact is None else "bytes equal, arena exact" if exact else "WRONG"
        cycles = cycles_to_compare(plan, CORE)
        print(f"{size(plan):>12,} {cycles / fewest:>9.2f} {cycles / 1e6:>12.2f} {sum(plan_macs(plan)) / work:>9.3f}  {verdict}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--goals", action="store_true", help="only the goals")
    parser.add_argument("--no-build", action="store_true", help="build nothing")
    parser.add_argument("--figures", type=Path, help="folder for a picture per front")
    options = parser.parse_args()
    wrong, goals = 0, list[str]()
    for name, goal in GOALS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        model = loaded(name)
        for streamed in () if options.goals else (True, False):
            begun = time.process_time()
            plans = api.front(model, stream_inputs=streamed, max_mac_overhead=OVERHEAD, core=CORE)
            print(f"\n{name}, {'input by rows' if streamed else 'input in RAM'}: {time.process_time() - begun:.1f} s")
            print(f"{'arena, B':>12} {'cycles x':>9} {'M cycles':>12} {'MACs x':>9}")
            wrong += show(model, plans, is_built=not options.no_build)
            if options.figures:
                options.figures.mkdir(parents=True, exist_ok=True)
                picture = f"{name}{'_streamed' if streamed else ''}.svg"
                record = front_record(model, plans, Limits(goal, None), CORE)
                (options.figures / picture).write_bytes(encoded(front_svg(record), picture))
        begun = time.process_time()
        fits = api.plan(model, stream_inputs=True, max_mac_overhead=OVERHEAD, core=CORE, limits=Limits(goal, None))
        spent = time.process_time() - begun
        fastest = cycles_to_compare(api.plan(model, "unfused", core=CORE, optimize="speed"), CORE)
        times = cycles_to_compare(fits, CORE) / fastest
        verdict = f"{size(fits):>9,} B, {times:.2f} times the cycles of the unfused plan" if size(fits) <= goal else "MISSED"
        exact = "" if options.no_build or is_exact(model, fits) else ", WRONG"
        wrong += bool(exact)
        goals.append(f"{goal:>9,} B  {verdict}, {spent:.1f} s{exact}  {name}")
    print("\ngoals of RAM, with the core's own kernels, F <= 1.1, int8 edges, inputs by rows\n" + "\n".join(goals))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
