"""Blame names the damaged layer first, accuses no layer of undamaged networks, and its figures are as documented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from cases.floats import random_classifier
from cases.sweeps import rest_in_sweeps

from tinyweave.ir import Graph, Op, Quant
from tinyweave.ops import SPECS
from tinyweave.quantize.blame import blame
from tinyweave.quantize.calibrate import Calibration, calibrate, fake_quantised
from tinyweave.quantize.convert import affine, interval, to_int8
from tinyweave.quantize.evaluate import evaluate
from tinyweave.quantize.fidelity import decibel, noise_to_signal, signal_tensors, sqnr
from tinyweave.quantize.layerwise import real_constants
from tinyweave.quantize.simplify_float import simplify_float

DAMAGES = ("outlier weights", "a clipped range", "a wrong channel scale")
COST = (3.0, 10.0)  # range of the damage in dB at the output
Inputs = dict[str, np.ndarray]


def network(seed: int) -> tuple[Graph, Inputs]:
    graph = simplify_float(random_classifier(seed))
    rng = np.random.default_rng(seed + 1)
    return graph, {n: rng.normal(size=(16, *graph.tensors[n].shape)).astype(np.float32) for n in graph.inputs}


def int8(graph: Graph, inputs: Inputs) -> tuple[Graph, Calibration]:
    made = calibrate(graph, inputs, "minmax")
    return to_int8(graph, made.groups, made.quants), made


def damaged(
    graph: Graph, small: Graph, made: Calibration, inputs: Inputs, *, op: Op, damage: str, strength: float, seed: int
) -> tuple[Graph, Graph]:
    """Return the float graph and the int8 graph with damage of some strength in one layer."""
    rng = np.random.default_rng(seed)
    if damage == "a clipped range":
        group = made.groups.group(op.outputs[0])
        low, high = interval(made.quants[group])
        return graph, to_int8(graph, made.groups, {**made.quants, group: affine(low / strength, high / strength)})
    if damage == "outlier weights":  # one outlier per output channel
        weights, axis = graph.input(op, 1), SPECS[op.kind].weights.axis
        rows = np.moveaxis(weights.data.copy(), axis, 0)
        flat = rows.reshape(len(rows), -1)
        flat[np.arange(len(flat)), rng.integers(flat.shape[1], size=len(flat))] *= strength
        data = np.ascontiguousarray(np.moveaxis(flat.reshape(rows.shape), 0, axis))
        changed = replace(graph, tensors={**graph.tensors, weights.name: replace(weights, data=data)})
        return changed, int8(changed, inputs)[0]
    weights = small.input(next(o for o in small.ops if o.name == op.name), 1)
    scales = list(weights.quant.scale)
    scales[int(rng.integers(len(scales)))] *= strength**0.3
    quant = Quant(tuple(scales), weights.quant.zero_point, weights.quant.axis)
    return graph, replace(small, tensors={**small.tensors, weights.name: replace(weights, quant=quant)})


def damaged_network(seed: int, damage: str) -> tuple[Graph, Graph, Inputs, str]:
    """Return a network with damage in a random layer that costs 3 to 10 dB at the output, and the layer's name."""
    graph, inputs = network(seed)
    small, made = int8(graph, inputs)
    before = sqnr(graph, small, inputs)
    weighted = [op for op in graph.ops if SPECS[op.kind].weights is not None]
    free = [op for op in graph.ops if SPECS[op.kind].scale == "own"]
    layers = free if damage == "a clipped range" else weighted
    for index in np.random.default_rng(1000 + seed).permutation(len(layers)):
        weak, strong = 1.03, 200.0
        for _ in range(8):  # a greater strength costs more dB
            strength = (weak * strong) ** 0.5
            real, worse = damaged(graph, small, made, inputs, op=layers[index], damage=damage, strength=strength, seed=seed)
            cost = before - sqnr(real, worse, inputs)
            if COST[0] <= cost <= COST[1]:
                return real, worse, inputs, layers[index].name
            weak, strong = (weak, strength) if cost > COST[1] else (strength, strong)
    raise AssertionError(f"no layer of network {seed} can be damaged so")


def verdicts(seeds: range) -> Iterator[tuple[int, str, bool, bool]]:
    for seed in seeds:
        damage = DAMAGES[seed % 3]
        real, small, inputs, name = damaged_network(seed, damage)
        first = blame(real, small, inputs).layers[0]
        yield seed, damage, first.name == name, first.accused


@pytest.mark.parametrize("seeds", rest_in_sweeps([range(10), range(10, 30), range(30, 90)], 1), ids=str)
def test_the_damaged_layer_is_named_first(seeds: range) -> None:
    told = list(verdicts(seeds))
    assert sum(right for _, _, right, _ in told) >= 0.9 * len(told), [verdict for verdict in told if not verdict[2]]
    assert sum(right and accused for _, _, right, accused in told) >= 0.7 * len(told)


@pytest.mark.parametrize("seeds", rest_in_sweeps([range(10), range(10, 30)], 1), ids=str)
def test_no_layer_of_an_undamaged_network_is_accused(seeds: range) -> None:
    for seed in seeds:
        graph, inputs = network(seed)
        made = calibrate(graph, inputs, ("minmax", "mse", "percentile")[seed % 3])
        assert blame(graph, to_int8(graph, made.groups, made.quants), inputs).accused == (), seed


def test_the_noise_of_each_layer_is_as_documented() -> None:
    """`cumulated` of the last layer is the noise of the int8 network; `alone` is that of one int8 layer in a float network."""
    for seed in range(6):
        graph, inputs = network(seed)
        small, _ = int8(graph, inputs)
        told = blame(graph, small, inputs)
        assert told.sqnr_db == pytest.approx(sqnr(graph, small, inputs), abs=1.5)
        assert {layer.name for layer in told.layers} == {"x", *(op.name for op in graph.ops)}
        by_name = {layer.name: layer for layer in told.layers}
        last = by_name[graph.ops[-1].name]
        assert last.cumulated == pytest.approx(told.sqnr_db)
        assert by_name["x"].cumulated == pytest.approx(by_name["x"].alone)
        exact = evaluate(graph, inputs, keep=True)
        for op, given in zip(graph.ops, small.ops, strict=True):

            def visit(name: str, values: np.ndarray, op: Op = op, small: Graph = small) -> np.ndarray:
                return fake_quantised(values, small.tensors[name].quant) if name in op.outputs else values

            constants = real_constants(graph, small, op, given)
            only = evaluate(graph, inputs, visit=visit, keep=True, constants=constants)
            assert by_name[op.name].alone == pytest.approx(decibel(noise_to_signal(exact, only, signal_tensors(graph)))), (
                op.name
            )
        costs = [layer.costs for layer in told.layers]
        assert costs == sorted(costs, reverse=True)


def test_the_report_advises_a_remedy() -> None:
    real, small, inputs, name = damaged_network(7, "a clipped range")
    (layer,) = [layer for layer in blame(real, small, inputs).layers if layer.name == name]
    assert layer.helps.startswith("values outside of its range are clipped: --method minmax")
    real, small, inputs, name = damaged_network(5, "a wrong channel scale")
    (layer,) = [layer for layer in blame(real, small, inputs).layers if layer.name == name]
    assert "of its weights: a wrong scale" in layer.helps and layer.weights < 35
