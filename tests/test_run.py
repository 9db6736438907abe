"""`run`: the outputs of a model for files and arrays, equal to those of LiteRT, ONNX Runtime and PyTorch."""

from __future__ import annotations

import io
import json
import wave
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import tiny
from cli.running import bad, run

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import tinyweave as tw  # noqa: E402
from tinyweave.api import sample_files  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.ir import CompileError, Op  # noqa: E402
from tinyweave.simulate import litert  # noqa: E402
from tinyweave.support import toolchain  # noqa: E402

nn = torch.nn
RELU = Op("relu", "relu", ("x",), ("y",))


@pytest.fixture(scope="module")
def classifier() -> Any:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(1)
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in ("a.png", "b.png", "c.bmp"):
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / name)
    return folder


def pixels(folder: Path) -> np.ndarray:
    from PIL import Image

    return np.stack([np.array(Image.open(file)) for file in sorted(folder.iterdir())])


@pytest.fixture(scope="module")
def small(classifier: Any, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an int8 file that records factor and offset of each channel."""
    path = tmp_path_factory.mktemp("int8") / "small.tflite"
    scale, offset = (1 / 58, 1 / 57, 1 / 56), (-2.1, -2.0, -1.8)
    path.write_bytes(tw.quantize(tw.load(classifier, torch.zeros(1, 3, 16, 16)), photos, scale=scale, offset=offset).file)
    return path


@pytest.mark.litert
@pytest.mark.emulator
def test_images_give_the_bytes_of_litert_by_the_factors_that_the_file_records(small: Path, photos: Path) -> None:
    given = (pixels(photos) * np.array([1 / 58, 1 / 57, 1 / 56]) + np.array([-2.1, -2.0, -1.8])).astype(np.float32)
    model = tw.load(small)
    tensor = model.graph.tensors[model.graph.inputs[0]]
    quantised = np.clip(np.rint(given / tensor.scale) + tensor.zero_point, -128, 127).astype(np.int8)
    expected = [each.outputs[0] for each in litert.run(small.read_bytes(), [[each[None]] for each in quantised])]
    for found in (
        tw.run(small, photos),
        tw.run(small, photos, "nrf52840"),
        tw.run(model, given),
        tw.run(model, list(quantised)),
    ):
        assert [each[0].tobytes() for each in found.values] == [each.tobytes() for each in expected]
        assert found.real[0] == pytest.approx((np.stack(expected) + 128.0) / 256)
    assert tw.run(small, photos).names == ("a.png", "b.png", "c.bmp") and tw.run(model, given).place == "C on this machine"
    assert tw.run(small, photos, "nrf52840").place == "C on the emulated cortex-m4"
    one = tw.run(small, photos / "b.png")
    assert one.names == ("b.png",) and one.values[0][0].tobytes() == expected[1].tobytes()
    others = tw.run(small, photos, scale=1 / 255)
    assert [each[0].tobytes() for each in others.values] != [each.tobytes() for each in expected], "what is given goes first"


@pytest.mark.emulator
def test_deploy_shows_the_outputs_of_its_inputs(capsys: Any, small: Path, photos: Path, tmp_path: Path, emulator: None) -> None:
    """As `run` does, for the first ten; a model that was loaded is a function of arrays, too."""
    path, names = tmp_path / "small.tflite", ["ant", "bee", "cat", "dog"]
    path.write_bytes(small.read_bytes())
    path.with_suffix(".json").write_text(json.dumps({"classes": names}))
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", given := rng.integers(-128, 128, (12, 16, 16, 3)).astype(np.int8))
    expected = tw.load(path)(given)
    done = tw.deploy(path, "nrf52840", out=tmp_path / "a", inputs=list(given))
    assert done.outputs and done.outputs.place == "C on the emulated cortex-m4" and expected.place == "C on this machine"
    assert [y.tobytes() for (y,) in done.outputs.values] == [y.tobytes() for (y,) in expected.values]
    assert tw.deploy(path, "nrf52840", out=tmp_path / "a").outputs is None
    with pytest.raises(CompileError, match=r"^inputs are of the type int"):
        tw.load(path)(3)
    assert run("deploy", path, "--device", "nrf52840", "--inputs", tmp_path / "x.npy", "-o", tmp_path / "b") == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "small: 12 samples, C on the emulated cortex-m4" and lines[10] == "  and 2 more, which 'run' shows"
    for number, line in enumerate(lines[:10]):
        assert line.split()[:4] == ["sample", str(number), *(str(each) for each in words(expected.best(number)[0]))]
    assert lines[11] == "" and lines[12].startswith("small for nrf52840")


def words(best: tuple[str, float, int | float]) -> tuple[str, str]:
    return best[0], f"{best[1]:.4g}"


@pytest.mark.parametrize("kind", ["tflite", "onnx", "pt2"])
@pytest.mark.filterwarnings("ignore")  # torch speaks of its other exporter
def test_a_float_file_gives_the_outputs_of_pytorch(classifier: Any, photos: Path, tmp_path: Path, kind: str) -> None:
    path, example = tmp_path / f"net.{kind}", torch.zeros(1, 3, 16, 16)
    if kind == "tflite":
        path.write_bytes(to_tflite(tw.load(classifier, torch.zeros(1, 3, 16, 16)).original))
    elif kind == "onnx":
        file = io.BytesIO()
        torch.onnx.export(classifier, (example,), file, dynamo=False)
        path.write_bytes(file.getvalue())
    else:
        torch.export.save(torch.export.export(classifier, (example,)), path)
    found = tw.run(path, photos, scale=1 / 255, offset=-0.5)
    with torch.no_grad():
        expected = classifier(torch.from_numpy(pixels(photos)).permute(0, 3, 1, 2).float() / 255 - 0.5).numpy()
    with pytest.raises(CompileError, match="quantise it, or leave out the device"):
        tw.run(path, photos, "nrf52840", scale=1 / 255)
    doubles = tw.run(path, (pixels(photos) / 255 - 0.5).transpose(0, 3, 1, 2)).real[0]
    assert doubles.reshape(3, 4) == pytest.approx(expected, abs=1e-6)
    assert found.real[0].reshape(3, 4) == pytest.approx(expected, abs=1e-6) and found.place == "numpy (float32)"


NETS = {
    "image": lambda: [nn.Conv2d(3, 8, 5, 2), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(1568, 7)],
    "waves": lambda: [nn.Unflatten(1, (1, 640)), nn.Conv1d(1, 8, 9, 4), nn.ReLU(), nn.Conv1d(8, 4, 5), nn.Tanh(), nn.Flatten()],
    "table": lambda: [nn.Linear(20, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 5), nn.Sigmoid()],
}
TEN = {  # a model -> the shape of its input, and the files that it is given
    "mlcommons__tiny__vww_96_int8.tflite": ((96, 96, 3), "png npy"),
    "mlcommons__tiny__pretrainedResnet_quant.tflite": ((32, 32, 3), "png npy csv"),
    "mlcommons__tiny__ad01_int8.tflite": ((640,), "wav npy csv"),
    "mlcommons__tiny__kws_ref_model.tflite": ((49, 10, 1), "npy csv"),
    "image.onnx": ((3, 89, 89), "png npy"),
    "image.pt2": ((3, 89, 89), "png npy"),
    "waves.onnx": ((640,), "wav npy csv"),
    "waves.pt2": ((640,), "wav npy csv"),
    "table.onnx": ((20,), "npy csv"),
    "table.pt2": ((20,), "npy csv"),
}


@pytest.mark.sweep
@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.parametrize("name", TEN)
@pytest.mark.filterwarnings("ignore")
def test_ten_models_of_three_front_ends_give_the_outputs_of_their_frameworks(name: str, shared: Path, tmp_path: Path) -> None:
    import onnxruntime
    from PIL import Image

    (shape, kinds), path, rng = TEN[name], tmp_path / name, np.random.default_rng(3)
    if name.endswith("tflite"):
        path.write_bytes((shared / "models" / name).read_bytes())
    else:
        torch.manual_seed(4)
        net, example = nn.Sequential(*NETS[path.stem]()).eval(), torch.zeros(1, *shape)
        if name.endswith("onnx"):
            torch.onnx.export(net, (example,), str(path), dynamo=False)
        else:
            torch.export.save(torch.export.export(net, (example,)), path)
    for kind in kinds.split():
        real = rng.normal(size=(2, *shape)).astype(np.float32)  # values of a .npy or a .csv file
        file, options = tmp_path / f"x.{kind}", dict[str, float]()
        if kind == "npy":
            np.save(file, real)
        elif kind == "csv":
            np.savetxt(file, real.reshape(2, -1), "%.9g", ",")
        elif kind == "wav":
            sound = rng.integers(-(1 << 15), 1 << 15, shape).astype("<i2")
            with wave.open(str(file), "wb") as written:
                written.setparams((1, 2, 16_000, sound.size, "NONE", ""))
                written.writeframes(sound.tobytes())
            real = sound[None] / np.float32(1 << 15)
        else:
            picture = rng.integers(0, 256, shape if shape[-1] == 3 else (*shape[1:], 3), np.uint8)
            Image.fromarray(picture).save(file)
            real = picture[None]
            if path.stem in NETS:
                real, options = np.moveaxis(real / np.float32(255) - 0.5, 3, 1), {"scale": 1 / 255, "offset": -0.5}
        found = tw.run(path, file, **options)
        if name.endswith("tflite"):
            x = (model := tw.load(path)).graph.tensors[model.graph.inputs[0]]
            given = real - 128.0 if kind == "png" else np.clip(np.rint(real / np.float32(x.scale)) + x.zero_point, -128, 127)
            ran = litert.run(path.read_bytes(), [[each.astype(np.int8).reshape(x.shape)] for each in given])
            assert [y.tobytes() for (y,) in found.values] == [each.outputs[0].tobytes() for each in ran], kind
            continue
        if name.endswith("onnx"):
            session = onnxruntime.InferenceSession(str(path))
            expected = [session.run(None, {session.get_inputs()[0].name: each[None]})[0] for each in real]
        else:
            expected = [net(torch.from_numpy(each[None])).detach().numpy() for each in real]
        assert np.ptp(expected) > 0.05
        assert np.concatenate([y for (y,) in found.values]) == pytest.approx(np.concatenate(expected), abs=2e-6), kind


@pytest.mark.filterwarnings("ignore")
def test_a_float_module_runs_in_numpy_and_is_refused_by_the_planner(classifier: Any, photos: Path) -> None:
    model, samples = tw.load(classifier, torch.zeros(1, 3, 16, 16)), pixels(photos).transpose(0, 3, 1, 2) / np.float32(255)
    with torch.no_grad():
        expected = classifier(torch.from_numpy(samples)).numpy()
    found = tw.run(model, samples)
    assert found.real[0].reshape(3, 4) == pytest.approx(expected, abs=1e-6) and found.place == "numpy (float32)"
    with pytest.raises(CompileError, match=r"make it int8 with tw\.quantize\(model, samples\)$"):
        tw.plan(model)


def test_pixels_fill_the_range_of_an_8_bit_input_if_nothing_is_recorded(photos: Path, tmp_path: Path) -> None:
    for dtype, zero in (("int8", 3), ("uint8", 100)):
        x, y = (tiny.activation(name, (1, 16, 16, 3), 0.1, zero, dtype) for name in "xy")
        path = tmp_path / f"{dtype}.tflite"
        path.write_bytes(to_tflite(tiny.graph(dtype, [x, y], [RELU], ("x",), ("y",))))
        least = zero if dtype == "uint8" else zero + 128
        for number, values in enumerate(tw.run(path, photos).values):
            assert np.array_equal(values[0][0].astype(int) + 128 * (dtype == "int8"), np.maximum(pixels(photos)[number], least))


def test_classes_are_named_by_the_file_or_by_the_option(capsys: Any, small: Path, photos: Path, tmp_path: Path) -> None:
    labelled, names = tmp_path / "labelled.tflite", tmp_path / "names.txt"
    labelled.write_bytes(small.read_bytes())
    with zipfile.ZipFile(labelled, "a") as archive:
        archive.writestr("labels.txt", "ant\nbee\ncat\ndog\n")
    best = tw.run(labelled, photos).best(0, 4)
    assert {name for name, _, _ in best} == {"ant", "bee", "cat", "dog"} and best == sorted(best, key=lambda each: -each[1])
    assert all(real == (value + 128) / 256 for _, real, value in best)
    (tmp_path / "labelled.json").write_text('{"classes": ["a", "b", "c", "d"]}')
    assert {name for name, _, _ in tw.run(labelled, photos).best(0, 4)} == {*"abcd"}, "as on a page of the network"
    (tmp_path / "labelled.json").unlink()
    names.write_text("north\neast\nsouth\nwest\n")
    assert run("run", labelled, "--inputs", photos, "--classes", names, "-o", tmp_path / "y.npy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "labelled: 3 samples, C on this machine" and len(lines) == 4
    first = {"ant": "north", "bee": "east", "cat": "south", "dog": "west"}[best[0][0]]
    assert lines[1].split()[:3] == ["a.png", first, f"{best[0][1]:.4g}"]
    assert run("run", small, "--inputs", photos, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert [sample["name"] for sample in record["samples"]] == ["a.png", "b.png", "c.bmp"]
    written = np.load(tmp_path / "y.npy")
    assert written.dtype == np.int8 and written.reshape(3, 4).tolist() == [s["outputs"][0]["values"] for s in record["samples"]]
    assert record["samples"][0]["outputs"][0]["best"][0]["class"] in "0123", "a number if no name is known"


def test_without_a_compiler_numpy_gives_the_same_bytes(small: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tw.run(small, photos)

    def missing() -> None:
        raise CompileError("found no C compiler", "install one")

    monkeypatch.setattr(toolchain, "host", missing)
    found = tw.run(small, photos)
    assert found.place == "numpy (there is no C compiler)"
    assert [each[0].tobytes() for each in found.values] == [each[0].tobytes() for each in expected.values]


def test_a_recording_is_a_waveform(tmp_path: Path) -> None:
    x, y = tiny.activation("x", (1, 64), 1 / 128), tiny.activation("y", (1, 64), 1 / 128)
    path, samples = tmp_path / "wave.tflite", np.arange(-32, 32, dtype="<i2") * 256
    path.write_bytes(to_tflite(tiny.graph("wave", [x, y], [RELU], ("x",), ("y",))))
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 64, "NONE", ""))
        file.writeframes(samples.tobytes())
    assert tw.run(path, tmp_path / "x.wav").values[0][0].tolist() == [[max(0, each) for each in range(-32, 32)]]


def test_rows_of_a_table_are_samples(capsys: Any, tmp_path: Path) -> None:
    """A table with as many bytes as a sample was once read as raw bytes."""
    x, y = tiny.activation("x", (1, 2, 2, 1), 0.5), tiny.activation("y", (1, 2, 2, 1), 0.5)
    path, table = tmp_path / "net.tflite", tmp_path / "x.csv"
    path.write_bytes(to_tflite(tiny.graph("net", [x, y], [RELU], ("x",), ("y",))))
    for text, wanted in (
        ("a;b;c;d\n1;-1;2.5;3\n\n4;0;1e1;-2\n", [[2, 0, 5, 6], [8, 0, 20, 0]]),
        ("1,2\n3,4\n", [[2, 4, 6, 8]]),
        ("1,2,3", None),  # 5 bytes
        ("11,2", None),  # 4 bytes, as many as a sample has
    ):
        table.write_text(text)
        if wanted is None:
            assert "the input is int8[1, 2, 2, 1]; give that shape" in bad(capsys, "run", path, "--inputs", table)
        else:
            assert [values[0].reshape(-1).tolist() for values in tw.run(path, table).values] == wanted
            assert tw.verify(path, inputs=sample_files.read_inputs(table, tw.load(path))).ok
    for text, said in (
        ("1,2,3,4\n1,2\n", "the rows of '.*' have 2, 4 numbers"),
        ("1,2,3,4\n1,2,x,4\n", "row 2 has a cell that is no number: .*'x'"),
        ("1,2,nan,4\n", r"sample 0 of '.*' holds nan at \[2\]"),
        ("a,b\n", "holds no samples"),
    ):
        table.write_text(text)
        with pytest.raises(CompileError, match=said):
            tw.run(path, table)


def test_outputs_that_are_maps_and_several_outputs_are_summed_up(capsys: Any, tmp_path: Path) -> None:
    x, y, z = (tiny.activation(name, (1, 2, 2, 2)) for name in "xyz")
    path, given = tmp_path / "two.tflite", np.arange(-4, 4, dtype=np.int8).reshape(1, 2, 2, 2)
    ops = [RELU, Op("abs", "abs", ("x",), ("z",))]
    path.write_bytes(to_tflite(tiny.graph("two", [x, y, z], ops, ("x",), ("y", "z"))))
    np.save(tmp_path / "x.npy", given)
    assert run("run", path, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "y.npz") == 0
    assert "int8 1x2x2x2: 0 to 3" in (printed := capsys.readouterr().out) and "int8 1x2x2x2: 0 to 4" in printed
    written = np.load(tmp_path / "y.npz")
    assert {name: values.tolist() for name, values in written.items()} == {
        "y": [np.maximum(given, 0).tolist()],
        "z": [np.abs(given).tolist()],
    }
    assert "a .npy file holds one" in bad(capsys, "run", path, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert not (tmp_path / "y.npy").exists()


def test_bad_inputs_of_run(capsys: Any, small: Path, photos: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.float32))
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.png").write_text("no image")
    x, y = tiny.activation("x", (1, 64)), tiny.activation("y", (1, 64))
    (tmp_path / "flat.tflite").write_bytes(to_tflite(tiny.graph("flat", [x, y], [RELU], ("x",), ("y",))))
    for words, said in (
        ((tmp_path / "flat.tflite", "--inputs", photos), "which is not an image"),
        ((small, "--inputs", tmp_path / "x.npy"), "give that shape"),
        ((small, "--inputs", tmp_path / "none.png"), "there is no '"),
        ((tmp_path / "flat.tflite", "--inputs", tmp_path / "none.wav"), "none.wav'; give a folder"),
        ((small, "--inputs", tmp_path / "text.png"), "text.png' cannot be read as an image: cannot identify image file; leave"),
        (
            (small, "--inputs", photos, "--classes", tmp_path / "text.png"),
            "1 names of classes are given, and the output has 4",
        ),
        ((small, "--inputs", tmp_path / "empty"), "holds no samples"),
        ((small, "--inputs", photos, "--scale", "x"), "--scale x is no number"),
        ((small, "--inputs", photos, "-o", tmp_path / "y.txt"), "neither .npy nor .npz"),
        ((small, "--inputs", photos, "--device", "nothing"), "unknown device 'nothing'"),
    ):
        assert said in bad(capsys, "run", *words)
    with pytest.raises(CompileError, match="there are no samples"):
        tw.run(small, [])
    for given, said in ((3, "of the type int"), ([None], "of the type NoneType"), ([[]], "has 0 arrays")):
        with pytest.raises(CompileError, match=said):
            tw.run(small, given)
