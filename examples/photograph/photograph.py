"""Find boxes in a photograph that is larger than the RAM, with firmware that reads a JPEG file by rows, under QEMU.

In: a baseline JPEG file, or none for a drawn one of 640 x 480; the folder of a trained detector, or none for random weights,
which show how much memory it takes. Out: a CMake project, the RAM of everything, and whether the boxes are those of Python. The
exit code is 0 if they are.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tinyweave as tw
from tinynas.arch import Arch, Group, blocks, stride
from tinynas.int8 import int8_outputs, quant_of
from tinynas.network import to_graph
from tinynas.tasks.boxes import Head, as_text, head_of
from tinynas.trained import open_trained
from tinyweave import api
from tinyweave.camera.row_source import input_of, pixel_values, row_source
from tinyweave.exporters.tflite import to_tflite
from tinyweave.simulate.run import Fault
from tinyweave.support.files import write_below

sys.path.append(str(Path(__file__).parents[1]))

# isort: split
from firmware_programs import looking, run_program
from jpeg_decoder import decode

BOARD, NAME = "mps2-an500", "photo"
GROUPS = (Group(8, 1, (3,), (1,)), Group(16, 2, (3, 3), (4, 4)), Group(24, 2, (3, 3), (4, 4)), Group(32, 1, (3, 3), (4, 4)))
SIDES = ((12.0, 9.0), (24.0, 18.0), (48.0, 36.0))  # anchors, rows and columns
ARCH = Arch(image=(120, 160, 3), stem=8, groups=GROUPS, classes=3, stem_kernel=(3, 3), stem_stride=(2, 2), anchors=len(SIDES))


@dataclass(frozen=True, eq=False)
class Scene:
    """A run of the firmware. ram: bytes by part. boxes: lines as it prints them. right: whether they are Python's.

    image: columns and rows of the network's input.
    """

    ram: dict[str, int]
    boxes: list[str]
    right: bool
    image: tuple[int, int]

    @property
    def total(self) -> int:
        """Return the bytes of all parts."""
        return sum(self.ram.values())


def drawn(width: int = 640, height: int = 480) -> bytes:
    """Return a JPEG file of circles and noise."""
    from PIL import Image

    y, x = np.mgrid[:height, :width]
    waves = [
        np.hypot(x - cx * width, y - cy * height) / size for cx, cy, size in ((0.3, 0.4, 9), (0.7, 0.2, 15), (0.5, 0.9, 5))
    ]
    noise = np.random.default_rng(0).normal(0, 8, (height, width, 3))
    pixels = np.clip(128 + 90 * np.sin(np.stack(waves, axis=-1)) + noise, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(stream := io.BytesIO(), "JPEG", quality=85)
    return stream.getvalue()


def detector(folder: Path | None) -> tuple[tw.Model, Head]:
    """Return a trained detector of a folder that `tinyweave train` wrote, or one of random weights, and its head."""
    if folder is not None:
        model, data = open_trained(folder, NAME)
        if (head := head_of(data)) is None:
            raise tw.CompileError(f"'{folder}' holds no detector", "give a folder of 'tinyweave train --task detection'")
        return model, head
    return random_network(ARCH, NAME), Head(ARCH.image[:2], stride(ARCH), SIDES, ARCH.classes)


def random_network(arch: Arch, name: str) -> tw.Model:
    """Return a network of random weights."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        path = Path(folder) / f"{name}.tflite"
        path.write_bytes(to_tflite(to_graph(name, blocks(arch), None if arch.anchors else arch.classes)))
        return tw.load(path)


def boxes_in_python(model: tw.Model, head: Head, image: NDArray[np.int8], threshold: float) -> str:
    """Return the boxes of an image [rows, columns, channels] as the firmware prints them, the best first."""
    values = int8_outputs(model.graph, image[None])[0]
    return as_text(head.detected(values.reshape(head.shape), quant_of(model.graph), threshold))


def firmware(model: tw.Model, head: Head, source: str, threshold: float) -> api.Package:
    """Return the detector as firmware that reads a JPEG file."""
    package = packaged([model], source, "python examples/photograph/photograph.py")
    return looking(package, head.c_files(quant_of(model.graph)), threshold=head.limit(threshold))


def packaged(models: list[tw.Model], source: str, command: str) -> api.Package:
    """Return networks for the board, whose input comes by rows of a JPEG file."""
    board = tw.devices.find(BOARD)
    plans = [
        api.make_plan(model, api.Request(limits=api.device_limits(board), core=board.core, stream_inputs=True))
        for model in models
    ]
    return api.package(
        models, plans, board, api.PackageOptions(models[-1].name, command=command), api.CodeOptions(row_source=source)
    )


def seen_by(model: tw.Model, source: str, photo: bytes) -> NDArray[np.int8]:
    """Return the input of a network that a JPEG file gives."""
    _, rows, columns, channels = model.graph.tensors[model.graph.inputs[0]].shape
    return input_of(row_source(source), decode(photo, channels).tobytes(), (rows, columns, channels), pixel_values())


def play(photo: bytes, folder: Path | None, threshold: float, output: Path) -> Scene:
    """Write the firmware for a picture of this size, run it, and compare with Python."""
    height, width, _ = decode(photo).shape
    spec = f"jpeg:{width}x{height}"
    model, head = detector(folder)
    package = firmware(model, head, spec, threshold)
    write_below(output, {**api.export_files(package, "cmake"), "photo.jpg": photo})
    played = run_program(package, output / "photo.jpg")
    image = seen_by(model, spec, photo)
    wanted = boxes_in_python(model, head, image, threshold)
    ram = dict(played.ram)
    parts = {"network": ram.pop(f"{model.name}_arena"), "decoder, resize, boxes": ram.pop("shared"), "stack": ram.pop("stack")}
    right = played.printed == f"{wanted}, stack {parts['stack']}\n"
    boxes = played.printed.splitlines()[:-1]
    return Scene(parts | {"everything else": sum(ram.values())}, boxes, right, (image.shape[1], image.shape[0]))


def options(description: str, output: str) -> argparse.ArgumentParser:
    """Return the options of a program that looks for boxes in a picture."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("photo", type=Path, nargs="?", help="a baseline JPEG file; a drawn picture if left out")
    parser.add_argument("--network", type=Path, help="a folder of `tinyweave train --task detection`; else random weights")
    parser.add_argument("--threshold", type=float, default=0.4, help="least score of a box")
    parser.add_argument("-o", "--output", type=Path, default=Path(output), help="where the firmware goes")
    return parser


def main() -> int:
    what = "send a JPEG file by rows through a fused detector, as firmware under QEMU"
    arguments = options(what, "out/photograph").parse_args()
    try:
        photo = arguments.photo.read_bytes() if arguments.photo else drawn()
        scene = play(photo, arguments.network, arguments.threshold, arguments.output)
    except (tw.CompileError, Fault, OSError) as error:
        print(f"photograph.py: {arguments.photo or 'the drawn picture'}: {error}", file=sys.stderr)
        return 2
    print(
        f"a JPEG file of {len(photo):,} B and a network at {scene.image[0]} x {scene.image[1]}, as firmware on QEMU's {BOARD}"
    )
    for part, size in scene.ram.items():
        print(f"  {part:24} {size:8,} B")
    print(f"  {'all of its RAM':24} {scene.total:8,} B")
    print("\n".join(scene.boxes[:5]) or "no boxes")
    print(f"{len(scene.boxes)} boxes, {'equal to' if scene.right else 'NOT equal to'} the boxes in Python")
    return not scene.right


if __name__ == "__main__":
    sys.exit(main())
