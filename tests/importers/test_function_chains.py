"""GELU written with erf becomes one op; an erf in any other chain is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tinyweave import ops  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402

Nodes = list[tuple[str, Sequence[str], str]]
NUMBERS = {"root": math.sqrt(2), "inverse": math.sqrt(0.5), "one": 1.0, "half": 0.5, "two": 2.0}
X = np.linspace(-4, 4, 24).astype(np.float32).reshape(1, 24)


def file(nodes: Nodes, outputs: Sequence[str] = ("y",), as_nodes: bool = False, numbers: dict[str, Any] = NUMBERS) -> bytes:
    arrays = {name: numpy_helper.from_array(np.array(value, np.float32), name) for name, value in numbers.items()}
    made = [helper.make_node("Constant", [], [name], value=array) for name, array in arrays.items()] if as_nodes else []
    made += [helper.make_node(op, list(given), [out]) for op, given, out in nodes]
    edges = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 24)) for name in names] for names in (["x"], outputs)]
    graph = helper.make_graph(made, "case", *edges, [] if as_nodes else list(arrays.values()))
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString())


def chain(start: str, end: str, swapped: bool) -> Nodes:
    """Return the nodes of a GELU; `start` says how x is scaled, `end` the order of the products."""
    nodes: Nodes = [("Div", ("x", "root"), "a") if start == "div" else ("Mul", ("x", "inverse"), "a")]
    nodes += [("Erf", ("a",), "b"), ("Add", ("b", "one"), "c")]
    nodes += {
        "x then half": [("Mul", ("x", "c"), "d"), ("Mul", ("d", "half"), "y")],
        "half of x first": [("Mul", ("x", "half"), "d"), ("Mul", ("d", "c"), "y")],
        "x by two first": [("Div", ("x", "two"), "d"), ("Mul", ("d", "c"), "y")],
        "half of the sum first": [("Mul", ("c", "half"), "d"), ("Mul", ("d", "x"), "y")],
        "x then by two": [("Mul", ("x", "c"), "d"), ("Div", ("d", "two"), "y")],
    }[end]
    return [(op, given[::-1] if swapped and op != "Div" else given, out) for op, given, out in nodes]


START = chain("div", "x then half", False)[:3]
ENDS = ("x then half", "half of x first", "x by two first", "half of the sum first", "x then by two")


@pytest.mark.parametrize("start, end, swapped", [*itertools.product(("div", "mul"), ENDS, (False, True))])
def test_every_form_of_gelu_becomes_one_op(start: str, end: str, swapped: bool) -> None:
    data = file(chain(start, end, swapped), as_nodes=swapped)
    graph = from_onnx(data, "net")
    assert [op.kind for op in graph.ops] == ["gelu"] and not graph.ops[0].attrs["approximate"]
    (expected,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"x": X})
    np.testing.assert_allclose(ops.run(graph, {"x": X})[graph.outputs[0]], expected, atol=1e-5)


def test_two_gelus_in_a_row_become_two_ops() -> None:
    first, second = chain("div", "x then half", False), chain("mul", "half of x first", True)
    renamed = {name: f"{name}2" for name in "abcd"} | {"x": "y", "y": "z"}
    nodes = first + [(op, tuple(renamed.get(n, n) for n in given), renamed[out]) for op, given, out in second]
    graph = from_onnx(file(nodes, ("z",)), "net")
    assert [op.kind for op in graph.ops] == ["gelu", "gelu"]


@pytest.mark.parametrize(
    "nodes, outputs, numbers",
    [
        (chain("div", "x then half", False), ("y", "c"), {}),  # the sum is given out
        ([*chain("div", "x then half", False), ("Neg", ("b",), "z")], ("y", "z"), {}),  # the erf is read elsewhere
        (chain("div", "x then half", False), ("y",), {"root": 1.5}),
        (chain("mul", "x then half", False), ("y",), {"one": 1.1}),
        (chain("div", "half of the sum first", False), ("y",), {"half": 0.4}),
        (chain("div", "half of x first", False), ("y",), {"half": 0.4}),
        ([*chain("div", "x then half", False)[:3], ("Mul", ("c", "half"), "d"), ("Mul", ("d", "a"), "y")], ("y",), {}),
        (chain("div", "x then half", False)[:4], ("d",), {}),
        ([("Erf", ("x",), "y")], ("y",), {}),
        (chain("div", "x then half", False), ("y",), {"root": 1.01 * math.sqrt(2)}),
        (chain("div", "x then half", False), ("y",), {"one": 1.01}),
        (chain("div", "x then half", False), ("y",), {"half": 0.505}),
        (chain("div", "half of x first", False), ("y",), {"half": 0.505}),
        (chain("div", "x then half", False), ("y",), {"root": [math.sqrt(2), *[1.5] * 23]}),  # one per element
        ([("Sub", ("x", "root"), "a"), *chain("div", "x then half", False)[1:]], ("y",), {}),
        ([*START, ("Mul", ("c", "half"), "d"), ("Mul", ("d", "half"), "e"), ("Mul", ("e", "x"), "y")], ("y",), {}),
        ([*START, ("Mul", ("c", "x"), "d"), ("Mul", ("d", "x"), "e"), ("Mul", ("e", "half"), "y")], ("y",), {}),
        ([*START, ("Mul", ("c", "half"), "d"), ("Mul", ("x", "half"), "e"), ("Mul", ("d", "e"), "y")], ("y",), {}),
    ],
)
def test_an_erf_outside_of_a_gelu_is_imported_as_erf(nodes: Nodes, outputs: Sequence[str], numbers: dict[str, Any]) -> None:
    kinds = [op.kind for op in from_onnx(file(nodes, outputs, numbers=NUMBERS | numbers), "net").ops]
    assert kinds.count("erf") == 1 and "gelu" not in kinds


def test_a_scaled_input_with_another_reader_is_kept_beside_the_gelu() -> None:
    nodes = [*chain("mul", "half of x first", False), ("Neg", ("a",), "z"), ("Neg", ("d",), "w")]
    graph = from_onnx(file(nodes, ("y", "z", "w")), "net")
    assert "gelu" in {op.kind for op in graph.ops} and len(graph.outputs) == 3


def test_the_inputs_of_a_kept_node_are_kept() -> None:
    nodes: Nodes = [
        *START,
        ("Mul", ("x", "half"), "d"),
        ("Mul", ("d", "one"), "e"),
        ("Mul", ("e", "c"), "y"),
        ("Neg", ("e",), "z"),
    ]
    graph = from_onnx(file(nodes, ("y", "z")), "net")
    assert [op.kind for op in graph.ops] == ["mul", "mul", "gelu", "mul"]


def test_the_factor_one_half_may_be_applied_to_the_erf() -> None:
    nodes: Nodes = [*START[:2], ("Mul", ("b", "half"), "c"), ("Add", ("c", "half"), "d"), ("Mul", ("x", "d"), "y")]
    assert [op.kind for op in from_onnx(file(nodes), "net").ops] == ["gelu"]


def test_a_gelu_written_in_pytorch_becomes_one_op(tmp_path: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))

    from tinyweave.importers.torch import from_module

    graph = from_module(Net(), torch.from_numpy(X))
    assert [op.kind for op in graph.ops] == ["gelu"]
    expected = Net()(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(ops.run(graph, {graph.inputs[0]: X})[graph.outputs[0]], expected, atol=1e-5)


def test_an_erf_outside_of_a_gelu_in_pytorch_is_imported_as_erf() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    from tinyweave.importers.torch import from_module

    class Of(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.function(x)

    def changed_between(x: Any) -> Any:
        y = x * 2
        half, below = 0.5 * y, 1.0 + torch.erf(y / math.sqrt(2.0))
        return y.mul_(3) + half * below

    for function in (lambda x: 0.5 * x * torch.add(torch.erf(x / math.sqrt(2.0)), 1, alpha=2), changed_between):
        graph = from_module(Of(function), torch.from_numpy(X))
        assert "erf" in {op.kind for op in graph.ops}
        (found,) = ops.run(graph, {graph.inputs[0]: X}).values()
        np.testing.assert_allclose(found, function(torch.from_numpy(X)).numpy(), atol=1e-5)
    with pytest.raises(CompileError, match="1 op of the PyTorch model cannot be imported: div "):
        divided = Of(lambda x: 0.5 * x * (1.0 + torch.erf(torch.div(x, math.sqrt(2.0), rounding_mode="floor"))))
        from_module(divided, torch.from_numpy(X))
