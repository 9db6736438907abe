"""Our int8 form of the MLPerf float models beside the published int8 files: which agrees more often with the float model.

In: the four models in float and int8, their labelled sets, photographs, CIFAR images and speech (--shared). Out: per task, set
and int8 model the share of items with the float model's answer, signal to noise before the softmax, accuracy (of ad01: the area
under the curve) where there are labels, and our share less the published one's with its paired 95 % interval. Nothing that is
compared has chosen a range of ours. Everything runs in numpy, whose int8 bytes are LiteRT's.
"""

from __future__ import annotations

import argparse
import sys
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

# isort: split
import numpy as np
from mlperf import STRIDE, WINDOW, area_under_curve, examples

from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import Graph
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.convert import as_real
from tinyweave.quantize.evaluate import outputs
from tinyweave.quantize.fidelity import as_int8, decibel, signal_tensors
from tinyweave.quantize.ptq import QuantiseOptions, quantise
from tinyweave.quantize.simplify_float import simplify_float

ROOT = Path(__file__).resolve().parents[2]
CALIBRATION = 200
PLACES = 8  # where in its second a word is heard
OPTIONS = {
    "minmax": {"method": "minmax"},
    "auto": {},
    "auto, improved": {"equalize": True, "correct_bias": True},
    "auto, rounded": {"adaptive_rounding": True, "correct_bias": True},
}


@dataclass(frozen=True)
class Items:
    """Network inputs [items, *shape]; labels, or None; item -> group whose scores are averaged (ad01), or None."""

    name: str
    values: np.ndarray
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Task:
    real: str
    published: str
    items: Callable[[Path], tuple[np.ndarray, list[Items]]]  # what calibrates, and what is compared


def images(paths: list[Path], size: int, crops: int = 1) -> np.ndarray:
    """Return crops of photographs, 0 .. 255, [items, 1, size, size, 3]: the whole, then squares of two thirds, by seed."""
    from PIL import Image

    rng, seen = np.random.default_rng(0), []
    for path in paths:
        with Image.open(path) as file:
            image = file.convert("RGB")
            for crop in range(crops):
                side = min(image.size) * 2 // 3
                left, top = (int(rng.integers(extent - side + 1)) for extent in image.size)
                part = image.crop((left, top, left + side, top + side)) if crop else image
                seen.append(np.asarray(part.resize((size, size), Image.Resampling.BILINEAR), np.float32)[None])
    return np.stack(seen)


def labelled(shared: Path, task: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    rows = list(examples(shared / "data" / "mlperf_tiny", task))
    return np.stack([raw.reshape(1, *shape) for raw, _ in rows]), np.array([label for _, label in rows])


def vww(shared: Path) -> tuple[np.ndarray, list[Items]]:
    photographs = sorted((shared / "data" / "person_voc" / "images").iterdir())
    faces = sorted((shared / "data" / "face_mask_voc" / "images").iterdir())
    values, labels = labelled(shared, "vww01", (96, 96, 3))
    others = images([*photographs[1::2], *faces], 96, crops=3)[:2000]
    return images(photographs[::2], 96)[:CALIBRATION] / 255, [
        Items("vww01", values.astype(np.float32) / 255, labels),
        Items("photographs", others / 255),
    ]


def ic(shared: Path) -> tuple[np.ndarray, list[Items]]:
    paths = sorted((shared / "data" / "cifar10_fifth" / "train").rglob("*.png"))
    order = np.random.default_rng(0).permutation(len(paths))
    chosen = images([paths[i] for i in order[: CALIBRATION + 2000]], 32)
    values, labels = labelled(shared, "ic01", (32, 32, 3))
    return chosen[:CALIBRATION], [
        Items("ic01", values.astype(np.float32), labels),
        Items("CIFAR images", chosen[CALIBRATION:]),
    ]


def features(audio: np.ndarray) -> np.ndarray:
    """Return the 49 x 10 MFCC features of a second at 16 kHz as MLPerf Tiny's keyword task computes them, [1, 49, 10, 1]."""
    audio = np.pad(audio[:16000].astype(np.float64), (0, max(0, 16000 - len(audio))))
    audio /= max(np.abs(audio).max(), 1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    frames = np.stack([audio[start : start + 480] * hann for start in range(0, 49 * 320, 320)])

    def mel(hertz: np.ndarray) -> np.ndarray:
        return 1127 * np.log1p(hertz / 700)

    places, edges = mel(np.linspace(0, 8000, 257)[1:, None]), np.linspace(*mel(np.array([20.0, 4000.0])), 42)
    rising, falling = ((places - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - places) / np.diff(edges)[1:])
    filters = np.pad(np.maximum(0, np.minimum(rising, falling)), ((1, 0), (0, 0)))
    log_mel = np.log(np.abs(np.fft.rfft(frames, 512)) @ filters + 1e-6)
    cosines = 2 * np.cos(np.pi * (np.arange(40)[:, None] + 0.5) * np.arange(10) / 40) / np.sqrt(80)
    return np.asarray(log_mel @ cosines, np.float32).reshape(1, 49, 10, 1)


def recordings(shared: Path) -> Iterator[np.ndarray]:
    """Yield pieces of speech of a second at 16 kHz: words, each at eight places in the second, with a little noise."""
    rng = np.random.default_rng(0)
    for path in sorted((shared / "data" / "speech_commands_mini").rglob("*.wav")):
        with wave.open(str(path)) as file:
            audio = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64)
        for _ in range(PLACES):
            yield np.roll(audio, int(rng.integers(-3200, 3200))) + rng.normal(size=len(audio)) * rng.uniform(0, 100)


def kws(shared: Path) -> tuple[np.ndarray, list[Items]]:
    entry = graph_of(shared, TASKS["kws01"].published)
    tensor = entry.tensors[entry.inputs[0]]
    raw, labels = labelled(shared, "kws01", (49, 10, 1))
    values = (raw.view(np.int8).astype(np.float32) - tensor.zero_point) * np.float32(tensor.scale)
    pieces = np.stack([features(audio) for audio in recordings(shared)])
    calibrates = np.arange(len(pieces)) // PLACES % 6 == 0  # all pieces of every sixth recording
    rng = np.random.default_rng(1)
    quiet = np.stack([features(rng.normal(size=16000) * 10 ** rng.uniform(0, 3)) for _ in range(40)])
    calibrating = np.concatenate([pieces[calibrates], quiet])
    return calibrating, [Items("kws01", values, labels), Items("speech", pieces[~calibrates][:2000])]


def ad(shared: Path) -> tuple[np.ndarray, list[Items]]:
    rows = [(raw.view(np.float32), label) for raw, label in examples(shared / "data" / "mlperf_tiny", "ad01")]
    windows = [[row[i : i + WINDOW] for i in range(0, row.size - WINDOW + 1, STRIDE)] for row, _ in rows]
    calibrating = [window for number, parts in enumerate(windows) if number % 4 == 0 for window in parts[::20]]
    kept = [number for number in range(len(rows)) if number % 4]
    values = np.stack([window for number in kept for window in windows[number]])[:, None]
    groups = np.repeat(np.arange(len(kept)), [len(windows[number]) for number in kept])
    return np.stack(calibrating)[:, None], [Items("ad01", values, np.array([rows[number][1] for number in kept]), groups)]


PREFIX = "mlcommons__tiny__"
TASKS = {
    "vww01": Task("vww_96_float", "vww_96_int8", vww),
    "ic01": Task("pretrainedResnet", "pretrainedResnet_quant", ic),
    "kws01": Task("kws_ref_model_float32", "kws_ref_model", kws),
    "ad01": Task("ad01_fp32", "ad01_int8", ad),
}


def graph_of(shared: Path, name: str) -> Graph:
    return from_tflite((shared / "models" / f"{PREFIX}{name}.tflite").read_bytes(), name)


def run(graph: Graph, values: np.ndarray, *, names: tuple[str, ...]) -> list[np.ndarray]:
    """Return real values of tensors on real inputs, of a float or an int8 graph."""
    inputs = as_int8(graph, {graph.inputs[0]: values})
    return [as_real(graph.tensors[n], array) for n, array in zip(names, outputs(graph, inputs, names), strict=True)]


def before_softmax(graph: Graph) -> str:
    op = graph.ops[graph.producer[graph.outputs[0]]]
    return op.inputs[0] or "" if op.kind == "softmax" else graph.outputs[0]


def answers(items: Items, scores: np.ndarray, threshold: float | None = None) -> tuple[np.ndarray, float | None, float]:
    """(answer per item, accuracy, threshold): the class; of ad01 whether a recording is stranger than the float median."""
    if items.groups is None:
        chosen = scores.reshape(len(scores), -1).argmax(axis=1)
        return chosen, None if items.labels is None else float(np.mean(chosen == items.labels)), 0.0
    errors = ((scores - items.values) ** 2).reshape(len(scores), -1).mean(axis=1)
    strange = np.bincount(items.groups, errors) / np.bincount(items.groups)
    threshold = float(np.median(strange)) if threshold is None else threshold
    assert items.labels is not None
    return strange > threshold, area_under_curve(list(strange), list(items.labels)), threshold


def evaluate_task(shared: Path, task: str, most: int) -> Iterator[str]:
    chosen = TASKS[task]
    real, published = graph_of(shared, chosen.real), graph_of(shared, chosen.published)
    calibrating, sets = chosen.items(shared)
    given = open_samples(calibrating, real)
    made = {name: quantise(real, given, QuantiseOptions(**options)) for name, options in OPTIONS.items()}
    graphs = {"published": published, **{name: done.graph for name, done in made.items()}}
    prepared = simplify_float(real)
    for items in sets:
        if most and items.groups is None:
            items = Items(items.name, items.values[:most], None if items.labels is None else items.labels[:most])
        logits, scores = run(prepared, items.values, names=(signal_tensors(prepared)[0], prepared.outputs[0]))
        expected, accuracy, threshold = answers(items, scores)
        yield f"| {task} | {items.name} | float | {len(expected)} | | | {shown(items, accuracy)} | |"
        theirs = np.zeros(0)
        for name, graph in graphs.items():
            computed, result = run(graph, items.values, names=(before_softmax(graph), graph.outputs[0]))
            answer, accuracy, _ = answers(items, result, threshold)
            agreed = (answer == expected).astype(float)
            ratio = decibel(float(((computed.reshape(logits.shape) - logits) ** 2).sum() / (logits.astype(float) ** 2).sum()))
            difference = "" if name == "published" else paired(agreed - theirs)
            theirs = agreed if name == "published" else theirs
            row = [task, items.name, name, str(len(agreed)), f"{100 * agreed.mean():.2f} %", f"{ratio:.1f} dB"]
            yield f"| {' | '.join(row)} | {shown(items, accuracy)} | {difference} |"


def shown(items: Items, accuracy: float | None) -> str:
    if accuracy is None:
        return ""
    return f"AUC {accuracy:.3f}" if items.groups is not None else f"{100 * accuracy:.2f} %"


def paired(differences: np.ndarray) -> str:
    """Return the mean of paired differences in points with its 95 % interval."""
    mean, error = 100 * differences.mean(), 196 * differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{mean:+.2f} [{mean - error:+.2f}, {mean + error:+.2f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], help="some of them; all if left out")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--most", type=int, default=0, help="items per set, at most")
    options = parser.parse_args()
    if not (options.shared / "data" / "mlperf_tiny").is_dir():
        print(f"no MLPerf Tiny samples in {options.shared}", file=sys.stderr)
        return 2
    heads = ("task", "set", "int8 model", "items", "as float", "signal to noise", "accuracy", "ours less published, points")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for task in options.tasks or TASKS:
        for line in evaluate_task(options.shared, task, options.most):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
