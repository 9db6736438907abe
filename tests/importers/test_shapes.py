"""Inputs with dynamic axes get their shapes from the user, in every front end; a dynamic batch becomes 1."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases import floats  # noqa: E402
from cases.from_onnx import model as onnx_model  # noqa: E402
from torch import nn  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave import ops  # noqa: E402
from tinyweave.exporters.tflite import to_tflite  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.pt2 import from_pt2  # noqa: E402
from tinyweave.importers.size_formulas import size_of  # noqa: E402
from tinyweave.importers.tflite import from_tflite  # noqa: E402
from tinyweave.importers.torch import from_any, from_program  # noqa: E402
from tinyweave.ir import CompileError, Graph, diff  # noqa: E402

SHAPE = (1, 3, 10, 14)


class Net(nn.Module):
    """A network that computes with the sizes of its input and of a map inside, as detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3, stride=2), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        rows, columns = y.shape[2:]
        grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")).float().mean(0)
        y = nn.functional.interpolate(y + grid / x.shape[3], size=(rows // 2, columns * 2))
        return self.linear(y.reshape(x.shape[0], 4, (rows // 2) * columns * 2).mean(-1))


@pytest.fixture(scope="module")
def program() -> Any:
    dynamic = torch.export.Dim.DYNAMIC
    return torch.export.export(
        Net().eval(), (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: dynamic, 2: dynamic, 3: dynamic},)
    )


@pytest.fixture(scope="module")
def file(program: Any) -> bytes:
    out = io.BytesIO()
    torch.export.save(program, out)
    return out.getvalue()


def check(graph: Graph, module: nn.Module) -> None:
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    (y,) = ops.run(graph, {graph.inputs[0]: np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy())}).values()
    with torch.no_grad():
        assert np.allclose(y, module(x).numpy(), atol=1e-5)


def test_a_program_and_its_file_compute_with_the_shape_that_is_given(program: Any, file: bytes) -> None:
    for graph in (from_program(program, shapes={"x": SHAPE}), from_pt2(file, "net", {"x": SHAPE})):
        check(graph, program.module())


class Written(nn.Module):
    def forward(self, x: Any) -> Any:
        kept = torch.zeros(1, 4)
        kept.add_(x.reshape(x.shape[0] * x.shape[1], 4).mean(0, keepdim=True))
        return kept * 2


def test_a_constant_is_changed_in_place_in_a_program_that_computes_with_sizes() -> None:
    dynamic = ({1: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Written(), (torch.zeros(1, 6, 4),), dynamic_shapes=dynamic)
    graph, x = from_program(program, shapes={"x": (1, 8, 4)}), np.arange(32, dtype=np.float32).reshape(1, 8, 4)
    (y,) = ops.run(graph, {graph.inputs[0]: x}).values()
    assert np.allclose(y, 2 * x.mean(1))


def test_shapes_are_the_example_of_a_module() -> None:
    module = Net().eval()
    check(from_any(module, shapes={"x": SHAPE}), module)
    with pytest.raises(CompileError, match="forward has no argument 'y'"):
        from_any(module, shapes={"y": SHAPE})
    with pytest.raises(CompileError, match="the example gives the shapes"):
        from_any(module, torch.zeros(SHAPE), {"x": SHAPE})


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({}, "'x': has an axis 2 of dynamic size; give its shape, such as --shape x=1,3,32,32 (in Python shapes={"),
        ({"y": (1, 2)}, "the model has no input 'y'; its inputs are x"),
        ({"x": (1, 3, 10)}, "'x': has 4 axes, and --shape gives 3; give its shape, such as --shape x=1,3,32,32 "),
        ({"x": (1, 4, 10, 14)}, "'x': has the extent 3 on axis 1, and --shape gives 4; export it with this shape"),
    ],
)
def test_a_wrong_or_missing_shape_is_named(program: Any, file: bytes, shapes: Any, words: str) -> None:
    for load in (lambda: from_program(program, shapes=shapes), lambda: from_pt2(file, "net", shapes)):
        with pytest.raises(CompileError) as error:
            load()
        assert words in str(error.value) and "Symbol" not in str(error.value)


def test_a_dynamic_batch_is_1(tmp_path: Path) -> None:
    program = torch.export.export(nn.Linear(4, 2).eval(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "net.pt2")
    for model in (tw.load(tmp_path / "net.pt2"), tw.load(program)):
        assert model.graph.tensors[model.graph.inputs[0]].shape == (1, 4)
    assert tw.load(tmp_path / "net.pt2", shapes={"input": (5, 4)}).graph.tensors["input"].shape == (5, 4)


def test_onnx_extents_without_a_name_may_differ() -> None:
    case: Any = ([("Relu", ("x",), ("y",), {})], {"x": ("?", 3, "?", "?")}, {})
    graph = from_onnx(onnx_model(case), "net", shapes={"x": (1, 3, 6, 5)})
    assert [graph.tensors[name].shape for name in graph.inputs] == [(1, 6, 5, 3)]


def test_onnx_extents_of_one_name_are_equal() -> None:
    case: Any = ([("Add", ("x", "z"), ("y",), {})], {"x": ("n", 3, "h", "w"), "z": ("n", 3, "h", "w")}, {})
    graph = from_onnx(onnx_model(case), "sum", shapes={"x": (1, 3, 6, 5)})
    assert [graph.tensors[name].shape for name in graph.inputs] == [(1, 6, 5, 3)] * 2
    for shapes, words in (
        ({}, "'x': has an axis 2 of dynamic size 'h'; give its shape, such as --shape x=1,3,160,160 (in Python "),
        ({"x": (1, 3, 6, 5), "z": (1, 3, 6, 4)}, "'z': has the extent 5 on axis 3, and --shape gives 4"),
    ):
        with pytest.raises(CompileError) as error:
            from_onnx(onnx_model(case), "sum", shapes=shapes)
        assert words in str(error.value)


def sized(*x: int) -> bytes:
    """Return a .tflite file of a network on an input `x` of this shape, whose rows and columns are dynamic."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs LiteRT: pip install '.[verify]'")
    rng = np.random.default_rng(0)
    shapes = {"w": (6, 3, 3, 4), "b": (6,), "f": (5, 6)}
    tensors = [floats.fixed(name, rng.normal(size=shape)) for name, shape in shapes.items()]
    layer = floats.WINDOW | {"activation": "relu", "dilation": (1, 1)}
    steps: list[floats.Step] = [("conv_2d", ("x", "w", "b"), layer), ("mean", ("t0", "axes"), {"keep_dims": False})]
    steps.append(("fully_connected", ("t1", "f", None), floats.DENSE))
    file = to_tflite(floats.float_graph([*tensors, floats.fixed("axes", np.array([1, 2]))], steps, x))
    model = schema.ModelT.InitFromPackedBuf(file, 0)
    subgraph = model.subgraphs[0]
    subgraph.tensors[subgraph.inputs[0]].shapeSignature = [-1, -1, -1, 4]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_tflite_file_has_the_shapes_that_follow_from_its_inputs() -> None:
    file, larger = sized(1, 8, 8, 4), sized(1, 13, 10, 4)
    assert diff(from_tflite(file, "net", shapes={"x": (1, 13, 10, 4)}), from_tflite(larger, "net")) == []
    for shape, words in (
        ((1, 8, 8, 3), "'x': has the extent 4 on axis 3, and --shape gives 3"),
        ((1, 1 << 13, 1 << 13, 4), "at most 16,777,216 are supported"),
    ):
        with pytest.raises(CompileError) as error:
            from_tflite(file, "net", shapes={"x": shape})
        assert words in str(error.value)
    with pytest.raises(CompileError, match=r"'x': has an axis 1 of dynamic size; give its shape"):
        from_tflite(sized(1, 1, 8, 4), "net")  # 1 stands for a size that the file does not know


@pytest.mark.parametrize(
    ("formula", "size"),
    [
        ("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))", 13),
        ("FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))", 4),
        ("Pow(Symbol('s0'), Integer(2))", 49),
        ("Mod(Symbol('s0'), Integer(4))", 3),
        ("Max(Integer(1), Min(Symbol('s0'), Integer(5)))", 5),
        ("TruncToInt(FloatTrueDiv(ToFloat(Symbol('s0')), Float('2.0', precision=53)))", 3),
        ("Mul(Rational(1, 7), Symbol('s0'))", 1),
        ("Mul(Rational(1, 2), Symbol('s0'))", Fraction(7, 2)),
        ("s0", 7),
        ("Symbol('s1')", None),
        ("Mul(s1, Integer(2))", ValueError),
        ("Pow(Symbol('s0'), Integer(1000000))", ValueError),
        ("Mul(Integer(99999999999999999999), Integer(99999999999999999999))", ValueError),
        ("Add(" * 1024, ValueError),
    ],
)
def test_formulas_of_sizes_are_evaluated(formula: str, size: Any) -> None:
    if size is ValueError:
        with pytest.raises(ValueError, match=r"formula|malformed"):
            size_of(formula, {"s0": 7})
    else:
        assert size_of(formula, {"s0": 7}) == size
