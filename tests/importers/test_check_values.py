"""An import that changes values is refused; models that no other evaluator can run are imported without a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import Case, floats, model, one  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave.api import read  # noqa: E402
from tinyweave.importers import check_values as check  # noqa: E402
from tinyweave.importers import onnx_ops  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.ir import CompileError, Graph  # noqa: E402

CUBE = (1, 5, 5, 5)  # its layout cannot be seen from its shape
HEIGHT_WEIGHTED = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1)
CASES: dict[str, Case] = {
    "a cube": ([("Mul", ("x", "c"), ("m",), {}), ("Relu", ("m",), ("y",), {})], {"x": CUBE}, {"c": HEIGHT_WEIGHTED}),
    "a sequence": one("Relu", 1, 4, 4),
    "logarithms": ([("Log", ("x",), ("l",), {}), ("Relu", ("l",), ("y",), {})], {"x": (1, 9)}, {}),
    "two outputs": ([("Relu", ("x",), ("r",), {}), ("Neg", ("x",), ("y",), {})], {"x": (1, 9)}, {}),
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Return the differences that were found so far."""
    found, difference = list[float | None](), check._difference
    monkeypatch.setattr(check, "_difference", lambda *pair: found.append(difference(*pair)) or found[-1])
    return found


@pytest.mark.parametrize(("name", "evaluator"), [("a cube", "onnx.reference"), *((name, "ONNX Runtime") for name in CASES)])
def test_a_rule_that_changes_values_is_noticed(
    name: str, evaluator: str, ran: list[float | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if evaluator == "ONNX Runtime":
        pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")
    monkeypatch.setattr("tinyweave.importers.onnx.onnx_runs", lambda path: {evaluator: check.onnx_runs(path)[evaluator]})
    path = tmp_path / "net.onnx"
    path.write_bytes(model(CASES[name], ["r", "y"] if name == "two outputs" else ["y"]))
    read(path)
    assert ran and max(each for each in ran if each is not None) < 1e-6
    wrong = lambda b, x: onnx_ops.MAPPED["LeakyRelu"](b, x, alpha=0.01)  # noqa: E731
    monkeypatch.setitem(onnx_ops.MAPPED, "Relu", wrong)  # type: ignore[index]
    with pytest.raises(CompileError, match=rf"differs from {evaluator} by \d+\.\d% of its range.*report this with the model"):
        read(path)


def test_tokens_are_compared(ran: list[float | None], tmp_path: Path) -> None:
    made = onnx.load_from_string(model(([("Gather", ("c", "x"), ("y",), {})], {"x": (1, 6)}, {"c": floats(9, 4)})))
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(made, tmp_path / "tokens.onnx")
    read(tmp_path / "tokens.onnx")
    assert ran == [0]


@pytest.mark.parametrize("child", ["raise SystemExit(1)", "while True: pass", "import os; os.abort()", "print('text')"])
def test_a_model_that_cannot_be_run_elsewhere_is_imported(
    child: str, ran: list[float | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CHILD", child)
    monkeypatch.setattr(check, "MAX_SECONDS", 1)
    (tmp_path / "net.onnx").write_bytes(model(one("Relu", 1, 4)))
    assert read(tmp_path / "net.onnx").original.ops and not ran


def relu(*shape: int) -> Graph:
    return from_onnx(model(one("Relu", *shape)), "relu")


def checked(graph: Graph, *runs: Any) -> None:
    shapes = {name: graph.tensors[name].shape for name in graph.inputs}
    orders = {name: range(len(shape)) for name, shape in shapes.items()}
    check.check_values(graph, shapes, orders, {f"run {index}": run for index, run in enumerate(runs)})


def right(given: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.maximum(given[0], 0)]


def wrong(given: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.maximum(given[0], 0) + np.float32(0.1)]


def test_one_evaluator_that_agrees_is_enough() -> None:
    graph = relu(1, 20)
    checked(graph, right, wrong)
    checked(graph, wrong, right)
    checked(graph, lambda given: None, right)
    with pytest.raises(CompileError, match="'y': differs from run 1"):
        checked(graph, lambda given: None, wrong)


def test_a_second_draw_decides() -> None:
    """Rounding may change the result of a comparison in one draw."""
    answers = [right, wrong]

    def run(given: Sequence[np.ndarray]) -> list[np.ndarray]:
        return answers.pop()(given)

    checked(relu(1, 20), run)
    assert not answers


def test_numbers_that_are_not_finite_are_not_compared() -> None:
    checked(relu(1, 20), lambda given: [np.where(given[0] > 1, np.nan, np.maximum(given[0], 0))])
    checked(relu(1, 20), lambda given: [np.full_like(given[0], np.nan)])


def test_an_output_of_another_shape_differs() -> None:
    with pytest.raises(CompileError, match="differs from run 0 by inf% of its range"):
        checked(relu(1, 20), lambda given: [given[0][:, :7]])


def test_a_large_network_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MOST_EFFORT", 100)
    checked(relu(1, 20), wrong)
    with pytest.raises(CompileError):
        checked(relu(1, 4), wrong)


def test_a_rule_of_pytorch_that_changes_values_is_noticed(ran: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    from tinyweave.importers import aten

    class Counting(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1, 5))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return torch.relu(x) + self.calls

    module, example = Counting().train(), torch.zeros(1, 5)
    program = torch.export.export(module, (example,))
    for load in (lambda: tw.load(module, example), lambda: tw.load(program)):
        ran.clear()
        assert load().original.ops and ran and max(each or 0 for each in ran) < 1e-6
    assert module.training and not module.calls.any() and not program.state_dict["calls"].any()
    monkeypatch.setitem(aten.OPS, "relu", aten.OPS["tanh"])  # type: ignore[index]
    for load in (lambda: tw.load(module, example), lambda: tw.load(program)):
        with pytest.raises(CompileError, match=r"differs from PyTorch by \d+\.\d% of its range"):
            load()
