"""Passes that fuse, merge or remove ops, each on a small graph with the expected graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.cases.elementwise import DOMAINS, numbers
from tests.cases.tiny import activation, constant, graph
from tests.passes.layers import same_layers
from tinyweave import ops
from tinyweave.ir import Graph, Op, Quant, Tensor, diff, verify
from tinyweave.ops import SPECS
from tinyweave.ops.functions import FUNCTIONS
from tinyweave.passes import TensorMap
from tinyweave.passes.crop_windows import crop_windows
from tinyweave.passes.drop_unused import drop_unused
from tinyweave.passes.fuse_pad import fuse_pad
from tinyweave.passes.merge_moves import flatten_in_dense, merge_moves
from tinyweave.passes.merge_rescales import merge_rescales
from tinyweave.passes.share_constants import share_constants

Pass = Callable[[Graph], tuple[Graph, TensorMap]]
CONV = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}


def int8(name: str, *shape: int, scale: float = 0.5, zero: int = 3) -> Tensor:
    return activation(name, shape, scale, zero)


def ints(name: str, values: object) -> Tensor:
    return constant(name, np.array(values, np.int32))


def assert_becomes(rewrite: Pass, before: Graph, expected: Graph) -> None:
    """Assert that the pass and dead code removal turn `before` into `expected` without changing a byte of any layer."""
    after, tensors = rewrite(ops.check(before))
    assert tensors == {}
    assert diff(drop_unused(verify(after))[0], expected) == []
    assert same_layers(before, after, tensors, 0)


def assert_unchanged(rewrite: Pass, before: Graph) -> None:
    assert_becomes(rewrite, before, before)


def padded(
    kind: str, paddings: Sequence[Sequence[int]], kernel: int = 3, own: int = 0, outputs: tuple[str, ...] = ("y",)
) -> Graph:
    """Return a pad of a 5x5x2 map, then a convolution."""
    added = np.array(paddings)
    shape = tuple(int(n) for n in np.array((1, 5, 5, 2)) + added.sum(axis=1))
    size = [n + 2 * own - kernel + 1 for n in shape[1:3]]
    filters = (1, kernel, kernel, shape[3]) if kind == "depthwise_conv_2d" else (2, kernel, kernel, shape[3])
    tensors = [
        int8("x", 1, 5, 5, 2),
        ints("paddings", paddings),
        int8("p", *shape),
        constant("weights", np.arange(np.prod(filters)).astype(np.int8).reshape(filters), (0.01,)),
        int8("y", 1, *size, filters[3] if kind == "depthwise_conv_2d" else 2),
    ]
    conv = Op("conv", kind, ("p", "weights", None), ("y",), CONV | {"padding": ((own, own), (own, own))})
    return graph("net", tensors, [Op("pad", "pad", ("x", "paddings"), ("p",)), conv], ("x",), outputs)


@pytest.mark.parametrize("kind", ["conv_2d", "depthwise_conv_2d"])
def test_a_pad_is_fused_into_the_convolution(kind: str) -> None:
    before = padded(kind, [[0, 0], [0, 1], [1, 0], [0, 0]], own=1)
    conv = Op("conv", kind, ("x", "weights", None), ("y",), CONV | {"padding": ((1, 2), (2, 1))})
    kept = [t for name, t in before.tensors.items() if name not in ("p", "paddings")]
    assert_becomes(fuse_pad, before, graph("net", kept, [conv], ("x",), ("y",)))


def test_a_pad_is_fused_into_all_its_readers_or_none() -> None:
    before = padded("conv_2d", [[0, 0], [1, 1], [1, 1], [0, 0]])
    second = Op("second", "conv_2d", ("p", "weights", None), ("z",), CONV)
    both = graph("net", [*before.tensors.values(), int8("z", 1, 5, 5, 2)], [*before.ops, second], ("x",), ("y", "z"))
    fused, _ = fuse_pad(both)
    assert [(op.name, op.inputs[0], op.attrs["padding"]) for op in fused.ops] == [
        ("conv", "x", ((1, 1), (1, 1))),
        ("second", "x", ((1, 1), (1, 1))),
    ]
    pool = Op("pool", "relu", ("p",), ("z",))
    assert_unchanged(
        fuse_pad, graph("net", [*before.tensors.values(), int8("z", 1, 7, 7, 2)], [*before.ops, pool], ("x",), ("y", "z"))
    )


def pooled(kind: str, amount: int, kernel: int = 3, zero: int = 3, **attrs: str) -> Graph:
    """Return a pad of a 6x6x2 map on all four sides, then a max pool."""
    out = (6 + 2 * amount - kernel) // 2 + 1
    tensors = [
        int8("x", 1, 6, 6, 2, zero=zero),
        ints("paddings", [[0, 0], [amount, amount], [amount, amount], [0, 0]]),
        int8("p", 1, 6 + 2 * amount, 6 + 2 * amount, 2, zero=zero),
        int8("y", 1, out, out, 2, zero=zero),
    ]
    window = {"kernel": (kernel, kernel), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
    ops = [Op("pad", kind, ("x", "paddings"), ("p",), attrs), Op("pool", "max_pool_2d", ("p",), ("y",), window)]
    return graph("net", tensors, ops, ("x",), ("y",))


@pytest.mark.parametrize(
    "before",
    [pooled("mirror_pad", 1, mode="symmetric"), pooled("mirror_pad", 2, 4, mode="symmetric"), pooled("pad", 1, zero=-128)],
)
def test_a_pad_that_adds_no_maximum_is_fused_into_the_max_pool(before: Graph) -> None:
    amount = before.tensors["paddings"].data[1, 0].item()
    pool = replace(before.ops[1], inputs=("x",), attrs={**before.ops[1].attrs, "padding": ((amount, amount),) * 2})
    kept = [before.tensors[name] for name in ("x", "y")]
    assert_becomes(fuse_pad, before, graph("net", kept, [pool], ("x",), ("y",)))


def test_a_pad_that_may_add_a_maximum_is_not_fused() -> None:
    assert_unchanged(
        fuse_pad, pooled("mirror_pad", 2, mode="symmetric")
    )  # a window would contain a pixel that only its neighbour contains
    assert_unchanged(fuse_pad, pooled("mirror_pad", 1, mode="reflect"))
    assert_unchanged(fuse_pad, pooled("pad", 1, zero=3))


def test_pads_of_channels_or_whole_windows_and_output_pads_are_not_fused() -> None:
    assert_unchanged(fuse_pad, padded("conv_2d", [[0, 0], [0, 0], [0, 0], [1, 0]]))
    assert_unchanged(fuse_pad, padded("conv_2d", [[0, 0], [1, 0], [0, 0], [0, 0]], kernel=1))
    assert_unchanged(fuse_pad, padded("conv_2d", [[0, 0], [3, 0], [0, 0], [0, 0]]))
    assert_unchanged(fuse_pad, padded("conv_2d", [[0, 0], [1, 1], [1, 1], [0, 0]], outputs=("p", "y")))


def windowed(kind: str, size: tuple[int, int], weights: np.ndarray, attrs: dict, name: str = "weights") -> Graph:
    """Return a convolution of a map of `size` with the channels of the filters."""
    channels = weights.shape[3]
    window = CONV | attrs
    h, w = (
        (size[a] + sum(window["padding"][a]) - (weights.shape[1 + a] - 1) * window["dilation"][a] - 1) // window["stride"][a]
        + 1
        for a in (0, 1)
    )
    tensors = [
        int8("x", 1, *size, channels),
        constant(name, weights, (0.01,)),
        int8("y", 1, h, w, channels if kind == "depthwise_conv_2d" else len(weights)),
    ]
    return graph("net", tensors, [Op("conv", kind, ("x", name, None), ("y",), window)], ("x",), ("y",))


def filters(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 100 + 1).astype(np.int8).reshape(shape)


def test_filter_rows_that_see_only_padding_are_cropped() -> None:
    whole = filters(1, 7, 7, 2)
    before = windowed("depthwise_conv_2d", (3, 2), whole, {"padding": ((3, 3), (3, 3))})
    crop = windowed("depthwise_conv_2d", (3, 2), whole[:, 1:6, 2:5], {"padding": ((2, 2), (1, 1))}, "conv.weights")
    assert_becomes(crop_windows, before, crop)
    strided = {"stride": (2, 2), "dilation": (1, 2), "padding": ((0, 1), (2, 2))}
    whole = filters(2, 3, 3, 2)
    before = windowed("conv_2d", (2, 1), whole, strided)
    crop = windowed("conv_2d", (2, 1), whole[:, :2, 1:2], strided | {"padding": ((0, 0), (0, 0))}, "conv.weights")
    assert_becomes(crop_windows, before, crop)


def test_zero_rows_of_filters_are_cropped_if_there_is_padding() -> None:
    whole = filters(2, 3, 3, 2)
    whole[:, 0] = whole[:, :, 2] = 0
    before = windowed("conv_2d", (5, 5), whole, {"padding": ((1, 1), (1, 0))})
    crop = windowed("conv_2d", (5, 5), whole[:, 1:], {"padding": ((0, 1), (1, 0))}, "conv.weights")
    assert_becomes(crop_windows, before, crop)
    assert_unchanged(crop_windows, windowed("conv_2d", (5, 5), np.zeros_like(whole), {"padding": ((1, 1), (1, 1))}))
    assert_unchanged(crop_windows, windowed("conv_2d", (3, 3), filters(2, 3, 3, 2), {"padding": ((1, 1), (1, 1))}))


def moves(shapes: Sequence[tuple[int, ...]], *steps: tuple[str, object], outputs: tuple[str, ...] = ()) -> Graph:
    """Return a relu from x to t0 and a chain of ops from t0 to t1, t1 to t2, ...; operands are constants."""
    tensors = [int8("x", *shapes[0]), *(int8(f"t{i}", *shape) for i, shape in enumerate(shapes))]
    layers = [Op("first", "relu", ("x",), ("t0",))]
    for i, (kind, operand) in enumerate(steps):
        tensors.append(ints(f"operand{i}", operand))
        attrs = {"new_shape": tuple(operand)} if kind == "reshape" else {}  # type: ignore[arg-type]
        layers.append(Op(f"op{i}", kind, (f"t{i}", f"operand{i}"), (f"t{i + 1}",), attrs))
    return graph("net", tensors, layers, ("x",), outputs or (f"t{len(steps)}",))


def test_two_reshapes_are_merged() -> None:
    before = moves([(1, 4, 6), (1, 24), (2, 12)], ("reshape", (1, 24)), ("reshape", (2, 12)))
    once = [
        before.ops[0],
        Op("op1", "reshape", ("t0",), ("t2",), {"new_shape": None}),
    ]
    tensors = [before.tensors[n] for n in ("x", "t0", "t2")]
    assert_becomes(merge_moves, before, graph("net", tensors, once, ("x",), ("t2",)))


def test_inverse_moves_are_removed_and_the_output_keeps_its_name() -> None:
    for steps, middle in (
        ((("reshape", (1, 24)), ("reshape", (1, 4, 6))), (1, 24)),
        ((("transpose", (0, 2, 1)), ("transpose", (0, 2, 1))), (1, 6, 4)),
    ):
        before = moves([(1, 4, 6), middle, (1, 4, 6)], *steps)
        relu = Op("first", "relu", ("x",), ("t2",))
        assert_becomes(merge_moves, before, graph("net", [before.tensors["x"], before.tensors["t2"]], [relu], ("x",), ("t2",)))


def test_two_transposes_are_merged() -> None:
    before = moves([(2, 3, 4), (4, 2, 3), (3, 4, 2)], ("transpose", (2, 0, 1)), ("transpose", (2, 0, 1)))
    once = [before.ops[0], Op("op1", "transpose", ("t0", "op1.permutation"), ("t2",), {})]
    tensors = [*(before.tensors[n] for n in ("x", "t0", "t2")), ints("op1.permutation", (1, 2, 0))]
    assert_becomes(merge_moves, before, graph("net", tensors, once, ("x",), ("t2",)))
    assert_unchanged(
        merge_moves, moves([(2, 3, 4), (4, 2, 3), (3, 4, 2)], *[("transpose", (2, 0, 1))] * 2, outputs=("t1", "t2"))
    )


def test_a_transpose_that_moves_no_element_becomes_a_reshape() -> None:
    before = moves([(1, 4, 1, 6), (1, 1, 4, 6)], ("transpose", (0, 2, 1, 3)))
    view = Op("op0", "reshape", ("t0",), ("t1",), {"new_shape": None})
    tensors = [before.tensors[n] for n in ("x", "t0", "t1")]
    assert_becomes(merge_moves, before, graph("net", tensors, [before.ops[0], view], ("x",), ("t1",)))
    assert_unchanged(merge_moves, moves([(1, 4, 2, 6), (1, 2, 4, 6)], ("transpose", (0, 2, 1, 3))))


def test_an_empty_pad_and_a_concatenation_of_one_are_removed() -> None:
    before = moves([(1, 4, 6), (1, 4, 6), (4, 6)], ("pad", [[0, 0]] * 3), ("reshape", (4, 6)))
    joined = Op("joined", "concatenation", ("t2",), ("t3",), {"axis": 0, "activation": "none"})
    longer = graph("net", [*before.tensors.values(), int8("t3", 4, 6)], [*before.ops, joined], ("x",), ("t3",))
    left = [before.ops[0], Op("op1", "reshape", ("t0", "operand1"), ("t3",), {"new_shape": (4, 6)})]
    tensors = [*(before.tensors[n] for n in ("x", "t0", "operand1")), int8("t3", 4, 6)]
    assert_becomes(merge_moves, longer, graph("net", tensors, left, ("x",), ("t3",)))


def test_transposes_around_a_pad_are_removed() -> None:
    paddings = [[0, 0], [0, 0], [1, 0], [0, 2]]
    before = moves(
        [(1, 3, 4, 2), (1, 2, 3, 4), (1, 2, 4, 6), (1, 4, 6, 2)],
        ("transpose", (0, 3, 1, 2)),
        ("pad", paddings),
        ("transpose", (0, 2, 3, 1)),
    )
    direct = Op("op1", "pad", ("t0", "op2.paddings"), ("t3",), {})
    tensors = [*(before.tensors[n] for n in ("x", "t0", "t3")), ints("op2.paddings", [[0, 0], [1, 0], [0, 2], [0, 0]])]
    assert_becomes(merge_moves, before, graph("net", tensors, [before.ops[0], direct], ("x",), ("t3",)))


def test_a_copy_from_input_to_output_is_kept() -> None:
    tensors = [int8("x", 2, 3), ints("shape", (2, 3)), int8("y", 2, 3)]
    copy = Op("copy", "reshape", ("x", "shape"), ("y",), {"new_shape": (2, 3)})
    assert_unchanged(merge_moves, graph("net", tensors, [copy], ("x",), ("y",)))


def rescales(first: Tensor, *steps: tuple[str, Tensor], outputs: tuple[str, ...] = ()) -> Graph:
    """Return a chain of unary ops, given with their outputs."""
    names = [first.name, *(tensor.name for _, tensor in steps)]
    layers = [Op(f"op{i}", kind, (names[i],), (names[i + 1],), {}) for i, (kind, _) in enumerate(steps)]
    return graph("net", [first, *(t for _, t in steps)], layers, (first.name,), outputs or (names[-1],))


def test_a_relu_of_a_relu_is_removed() -> None:
    before = rescales(int8("x", 4), ("relu", int8("a", 4)), ("relu", int8("b", 4)))
    assert_becomes(merge_rescales, before, rescales(int8("x", 4), ("relu", int8("b", 4))))


def test_a_relu6_after_a_relu_is_kept_if_values_exceed_6() -> None:
    # real values reach (127 - 3) * 0.5 = 62
    assert_unchanged(
        merge_rescales, rescales(int8("x", 4), ("relu", int8("a", 4)), ("relu6", int8("b", 4)), outputs=("a", "b"))
    )
    low = {"scale": 0.01}  # reach 1.24
    before = rescales(int8("x", 4, **low), ("relu", int8("a", 4, **low)), ("relu6", int8("b", 4, **low)))
    assert_becomes(merge_rescales, before, rescales(int8("x", 4, **low), ("relu", int8("b", 4, **low))))


def test_a_dequantize_and_a_quantize_are_merged_or_removed() -> None:
    real = activation("real", (4,), dtype="float32")
    before = rescales(int8("x", 4), ("relu", int8("a", 4)), ("dequantize", real), ("quantize", int8("b", 4)))
    assert_becomes(merge_rescales, before, rescales(int8("x", 4), ("relu", int8("b", 4))))
    halved = int8("b", 4, scale=1.0, zero=0)
    before = rescales(int8("x", 4, zero=-128), ("dequantize", real), ("quantize", halved))
    once = Op("op1", "quantize", ("x",), ("b",), {})
    assert_becomes(merge_rescales, before, graph("net", [int8("x", 4, zero=-128), halved], [once], ("x",), ("b",)))


ATTRS: dict[str, dict[str, object]] = {"gelu": {"approximate": True}, "leaky_relu": {"alpha": 0.125}}
ATTRS |= {spec.kind: numbers(spec.kind, np.random.default_rng(0)) for spec in FUNCTIONS}
TESTED = sorted(kind for kind, spec in SPECS.items() if spec.family == "unary" and spec.scale == "own" and kind not in DOMAINS)


@pytest.mark.parametrize("kind", TESTED)
def test_a_quantize_that_only_shifts_the_zero_point_merges_into_any_unary_op(kind: str) -> None:
    x, a, b = int8("x", 4, scale=0.01, zero=0), int8("a", 4, scale=0.1, zero=0), int8("b", 4, scale=0.1, zero=10)
    first, attrs = Op("op0", kind, ("x",), ("a",), ATTRS.get(kind, {})), ATTRS.get(kind, {})
    before = graph("net", [x, a, b], [first, Op("op1", "quantize", ("a",), ("b",), {})], ("x",), ("b",))
    expected = graph("net", [x, b], [Op("op1", kind, ("x",), ("b",), attrs)], ("x",), ("b",))
    assert_becomes(merge_rescales, before, expected)


def test_rescalings_that_round_differently_are_not_merged() -> None:
    coarse, fine = int8("a", 4, scale=1.7, zero=0), int8("b", 4, scale=0.5, zero=3)
    assert_unchanged(merge_rescales, rescales(int8("x", 4), ("quantize", coarse), ("quantize", fine)))


def summed(activation: str, second: str, out: Tensor, outputs: tuple[str, ...] = ("y",)) -> Graph:
    tensors = [int8("x", 4), int8("m", 4, scale=0.1, zero=-100), out]
    layers = [
        Op("sum", "add", ("x", "x"), ("m",), {"activation": activation}),
        Op("clamp", second, ("m",), ("y",), {}),
    ]
    return graph("net", tensors, layers, ("x",), outputs)


@pytest.mark.parametrize(
    ("activation", "second", "merged"),
    [("none", "relu", "relu"), ("none", "relu6", "relu6"), ("relu", "relu6", "relu6"), ("relu6", "relu", "relu6")],
)
def test_a_clamp_is_fused_into_the_preceding_op(activation: str, second: str, merged: str) -> None:
    y = int8("y", 4, scale=0.1, zero=-100)
    expected = graph("net", [int8("x", 4), y], [Op("sum", "add", ("x", "x"), ("y",), {"activation": merged})], ("x",), ("y",))
    assert_becomes(merge_rescales, summed(activation, second, y), expected)


def test_a_clamp_that_rescales_or_whose_operand_is_read_is_not_fused() -> None:
    assert_unchanged(merge_rescales, summed("none", "relu", int8("y", 4, scale=0.2, zero=-100)))
    assert_unchanged(merge_rescales, summed("none", "relu", int8("y", 4, scale=0.1, zero=-100), outputs=("m", "y")))
    # no activation clamps to [-1, 6]
    assert_unchanged(merge_rescales, summed("relu_n1_to_1", "relu", int8("y", 4, scale=0.1, zero=-100)))


def test_equal_constants_are_shared() -> None:
    values = np.array([1, 2, 3, 4], np.int8)
    tensors = [
        int8("x", 4),
        Tensor("a", (4,), "int8", Quant((0.5,), (0,)), values, "constant"),
        Tensor("b", (4,), "int8", Quant((0.5,), (0,)), values.copy(), "constant"),
        Tensor("c", (4,), "int8", Quant((0.25,), (0,)), values, "constant"),
        *(int8(name, 4) for name in ("p", "q", "r")),
    ]

    def layers(*operands: str) -> list[Op]:
        names = ("x", "p", "q", "r")
        return [
            Op(f"add{i}", "add", (names[i], operand), (names[i + 1],), {"activation": "none"})
            for i, operand in enumerate(operands)
        ]

    before = graph("net", tensors, layers("a", "b", "c"), ("x",), ("r",))
    expected = graph("net", [t for t in tensors if t.name != "b"], layers("a", "a", "c"), ("x",), ("r",))
    assert_becomes(share_constants, before, expected)


DENSE = {"activation": "none", "keep_num_dims": False}


def flattened(shape: tuple[int, ...], moved: tuple[int, ...] = (), units: int = 3, outputs: tuple[str, ...] = ("y",)) -> Graph:
    """Return a reshape of a map, transposed to the order `moved` of its axes first, to a vector, and a dense layer on it."""
    elements = int(np.prod(shape))
    filters = (np.arange(units * elements) % 251 - 125).astype(np.int8).reshape(units, elements)
    tensors = [int8("x", *shape), int8("flat", 1, elements), constant("w", filters, (0.01,)), int8("y", 1, units)]
    layers = [
        Op("flatten", "reshape", ("x",), ("flat",), {"new_shape": None}),
        Op("dense", "fully_connected", ("flat", "w", None), ("y",), DENSE),
    ]
    if moved:
        tensors += [int8("t", *(shape[axis] for axis in moved)), ints("order", moved)]
        layers[0] = replace(layers[0], inputs=("t",))
        layers.insert(0, Op("move", "transpose", ("x", "order"), ("t",), {}))
    return graph("net", tensors, layers, ("x",), outputs)


def on_map(before: Graph, order: np.ndarray | None = None) -> Graph:
    """Return a network of `flattened` in which the dense layer reads the map; `order` are the columns of its new weights."""
    name, weights = ("w", before.tensors["w"].data) if order is None else ("dense.weights", before.tensors["w"].data[:, order])
    kept = [before.tensors["x"], constant(name, weights, (0.01,)), before.tensors["y"]]
    return graph("net", kept, [Op("dense", "fully_connected", ("x", name, None), ("y",), DENSE)], ("x",), ("y",))


def test_a_dense_layer_reads_a_map_without_the_reshape_that_flattens_it() -> None:
    before = flattened((1, 4, 3, 2))
    assert_becomes(flatten_in_dense, before, on_map(before))


def test_a_transpose_before_a_flattening_reorders_the_weights() -> None:
    before = flattened((1, 4, 3, 2), (0, 3, 1, 2))
    order = [(y * 3 + x) + 12 * c for y in range(4) for x in range(3) for c in range(2)]
    assert_becomes(flatten_in_dense, before, on_map(before, np.array(order)))


@pytest.mark.parametrize("outputs", [("y", "t"), ("y", "flat")])
def test_a_transpose_that_others_read_too_stays_in_front_of_the_dense_layer(outputs: tuple[str, ...]) -> None:
    before = flattened((1, 4, 3, 2), (0, 3, 1, 2), outputs=outputs)
    after, _ = flatten_in_dense(ops.check(before))
    dense = after.ops[-1]
    assert (dense.inputs, [op.name for op in after.ops]) == (("t", "w", None), ["move", "flatten", "dense"])
    assert same_layers(before, drop_unused(verify(after))[0], {}, 0)


@pytest.mark.parametrize("shape", [(1, 1, 4, 6), (2, 3, 2, 2), (1, 4, 6)])
def test_a_flattening_of_no_map_with_rows_stays(shape: tuple[int, ...]) -> None:
    assert_unchanged(flatten_in_dense, flattened(shape))


def test_a_dense_layer_reads_what_was_read_of_a_state_not_the_state() -> None:
    """A read of a state is a view of its bytes, but the state may have another value when the dense layer runs."""
    before = flattened((1, 4, 3, 2))
    past = replace(int8("past", 1, 4, 3, 2), role="state")
    zeros = replace(past, name="zeros", data=np.zeros(past.shape, np.int8), role="constant")
    named = {**before.tensors, "past": past, "zeros": zeros, "flat": replace(past, name="flat", role="activation")}
    read, write = Op("read", "read_variable", ("past",), ("flat",)), Op("write", "assign_variable", ("x",), ("past",))
    init = (Op("init", "assign_variable", ("zeros",), ("past",)),)
    assert_unchanged(flatten_in_dense, verify(replace(before, tensors=named, ops=(read, write, before.ops[-1]), init=init)))


def test_a_mean_over_the_columns_keeps_its_axis_before_a_dense_layer() -> None:
    before = flattened((1, 4, 6))
    tensors = [*before.tensors.values(), int8("map", 1, 4, 5, 6), ints("axes", [2])]
    mean = Op("mean", "mean", ("map", "axes"), ("x",), {"keep_dims": False})
    before = graph("net", tensors, [mean, *before.ops], ("map",), ("y",))
    after, _ = flatten_in_dense(ops.check(before))
    assert after.tensors["x"].shape == (1, 4, 1, 6)
    assert [(op.name, op.inputs, op.attrs.get("keep_dims")) for op in drop_unused(verify(after))[0].ops] == [
        ("mean", ("map", "axes"), True),
        ("dense", ("x", "w", None), None),
    ]
    assert same_layers(before, after, {}, 0)
