"""Floats outside of the arena: write_input and read_output of the emitted C, and the proof, which runs them (`--io auto`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.strict import c99
from cases.tiny import NETWORKS, activation, graph
from cli.running import run
from codegen.emitted import emitted

import tinyweave as tw
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor, limits, rebuild, verify
from tinyweave.ops.quantization import add_floats
from tinyweave.passes import run_passes
from tinyweave.planning import plan
from tinyweave.report.record import outputs_record, record
from tinyweave.simulate import compare
from tinyweave.simulate.target import HOST
from tinyweave.support import toolchain

TYPES = [("int8", 0.0235, -3), ("int16", 0.01, 0), ("uint8", 0.02, 130)]
WINDOW = {"kernel": (1, 1), "stride": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
CORES = ("cortex-m4", "cortex-m0plus", "rv32imc")  # with and without floating point in hardware
CASES = [("int8", 0.0235, -3), ("int8", 1 / 255, -128), ("int16", 0.003, 0), ("int8", 2.1e-12, 127), ("int16", 9e11, 0)]


def floats(count: int, dtype: str = "int8", scale: float = 0.0235, zero_point: int = -3, *, turn: bool = False) -> Graph:
    """Return a pool that changes no value, between conversions from and to float32 and, with `turn`, transposes."""
    shape = (1, count, 2, 3 if turn else 1)
    outer = (1, 3, count, 2) if turn else shape
    quantised = [activation(name, shape, scale, zero_point, dtype) for name in ("q", "y")]
    tensors = [Tensor("x", outer, "float32"), *quantised, Tensor("out", outer, "float32")]
    between = [Op("pool", "max_pool_2d", ("q",), ("y",), WINDOW)]
    if turn:
        tensors += [replace(tensor, name=f"{tensor.name}_turned", shape=outer) for tensor in quantised]
        for name, order in (("last", (0, 2, 3, 1)), ("first", (0, 3, 1, 2))):
            tensors.append(Tensor(name, (4,), "int32", None, np.array(order, np.int32), "constant"))
        between.insert(0, Op("to_last", "transpose", ("q_turned", "last"), ("q",)))
        between.append(Op("to_first", "transpose", ("y", "first"), ("y_turned",)))
    first, last = ("q_turned", "y_turned") if turn else ("q", "y")
    ops = [Op("in", "quantize", ("x",), (first,)), *between, Op("out", "dequantize", (last,), ("out",))]
    return graph("floats", tensors, ops, ("x",), ("out",))


def reals(tensor: Tensor) -> np.ndarray:
    """Return whole and half steps and their neighbours, the ends of both types, NaN, infinities, and random floats."""
    rng, step, low, high = np.random.default_rng(1), np.float32(tensor.scale), *limits(tensor.dtype)
    with np.errstate(over="ignore", under="ignore"):
        halves = (np.arange(-600, 601).astype(np.float32) / 2) * step
        ends = np.array([low - 1, low - 0.5, low, high, high + 0.5, high + 1, 131071, 131072, -131072, 2.0**31]) * step
        ends = ends.astype(np.float32)
        beside = [np.nextafter(each, np.float32(end)) for each in (halves, ends) for end in (-np.inf, np.inf)]
        odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 1.1754944e-38], np.float32)
        random = (rng.normal(size=1500) * 10.0 ** rng.integers(-8, 8, 1500)).astype(np.float32)
        steps = rng.integers(low, high + 1, 1500).astype(np.float32) * step
    found = np.concatenate([halves, ends, *beside, odd, random, steps]).astype(np.float32)
    return found[: len(found) // 2 * 2]


@pytest.mark.emulator
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]:g}")
def test_floats_are_converted_as_by_the_networks_own_ops(case: tuple[str, float, int], tmp_path: Path, emulator: None) -> None:
    """The samples are longer than a piece that the proof writes at once, so that pieces are tested, too."""
    values = reals(floats(1, *case).tensors["q"])
    original = floats(len(values) // 2, *case)
    inner, _ = run_passes(original, io="auto")
    assert [op.kind for op in inner.ops] == ["max_pool_2d"] and original.tensors["x"].elements > 4000
    made, samples = plan(inner), [[each.reshape(original.tensors["x"].shape)] for each in (values, values[::-1])]
    samples = [[np.ascontiguousarray(each)] for (each,) in samples]
    outside = add_floats(inner, original)
    right = compare.truth(original, samples)
    done = compare.verify(made, emitted(made, tmp_path), "floats", samples, cores=CORES, outside=outside, right=right)
    assert done.ok, done.first_difference or dict(done.touched)


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m55"])
def test_floats_are_converted_on_a_core_in_qemu(core: str, tmp_path: Path, emulator: None) -> None:
    original = floats(600)
    inner, _ = run_passes(original, io="auto")
    made, samples = plan(inner), compare.samples(original, 4, 0)
    folder = emitted(made, tmp_path)
    done = compare.verify(made, folder, "floats", samples, cores=[core], outside=add_floats(inner, original))
    assert done.ok, done.first_difference or dict(done.touched)


FAULTS = {
    "writes pieces to the beginning": ("input[first + i] = ", "input[i] = "),
    "reads pieces from the beginning": ("(output[first + i])", "(output[i])"),
    "writes one value only": ("input_0(values[i])", "input_0(values[0])"),
    "rounds down": ("(twice + 1 + (twice >> 31))", "twice"),
    "leaves the last float out": ("i < count; ++i) {\n            input", "i < count - 1; ++i) {\n            input"),
    "does not scale": ("_SCALE * FLOATS_AS", "_ZERO_POINT * FLOATS_AS"),
    "refuses": ("first > FLOATS_INPUT_0_ELEMENTS - count", "first > FLOATS_INPUT_0_ELEMENTS - count - 1"),
}


@pytest.mark.emulator
@pytest.mark.parametrize("target", [HOST, "cortex-m4"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_proof_runs_the_functions(fault: str, target: str, tmp_path: Path, emulator: None) -> None:
    original = floats(1200)
    inner, _ = run_passes(original, io="auto")
    made, outside = plan(inner), add_floats(inner, original)
    header = emitted(made, tmp_path) / "floats.h"
    right, wrong = FAULTS[fault]
    text = header.read_text()
    assert text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    samples = compare.samples(outside, 4, 0)
    try:
        built = compare.build(made, tmp_path, "floats", target, outside=outside)
        done = compare.verdict(compare.truth(outside, samples), samples, [compare.run_samples(built, samples)])
    except CompileError as error:
        assert fault != "refuses" or "write_" in str(error)
        return
    assert not done.ok


BOUNDS = """
#include <limits.h>
#include <stdio.h>
#include "NAME.h"

static uint8_t arena[NAMED_SRAM_BYTES] __attribute__((aligned(NAMED_ALIGN)));

int main(void)
{
    const NAME_memory memory = {{arena, sizeof arena}};
    float values[4096] = {0};
    int32_t index, first, count;
    if (NAME_init(&memory)) {
        return 1;
    }
    while (scanf("%d %d %d", &index, &first, &count) == 3) {
        for (size_t i = 0; i < sizeof arena; ++i) {
            arena[i] = 77;
        }
        const int written = NAME_write_input(&memory, index, first, values, count);
        int changed = 0;
        for (size_t i = 0; i < sizeof arena; ++i) {
            changed += arena[i] != 77;
        }
        printf("%d %d %d\\n", written, changed, NAME_read_output(&memory, index, first, values, count));
    }
    return 0;
}
"""


def answers(made_of: Graph, folder: Path, calls: list[tuple[int, int, int]], **streams: bool) -> list[list[int]]:
    """Return for each call (index, first, count): the result of write_input, bytes changed, the result of read_output."""
    model = api.load(file_of(made_of, folder))
    made = api.plan(model, **streams)
    emitted(made, folder, "m")
    (folder / "main.c").write_text(BOUNDS.replace("NAMED", "M").replace("NAME", "m"))
    tool = toolchain.host()
    toolchain.compile_c(tool, [*c99(tool.name), "-I", folder, *sorted(folder.glob("*.c")), "-o", folder / "program"])
    given = "".join(f"{index} {first} {count}\n" for index, first, count in calls)
    done = subprocess.run([folder / "program"], input=given, capture_output=True, text=True, check=True)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def file_of(network: Graph, folder: Path) -> Path:
    path = folder / f"{network.name}.tflite"
    path.write_bytes(to_tflite(network))
    return path


def test_elements_that_do_not_exist_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    most = 2**31 - 1
    right = [(0, 0, 40), (0, 39, 1), (0, 40, 0), (0, 7, 20)]
    wrong = [(0, 0, 41), (0, 40, 1), (0, -1, 1), (0, 0, -1), (0, most, 1), (0, 1, most), (0, most, most), (0, -most, most)]
    wrong += [(1, 0, 1), (-1, 0, 1), (most, 0, 0)]
    found = answers(floats(20), tmp_path, [*right, *wrong])
    assert found == [*([0, count, 0] for _, _, count in right), *([-1, 0, -1] for _ in wrong)]


def test_streamed_inputs_and_outputs_are_refused(tmp_path: Path) -> None:
    assert answers(floats(20), tmp_path, [(0, 0, 1)], stream_inputs=True, stream_outputs=True) == [[-1, 0, -1]]


def without_arena(path: Path, **options: object) -> tuple[tw.Model, tw.Plan]:
    model = api.load(path, **options)
    return model, api.plan(model, optimize="size")


@pytest.mark.litert
@pytest.mark.emulator
@pytest.mark.parametrize("network", [NETWORKS["edges"], *(lambda given=given: floats(300, *given) for given in TYPES)])
def test_floats_take_no_arena_and_the_outputs_are_litert_s(
    network: Callable[[], Graph], tmp_path: Path, emulator: None
) -> None:
    path, arenas = file_of(network(), tmp_path), {}
    for io in ("auto", "model"):
        model, made = without_arena(path, io=io)
        arenas[io] = sum(made.arena.values())
        rng = np.random.default_rng(5)
        drawn = [[(rng.normal(size=model.outside.tensors["x"].shape) * 2).astype(np.float32)] for _ in range(3)]
        done = api.verify_plan(model, made, api.ProofOptions(drawn, 6), core="cortex-m4")
        assert done.ok and done.reference == "LiteRT's reference kernels, equal to numpy reference", done
        assert "float32" in repr(model) and model.io == io
    model, made = without_arena(path)
    assert model.io == "auto" and sum(made.arena.values()) == arenas["auto"] <= arenas["model"] / 1.5
    if model.graph.tensors[model.graph.inputs[0]].dtype == "int8":
        assert sum(without_arena(path, io="int8")[1].arena.values()) == arenas["auto"]


@pytest.mark.litert
@pytest.mark.parametrize("io", ["auto", "int8", "model"])
def test_a_quantised_uint8_input_may_be_an_output_too(io: str, tmp_path: Path) -> None:
    network = floats(20, *TYPES[2])
    model = api.load(file_of(replace(network, outputs=("q", *network.outputs)), tmp_path), io=io)
    done = api.verify_plan(model, api.plan(model), api.ProofOptions(count=5), core=None)
    assert done.ok and done.reference.startswith("LiteRT's reference kernels, equal"), done.without_litert


@pytest.mark.litert
@pytest.mark.parametrize(("inputs", "outputs"), [(True, False), (False, True), (True, True)])
def test_rows_of_floats_are_streamed_as_integers(inputs: bool, outputs: bool, tmp_path: Path) -> None:
    model = api.load(file_of(floats(20), tmp_path))
    made = api.plan(model, stream_inputs=inputs, stream_outputs=outputs)
    assert (bool(made.streamed_inputs), bool(made.streamed_outputs)) == (inputs, outputs)
    done = api.verify_plan(model, made, api.ProofOptions(count=5), core="cortex-m4")
    assert done.ok and done.reference.startswith("LiteRT's reference kernels, equal"), done.first_difference


def test_the_first_wrong_layer_of_streamed_floats_is_named(tmp_path: Path) -> None:
    original = floats(20)
    inner, _ = run_passes(original, io="auto")
    made = plan(inner, replace(api.request_of(api.PlanOptions(stream_outputs=True), None)))
    outside = add_floats(inner, original)
    folder = emitted(made, tmp_path)
    body = (folder / "floats.c").read_text()
    (folder / "floats.c").write_text(body.replace("127", "3"))
    done = compare.verify(made, folder, "floats", compare.samples(outside, 4, 0), cores=(), outside=outside)
    assert not done.ok and "the first layer that differs is pool" in str(done.first_difference)


@pytest.mark.litert
def test_channels_may_be_moved_last_as_well(tmp_path: Path) -> None:
    model = api.load(file_of(floats(20, turn=True), tmp_path), layout="nhwc")
    outer = model.outside.tensors[model.outside.inputs[0]]
    assert (outer.dtype, outer.shape, len(model.graph.ops)) == ("float32", (1, 20, 2, 3), 1)
    done = api.verify_plan(model, api.plan(model), api.ProofOptions(count=5), core=None)
    assert done.ok and done.reference.startswith("LiteRT's reference kernels, equal"), done.first_difference


def test_uint8_edges_and_integers_stay(tmp_path: Path) -> None:
    """A conversion of uint8 takes no RAM, and cameras deliver uint8."""
    before = NETWORKS["chain"]()
    quant = Quant((before.tensors["image"].scale,), (0,))
    outer = Tensor("outer", before.tensors["image"].shape, "uint8", quant)
    likely = replace(before.tensors["scores"], name="likely", dtype="uint8", quant=Quant((1 / 256,), (0,)))
    ops = (Op("in", "quantize", ("outer",), ("image",)), *before.ops, Op("out", "quantize", ("scores",), ("likely",)))
    tensors = before.tensors | {"outer": outer, "likely": likely}
    whole = verify(rebuild(replace(before, tensors=tensors), ops=ops, inputs=("outer",), outputs=("likely",)))
    path = file_of(whole, tmp_path)
    models = {io: api.load(path, io=io) for io in ("auto", "model", "int8")}
    for net, dtype in zip([model.graph for model in models.values()], ["uint8", "uint8", "int8"], strict=True):
        assert [net.tensors[name].dtype for name in (*net.inputs, *net.outputs)] == [dtype, dtype]
    arenas = {sum(api.plan(model, optimize="size").arena.values()) for model in models.values()}
    assert len(arenas) == 1
    assert models["auto"].outside is not models["auto"].graph and models["auto"].outside.inputs == ("outer",)


def test_outputs_of_run_are_floats(tmp_path: Path) -> None:
    x = np.random.default_rng(2).normal(size=(3, 1, 5)).astype(np.float32)
    path = file_of(NETWORKS["edges"](), tmp_path)
    found = [tw.run(tw.load(path, io=io), x) for io in ("auto", "model")]
    assert found[0].values[0][0].dtype == np.float32
    assert np.array_equal(found[0].real[0], found[1].real[0])
    (output,) = outputs_record(found[0])["model"]["outputs"]
    assert (output["dtype"], output["scale"], output["floats"]) == ("float32", None, False)


def test_reports_name_the_types_of_the_c_and_floats_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(NETWORKS["edges"](), tmp_path)
    ends = [record(tw.load(path, io=io))["model"][key][0] for io in ("auto", "model") for key in ("inputs", "outputs")]
    assert [(end["dtype"], end["floats"]) for end in ends] == [("int8", True)] * 2 + [("float32", False)] * 2
    for words, count in (((), 2), (("--io", "model"), 0), (("--io", "int8"), 0)):
        assert run("inspect", path, *words) == 0
        assert capsys.readouterr().out.count("float in the file") == count


def test_firmware_of_tflite_micro_keeps_its_floats(tmp_path: Path) -> None:
    path = file_of(NETWORKS["edges"](), tmp_path)
    for form, io, ctype in (("tflm", "model", "float"), ("cmake", "auto", "int8_t")):
        done = tw.export(path, out=tmp_path / form, format=form)
        header = next((tmp_path / form).rglob("edges.h")).read_text()
        assert done.models[0].io == io and f"EDGES_INPUT_0_TYPE {ctype}\n" in header
