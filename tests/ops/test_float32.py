"""The float32 forms of the kinds that compute: close to LiteRT on the generated cases as float, and refused by the planner."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from cases.draw import activation, single_op
from cases.ops import Case, cases

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Tensor, verify
from tinyweave.ops.float32 import REFERENCES
from tinyweave.passes import run_passes
from tinyweave.planning import plan


def real(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    """The real numbers that quantised values stand for."""
    assert tensor.quant is not None
    if tensor.quant.axis is None:
        return (tensor.scale * (values.astype(np.float64) - tensor.zero_point)).astype(np.float32)
    shape = [-1 if axis == tensor.quant.axis else 1 for axis in range(len(tensor.shape))]
    return (np.array(tensor.quant.scale).reshape(shape) * values).astype(np.float32)


def float_case(case: Case) -> Case:
    tensors = {}
    for tensor in case.graph.tensors.values():
        data = tensor.data if tensor.data is None or tensor.quant is None else real(tensor, tensor.data)
        dtype = "float32" if tensor.quant is not None else tensor.dtype
        tensors[tensor.name] = replace(tensor, dtype=dtype, data=data, quant=None)
    inputs = [
        [real(case.graph.tensors[n], x) for n, x in zip(case.graph.inputs, sample, strict=True)] for sample in case.inputs
    ]
    return Case(case.id, verify(replace(case.graph, tensors=tensors)), inputs)


def largest_sum(case: Case, arrays: list[np.ndarray]) -> float:
    """What an output could reach before its clamp: where large terms cancel, a sum may err by a few units of them."""
    largest = max(1.0, *(float(np.abs(x).max()) for x in arrays))
    weights, bias = (case.graph.tensors.get(name) for name in ("weights", "bias"))
    if weights is not None:
        terms = weights.elements // case.graph.output(case.graph.ops[0]).shape[-1]
        largest *= terms * float(np.abs(weights.data).max())
    return largest + (float(np.abs(bias.data).max()) if bias is not None else 0.0)


@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(REFERENCES))
def test_float32_is_close_to_litert(kind: str, litert: ModuleType) -> None:
    compared = 0
    for case in map(float_case, cases(kind)):
        ops.check(case.graph)
        for arrays, run in zip(case.inputs, litert.run(to_tflite(case.graph), case.inputs), strict=True):
            (computed,) = ops.run(case.graph, dict(zip(case.graph.inputs, arrays, strict=True))).values()
            (expected,) = run.outputs
            assert computed.shape == expected.shape and computed.dtype == expected.dtype == np.float32
            assert np.allclose(computed, expected, rtol=1e-5, atol=1e-6 * largest_sum(case, arrays)), case.id
            compared += 1
    assert compared > 30


def test_the_planner_says_to_quantise_first() -> None:
    graph, _ = run_passes(float_case(next(cases("conv_2d"))).graph, float_io=True)
    with pytest.raises(CompileError, match=r"no kernel runs it on float32 -> float32; .*; quantise the model to int8 first"):
        plan(graph)


def test_int8_weights_of_a_float32_op_are_refused() -> None:
    case = float_case(next(cases("fully_connected")))
    weights = case.graph.tensors["weights"]
    mixed = {**case.graph.tensors, "weights": replace(weights, dtype="int8", data=weights.data.astype(np.int8))}
    with pytest.raises(CompileError, match="all tensors must be float32 where the input is"):
        ops.check(replace(case.graph, tensors=mixed))


def test_integers_keep_their_own_rows() -> None:
    graph = single_op(
        "relu", [activation("input", (1, 4), np.random.default_rng(0))], activation("output", (), np.random.default_rng(1)), {}
    )
    assert ops.spec_for(graph, graph.ops[0]) is ops.SPECS["relu"]
