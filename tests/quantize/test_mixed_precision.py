"""Mixed precision: the knapsack equals brute force, limits hold, choices are optimal, and outputs equal LiteRT's bytes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases.floats import DENSE, WINDOW, fixed, float_graph, random_classifier, random_network

import tinyweave as tw
from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.ops import SPECS
from tinyweave.quantize import mixed_precision
from tinyweave.quantize.blame import blame
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.calibration_samples import Samples, open_samples
from tinyweave.quantize.convert import to_int8
from tinyweave.quantize.evaluate import outputs
from tinyweave.quantize.fidelity import as_int8, best_classes, fidelity, sqnr
from tinyweave.quantize.int16_activations import int16_quant, takes_int16, with_int16
from tinyweave.quantize.mixed_precision import PrecisionLimits, knapsack
from tinyweave.quantize.ptq import Quantised, QuantiseOptions, quantise
from tinyweave.quantize.simplify_float import simplify_float
from tinyweave.simulate import litert


def constants(graph: Graph) -> int:
    read = {name for op in graph.ops for name in op.inputs}
    return sum(t.bytes for t in graph.tensors.values() if t.data is not None and t.name in read)


@cache
def network(seed: int) -> tuple[Graph, Samples]:
    graph = random_classifier(seed)
    shape = graph.tensors[graph.inputs[0]].shape
    return graph, open_samples(np.random.default_rng(seed).normal(size=(24, *shape)).astype(np.float32), graph)


@cache
def quantised(seed: int, limits: PrecisionLimits | None = None) -> Quantised:
    return quantise(*network(seed), QuantiseOptions(method="minmax", limits=limits), flash=constants)


def sqnr_of(done: Quantised, seed: int) -> float:
    return fidelity(done.real, done.graph, network(seed)[1]).sqnr_db


def int4_in(graph: Graph) -> set[str]:
    return {op.name for op in graph.ops if len(op.inputs) > 1 and graph.tensors[op.inputs[1] or ""].dtype == "int4"}


def int16_in(graph: Graph) -> set[str]:
    return {op.name for op in graph.ops if op.kind != "quantize" and graph.output(op).dtype == "int16"}


def test_the_knapsack_equals_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        items = [(str(i), int(rng.integers(1, 40)), float(rng.random())) for i in range(int(rng.integers(1, 9)))]
        saved = int(rng.integers(1, 1 + sum(size for _, size, _ in items)))
        sets = (s for n in range(len(items) + 1) for s in itertools.combinations(items, n))
        best = min(sum(damage for *_, damage in s) for s in sets if sum(size for _, size, _ in s) >= saved)
        chosen = knapsack(items, saved)
        assert chosen is not None
        assert sum(size for name, size, _ in items if name in chosen) >= saved
        assert sum(damage for name, _, damage in items if name in chosen) == pytest.approx(best)


def test_a_knapsack_of_large_sizes_saves_enough() -> None:
    rng = np.random.default_rng(1)
    items = [(str(i), int(rng.integers(1000, 900_000)), float(rng.random())) for i in range(20)]
    total = sum(size for _, size, _ in items)
    for saved in (1, 12_345, total // 2, total - 5, total):
        chosen = knapsack(items, saved)
        assert chosen is not None and sum(size for name, size, _ in items if name in chosen) >= saved
    assert knapsack(items, total + 1) is None and knapsack(items, 0) == frozenset()


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.sweep)])
def test_a_flash_limit_holds_and_no_swap_of_layers_improves_the_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "EXCHANGES", 10_000)
    plain = quantised(seed)
    limit = int(0.75 * constants(plain.graph))
    done = quantised.__wrapped__(seed, PrecisionLimits(flash=limit))
    assert done.precision is not None and constants(done.graph) <= limit < constants(plain.graph)
    chosen = int4_in(done.graph)
    assert chosen == {layer.name for layer in done.precision.layers} and not int16_in(done.graph)
    assert done.precision.saved == constants(plain.graph) - constants(done.graph)
    inputs = network(seed)[1].batch(range(24))
    reached, best = sqnr(done.real, done.graph, inputs), sqnr(done.real, with_int4(seed, chosen), inputs)
    assert done.precision.sqnr_db == pytest.approx(reached) and best <= reached < done.precision.int8_sqnr_db == sqnr(
        *plain_of(plain), inputs
    )
    able = [op.name for op in done.real.ops if op.kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")]
    for out, into in itertools.product(["", *chosen], ["", *(set(able) - chosen)]):
        other = with_int4(seed, (chosen - {out}) | ({into} - {""}))
        assert constants(other) > limit or sqnr(done.real, other, inputs) <= best + 1e-9


def plain_of(done: Quantised) -> tuple[Graph, Graph]:
    return done.real, done.graph


@cache
def search(seed: int) -> mixed_precision._Search:
    plain, inputs = quantised(seed), network(seed)[1].batch(range(24))
    measures = mixed_precision.Measures(inputs, inputs, inputs, constants, lambda graph: (0.0, 0.0))
    return mixed_precision._Search(plain.real, plain.calibration, PrecisionLimits(), measures, lambda *_: None)


def with_int4(seed: int, narrow: set[str]) -> Graph:
    return search(seed).graph(frozenset(narrow))


def test_bytes_and_db_of_a_layer_are_differences_to_the_network_without_it() -> None:
    done = quantised(0, PrecisionLimits(flash=int(0.7 * constants(quantised(0).graph))))
    assert done.precision is not None and len(done.precision.layers) > 1
    names, inputs = int4_in(done.graph), network(0)[1].batch(range(24))
    for layer in done.precision.layers:
        without = with_int4(0, names - {layer.name})
        assert layer.saved == constants(without) - constants(done.graph) > 0
        reached = sqnr(done.real, with_int4(0, names), inputs)
        assert layer.gained == pytest.approx(reached - sqnr(done.real, without, inputs))
        assert (layer.weights, layer.activations) == ("int4", "int8")


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_4_bit_weights_are_rounded_individually_and_then_in_execution_order(seed: int) -> None:
    made = search(seed)
    names = frozenset(made.candidates)
    forms = dict.fromkeys(names, mixed_precision.INT4)
    nearest = to_int8(made.real, made.groups, made.quants, weights=forms)
    assert made.noise(made.graph(names)) < 0.6 * made.noise(nearest)
    assert made.noise(made.finished(names)) < 0.9 * made.noise(made.graph(names))


def test_the_damage_of_a_layer_is_the_increase_of_the_noise() -> None:
    done = quantised(1)
    measures = mixed_precision.Measures(
        network(1)[1].batch(range(8)), network(1)[1].batch(range(8, 24)), {}, constants, lambda graph: (0.0, 0.0)
    )
    search = mixed_precision._Search(done.real, done.calibration, PrecisionLimits(), measures, lambda *_: None)
    narrow = frozenset(search.candidates[::2])
    for name, damage in search.damages(narrow).items():
        with_it, without = (search.noise(search.graph(names, frozenset())) for names in (narrow | {name}, narrow - {name}))
        assert damage == pytest.approx(with_it - without, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_an_sqnr_limit_is_met_and_no_further_layer_can_be_4_bit(seed: int) -> None:
    plain = quantised(seed)
    limit = sqnr_of(plain, seed) - 4
    done = quantised(seed, PrecisionLimits(sqnr_db=limit))
    assert sqnr_of(done, seed) >= limit and constants(done.graph) < constants(plain.graph) and not int16_in(done.graph)
    narrow = int4_in(done.graph)
    left = [op.name for op in done.real.ops if op.kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")]
    left = [name for name in left if name not in narrow]
    assert narrow and left
    below = [
        fidelity(done.real, search(seed).finished(frozenset(narrow | {name})), network(seed)[1]).sqnr_db < limit
        for name in left
    ]
    assert all(below)  # no other layer can have 4 bits, too


def test_maps_become_int16_if_int8_loses_too_much() -> None:
    seed = 2
    plain = quantised(seed)
    limit = sqnr_of(plain, seed) + 0.8
    done = quantised(seed, PrecisionLimits(sqnr_db=limit))
    assert sqnr_of(done, seed) >= limit and int16_in(done.graph) and not int4_in(done.graph)
    assert done.precision is not None
    assert {layer.name for layer in done.precision.layers} == int16_in(done.graph)
    assert all(layer.activations == "int16" for layer in done.precision.layers)
    assert int16_in(done.graph) < {op.name for op in done.real.ops if takes_int16(done.real, op, done.calibration.groups)}
    assert {done.graph.tensors[name].dtype for name in (*done.graph.inputs, *done.graph.outputs)} == {"int8"}
    assert not any(tensor.dtype == "float32" for tensor in done.graph.tensors.values() if tensor.data is None)


@pytest.mark.parametrize("seed, change", [(0, -4), (5, 0.6)])
def test_layers_left_by_bisection_are_tried_individually(seed: int, change: float, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = PrecisionLimits(sqnr_db=sqnr_of(quantised(seed), seed) + change)
    done = quantised(seed, limits)
    monkeypatch.setattr(mixed_precision, "TRIALS", 0)
    assert constants(done.graph) < constants(quantised.__wrapped__(seed, limits).graph)


def test_weights_stay_int8_if_4_bits_save_no_byte() -> None:
    """Each row of weights takes whole bytes."""
    tensors = [fixed("w0", np.ones((1, 1))), fixed("b0", np.zeros(1)), fixed("w1", np.ones((3, 1))), fixed("b1", np.zeros(3))]
    steps = [("fully_connected", ("x", "w0", "b0"), DENSE), ("fully_connected", ("t0", "w1", "b1"), DENSE)]
    graph = float_graph(tensors, steps, x=(1, 1))
    samples = open_samples(np.linspace(-1, 1, 12, dtype=np.float32).reshape(12, 1, 1), graph)
    done = quantise(graph, samples, QuantiseOptions(method="minmax", limits=PrecisionLimits(sqnr_db=1.0)))
    assert int4_in(done.graph) == set() and done.precision is not None and done.precision.saved == 0


def test_an_accuracy_drop_limit_is_met() -> None:
    graph, samples = network(1)
    plain = quantise(graph, samples, QuantiseOptions(method="minmax"))
    labels = best_classes(outputs(graph, samples.batch(range(24)))[0])[:, 0]
    known = open_samples(samples.batch(range(24))["x"], graph, labels=labels)
    done = quantise(graph, known, QuantiseOptions(method="minmax", limits=PrecisionLimits(accuracy_drop=0.0)), flash=constants)
    right = fidelity(done.real, done.graph, known).accuracy
    assert right == (1.0, 1.0) and fidelity(done.real, with_int4(1, candidates(done)), known).accuracy != (1.0, 1.0)
    assert int4_in(done.graph) and constants(done.graph) < constants(plain.graph)
    with pytest.raises(CompileError, match="the accuracy cannot be limited: the samples have no labels"):
        quantised(3, PrecisionLimits(accuracy_drop=1.0))


def candidates(done: Quantised) -> set[str]:
    return {op.name for op in done.real.ops if op.kind in ("conv_2d", "depthwise_conv_2d", "fully_connected")}


def test_more_layers_become_4_bit_to_pay_for_the_4_bit_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "EXCHANGES", 2)

    def flash(graph: Graph) -> int:
        return constants(graph) + 250 * bool(int4_in(graph))

    limit = constants(quantised(0).graph) - 300
    done = quantise(*network(0), QuantiseOptions(method="minmax", limits=PrecisionLimits(flash=limit)), flash=flash)
    assert flash(done.graph) <= limit and int4_in(done.graph) < candidates(done)


def test_limits_that_cannot_be_met_are_refused_with_the_best_value() -> None:
    with pytest.raises(CompileError, match=r"at least about [\d,]+ B of Flash are needed, 100 allowed"):
        quantised(1, PrecisionLimits(flash=100))
    with pytest.raises(CompileError, match=r"cannot be kept: with int16 maps the network has \d+\.\d dB; ask for less, or"):
        quantised(1, PrecisionLimits(sqnr_db=90))
    small = int(0.8 * constants(quantised(1).graph))
    with pytest.raises(CompileError, match="ask for less, allow more Flash, or train"):
        quantised(1, PrecisionLimits(flash=small, sqnr_db=60))


def test_both_limits_hold_together() -> None:
    flash = int(0.9 * constants(quantised(4).graph))
    limit = sqnr_of(quantised(4, PrecisionLimits(flash=flash)), 4) + 0.3
    done = quantised(4, PrecisionLimits(flash=flash, sqnr_db=limit))
    assert constants(done.graph) <= flash and sqnr_of(done, 4) >= limit
    assert int4_in(done.graph) and int16_in(done.graph) and not int4_in(done.graph) & int16_in(done.graph)


@pytest.mark.litert
def test_int16_ops_between_int8_ops_give_the_bytes_of_litert() -> None:
    seen = set[str]()
    for seed in (0, 1, 2, 5, 6, 7):
        graph = random_network(seed, 12)
        exact = {op.name: replace(op, attrs=op.attrs | {"alpha": 0.125}) for op in graph.ops if op.kind == "leaky_relu"}
        real = simplify_float(replace(graph, ops=tuple(exact.get(op.name, op) for op in graph.ops)))
        rng = np.random.default_rng(seed)
        inputs = {"x": rng.normal(size=(4, *real.tensors["x"].shape)).astype(np.float32)}
        made = calibrate(real, inputs, "minmax")
        able = [op for op in real.ops if takes_int16(real, op, made.groups)]
        assert all(SPECS[op.kind].int16 for op in able)
        chosen = {op.name for op in able if rng.random() < 0.8}
        seen |= {op.kind for op in able if op.name in chosen}
        quants = {group: int16_quant(rng.uniform(1, 9)) for group in made.groups.members()}
        wide = with_int16(real, to_int8(real, made.groups, made.quants), made.groups, chosen, quants)
        file, stacked = to_tflite(wide), as_int8(wide, inputs)["x"]
        read = from_tflite(file, "net")
        assert sorted(t.dtype for t in read.tensors.values()) == sorted(
            t.dtype for t in wide.tensors.values() if used(wide, t.name)
        )
        for sample, run in zip(stacked, litert.run(file, [[sample] for sample in stacked]), strict=True):
            assert ops.run(wide, {"x": sample})[wide.outputs[0]].tobytes() == run.outputs[0].tobytes()
    assert seen >= {"conv_2d", "depthwise_conv_2d", "fully_connected", "add", "leaky_relu", "transpose_conv"}


def test_an_output_stays_int8_and_a_view_between_int16_ops_is_int16() -> None:
    rng = np.random.default_rng(0)
    tensors = [fixed("w", rng.normal(size=(4, 3, 3, 4))), fixed("b", rng.normal(size=4)), fixed("shape", np.array([1, 256]))]
    tensors += [fixed("v", rng.normal(size=(5, 256)) / 16), fixed("c", rng.normal(size=5))]
    steps = [
        ("conv_2d", ("x", "w", "b"), WINDOW | {"activation": "relu"}),
        ("reshape", ("t0", "shape"), {"new_shape": (1, 256)}),
    ]
    real = simplify_float(float_graph(tensors, [*steps, ("fully_connected", ("t1", "v", "c"), DENSE)]))
    inputs = {"x": rng.normal(size=(4, 1, 1, 8, 8, 4)).astype(np.float32)[:, 0]}
    made = calibrate(real, inputs, "minmax")
    measures = mixed_precision.Measures(inputs, inputs, inputs, constants, lambda graph: (0.0, 0.0))
    search = mixed_precision._Search(real, made, PrecisionLimits(), measures, lambda *_: None)
    names = frozenset(op.name for op in real.ops)
    assert list(mixed_precision._int16_units(search, search.able)) == [names]
    wide = search.graph(frozenset(), names)
    assert [wide.tensors[name].dtype for name in (*wide.inputs, *wide.outputs)] == ["int8", "int8"]
    assert {wide.tensors[name].dtype for name in ("t0", "t1", "t2.int16")} == {"int16"}
    assert sqnr(real, wide, inputs) > sqnr(real, search.small, inputs)


def used(graph: Graph, name: str) -> bool:
    return name in graph.inputs or any(name in (*op.inputs, *op.outputs) for op in graph.ops)


def test_int16_maps_lose_less_than_int8_ones() -> None:
    graph, samples = network(2)
    real, inputs = simplify_float(graph), samples.batch(range(24))
    made = calibrate(real, inputs, "minmax")
    small = to_int8(real, made.groups, made.quants)
    able = {op.name for op in real.ops if takes_int16(real, op, made.groups)}
    quants = {group: int16_quant(8.0) for group in made.groups.members()}
    wide = with_int16(real, small, made.groups, able, quants)
    assert sqnr(real, wide, inputs) > sqnr(real, small, inputs)


def test_blame_of_mixed_precision_adds_up_to_its_noise() -> None:
    for limits in (
        PrecisionLimits(flash=int(0.8 * constants(quantised(2).graph))),
        PrecisionLimits(sqnr_db=sqnr_of(quantised(2), 2) + 0.8),
    ):
        done = quantised(2, limits)
        inputs = network(2)[1].batch(range(24))
        told = blame(done.real, done.graph, inputs)
        assert told.sqnr_db == pytest.approx(sqnr(done.real, done.graph, inputs), abs=1.5)


@pytest.mark.litert
@pytest.mark.emulator
def test_a_network_of_4_8_and_16_bits_is_deployed_byte_for_byte(tmp_path: Path) -> None:
    done = quantised(3, PrecisionLimits(flash=int(0.9 * constants(quantised(3).graph))))
    able = {op.name for op in done.real.ops if takes_int16(done.real, op, done.calibration.groups)}
    quants = {group: int16_quant(8.0) for group in done.calibration.groups.members()}
    both = with_int16(done.real, done.graph, done.calibration.groups, able - int4_in(done.graph), quants)
    assert int4_in(both) and int16_in(both)
    (tmp_path / "net.tflite").write_bytes(to_tflite(both))
    proof = tw.verify(tmp_path / "net.tflite", "stm32f412", samples=2)
    assert proof.ok and proof.reference.startswith("LiteRT's reference kernels")
