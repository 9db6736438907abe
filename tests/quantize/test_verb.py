"""`tinyweave quantize` and `tw.quantize`: the written file, the report, and errors of other commands on a float model."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from cases.floats import DENSE, WINDOW, fixed, float_graph

import tinyweave as tw
from tinyweave import api
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import Graph, Tensor
from tinyweave.quantize.convert import dequantised
from tinyweave.quantize.evaluate import outputs
from tinyweave.quantize.fidelity import as_int8, best_classes, is_classifier


def classifier(seed: int = 0) -> Graph:
    """Return a small float image classifier of five classes."""
    rng = np.random.default_rng(seed)
    tensors = [
        fixed("w0", rng.normal(size=(8, 3, 3, 3)) / 5),
        fixed("b0", rng.normal(size=8) / 5),
        fixed("axes", np.array([1, 2])),
        fixed("w1", rng.normal(size=(5, 8))),
        fixed("b1", rng.normal(size=5) / 5),
    ]
    steps: list[Any] = [
        ("conv_2d", ("x", "w0", "b0"), WINDOW | {"activation": "relu"}),
        ("mean", ("t0", "axes"), {"keep_dims": False}),
        ("fully_connected", ("t1", "w1", "b1"), DENSE),
        ("softmax", ("t2",), {"beta": 1.0}),
    ]
    return float_graph(tensors, steps, x=(1, 8, 8, 3))


IMAGES = np.random.default_rng(1).integers(0, 256, (60, 8, 8, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("float") / "net.tflite"
    path.write_bytes(to_tflite(classifier()))
    return path


def test_the_commands_of_the_guide_give_the_documented_output(
    capsys: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow (pip install '.[images]')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").write_bytes(model.read_bytes())
    for number, values in enumerate(IMAGES):
        folder = tmp_path / "photos" / "abcde"[number % 5]
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(values).save(folder / f"{number}.png")
    text = (Path(__file__).parents[2] / "docs" / "QUANTIZE.md").read_text().split("\n## Training")[0]
    commands = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(commands) >= 3
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    capsys.readouterr()
    names: dict[str, Any] = {}
    exec(code, names)
    assert re.fullmatch(r"\d\d dB, \d+% the same class\n", capsys.readouterr().out)
    assert names["plan"].arena and (tmp_path / "net_int8.tflite").is_file()


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def said_in_metadata(file: bytes) -> dict[str, Any]:
    root = tflite.Model.GetRootAs(file, 0)
    (entry,) = [root.Metadata(i) for i in range(root.MetadataLength())]
    assert entry.Name() == b"tinyweave.preprocessing"
    said: dict[str, Any] = json.loads(root.Buffers(entry.Buffer()).DataAsNumpy().tobytes())
    return said


def test_the_result_of_tw_quantize_has_its_fidelity_and_can_be_planned(model: Path) -> None:
    labels = best_classes(outputs(classifier(), {"x": IMAGES[:, None] / np.float32(255)})[0])[:, 0]
    done = tw.quantize(model, IMAGES, scale=1 / 255, labels=labels)
    assert repr(done).startswith("<Quantisation of 'net': ") and done.float_bytes == model.stat().st_size
    near = done.fidelity
    assert near.samples == 60 and 20 < near.sqnr_db < 60 and near.accuracy is not None
    assert near.accuracy[0] == 1.0 and near.accuracy[1] == near.agreement
    graph = from_tflite(done.file, "net")
    assert {graph.tensors[name].dtype for name in (*graph.inputs, *graph.outputs)} == {"int8"}
    (values,) = outputs(graph, as_int8(graph, {"x": IMAGES[:, None].astype(np.float64) / 255}))
    expected = outputs(classifier(), {"x": IMAGES[:, None].astype(np.float32) / 255})[0]
    real = dequantised(values, graph.tensors[graph.outputs[0]].quant)
    agreement = np.mean(best_classes(real)[:, 0] == best_classes(expected)[:, 0])
    assert near.agreement == pytest.approx(agreement)
    assert sum(tw.plan(done.model).arena.values()) > 0
    assert said_in_metadata(done.file) == {
        "inputs": [{"version": 1, "input": "x", "shape": [1, 8, 8, 3], "source": "arrays", "scale": [1 / 255], "offset": [0.0]}]
    }


def test_tw_quantize_stays_callable_after_an_import_of_its_submodules(model: Path) -> None:
    import tinyweave.quantize.scale_groups  # noqa: F401

    assert tw.quantize(model, IMAGES[:4], scale=1 / 255, method="minmax").fidelity.samples == 4
    assert tw.api.verbs.quantize(model, IMAGES[:4], scale=1 / 255, method="minmax").fidelity.samples == 4


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.usefixtures("emulator")
def test_a_quantised_model_is_verified_on_an_emulated_core(model: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    done = tw.quantize(model, IMAGES, scale=1 / 255)
    proof = tw.verify(done.model, samples=4)
    assert proof.ok and proof.max_abs_diff == 0


def test_the_command_writes_a_file_that_other_commands_accept(capsys: Any, model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=IMAGES, y=np.arange(60) % 5)
    out = tmp_path / "small.tflite"
    options = ("--inputs", tmp_path / "x.npz", "--scale", "1/255", "-o", out, "--samples", 30)
    assert run("quantize", model, *options) == 0
    printed = capsys.readouterr().out
    for words in ("wrote ", "input: x int8 1x8x8x3, real = ", "from 30 samples", "on 60 samples", " dB", "the same class: "):
        assert words in printed
    assert "accuracy: float " in printed and max(map(len, printed.splitlines())) <= 100
    assert run("plan", out) == 0
    capsys.readouterr()
    assert run("quantize", model, *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["samples"] == {"calibrated": 30, "compared": 60} and record["bytes"]["int8"] == out.stat().st_size
    assert record["preprocessing"] == {"source": "arrays", "scale": [1 / 255], "offset": [0.0]}
    assert 0 <= record["accuracy"]["float"] <= 1 and record["sqnr_db"] > 20


def test_the_report_shows_blame(capsys: Any, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IMAGES)
    options = ("--inputs", tmp_path / "x.npy", "--scale", "1/255", "-o", tmp_path / "small.tflite", "--blame")
    assert run("quantize", model, *options) == 0
    printed = capsys.readouterr().out
    assert "what would help" in printed
    for name in ("x ", "conv_2d_0", "mean_1", "fully_connected_2", "softmax_3"):
        assert f"\n{name}" in printed
    assert max(map(len, printed.splitlines())) <= 110
    assert run("quantize", model, *options, "--json") == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert {layer["name"] for layer in layers} == {"x", "conv_2d_0", "mean_1", "fully_connected_2", "softmax_3"}
    assert [layer["costs"] for layer in layers] == sorted((layer["costs"] for layer in layers), reverse=True)


def test_with_a_limit_the_report_shows_bytes_and_db_per_layer(
    capsys: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    np.save(tmp_path / "x.npy", IMAGES)
    options = ("--inputs", tmp_path / "x.npy", "--scale", "1/255", "-o", tmp_path / "small.tflite", "--min-sqnr")
    assert run("quantize", model, *options, "8") == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("what is not int8: "))
    rows = [line.split() for line in lines[start + 2 : -1]]
    assert rows and lines[-1].startswith("in all: ") and max(map(len, lines)) <= 110
    assert run("quantize", model, *options, "8", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    said = record["precision"]
    assert record["sqnr_db"] >= 8 and said["saved"] == sum(layer["saved"] for layer in said["layers"]) > 0
    assert rows == [
        [layer["name"], layer["weights"], layer["activations"], f"{layer['saved']:,}", "B", f"{layer['gained']:+.2f}", "dB"]
        for layer in said["layers"]
    ]


def test_a_flash_limit_is_met_with_4_bit_weights(tmp_path: Path) -> None:
    rng, model = np.random.default_rng(0), tmp_path / "net.tflite"
    tensors = [fixed("w0", rng.normal(size=(64, 3, 3, 3)) / 5), fixed("w1", rng.normal(size=(64, 3, 3, 64)) / 24)]
    tensors += [fixed("b", rng.normal(size=64) / 5)]
    steps = [("conv_2d", (x, w, "b"), WINDOW | {"activation": "relu"}) for x, w in (("x", "w0"), ("t0", "w1"))]
    model.write_bytes(to_tflite(float_graph(tensors, steps, x=(1, 4, 4, 3))))

    def flash(small: tw.Model) -> int:
        return api.estimate_flash(tw.plan(small, optimize="size")).upper_bound

    samples = rng.normal(size=(8, 4, 4, 3)).astype(np.float32)
    plain = tw.quantize(model, samples, method="minmax")
    limit = flash(plain.model) - 6000
    done = tw.quantize(model, samples, method="minmax", flash=limit)
    assert flash(done.model) <= limit and plain.precision is None and done.precision is not None
    assert "int4" in [layer.weights for layer in done.precision.layers]


def test_the_same_call_writes_the_same_file(model: Path) -> None:
    first, second = (tw.quantize(model, IMAGES, scale=1 / 255).file for _ in range(2))
    assert first == second


def test_labels_that_are_not_classes_are_refused(model: Path) -> None:
    few = IMAGES[:4]
    for wrong in (-1, 5):
        with pytest.raises(
            tw.CompileError, match=rf"the label {wrong} is not a class of the network; it has 5: .* from 0 to 4"
        ):
            tw.quantize(model, few, scale=1 / 255, labels=[0, 1, wrong, 3], method="minmax")


def test_a_network_that_returns_its_input_is_not_a_classifier() -> None:
    assert not is_classifier(Graph("same", {"x": Tensor("x", (1, 1), "float32")}, (), ("x",), ("x",)))


def test_at_least_one_calibration_sample_is_required(model: Path) -> None:
    for count in (0, -1):
        with pytest.raises(tw.CompileError, match=f"{count} calibration samples are too few"):
            tw.quantize(model, IMAGES[:4], scale=1 / 255, samples=count)


@pytest.mark.parametrize("verb", ["plan", "compile", "verify", "profile", "deploy", "compare"])
def test_other_commands_refuse_a_float_model_and_advise_to_quantise(
    capsys: Any, model: Path, tmp_path: Path, verb: str
) -> None:
    folder = ("-o", tmp_path / "c") if verb in ("compile", "deploy") else ()
    assert run(verb, model, *folder) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "it is a float model: 4 ops compute on float32" in line
    assert f"make it int8 with 'tinyweave quantize {model} --inputs SAMPLES'" in line


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("{model}", "--inputs", "{folder}/none.npy"), "there is no "),
        (("{model}", "--inputs", "{folder}"), "holds no samples"),
        (("{model}", "--inputs", "{folder}/a.npz", "--scale", "red"), "--scale red is no number"),
        (("{model}", "--inputs", "{folder}/a.npz", "--offset", "1/0"), "--offset 1/0 is no number"),
        (("{model}", "--inputs", "{folder}/a.npz", "--method", "best"), "the method best is unknown"),
        (("{model}", "--inputs", "{folder}/a.npz", "--flash", "much"), "'much' is not a size"),
        (("{model}", "--inputs", "{folder}/a.npz", "--flash", "100"), "B of Flash are needed, 100 allowed"),
        (("{model}", "--inputs", "{folder}/a.npz", "--min-sqnr", "-3"), "--min-sqnr -3 is not an SQNR"),
        (("{model}", "--inputs", "{folder}/a.npz", "--min-sqnr", "150"), "the limit cannot be kept"),
        (("{model}", "--inputs", "{folder}/a.npz", "--max-accuracy-drop", "-1"), "--max-accuracy-drop -1 is not a loss"),
        (("{model}", "--inputs", "{folder}/a.npz", "--max-accuracy-drop", "1"), "the samples have no labels"),
        (("{small}", "--inputs", "{folder}/a.npz"), "it is quantised already"),
        (("{folder}/a.npz", "--inputs", "{folder}/a.npz"), "not a readable .tflite"),
        (("{model}",), "Missing option '--inputs'"),
    ],
)
def test_faulty_input_is_refused_in_one_line(
    capsys: Any, model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    small = tmp_path / "small.tflite"
    small.write_bytes(tw.quantize(model, IMAGES[:4], scale=1 / 255, method="minmax").file)
    if "a.npz" in "".join(arguments):
        np.savez(samples / "a.npz", x=IMAGES[:4])
    places = {"model": model, "small": small, "folder": samples}
    code = run("quantize", *(word.format(**places) for word in arguments))
    printed = capsys.readouterr()
    assert code == 2 and printed.out == "" and printed.err.count("\n") == 1 and message in printed.err
    assert not list(tmp_path.rglob(".tinyweave-*"))
