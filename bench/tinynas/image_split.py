"""The cost of splitting an image, and of smaller receptive fields: table 5.7 and figure 4-2 of the MCUNet thesis in small.

In: a folder of images by class, or one of photographs with boxes (--detection). MobileNetV2 of a small width is trained by one
recipe: as it is; with its image split, so that each part runs through the patched blocks by itself and knows nothing of the
others; with its receptive field redistributed; and as it is at smaller images. Out: a line each: receptive field of a part,
work, arenas layer by layer, by patches and of the best plan, constants, accuracy or mAP of the test part in float and of the
int8 C on this machine, with the latter's 95 % interval, and whether the C gave the reference's bytes, here and on the emulated
core. What was trained is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
import numpy as np
import torch
from baselines import scaled
from torch import Tensor, nn

import tinyweave as tw
from tinynas.arch import Arch, macs, stride, to_json
from tinynas.halving import augmentations_of, batch_of
from tinynas.int8 import int8_outputs, precision, quantise
from tinynas.learning.module import module_of
from tinynas.learning.train import Recipe, fit, save, scores
from tinynas.published.redistribute import by_patches, patched_blocks, redistributed
from tinynas.tasks.boxes import head_of
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.detection import read_detection
from tinynas.tasks.evaluation.intervals import wilson
from tinynas.tasks.images import read_images
from tinynas.training_run import TrainingRun
from tinyweave import api
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.simulate import target

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
BOARD = tw.devices.find("stm32f746")
PROVED = 2  # images on the emulated core
ANCHORS, DOWN = 4, 16  # of a detector; rows of its image for each of the last map


class Setting(NamedTuple):
    """Sides of the images, the largest last, and a network whose maps are patched until they are `factor` times smaller."""

    sides: tuple[int, ...]
    width: float
    factor: int
    grid: int
    epochs: int


CLASSES = Setting((16, 24, 32), 0.25, 4, 4, 30)
BOXES = Setting((96, 128, 160), 0.35, 8, 4, 80)


class Split(nn.Module):
    """A network whose first `patched` blocks see one of `grid` x `grid` parts of the image at a time.

    Training folds the parts into the batch, so that a norm sees all of them; else each is cut out and run by itself, as on a
    device.
    """

    def __init__(self, network: nn.Sequential, patched: int, grid: int) -> None:
        super().__init__()
        self.patched, self.rest, self.grid = network[:patched], network[patched:], grid

    def forward(self, x: Tensor) -> Any:
        grid = self.grid
        rows, columns = x.shape[2] // grid, x.shape[3] // grid
        if not self.training:
            lines = [x[:, :, row * rows : (row + 1) * rows] for row in range(grid)]
            parts = [[line[..., at * columns : (at + 1) * columns] for at in range(grid)] for line in lines]
            return self.rest(torch.cat([torch.cat(list(map(self.patched, line)), 3) for line in parts], 2))
        count = len(x)
        folded = x.reshape(count, -1, grid, rows, grid, columns).permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
        made = self.patched(folded)
        back = made.reshape(count, grid, grid, *made.shape[1:]).permute(0, 3, 1, 4, 2, 5)
        return self.rest(back.flatten(4, 5).flatten(2, 3))


def module(arch: Arch, setting: Setting, *, split: bool, seed: int = 0) -> nn.Module:
    made = module_of(arch, seed)
    return Split(made, patched_blocks(arch, setting.factor), setting.grid) if split else made


def read(folder: Path, side: int, anchors: int) -> Dataset:
    """Return images of this side, as `tinyweave train` has them."""
    if anchors:
        return read_detection(folder, (side, side), 3, anchors=anchors, stride=DOWN)
    return read_images(folder, (side, side))


def trained(made: nn.Module, data: Dataset, file: Path, epochs: int, seed: int) -> nn.Module:
    """Return the module with the weights in a file, which are trained where it is not there."""
    if not file.is_file():
        recipe = Recipe(epochs, batch=batch_of(data), augmentation=augmentations_of(data)[0], head=head_of(data))
        fit(made, *data.part("train"), recipe, TrainingRun(seed, checkpoint=file.with_suffix(".epoch")))
        save(made.state_dict(), file)
        file.with_suffix(".epoch").unlink(missing_ok=True)
    made.load_state_dict(torch.load(file, weights_only=True))
    return made.eval()


def judged(made: nn.Module, data: Dataset, setting: Setting) -> dict[str, Any]:
    """Return what a trained network needs in int8, and how right it is."""
    unseen, labels = data.part("test")
    small = quantise(made, data).model
    model = api.with_io(small, "int8", "nhwc")
    by_parts = "unfused" if isinstance(made, Split) else f"patch:{setting.grid}"  # its parts are layers already
    plans = {name: api.plan(model, BOARD.core, schedule=name) for name in ("layer", by_parts, "best")}
    best = plans["best"]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        api.write(api.emit_c(model, best), Path(name))
        inputs = [[np.ascontiguousarray(each[None])] for each in unseen]
        answers = np.concatenate([each for (each,) in api.run(model, best, Path(name), inputs, target.HOST)])
        on_core = np.concatenate(
            [each for (each,) in api.run(model, best, Path(name), inputs[:PROVED], api.emulated_core(BOARD))]
        )
    wanted = int8_outputs(model.graph, unseen)
    same = [(made.reshape(-1) == wanted[: len(made)].reshape(-1)).all() for made in (answers, on_core)]
    head = head_of(data)
    if head is not None:
        named, interval = precision(scores(made, unseen), small, unseen, labels, head)
        real, int8 = named["test"], named["test_int8"]
    else:
        real = float((scores(made, unseen).argmax(1) == labels).mean())
        int8 = float((answers.reshape(len(labels), -1).argmax(1) == labels).mean())
        interval = wilson(int8, len(labels))
    return {
        "macs": {name: sum(plan_macs(plan)) for name, plan in plans.items()},
        "arenas": {name: sum(plan.arena.values()) for name, plan in plans.items()},
        "flash": api.estimate_flash(best, BOARD).constants,
        "float": real,
        "int8": int8,
        "interval": interval,
        "same": bool(all(same)),
        "test": len(labels),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True, type=Path, help="where trainings are kept")
    parser.add_argument("--detection", action="store_true", help="find boxes instead of telling images apart")
    parser.add_argument("--data", type=Path, help="a folder of images by class, or of photographs with boxes")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    setting = BOXES if given.detection else CLASSES
    setting = setting._replace(epochs=given.epochs or setting.epochs)
    anchors, folder = (ANCHORS, "person_voc") if given.detection else (0, "cifar10_fifth")
    data = {side: read(given.data or DATA / folder, side, anchors) for side in setting.sides}
    side = setting.sides[-1]
    arch = scaled("mobilenet_v2", (side, side, 3), setting.width, len(data[side].classes))
    if anchors:
        arch = replace(
            arch, anchors=anchors, last=0, groups=(*arch.groups[:5], replace(arch.groups[5], stride=1), arch.groups[6])
        )
        assert stride(arch) == DOWN
    networks = {"as it is": arch, "image split": arch, "redistributed": redistributed(arch, setting.factor)}
    networks |= {f"as it is, {less} x {less}": replace(arch, image=(less, less, 3)) for less in setting.sides[:-1]}
    given.output.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for name, each in networks.items():
            split, start, own = name == "image split", time.process_time(), data[each.image[0]]
            key = f"{own.kind}-{name.replace(', ', '-').replace(' ', '_')}-{seed}-{setting.epochs}"
            weights = given.output / f"{key}.pt"
            made = trained(module(each, setting, split=split, seed=seed), own, weights, setting.epochs, seed)
            patch = each.image[0] // setting.factor // setting.grid
            counted = by_patches(each, patch, setting.factor, clipped=True, split=split)
            record = judged(made, own, setting) | {"name": name, "seed": seed, "field": counted.fields[0]}
            (given.output / f"{key}.json").write_text(json.dumps(record | {"arch": to_json(each)}))
            print(line(record, macs(each), time.process_time() - start), flush=True)
    return 0


def line(record: dict[str, Any], whole: int, seconds: float) -> str:
    percent = {name: f"{100 * record[name]:.1f}" for name in ("float", "int8")}
    low, high = (f"{100 * edge:.1f}" for edge in record["interval"])
    cells = (
        *(record["name"], str(record["seed"]), str(record["field"]), f"{whole / 1e6:.2f}"),
        " / ".join(f"{count / 1e6:.2f}" for count in record["macs"].values()),
        *(" / ".join(f"{size:,}" for size in record["arenas"].values()), f"{record['flash']:,}"),
        *(percent["float"], f"{percent['int8']} [{low}, {high}] of {record['test']}"),
        *("same bytes" if record["same"] else "DIFFERENT BYTES", f"{seconds:.0f} s"),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
