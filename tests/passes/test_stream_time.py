"""Streaming in time: every call gives the output for the whole window and computes only new rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from cases import tiny
from cases.draw import constant, single_op
from cases.frames import Frames, keywords, random_network, wake_word

from tinyweave import ops
from tinyweave.ir import CompileError, Graph, Quant, Tensor, array_type
from tinyweave.ops import macs
from tinyweave.passes import time_rows
from tinyweave.passes.stream_time import StreamedLayer, TimeStream, silence, stream_time
from tinyweave.passes.time_axis import Reading, TimeAxis, reading


def calls_of(stream: TimeStream, count: int, seed: int = 0) -> list[list[np.ndarray]]:
    x = stream.graph.tensors[stream.graph.inputs[0]]
    rng = np.random.default_rng(seed)
    if x.dtype == "float32":
        return [[rng.uniform(-6, 6, x.shape).astype(np.float32)] for _ in range(count)]
    return [[rng.integers(-128, 128, x.shape).astype(array_type(x.dtype))] for _ in range(count)]


def first_wrong(stream: TimeStream, count: int, seed: int = 0) -> int | None:
    """Return the first call whose output differs from the network on its window; the windows are sliced independently."""
    graph, window = stream.graph, stream.window
    calls = calls_of(stream, count, seed)
    axis, state = stream.time.axis, ops.initial_state(graph)
    x = window.tensors[window.inputs[0]]
    zero = x.zero_point if x.dtype != "float32" else 0
    history = np.concatenate([np.full(x.shape, zero, array_type(x.dtype)), *(call[0] for call in calls)], axis)
    size = x.shape[axis]
    for number, call in enumerate(calls, 1):
        got = ops.run(graph, {graph.inputs[0]: call[0]}, state=state)
        end = size + number * stream.hop * size // stream.frames
        seen = np.take(history, range(end - size, end), axis)
        wanted = ops.run(window, {window.inputs[0]: seen})
        for name, like in zip(graph.outputs, window.outputs, strict=True):
            if not np.array_equal(got[name], wanted[like]):
                return number
    return None


def layer(stream: TimeStream, name: str) -> StreamedLayer:
    return next(each for each in stream.layers if each.name == name)


def test_layers_without_padding_compute_one_new_row_per_call() -> None:
    stream = stream_time(wake_word())
    assert (stream.hop, stream.frames, stream.calls_until_full) == (1, 16, 16)
    assert [(each.top, each.new) for each in stream.layers if each.rows] == [(0, 1)] * 6
    assert stream.state_bytes == 2 * 8 + (4 + 1) * 12 + (9 + 1) * 12, "two frames, and of maps what is new, too"
    assert macs(stream.graph) == 3 * 8 + 8 * 12 + 5 * 12 + 12 * 12 + 10 * 12 + 12 * 12 + 12 * 3
    assert sum(each.macs for each in stream.layers) == macs(stream.graph)
    assert sum(each.macs_window for each in stream.layers) == macs(stream.window)
    assert first_wrong(stream, 20) is None


@pytest.mark.parametrize("hop", [1, 2, 3, 5])
def test_a_network_of_stride_1_streams_with_any_hop(hop: int) -> None:
    stream = stream_time(wake_word(), hop)
    assert stream.graph.tensors[stream.graph.inputs[0]].shape == (1, hop, 1, 8)
    assert stream.calls_until_full == -(-16 // hop)
    assert first_wrong(stream, 8) is None


def test_rows_that_depend_on_padding_are_recomputed_and_others_kept() -> None:
    stream = stream_time(keywords())
    first, last = layer(stream, "conv_2d_0"), layer(stream, "conv_2d_4")
    assert stream.hop == 2
    assert (last.rows, last.top + last.new + last.kept) == (21, 21)
    assert last.kept == 21 - (2 + 2 + 1) - (1 + 2 + 1), (
        "of 21 rows padding reaches 4 at the top and 4 at the bottom, one is new"
    )
    assert layer(stream, "average_pool_2d_5").why is None, "a single window does not step"
    assert first.why == "padding: 4 rows depend on the position of the window"
    assert sum(each.macs for each in stream.layers) < sum(each.macs_window for each in stream.layers)
    assert first_wrong(stream, 26) is None


def test_the_number_of_tried_choices_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, tried, rows_of = keywords(), list[time_rows.Choices](), time_rows.rows_of
    net = time_rows.follow(graph, time_rows.TimeAxis(1, 1, 41, 1, 0, 41), 2)
    monkeypatch.setattr(time_rows, "rows_of", lambda net, chosen: tried.append(chosen) or rows_of(net, chosen))
    for looks, count in ((1 << 16, 1 + 2 * 3 * 6), (2 * len(graph.ops), 1 + 2 * 3 * 2), (0, 1)):
        monkeypatch.setattr(time_rows, "MAX_TRIALS", looks)
        tried.clear()
        time_rows.choose(net)
        assert len(tried) == count


def test_missing_frames_of_the_first_windows_are_zero_points() -> None:
    stream = stream_time(wake_word())
    calls = calls_of(stream, 3)
    (window,) = stream.windows(calls, silence(stream.window))[1]
    assert (window[:, :14] == -3).all()
    assert np.array_equal(window[:, 14:], np.concatenate([calls[0][0], calls[1][0]], 1))


def test_the_state_of_float_frames_is_quantised() -> None:
    stream = stream_time(wake_word(dtype="float32"))
    assert {t.dtype for t in stream.graph.tensors.values() if t.role == "state"} == {"int8"}
    assert first_wrong(stream, 20) is None


@pytest.mark.parametrize("seed", range(20))
def test_random_networks_equal_their_windows(seed: int) -> None:
    _agrees(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("batch", range(10))
def test_many_random_networks_equal_their_windows(batch: int) -> None:
    streamed = sum(_agrees(seed) for seed in range(1000 + 100 * batch, 1100 + 100 * batch))
    assert streamed > 40, "too few of the networks can be streamed at all"


def _agrees(seed: int) -> bool:
    """Compare a random network, with a random hop, with its windows; return whether it can be streamed."""
    graph = ops.check(random_network(seed))
    hop = (None, 1, 2, 3, 4, 6)[seed % 6]
    try:
        stream = stream_time(graph, hop)
    except CompileError as error:
        assert "no row can be kept" in str(error), seed
        return False
    assert first_wrong(stream, stream.calls_until_full + 3, seed) is None, seed
    assert macs(stream.graph) == sum(each.macs for each in stream.layers), seed
    assert all(each.macs <= each.macs_window for each in stream.layers), seed
    return True


def test_a_network_that_cannot_be_streamed_is_refused_with_the_reason() -> None:
    stateful = tiny.stream()
    with pytest.raises(CompileError, match="it already keeps state from one inference to the next"):
        stream_time(stateful)
    net = Frames(0, (1, 40))
    with pytest.raises(CompileError, match="has no time axis"):
        stream_time(net.graph(net.dense("frames", 3)))
    with pytest.raises(CompileError, match="a hop of 16 frames two windows of 16 frames do not overlap"):
        stream_time(wake_word(), 16)
    with pytest.raises(CompileError, match="15 frames change all rows of its layers; give --stream-time fewer"):
        stream_time(wake_word(), 15)
    with pytest.raises(CompileError, match=r"conv_2d_0: its rows are 2 frames apart.*; give --stream-time 2, or leave it out"):
        stream_time(keywords(), 1)
    with pytest.raises(
        CompileError, match=r"only \d+ rows are independent of the position of the window; give --stream-time fewer frames"
    ):
        stream_time(keywords(), keywords().tensors["frames"].shape[1] // 2 * 2 - 2)
    net = Frames(0, (1, 12, 1, 4))
    dense = net.dense("frames", 3)
    with pytest.raises(CompileError, match="layer fully_connected_0: it combines all rows of the window"):
        stream_time(net.graph(dense))
    net = Frames(0, (1, 5, 1, 4))
    wide = net.windowed("conv_2d", "frames", (9, 1), padding="same", channels=4)
    with pytest.raises(CompileError, match="layer conv_2d_0: padding: all its rows depend on the position of the window"):
        stream_time(net.graph(wide))


def test_a_network_with_two_inputs_is_refused() -> None:
    net = Frames(0, (1, 8, 1, 4))
    joined = net.op("add", ("frames", "more"), (1, 8, 1, 4), activation="none")
    tensors = {t.name: t for t in net.tensors} | {"more": replace(net.tensors[0], name="more")}
    with pytest.raises(CompileError, match="it has 2 inputs"):
        stream_time(Graph("two", tensors, tuple(net.ops), ("frames", "more"), (joined,)))


def test_an_op_whose_constant_operand_differs_between_rows_is_not_streamed() -> None:
    net = Frames(0, (1, 12, 1, 4))
    early = net.windowed("conv_2d", "frames", (3, 1), channels=4)
    ramp = net.constant(net.rng.integers(-127, 128, (1, 10, 1, 4)).astype(np.int8), (0.05,))
    added = net.op("add", (early, ramp), (1, 10, 1, 4), activation="none")
    stream = stream_time(net.graph(net.dense(added, 3)))
    assert layer(stream, added).why == "its constant operand differs between rows"
    assert layer(stream, early).new == 1
    assert first_wrong(stream, 15) is None


def test_time_may_be_the_axis_of_columns_or_part_of_a_flat_input() -> None:
    across = Frames(0, (1, 1, 20, 4))
    x = across.windowed("conv_2d", "frames", (1, 3), channels=4)
    stream = stream_time(across.graph(across.dense(x, 2)))
    assert (stream.time.axis, stream.hop, layer(stream, x).new) == (2, 1, 1)
    assert first_wrong(stream, 24) is None
    flat = Frames(0, (1, 80))
    x = flat.op("reshape", ("frames", flat.constant(np.array([1, 20, 4, 1], np.int32))), (1, 20, 4, 1), new_shape=None)
    x = flat.windowed("conv_2d", x, (3, 2), channels=4)
    stream = stream_time(flat.graph(flat.dense(x, 2)))
    assert stream.graph.tensors[stream.graph.inputs[0]].shape == (1, 4), "four values are a frame"
    assert first_wrong(stream, 24) is None
    assert prod(stream.window.tensors["frames"].shape) == 80


@pytest.mark.parametrize("shape", [(1, 5, 6), (1, 5, 1, 6)])
def test_dense_layers_keep_the_time_axis(shape: tuple[int, ...]) -> None:
    quant = Quant((0.5,), (0,))
    tensors = [Tensor("x", shape, "int8", quant), constant("weights", np.ones((3, 6), np.int8), quant)]
    attrs = {"activation": "none", "keep_num_dims": True}
    graph = single_op("fully_connected", tensors, replace(tensors[0], name="output"), attrs)
    time = TimeAxis(1, 1, 5, 1, 0, 5)
    found = reading(graph, graph.ops[0], {"x": time})
    assert isinstance(found, Reading) and found.outputs == (time,)


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
SLICES = {
    "last rows": ("slice", ([0, 6, 0, 0], [1, 4, 1, 4]), {}, (1, 4, 1, 4)),
    "rows and channels": ("slice", ([0, 3, 0, 1], [1, 7, 1, 2]), {}, (1, 7, 1, 2)),
    "rows before the last": ("slice", ([0, 2, 0, 0], [1, 7, 1, 4]), {}, (1, 7, 1, 4)),
    "channels": ("slice", ([0, 0, 0, 1], [1, 10, 1, 2]), {}, (1, 10, 1, 2)),
    "one row": (
        "strided_slice",
        ([0, 9, 0, 0], [1, 10, 1, 4], [1] * 4),
        dict.fromkeys(MASKS, 0) | {"shrink_axis_mask": 2},
        (1, 1, 4),
    ),
    "steps": ("strided_slice", ([0, 0, 0, 0], [1, 10, 1, 4], [1, 2, 1, 1]), dict.fromkeys(MASKS, 0), (1, 5, 1, 4)),
}


@pytest.mark.parametrize("case", SLICES)
def test_a_slice_keeps_only_the_rows_that_are_read(case: str) -> None:
    kind, values, attrs, shape = SLICES[case]
    net = Frames(0, (1, 12, 1, 4))
    x = net.windowed("conv_2d", "frames", (3, 1), channels=4)
    operands = [net.constant(np.array(each, np.int32)) for each in values]
    part = net.op(kind, (x, *operands), shape, **attrs)
    stream = stream_time(ops.check(net.graph(net.dense(part, 3))))
    assert first_wrong(stream, 15) is None
    if case == "steps":
        assert layer(stream, part).why == "it takes rows or channels in steps" and layer(stream, x).new == 1
    else:
        assert layer(stream, x).new == layer(stream, part).new == 1
        late = 2 * 4 if case == "rows before the last" else 0  # the last row, and the row before it
        of_slice = prod(shape) if shape[1] > 1 else 0
        assert stream.state_bytes == 2 * 4 + of_slice + late, "two frames, and rows of the slice"
