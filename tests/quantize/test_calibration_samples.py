"""Calibration samples from arrays and files, and a one-line error for each fault."""

from __future__ import annotations

import io
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.floats import float_graph

from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor
from tinyweave.quantize.calibration_samples import FOLDERS, open_samples
from tinyweave.quantize.fidelity import as_int8
from tinyweave.quantize.ptq import QuantiseOptions, quantise

RNG = np.random.default_rng(5)


def network(shape: tuple[int, ...]) -> Graph:
    return float_graph([], [("relu", ("x",), {})], x=shape)


IMAGE, WAVE, ROW = network((1, 4, 6, 3)), network((1, 100)), network((1, 5))


def write_wav(path: Path, values: np.ndarray, width: int = 2, channels: int = 1) -> None:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(8000)
        out.writeframes(values.tobytes())


def test_arrays_lists_and_files_give_the_same(tmp_path: Path) -> None:
    values = RNG.normal(size=(7, 1, 5))
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", values=values, y=np.arange(7))
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, sample in enumerate(values):
        np.save(folder / f"{number}.npy", sample)
    for given in (
        values,
        list(values),
        (x for x in values),
        {"x": values},
        tmp_path / "a.npy",
        str(tmp_path / "a.npz"),
        folder,
    ):
        samples = open_samples(given, ROW)
        assert len(samples) == 7
        batch = samples.batch([2, 6])["x"]
        assert batch.dtype == np.float32 and np.array_equal(batch, values[[2, 6]].astype(np.float32))
    assert np.array_equal(open_samples(tmp_path / "a.npz", ROW).labels, np.arange(7))
    assert open_samples(values[:, 0], ROW).batch([0])["x"].shape == (1, 1, 5)


@pytest.mark.parametrize("shape", [(3, 4, 6), (1, 3, 4, 6)])
def test_samples_with_channels_first_are_transposed(shape: tuple[int, ...]) -> None:
    values = np.arange(2 * 72, dtype=np.float32).reshape(2, *shape)
    wanted = np.moveaxis(values.reshape(2, 3, 4, 6), 1, -1)
    assert np.array_equal(open_samples(values, IMAGE).batch([0, 1])["x"], wanted[:, None])
    assert np.array_equal(open_samples(wanted, IMAGE).batch([0, 1])["x"], wanted[:, None])
    with pytest.raises(CompileError, match=r"sample 0 has the shape \[6, 4, 3\], the input is \[1, 4, 6, 3\]"):
        open_samples(np.zeros((1, 6, 4, 3)), IMAGE).batch([0])


def test_signals_with_channels_first_are_transposed() -> None:
    values = np.arange(2 * 15, dtype=np.float32).reshape(2, 1, 3, 5)
    samples = open_samples(values, network((1, 1, 5, 3)))
    assert np.array_equal(samples.batch([0, 1])["x"], values.transpose(0, 1, 3, 2)[:, None])
    with pytest.raises(CompileError, match=r"sample 0 has the shape \[1, 3, 5\], the input is \[2, 1, 5, 3\]"):
        open_samples([values[0]], network((2, 1, 5, 3))).batch([0])


def test_scale_and_offset_are_applied_once_and_kept() -> None:
    samples = open_samples(np.full((1, 1, 4, 6, 3), 255, np.uint8), IMAGE, (1 / 255,), (-0.5, 0.0, 0.5))
    assert np.allclose(samples.read(0)[0][0, 0, 0], [0.5, 1, 1.5])
    record = samples.preprocessing.record(IMAGE.tensors["x"])
    assert (record["input"], record["shape"], record["source"]) == ("x", [1, 4, 6, 3], "arrays")
    assert (record["scale"], record["offset"]) == ((1 / 255,), (-0.5, 0.0, 0.5))


def test_images_are_resized_and_labelled_by_their_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow (pip install '.[images]')")
    for number, (name, colour) in enumerate((("b", (255, 0, 51)), ("a", (0, 102, 0)), ("b", (0, 0, 0)))):
        (tmp_path / name).mkdir(exist_ok=True)
        image.new("RGB", (17, 9), colour).save(tmp_path / name / f"{number}.{('png', 'jpg', 'bmp')[number]}")
    samples = open_samples(tmp_path, IMAGE, (1 / 255,), labels="folders")
    assert samples.labels.tolist() == [0, 1, 1]
    assert np.allclose(samples.read(1)[0], [1, 0, 0.2], atol=1e-6) and samples.read(1)[0].shape == (1, 4, 6, 3)
    grey = open_samples(tmp_path, network((1, 2, 2, 1)), (1.0,))
    assert grey.read(2)[0].shape == (1, 2, 2, 1)
    (tmp_path / "a" / "1.jpg").write_bytes(b"no image")
    with pytest.raises(CompileError, match=r"1.jpg' cannot be read as an image"):
        samples.read(0)


def test_16_bit_images_are_reduced_to_their_high_bytes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow (pip install '.[images]')")
    image.fromarray(np.full((4, 6), 0x5A17, np.uint16)).save(tmp_path / "a.png")
    assert (open_samples(tmp_path, IMAGE, (1.0,)).read(0)[0] == 0x5A).all()


def test_a_damaged_recording_gives_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, np.arange(100, dtype=np.int16))
    whole, refused = path.read_bytes(), 0
    for place in range(44):
        for value in (0, 1, 0x7F, 0xFF):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                open_samples(tmp_path, WAVE).read(0)
            except CompileError as error:
                assert "cannot be read as a wav file: " in str(error) and "file: ;" not in str(error)
                refused += 1
    assert refused > 40


@pytest.mark.parametrize("width, kind, zero", [(1, np.uint8, 128), (2, np.int16, 0), (4, np.int32, 0)])
def test_recordings_are_scaled_to_minus_one_to_one(tmp_path: Path, width: int, kind: Any, zero: int) -> None:
    half = 1 << (8 * width - 2)
    write_wav(tmp_path / "a.wav", np.full(40, half + zero, kind), width)
    write_wav(tmp_path / "b.wav", np.tile(np.array([half + zero, zero - half], kind), 200), width, channels=2)
    samples = open_samples(tmp_path, WAVE)
    assert samples.preprocessing.source == "waveforms"
    assert np.allclose(samples.read(0)[0][0, :40], 0.5) and not samples.read(0)[0][0, 40:].any()
    assert samples.read(1)[0].shape == (1, 100) and not samples.read(1)[0].any()


def test_labels_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text("3\n1\n")
    np.save(tmp_path / "y.npy", np.array([3, 1]))
    for labels in (tmp_path / "y.txt", str(tmp_path / "y.npy"), [3, 1], np.array([3, 1])):
        assert open_samples(np.zeros((2, 5)), ROW, labels=labels).labels.tolist() == [3, 1]


def test_an_input_may_have_the_name_of_the_labels(tmp_path: Path) -> None:
    tensors = {name: Tensor(name, (1, 5), "float32") for name in "xyz"}
    graph = Graph("g", tensors, (Op("add_0", "add", ("x", "y"), ("z",), {"activation": "none"}),), ("x", "y"), ("z",))
    values = RNG.normal(size=(2, 3, 1, 5)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=values[0], y=values[1])
    samples = open_samples(tmp_path / "a.npz", graph)
    assert samples.labels is None
    assert all(np.array_equal(samples.batch(range(3))[name], array) for name, array in zip("xy", values, strict=True))


@pytest.mark.parametrize(
    "given, options, message",
    [
        ("empty", {}, "empty' holds no samples; put files of one kind there"),
        ("missing", {}, "there is no '.*missing'; give a folder, or a "),
        ("mixed", {}, "holds several kinds of samples: arrays, waveforms; give one kind"),
        ("text.txt", {}, "text.txt' holds no samples; give a folder"),
        ("noise.npy", {}, "noise.npy' is not a NumPy file"),
        ("objects.npy", {}, "objects.npy' holds Python objects, which may run code"),
        ("two.npz", {}, "two.npz' holds 2 arrays, the model has 1 inputs"),
        (np.zeros((0, 5)), {}, "there are no calibration samples"),
        ([], {}, "there are no calibration samples"),
        ({"y": RNG.normal(size=(3, 4))}, {}, r"the mapping holds float64\[3, 4\], the input is \[1, 5\]"),
        ({"a": np.zeros((3, 5)), "b": np.zeros((3, 5))}, {}, "the mapping holds 2 arrays, the model has 1 inputs"),
        ([[[1.0, 2.0], [3.0]]], {}, "sample 0 has 2 arrays"),
        ({"x": [[1.0, 2.0], [3.0]]}, {}, "a list is not an array: "),
        (np.zeros((3, 4)), {}, r"the array holds float64\[3, 4\], the input is \[1, 5\]"),
        ([np.zeros(4)], {}, r"sample 0 has the shape \[4\], the input is \[1, 5\]"),
        ([np.array([0, np.nan, 0, 0, 0])], {}, r"sample 0 holds nan at \[\d+(, \d+)*\]"),
        ([np.array(["a"] * 5)], {}, "sample 0 holds <U1, which is not a type of number"),
        ([(np.zeros(5), np.zeros(5))], {}, "sample 0 has 2 arrays, the model has 1 inputs"),
        (7, {}, "int holds no samples"),
        (np.zeros((2, 5)), {"labels": [1]}, "there are 2 samples and 1 labels"),
        (np.zeros((2, 5)), {"labels": [0.5, 1.0]}, "labels are float64"),
        (np.zeros((2, 5)), {"labels": "text.txt"}, "text.txt' holds no labels"),
        (np.zeros((2, 5)), {"scale": (0.0,)}, "a factor of the samples is 0"),
        (np.zeros((2, 5)), {"scale": (float("nan"),)}, "a factor or an offset of the samples is nan"),
        (np.zeros((2, 5)), {"offset": (float("inf"),)}, "a factor or an offset of the samples is inf"),
        (np.zeros((2, 5)), {"labels": FOLDERS}, "the samples are not in folders"),
        ("row.npy", {"labels": FOLDERS}, "the samples are not in folders"),
        ("one", {"labels": FOLDERS}, "all samples of '.*one' lie in one folder"),
        (np.zeros((2, 5)), {"scale": (1.0, 2.0)}, "2 factors and 1 offsets do not fit 5 channels"),
    ],
)
def test_bad_samples_give_a_one_line_error(tmp_path: Path, given: Any, options: dict[str, Any], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    np.save(tmp_path / "mixed" / "a.npy", np.zeros(5))
    write_wav(tmp_path / "mixed" / "b.wav", np.zeros(5, np.int16))
    (tmp_path / "text.txt").write_text("no numbers")
    (tmp_path / "noise.npy").write_bytes(b"\x93NUMPY" + RNG.bytes(50))
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.zeros((1, 5)), b=np.zeros((1, 5)))
    given = tmp_path / given if isinstance(given, str) else given
    (tmp_path / "one").mkdir()
    for path in ("one/a.npy", "one/b.npy", "row.npy"):
        np.save(tmp_path / path, np.zeros(5))
    if isinstance(options.get("labels"), str) and options["labels"] != FOLDERS:
        options = {"labels": tmp_path / options["labels"]}
    with pytest.raises(CompileError, match=message) as error:
        open_samples(given, ROW, **options).read(0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_gives_a_one_line_error(tmp_path: Path, packing: int) -> None:
    values, path = io.BytesIO(), tmp_path / "a.npz"
    np.save(values, RNG.normal(size=(20, 1, 5)))
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("x.npy", values.getvalue())
    whole = path.read_bytes()
    for place in range(40, len(whole) - 100, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        with pytest.raises(CompileError, match=r"a.npz' is not a NumPy file") as error:
            open_samples(path, ROW)
        assert "\n" not in str(error.value)


def test_a_damaged_header_gives_a_one_line_error(tmp_path: Path) -> None:
    """Python raises other errors for an encrypted or patched member, a later zip version, and a header that is not Python."""
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 5)))
    np.save(tmp_path / "a.npy", np.zeros((1, 5)))
    packed, plain = ((tmp_path / name).read_bytes() for name in ("a.npz", "a.npy"))
    place = packed.index(b"PK\1\2")
    for name, whole, at, value in (
        ("a.npz", packed, place + 8, 0x01),
        ("a.npz", packed, place + 8, 0x20),
        ("a.npz", packed, place + 6, 200),
        ("a.npy", plain, plain.index(b"}"), ord("(")),
    ):
        (tmp_path / name).write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        with pytest.raises(CompileError, match=rf"{name}' is not a NumPy file") as error:
            open_samples(tmp_path / name, ROW)
        assert "\n" not in str(error.value)


def test_images_and_recordings_for_other_inputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(CompileError, match=r"images hold 0 .. 255; say what the network was trained on: --scale 1/255"):
        open_samples(tmp_path, IMAGE)
    with pytest.raises(CompileError, match=r"is \[1, 5\], which is not an image"):
        open_samples(tmp_path, ROW, (1.0,))
    (tmp_path / "a.png").rename(tmp_path / "a.wav")
    with pytest.raises(CompileError, match=r"is \[1, 4, 6, 3\], which is not a waveform"):
        open_samples(tmp_path, IMAGE)
    with pytest.raises(CompileError, match=r"a.wav' cannot be read as a wav file"):
        open_samples(tmp_path, WAVE).read(0)


@pytest.mark.parametrize(
    ("dtype", "scale", "offset", "zero_point"),
    [
        (np.uint8, 1 / 255, 0.0, -128),
        (np.uint8, 1 / 128, -1.0, 0),
        (np.uint8, 1 / 127.5, -1.0, None),  # between two integers
        (np.int8, 1 / 128, 0.0, 0),
        (np.int8, 0.5, 3.0, -6),
        (np.uint8, 1 / 255, 1.0, None),  # below -128
        (np.int16, 1 / 255, 0.0, None),
        (np.float32, 1 / 255, 0.0, None),
    ],
)
def test_8_bit_samples_give_the_scale_of_the_input(dtype: type, scale: float, offset: float, zero_point: int | None) -> None:
    values = np.arange(200).reshape(10, 4, 5, 1).astype(dtype)
    graph = network((1, 4, 5, 1))
    samples = open_samples(values, graph, [scale], [offset])
    expected = {} if zero_point is None else {graph.inputs[0]: Quant((float(np.float32(scale)),), (zero_point,))}
    assert samples.integer_scales() == expected == open_samples(values[:1], graph, [scale], [offset]).integer_scales()
    if zero_point is not None:
        small = quantise(graph, samples, QuantiseOptions(method="percentile")).graph
        fed = as_int8(small, samples.batch(range(10)))[graph.inputs[0]]
        np.testing.assert_array_equal(fed[:, 0], values.astype(int) - (128 if dtype == np.uint8 else 0))
