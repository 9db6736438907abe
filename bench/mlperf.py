"""Accuracy of the emitted C on the small MLPerf Tiny sets, run on the host.

In: the four MLPerf Tiny models and their sample sets (--shared). Out: one row per task: samples, accuracy (or AUC) of the C.
The C's outputs are byte-identical to LiteRT's reference kernels (bench/models.py), so its accuracy is the model's own.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinyweave import api
from tinyweave.simulate import compare, host

ROOT = Path(__file__).resolve().parents[1]
TASKS = {
    "vww01": "mlcommons__tiny__vww_96_int8",
    "kws01": "mlcommons__tiny__kws_ref_model",
    "ic01": "mlcommons__tiny__pretrainedResnet_quant",
    "ad01": "mlcommons__tiny__ad01_int8",
}
WINDOW, STRIDE = 640, 128  # ad01: floats per network input, and from one window to the next


def examples(folder: Path, task: str) -> Iterator[tuple[np.ndarray, int]]:
    """(raw bytes of the sample, label) of each line of the task's label file."""
    with (folder / f"{task}_dev_y_labels.csv").open() as lines:
        for row in csv.reader(lines):
            if row:
                yield np.fromfile(folder / task / row[0].strip(), np.uint8), int(row[2])


def inputs_of(task: str, raw: np.ndarray, scale: float, zero_point: int) -> list[np.ndarray]:
    """The int8 network inputs of one sample: one, or for ad01 one per window of the spectrogram."""
    if task == "kws01":
        return [raw.view(np.int8)]
    if task != "ad01":
        return [(raw.astype(np.int16) - 128).astype(np.int8)]
    spectrogram = raw.view(np.float32)
    windows = [spectrogram[i : i + WINDOW] for i in range(0, spectrogram.size - WINDOW + 1, STRIDE)]
    return [np.clip(np.round(w / scale) + zero_point, -128, 127).astype(np.int8) for w in windows]


def area_under_curve(scores: list[float], labels: list[int]) -> float:
    """The probability that a positive scores above a negative, ties counted half."""
    positive = np.array([s for s, label in zip(scores, labels, strict=True) if label == 1])
    negative = np.array([s for s, label in zip(scores, labels, strict=True) if label == 0])
    above = (positive[:, None] > negative[None, :]).mean()
    return float(above + 0.5 * (positive[:, None] == negative[None, :]).mean())


def evaluate(shared: Path, task: str) -> tuple[int, float]:
    """(samples, accuracy or area under the curve) of the C of one task."""
    model = api.load(shared / "models" / f"{TASKS[task]}.tflite")
    plan = api.plan(model)
    source = api.emit_c(model, plan)
    graph = model.graph
    entry, output = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    scores, labels = [], []
    with tempfile.TemporaryDirectory() as folder:
        api.write(source, Path(folder))
        library = host.build(Path(folder), source.name)
        for raw, label in examples(shared / "data" / "mlperf_tiny", task):
            errors = []
            for x in inputs_of(task, raw, entry.scale, entry.zero_point):
                run = host.invoke(library, plan.arena, [x.tobytes()], compare.output_bytes(graph), fill=0)
                (y,) = compare.unpack(graph, run)
                if task == "ad01":
                    real = (y.astype(np.float32) - output.zero_point) * output.scale
                    seen = (x.astype(np.float32) - entry.zero_point) * entry.scale
                    errors.append(float(np.mean((real.reshape(-1) - seen.reshape(-1)) ** 2)))
                else:
                    scores.append(float(int(y.argmax()) == label))
            if errors:
                scores.append(float(np.mean(errors)))
            labels.append(label)
    return len(labels), area_under_curve(scores, labels) if task == "ad01" else float(np.mean(scores))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    options = parser.parse_args()
    if not (options.shared / "data" / "mlperf_tiny").is_dir():
        print(f"no MLPerf Tiny samples in {options.shared}", file=sys.stderr)
        return 2
    print("| task | model | samples | C |\n|---|---|---|---|")
    for task, name in TASKS.items():
        count, result = evaluate(options.shared, task)
        shown = f"AUC {result:.3f}" if task == "ad01" else f"{100 * result:.1f} %"
        print(f"| {task} | {name} | {count} | {shown} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
