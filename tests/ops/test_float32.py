"""Float32 ops are close to LiteRT on the generated cases converted to float, and the planner refuses them."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from cases.as_float import float_case
from cases.draw import activation, single_op
from cases.ops import NOT_IN_LITERT, Case, cases

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.ops import FLOAT32
from tinyweave.passes import run_passes
from tinyweave.planning import plan


def largest_sum(case: Case, arrays: list[np.ndarray]) -> float:
    """Return a bound on the outputs before their clamp, because the error of a sum scales with its largest terms."""
    largest = max(1.0, *(float(np.abs(x).max()) for x in arrays))
    op, constants = case.graph.ops[0], case.graph.tensors
    names = {"unidirectional_sequence_lstm": op.inputs[1:9], "transpose_conv": op.inputs[1:2]}.get(op.kind, ("weights",))
    terms = constants[names[0]].elements // case.graph.output(op).shape[-1] if names[0] in constants else 1
    largest *= max([1.0, *(terms * float(np.abs(constants[name].data).max()) for name in names if name in constants)])
    bias = constants.get("bias")
    return largest + (float(np.abs(bias.data).max()) if bias is not None else 0.0)


@pytest.mark.litert
@pytest.mark.parametrize("kind", sorted(set(FLOAT32) - NOT_IN_LITERT))
def test_float32_is_close_to_litert(kind: str, litert: ModuleType) -> None:
    compared = 0
    for case in map(float_case, cases(kind)):
        ops.check(case.graph)
        state = ops.initial_state(case.graph)
        for arrays, run in zip(case.inputs, litert.run(to_tflite(case.graph), case.inputs), strict=True):
            given = dict(zip(case.graph.inputs, arrays, strict=True))
            (computed,) = ops.run(case.graph, given, state=state).values()
            (expected,) = run.outputs
            assert (
                computed.shape == expected.shape
                and computed.dtype == expected.dtype == case.graph.output(case.graph.ops[0]).dtype
            )
            assert np.allclose(computed, expected, 1e-5, 1e-6 * largest_sum(case, arrays), equal_nan=True), case.id
            compared += 1
    assert compared > 30


@pytest.mark.parametrize("kind", sorted(kind for kind, spec in ops.SPECS.items() if spec.image and spec.real))
def test_the_image_of_a_function_is_the_interval_of_its_results(kind: str) -> None:
    graph, spec = float_case(next(cases(kind))).graph, ops.SPECS[kind]
    assert spec.image is not None and spec.real is not None
    x = np.concatenate([np.linspace(-20, 20, 40001), [-1e30, -1e-30, 1e-30, 1e30]]).astype(np.float32)
    y = spec.real(graph, graph.ops[0], [x])[0]
    results, (low, high) = y[np.isfinite(y)].astype(np.float64), spec.image
    assert low <= results.min() and results.max() <= high
    assert not np.isfinite(low) or results.min() - low < 1e-3, "the interval is as small as it can be"
    assert not np.isfinite(high) or high - results.max() < 1e-3


def test_the_planner_refuses_a_float32_graph_and_advises_to_quantise() -> None:
    graph, _ = run_passes(float_case(next(cases("conv_2d"))).graph, io="model")
    with pytest.raises(CompileError, match=r"no kernel runs it on float32 -> float32; .*; quantise the model to int8 first"):
        plan(graph)


def test_int8_weights_of_a_float32_op_are_refused() -> None:
    case = float_case(next(cases("fully_connected")))
    weights = case.graph.tensors["weights"]
    mixed = {**case.graph.tensors, "weights": replace(weights, dtype="int8", data=weights.data.astype(np.int8))}
    with pytest.raises(CompileError, match="all tensors must be float32 if the input is"):
        ops.check(replace(case.graph, tensors=mixed))


def test_an_int8_op_has_the_spec_of_its_kind() -> None:
    graph = single_op(
        "relu", [activation("input", (1, 4), np.random.default_rng(0))], activation("output", (), np.random.default_rng(1)), {}
    )
    assert ops.spec_for(graph, graph.ops[0]) is ops.SPECS["relu"]
