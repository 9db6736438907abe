"""Convert camera pixels to grey or RGB, as `tw_convert_line` of tw_row_source.c does line by line. In: lines. Out: pixels.

Y, Cb, Cr have JFIF's full range and are converted with libjpeg's integer arithmetic. Grey of RGB is that of Pillow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

FORMATS = ("grey", "rgb", "bgr", "rgb565", "rgb565be", "yuyv", "uyvy")  # in the order of the C's TW_LINE_ numbers
PIXEL_BYTES = {"grey": 1, "rgb": 3, "bgr": 3, "rgb565": 2, "rgb565be": 2, "yuyv": 2, "uyvy": 2}


def rgb_of_ycc(y: Ints, cb: Ints, cr: Ints) -> Bytes:
    """Convert Y, Cb, Cr of equal shapes [...], 0 to 255, to RGB [..., 3]."""
    b, r = cb - 128, cr - 128
    red, green, blue = 91881 * r, -22554 * b - 46802 * r, 116130 * b
    colours = [y + ((part + 32768) >> 16) for part in (red, green, blue)]
    return np.asarray(np.clip(np.stack(colours, axis=-1), 0, 255), np.uint8)


def grey_of_rgb(rgb: Bytes) -> Bytes:
    """Convert RGB [..., 3] to grey [..., 1]."""
    weighted = rgb.astype(np.int64) @ np.array([19595, 38470, 7471]) + 32768
    return np.asarray(weighted >> 16, np.uint8)[..., None]


def converted(lines: Bytes, form: str, channels: int) -> Bytes:
    """Convert lines [height, bytes] of a format in FORMATS to pixels [height, width, channels], 1 (grey) or 3 (RGB)."""
    if channels == 1 and form in ("yuyv", "uyvy"):
        return lines[:, form == "uyvy" :: 2, None]
    if channels == 1 and form == "grey":
        return lines[:, :, None]
    rgb = _RGB[form](lines)
    return rgb if channels == 3 else grey_of_rgb(rgb)


def _of_565(lines: Bytes, low: int) -> Bytes:
    """Convert lines of 16-bit pixels to RGB; `low` says which of the two bytes of a pixel is the low one, 0 or 1."""
    word = lines[:, 1 - low :: 2].astype(np.int64) * 256 + lines[:, low::2]
    red, green, blue = word >> 11, word >> 5 & 63, word & 31
    return np.stack([red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2], axis=-1).astype(np.uint8)


def _of_422(lines: Bytes, luma: int) -> Bytes:
    """Convert lines in which two pixels share four bytes (YUYV or UYVY) to RGB; `luma` is the index of the first Y, 0 or 1."""
    pairs = lines.reshape(len(lines), -1, 4).astype(np.int64)
    cb, cr = (np.repeat(pairs[:, :, at], 2, axis=1) for at in (1 - luma, 3 - luma))
    return rgb_of_ycc(pairs[:, :, luma::2].reshape(len(lines), -1), cb, cr)


_RGB: dict[str, Callable[[Bytes], Bytes]] = {
    "grey": lambda lines: np.repeat(lines[:, :, None], 3, axis=2),
    "rgb": lambda lines: lines.reshape(len(lines), -1, 3),
    "bgr": lambda lines: lines.reshape(len(lines), -1, 3)[:, :, ::-1],
    "rgb565": lambda lines: _of_565(lines, 0),
    "rgb565be": lambda lines: _of_565(lines, 1),
    "yuyv": lambda lines: _of_422(lines, 0),
    "uyvy": lambda lines: _of_422(lines, 1),
}
