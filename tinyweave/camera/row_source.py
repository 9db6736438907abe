"""Row sources: how a camera's lines or a JPEG file become a network's input, as tw_row_source.c does it row by row.

In: a source, as it is typed; pictures as bytes. Out: a RowSource, the network's int8 input, and the bytes of RAM of the C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError
from . import jpeg
from .pixels import FORMATS, PIXEL_BYTES, converted
from .resize import check_sizes, resized

HERE = Path(__file__).parent
JPEG = "jpeg"
LARGEST = 0xFFFF  # lines of a picture, and pixels of a line: a JPEG file has 16 bits for each
SPEC = re.compile(r"(\w+):(\d{1,5})x(\d{1,5})(?::(\d{1,5})x(\d{1,5})\+(\d{1,5})\+(\d{1,5}))?")
EXAMPLES = "write jpeg:640x480, rgb565:320x240, or with a part of it yuyv:320x240:240x240+40+0 (width x height + left + top)"


@dataclass(frozen=True)
class RowSource:
    """form: one of FORMATS, or JPEG. width, height: of the picture. left, top, columns, rows: the part that is used."""

    form: str
    width: int
    height: int
    left: int
    top: int
    columns: int
    rows: int

    @property
    def line_form(self) -> str | None:
        """Return the format of the lines that come; None: what the network takes, grey or rgb, as the decoder gives it."""
        return None if self.form == JPEG else self.form

    def text(self) -> str:
        """Return the source as it is typed."""
        part = (self.columns, self.rows, self.left, self.top)
        crop = "" if part == (self.width, self.height, 0, 0) else ":{}x{}+{}+{}".format(*part)
        return f"{self.form}:{self.width}x{self.height}{crop}"


def row_source(text: str) -> RowSource:
    """Return the source that a text such as `jpeg:640x480` means; raise CompileError for one that cannot be."""
    match = SPEC.fullmatch(text)
    if match is None or match[1] not in (*FORMATS, JPEG):
        raise CompileError(f"'{text[:60]}' is no source of rows", f"{EXAMPLES}; formats: {', '.join((*FORMATS, JPEG))}")
    width, height, *part = (int(number) for number in match.groups()[1:] if number is not None)
    columns, rows, left, top = part or (width, height, 0, 0)
    if not (1 <= width <= LARGEST and 1 <= height <= LARGEST):
        raise CompileError(f"'{text}': a picture has 1 to {LARGEST} pixels in a line, and as many lines", EXAMPLES)
    if not (1 <= columns <= width - left and 1 <= rows <= height - top):
        raise CompileError(f"'{text}': the part lies outside the picture", EXAMPLES)
    if match[1] in ("yuyv", "uyvy") and width % 2:
        raise CompileError(f"'{text}': two pixels share their colours, so the width must be even", EXAMPLES)
    return RowSource(match[1], width, height, left, top, columns, rows)


def pixel_values(
    scale: float = 1.0, zero_point: int = -128, black: float = 0.0, white: float = 255.0, lowest: int = -128
) -> NDArray[np.int8]:
    """Return [256]: the bytes that a network takes for pixels 0 .. 255, those of a uint8 input as int8.

    scale, zero_point: of the input. black, white: the numbers that pixels 0 and 255 stand for. lowest: the lowest value of the
    input's type, -128 for int8, 0 for uint8.
    """
    real = black + (white - black) * np.arange(256) / 255
    return np.clip(np.round(real / scale) + zero_point, lowest, lowest + 255).astype(np.int64).astype(np.uint8).view(np.int8)


def input_of(source: RowSource, picture: bytes, shape: tuple[int, int, int], values: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the input [rows, columns, channels] that a picture becomes; shape: of the input, values: as of `pixel_values`.

    picture: all lines one after the other, or a JPEG file. Raise CompileError where it is not what the source says.
    """
    rows, columns, channels = shape
    if source.form == JPEG:
        pixels = jpeg.decode(picture, channels)
        if pixels.shape[:2] != (source.height, source.width):
            seen = f"{pixels.shape[1]}x{pixels.shape[0]}"
            raise CompileError(f"a picture of {seen} pixels came, not {source.text()}", "give the size that the file has")
    else:
        expected = source.height * source.width * PIXEL_BYTES[source.form]
        if len(picture) != expected:
            raise CompileError(f"a picture of {len(picture)} bytes came, {source.text()} has {expected}", "give whole pictures")
        pixels = converted(np.frombuffer(picture, np.uint8).reshape(source.height, -1), source.form, channels)
    taken = pixels[source.top : source.top + source.rows, source.left : source.left + source.columns]
    return values[resized(taken, rows, columns)]


def check_source(source: RowSource, shape: tuple[int, int, int]) -> None:
    """Raise CompileError where a network's input [rows, columns, channels] cannot come from a source."""
    if shape[2] not in (1, 3):
        raise CompileError(
            f"a picture has 1 or 3 channels, the input has {shape[2]}", "use a network of grey or coloured images"
        )
    check_sizes(source.rows, source.columns, shape[0], shape[1])


def memory_bytes(source: RowSource, shape: tuple[int, int, int]) -> int:
    """Return TW_ROW_SOURCE_BYTES: of a row's sums, of the lines that are held, and of one more if they must be converted."""
    rows, columns, channels = shape
    held = 2 if rows > source.rows else 1
    if source.line_form in (None, "grey" if channels == 1 else "rgb"):
        return 4 * columns * channels + held * source.width * channels
    return 4 * columns * channels + held * source.columns * channels + source.width * PIXEL_BYTES[source.form]


def band_bytes(source: RowSource, channels: int) -> int:
    """Return TW_JPEG_BAND_BYTES: of the row of blocks of a JPEG file that is in memory, 0 for other sources."""
    return 0 if source.form != JPEG else (source.width + 31) // 32 * 32 * (16 if channels == 1 else 24)
