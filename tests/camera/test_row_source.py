"""Row sources: C and Python give the same bytes for random sizes, crops and formats, and follow the definition."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from camera.built import BEGINS, PROGRAM, SOURCES, outputs_of, program, request
from cases.strict import c99
from numpy.typing import NDArray

from tinyweave.camera.pixels import FORMATS, PIXEL_BYTES, converted
from tinyweave.camera.resizer import axis_weights, resized
from tinyweave.camera.row_source import RowSource, input_of, memory_bytes, pixel_values, row_source
from tinyweave.ir import CompileError
from tinyweave.support import toolchain

Trial = tuple[RowSource, tuple[int, int, int], NDArray[np.int8], bytes]


def random_trial(rng: np.random.Generator, most: int) -> Trial:
    """Return a random picture, crop and input, with sides up to `most`."""
    form = FORMATS[rng.integers(len(FORMATS))]
    width, height = (int(side) for side in rng.integers(1, most + 1, 2))
    width += width % 2 if form in ("yuyv", "uyvy") else 0
    columns, rows = int(rng.integers(1, width + 1)), int(rng.integers(1, height + 1))
    if rng.integers(2):
        columns, rows = width, height
    left, top = int(rng.integers(width - columns + 1)), int(rng.integers(height - rows + 1))
    source = RowSource(form, width, height, left, top, columns, rows)
    out = [int(side) for side in rng.integers(1, most + 1, 2)]
    if rng.integers(3) == 0:
        out = [max(1, rows // int(rng.integers(1, 5))), columns * int(rng.integers(1, 4))]
    shape = (out[0], out[1], int(rng.choice([1, 3])))
    picture = rng.integers(0, 256, height * width * PIXEL_BYTES[form], np.uint8)
    if rng.integers(4) == 0:
        picture[:] = rng.choice([0, 255])
    values = rng.permutation(np.arange(-128, 128)).astype(np.int8)
    return source, shape, values, picture.tobytes()


def assert_c_equals_python(folder: Path, trials: list[Trial], rng: np.random.Generator) -> None:
    built = program(folder, PROGRAM)
    requests = [request(*t, at_once=int(rng.integers(1, t[1][0] + 1))) for t in trials]
    have = np.frombuffer(outputs_of(built, requests), np.int8)
    for source, shape, values, picture in trials:
        want = input_of(source, picture, shape, values)
        assert np.array_equal(have[: want.size], want.ravel()), (source.text(), shape)
        have = have[want.size :]
    assert not have.size


def test_c_gives_the_bytes_of_python(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    assert_c_equals_python(
        tmp_path, [*(random_trial(rng, 24) for _ in range(1200)), *(random_trial(rng, 300) for _ in range(20))], rng
    )


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(8))
def test_c_gives_the_bytes_of_python_for_many_sizes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng([1, seed])
    assert_c_equals_python(
        tmp_path, [*(random_trial(rng, 40) for _ in range(2500)), *(random_trial(rng, 700) for _ in range(8))], rng
    )


def test_the_c_has_no_warnings(tmp_path: Path) -> None:
    compiler = toolchain.host()
    for path in SOURCES:
        toolchain.compile_c(compiler, [*c99(compiler.name), "-O1", "-c", path, "-o", tmp_path / "strict.o"])


def test_the_largest_sums_fit_32_bits(tmp_path: Path) -> None:
    """Sums are closest to 2^32 with the most weights and all pixels 255."""
    values, rng = np.arange(-128, 128).astype(np.int8), np.random.default_rng(0)
    trials: list[Trial] = [
        (row_source("grey:4093x4096"), (1, 1, 1), values, b"\xff" * (4093 * 4096)),
        (row_source("grey:3x4096"), (1, 2047, 1), values, b"\xff" * (3 * 4096)),
    ]
    assert_c_equals_python(tmp_path, trials, rng)


def test_numbers_of_a_picture_out_of_range_are_refused_in_c(tmp_path: Path) -> None:
    """Each number of a valid crop of a YUYV picture is set to its last valid and first invalid values."""
    good = [5, 20, 30, 3, 4, 15, 25, 6, 7, 3, 1 << 17, 0]
    needed = 4 * 7 * 3 + 25 * 3 + 60
    trials: list[tuple[int, int, int]] = [
        (0, -1, -1),
        (0, 6, 0),
        (0, 7, -1),
        (1, 18, 0),
        (1, 17, -1),
        (1, 65536, -1),
        (2, 29, -1),
    ]
    trials += [(2, 28, -1), (2, 65536, -1), (3, 5, 0), (3, 6, -1), (3, -1, -1), (4, 5, 0), (4, 6, -1), (4, -1, -1), (5, 17, 0)]
    trials += [
        (5, 18, -1),
        (5, 0, -1),
        (6, 26, 0),
        (6, 27, -1),
        (6, 0, -1),
        (7, 0, -1),
        (7, 4096, 0),
        (7, 4097, -1),
        (8, 0, -1),
    ]
    trials += [
        (8, 4096, 0),
        (8, 4097, -1),
        (9, 1, 0),
        (9, 2, -1),
        (9, 4, -1),
        (10, needed, 0),
        (10, needed - 1, -1),
        (11, 4, 0),
    ]
    trials += [(11, 2, -1), (11, -1, -1)]
    heads = [[value if i == at else number for i, number in enumerate(good)] for at, value, _ in trials]
    said = outputs_of(program(tmp_path, BEGINS), [struct.pack("<12i", *head) for head in (good, *heads)]).split()
    assert [int(word) for word in said] == [0, *(status for _, _, status in trials)]


def resized_exactly(pixels: NDArray[np.uint8], out: int) -> list[Fraction]:
    """Return a line resized by the definition in exact fractions."""
    size = len(pixels)
    found = []
    for i in range(out):
        if out <= size:
            begin, end, total = Fraction(i * size, out), Fraction((i + 1) * size, out), Fraction(0)
            for x in range(size):
                total += max(Fraction(0), min(end, Fraction(x + 1)) - max(begin, Fraction(x))) * int(pixels[x])
            found.append(total * out / size)
        else:
            at = min(max(Fraction((2 * i + 1) * size, 2 * out) - Fraction(1, 2), Fraction(0)), Fraction(size - 1))
            low = at.__floor__()
            part = at - low
            found.append(int(pixels[low]) * (1 - part) + (part and int(pixels[low + 1]) * part))
    return found


@pytest.mark.parametrize("sizes", [(7, 3), (3, 7), (8, 8), (12, 4), (5, 15), (1, 9), (9, 1), (64, 63), (63, 64)])
def test_a_line_is_resized_by_the_definition(sizes: tuple[int, int]) -> None:
    size, out = sizes
    pixels = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    want = [(value + Fraction(1, 2)).__floor__() for value in resized_exactly(pixels, out)]
    np.testing.assert_array_equal(resized(pixels[None, :, None], 1, out)[0, :, 0], want)
    np.testing.assert_array_equal(resized(pixels[:, None, None], out, 1)[:, 0, 0], want)
    assert len(set(axis_weights(size, out).sum(axis=1))) == 1


def test_converted_colours_equal_pillow() -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (64, 64, 3), np.uint8)
    grey = converted(rgb.reshape(64, -1), "rgb", 1)[:, :, 0]
    np.testing.assert_array_equal(grey, np.asarray(image.fromarray(rgb).convert("L")))
    np.testing.assert_array_equal(converted(rgb[:, :, ::-1].reshape(64, -1), "bgr", 3), rgb)
    y, cb, cr = (rng.integers(0, 256, (64, 32), np.uint8) for _ in range(3))
    want = np.asarray(image.fromarray(np.stack([y, cb, cr], axis=-1), "YCbCr").convert("RGB")).astype(np.int64)
    yuyv = np.stack([y, cb, y, cr], axis=-1).reshape(64, -1)
    uyvy = yuyv.reshape(64, -1, 2)[:, :, ::-1].reshape(64, -1)
    for lines, form in ((yuyv, "yuyv"), (uyvy, "uyvy")):
        have = converted(lines, form, 3).astype(np.int64)
        assert np.abs(have[:, ::2] - want).max() <= 1 and np.array_equal(have[:, ::2], have[:, 1::2])


def test_rgb565_pixels_are_converted() -> None:
    red, green, blue, grey = (np.array([[low, high]], np.uint8) for low, high in ((0, 0xF8), (0xE0, 7), (31, 0), (0x10, 0x84)))
    colours = [converted(lines, "rgb565", 3).tolist() for lines in (red, green, blue, grey)]
    assert colours == [[[[255, 0, 0]]], [[[0, 255, 0]]], [[[0, 0, 255]]], [[[132, 130, 132]]]]
    assert converted(red[:, ::-1], "rgb565be", 3).tolist() == [[[255, 0, 0]]]


def test_pixel_values_equal_the_quantised_input() -> None:
    np.testing.assert_array_equal(pixel_values(), np.arange(-128, 128))
    np.testing.assert_array_equal(pixel_values(1 / 255, -128, 0, 1), np.arange(-128, 128))
    np.testing.assert_array_equal(pixel_values(1 / 255, 0, 0, 1, lowest=0).view(np.uint8), np.arange(256))
    np.testing.assert_array_equal(
        pixel_values(1 / 255, 128, -1, 1, lowest=0).view(np.uint8)[[0, 64, 127, 255]], [0, 1, 127, 255]
    )
    assert pixel_values(2 / 255, 0, -1, 1)[[0, 127, 128, 255]].tolist() == [-128, 0, 0, 127]


def test_source_specifications_are_parsed() -> None:
    for text in ("jpeg:640x480", "rgb565:320x240", "yuyv:320x240:240x240+40+0", "grey:1x1"):
        assert row_source(text).text() == text
    source = row_source("yuyv:320x240:200x100+40+20")
    assert (source.columns, source.rows, source.left, source.top) == (200, 100, 40, 20)
    assert memory_bytes(source, (96, 96, 3)) == 4 * 96 * 3 + 200 * 3 + 640
    assert memory_bytes(row_source("jpeg:640x480"), (120, 160, 3)) == 4 * 160 * 3 + 640 * 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("png:3x3", "is not a row source"),
        ("jpeg", "is not a row source"),
        ("jpeg:0x3", "must be 1 to 65535"),
        ("jpeg:99999x3", "must be 1 to 65535"),
        ("rgb:8x8:4x4+5+0", "outside the picture"),
        ("rgb:8x8:0x4+0+0", "outside the picture"),
        ("yuyv:7x8", "must be even"),
        ("rgb:8x8\n", "is not a row source"),
    ],
)
def test_faulty_source_specifications_are_refused(text: str, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        row_source(text)


def test_pictures_of_other_sizes_are_refused() -> None:
    with pytest.raises(CompileError, match="the picture has 11 bytes, grey:3x4 has 12"):
        input_of(row_source("grey:3x4"), bytes(11), (2, 2, 1), pixel_values())
    with pytest.raises(CompileError, match="the picture has 12 bytes, jpeg:3x4 has 36"):
        input_of(row_source("jpeg:3x4"), bytes(12), (2, 2, 3), pixel_values())
    with pytest.raises(CompileError, match="integers of 32 bits"):
        resized(np.zeros((4093, 4095, 1), np.uint8), 4096, 4096)
