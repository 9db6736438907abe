"""Removal of constant and unread channels in small networks, random networks with zeroed filters, and real models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fuzz.generate import random_network

from tests.cases.elementwise import numbers
from tests.cases.tiny import activation, constant, graph
from tests.passes.layers import random_inputs, same_layers
from tinyweave import ops
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import Graph, Op, Tensor, diff, verify
from tinyweave.ops import macs
from tinyweave.passes import run_passes, source
from tinyweave.passes.shrink_channels import shrink_channels
from tinyweave.passes.value_ranges import value_ranges

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
SAME = WINDOW | {"padding": ((1, 1), (1, 1))}
ZERO = 3  # the zero point of every activation here; all scales are 1, so sums need no rescaling


def int8(name: str, *shape: int) -> Tensor:
    return activation(name, shape, 1.0, ZERO)


def weights(name: str, values: object, *shape: int) -> Tensor:
    return constant(name, np.array(values, np.int8).reshape(shape), (1.0,))


def bias(name: str, *values: int) -> Tensor:
    return constant(name, np.array(values, np.int32), (1.0,))


def conv(name: str, x: str, out: str, attrs: dict, kind: str = "conv_2d") -> Op:
    return Op(name, kind, (x, f"{name}.weights", f"{name}.bias"), (out,), attrs)


def assert_shrinks_to(before: Graph, expected: Graph, kept: dict[str, Sequence[int]]) -> None:
    """Assert that the pass turns `before` into `expected` and reports the channels `kept`."""
    shrunk, tensors = shrink_channels(ops.check(before))
    assert diff(ops.check(verify(shrunk)), expected) == []
    assert tensors == {name: (name, tuple(channels)) for name, channels in kept.items()}


def two_convs(attrs: dict, first_bias: Sequence[int], out: int = 4) -> Graph:
    """Return two convolutions. The middle of three filters of the first is zero, so its channel of `m` is constant."""
    kernel = 3 if attrs is SAME else 1
    tensors = [
        int8("x", 1, 4, 4, 1),
        weights("a.weights", [1, 0, -1], 3, 1, 1, 1),
        bias("a.bias", *first_bias),
        int8("m", 1, 4, 4, 3),
        weights("b.weights", np.arange(2 * kernel * kernel * 3), 2, kernel, kernel, 3),
        bias("b.bias", 10, 20),
        int8("y", 1, out, out, 2),
    ]
    return graph("net", tensors, [conv("a", "x", "m", WINDOW), conv("b", "m", "y", attrs)], ("x",), ("y",))


def test_the_constant_channel_of_a_zero_filter_is_folded_into_the_next_bias() -> None:
    expected = graph(
        "net",
        [
            int8("x", 1, 4, 4, 1),
            weights("a.weights_", [1, -1], 2, 1, 1, 1),
            bias("a.bias_", 5, 7),
            int8("m", 1, 4, 4, 2),
            weights("b.weights_", [0, 2, 3, 5], 2, 1, 1, 2),
            bias("b.bias_", 10 + 1 * 6, 20 + 4 * 6),  # weights 1 and 4 of the middle channel, which is 6 above the zero point
            int8("y", 1, 4, 4, 2),
        ],
        [
            Op("a", "conv_2d", ("x", "a.weights_", "a.bias_"), ("m",), WINDOW),
            Op("b", "conv_2d", ("m", "b.weights_", "b.bias_"), ("y",), WINDOW),
        ],
        ("x",),
        ("y",),
    )
    assert_shrinks_to(two_convs(WINDOW, [5, 6, 7]), expected, {"m": (0, 2)})


def test_a_constant_other_than_the_padding_value_is_kept() -> None:
    before = two_convs(SAME, [5, 6, 7])
    assert_shrinks_to(before, before, {})


def test_a_constant_equal_to_the_padding_value_is_removed() -> None:
    shrunk, tensors = shrink_channels(two_convs(SAME, [5, 0, 7]))
    assert tensors == {"m": ("m", (0, 2))}
    assert shrunk.tensors["b.bias_"].data.tolist() == [10, 20]  # type: ignore[union-attr]
    assert shrunk.tensors["b.weights_"].data.ravel().tolist() == [n for n in range(54) if n % 3 != 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(("value", "activation"), [(1000, "none"), (-1000, "none"), (-600, "relu")])
def test_the_channel_of_a_saturated_filter_is_removed(value: int, activation: str) -> None:
    before = two_convs(WINDOW, [5, 6, value])
    first = replace(before.ops[0], attrs=WINDOW | {"activation": activation})
    shrunk, tensors = shrink_channels(replace(before, ops=(first, before.ops[1])))
    assert tensors == {"m": ("m", (0,))}
    level = {1000: 127, -1000: -128, -600: ZERO}[value] - ZERO
    assert shrunk.tensors["b.bias_"].data.tolist() == [10 + 6 + 2 * level, 20 + 4 * 6 + 5 * level]  # type: ignore[union-attr]


def test_a_filter_that_almost_saturates_is_kept() -> None:
    # x - 3 is in [-131, 124], so with weight -1 and bias 256 the least sum is 132, and all results are clamped to 127
    before = two_convs(WINDOW, [5, 6, 248])
    assert shrink_channels(before)[1] == {"m": ("m", (0,))}
    almost = two_convs(WINDOW, [5, 6, 247])
    assert shrink_channels(almost)[1] == {"m": ("m", (0, 2))}


def test_no_constant_is_folded_into_a_bias_that_could_overflow() -> None:
    before = two_convs(WINDOW, [5, 6, 7])
    limit = 2**31 - 1
    crowded = replace(before, tensors={**before.tensors, "b.bias": bias("b.bias", limit - 255 * 3 + 1, 0)})
    assert_shrinks_to(crowded, crowded, {})
    flash_heavy = replace(before, tensors={**before.tensors, "b.bias": bias("b.bias", limit - 255 * 3, 0)})
    assert shrink_channels(flash_heavy)[1] == {"m": ("m", (0, 2))}


def test_channels_that_only_zero_weights_read_are_removed() -> None:
    tensors = [
        int8("x", 1, 4, 4, 1),
        weights("a.weights", [1, 2, 3], 3, 1, 1, 1),
        bias("a.bias", 0, 0, 0),
        int8("m", 1, 4, 4, 3),
        weights("d.weights", range(27), 1, 3, 3, 3),
        bias("d.bias", 1, 2, 3),
        int8("n", 1, 4, 4, 3),
        weights("b.weights", [1, 0, 2], 1, 1, 1, 3),
        bias("b.bias", 0),
        int8("y", 1, 4, 4, 1),
    ]
    layers = [
        conv("a", "x", "m", WINDOW),
        conv("d", "m", "n", SAME, "depthwise_conv_2d"),
        conv("b", "n", "y", WINDOW),
    ]
    shrunk, kept = shrink_channels(graph("net", tensors, layers, ("x",), ("y",)))
    assert kept == {"m": ("m", (0, 2)), "n": ("n", (0, 2))}
    found = {name: t.data.ravel().tolist() for name, t in shrunk.tensors.items() if t.data is not None}
    assert found["a.weights_"] == [1, 3] and found["d.bias_"] == [1, 3] and found["b.weights_"] == [1, 2]
    assert found["d.weights_"] == [n for n in range(27) if n % 3 != 1]


def branches(second: Sequence[int], kind: str, attrs: dict) -> Graph:
    """Return two convs of four channels on x, joined by an op that a conv reads. Channels with a weight of 0 are constant."""
    meet = (1, 4, 4, 4 if kind == "add" else 8)
    tensors = [
        int8("x", 1, 4, 4, 1),
        weights("a.weights", [0, 0, 1, 1], 4, 1, 1, 1),
        bias("a.bias", 1, 2, 3, 4),
        int8("p", 1, 4, 4, 4),
        weights("b.weights", second, 4, 1, 1, 1),
        bias("b.bias", 1, 2, 3, 4),
        int8("q", 1, 4, 4, 4),
        int8("met", *meet),
        weights("c.weights", [1] * meet[3], 1, 1, 1, meet[3]),
        bias("c.bias", 0),
        int8("y", 1, 4, 4, 1),
    ]
    layers = [
        conv("a", "x", "p", WINDOW),
        conv("b", "x", "q", WINDOW),
        Op("meet", kind, ("p", "q"), ("met",), attrs),
        conv("c", "met", "y", WINDOW),
    ]
    return graph("net", tensors, layers, ("x",), ("y",))


def test_an_add_loses_a_channel_that_is_constant_in_both_operands() -> None:
    shrunk, kept = shrink_channels(branches([0, 1, 0, 1], "add", {"activation": "none"}))
    assert {name: channels for name, (_, channels) in kept.items()} == dict.fromkeys(("p", "q", "met"), (1, 2, 3))
    assert shrunk.tensors["c.bias_"].data.tolist() == [2]  # type: ignore[union-attr]


def test_a_concatenation_loses_channels_and_whole_operands() -> None:
    joined = {"axis": -1, "activation": "none"}
    _, kept = shrink_channels(branches([0, 1, 0, 1], "concatenation", joined))
    assert {name: channels for name, (_, channels) in kept.items()} == {"p": (2, 3), "q": (1, 3), "met": (2, 3, 5, 7)}
    shrunk, kept = shrink_channels(branches([0, 0, 0, 0], "concatenation", joined))
    assert {name: channels for name, (_, channels) in kept.items()} == {"p": (2, 3), "met": (2, 3)}
    assert [op.inputs for op in shrunk.ops if op.name == "meet"] == [("p",)] and "q" not in shrunk.tensors


def test_a_flattened_map_loses_columns_of_the_weights() -> None:
    tensors = [
        int8("x", 1, 2, 1, 1),
        weights("a.weights", [1, 0, 2], 3, 1, 1, 1),
        bias("a.bias", 0, 5, 0),
        int8("m", 1, 2, 1, 3),
        constant("shape", np.array([1, 6], np.int32)),
        int8("flat", 1, 6),
        weights("f.weights", range(12), 2, 6),
        int8("y", 1, 2),
    ]
    dense = Op("f", "fully_connected", ("flat", "f.weights", None), ("y",), {"activation": "none", "keep_num_dims": False})
    layers = [
        conv("a", "x", "m", WINDOW),
        Op("flatten", "reshape", ("m", "shape"), ("flat",), {"new_shape": (1, 6)}),
        dense,
    ]
    shrunk, kept = shrink_channels(graph("net", tensors, layers, ("x",), ("y",)))
    assert kept == {"m": ("m", (0, 2)), "flat": ("flat", (0, 2, 3, 5))}
    assert shrunk.tensors["f.weights_"].data.tolist() == [[0, 2, 3, 5], [6, 8, 9, 11]]  # type: ignore[union-attr]
    assert shrunk.tensors["f.bias"].data.tolist() == [5 * (1 + 4), 5 * (7 + 10)]  # type: ignore[union-attr]


def test_a_map_of_constant_channels_keeps_one_channel() -> None:
    before = two_convs(WINDOW, [5, 6, 7])
    blind = replace(before, tensors={**before.tensors, "a.weights": weights("a.weights", [0, 0, 0], 3, 1, 1, 1)})
    shrunk, kept = shrink_channels(verify(blind))
    assert kept == {"m": ("m", (0,))} and same_layers(blind, shrunk, kept, 0)


def test_inputs_and_outputs_keep_their_channels() -> None:
    before = two_convs(WINDOW, [5, 6, 7])
    assert_shrinks_to(replace(before, outputs=("y", "m")), replace(before, outputs=("y", "m")), {})
    only = replace(before, ops=before.ops[:1], outputs=("m",))
    assert shrink_channels(only)[1] == {}


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_networks_with_zeroed_filters_keep_all_bytes(first: int) -> None:
    smaller = 0
    for seed in range(first, first + 50):
        before = random_network(seed, damaged=True)
        after, tensors = run_passes(before, io="model")
        assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
        assert same_layers(before, after, tensors, seed), seed
        assert macs(after) <= macs(before), seed
        smaller += macs(after) < macs(before)
        values = ops.run(before, random_inputs(before, seed), keep=True)
        for name, (low, high) in value_ranges(before).items():
            if name in values:
                seen = values[name].reshape(-1, len(low))
                assert (seen >= low).all() and (seen <= high).all(), (seed, name)
    assert smaller >= 5


@pytest.mark.shared
def test_half_of_the_vww_reference_model_is_constant(shared: Path) -> None:
    path = shared / "models" / "mlcommons__tiny__vww_96_int8.tflite"
    before = from_tflite(path.read_bytes(), path.stem)
    after, tensors = run_passes(before, io="model")
    assert same_layers(before, after, tensors, 1)

    def filters(graph: Graph) -> int:
        return sum(t.elements for t in graph.tensors.values() if t.data is not None and t.dtype == "int8")

    assert (macs(before), filters(before)) == (7_399_464, 208_112)
    assert (macs(after), filters(after)) == (3_674_288, 29_066)


def between(kind: str, operands: list[Tensor], attrs: dict, shape: tuple[int, ...]) -> Graph:
    """Return a conv with one zero filter, an op that moves its pixels, and a conv."""
    before = two_convs(WINDOW, [5, 6, 7])
    tensors = [t for t in before.tensors.values() if t.name != "y"]
    tensors += [int8("n", *shape), int8("y", *shape[:3], 2), *operands]
    move = Op("move", kind, ("m", *(t.name for t in operands)), ("n",), attrs)
    return graph(
        "net", tensors, [before.ops[0], move, replace(before.ops[1], inputs=("n", *before.ops[1].inputs[1:]))], ("x",), ("y",)
    )


@pytest.mark.parametrize(
    ("kind", "operands", "attrs", "shape"),
    [
        ("resize_nearest_neighbor", [[8, 6]], {"align_corners": False, "half_pixel_centers": False}, (1, 8, 6, 3)),
        ("tile", [[1, 2, 1, 1]], {}, (1, 8, 4, 3)),
        ("mirror_pad", [[[0, 0], [1, 0], [0, 2], [0, 0]]], {"mode": "reflect"}, (1, 5, 6, 3)),
        ("transpose", [[0, 2, 1, 3]], {}, (1, 4, 4, 3)),
        (
            "max_pool_2d",
            [],
            {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"},
            (1, 2, 2, 3),
        ),
    ],
)
def test_channels_are_removed_across_ops_that_move_whole_pixels(
    kind: str, operands: list[object], attrs: dict, shape: tuple[int, ...]
) -> None:
    constants = [constant(f"operand{i}", np.array(values, np.int32)) for i, values in enumerate(operands)]
    before = between(kind, constants, attrs, shape)
    shrunk, kept = shrink_channels(ops.check(before))
    assert kept == {"m": ("m", (0, 2)), "n": ("n", (0, 2))} and same_layers(before, shrunk, kept, 0)
    assert shrunk.tensors["b.bias_"].data.tolist() == [10 + 6, 20 + 4 * 6]  # type: ignore[union-attr]


@pytest.mark.parametrize(("value", "kept"), [(9, (0, 2)), (8, (0, 1, 2))])
def test_a_channel_is_removed_across_a_pad_of_the_same_value(value: int, kept: tuple[int, ...]) -> None:
    # the constant channel is 6 above the zero point, which is 9; a pad with another value makes it vary
    paddings = constant("paddings", np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32))
    fill = Tensor("fill", (1,), "int8", int8("m").quant, np.array([value], np.int8), "constant")
    before = between("padv2", [paddings, fill], {}, (1, 5, 5, 3))
    shrunk, tensors = shrink_channels(ops.check(before))
    assert source(tensors, "n")[1] == (kept if len(kept) < 3 else None) and same_layers(before, shrunk, tensors, 0)


def test_channels_added_by_a_pad_are_removed() -> None:
    paddings = constant("paddings", np.array([[0, 0], [0, 0], [0, 0], [1, 2]], np.int32))
    before = between("pad", [paddings], {}, (1, 4, 4, 6))
    wide = replace(before, tensors={**before.tensors, "b.weights": weights("b.weights", range(12), 2, 1, 1, 6)})
    shrunk, tensors = shrink_channels(ops.check(verify(wide)))
    assert tensors == {"m": ("m", (0, 2)), "n": ("n", (1, 3))} and same_layers(wide, shrunk, tensors, 0)
    assert [op.kind for op in shrunk.ops] == ["conv_2d", "pad", "conv_2d"]
    assert shrunk.tensors["move.paddings"].data.tolist()[-1] == [0, 0]  # type: ignore[union-attr]


def test_a_pad_keeps_at_least_one_channel() -> None:
    """The convolution reads only the channel that the pad adds, so only the shape of the map is needed."""
    tensors = [
        int8("x", 1, 4, 4, 2),
        weights("a.weights", np.arange(4), 2, 1, 1, 2),
        bias("a.bias", 1, 2),
        int8("m", 1, 4, 4, 2),
        constant("pads", np.array([[0, 0], [0, 0], [0, 0], [1, 0]], np.int32)),
        int8("wide", 1, 4, 4, 3),
        weights("b.weights", [5, 0, 0], 1, 1, 1, 3),
        bias("b.bias", 10),
        int8("y", 1, 4, 4, 1),
    ]
    made = [conv("a", "x", "m", WINDOW), Op("pad", "pad", ("m", "pads"), ("wide",)), conv("b", "wide", "y", WINDOW)]
    before = ops.check(graph("padded", tensors, made, ("x",), ("y",)))
    shrunk, _ = shrink_channels(before)
    assert ops.check(verify(shrunk)).producer["m"] == 0
    inputs = random_inputs(before, 1)
    assert np.array_equal(ops.run(before, inputs)["y"], ops.run(shrunk, inputs)["y"])


@pytest.mark.parametrize("kind", sorted(kind for kind, spec in ops.SPECS.items() if spec.family == "unary"))
def test_bounds_of_unary_ops_hold_and_are_tight(kind: str) -> None:
    rng = np.random.default_rng(sorted(ops.SPECS).index(kind))
    attrs = {"gelu": {"approximate": False}, "leaky_relu": {"alpha": -0.5}}.get(
        kind, numbers(kind, rng)
    )  # decreasing, then increasing
    for _ in range(5):
        zero = -128 if kind == "rsqrt" else int(rng.integers(-40, 40))
        m = activation("m", (1, 1, 1, 6), 0.05, zero)
        y = activation("y", (1, 1, 1, 6), *{"logistic": (1 / 256, -128), "neg": (0.05, -zero)}.get(kind, (0.02, -20)))
        channelwise = Op("scaled", "depthwise_conv_2d", ("x", "factors", "shifts"), ("m",), WINDOW | {"multiplier": 1})
        factors = constant("factors", rng.integers(-127, 128, (1, 1, 1, 6)).astype(np.int8), (0.05 / 300,))
        shifts = constant("shifts", (rng.integers(-9000, 9000, 6) - 300 * zero).astype(np.int32), (0.05 / 300,))
        table = constant("table", rng.integers(-128, 128, 256).astype(np.int8))
        tensors = [int8("x", 1, 1, 1, 6), factors, shifts, m, y, table]
        function = Op("unary", kind, ("m", "table") if kind == "lookup" else ("m",), ("y",), attrs)
        net = ops.check(graph("net", tensors, [channelwise, function], ("x",), ("y",)))
        known = value_ranges(net)
        outputs = ops.mapped(net, net.ops[1], np.arange(-128, 128).astype(np.int8))
        for channel in range(6):
            possible = outputs[int(known["m"].low[channel]) + 128 : int(known["m"].high[channel]) + 129]
            assert (known["y"].low[channel], known["y"].high[channel]) == (possible.min(), possible.max())
        assert len({*known["m"].low.tolist()}) > 1
