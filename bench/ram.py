"""The table of arenas: what does each technique of the planner save on real models, and where do others stand?

In: a folder of .tflite files (--models). Out: one row per model, in bytes of the arena: layer by layer (--schedule layer), then
the ablation (file order with every tensor apart, then one technique more at a time, the last being --schedule best) and the
lower bound, the prototype's figure, TFLite Micro's arena, its activations alone, and what part of the two is needed here; then
how often the goals are met. Exit code 1 when a plan is larger than layer by layer. Sources: PROTOTYPE is column b (overlap, no
fusion) of the project's notes on fusion, executed in numpy; TFLITE_MICRO as in models.py, ACTIVATIONS of the same runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from models import ROOT, TFLITE_MICRO

from tinyweave import api
from tinyweave.ir import CompileError

PROTOTYPE = {
    "mlcommons__tiny__vww_96_int8": 36_880,
    "mlcommons__tiny__pretrainedResnet_quant": 33_312,
    "mlcommons__tiny__kws_ref_model": 8_448,
    "mit-han-lab__tinyengine__vww": 77_760,
    "mit-han-lab__tinyengine__mcunetv2_large": 1_209_600,
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": 1_209_600,
    "harvard-edge__Wake_Vision__wv_quality_mcunet-320kb-1mb_vww": 152_352,
}
ACTIVATIONS = {
    "mlcommons__tiny__vww_96_int8": 73_728,
    "mlcommons__tiny__kws_ref_model": 16_000,
    "mlcommons__tiny__pretrainedResnet_quant": 49_728,
    "mlcommons__tiny__ad01_int8": 768,
    "mlcommons__tiny__str_ww_ref_model": 7_936,
    "mit-han-lab__tinyengine__vww": 161_472,
    "mit-han-lab__tinyengine__mcunetv2_large": 2_451_840,
    "tensorflow__tflite-micro__mobilenet_v2_quantized_1x3x224x224": 2_451_840,
}
WITHIN = 0.05  # of the prototype's figure
MOST, MEAN = 0.65, 0.50  # of TFLite Micro's arena, for each model and in the mean


def measure(path: Path, io: str) -> dict | None:
    """One model's row, None when it cannot be compiled."""
    try:
        model = api.load(path, io=io)
        layer = api.plan(model, schedule="layer", optimize="size")
        start = time.perf_counter()
        best = api.plan(model, optimize="size")
    except CompileError:
        return None
    seconds = time.perf_counter() - start
    arena = sum(best.arena.values())
    micro, active = TFLITE_MICRO.get(path.stem, (None,))[0], ACTIVATIONS.get(path.stem)
    return {
        "model": path.stem,
        "arena": arena,
        "layer by layer": sum(layer.arena.values()),
        "ablation": api.ablation(model.graph, best, "best"),
        "lower bound": best.lower_bound,
        "prototype": PROTOTYPE.get(path.stem),
        "TFLite Micro": micro,
        "its activations": active,
        "of TFLite Micro": arena / micro if micro else None,
        "of its activations": arena / active if active else None,
        "seconds": round(seconds, 2),
    }


def flat(row: dict) -> dict:
    """A row of the table: the arena is the ablation's last."""
    cells: dict = {}
    for name, value in row.items():
        cells |= value if name == "ablation" else {} if name == "arena" else {name: value}
    return cells


def cell(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def summary(rows: list[dict]) -> list[str]:
    """The goals and what was reached, a line each."""
    larger = [row["model"] for row in rows if row["arena"] > row["layer by layer"]]
    lines = [f"larger than layer by layer: {', '.join(larger) or 'none'}"]
    saved = sorted(1 - row["arena"] / row["layer by layer"] for row in rows)
    lines.append(f"saved against layer by layer: {saved[len(saved) // 2]:.1%} in the median, {saved[-1]:.1%} at most")
    known = [row for row in rows if row["prototype"]]
    if known:
        above = [f"{r['model']} {r['arena'] / r['prototype'] - 1:+.1%}" for r in known if r["arena"] > r["prototype"]]
        missed = sum(row["arena"] > (1 + WITHIN) * row["prototype"] for row in known)
        lines.append(
            f"more than {WITHIN:.0%} above the prototype: {missed} of {len(known)}; above it: {', '.join(above) or 'none'}"
        )
    shares = {row["model"]: row["of TFLite Micro"] for row in rows if row["TFLite Micro"]}
    if shares:
        active = [row["of its activations"] for row in rows if row["its activations"]]
        above = [f"{name} {share:.1%}" for name, share in shares.items() if share > MOST]
        mean = sum(shares.values()) / len(shares)
        lines.append(f"more than {MOST:.0%} of TFLite Micro's arena: {', '.join(above) or 'none'} of {len(shares)}")
        lines.append(f"part of TFLite Micro's arena in the mean: {mean:.1%} (goal {MEAN:.0%})")
        lines.append(f"part of its activations alone in the mean: {sum(active) / len(active):.1%}, {max(active):.1%} at most")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--models", type=Path, default=ROOT.parent / "shared" / "models")
    parser.add_argument(
        "--io", default="model", choices=("model", "int8"), help="keep the edges of the file, or strip them to int8"
    )
    parser.add_argument("--json", type=Path, help="also write all rows here")
    options = parser.parse_args()
    rows: list[dict] = []
    for file in sorted(options.models.glob("*.tflite")):
        if options.names and not any(name in file.stem for name in options.names):
            continue
        if (row := measure(file, options.io)) is None:
            continue
        if not rows:
            print(f"| {' | '.join(flat(row))} |\n|---|{'---:|' * (len(flat(row)) - 1)}")
        rows.append(row)
        print(f"| {' | '.join(map(cell, flat(row).values()))} |", flush=True)
    if not rows:
        print(f"no model in {options.models} can be compiled", file=sys.stderr)
        return 2
    print(f"\n{len(rows)} models, --io {options.io}", *summary(rows), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["arena"] > row["layer by layer"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
