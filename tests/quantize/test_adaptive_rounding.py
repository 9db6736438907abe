"""Adaptive rounding: coordinate descent is close to brute force, gains SQNR, and moves weights by at most a step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases.floats import DENSE, WINDOW, Step, fixed, float_graph, random_classifier

from tinyweave.ir import Graph
from tinyweave.quantize.adaptive_rounding import DAMPING, adaptively_rounded, descend, individually_rounded
from tinyweave.quantize.calibrate import Calibration, calibrate, fake_quantised
from tinyweave.quantize.convert import WeightFormat, to_int8
from tinyweave.quantize.evaluate import evaluate
from tinyweave.quantize.fidelity import sqnr
from tinyweave.quantize.int16_activations import int16_quant, takes_int16, with_int16
from tinyweave.quantize.layerwise import in_float_layout, int8_ops, real_constants
from tinyweave.quantize.simplify_float import simplify_float

Inputs = dict[str, np.ndarray]


def network(seed: int, bits: int) -> tuple[Graph, Graph, Calibration, Inputs, Inputs]:
    """Return a float network, its int8 form with weights of `bits` bits, its scales, training samples and unseen samples."""
    real = simplify_float(random_classifier(seed))
    x = np.random.default_rng(seed).normal(size=(32, *real.tensors["x"].shape)).astype(np.float32)
    made = calibrate(real, {"x": x}, "minmax")
    kinds = ("conv_2d", "depthwise_conv_2d", "fully_connected") if bits == 4 else ()
    forms = {op.name: WeightFormat("int4") for op in real.ops if op.kind in kinds}
    return real, to_int8(real, made.groups, made.quants, weights=forms), made, {"x": x[:16]}, {"x": x[16:]}


def test_descent_ends_in_a_local_minimum_close_to_brute_force() -> None:
    rng = np.random.default_rng(0)
    best = 0
    for _ in range(40):
        depth = int(rng.integers(2, 7))
        steps, wanted = rng.normal(size=(1, depth)) * 5, rng.normal(size=(30, depth)) + 0.5
        seen = wanted + rng.normal(size=wanted.shape) / 20
        chosen = descend(np.rint(steps), steps, wanted, seen, (-127, 127))
        ridge = DAMPING * (seen**2).sum() / depth

        def error(ints: np.ndarray, steps=steps, wanted=wanted, seen=seen, ridge=ridge) -> float:  # type: ignore[no-untyped-def]
            return float(((seen @ ints.T - wanted @ steps.T) ** 2).sum() + ridge * ((ints - steps) ** 2).sum())

        corners = itertools.product(*zip(np.floor(steps[0]), np.ceil(steps[0]), strict=True))
        errors = {corner: error(np.array([corner])) for corner in corners}
        assert tuple(chosen[0]) in errors
        assert error(chosen) <= errors[tuple(np.rint(steps[0]))] + 1e-9
        for index in range(depth):
            for other in (np.floor(steps[0, index]), np.ceil(steps[0, index])):
                changed = chosen.copy()
                changed[0, index] = other
                assert error(chosen) <= error(changed) + 1e-9
        best += error(chosen) <= min(errors.values()) + 1e-9
    assert best >= 25


def test_integers_stay_within_their_type() -> None:
    steps = np.array([[9.3, -9.8, 6.5, -7.5, 0.2]])
    seen = np.random.default_rng(0).normal(size=(20, 5))
    chosen = descend(np.array([[7.0, -8, 7, -8, 0]]), steps, seen, seen, (-8, 7))
    assert chosen[0, 0] == 7 and chosen[0, 1] == -8 and chosen[0, 2] in (6, 7) and chosen[0, 3] in (-8, -7)


@pytest.mark.parametrize("bits, gain", [(8, 0.5), (4, 2.0)])
def test_rounding_gains_sqnr_on_unseen_samples_and_moves_weights_by_a_step(bits: int, gain: float) -> None:
    gains = []
    for seed in range(3):
        real, small, _, seen, others = network(seed, bits)
        better = adaptively_rounded(real, small, seen)
        gains.append(sqnr(real, better, others) - sqnr(real, small, others))
        changed = 0
        for op, given in zip(real.ops, int8_ops(real, small), strict=True):
            if op.kind not in ("conv_2d", "depthwise_conv_2d", "fully_connected"):
                continue
            before, after = small.input(given, 1), better.input(given, 1)
            assert before.quant == after.quant and before.dtype == after.dtype and before.data.dtype == after.data.dtype
            assert np.abs(after.data.astype(int) - before.data.astype(int)).max() <= 1
            changed += int((after.data != before.data).sum())
        assert changed
    assert np.mean(gains) > gain


@pytest.mark.parametrize("kind", ["depthwise_conv_2d", "conv_2d"])
def test_each_channel_is_rounded_with_the_inputs_that_it_reads(kind: str) -> None:
    rng = np.random.default_rng(0)
    shape = (1, 3, 3, 6) if kind == "depthwise_conv_2d" else (6, 3, 3, 2)  # three groups of two channels
    weights = fixed("w", rng.normal(size=shape))
    steps: list[Step] = [(kind, ("x", "w", "b"), WINDOW | {"activation": "none"})]
    real = simplify_float(float_graph([weights, fixed("b", np.zeros(6))], steps, x=(1, 8, 8, 6)))
    mixed = rng.normal(size=(6, 6)) * np.logspace(0, 1, 6)
    x = (rng.normal(size=(16, 1, 8, 8, 6)) @ mixed + rng.normal(size=6) * 20).astype(np.float32)
    made = calibrate(real, {"x": x}, "minmax")
    small = to_int8(real, made.groups, made.quants, weights={real.ops[0].name: WeightFormat("int4")})
    expected = evaluate(real, {"x": x})["t0"]

    def errors(graph: Graph) -> np.ndarray:
        kept = real_constants(real, graph, real.ops[0], graph.ops[0])
        given = fake_quantised(x, graph.tensors["x"].quant)
        return ((evaluate(real, {"x": given}, constants=kept)["t0"] - expected) ** 2).sum(axis=(0, 1, 2, 3))

    before, after = errors(small), errors(adaptively_rounded(real, small, {"x": x}))
    assert (after <= before).all() and after.sum() < 0.7 * before.sum()


def test_only_the_given_ops_are_rounded() -> None:
    real, small, _, seen, _ = network(1, 4)
    chosen = {real.ops[0].name, real.ops[3].name}
    better = adaptively_rounded(real, small, seen, ops=chosen)
    pairs = list(zip(int8_ops(real, small), int8_ops(real, better), strict=True))
    assert {old.name for old, new in pairs if small.inputs_of(old) != better.inputs_of(new)} == chosen


def test_individual_rounding_reads_the_activations_of_the_int8_network() -> None:
    """Each layer equals the layer of a network in which it alone has 4 bits, rounded adaptively."""
    real, narrow, made, seen, others = network(0, 4)
    small = to_int8(real, made.groups, made.quants)
    rounded = individually_rounded(real, small, narrow, seen)
    names = [op.name for op in narrow.ops if len(op.inputs) > 1 and narrow.input(op, 1).dtype == "int4"]
    assert len(names) > 5
    for name in names:
        alone = to_int8(real, made.groups, made.quants, weights={name: WeightFormat("int4")})
        alone = adaptively_rounded(real, alone, seen, ops={name})
        weights = [next(each.input(op, 1).data for op in each.ops if op.name == name) for each in (alone, rounded)]
        assert np.array_equal(*weights)
    assert sqnr(real, rounded, others) > sqnr(real, narrow, others) + 1


def test_layers_with_int16_activations_are_rounded_too() -> None:
    real, small, made, seen, others = network(2, 8)
    able = {op.name for op in real.ops if takes_int16(real, op, made.groups)}
    wide = with_int16(real, small, made.groups, able, {group: int16_quant(8.0) for group in made.groups.members()})
    better = adaptively_rounded(real, wide, seen)
    assert sqnr(real, better, others) > sqnr(real, wide, others) + 0.5
    for op, given in zip(real.ops, int8_ops(real, wide), strict=True):
        if op.kind in ("depthwise_conv_2d", "fully_connected"):
            ints = in_float_layout(better.input(given, 1).data, real.input(op, 1).shape, op)
            before = in_float_layout(wide.input(given, 1).data, real.input(op, 1).shape, op)
            assert np.abs(ints.astype(int) - before.astype(int)).max() <= 1


def test_no_int8_weight_becomes_minus_128() -> None:
    """With a float32 scale the least weight may be slightly below -127 steps, and the other weights favour -128."""
    steps = np.array([[-127.0, 10.51, 10.51, 10.51]])
    x = np.ones((16, 4), np.float32) * np.linspace(0.1, 1, 16, dtype=np.float32)[:, None]
    seen = 0
    for number in range(200):
        real = float_graph([fixed("w", steps * (0.01 + number / 997))], [("fully_connected", ("x", "w", None), DENSE)], (1, 4))
        made = calibrate(real, {"x": x[:, None]}, "minmax")
        small = to_int8(real, made.groups, made.quants)
        (scale,) = small.tensors["w"].quant.scale
        seen += float(real.tensors["w"].data[0, 0]) / scale < -127
        better = adaptively_rounded(real, small, {"x": x[:, None]})
        assert better.tensors["w"].data.min() == -127
    assert seen > 20
