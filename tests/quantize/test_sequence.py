"""GRUs and plain RNNs become int8 with a high SQNR; an initial state is quantised like the output."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import Of
from torch import nn

from tinyweave.importers.torch import from_module
from tinyweave.quantize.calibration_samples import open_samples
from tinyweave.quantize.fidelity import fidelity
from tinyweave.quantize.ptq import Quantised, QuantiseOptions, quantise

STEPS, DEPTH, CELLS = 40, 20, 32


def quantised(module: nn.Module, *shapes: tuple[int, ...], method: str = "minmax") -> tuple[Quantised, float]:
    """The int8 form of a module with random weights, and its SQNR in dB on samples that are not those of calibration."""
    graph = from_module(module.eval(), tuple(torch.randn(shape) for shape in shapes))

    def samples(seed: int, count: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {
            n: rng.normal(size=(count, *graph.tensors[n].shape)).astype(np.float32) * scale
            for n, scale in zip(graph.inputs, (1, 0.3, 0.3), strict=False)
        }

    done = quantise(graph, open_samples(samples(0, 32), graph), QuantiseOptions(method=method))
    return done, fidelity(done.real, done.graph, open_samples(samples(1, 16), graph)).sqnr_db


@pytest.mark.parametrize(
    ("layer", "least"),
    [
        (lambda: nn.GRU(DEPTH, CELLS, batch_first=True), 34),
        (lambda: nn.GRU(DEPTH, CELLS, 2, batch_first=True, bidirectional=True), 30),
        (lambda: nn.LSTM(DEPTH, CELLS, batch_first=True, bidirectional=True), 34),
        (lambda: nn.RNN(DEPTH, CELLS, batch_first=True), 36),
        (lambda: nn.RNN(DEPTH, CELLS, nonlinearity="relu", batch_first=True), 30),
    ],
)
def test_the_int8_layer_has_a_high_sqnr(layer: object, least: float) -> None:
    torch.manual_seed(0)
    module = Of(lambda m, x: m.layer(x)[0][:, -1], layer=layer())  # type: ignore[operator]
    assert quantised(module, (1, STEPS, DEPTH))[1] > least


def test_a_gru_whose_state_moves_slowly_has_a_high_sqnr() -> None:
    """The update gate is about 0.98, so the candidates exceed the states, which alone must be within the output's range."""
    torch.manual_seed(0)
    layer = nn.GRU(DEPTH, CELLS, batch_first=True)
    with torch.no_grad():
        layer.bias_ih_l0[CELLS : 2 * CELLS] += 4
    done, sqnr = quantised(Of(lambda m, x: m.layer(x)[0], layer=layer), (1, 5, DEPTH))
    (out,) = (done.graph.output(op) for op in done.graph.ops if op.kind == "gru")
    assert 255 * out.scale < 0.5 and sqnr > 30


def test_an_initial_state_has_the_scale_of_the_output() -> None:
    torch.manual_seed(0)
    module = Of(lambda m, x, h: m.layer(x, h)[1], layer=nn.GRU(DEPTH, CELLS, batch_first=True))
    done, sqnr = quantised(module, (1, 3, DEPTH), (1, 1, CELLS))
    (op,) = [op for op in done.graph.ops if op.kind == "gru"]
    assert done.graph.input(op, 5).quant == done.graph.output(op).quant
    assert sqnr > 30


def test_the_cell_states_of_an_lstm_are_int16_inputs_and_outputs() -> None:
    torch.manual_seed(0)

    def states(m: nn.Module, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out, (last, last_cell) = m.layer(x, (hidden, cell))
        return out, last, last_cell

    module = Of(states, layer=nn.LSTM(DEPTH, CELLS, batch_first=True))
    done, sqnr = quantised(module, (1, 3, DEPTH), (1, 1, CELLS), (1, 1, CELLS))
    types = [[done.graph.tensors[name].dtype for name in names] for names in (done.graph.inputs, done.graph.outputs)]
    assert types == [["int8", "int8", "int16"], ["int8", "int8", "int16"]]
    given, found = (done.graph.tensors[names[2]] for names in (done.graph.inputs, done.graph.outputs))
    assert given.quant == found.quant and sqnr > 25


@pytest.mark.parametrize("of_input", [False, True])
def test_a_cell_state_is_requantised_where_other_ops_write_or_read_it(of_input: bool) -> None:
    torch.manual_seed(0)

    def states(m: nn.Module, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        first = cell if of_input else m.first(hidden).tanh()
        last, last_cell = m.layer(x, (hidden, first))[1]
        return m.head(last_cell) + torch.cat([last, last_cell, cell], 0).mean(0, keepdim=True)

    parts = {
        "layer": nn.LSTM(DEPTH, CELLS, batch_first=True),
        "first": nn.Linear(CELLS, CELLS),
        "head": nn.Linear(CELLS, CELLS),
    }
    done, sqnr = quantised(Of(states, **parts), (1, 3, DEPTH), (1, 1, CELLS), (1, 1, CELLS))
    (op,) = [op for op in done.graph.ops if op.kind == "stateless_lstm"]
    cells = [done.graph.input(op, 6), done.graph.outputs_of(op)[1]]
    assert [cell.dtype for cell in cells] == ["int16", "int16"] and cells[0].quant == cells[1].quant
    assert done.graph.tensors[done.graph.inputs[2]].dtype == "int8" and sqnr > 25
