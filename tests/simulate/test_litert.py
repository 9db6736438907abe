"""The process that runs LiteRT: its answers, and its errors if LiteRT rejects a model, crashes, hangs or is not installed."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import tflite
from cases.draw import single_op
from cases.ops import Case, cases

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.simulate import litert, messages
from tinyweave.simulate.litert import CannotRunError
from tinyweave.support.installing import install

pytestmark = [
    pytest.mark.litert,
    pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="needs ai-edge-litert: pip install '.[verify]'"),
]


def tensor(name: str, shape: tuple[int, ...], scale: float, zero_point: int) -> Tensor:
    return Tensor(name, shape, "int8", Quant((scale,), (zero_point,)))


@pytest.fixture
def case() -> Case:
    return next(cases("relu"))


def test_layers_are_returned_only_with_keep(case: Case) -> None:
    model = to_tflite(case.graph)
    plain, kept = litert.run(model, case.inputs), litert.run(model, case.inputs, keep=True)
    assert [run.layers for run in plain] == [{}, {}]
    for run in kept:
        assert np.array_equal(run.layers[case.graph.outputs[0]], run.outputs[0])


def test_an_unknown_op_version_is_lowered(case: Case) -> None:
    model = bytearray(to_tflite(case.graph))
    code = tflite.Model.GetRootAs(model, 0).OperatorCodes(0)
    known = code.Version()
    field = code._tab.Pos + code._tab.Offset(8)
    model[field : field + 4] = (known + 5).to_bytes(4, "little")
    expected, got = litert.run(to_tflite(case.graph), case.inputs), litert.run(bytes(model), case.inputs)
    assert all(np.array_equal(a.outputs[0], b.outputs[0]) for a, b in zip(expected, got, strict=True))


@pytest.fixture
def deadly() -> Graph:
    """Return a softmax on which LiteRT aborts: for equal inputs its exponentials sum to 2^9 or more."""
    return single_op("softmax", [tensor("input", (1, 600), 0.5, 0)], tensor("output", (), 1 / 256, -128), {"beta": 1.0})


def test_rejection_crash_and_timeout_are_errors_and_the_worker_continues(case: Case, deadly: Graph) -> None:
    model = to_tflite(case.graph)
    with pytest.raises(CannotRunError, match="the model has 1 inputs, but 0 were given"):
        litert.run(model, [[]])
    with pytest.raises(CannotRunError, match="LiteRT rejects this model"):
        litert.run(b"TFL3" * 100, [[]])
    with pytest.raises(CannotRunError, match="LiteRT died with code -6"):
        litert.run(to_tflite(deadly), [[np.zeros((1, 600), np.int8)]])
    with pytest.raises(CannotRunError, match="did not finish within 0 s"):
        litert.run(model, case.inputs * 1000, timeout_s=0.0)
    assert len(litert.run(model, case.inputs)) == 2


def test_without_litert_the_error_says_what_to_install(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CannotRunError, match=re.escape(install("verify"))):
        litert.run(to_tflite(case.graph), case.inputs)


def test_a_model_that_crashes_litert_is_verified_with_numpy_alone(deadly: Graph, tmp_path: Path) -> None:
    (tmp_path / "deadly.tflite").write_bytes(to_tflite(deadly))
    model = api.load(tmp_path / "deadly.tflite")
    result = api.verify_plan(model, api.plan(model), api.ProofOptions([[np.zeros((1, 600), np.int8)]], count=1), core=None)
    assert result.ok and result.reference == "numpy reference"
    assert result.without_litert is not None and result.without_litert.startswith("LiteRT died with code -6 on this model")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('numpy is missing')", r"does not start \(code 1\): numpy is missing"),
        ("print('hello, this is not a message of ours')", "does not start"),
        ("import os; os.abort()", r"does not start \(code -6\): no error message"),
    ],
)
def test_a_process_that_does_not_start_is_an_error(
    case: Case, program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a broken installation would silently reduce the verification to the numpy reference."""
    (tmp_path / "m.tflite").write_bytes(to_tflite(case.graph))
    model = api.load(tmp_path / "m.tflite")
    monkeypatch.setattr(litert, "isolated", lambda *_: (sys.executable, "-c", program))
    with pytest.raises(CompileError, match=said) as caught:
        api.verify_plan(model, api.plan(model), api.ProofOptions(count=1), core=None)
    assert not isinstance(caught.value, CannotRunError)


def test_under_a_limit_of_memory_the_advice_is_to_raise_it(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that lacks memory is not broken."""
    monkeypatch.setattr(litert, "isolated", lambda *_: (sys.executable, "-c", "import os; os.abort()"))
    for advice, what_to_do in {"raise the limit": "raise the limit", "": "--force-reinstall"}.items():
        monkeypatch.setattr(litert, "memory_advice", lambda advice=advice: advice)
        with pytest.raises(CompileError, match=what_to_do):
            litert.run(to_tflite(case.graph), case.inputs)


@pytest.mark.parametrize("answer", [b"", b"\0" * 16, messages.encode({"runs": [3]}), messages.HEAD.pack(1 << 60, 0), b"x" * 99])
def test_an_invalid_answer_is_reported_as_a_crash(answer: bytes, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import sys; sys.stdout.buffer.write({messages.encode('ready') + answer!r})"
    monkeypatch.setattr(litert, "isolated", lambda *_: (sys.executable, "-c", program))
    with pytest.raises(CannotRunError, match="LiteRT died"):
        litert.run(to_tflite(case.graph), case.inputs)


def test_messages_preserve_values() -> None:
    value = {
        3: {(1, "a"): []},
        "list": [None, True, 1 << 60, -0.5],
        "bytes": b"\0\xff",
        "none": b"",
        "floats": np.float32([[1, -0.0]]),
    }
    received = messages.decode(BytesIO(messages.encode(value)).read)
    assert messages.decode(BytesIO(messages.encode(np.int32(7))).read) == np.array(7, np.int32)
    assert received.pop("floats").tobytes() == value.pop("floats").tobytes()
    assert received == value
    with pytest.raises(ValueError, match="array of objects"):
        messages.encode(np.array([{}], object))
