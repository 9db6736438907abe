"""Detectors within equal RAM, beside a published tiny detector (tables 5.5 and 5.7 of the MCUNet thesis).

In: a VOC folder of three classes. Out: a line per network and seed in a file: mAP and F1 of the test photographs, and both for
each of DRAWS samples of them, the same for all networks. Each network is trained for equal CPU seconds. The F1 is FOMO's, with
the least score that is best on the validation part. What is in the file is not trained again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import hypot, sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
from evidence_results import Difference, Table, cost_of
from holm import p_value
from numpy.typing import NDArray
from page_text import filled

from tinynas.arch import Arch, blocks, from_json, layers, macs, mobilenet_v2, stride, weights
from tinynas.costs import model_of
from tinynas.halving import recipe_of
from tinynas.journal import append, entries
from tinynas.network import to_graph
from tinynas.published.patches import peak_bytes
from tinynas.published.redistribute import by_patches, redistributed
from tinynas.tasks import average_precision as precision
from tinynas.tasks.boxes import Head, head_of
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.detection import boxes_of, read_detection
from tinynas.tasks.evaluation.intervals import Z_95, student_t
from tinynas.training_run import TrainingRun
from tinyweave import api

ROOT = Path(__file__).resolve().parents[2]
DATA, OWN = ROOT.parent / "shared" / "data" / "face_mask_voc", ROOT / "examples" / "vision" / "face_mask.json"
FILE = Path(__file__).with_name("detection.jsonl")
RAM, STEP, CORE = 64 << 10, 16, "cortex-m7"  # limit of the arena in bytes; images are multiples of STEP pixels
SIDE, SIDE_OF_LAYERS = 128, 64  # the largest images that fit, by the best plan and layer by layer
CLASSES, ANCHORS, WIDTH, GROUPS = 3, 4, 0.35, 5  # groups of MobileNetV2 before the detector's head
DRAWS, NEAR, LEAST = 200, 0.2, 0.01  # samples of photographs; share of the image's side; least score of a box
LEAST_SCORES, OBJECT_WEIGHT = np.arange(1, 20) / 20, 100.0  # to choose from for the F1; of FOMO's loss
WHOLE, FACTOR, GRID = 224, 8, 4  # of table 5.7: rows of the image; GRID x GRID patches until maps have FACTOR times fewer
Line = dict[str, Any]
Lines = dict[str, dict[int, Line]]  # by network and seed
Boxes = NDArray[np.float64]  # [n, 6]: label, edges (top, left, bottom, right) in pixels, score


def mobile(side: int, groups: int = GROUPS) -> Arch:
    """Return a detector of MobileNetV2's first groups; strides after the third group are 1, so a cell has 8 pixels."""
    arch = mobilenet_v2(side, WIDTH)
    kept = [group if number < 3 else replace(group, stride=1) for number, group in enumerate(arch.groups[:groups])]
    return replace(arch, groups=tuple(kept), last=0, classes=CLASSES, anchors=ANCHORS)


def arena(arch: Arch, schedule: str) -> int:
    """Return the bytes of a detector's arena by tinyweave's planner: layer by layer (`layer`), or its best plan (`best`)."""
    return sum(api.plan(model_of(to_graph("network", blocks(arch), None)), CORE, schedule=schedule).arena.values())


NETS: dict[str, tuple[str, Arch]] = {  # name -> schedule, network; the head of FOMO is its layer before the last
    "face_mask.json, fused": ("best", replace(from_json(OWN.read_text()), image=(SIDE, SIDE, 3))),
    "FOMO, fused": ("best", replace(mobile(SIDE, 3), last=96)),
    "MobileNetV2, layer by layer": ("layer", mobile(SIDE_OF_LAYERS)),
    "MobileNetV2, fused": ("best", mobile(SIDE)),
}
OURS, FOMO, BY_LAYER, FUSED = NETS


def fomo_losses(module: Any, head: Head) -> Any:
    """Return the loss of FOMO for `fit`: the cross-entropy of each cell's classes, objects weighted by OBJECT_WEIGHT."""
    import torch
    from torch.nn import functional

    def losses(samples: Any, boxes: Any, step: int) -> Iterator[Any]:
        output = module(samples).permute(0, 2, 3, 1)
        true = torch.zeros_like(output)
        true[..., 0] = 1
        image, box = torch.nonzero((boxes[..., 0] >= 0) & (boxes[..., 5] == 0), as_tuple=True)
        middle = (boxes[image, box, 1:3] + boxes[image, box, 3:5]) / 2
        row, column = (middle // head.stride).long().clamp(min=0, max=output.shape[1] - 1).T
        true[image, row, column, 0], true[image, row, column, 1 + boxes[image, box, 0].long()] = 0, 1
        weight = torch.tensor([1.0] + CLASSES * [OBJECT_WEIGHT])
        yield functional.binary_cross_entropy_with_logits(output, true, pos_weight=weight)

    return losses


def fused_cells(output: NDArray[np.float32], least: float, cell: int) -> Boxes:
    """Return what FOMO finds in an output [1 + classes, rows, columns]: the boxes around adjacent cells of one class."""
    from scipy.ndimage import find_objects, label

    shares = np.exp(output - output.max(axis=0))
    shares, found = shares / shares.sum(axis=0), list[tuple[float, ...]]()
    for kind, own_shares in enumerate(shares[1:]):
        for rows, columns in find_objects(label(own_shares >= least, np.ones((3, 3)))[0]):
            edges = (cell * edge for edge in (rows.start, columns.start, rows.stop, columns.stop))
            found.append((kind, *edges, float(own_shares[rows, columns].max())))
    return np.array(found or np.zeros((0, 6)), np.float64)


def counted(found: Boxes, true: Boxes, near: float) -> tuple[int, int, int]:
    """Return the numbers of right centres, of boxes found, and of true boxes of an image, by FOMO's rule.

    A centre is right if it is at most `near` pixels from the centre of a box of its class. Boxes match centres of higher score
    first, and each box matches at most one centre.
    """
    (middles, wanted), free = (each[:, 1:3] + each[:, 3:5] for each in (found, true)), np.ones(len(true), bool)
    right = 0
    for index in np.argsort(-found[:, 5], kind="stable"):
        apart = np.hypot(*(wanted - middles[index]).T) / 2
        apart[~free | (true[:, 0] != found[index, 0])] = np.inf
        if len(true) and apart.min() <= near:
            free[apart.argmin()] = False
            right += 1
    return right, len(found), len(true)


def f1(counts: NDArray[np.int64]) -> Any:
    """Return the F1 in percent of counts [.., 3] as of `counted`."""
    right, found, true = np.moveaxis(counts, -1, 0)
    return 200 * right / np.maximum(found + true, 1)


def measured(data: Dataset, head: Head, module: Any, *, gives_boxes: bool) -> Line:
    """Return mAP (if the network gives boxes) and F1 of a trained network on the test part, and of its samples, in percent."""
    from tinynas.learning.train import scores

    def matched(part: str) -> tuple[list[Any], list[Any]]:
        values, labels = data.part(part)
        outputs = list(scores(module, values))
        found = [head.detected_real(each.transpose(1, 2, 0), LEAST) for each in outputs] if gives_boxes else outputs
        return found, list(map(boxes_of, labels))

    def counts(found: Sequence[Any], true: Sequence[Any], least: float) -> NDArray[np.int64]:
        kept = [each[each[:, 5] >= least] if gives_boxes else fused_cells(each, least, head.stride) for each in found]
        return np.array([counted(*each, NEAR * head.size[0]) for each in zip(kept, true, strict=True)])

    judging, (found, true) = matched("validation"), matched("test")
    least = float(max(LEAST_SCORES, key=lambda each: f1(counts(*judging, each).sum(axis=0))))
    images = counts(found, true, least)
    draws = np.random.default_rng(0).integers(0, len(images), (DRAWS, len(images)))
    line: Line = {"test": len(images), "least_score": least, "f1": float(f1(images.sum(axis=0)))}
    line["f1_draws"] = np.round(f1(images[draws].sum(axis=1)), 2).tolist()
    if gives_boxes:
        kinds = precision.matched(found, true, CLASSES, precision.match_voc, (0.5,))[0]
        line["map"], *line["map_draws"] = (
            round(100 * precision.mean(precision.average_precision([kind[image] for image in each], None) for kind in kinds), 2)
            for each in (range(len(images)), *draws)
        )
    return line


def trained(name: str, data: Dataset, arch: Arch, seed: int, seconds: float) -> Line:
    """Train a network for about `seconds` of CPU time, and return its line."""
    import torch
    from torch import nn

    from tinynas.learning.module import module_of
    from tinynas.learning.train import ADAM_DECAY, ADAM_RATE, fit

    head, samples = head_of(data), data.part("train")
    assert head is not None

    def run(epochs: int) -> tuple[Any, float]:
        torch.manual_seed(seed)
        module, losses, start = module_of(arch, seed), None, time.process_time()
        if name == FOMO:
            module = nn.Sequential(*module[:-1], nn.Conv2d(96, 32, 1), nn.ReLU(), nn.Conv2d(32, 1 + CLASSES, 1))
            losses = fomo_losses(module, head)
        recipe = replace(recipe_of(data, epochs, len(samples[0])), adam=True, rate=ADAM_RATE, weight_decay=ADAM_DECAY)
        return fit(module, *samples, recipe, TrainingRun(seed), losses=losses), time.process_time() - start

    run(1)  # loads libraries
    epochs = max(2, round(seconds / run(1)[1]))
    module, used = run(epochs)
    about = {"net": name, "seed": seed, "side": arch.image[0], "train": len(samples[0]), "seconds": seconds, "epochs": epochs}
    sizes = {"cpu_seconds": used, "ram": arena(arch, NETS[name][0]), "macs": macs(arch), "weights": weights(arch)}
    return about | sizes | measured(data, head, module, gives_boxes=name != FOMO)


def read(file: Path = FILE) -> Lines:
    """Read the lines of a file; empty if there is none."""
    lines: Lines = {}
    for line in entries(file):
        lines.setdefault(line["net"], {})[line["seed"]] = line
    return lines


def difference(lines: Lines, first: str, second: str, what: str) -> Difference | None:
    """Return the difference of two networks in `map` or `f1`, first minus second; None if no seed has both.

    The half-width of its interval is the root of the sum of squares of two: over the photographs, paired, and over the seeds.
    """
    pairs = [(line, lines[second][seed]) for seed, line in lines[first].items() if seed in lines[second]]
    if not pairs:
        return None
    by_seed = [one[what] - other[what] for one, other in pairs]
    drawn = np.mean([np.subtract(one[f"{what}_draws"], other[f"{what}_draws"]) for one, other in pairs], axis=0)
    middle, error, freedom = mean(by_seed), float(drawn.std(ddof=1)), len(pairs) - 1
    spread = stdev(by_seed) / sqrt(len(pairs)) if freedom else 0.0
    half = hypot(Z_95 * error, student_t(freedom) * spread) if freedom else Z_95 * error
    return Difference(middle, middle - half, middle + half, p_value(middle, error, spread, freedom) if freedom else 1.0)


def compared(lines: Lines, names: Sequence[str], base: str, what: str) -> Table:
    """Return the table of networks, with the mean of `map` or `f1` over the seeds, and the difference to `base`."""
    label, rows = {"map": "mAP", "f1": "F1"}[what], list[list[object]]()
    for name in names:
        each, values = next(iter(lines[name].values())), [line[what] for line in lines[name].values()]
        sizes = [each["side"], f"{each['ram']:,}", f"{each['macs'] / 1e6:.1f}", f"{each['weights']:,}", each["epochs"]]
        found = f"{mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"
        rows.append([name, *sizes, found, None if name == base else difference(lines, name, base, what)])
    heads = ["network", "pixels", "arena, B", "M MACs", "weights", "epochs", f"{label}, % (least to most)"]
    return Table([*heads, f"minus {base}, points"], rows)


def tables(lines: Lines) -> dict[str, Table]:
    """Return the tables that compare detectors, by their words; none of networks that were not measured."""
    pairs = {EQUAL_RAM: ((BY_LAYER, FUSED, OURS), BY_LAYER, "map"), PUBLISHED: ((OURS, FOMO), FOMO, "f1")}
    return {words: compared(lines, *each) for words, each in pairs.items() if set(each[0]) <= set(lines)}


def patches() -> Table:
    """Return table 5.7: RAM and MACs of MobileNetV2 by patches, counted as in the thesis."""
    net, patch = mobilenet_v2(WHOLE), WHOLE // FACTOR // GRID
    moved = redistributed(net, FACTOR, added=(2, 5))  # as in bench/papers/thesis.py
    rows = [["none: layer by layer", "", f"{macs(net) / 1e6:.1f}", f"{peak_bytes(layers(blocks(net))) / 1024:.1f}"]]
    for words, arch, is_split in (
        ("with halo", net, False),
        ("no halo", net, True),
        ("with halo, redistributed", moved, False),
    ):
        run = by_patches(arch, patch, FACTOR, split=is_split)
        rows.append([words, str(run.fields[0]), f"{run.macs / 1e6:.1f}", f"{run.ram / 1024:.1f}"])
    return Table(["patches", "rows of a patch of the image", "M MACs", "RAM, KiB"], rows)


def p_values(lines: Lines) -> list[float]:
    """Return the p-values of all comparisons of the section."""
    return [each.p for table in tables(lines).values() for each in table.differences()]


EQUAL_RAM = f"""**Equal RAM (table 5.5).** The arena is at most {RAM >> 10} KiB; images are the largest multiples of {STEP}
pixels that fit. MobileNetV2 of width {WIDTH} ends with its fifth group, and strides after the third are 1, or a cell would
hold several faces. Its head is that of `examples/vision/face_mask.json`, as in YOLOv2. In the thesis, MCUNet has 20 points more
than MobileNetV2, in 512 kB.
"""
PUBLISHED = f"""**Beside a published detector.** FOMO (Edge Impulse) is MobileNetV2 of width {WIDTH} until its sixth block is
expanded, and two 1x1 convolutions, which say for each cell of 8 pixels what has its centre there. It gives no boxes, so it has
no mAP, and its own measure is taken, F1: a centre is right if a box of its class, which no other centre took, has its centre
within {NEAR:.0%} of the image's side. It usually begins with weights of ImageNet; here both begin with random ones, and have
the same augmentation and optimiser.
"""
PATCHES = """## Patches without halo (table 5.7, without accuracy)

MobileNetV2 at 224 pixels, counted as in the thesis; its first maps are computed in 4 x 4 patches. The thesis has 1372, 172, 172
and 172 kB, and 300, 339, 300 and 309 M MACs. Without halo, patches do not see their neighbours, which is another network: in
the thesis, its mAP on VOC is 1.5 points lower.
"""
DETECTORS = """## Detectors

Photographs of faces with a mask, without one, and with one that sits wrong: {train} for training, {test} for the test. Each
network began with random weights and was trained for {seconds:g} CPU seconds, so larger networks had fewer epochs; none has
converged. They are float. The half-width of an interval is the root of the sum of squares of two: over the photographs, and
over the seeds (Student's t); one seed gives no verdict.
"""


def section(lines: Lines, limit: float) -> str:
    """Return the section of docs/EVIDENCE.md; `limit` is the largest p-value of a verdict."""
    every, parts = [line for each in lines.values() for line in each.values()], list[str]()
    if made := tables(lines):
        cost = cost_of(every)
        seeds, seconds = 1 + max(line["seed"] for line in every), every[0]["seconds"]
        parts.append(filled(DETECTORS.format(**every[0])))
        parts += [f"{filled(words)}\n{table.text(limit)}" for words, table in made.items()]
        parts.append(filled(f"Command: `bench/tinynas/detection.py --seeds {seeds} --seconds {seconds:g}`. Cost: {cost}."))
    return "\n".join([*parts, f"{filled(PATCHES)}\n{patches().text(limit)}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--seconds", type=float, default=300, help="CPU seconds of each training")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}  # CPU seconds are compared
    for seed in range(args.seeds):
        for name in (each for each in NETS if seed not in read(args.results).get(each, {})):
            arch = NETS[name][1]
            data = read_detection(DATA, arch.image[:2], anchors=ANCHORS, stride=stride(arch))
            append(args.results, line := trained(name, data, arch, seed, args.seconds))
            print({key: value for key, value in line.items() if not key.endswith("draws")}, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
