"""Row sources: convert whole pictures of a camera, or of JPEG files, to a network's input, as tw_row_source.c does by rows.

In: a source as text; pictures as bytes. Out: a RowSource, the network's int8 input, and the RAM of the C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from .pixels import FORMATS, PIXEL_BYTES, converted
from .resizer import check_sizes, resized

HERE = Path(__file__).parent
JPEG = "jpeg"
LARGEST = 0xFFFF  # limit of width and height: a JPEG file has 16 bits for each
SPEC = re.compile(r"(\w+):(\d{1,5})x(\d{1,5})(?::(\d{1,5})x(\d{1,5})\+(\d{1,5})\+(\d{1,5}))?")
EXAMPLES = (
    "write jpeg:640x480, rgb565:320x240, or for a part of the picture yuyv:320x240:240x240+40+0 (width x height + left + top)"
)


@dataclass(frozen=True)
class RowSource:
    """A camera or JPEG format, the size of its pictures, and the part of a picture that becomes the network's input."""

    form: str  # one of FORMATS, or JPEG
    width: int  # of the picture
    height: int
    left: int  # first column of the part
    top: int  # first line of the part
    columns: int  # of the part
    rows: int

    @property
    def line_form(self) -> str | None:
        """Return the format of the camera's lines; None for JPEG, whose decoder yields grey or RGB as the network needs."""
        return None if self.form == JPEG else self.form

    def text(self) -> str:
        """Return the source as text, such as `jpeg:640x480`, which `row_source` parses."""
        part = (self.columns, self.rows, self.left, self.top)
        crop = "" if part == (self.width, self.height, 0, 0) else ":{}x{}+{}+{}".format(*part)
        return f"{self.form}:{self.width}x{self.height}{crop}"


def row_source(text: str) -> RowSource:
    """Parse a source: `jpeg:640x480`, or with a part (columns x rows + left + top) `yuyv:320x240:240x240+40+0`."""
    match = SPEC.fullmatch(text)
    if match is None or match[1] not in (*FORMATS, JPEG):
        raise CompileError(f"'{text[:60]}' is not a row source", f"{EXAMPLES}; formats: {', '.join((*FORMATS, JPEG))}")
    width, height, *part = (int(number) for number in match.groups()[1:] if number is not None)
    columns, rows, left, top = part or (width, height, 0, 0)
    if not (1 <= width <= LARGEST and 1 <= height <= LARGEST):
        raise CompileError(f"'{text}': width and height must be 1 to {LARGEST}", EXAMPLES)
    if not (1 <= columns <= width - left and 1 <= rows <= height - top):
        raise CompileError(f"'{text}': the part is outside the picture", EXAMPLES)
    if match[1] in ("yuyv", "uyvy") and width % 2:
        raise CompileError(f"'{text}': two pixels share their chroma, so the width must be even", EXAMPLES)
    return RowSource(match[1], width, height, left, top, columns, rows)


def pixel_values(
    scale: float = 1.0, zero_point: int = -128, black: float = 0.0, white: float = 255.0, lowest: int = -128
) -> NDArray[np.int8]:
    """Return the table [256] that maps pixels 0 .. 255 to bytes of the network's input.

    `black` and `white` are the real values of pixels 0 and 255. Bytes of a uint8 input (`lowest` 0) are also stored as int8.
    """
    real = black + (white - black) * np.arange(256) / 255
    return np.clip(np.round(real / scale) + zero_point, lowest, lowest + 255).astype(np.int64).astype(np.uint8).view(np.int8)


def input_of(source: RowSource, picture: bytes, shape: tuple[int, int, int], values: NDArray[np.int8]) -> NDArray[np.int8]:
    """Convert all lines of a picture to the int8 input [rows, columns, channels] by the table of `pixel_values`.

    Lines of a JPEG file are its decoded pixels, one byte per channel. Raise CompileError if the picture does not match the
    source.
    """
    rows, columns, channels = shape
    form = source.line_form or ("grey" if channels == 1 else "rgb")
    expected = source.height * source.width * PIXEL_BYTES[form]
    if len(picture) != expected:
        raise CompileError(f"the picture has {len(picture)} bytes, {source.text()} has {expected}", "give whole pictures")
    pixels = converted(np.frombuffer(picture, np.uint8).reshape(source.height, -1), form, channels)
    taken = pixels[source.top : source.top + source.rows, source.left : source.left + source.columns]
    return values[resized(taken, rows, columns)]


def check_source(source: RowSource, shape: tuple[int, int, int]) -> None:
    """Raise CompileError if a source cannot feed an input (rows, columns, 1 or 3 channels), or the resizer its sizes."""
    if shape[2] not in (1, 3):
        raise CompileError(
            f"a picture has 1 or 3 channels, the input has {shape[2]}", "use a network of grey or coloured images"
        )
    check_sizes(source.rows, source.columns, shape[0], shape[1])


def memory_bytes(source: RowSource, shape: tuple[int, int, int]) -> int:
    """Return the bytes of the C line buffer, TW_ROW_SOURCE_BYTES, for an input of shape (rows, columns, channels).

    It holds one output row of sums, 1 or 2 lines of the picture, and one more line if the format must be converted.
    """
    rows, columns, channels = shape
    held = 2 if rows > source.rows else 1
    if source.line_form in (None, "grey" if channels == 1 else "rgb"):
        return 4 * columns * channels + held * source.width * channels
    return 4 * columns * channels + held * source.columns * channels + source.width * PIXEL_BYTES[source.form]


def band_bytes(source: RowSource, channels: int) -> int:
    """Return the bytes of the C buffer for one row of decoded JPEG blocks, TW_JPEG_BAND_BYTES; 0 for other sources."""
    return 0 if source.form != JPEG else (source.width + 31) // 32 * 32 * (16 if channels == 1 else 24)
