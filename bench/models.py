"""The table of real models: is the C byte-identical, and what does it need?

In: a folder of .tflite files (--models), inputs from the LCG of the benchmark notes. Out: one row per model: verdict, arena,
the least arena (`--optimize size --io int8`), what TFLite Micro uses, Flash, instructions and instructions per MAC on an
emulated core (--core; of several, which all must give the same bytes, the first). Exit code 1 when a model that compiles
differs, or touches another arena than it claims. Each model runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tinyweave.ops import fixed_inputs
from tinyweave.simulate.cores import CORES

ROOT = Path(__file__).resolve().parents[1]
BIG_MACS = 200_000_000

# TFLite Micro + CMSIS-NN of August 2026, arm-none-eabi-gcc 12.2, its own flags, emulated Cortex-M4:
# arena used, instructions of one invoke, code bytes (int8-only registration)
TFLITE_MICRO = {
    "mlcommons__tiny__vww_96_int8": (100_708, 24_101_960, 51_904),
    "mlcommons__tiny__kws_ref_model": (22_820, 7_699_880, 51_904),
    "mlcommons__tiny__pretrainedResnet_quant": (54_996, 29_863_360, 49_728),
    "mlcommons__tiny__ad01_int8": (2_580, 582_920, 26_752),
    "mlcommons__tiny__str_ww_ref_model": (16_596, 2_227_080, 49_376),
    "mit-han-lab__tinyengine__vww": (219_808, 48_626_760, 57_120),
    "mit-han-lab__tinyengine__mcunetv2_large": (2_602_112, 861_750_120, 61_696),
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": (2_600_596, 798_472_080, 55_616),
}


def lcg_bytes(count: int, state: int) -> tuple[np.ndarray, int]:
    """`count` int8 values of the generator s -> s*1664525 + 1013904223 mod 2^32, q = int8(s >> 24), and its next state."""
    values = np.empty(count, np.uint32)
    # jump ahead in blocks: s[i + n] = a^n s[i] + c_n
    block = min(count, 4096)
    for index in range(block):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        values[index] = state
    factor, addend = 1, 0
    for _ in range(block):
        factor, addend = factor * 1664525 & 0xFFFFFFFF, (addend * 1664525 + 1013904223) & 0xFFFFFFFF
    for start in range(block, count, block):
        size = min(block, count - start)
        previous = values[start - block : start - block + size].astype(np.uint64)
        values[start : start + size] = (previous * factor + addend) & 0xFFFFFFFF
    return (values >> 24).astype(np.uint8).view(np.int8), int(values[-1]) if count else state


def lcg_samples(graph, count: int) -> list[list[np.ndarray]]:
    """`count` samples, one stream of the generator through all inputs of all samples; floats get q / 128, uint8 q + 128."""
    state, samples, fixed = 12345, [], fixed_inputs(graph)
    for _ in range(count):
        sample = []
        for name in graph.inputs:
            if name in fixed:
                sample.append(fixed[name])
                continue
            tensor = graph.tensors[name]
            q, state = lcg_bytes(tensor.elements, state)
            if tensor.dtype == "float32":
                array = (q / np.float32(128)).astype(np.float32)
            elif tensor.dtype == "uint8":
                array = (q.astype(np.int16) + 128).astype(np.uint8)
            else:
                array = q.astype(tensor.dtype)
            sample.append(array.reshape(tensor.shape))
        samples.append(sample)
    return samples


def measure(path: Path, cores: list[str], samples: int) -> dict:
    """One model's row."""
    from tinyweave import api
    from tinyweave.ir import CompileError
    from tinyweave.ops import macs, macs_original
    from tinyweave.planning import Plan

    row: dict = {"model": path.stem}
    start = time.monotonic()
    try:
        model = api.load(path)
        portable = api.plan(model, optimize="size")
        plans: dict[str, tuple[Plan, list[str]]] = {str(portable.stages): (portable, [])}
        for core in cores:  # the default plan, which those with the same kernels share
            made = api.plan(model, core)
            plans.setdefault(str((made.stages, made.variants)), (made, []))[1].append(core)
        row |= {"macs": macs_original(model.original), "executed": macs(model.graph), "verdict": "equal"}
        cases = lcg_samples(model.outside, 1 if row["macs"] > BIG_MACS else samples)
        for plan, same in plans.values():
            result = api.verify_plan(model, plan, api.ProofOptions(cases, count=len(cases)), core=same)
            row["reference"] = result.reference
            if not result.ok:
                row |= {"verdict": "DIFFERS", "why": result.first_difference or f"touched {dict(result.touched)}"}
        plan = next((plan for plan, same in plans.values() if cores[:1] == same[:1]), portable)
        least = api.plan(api.load(path, io="int8"), *cores[:1], optimize="size")
        row |= {"arena": sum(plan.arena.values()), "bound": plan.lower_bound, "least": sum(least.arena.values())}
        if cores:
            profile = api.profile_plan(model, plan, cores[0], cases[0])
            row |= {"instructions": profile.instructions, "flash": profile.flash, "weights": profile.weights}
            row |= {"code": profile.code, "stack": profile.stack, "compiler": profile.compiler}
    except CompileError as error:
        row |= {"verdict": "refused", "why": str(error)}
    return row | {"seconds": round(time.monotonic() - start, 1)}


def number(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def per_mac(instructions: int | None, macs: int | None) -> str:
    return f"{instructions / macs:.2f}" if instructions and macs else "-"


COLUMNS = (
    "model",
    "verdict",
    "MACs",
    "MACs executed",
    "arena",
    "least arena",
    "TFLM arena",
    "Flash",
    "code",
    "TFLM code",
    "instructions",
    "per MAC",
    "TFLM instructions M4",
    "TFLM per MAC",
    "why",
)


def print_row(row: dict) -> None:
    arena, instructions, code = TFLITE_MICRO.get(row["model"], (None, None, None))
    macs, measured = row.get("macs"), row.get("instructions")
    cells = [
        row["model"],
        row["verdict"],
        macs,
        row.get("executed"),
        row.get("arena"),
        row.get("least"),
        arena,
        row.get("flash"),
        row.get("code"),
        code,
        measured,
    ]
    cells += [per_mac(measured, macs), instructions, per_mac(instructions, macs), row.get("why") or ""]
    print(f"| {' | '.join(map(number, cells))} |", flush=True)


def run_one(file: Path, options: argparse.Namespace) -> dict:
    """A model's row, from a process of its own."""
    command = [sys.executable, __file__, "--one", str(file), "--core", options.core, "--samples", str(options.samples)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit_s, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    return {"model": file.stem, "verdict": "CRASHED", "why": " ".join(done.stderr[-300:].split())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument("--core", default="cortex-m4", help="the emulated core, several (a,b), all, or '' for the host only")
    parser.add_argument("--samples", type=int, default=3, help="inputs per model, 1 for those of more than 200 M MACs")
    parser.add_argument("--json", type=Path, help="also write all rows here")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit-s", type=int, default=1800, help="seconds per model")
    options = parser.parse_args()
    cores = list(filter(None, options.core.split(",")))
    if options.core == "all":
        cores = sorted(CORES, key=lambda core: core != "cortex-m4")
    if options.one:
        print(json.dumps(measure(options.one, cores, options.samples)))
        return 0
    files = [f for f in sorted(options.models.glob("*.tflite")) if not options.names or any(n in f.stem for n in options.names)]
    if not files:
        print(f"no models in {options.models}", file=sys.stderr)
        return 2
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    rows = []
    for file in files:
        rows.append(run_one(file, options))
        print_row(rows[-1])
    verdicts = ("equal", "refused", "DIFFERS", "CRASHED")
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in verdicts}
    compilers = {row["compiler"] for row in rows if row.get("compiler")}
    print(f"\n{len(rows)} models: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    print(f"on the host and emulated: {', '.join(cores)}; " + "; ".join(sorted(compilers)))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if counts["DIFFERS"] or counts["CRASHED"] else 0


if __name__ == "__main__":
    sys.exit(main())
