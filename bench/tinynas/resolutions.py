"""Does a detector gain by the larger image that fits where it is fused? Table 5.5 of the MCUNet thesis in small.

In: a VOC or COCO folder, a network. It is trained at an image whose arena fits layer by layer, and at a larger one, which fits
fused, by one recipe and for equally many epochs; with two numbers of epochs from the weights that so many epochs at the smaller
one gave. Out: per image arenas, MACs,
and the mAP of the held-out images, in float and of the int8 C on this machine, with 95 % intervals of images drawn again; and
the difference, of the same draws. What was trained is not trained again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from numpy.typing import NDArray

import tinyweave as tw
from tinynas.arch import Arch, from_json, macs, stride, to_json
from tinynas.halving import WEIGHTS, load_data, save_data, train_one
from tinynas.int8 import THRESHOLD, quant_of, quantise
from tinynas.learning.module import module_of
from tinynas.learning.train import scores
from tinynas.tasks.average_precision import Match, average_precision, match_voc, matched
from tinynas.tasks.boxes import as_rows, head_of
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.detection import boxes_of, read_detection
from tinyweave import api, cli
from tinyweave.simulate import target

ROOT = Path(__file__).resolve().parents[2]
DATA, NET = ROOT.parent / "shared" / "data" / "person_voc", ROOT / "examples" / "vision" / "person.json"
DRAWS = 2000  # of images, for the intervals
HELD_OUT = ("validation", "test")  # no training sees them, and nothing is chosen by them
BOARD, SRAM = "stm32f746", 217_000  # of the thesis' detectors
Matches = list[Match]  # of each held-out image


@dataclass(frozen=True, eq=False)
class Row:
    """One image: its arenas layer by layer and of the best plan, and what was found, in float and by the int8 C."""

    side: int
    arenas: dict[str, int]
    macs: int
    found: dict[str, Matches]


def sized(arch: Arch, side: int) -> Arch:
    return replace(arch, image=(side, side, arch.image[2]))


def started(arch: Arch, data: Path, epochs: int, folder: Path) -> Path:
    """Return the weights that both begin with, from `tinyweave train`."""
    folder.mkdir(parents=True, exist_ok=True)
    net = folder / "start.json"
    net.write_text(to_json(arch), encoding="utf-8")
    asked = ["--task", "detection", "--data", str(data), "--epochs", str(epochs), "--device", BOARD, "--ram", str(SRAM)]
    weights = folder / "start" / WEIGHTS / "0-0.pt"
    if not weights.is_file() and cli.main(["train", str(net), *asked, "-o", str(folder / "start")]):
        raise SystemExit(1)
    return weights


def trained(arch: Arch, data: Path, folder: Path, *, start: Path | None, epochs: int, seed: int) -> tuple[Dataset, Path]:
    """Return the images in the network's size, and its weights after so many epochs from `start`, or from random ones."""
    own = folder / f"{arch.image[0]}"
    if not (own / "data.json").is_file():
        save_data(read_detection(data, arch.image[:2], arch.image[2], anchors=arch.anchors, stride=stride(arch)), own)
    end = folder / f"{arch.image[0]}-{seed}-{epochs}{'-on' if start else ''}.pt"
    if not end.is_file():
        train_one(to_json(arch), str(own), epochs, seed, start=str(start) if start else None, end=str(end))
    return load_data(own), end


def measured(arch: Arch, data: Dataset, weights: Path) -> Row:
    """Return what a trained network finds in the held-out images, in float and in int8 by the C of its best plan."""
    module = module_of(arch)
    module.load_state_dict(torch.load(weights, weights_only=True))
    module.eval()
    head, board = head_of(data), tw.devices.find(BOARD)
    assert head is not None
    parts = [data.part(name) for name in HELD_OUT]
    values, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    true = [boxes_of(each) for each in labels]
    real = [head.detected_real(each, THRESHOLD) for each in scores(module, values).transpose(0, 2, 3, 1)]
    model = api.with_io(quantise(module, data).model, "int8", "nhwc")
    best = api.plan(model, board.core)
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        api.write(api.emit_c(model, best), Path(name))
        heads = api.run(model, best, Path(name), [[np.ascontiguousarray(each[None])] for each in values], target.HOST)
    found = [as_rows(head.detected(each, quant_of(model.graph), THRESHOLD)) for (each,) in heads]
    layers = api.plan(model, board.core, schedule="layer")
    arenas = {"layer": sum(layers.arena.values()), "best": sum(best.arena.values())}
    kinds = {"float": real, "int8": found}
    return Row(
        arch.image[0],
        arenas,
        macs(arch),
        {kind: matched(each, true, 1, match_voc, (0.5,))[0][0] for kind, each in kinds.items()},
    )


def precisions(matches: Matches, draws: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mAP in percent of each draw of images."""
    return np.array([100 * average_precision([matches[image] for image in images], None) for images in draws])


def told(values: NDArray[np.float64], whole: float, sign: str = "") -> str:
    low, high = np.percentile(values, (2.5, 97.5))
    return f"{whole:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description="what a larger image, which fits fused, gains in mAP at the same SRAM")
    parser.add_argument("-o", "--output", required=True, type=Path, help="where trainings are kept")
    parser.add_argument("--data", type=Path, default=DATA, help="a VOC or COCO folder")
    parser.add_argument("--net", type=Path, default=NET, help="the network, of one class")
    parser.add_argument("--sides", default="144,256", help="of the image layer by layer, and fused")
    parser.add_argument("--epochs", default="120,40", help="of both together, and then of each; or one number, of each")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each image")
    given = parser.parse_args()
    torch.set_num_threads(1)
    arch, sides = from_json(given.net.read_text()), [int(side) for side in given.sides.split(",")]
    *first, epochs = (int(count) for count in given.epochs.split(","))
    start = started(sized(arch, sides[0]), given.data, first[0], given.output) if first else None
    for seed in range(given.seeds):
        found = [trained(sized(arch, side), given.data, given.output, start=start, epochs=epochs, seed=seed) for side in sides]
        rows = [measured(sized(arch, side), *each) for side, each in zip(sides, found, strict=True)]
        count = len(rows[0].found["int8"])
        draws = np.random.default_rng(0).integers(0, count, (DRAWS, count))
        whole = np.arange(count)[None]
        print(f"seed {seed}: mAP in % of {count} held-out images [95 %]")
        for row in rows:
            sizes = ", ".join(f"{name} {size:,} B" for name, size in row.arenas.items())
            marks = ", ".join(
                f"{kind} {told(precisions(each, draws), precisions(each, whole)[0])}" for kind, each in row.found.items()
            )
            print(f"  {row.side} x {row.side}: {sizes}, {row.macs / 1e6:.1f} M MACs: {marks}", flush=True)
        for kind in rows[0].found:
            apart, once = (precisions(rows[1].found[kind], of) - precisions(rows[0].found[kind], of) for of in (draws, whole))
            print(f"  {kind}: {told(apart, once[0], '+')} points more, in {100 * (apart > 0).mean():.1f} % of draws above 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
