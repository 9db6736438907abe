"""An int8 LSTM: its states have the types and scales that the kernel requires, and are reset for each sequence."""

from __future__ import annotations

import numpy as np
import pytest

from tinyweave import ops
from tinyweave.importers.aten.recurrent import RECURRENT
from tinyweave.importers.channels_last import Builder, Map
from tinyweave.ir import Graph, Quant, Tensor, verify
from tinyweave.quantize.calibrate import largest_cell_states, power_of_two_quant
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.convert import quantised
from tinyweave.quantize.evaluate import evaluate, outputs
from tinyweave.quantize.fidelity import fidelity
from tinyweave.quantize.ptq import QuantiseOptions, quantise

STEPS, DEPTH, CELLS = 9, 5, 7


def network(seed: int = 0, forget: float = 0.0, steps: int = STEPS) -> Graph:
    """Return an LSTM over a sequence; `forget` is added to the bias of the forget gate, so that cells forget less."""
    rng, b = np.random.default_rng(seed), Builder(where="lstm")
    time, depth = b.new_axis(steps), b.new_axis(DEPTH)
    x = Map(b.add(Tensor("x", (1, steps, DEPTH), "float32")), ((), time, depth), ((), time, depth))
    shapes = (4 * CELLS, DEPTH), (4 * CELLS, CELLS), (4 * CELLS,), (4 * CELLS,)
    parameters = [rng.normal(size=shape, scale=0.5).astype(np.float32) for shape in shapes]
    parameters[2][CELLS : 2 * CELLS] += forget
    sequence, *_ = RECURRENT["lstm"](b, x, [np.zeros(1)] * 2, parameters, True, 1, 0.0, False, False, True)
    return ops.check(verify(b.graph("net", ["x"], [sequence.tensor])))


def sequences(count: int = 12) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 1, STEPS, DEPTH)).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_the_int8_lstm_has_a_high_sqnr(seed: int) -> None:
    graph, samples = network(seed), open_samples(sequences(), network(seed))
    for method in ("minmax", "auto"):
        done = quantise(graph, samples, QuantiseOptions(method=method))
        assert fidelity(done.real, done.graph, samples).sqnr_db > 33, method


def test_states_of_the_int8_lstm_have_the_types_and_scales_of_the_kernel() -> None:
    small = quantise(network(), open_samples(sequences(), network()), QuantiseOptions(method="minmax")).graph
    (op,) = small.ops
    out, hidden, cell = small.outputs_of(op)
    assert (hidden.role, hidden.dtype, hidden.quant) == ("state", "int8", out.quant)
    assert (cell.role, cell.dtype, cell.zero_point) == ("state", "int16", 0)
    for first in small.init:
        (state,), value = small.outputs_of(first), small.input(first)
        assert value.dtype == state.dtype and (value.data == state.zero_point).all()
    weights = [small.input(op, index) for index in range(1, 9)]
    assert len({tensor.scale for tensor in weights}) == 8 and all(abs(tensor.data).max() == 127 for tensor in weights)


def test_the_largest_cell_state_is_the_maximum_over_all_steps() -> None:
    graph, x = network(forget=3.0), sequences(3)
    ((name, found),) = largest_cell_states(graph, {"x": x}).items()
    greatest = 0.0
    for sample in x:
        for steps in range(1, STEPS + 1):
            cut = network(forget=3.0, steps=steps)
            cell = ops.run(cut, {"x": sample[:, :steps]}, keep=True)[name]
            greatest = max(greatest, float(np.abs(cell).max()))
    assert found == pytest.approx(greatest, rel=1e-6) and found > 1


@pytest.mark.parametrize(
    ("largest", "exponent"), [(0.0, -15), (0.9, -15), (1.0, -14), (1.5, -14), (2.0, -13), (31.0, -10), (63.9, -9), (1000.0, -9)]
)
def test_the_scale_of_a_cell_state_is_a_power_of_two(largest: float, exponent: int) -> None:
    quant = power_of_two_quant(largest)
    assert quant == Quant((2.0**exponent,), (0,))
    assert quantised(np.array([largest]), quant, "int16")[0] < 2**15 - 1 or largest > 60


def test_each_sequence_starts_with_the_initial_state() -> None:
    graph, x = network(), sequences(4)
    alone = np.stack([ops.run(graph, {"x": sample})[graph.outputs[0]] for sample in x])
    assert np.array_equal(outputs(graph, {"x": x})[0], alone)
    kept = evaluate(graph, {"x": x}, keep=True)
    again = evaluate(graph, kept, ops=[graph.ops[0].name], keep=True)
    assert np.array_equal(again[graph.outputs[0]], alone)
