"""The oracle's process: its answers, and what happens when LiteRT refuses, crashes, hangs or is not there."""

from __future__ import annotations

import importlib.util
from importlib.util import find_spec

import numpy as np
import pytest
import tflite
from cases.draw import single_op
from cases.ops import Case, cases

from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Quant, Tensor
from tinyweave.simulate import litert

pytestmark = [
    pytest.mark.litert,
    pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="needs ai-edge-litert: pip install 'tinyweave[verify]'"),
]


def tensor(name: str, shape: tuple[int, ...], scale: float, zero_point: int) -> Tensor:
    return Tensor(name, shape, "int8", Quant((scale,), (zero_point,)))


@pytest.fixture
def case() -> Case:
    return next(cases("relu"))


def test_layers_only_when_asked(case: Case) -> None:
    model = to_tflite(case.graph)
    with litert.Worker() as worker:
        plain, kept = worker.run(model, case.inputs), worker.run(model, case.inputs, keep=True)
    assert [run.layers for run in plain] == [[], []]
    for run in kept:
        assert np.array_equal(run.layers[0][0], run.outputs[0])


def test_unknown_op_version_is_lowered(case: Case) -> None:
    model = bytearray(to_tflite(case.graph))
    code = tflite.Model.GetRootAs(model, 0).OperatorCodes(0)
    known = code.Version()
    field = code._tab.Pos + code._tab.Offset(8)
    model[field : field + 4] = (known + 5).to_bytes(4, "little")
    expected, got = litert.run(to_tflite(case.graph), case.inputs), litert.run(bytes(model), case.inputs)
    assert all(np.array_equal(a.outputs[0], b.outputs[0]) for a, b in zip(expected, got, strict=True))


def test_refusal_crash_and_delay_end_as_errors_and_the_worker_goes_on(case: Case) -> None:
    model = to_tflite(case.graph)
    # LiteRT aborts when the exponentials of a softmax sum to 2^9 or more
    softmax = single_op("softmax", [tensor("input", (1, 600), 0.5, 0)], tensor("output", (), 1 / 256, -128), {"beta": 1.0})
    with litert.Worker() as worker:
        with pytest.raises(CompileError, match="the model has 1 inputs, 0 were given"):
            worker.run(model, [[]])
        with pytest.raises(CompileError, match="LiteRT refuses this model"):
            worker.run(b"TFL3" * 100, [[]])
        with pytest.raises(CompileError, match="LiteRT died with code -6"):
            worker.run(to_tflite(softmax), [[np.zeros((1, 600), np.int8)]])
        with pytest.raises(CompileError, match="did not finish within 0 s"):
            worker.run(model, case.inputs * 1000, timeout_s=0.0)
        assert len(worker.run(model, case.inputs)) == 2


def test_missing_package_says_what_to_install(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"pip install 'tinyweave\[verify\]'"):
        litert.run(to_tflite(case.graph), case.inputs)
