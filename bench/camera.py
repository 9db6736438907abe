"""What a row source takes beside the network: the time of a whole picture, its code and its RAM.

In: photographs (--photos), of which --count are taken. Out: per source and input the instructions of a picture on an emulated
Cortex-M7, the greatest of all photographs, its estimated cycles there and on a Cortex-M4, milliseconds on two boards, bytes of
code and tables, and of RAM. Lines of a camera lie in memory already, as DMA leaves them; so does the file. Exit code 1 where
an input differs from Python's.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import one_line  # noqa: F401

# isort: split
import numpy as np
from PIL import Image

from tinyweave.camera.emit import c_files, ram_bytes
from tinyweave.camera.row_source import JPEG, RowSource, input_of, pixel_values, row_source
from tinyweave.devices import find
from tinyweave.simulate import emulated

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples" / "photograph"))
from jpeg_decoder import decode  # noqa: E402

PHOTOS = ROOT.parent / "shared" / "data" / "person_voc"
BOARDS = ("stm32f746", "stm32f412")  # a Cortex-M7 and a Cortex-M4
QUALITY = 85  # of the JPEG files, with colours at half the size
CASES = (
    ("jpeg:640x480", (160, 160, 3)),
    ("jpeg:640x480", (96, 96, 3)),
    ("jpeg:320x240", (96, 96, 3)),
    ("yuyv:640x480", (160, 160, 3)),
    ("rgb565:320x240:240x240+40+0", (160, 160, 3)),
    ("rgb565:320x240:240x240+40+0", (96, 96, 3)),
    ("rgb565:160x120", (120, 160, 3)),
    ("grey:320x240", (96, 96, 1)),
)
PROGRAM = """
#include <string.h>
#include "picture_source.h"

static picture_source source;
static struct {{ const uint8_t *data; int32_t at; }} file;

int32_t read_line(void *user, int32_t line, uint8_t *destination);
int32_t read_file(void *user, uint8_t *destination, int32_t count);
int32_t read_line(void *user, int32_t line, uint8_t *destination)
{{
    memcpy(destination, (const uint8_t *)user + line * {line_bytes}, {line_bytes});
    return 0;
}}
int32_t read_file(void *user, uint8_t *destination, int32_t count)
{{
    const int32_t left = {bytes} - file.at, most = left < count ? left : count;
    (void)user;
    memcpy(destination, file.data + file.at, (size_t)most);
    file.at += most;
    return most;
}}
int32_t camera_init(void *const *memory) {{ (void)memory; return 0; }}
int32_t camera_reset(void *const *memory) {{ (void)memory; return 0; }}
void *camera_input(void *const *memory, int32_t index) {{ (void)index; return *memory; }}
void *camera_output(void *const *memory, int32_t index) {{ (void)index; return (uint8_t *)*memory + {behind}; }}
int32_t camera_invoke(void *const *memory, const void *io)
{{
    (void)io;
    file.data = *memory;
    file.at = 0;
    const int32_t failed = picture_source_begin(&source, {begin});
    return failed != 0 ? failed : tw_row_source_rows(&source.rows, 0, 0, {rows}, camera_output(memory, 0));
}}
"""


def picture(photo: Path, source: RowSource) -> bytes:
    """Return a photograph as the source has it: a file, or lines one after the other."""
    image = Image.open(photo).convert("RGB").resize((source.width, source.height))
    if source.form == JPEG:
        image.save(stream := io.BytesIO(), "JPEG", quality=QUALITY, subsampling="4:2:0")
        return stream.getvalue()
    if source.form == "grey":
        return image.convert("L").tobytes()
    if source.form == "yuyv":
        planes = np.asarray(image.convert("YCbCr"))
        lines = np.empty((source.height, source.width, 2), np.uint8)
        lines[..., 0], lines[:, 0::2, 1], lines[:, 1::2, 1] = planes[..., 0], planes[:, 0::2, 1], planes[:, 0::2, 2]
        return lines.tobytes()
    red, green, blue = np.moveaxis(np.asarray(image).astype(np.uint16), 2, 0)
    return ((red >> 3 << 11) | (green >> 2 << 5) | blue >> 3).astype("<u2").tobytes()


def run(core: str, source: RowSource, shape: tuple[int, int, int], data: bytes) -> tuple[emulated.Inference, emulated.Firmware]:
    """Bring one picture on a core."""
    values, behind = pixel_values(), -(-len(data) // 4) * 4
    begin = "read_file, 0, 1u << 30" if source.form == JPEG else "read_line, *memory"
    about = {"line_bytes": len(data) // source.height, "bytes": len(data), "behind": behind, "rows": shape[0], "begin": begin}
    with tempfile.TemporaryDirectory() as folder:
        files = c_files(source, "picture", shape, values) | {"camera.c": PROGRAM.format(**about), "camera.h": ""}
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        firmware = emulated.build(Path(folder), "camera", core)
        size = int(np.prod(shape))
        memory = {"sram": behind + size}
        return emulated.invoke(firmware, memory, [data], [size]), firmware


def rows(source: RowSource, shape: tuple[int, int, int], photos: list[Path]) -> Iterator[str]:
    pictures = [picture(photo, source) for photo in photos]
    runs = {name: [run(find(name).core, source, shape, data) for data in pictures] for name in BOARDS}
    pixels = [decode(data, shape[2]).tobytes() if source.form == JPEG else data for data in pictures]
    wanted = [input_of(source, each, shape, pixel_values()) for each in pixels]
    same = all(done.outputs[0] == each.tobytes() for ran in runs.values() for (done, _), each in zip(ran, wanted, strict=True))
    cells = [source.text(), " x ".join(map(str, shape)), f"{max(done.instructions or 0 for done, _ in runs[BOARDS[0]]):,}"]
    for name, ran in runs.items():
        board = find(name)
        cycles = max(sum(part.likely for part in emulated.cycles(board.core, done).values()) for done, _ in ran)
        cells += [f"{cycles:,}", f"{1000 * cycles / board.clock_hz:.1f}"]
    sizes = runs[BOARDS[0]][0][1].sizes
    cells += [f"{sizes['code'] + sizes['tables']:,}", f"{ram_bytes(source, shape):,}", "yes" if same else "NO"]
    yield f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, default=PHOTOS, help="a folder of .jpg files")
    parser.add_argument("--count", type=int, default=3)
    given = parser.parse_args()
    photos = sorted(given.photos.rglob("*.jpg"))[: given.count]
    if not photos:
        print(f"no photographs in {given.photos}", file=sys.stderr)
        return 2
    heads = [
        "source",
        "input",
        "instructions",
        *(f"{what}, {name}" for name in BOARDS for what in ("cycles", "ms")),
        "Flash",
        "RAM",
    ]
    print(f"| {' | '.join(heads)} | as Python |\n|---|---|{'---:|' * (len(heads) - 2)}---|")
    lines = []
    for text, shape in CASES:
        for line in rows(row_source(text), shape, photos):
            print(line, flush=True)
            lines.append(line)
    return int(any(line.endswith("| NO |") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
