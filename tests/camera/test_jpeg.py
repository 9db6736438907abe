"""The JPEG decoder: C and Python give the same lines and errors, equal libjpeg, and survive any file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from camera.built import program
from camera.jpeg_files import PLAYER, by_libjpeg, decoded_in_c, libjpeg, random_jpeg
from jpeg_decoder import ERRORS, decode, partly_decoded

from tinyweave.ir import CompileError

Image = pytest.importorskip("PIL.Image")
COLOURS = {"4:4:4": [(1, 1)] * 3, "4:2:2": [(1, 2), (1, 1), (1, 1)], "4:2:0": [(2, 2), (1, 1), (1, 1)]}
OTHERS = {"4:4:0": [(2, 1), (1, 1), (1, 1)], "4:1:1": [(1, 4), (1, 1), (1, 1)], "odd": [(1, 1), (2, 1), (1, 2)]}
SAMPLINGS = {**COLOURS, **OTHERS, "4:1:0": [(2, 4), (1, 1), (1, 1)], "tall": [(1, 2)] * 3}
# colours that differ in their sampling, and colours that are finer than Y
SAMPLINGS |= {"unlike": [(2, 2), (1, 1), (1, 2)], "coarse": [(1, 1), (1, 2), (1, 2)]}
ENDED, READ_FAILED, BUDGET, DAMAGED, TOO_LARGE = -10, -11, -12, -14, -20


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("jpeg"), PLAYER)


def as_jpeg(pixels: np.ndarray, **options: Any) -> bytes:
    image = Image.fromarray(pixels)
    image.save(stream := io.BytesIO(), "JPEG", **options)
    return stream.getvalue()


def smooth(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    few = rng.integers(0, 256, (int(rng.integers(1, 6)), int(rng.integers(1, 6)), 3), np.uint8)
    return np.asarray(Image.fromarray(few).resize((width, height), Image.Resampling.BICUBIC))


def pillow_files(rng: np.random.Generator, count: int, most: int) -> list[bytes]:
    """Return small files of Pillow with all samplings and qualities, some grey, some with restart markers."""
    files = []
    for number in range(count):
        pixels = smooth(rng, int(rng.integers(1, most)), int(rng.integers(1, most)))
        pixels = pixels[:, :, 0] if number % 4 == 3 else pixels
        options = {"subsampling": number % 3} if pixels.ndim == 3 else {}
        files.append(
            as_jpeg(
                pixels,
                quality=int(rng.integers(1, 101)),
                restart_marker_blocks=int(rng.integers(0, 4)),
                optimize=bool(rng.integers(2)),
                **options,
            )
        )
    return files


def test_lines_are_the_same_in_c_and_python(player: Path) -> None:
    rng = np.random.default_rng(0)
    files = pillow_files(rng, 60, 50)
    for channels in (1, 3):
        for every in (1, 7):
            for file, (status, lines) in zip(files, decoded_in_c(player, files, channels, chunk=5, every=every), strict=True):
                assert status == 0 and np.array_equal(lines, decode(file, channels)[every - 1 :: every])


def test_grey_and_unsubsampled_colours_equal_libjpeg(player: Path) -> None:
    """Pillow's libjpeg interpolates subsampled colours, so only Y is compared for these."""
    files = pillow_files(np.random.default_rng(1), 60, 50)
    for number, (file, (status, lines)) in enumerate(zip(files, decoded_in_c(player, files), strict=True)):
        assert status == 0
        if number % 3 == 0 or number % 4 == 3:
            assert np.array_equal(lines, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))
    for file, (_, lines) in zip(files, decoded_in_c(player, files, 1), strict=True):
        with Image.open(io.BytesIO(file)) as image:
            image.draft("L", image.size)
            assert image.mode == "L" and np.array_equal(lines[:, :, 0], np.asarray(image))


@pytest.mark.parametrize("name", SAMPLINGS)
def test_all_samplings_with_restart_markers_equal_libjpeg(name: str, player: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(name))
    sizes = [(int(rng.integers(1, 70)), int(rng.integers(1, 70))) for _ in range(6)]
    files = [random_jpeg(size, SAMPLINGS[name], rng, restart=i, loud=10 + 8 * i) for i, size in enumerate(sizes)]
    right = libjpeg(tmp_path)
    for channels in (1, 3):
        for file, (status, lines) in zip(files, decoded_in_c(player, files, channels), strict=True):
            assert status == 0 and np.array_equal(lines, decode(file, channels))
            if right and name not in ("tall", "odd"):  # libjpeg interpolates these in another way
                assert by_libjpeg(right, file, channels) == lines.tobytes()


def test_extreme_coefficients_are_the_same_in_c_and_python(player: Path) -> None:
    """The values do not occur in pictures; they are at the ends of the range of Huffman codes."""
    rng = np.random.default_rng(5)
    files = [random_jpeg((16, 16), COLOURS["4:2:0"], rng, loud=10 ** rng.uniform(1, 6), quantiser=128) for _ in range(40)]
    for file, (status, lines) in zip(files, decoded_in_c(player, files), strict=True):
        assert status == 0 and np.array_equal(lines, decode(file))


def test_rgb_files_are_not_converted_from_ycbcr(player: Path) -> None:
    rng = np.random.default_rng(6)
    said, named = (
        random_jpeg((20, 20), COLOURS["4:4:4"], rng, adobe=0),
        random_jpeg((20, 20), COLOURS["4:4:4"], rng, ids=b"RGB"),
    )
    other = random_jpeg((20, 20), COLOURS["4:4:4"], rng, adobe=1, ids=b"RGB")
    for file in (said, named, other):
        want = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
        (status, lines), (_, grey) = decoded_in_c(player, [file])[0], decoded_in_c(player, [file], 1)[0]
        assert status == 0 and np.array_equal(lines, want) and np.array_equal(decode(file), want)
        assert np.array_equal(grey, decode(file, 1))
        if file is not other:
            assert np.array_equal(grey[:, :, 0], np.asarray(Image.fromarray(want).convert("L")))


def refused(file: bytes) -> str:
    with pytest.raises(CompileError) as error:
        decode(file)
    return str(error.value)


def test_files_that_are_not_baseline_are_refused(player: Path) -> None:
    pixels = smooth(np.random.default_rng(7), 24, 24)
    good = as_jpeg(pixels, subsampling=0)
    frame = good.index(b"\xff\xc0")
    rng = np.random.default_rng(8)
    scans = random_jpeg((8, 8), COLOURS["4:4:4"], rng)
    at = scans.index(b"\xff\xda")
    files = {
        "progressive": as_jpeg(pixels, progressive=True),
        "arithmetic": good.replace(b"\xff\xc0", b"\xff\xc9"),
        "12 bits": good[: frame + 4] + b"\x0c" + good[frame + 5 :],
        "no height": good[: frame + 5] + b"\0\0" + good[frame + 7 :],
        "CMYK": cmyk(),
        "three times": random_jpeg((8, 8), [(3, 1), (1, 1), (1, 1)], rng),
        "scans": scans[:at] + b"\xff\xda\0\x08\1\1\0\0\x3f\0" + scans[at + 14 :],
        "nothing": b"",
        "text": b"P6 8 8 255\n",
        "large": random_jpeg((8, 8), [(2, 4), (1, 2), (1, 2)], rng),
    }
    words = (
        "progressive",
        "not a baseline",
        "not a baseline",
        "not a baseline",
        "neither 1 nor 3",
        "is not 1, 2 or 4",
        "scan of its own",
    )
    words += ("not a JPEG file", "not a JPEG file", "damaged")
    for (status, lines), file, word in zip(decoded_in_c(player, list(files.values())), files.values(), words, strict=True):
        assert status < 0 and not lines.size and word in refused(file) and ERRORS[status][0] in refused(file)


def cmyk() -> bytes:
    Image.new("CMYK", (8, 8)).save(stream := io.BytesIO(), "JPEG")
    return stream.getvalue()


def errors_in_c_and_python(player: Path, files: list[bytes], channels: int = 3) -> set[int]:
    """Compare errors and decoded lines of C and Python; return the set of errors."""
    statuses = set()
    for number, (file, answer) in enumerate(zip(files, decoded_in_c(player, files, channels, chunk=37), strict=True)):
        status, lines = partly_decoded(file, channels)
        assert (answer[0], answer[1].tobytes()) == (status, lines.tobytes()), number
        statuses.add(status)
    return statuses


def damaged_files(rng: np.random.Generator, files: list[bytes], count: int) -> list[bytes]:
    """Return files with some bytes changed, removed, doubled, or replaced by markers; sizes stay small."""
    found = []
    for _ in range(count):
        data = bytearray(files[rng.integers(len(files))])
        frame = bytes(data).index(b"\xff\xc0")
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(2, len(data) - 2))
            kind = rng.integers(5)
            if kind == 0 and not frame + 5 <= at < frame + 9:
                data[at] = int(rng.integers(256))
            elif kind == 1 and not frame + 5 <= at < frame + 9:
                data[at] ^= 1 << int(rng.integers(8))
            elif kind == 2:
                data[at:at] = bytes([0xFF, int(rng.integers(256))])
            elif kind == 3 and at > frame + 20:
                del data[at : at + int(rng.integers(1, 9))]
            elif kind == 4:
                data[at:at] = data[at : at + int(rng.integers(1, 40))]
        found.append(bytes(data))
    return found


def test_truncated_files_give_the_same_errors_in_c_and_python(player: Path) -> None:
    rng = np.random.default_rng(9)
    files = [
        as_jpeg(smooth(rng, 17, 19), subsampling=2, restart_marker_blocks=1),
        random_jpeg((12, 9), OTHERS["4:4:0"], rng, adobe=1),
    ]
    for file in files:
        assert errors_in_c_and_python(player, [file[:at] for at in range(len(file))]) == {0, ENDED, -13}


def test_damaged_files_give_the_same_errors_in_c_and_python(player: Path) -> None:
    rng = np.random.default_rng(10)
    files = pillow_files(rng, 12, 30) + [random_jpeg((20, 20), sampling, rng, restart=2) for sampling in SAMPLINGS.values()]
    assert errors_in_c_and_python(player, damaged_files(rng, files, 1000)) >= {0, ENDED, DAMAGED, -16}
    assert errors_in_c_and_python(player, [bytes(rng.integers(0, 256, 300, np.uint8)) for _ in range(50)]) == {-13}
    assert errors_in_c_and_python(player, [b"\xff\xd8" + bytes(rng.integers(0, 256, 300, np.uint8)) for _ in range(50)]) == {
        DAMAGED
    }


def test_damaged_headers_give_the_same_errors_in_c_and_python(player: Path) -> None:
    """Each byte outside of tables is replaced by values at the ends of its range; sizes are kept."""
    file = random_jpeg((8, 8), COLOURS["4:2:2"], np.random.default_rng(16), restart=1, adobe=1)
    files, at = [], 2
    while file[at - 2 : at] != b"\xff\xda":
        marker, length = file[at + 1], file[at + 2] * 256 + file[at + 3]
        sizes = range(at + 5, at + 9) if marker == 0xC0 else ()
        places = [place for place in range(at, min(at + 2 + length, at + 22)) if place not in sizes]
        for place in places:
            for value in {0, 1, 2, 3, 4, 5, 0x10, 0x11, 0x12, 0x20, 0x22, 0x31, 0x51, 0xFF, file[place] + 1 & 255}:
                files.append(file[:place] + bytes([value]) + file[place + 1 :])
        at += 2 + length
        if marker == 0xDA:
            break
    assert len(files) > 1000
    assert errors_in_c_and_python(player, files) >= {0, ENDED, DAMAGED, -16, -17, -18}


def test_a_dc_coefficient_out_of_range_is_an_error(player: Path) -> None:
    """Sums of DC differences must not overflow."""
    files = [
        random_jpeg((8, 32), [(1, 1)], np.random.default_rng(15), drift=drift) for drift in (500, 511, 512, -500, -512, 2047)
    ]
    assert [decoded_in_c(player, [file])[0][0] for file in files] == [0, 0, DAMAGED, 0, DAMAGED, DAMAGED]
    assert errors_in_c_and_python(player, files) == {0, DAMAGED}


def test_extra_bytes_before_a_restart_marker_are_an_error(player: Path) -> None:
    """One extra byte is detected, whether or not the preceding byte has unread bits."""
    file = random_jpeg((64, 64), COLOURS["4:4:4"], np.random.default_rng(14), restart=1)
    begin = file.index(b"\xff\xda")
    markers = [at for at in range(begin, len(file)) if file[at] == 0xFF and 0xD0 <= file[at + 1] <= 0xD7]
    assert len(markers) == 63
    files = [file[:at] + extra + file[at:] for at in markers for extra in (b"\0", b"\x55")]
    assert errors_in_c_and_python(player, files) == {DAMAGED}
    assert errors_in_c_and_python(player, [file[:at] + b"\xff" + file[at:] for at in markers[:5]]) == {0}


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(8))
def test_many_damaged_files_give_the_same_errors_in_c_and_python(seed: int, player: Path) -> None:
    rng = np.random.default_rng([11, seed])
    files = pillow_files(rng, 40, 40) + [random_jpeg((30, 30), sampling, rng, restart=3) for sampling in SAMPLINGS.values()]
    errors_in_c_and_python(player, damaged_files(rng, files, 1250), 1 if seed % 2 else 3)


def test_limits_of_bytes_memory_and_reads_are_kept(player: Path) -> None:
    rng = np.random.default_rng(12)
    file = as_jpeg(smooth(rng, 40, 50), subsampling=2, quality=90)
    whole = decode(file)
    for budget in range(0, len(file) + 3, 7):
        (status, lines) = decoded_in_c(player, [file], budget=budget)[0]
        assert (status, lines.tobytes()) == (partly_decoded(file, 3, budget)[0], whole[: len(lines)].tobytes())
        assert status == (BUDGET if status else 0)
    assert decoded_in_c(player, [file], budget=len(file))[0][0] == 0
    needed = 64 * 16 + 2 * 32 * 8
    assert (
        decoded_in_c(player, [file], band=needed)[0][0] == 0
        and decoded_in_c(player, [file], band=needed - 1)[0][0] == TOO_LARGE
    )
    assert (
        decoded_in_c(player, [file], 1, band=64 * 16)[0][0] == 0
        and decoded_in_c(player, [file], 1, band=64 * 16 - 1)[0][0] == TOO_LARGE
    )
    assert [decoded_in_c(player, [file], chunk=chunk)[0][0] for chunk in (-1, -2)] == [READ_FAILED] * 2


@pytest.mark.shared
@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
def test_photographs_equal_libjpeg(part: int, shared: Path, tmp_path: Path) -> None:
    """Hundreds of photographs are decoded in colour and grey, and encoded again at many qualities and samplings."""
    player, right, rng = program(tmp_path, PLAYER, sanitizers=False), libjpeg(tmp_path), np.random.default_rng([13, part])
    folders = [(shared / "data" / name / "images", step) for name, step in (("person_voc", 1), ("face_mask_voc", 2))]
    paths = [path for folder, step in folders for path in sorted(folder.glob("*.jpg"))[::step]]
    paths = paths[part::8]
    photographs = [path.read_bytes() for path in paths]
    heads = decoded_in_c(player, photographs, 1, every=10_000)
    baseline = [file for file, (status, _) in zip(photographs, heads, strict=True) if status == 0]
    assert len(baseline) >= 300 // 8
    for number, file in enumerate(photographs):
        with Image.open(io.BytesIO(file)) as image:
            pixels, sampling = np.asarray(image.convert("RGB")), number % 3
        again = as_jpeg(pixels, quality=int(rng.integers(1, 101)), subsampling=sampling)
        ((status, lines),) = decoded_in_c(player, [again])
        assert status == 0
        if sampling == 0:
            assert np.array_equal(lines, np.asarray(Image.open(io.BytesIO(again)))), paths[number].name
        assert right is None or lines.tobytes() == by_libjpeg(right, again), paths[number].name
    for number, file in enumerate(baseline):
        ((status, y),) = decoded_in_c(player, [file], 1)
        with Image.open(io.BytesIO(file)) as image:
            image.draft("L", image.size)
            assert status == 0 and np.array_equal(y[:, :, 0], np.asarray(image)), number
        assert right is None or decoded_in_c(player, [file])[0][1].tobytes() == by_libjpeg(right, file), number
