"""A photograph that is larger than the RAM: a JPEG file through decoder, resize and a fused network on an emulated Cortex-M7.

In: a baseline JPEG file of any size, or none for a drawn one of 640 x 480. Out: the RAM of everything, and whether the
network's output is that of Python, byte for byte. The network has random weights: to see how much memory it takes.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyweave import api, ops
from tinyweave.camera.jpeg import decode
from tinyweave.camera.row_source import input_of, pixel_values, row_source
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.nas.arch import Arch, Group, blocks
from tinyweave.nas.network import to_graph
from tinyweave.simulate import emulated

HERE = Path(__file__).parent
CORE, NAME, ALIGN = "cortex-m7", "photo", 16
GROUPS = (Group(8, 1, (3,), (1,)), Group(16, 2, (3, 3), (4, 4)), Group(24, 2, (3, 3), (4, 4)), Group(32, 2, (3,), (4,)))
ARCH = Arch(image=(120, 160, 3), stem=8, groups=GROUPS, last=64, classes=10, stem_kernel=(3, 3), stem_stride=(2, 2))


@dataclass(frozen=True)
class Scene:
    """What a picture took. ram: part -> bytes. right: whether the output is that of Python. image: bytes of the picture."""

    ram: dict[str, int]
    instructions: int
    right: bool
    image: int

    @property
    def total(self) -> int:
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


def play(photo: bytes) -> Scene:
    """Build the network and its source for a file, run both on the emulated core, and compare with Python."""
    height, width, _ = decode(photo).shape
    spec = f"jpeg:{width}x{height}"
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as name:
        folder = Path(name)
        (folder / f"{NAME}.tflite").write_bytes(to_tflite(to_graph(NAME, blocks(ARCH), ARCH.classes)))
        model = api.load(folder / f"{NAME}.tflite")
        plan = api.plan(model, core=CORE, stream_inputs=True)
        api.write(api.source(model, plan, row_source=spec), folder)
        at = -(-sum(plan.arena.values()) // ALIGN) * ALIGN  # where the source begins
        beside = api.row_source_bytes(model, spec)
        sizes = f"#define SCENE_FILE_BYTES {len(photo)}\n#define SCENE_SOURCE_AT {at}\n"
        (folder / "scene.h").write_text(f"#include <stdint.h>\n{sizes}")
        (folder / "scene.c").write_text((HERE / "scene.c").read_text())
        (output,) = model.graph.outputs
        firmware = emulated.build(folder, "scene", CORE)
        run = emulated.invoke(
            firmware, {"sram": at + beside}, [photo], [model.graph.tensors[output].bytes], streamed_inputs={0: 1}
        )
    image = input_of(row_source(spec), photo, ARCH.image, pixel_values())
    right = ops.run(model.graph, {model.graph.inputs[0]: image[None]})[output].tobytes()
    ram = {"network": at, "decoder and resize": beside, "stack": run.stack, "static": firmware.sizes["static"]}
    return Scene(ram, run.instructions, run.outputs[0] == right, height * width * 3)


def main() -> int:
    parser = argparse.ArgumentParser(description="send a JPEG file by rows through a fused network on an emulated Cortex-M7")
    parser.add_argument("photo", type=Path, nargs="?", help="a baseline JPEG file; a drawn picture if left out")
    path = parser.parse_args().photo
    try:
        photo = path.read_bytes() if path else drawn()
        scene = play(photo)
    except (CompileError, OSError) as error:
        print(f"photograph.py: {path or 'the drawn picture'}: {error}", file=sys.stderr)
        return 2
    rows, columns, _ = ARCH.image
    print(f"a picture of {scene.image:,} B, a file of {len(photo):,} B, a network at {columns} x {rows}, on an emulated {CORE}")
    for part, size in scene.ram.items():
        print(f"  {part:20} {size:8,} B")
    print(f"  {'everything':20} {scene.total:8,} B; {scene.instructions:,} instructions")
    print("the output is that of Python, byte for byte" if scene.right else "the output is NOT that of Python")
    return not scene.right


if __name__ == "__main__":
    sys.exit(main())
