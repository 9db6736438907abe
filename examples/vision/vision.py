"""Train a network on a folder of photographs with boxes, run it on an emulated board, and draw what it recognises.

In: a VOC or COCO folder; the network's .json: one with anchors is a detector, another says whether there is a person. Out: a
folder with what `tinyweave train` writes, and boxes.png, images of the test part with true boxes in white and found ones in
colour, or answers.svg, which class is taken for which. The exit code is 0 if it fits and every byte is right.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tinynas.arch import from_json
from tinynas.int8 import int8_outputs, quant_of
from tinynas.tasks.boxes import as_rows, head_of
from tinynas.tasks.detection import boxes_of
from tinynas.tasks.evaluation.intervals import wilson
from tinynas.trained import FIRMWARE, open_trained
from tinyweave import api, cli
from tinyweave.api.results import Model
from tinyweave.devices import Device, find
from tinyweave.ir import CompileError
from tinyweave.support.files import read_file

sys.path.append(str(Path(__file__).parents[1]))

# isort: split
from recognised import confusion, recognised_svg

HERE = Path(__file__).parent
MAX_NET = 1 << 20  # bytes of a network's .json
PICTURE, ANSWERS = "boxes.png", "answers.svg"
ANSWERED = 200  # images of the test part that a classifier is asked, if --images does not ask for more
COLOURS = ("#ff5030", "#30c060", "#3090ff", "#ffb000", "#c050ff", "#00c8c8")
LEGEND = 20  # rows of the picture's legend
ACROSS, ZOOM = 4, 2  # images of a row of the picture; pixels of the picture for one of an image


def outputs_on_core(
    model: Model, folder: Path, device: Device, samples: NDArray[np.int8]
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Run the C in a run's folder on the device's emulated core for samples [n, ...].

    Return the outputs [n, ...], and for each sample whether its output equals the reference output in every byte.
    """
    planned = api.plan(model, device)
    inputs = [[np.ascontiguousarray(sample[None])] for sample in samples]
    ran = api.run_plan(model, planned, folder / FIRMWARE, inputs, api.emulated_core(device))
    expected = int8_outputs(model.graph, samples)
    outputs = np.concatenate([output for (output,) in ran]).reshape(expected.shape)
    return outputs, (outputs == expected).reshape(len(samples), -1).all(axis=1)


def picture(values: NDArray[np.int8], found: list[NDArray], true: list[NDArray], classes: tuple[str, ...]) -> Image.Image:
    """Return images [n, rows, columns, channels] beside each other, with the boxes [m, 6] of each: label, edges, and the score
    of found ones, in percent where it fits the box; below them which colour is which class."""
    count, rows, columns, channels = values.shape
    below = -(-count // ACROSS) * rows * ZOOM
    sheet = Image.new("RGB", (ACROSS * columns * ZOOM, below + LEGEND))
    for index, sample in enumerate(values):
        pixels = (sample.astype(np.int16) + 128).astype(np.uint8)
        tile = Image.fromarray(np.repeat(pixels, 3 // channels, axis=2)).resize((columns * ZOOM, rows * ZOOM))
        draw = ImageDraw.Draw(tile)
        for box in true[index]:
            draw.rectangle(corners(box), outline="white")
        for box in found[index]:
            colour = COLOURS[int(box[0]) % len(COLOURS)]
            left, top, right, _ = corners(box)
            draw.rectangle(corners(box), outline=colour, width=2)
            if draw.textlength(score := f"{100 * box[5]:.0f}") < right - left - 4:
                draw.text((left + 3, top + 1), score, fill=colour)
        sheet.paste(tile, (index % ACROSS * columns * ZOOM, index // ACROSS * rows * ZOOM))
    draw, x = ImageDraw.Draw(sheet), 4.0
    legend = [(name, COLOURS[label % len(COLOURS)]) for label, name in enumerate(classes)]
    for text, colour in [("true boxes", "white"), *legend]:
        draw.rectangle((x, below + 5, x + 9, below + 14), outline=colour, width=2)
        draw.text((x + 14, below + 4), text, fill=colour)
        x += draw.textlength(text) + 28
    return sheet


def corners(box: NDArray) -> tuple[float, float, float, float]:
    """Return left, top, right, bottom of a box in pixels of the picture; Pillow draws the last ones, too."""
    top, left, bottom, right = (ZOOM * float(edge) for edge in box[1:5])
    return left, top, max(left, right - 1), max(top, bottom - 1)


def draw(folder: Path, device: str, threshold: float, count: int) -> NDArray[np.bool_]:
    """Draw what a detector finds in `count` images of the test part, those with the most boxes, on the core of a device.

    Return for each image whether the output has the bytes of the reference.
    """
    model, data = open_trained(folder)
    head, (unseen, labels) = head_of(data), data.part("test")
    assert head is not None
    order = np.argsort([-len(boxes_of(rows)) for rows in labels], kind="stable")
    chosen = np.sort(order[:count])
    outputs, same = outputs_on_core(model, folder, find(device), unseen[chosen])
    found = [as_rows(head.detected(output, quant_of(model.graph), threshold)) for output in outputs]
    true = [boxes_of(labels[index]) for index in chosen]
    picture(unseen[chosen], found, true, data.classes).save(folder / PICTURE)
    return same


def answer(folder: Path, device: str, count: int) -> NDArray[np.bool_]:
    """Draw what a classifier answers to the first `count` images of the test part, on the core of a device.

    Return for each image whether the output has the bytes of the reference.
    """
    model, data = open_trained(folder)
    unseen, labels = (part[:count] for part in data.part("test"))
    outputs, same = outputs_on_core(model, folder, find(device), unseen)
    answers, classes = outputs.reshape(len(outputs), -1).argmax(axis=1), data.classes
    right = int((answers == labels).sum())
    low, high = wilson(right / len(labels), len(labels))
    title = f"{right} of {len(labels)} images are recognised (95 % of such sets: {100 * low:.0f} to {100 * high:.0f} %)"
    (folder / ANSWERS).write_text(recognised_svg(title, classes, confusion(labels, answers, len(classes))), encoding="utf-8")
    print(f"on the emulated core {title}")
    return same


def main() -> int:
    parser = argparse.ArgumentParser(
        description="train a network on photographs with boxes, deploy it, and draw what it recognises"
    )
    parser.add_argument("--data", required=True, type=Path, help="a VOC or COCO folder")
    parser.add_argument(
        "--net",
        type=Path,
        default=HERE / "person.json",
        help="the network: person.json, face_mask.json, wake_words.json, or yours",
    )
    parser.add_argument("--classes", help="what to find, as person,dog; else all that boxes are, or a person")
    parser.add_argument("--epochs", type=int, default=120, help="how often each image is seen")
    parser.add_argument("--device", default="stm32f746", help="a board of `tinyweave devices`")
    parser.add_argument("--threshold", type=float, default=0.3, help="least score of a box that is drawn")
    parser.add_argument(
        "--images", type=int, default=8, help="images of the test part that are drawn, and run on the emulated core"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out/vision"), help="where everything goes")
    arguments = parser.parse_args()
    try:
        return show(arguments)
    except CompileError as error:
        print(f"vision.py: {arguments.net}: {error}", file=sys.stderr)
        return 2


def show(arguments: argparse.Namespace) -> int:
    """Train the network, run it on the emulated core, and draw what it recognises; return the exit code."""
    if arguments.images < 1:
        raise CompileError(f"--images {arguments.images} shows nothing", "give at least 1 image")
    if not 0 < arguments.threshold <= 1:  # before hours of training
        raise CompileError(f"--threshold {arguments.threshold:g} is no score", "give a number above 0, at most 1")
    is_detector = from_json(read_file(arguments.net, MAX_NET, "give a network's .json").decode(errors="replace")).anchors > 0
    task = "detection" if is_detector else "visual-wake-words"
    asked = ["--task", task, "--data", str(arguments.data), "--epochs", str(arguments.epochs), "--device", arguments.device]
    asked += ["--set", f"classes={arguments.classes}"] if arguments.classes else []
    if status := cli.main(["train", str(arguments.net), *asked, "-o", str(arguments.output)]):
        return status
    if is_detector:
        same = draw(arguments.output, arguments.device, arguments.threshold, arguments.images)
    else:
        same = answer(arguments.output, arguments.device, max(arguments.images, ANSWERED))
    name = arguments.output / (PICTURE if is_detector else ANSWERS)
    print(f"{int(same.sum())} of {len(same)} outputs are the same bytes on the emulated core; drew {name}")
    return 0 if same.all() else 1


if __name__ == "__main__":
    sys.exit(main())
