"""Decode baseline JPEG files: the reference of tw_jpeg.c, with the same pixels and errors, written independently of it.

In: the bytes of a file. Out: the pixels, or an error number of the C, or a CompileError. The transform is libjpeg's `islow`;
chroma is repeated, not interpolated. The whole file and the whole picture are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tinyweave.camera.pixels import grey_of_rgb, rgb_of_ycc
from tinyweave.ir import CompileError

Ints = NDArray[np.int64]
ENDED = -10
BUDGET, NO_JPEG, DAMAGED, PROGRESSIVE, NOT_BASELINE, COLOURS, SAMPLING, SCANS = range(-12, -20, -1)
CONVERT = "convert it, e.g. with Pillow: Image.open(file).convert('RGB').save(file, 'JPEG')"
ERRORS = {
    ENDED: ("it is cut short", "give the whole file"),
    BUDGET: ("its picture needs more bytes than may be read", "allow more, or give a smaller file"),
    NO_JPEG: ("it is not a JPEG file", "give a baseline JPEG file"),
    DAMAGED: ("it is damaged: it has an invalid segment, code or value", "give another file"),
    PROGRESSIVE: ("it is a progressive JPEG file, which cannot be decoded by rows", CONVERT),
    NOT_BASELINE: ("it is not a baseline JPEG file: arithmetic coding, 12 bits, lossless or the like", CONVERT),
    COLOURS: ("it has neither 1 nor 3 components", CONVERT),
    SAMPLING: ("its chroma subsampling is not 1, 2 or 4", CONVERT),
    SCANS: ("it has each colour in a scan of its own, so it cannot be decoded by rows", CONVERT),
}
MOST_DC, MOST_SUM = 2047, 16383  # as in tw_jpeg.c and tw_idct.c, whose least sum is one further from 0
ZIGZAG = np.array(sorted(range(64), key=lambda i: (i // 8 + i % 8, i // 8 if (i // 8 + i % 8) % 2 else i % 8)))


class _Refused(Exception):  # noqa: N818 - an outcome, its number is the C's
    """Ends the decoding of a bad file; its argument is the error number that the C returns."""

    pass


def _refuse(is_wrong: bool, status: int = DAMAGED) -> None:
    """Raise _Refused with the error number `status` if `is_wrong`."""
    if is_wrong:
        raise _Refused(status)


@dataclass
class _Component:
    """A colour component of a JPEG file: its sampling factors, tables, and blocks of DCT coefficients."""

    id: int
    h: int  # vertical sampling factor
    w: int  # horizontal sampling factor
    quantiser: int  # number of the quantisation table
    tables: tuple[int, int] = (0, 0)  # numbers of the Huffman tables of DC and AC
    blocks: list[list[int]] = field(default_factory=list)  # coefficients in the file's order, not yet times their quantisers


def decode(data: bytes, channels: int = 3) -> NDArray[np.uint8]:
    """Decode a JPEG file into pixels [height, width, channels] (1 grey, 3 RGB); raise CompileError if tw_jpeg.c rejects it.

    A row of blocks beyond the buffer of tw_jpeg.c is rejected only there.
    """
    status, pixels = partly_decoded(data, channels)
    if status:
        why, what_to_do = ERRORS[status]
        raise CompileError(f"the picture cannot be decoded: {why}", what_to_do)
    return pixels


def partly_decoded(data: bytes, channels: int = 3, budget: int = 1 << 32) -> tuple[int, NDArray[np.uint8]]:
    """Decode as much of a JPEG file as possible: return 0 or a negative error number (a key of ERRORS), and the pixels.

    The pixels [lines, width, channels] are those of all complete rows of MCUs (JPEG's minimum coded units), in `budget` bytes.
    """
    file, pixels = _File(data, budget), np.zeros((0, 0, channels), np.uint8)
    try:
        file.read_head()
        try:
            file.read_picture()
        finally:
            pixels = file.lines(channels)
    except _Refused as refused:
        return refused.args[0], pixels
    return 0, pixels


class _File:
    """The state of decoding a file: bytes are read in the C decoder's order, and its errors raise _Refused."""

    def __init__(self, data: bytes, budget: int):
        self.data, self.budget, self.at = data, budget, 0
        self.quantisers: dict[int, list[int]] = {}
        self.codes: dict[tuple[int, int], dict[tuple[int, int], int]] = {}  # (class, number) -> (length, code) -> symbol
        self.components: list[_Component] = []
        self.height = self.width = self.restart_interval = self.whole_rows = 0
        self.is_jfif, self.adobe = False, -1
        self.bits, self.bit_count, self.marker = 0, 0, 0  # fewer than 8 bits between two calls

    def byte(self) -> int:
        if self.at >= self.budget:
            raise _Refused(BUDGET)
        if self.at >= len(self.data):
            raise _Refused(ENDED)
        self.at += 1
        return self.data[self.at - 1]

    def read_head(self) -> None:
        """Read all segments up to the scan (the compressed picture), and compute the number of MCUs (minimum coded units)."""
        start = b"\xff\xd8"[: self.budget]
        _refuse(self.data[: len(start)] != start, NO_JPEG)
        self.at = len(start)
        marker = 0
        while marker != 0xDA:
            _refuse(self.byte() != 0xFF)
            marker = 0xFF
            while marker == 0xFF:
                marker = self.byte()
            self.read_segment(marker, self.byte() * 256 + self.byte() - 2)
        h, w = (max(getattr(c, side) for c in self.components) for side in "hw")
        _refuse(sum(c.h * c.w for c in self.components) > 10)
        ratios = [whole / part for c in self.components for whole, part in ((h, c.h), (w, c.w))]
        _refuse(not set(ratios) <= {1, 2, 4}, SAMPLING)
        self.mcu = h, w
        self.mcu_rows, self.mcus = -(-self.height // (8 * h)), -(-self.width // (8 * w))

    def read_segment(self, marker: int, left: int) -> None:
        """Read the contents of a segment: `left` bytes that follow its marker and length."""
        _refuse(left < 0)
        _refuse(marker == 0xC2, PROGRESSIVE)
        _refuse(0xC0 < marker <= 0xCF and marker not in (0xC4, 0xC8), NOT_BASELINE)
        readers = {
            0xDB: self.read_quantisers,
            0xC4: self.read_codes,
            0xC0: self.read_frame,
            0xDA: self.read_scan,
            0xDD: self.read_restart_interval,
        }
        if marker in readers:
            readers[marker](left)
        elif 0xE0 <= marker <= 0xEF or marker == 0xFE:
            segment = bytes(self.some(left, left))
            if marker == 0xE0 and segment[:5] == b"JFIF\0":
                self.is_jfif = True
            elif marker == 0xEE and segment[:5] == b"Adobe" and len(segment) >= 12:
                self.adobe = segment[11]
        else:
            raise _Refused(DAMAGED)

    def some(self, count: int, left: int) -> list[int]:
        """Read and return `count` bytes of a segment of which `left` bytes are left; raise _Refused if it has fewer."""
        values = [self.byte() for _ in range(min(count, left))]
        _refuse(count > left)
        return values

    def read_restart_interval(self, left: int) -> None:
        """Read a segment of `left` bytes, which has the number of MCUs (minimum coded units) between restart markers."""
        high, low = self.some(2, left)
        self.restart_interval = high * 256 + low
        _refuse(left != 2)

    def read_quantisers(self, left: int) -> None:
        while left > 0:
            number = self.byte()
            _refuse(number > 3)
            self.quantisers[number] = self.some(64, left - 1)
            left -= 65

    def read_codes(self, left: int) -> None:
        while left > 0:
            number, left = self.byte(), left - 1
            _refuse(number & 0xEE > 0)
            code, places = 0, list[tuple[int, int]]()
            for length in range(1, 17):
                (count,) = self.some(1, left)
                left -= 1
                code *= 2
                places += [(length, code + i) for i in range(count)]
                code += count
                _refuse(code > 1 << length or len(places) > 256)
            symbols = self.some(len(places), left)
            left -= len(places)
            self.codes[number >> 4, number & 1] = dict(zip(places, symbols, strict=True))

    def read_frame(self, left: int) -> None:
        """Read the frame header, a segment of `left` bytes: size of the picture, components and their sampling factors."""
        _refuse(self.components != [])
        bits, *sizes, colours = self.some(6, left)
        self.height, self.width = sizes[0] * 256 + sizes[1], sizes[2] * 256 + sizes[3]
        _refuse(bits != 8 or not self.height, NOT_BASELINE)
        _refuse(colours not in (1, 3), COLOURS)
        _refuse(not self.width or left != 6 + 3 * colours)
        for _ in range(colours):
            name, sampling, quantiser = (self.byte() for _ in range(3))
            component = _Component(name, sampling & 15, sampling >> 4, quantiser)
            _refuse(not (1 <= component.h <= 4 and 1 <= component.w <= 4 and quantiser <= 3))
            self.components.append(component)
        if colours == 1:
            self.components[0].h = self.components[0].w = 1

    def read_scan(self, left: int) -> None:
        """Read the scan header, a segment of `left` bytes: which Huffman tables each component uses."""
        (count,) = self.some(1, left)
        _refuse(not self.components or count < 1 or left != 2 * count + 4)
        _refuse(count != len(self.components), SCANS)
        for component in self.components:
            name, tables = self.byte(), self.byte()
            component.tables = tables >> 4, tables & 15
            known = (0, tables >> 4) in self.codes and (1, tables & 15) in self.codes
            _refuse(name != component.id or not known or component.quantiser not in self.quantisers)
        _refuse([self.byte() for _ in range(3)] != [0, 63, 0])

    def take(self, count: int) -> int:
        """Read the next `count` bits of the compressed picture and return them as a number."""
        while self.bit_count < count:
            if self.marker:
                raise _Refused(DAMAGED)
            byte = self.byte()
            if byte == 0xFF:
                while byte == 0xFF:
                    byte = self.byte()
                if byte:
                    self.marker = byte
                    continue
                byte = 0xFF
            self.bits = (self.bits << 8 | byte) & 0xFFFFFFFF
            self.bit_count += 8
        self.bit_count -= count
        return self.bits >> self.bit_count & ((1 << count) - 1)

    def symbol(self, codes: dict[tuple[int, int], int]) -> int:
        """Read the next Huffman code and return its symbol. `codes`: (length, code) -> symbol."""
        code = 0
        for length in range(1, 17):
            code = code << 1 | self.take(1)
            if (length, code) in codes:
                return codes[length, code]
        raise _Refused(DAMAGED)

    def value(self, size: int) -> int:
        """Read the next signed number of `size` bits, in the encoding of JPEG: a leading 0 bit means negative."""
        number = self.take(size)
        return number - (1 << size) + 1 if size and number < 1 << (size - 1) else number

    def read_block(self, component: _Component, predicted: int) -> list[int]:
        """Return the 64 coefficients of the next block in zigzag order; `predicted` is the DC coefficient before."""
        size = self.symbol(self.codes[0, component.tables[0]])
        if size > 11:
            raise _Refused(DAMAGED)
        predicted += self.value(size)
        if abs(predicted) > MOST_DC:
            raise _Refused(DAMAGED)
        block = [predicted] + [0] * 63
        i = 1
        while i < 64 and (symbol := self.symbol(self.codes[1, component.tables[1]])):
            i, bits = i + (symbol >> 4), symbol & 15
            if i > 63 or bits > 10 or (not bits and symbol != 0xF0):
                raise _Refused(DAMAGED)
            block[i] = self.value(bits)
            i += 1
        return block

    def restart(self, number: int) -> None:
        """Read restart marker `number` and clear the bit buffer."""
        byte = self.byte()
        _refuse(byte != 0xFF)
        while byte == 0xFF:
            byte = self.byte()
        _refuse(byte != 0xD0 + number % 8)
        self.bits = self.bit_count = 0

    def read_picture(self) -> None:
        """Read all blocks; after an error, `whole_rows` is the number of complete rows of MCUs."""
        done = 0
        predicted = [0] * len(self.components)
        for _ in range(self.mcu_rows):
            for _ in range(self.mcus):
                if self.restart_interval and done and done % self.restart_interval == 0:
                    self.restart(done // self.restart_interval - 1)
                    predicted = [0] * len(self.components)
                for i, component in enumerate(self.components):
                    for _ in range(component.h * component.w):
                        component.blocks.append(self.read_block(component, predicted[i]))
                        predicted[i] = component.blocks[-1][0]
                done += 1
            self.whole_rows += 1

    def plane(self, component: _Component) -> NDArray[np.uint8]:
        """Return a component's pixels [lines, columns] of complete rows of MCUs, repeated to the picture's resolution."""
        count = self.whole_rows * self.mcus * component.h * component.w
        quantised = np.array(component.blocks[:count], np.int64).reshape(count, 64)
        coefficients = np.zeros((count, 64), np.int64)
        coefficients[:, ZIGZAG] = np.clip(quantised * np.array(self.quantisers[component.quantiser]), -MOST_DC, MOST_DC)
        blocks = inverse_dct(coefficients.reshape(count, 8, 8))
        blocks = blocks.reshape(self.whole_rows, self.mcus, component.h, component.w, 8, 8).transpose(0, 2, 4, 1, 3, 5)
        plane = blocks.reshape(self.whole_rows * component.h * 8, self.mcus * component.w * 8)
        repeated = plane.repeat(self.mcu[0] // component.h, axis=0).repeat(self.mcu[1] // component.w, axis=1)
        return np.asarray(repeated, np.uint8)

    def lines(self, channels: int) -> NDArray[np.uint8]:
        """Return the picture [lines, width, channels] of all complete rows of MCUs; 1 channel is grey, 3 are RGB."""
        is_rgb = self.adobe == 0 if self.adobe >= 0 else [c.id for c in self.components] == [*b"RGB"]
        is_rgb &= len(self.components) == 3 and not self.is_jfif
        needed = self.components if is_rgb or channels == 3 else self.components[:1]
        planes = [self.plane(component)[: self.height, : self.width] for component in needed]
        if is_rgb:
            rgb = np.stack(planes, axis=-1)
            return rgb if channels == 3 else grey_of_rgb(rgb)
        if len(planes) == 3:
            y, cb, cr = (plane.astype(np.int64) for plane in planes)
            return rgb_of_ycc(y, cb, cr)
        return np.repeat(planes[0][:, :, None], channels, axis=2)


def inverse_dct(coefficients: Ints) -> NDArray[np.uint8]:
    """Return the pixels [n, 8, 8] of coefficients [n, 8, 8], by libjpeg's islow (Loeffler, Ligtenberg and Moschytz 1989)."""
    columns = (_transform(np.moveaxis(coefficients, 1, 0)) + (1 << 10)) >> 11
    columns = np.moveaxis(np.clip(columns, -MOST_SUM - 1, MOST_SUM), 0, 1)
    rows = (_transform(np.moveaxis(columns, 2, 0)) + (1 << 17)) >> 18
    return np.asarray(np.clip(np.moveaxis(rows, 0, 2) + 128, 0, 255), np.uint8)


def _transform(x: Ints) -> Ints:
    """Return the orthonormal inverse DCT along the first axis [8, ...], times sqrt(8) * 2^13."""
    common = (x[2] + x[6]) * 4433
    even_2, even_3 = common - x[6] * 15137, common + x[2] * 6270
    total, difference = (x[0] + x[4]) << 13, (x[0] - x[4]) << 13
    even = np.stack([total + even_3, difference + even_2, difference - even_2, total - even_3])
    last = (x[7] + x[3] + x[5] + x[1]) * 9633
    outer, inner = (x[7] + x[1]) * -7373, (x[5] + x[3]) * -20995
    left, right = (x[7] + x[3]) * -16069 + last, (x[5] + x[1]) * -3196 + last
    odd = np.stack(
        [x[1] * 12299 + outer + right, x[3] * 25172 + inner + left, x[5] * 16819 + inner + right, x[7] * 2446 + outer + left]
    )
    return np.concatenate([even + odd, (even - odd)[::-1]])
