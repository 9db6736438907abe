"""`export --format web`: the WebAssembly gives the bytes of the reference; the page shows them, and the arena as it fills."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import tiny
from cases.browser import seen_by_script, seen_live
from projects.export import export, model, reference, samples

import tinyweave as tw
from tinynas.tasks.features import log_mel
from tinynas.tasks.sounds import as_int16, fitted
from tinyweave import api
from tinyweave.api.quantisation import METADATA
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op
from tinyweave.simulate import compare
from tinyweave.support import toolchain
from tinyweave.support.media import read_image, read_recording, write_recording

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "keywords" / "digits.tflite"
RELU = Op("relu", "relu", ("x",), ("y",))


@pytest.fixture(autouse=True)
def zig() -> None:
    try:
        toolchain.zig()
    except tw.CompileError as error:
        pytest.skip(str(error))


def data_of(page: Path) -> dict[str, Any]:
    """Return the data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    return dict(json.loads(text))


def ran(data: dict[str, Any], given: list[list[bytes]]) -> tuple[list[list[bytes]], list[int]]:
    """Run a page's WebAssembly on inputs, one after the other; return the outputs, and the steps that it told of."""
    wasmtime = pytest.importorskip("wasmtime", reason="needs wasmtime: pip install '.[test]'")
    store, steps = wasmtime.Store(), list[int]()
    module = wasmtime.Module(store.engine, b64decode(data["wasm"]))
    hook = wasmtime.Func(store, wasmtime.FuncType([wasmtime.ValType.i32()], []), steps.append)
    c = wasmtime.Instance(store, module, [hook]).exports(store)
    assert c["tw_page_init"](store) == 0
    found = []
    for inputs in given:
        for index, raw in enumerate(inputs):
            c["memory"].write(store, raw, c["tw_page_input"](store, index))
        assert c["tw_page_invoke"](store) == 0
        at = [c["tw_page_output"](store, index) for index in range(len(data["outputs"]))]
        sizes = [len(raw) for raw in b64_all(data["samples"][0]["outputs"])]
        found.append([bytes(c["memory"].read(store, begin, begin + size)) for begin, size in zip(at, sizes, strict=True)])
    return found, steps


def b64_all(texts: list[str]) -> list[bytes]:
    return [b64decode(text) for text in texts]


@pytest.mark.parametrize("network", ["chain", "residual", "edges", "stream"])
@pytest.mark.parametrize("device", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imc", "stm32h743"])
def test_every_output_byte_is_the_references(network: str, device: str, tmp_path: Path) -> None:
    """Also those of a network with state, which takes the samples one after the other, and of arenas in several memories."""
    given = samples(network, 12)
    folder = export(tmp_path, "web", network, device, inputs=given)
    data = data_of(folder / f"{network}.html")
    found, steps = ran(data, [compare.pack(sample) for sample in given])
    assert found == reference(network, given)
    assert [b64_all(sample["outputs"]) for sample in data["samples"]] == found[:10]
    assert steps == [*range(data["record"]["plan"]["steps"])] * 12
    assert data["bytes"] == len(b64decode(data["wasm"]))


def test_recorded_digits_and_photographs_give_the_bytes_of_the_core(tmp_path: Path, shared: Path, emulator: None) -> None:
    for name, file, inputs in [
        ("digits", DIGITS, np.load(DIGITS.parent / "inputs.npy")),
        ("vww", shared / "models" / "mlcommons__tiny__vww_96_int8.tflite", photographs(shared)),
    ]:
        given = [[each[None]] for each in inputs]
        network = tw.load(file, name=name)
        folder = tmp_path / name
        tw.export(network, "cortex-m0", out=folder, format="web", inputs=given)
        plan = tw.plan(network, "cortex-m0")
        tw.compile(network, "cortex-m0", out=folder / "c", planned=plan)
        on_core = api.run_plan(network, plan, folder / "c", given, "cortex-m0")
        data = data_of(folder / f"{name}.html")
        found, _ = ran(data, [compare.pack(sample) for sample in given])
        assert found == [compare.pack(outputs) for outputs in on_core] and len({outputs[0] for outputs in found}) > 1
        assert data["bytes"] < 60_000, "about 55 kB, nearly all of them weights"


def test_a_package_of_two_networks_has_two_pages(tmp_path: Path) -> None:
    tw.export([model("chain"), model("stream")], out=tmp_path, format="web", package="nets")
    for network in ("chain", "stream"):
        data, given = data_of(tmp_path / f"{network}.html"), samples(network, 3)
        assert ran(data, [compare.pack(sample) for sample in given])[0] == reference(network, given)


def test_each_input_is_written_where_the_network_reads_it(tmp_path: Path) -> None:
    tensors = [tiny.activation(name, (1, 8), scale, 0) for name, scale in (("a", 0.5), ("b", 0.25), ("sum", 0.5))]
    add = Op("add", "add", ("a", "b"), ("sum",), {"activation": "none"})
    path = tmp_path / "two.tflite"
    path.write_bytes(to_tflite(tiny.graph("two", tensors, [add], ("a", "b"), ("sum",))))
    tw.export(path, out=tmp_path, format="web")
    a, b = np.arange(8, dtype=np.int8), np.full(8, 4, np.int8)
    assert ran(data_of(tmp_path / "two.html"), [[a.tobytes(), b.tobytes()]])[0] == [[(a + 2).tobytes()]]


def counter() -> Graph:
    """Return a network without inputs, which counts its calls."""
    whole = tiny.stream()
    names = {"calls", "calls.initial", "calls_before", "one", "count"}
    ops = tuple(op for op in whole.ops if {*op.inputs, *op.outputs} <= names)
    tensors = {name: tensor for name, tensor in whole.tensors.items() if name in names}
    return replace(whole, name="counter", tensors=tensors, ops=ops, inputs=(), outputs=("count",), init=whole.init[1:])


def photographs(shared: Path) -> np.ndarray:
    files = sorted((shared / "data" / "mlperf_tiny" / "vww01").glob("*.bin"))[::60]
    return np.stack(
        [np.frombuffer(file.read_bytes(), np.uint8).reshape(96, 96, 3).astype(np.int16) - 128 for file in files]
    ).astype(np.int8)


def digits_page(folder: Path, **changes: Any) -> str:
    """Return the page of the example that recognises spoken digits, with ten recordings."""
    network = replace(tw.load(DIGITS), **changes)
    tw.export(network, out=folder, format="web", inputs=[[each[None]] for each in np.load(DIGITS.parent / "inputs.npy")])
    return (folder / "digits.html").read_text("utf-8")


def test_the_page_shows_scores_proof_and_memory_and_takes_each_sample(tmp_path: Path) -> None:
    script = """
started.then(() => {
  const all = (what) => [...document.querySelectorAll(what)], text = (what) => all(what).map((each) => each.textContent);
  const look = () => [text(".scores .name.best"), text(".scores .number.best")[0], text(".proof")[0]];
  const canvas = document.querySelector(".column canvas"), slider = document.querySelector(".player input"), steps = [];
  const samples = all(".tools button").filter((each) => each.textContent.startsWith("Sample"));
  const seen = samples.map((each) => (each.click(), look()));
  for (const at of [0, 5, 8]) {
    slider.value = at;
    slider.dispatchEvent(new Event("input"));
    steps.push([text(".player output")[0], canvas.toDataURL().length > 500]);
  }
  const pixels = canvas.width * canvas.height, playing = text(".player button")[0];
  const found = { seen, steps, pixels, buttons: text("button"), playing };
  all("button").find((each) => each.textContent === "Noise").click();
  const wide = document.documentElement.scrollWidth;
  setTimeout(() => parent.postMessage(JSON.stringify({ ...found, wide, noise: look()[2] }), "*"), 300);
});"""
    found = seen_by_script(digits_page(tmp_path), script, tmp_path, 20_000, 900)
    names = json.loads(DIGITS.with_suffix(".json").read_text())["classes"]
    proof = "✓ every output byte is the reference's"
    assert [(best, said) for best, _, said in found["seen"]] == [([name], proof) for name in names] and found["noise"] == ""
    assert all(re.fullmatch(r"\d\d\.\d %", number) for _, number, _ in found["seen"]) and found["playing"] == "Play"
    assert {"Microphone", "File …", "Noise"} <= set(found["buttons"]) and "Camera" not in found["buttons"]
    plan = tw.plan(DIGITS)
    assert found["pixels"] >= sum(plan.arena.values()) and found["wide"] <= 900
    for step, (words, drawn) in zip((0, 5, 8), found["steps"], strict=True):
        spans = [(plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in plan.buffers if b.start <= step < b.end]
        used = len({byte for span in spans for byte in range(*span)})
        assert words == f"step {step + 1} of {len(plan.stages)}: {used:,} B in use" and drawn


# press a button, and after two seconds tell how often which class was the best, until one was so 20 times
WATCH = """
started.then(() => {{
  [...document.querySelectorAll("button")].find((each) => each.textContent === "{}").click();
  const seen = {{}}, end = Date.now() + 20000, look = () => {{
    const best = document.querySelector(".scores .name.best");
    if (best) seen[best.textContent] = (seen[best.textContent] || 0) + 1;
    if (Math.max(0, ...Object.values(seen)) < 20 && Date.now() < end) return setTimeout(look, 100);
    parent.postMessage(JSON.stringify({{ seen, said: document.body.innerText }}), "*");
  }};
  setTimeout(look, 2000);
}});"""


def test_the_microphone_hears_a_recorded_digit(tmp_path: Path, shared: Path) -> None:
    """Chromium plays a file as its microphone, over and over."""
    rate, values = read_recording(shared / "data" / "fsdd" / "recordings" / "6_george_0.wav")
    write_recording(tmp_path / "six.wav", rate, fitted(as_int16(values), rate))
    flag = f"--use-file-for-fake-audio-capture={tmp_path / 'six.wav'}"
    seen = seen_live(digits_page(tmp_path), WATCH.format("Microphone"), tmp_path, flag)["seen"]
    assert max(seen, key=lambda name: seen[name]) == "six", seen


def test_a_recording_becomes_the_features_that_the_network_was_trained_with(tmp_path: Path, shared: Path) -> None:
    """Within one step; nine in ten are the same. At another rate the browser resamples it."""
    _, values = read_recording(shared / "data" / "fsdd" / "recordings" / "6_george_0.wav")
    samples = fitted(as_int16(values), 8000)
    write_recording(tmp_path / "six.wav", 8000, samples)
    raw = json.dumps(b64encode((tmp_path / "six.wav").read_bytes()).decode())
    script = (
        f"ofFile(new File([bytesOf({raw})], 'six.wav')).then((found) => parent.postMessage(JSON.stringify({{ found }}), '*'));"
    )
    (found,) = seen_live(digits_page(tmp_path), script, tmp_path)["found"]
    wanted = log_mel(8000, 32).of(samples).astype(int).reshape(-1)
    assert np.abs(np.array(found) - wanted).max() <= 1 and (found == wanted).mean() > 0.9


def test_the_camera_is_shown_to_the_network(tmp_path: Path) -> None:
    """Chromium's fake camera is green: of the means of the three colours, the second is the largest."""
    x, y = tiny.activation("x", (1, 16, 16, 3), 1 / 255, -128), tiny.activation("y", (1, 1, 1, 3), 1 / 255, -128)
    whole = {"kernel": (16, 16), "stride": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    pool, path = Op("pool", "average_pool_2d", ("x",), ("y",), whole), tmp_path / "colours.tflite"
    path.write_bytes(to_tflite(tiny.graph("colours", [x, y], [pool], ("x",), ("y",))))
    path.with_suffix(".json").write_text(json.dumps({"classes": ["red", "green", "blue"], "preparation": {"source": "images"}}))
    tw.export(path, out=tmp_path, format="web")
    seen = seen_live((tmp_path / "colours.html").read_text("utf-8"), WATCH.format("Camera"), tmp_path)["seen"]
    assert max(seen, key=lambda name: seen[name]) == "green", seen


def test_a_wrong_byte_is_shown(tmp_path: Path) -> None:
    said = "[...document.querySelectorAll('.proof.no')].map((each) => each.textContent)"
    script, page = f"started.then(() => parent.postMessage(JSON.stringify({{ said: {said} }}), '*'));", digits_page(tmp_path)
    first = data_of(tmp_path / "digits.html")["samples"][0]["outputs"][0]
    raw = bytearray(b64decode(first))
    raw[3] ^= 1
    found = seen_by_script(page.replace(first, b64encode(raw).decode()), script, tmp_path, 10_000, 900)
    assert found["said"] == ["✗ 1 output bytes differ from the reference's"]


@pytest.mark.parametrize(("rate", "coefficients"), [(8000, 0), (16000, 10)])
def test_sound_becomes_the_features_that_the_network_was_trained_with(rate: int, coefficients: int, tmp_path: Path) -> None:
    """Within one step, because the page computes them in floats; nine in ten are the same."""
    setting = log_mel(rate, 32, coefficients=coefficients)
    rng, time = np.random.default_rng(3), np.arange(rate) / rate
    loud = 4000 * np.sin(2 * np.pi * (200 + 1500 * time) * time) * (time > 0.2) + rng.normal(0, 30, rate) * (time < 0.9)
    samples = loud.astype(np.int16)
    script = f"about.features = {json.dumps(setting.record())};"
    script += f"parent.postMessage(JSON.stringify({{ found: features({samples.tolist()}) }}), '*');"
    found = np.array(seen_by_script(digits_page(tmp_path), script, tmp_path, 5000, 900)["found"])
    wanted = setting.of(samples).astype(int).reshape(-1)
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= (1 if not coefficients else 2)
    assert (found == wanted).mean() > 0.9 and len(set(wanted)) > 30


def test_files_become_inputs_as_run_reads_them(tmp_path: Path) -> None:
    """Integers of .npy files are inputs; real numbers, and rows of .csv files, are scaled; recordings are cut into windows."""
    path = tmp_path / "activity.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    about = {"classes": ["a", "b"], "preparation": {"source": "sensors", "scale": [2, -3], "offset": [1, 0.5]}}
    path.with_suffix(".json").write_text(json.dumps(about))
    tw.export(path, out=tmp_path, format="web")
    rng = np.random.default_rng(5)
    whole, real = rng.integers(-128, 128, (3, 8, 8, 1)).astype(np.int8), rng.uniform(-1, 6, (2, 8, 8, 1)).astype(np.float32)
    rows = rng.uniform(-60, 60, (12, 8)).round(2)
    npy = [BytesIO(), BytesIO()]
    for file, array in zip(npy, (whole, real), strict=True):
        np.save(file, array)
    files = [("whole.npy", npy[0].getvalue()), ("real.npy", npy[1].getvalue())]
    files.append(("rows.csv", ("x,y\n" + "\n".join(",".join(map(str, row)) for row in rows)).encode()))
    made = ", ".join(f"[{json.dumps(name)}, {json.dumps(b64encode(raw).decode())}]" for name, raw in files)
    script = f"Promise.all([{made}].map(([name, raw]) => ofFile(new File([bytesOf(raw)], name))))"
    script += ".then((found) => parent.postMessage(JSON.stringify({ found }), '*'));"
    found = seen_by_script((tmp_path / "activity.html").read_text("utf-8"), script, tmp_path, 5000, 900)["found"]
    graph = tw.load(path).graph
    tensor = graph.tensors[graph.inputs[0]]
    assert found[0] == whole.reshape(3, -1).tolist()
    wanted = np.clip(np.floor(real / tensor.scale + tensor.zero_point + 0.5), -128, 127).reshape(2, -1)
    assert found[1] == wanted.tolist()
    scaled = np.clip(np.floor(rows * ([2, -3] * 4) + [1, 0.5] * 4 + 0.5), -128, 127)
    windows = [scaled[at : at + 8].reshape(-1).tolist() for at in (0, 4)]
    assert found[2] == windows


def test_a_picture_becomes_the_input_that_run_makes_of_it(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install '.[images]'")
    path, picture = tmp_path / "chain.tflite", tmp_path / "picture.png"
    path.write_bytes(to_tflite(tiny.chain()))
    pixels = np.random.default_rng(2).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    image.fromarray(pixels).save(picture)
    tw.export(path, out=tmp_path, format="web")
    raw = json.dumps(b64encode(picture.read_bytes()).decode())
    script = f"ofFile(new File([bytesOf({raw})], 'picture.png'))"
    script += ".then((found) => parent.postMessage(JSON.stringify({ found }), '*'));"
    found = seen_by_script((tmp_path / "chain.html").read_text("utf-8"), script, tmp_path, 5000, 900)["found"]
    assert found == [(read_image(picture, 8, 8, 1).astype(int) - 128).reshape(-1).tolist()]


def test_classes_and_preparation_are_read_from_beside_the_model(tmp_path: Path) -> None:
    """A report of the model may have the name of such a file; it is ignored, as a damaged file is."""
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    (tmp_path / "data").mkdir()
    alone = api.preparation_of(tw.load(path))
    assert alone == ((), {"task": "images", "scale": [1.0], "offset": [-128.0]})
    of_run = {"kind": "sounds", "classes": ["yes", "no"], "preparation": {"source": "sounds", "seconds": 1.0}}
    of_run["preparation"]["features"] = log_mel(16000).record()
    (tmp_path / "data" / "data.json").write_text(json.dumps(of_run))
    assert api.preparation_of(tw.load(path)) == (("yes", "no"), alone[1]), "its sounds have other features than the input"
    for text in ("{", "[]", '{"model": 3}', '{"classes": 3}', '{"classes": [], "preparation": {"source": "smells"}}'):
        path.with_suffix(".json").write_text(text)
        assert api.preparation_of(tw.load(path))[0] == ("yes", "no")
    path.with_suffix(".json").write_text('{"classes": ["a"], "preparation": {"source": "images", "scale": 1, "offset": -128}}')
    assert api.preparation_of(tw.load(path)) == (("a",), {"task": "images", "scale": [1.0], "offset": [-128.0]})


def test_a_preparation_that_does_not_suit_the_input_is_ignored(tmp_path: Path) -> None:
    """A page with it showed nothing: its data was no JSON, or a function of the browser raised an error."""
    path, beside = tmp_path / "digits.tflite", tmp_path / "digits.json"
    path.write_bytes(DIGITS.read_bytes())
    alone, about = api.preparation_of(tw.load(path))[1], json.loads(DIGITS.with_suffix(".json").read_text())
    beside.write_text(json.dumps(about))
    assert api.preparation_of(tw.load(path))[1] != alone
    prepared, sound = about["preparation"], about["preparation"]["features"]
    others = [{"source": "images", "scale": factor, "offset": 0} for factor in (math.nan, math.inf, [], [1, 2], [1, 2, 3])]
    others += [prepared | {"features": sound | {key: value}} for key in sound for value in (math.nan, -1)]
    others += [prepared | {"features": sound | {"frame": 100, "hop": 161}}, prepared | {"seconds": 1e9}]
    for other in others:
        beside.write_text(json.dumps(about | {"preparation": other}))
        assert api.preparation_of(tw.load(path))[1] == alone, other
    flat = tmp_path / "flat.tflite"
    flat.write_bytes(to_tflite(tiny.graph("flat", [tiny.activation(n, (1, 3)) for n in "xy"], [RELU], ("x",), ("y",))))
    flat.with_suffix(".json").write_text(json.dumps(about | {"preparation": {"source": "images"}}))
    assert api.preparation_of(tw.load(flat))[1]["task"] is None
    for factors in ({"scale": [math.nan], "offset": [0.0]}, {"scale": [], "offset": [0.0]}):
        path.write_bytes(to_tflite(tiny.chain(), metadata={METADATA: json.dumps({"inputs": [factors]}).encode()}))
        beside.unlink(missing_ok=True)
        assert api.preparation_of(tw.load(path))[1]["scale"] == [1.0]


def test_factors_that_the_file_records_are_in_steps_of_the_input(tmp_path: Path) -> None:
    path, about = tmp_path / "chain.tflite", {"inputs": [{"scale": [0.5], "offset": [-1.0]}]}
    path.write_bytes(to_tflite(tiny.chain(), metadata={METADATA: json.dumps(about).encode()}))
    _, found = api.preparation_of(tw.load(path))
    assert found["scale"] == pytest.approx([0.5 / 0.02]) and found["offset"] == pytest.approx([-1 / 0.02 - 128])


def test_the_example_says_how_its_sounds_are_prepared() -> None:
    classes, found = api.preparation_of(tw.load(DIGITS))
    assert len(classes) == 10 and found["features"] == log_mel(8000, 32).record() and found["seconds"] == 1.0


def test_what_a_page_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tw.CompileError, match="streams rows, and the page's inputs and outputs are whole; leave"):
        export(tmp_path / "a", "web", stream_inputs=True)
    path = tmp_path / "counter.tflite"
    path.write_bytes(to_tflite(counter()))
    assert tw.export(path, out=tmp_path / "b", format="cmake").files
    with pytest.raises(tw.CompileError, match="counter has no input; choose another"):
        tw.export(path, out=tmp_path / "a", format="web")
    monkeypatch.setattr(toolchain, "_zig_of_package", lambda: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(tw.CompileError, match=r"zig, which builds WebAssembly, is not installed; .*install ziglang"):
        export(tmp_path / "a", "web")
    assert not (tmp_path / "a").exists()
