"""Streaming in time over attention: each call returns the new rows of the network's output for its window."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.attention import UNIT, Builder, random_stream

from tinyweave import ops
from tinyweave.ir import CompileError, Graph
from tinyweave.ops import macs
from tinyweave.passes import run_passes
from tinyweave.passes.attention.bands import Band, attention_bands
from tinyweave.passes.stream_time import TimeStream, stream_time

CHANNELS = 8
REFUSALS = ("no row can be kept", "are independent of the position of the window", "frames apart")


def passed(graph: Graph) -> Graph:
    return run_passes(graph, io="int8")[0]


class Stack(Builder):
    """Attention of one head, which sees `before` rows before each row and `ahead` after it; None sees all."""

    def block(self, x: str, band: tuple[int, int] | None, bias: np.ndarray | None = None) -> str:
        """Add a block; `bias` is added to the scores where the mask hides none, in steps of 300 / 255."""
        query, key, value = (self.dense(x, CHANNELS) for _ in range(3))
        scores, rows = self.product(query, key, turned=True), self.shape(x)[1]
        if band is not None:
            distance = np.subtract.outer(np.arange(rows), np.arange(rows))
            is_inside = (distance <= band[0]) & (distance >= -band[1])
            mask = np.where(is_inside, 127 if bias is None else 127 + bias, -128).astype(np.int8)
            scores = self.add(scores, mask, 300 / 255, 1.2)
        return self.binary("add", x, self.product(self.softmax(scores), value, turned=False), self.scale(x))

    def add(self, x: str, values: np.ndarray, scale: float, output: float) -> str:
        """Add constant values, of a zero point of 127, to a map."""
        quants = [type(self.g.quant())((each,), (zero,)) for each, zero in ((scale, 127), (output, 120))]
        return self.g.emit("add", [x, self.g.constant("values", values, quants[0])], {"activation": "none"}, quants[1])


def stack(frames: int, *bands: tuple[int, int] | None, last: bool = False, bias: np.ndarray | None = None) -> Graph:
    b = Stack(3, band=(0, 0))
    x = b.input(frames, CHANNELS)
    for band in bands:
        x = b.block(x, band, bias)
    x = b.slice(x, (0, frames - 1, 0), (1, 1, CHANNELS)) if last else x
    return passed(b.finish(x))


def outputs(stream: TimeStream, frames: np.ndarray) -> list[np.ndarray]:
    """Return the output of each call; `frames` are [1, frames, channels]."""
    graph, state = stream.graph, ops.initial_state(stream.graph)
    cuts = np.split(frames, frames.shape[1] // stream.hop, axis=1)
    return [ops.run(graph, {graph.inputs[0]: cut}, state=state)[graph.outputs[0]] for cut in cuts]


def drawn(seed: int, frames: int, channels: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, frames, channels)).astype(np.int8)


def result(graph: Graph, x: np.ndarray) -> np.ndarray:
    return ops.run(graph, {graph.inputs[0]: x})[graph.outputs[0]]


@pytest.mark.parametrize("hop", [1, 2, 3])
@pytest.mark.parametrize("ahead", [0, 2])
def test_a_stream_of_rows_equals_the_network_on_a_long_sequence(hop: int, ahead: int) -> None:
    bands, window, length = ((5, ahead), (3, 0)), 20, 48
    stream = stream_time(stack(window, *bands), hop)
    x = drawn(0, length, CHANNELS)
    got = np.concatenate(outputs(stream, x), axis=1)
    wanted = result(stack(length, *bands), x)
    full = stream.calls_until_full * hop  # frames after which the window has no zero points
    assert got.shape == (1, length, CHANNELS)
    assert np.array_equal(got[:, full:], wanted[:, full - ahead : length - ahead]), "rows that see later rows come later"


def test_a_call_keeps_keys_and_values_and_computes_one_row() -> None:
    stream = stream_time(stack(20, (5, 0), (3, 0)))
    seen, dense = 6 + 4, 2 * 3 * CHANNELS**2
    assert stream.state_bytes == 2 * CHANNELS * seen, "keys and values of the rows that are seen, the new one included"
    assert macs(stream.graph) == dense + 2 * CHANNELS * seen
    assert {(each.top, each.new) for each in stream.layers if each.kind != "reshape"} == {(0, 1)}
    assert {each.kind for each in stream.layers if each.kept} == {"fully_connected"}, "new rows are computed in the cache"


def test_the_first_windows_begin_with_zero_points() -> None:
    graph = stack(20, (5, 0), (3, 0))
    x, zero = drawn(1, 3, CHANNELS), graph.tensors[graph.inputs[0]].zero_point
    before = np.full((1, 17, CHANNELS), zero, np.int8)
    assert np.array_equal(outputs(stream_time(graph), x)[2], result(graph, np.concatenate([before, x], 1))[:, -1:])


@pytest.mark.parametrize("bands", [((19, 0),), (None,), (None, None), ((12, 0), (12, 0))])
@pytest.mark.parametrize("hop", [1, 3])
def test_a_network_that_returns_its_last_row_needs_no_band(bands: tuple[tuple[int, int] | None, ...], hop: int) -> None:
    graph = stack(20, *bands, last=True)
    stream, x = stream_time(graph, hop), drawn(2, 30, CHANNELS)
    for number, got in enumerate(outputs(stream, x), 1):
        if number * hop >= 20:
            assert np.array_equal(got, result(graph, x[:, number * hop - 20 : number * hop]))


def test_the_rows_that_attention_sees_are_found() -> None:
    def of(graph: Graph) -> set[Band]:
        return set(attention_bands(graph).values())

    distance = np.subtract.outer(np.arange(12), np.arange(12))
    assert of(stack(12, (4, 1))) == {Band(4, 1, True)}
    assert of(stack(12, (11, 0))) == {Band(11, 0, True)}
    assert of(stack(12, None)) == {Band(11, 11, True)}
    assert of(stack(12, (4, 0), bias=-3 * distance)) == {Band(4, 0, True)}, "a bias of the distance"
    assert of(stack(12, (4, 0), bias=-np.arange(12))) == {Band(4, 0, False)}, "a bias of the position"
    names = attention_bands(stack(12, (4, 1)))
    kinds = [op.kind for op in stack(12, (4, 1)).ops if op.name in names]
    assert kinds == ["batch_matmul", "add", "softmax", "batch_matmul"]


@pytest.mark.parametrize(
    ("steps", "hides", "changes"),
    [(3, False, True), (5, False, True), (15, False, False), (30, True, False), (100, True, False)],
)
def test_a_mask_hides_rows_only_if_no_scores_can_change_the_softmax(steps: int, hides: bool, changes: bool) -> None:
    """Row 0 of a causal head changes with the rows after it if the mask is weak; after a few samples that is not yet seen."""
    b, rows = Stack(0, band=(0, 0)), 6
    x, y = b.input(rows, CHANNELS), b.input(rows, CHANNELS)
    mask = np.where(np.tri(rows, dtype=bool), 127, 127 - steps).astype(np.int8)
    scores = b.add(b.product(x, y, turned=True), mask, 1.2, 1.2)
    graph = passed(b.finish(b.product(b.softmax(scores), y, turned=False)))
    assert (set(attention_bands(graph).values()) == {Band(5, 0, True)}) == hides
    rng, is_equal = np.random.default_rng(0), True
    for _ in range(100):
        queries, keys, others = (rng.choice([-128, 127], (1, rows, CHANNELS)).astype(np.int8) for _ in range(3))
        others[:, 0] = keys[:, 0]
        first, second = (ops.run(graph, dict(zip(graph.inputs, (queries, k), strict=True))) for k in (keys, others))
        is_equal &= np.array_equal(first[graph.outputs[0]][:, 0], second[graph.outputs[0]][:, 0])
    assert is_equal != changes


def test_heads_that_share_their_scores_equal_the_window() -> None:
    """Two masks of the same scores hide different rows; only the first head is streamed."""
    b = Stack(3, band=(0, 0))
    x = b.input(20, CHANNELS)
    query, key, value = (b.dense(x, CHANNELS) for _ in range(3))
    scores, distance = b.product(query, key, turned=True), np.subtract.outer(np.arange(20), np.arange(20))
    heads = []
    for before in (6, 2):
        mask = np.where((distance >= 0) & (distance <= before), 127, -128).astype(np.int8)
        heads.append(b.product(b.softmax(b.add(scores, mask, 300 / 255, 1.2)), value, turned=False))
    both = b.binary("add", *heads, b.scale(x))
    graph = passed(b.finish(b.slice(both, (0, 19, 0), (1, 1, CHANNELS))))
    assert set(attention_bands(graph).values()) == {Band(6, 0, True)}
    frames = drawn(0, 30, CHANNELS)
    assert np.array_equal(outputs(stream_time(graph, 1), frames)[-1], result(graph, frames[:, 10:]))


@pytest.mark.parametrize("read_by", ["output", "dense layer", "last row"])
def test_scores_that_other_layers_read_are_computed_for_the_whole_window(read_by: str) -> None:
    b = Stack(3, flat=True, band=(0, 0))
    wide = b.dense(b.input(20, CHANNELS), 8 * CHANNELS)
    x = b.g.emit("quantize", [b.dense(wide, CHANNELS)], {}, UNIT)
    query, key, value = (b.dense(x, CHANNELS) for _ in range(3))
    is_seen = np.tri(20, dtype=bool) & ~np.tri(20, k=-4, dtype=bool)
    mask = np.where(is_seen, 127, -128).astype(np.int8).reshape(1, 20, 1, 20)
    weights = b.softmax(b.add(b.product(query, key, turned=True), mask, 300 / 255, 1.2))
    rows = weights if read_by == "output" else b.dense(weights, 5)
    rows = b.slice(rows, (0, 19, 0, 0), (1, 1, 1, 5)) if read_by == "last row" else rows
    graph = passed(b.finish(b.product(weights, value, turned=False), rows))
    stream, frames = stream_time(graph, 1), drawn(0, 24, CHANNELS).reshape(1, 24, 1, CHANNELS)
    state = ops.initial_state(stream.graph)
    for number in range(24):
        got = ops.run(stream.graph, {stream.graph.inputs[0]: frames[:, number : number + 1]}, state=state)
    wanted = ops.run(graph, {graph.inputs[0]: frames[:, 4:]})
    assert np.array_equal(got[stream.graph.outputs[0]], wanted[graph.outputs[0]][:, -1:])
    assert np.array_equal(got[stream.graph.outputs[1]], wanted[graph.outputs[1]])


def test_products_of_all_rows_without_a_softmax_are_computed_for_the_whole_window() -> None:
    b = Stack(3, band=(0, 0))
    x = b.input(20, CHANNELS)
    for _ in range(4):
        x = b.dense(x, CHANNELS)
    graph = b.finish(b.dense(b.product(x, x, turned=True), 4))
    stream, frames = stream_time(graph, 1), drawn(0, 24, CHANNELS)
    assert np.array_equal(outputs(stream, frames)[-1], result(graph, frames[:, 4:]))
    (product,) = (each for each in stream.layers if each.kind == "batch_matmul")
    assert product.why == "it combines all rows of the window"


def refusal(graph: Graph, hop: int | None = None) -> str:
    with pytest.raises(CompileError) as error:
        stream_time(graph, hop)
    return str(error.value)


def test_attention_that_cannot_be_streamed_is_refused_with_the_reason() -> None:
    because = "rows of the output 'add_7_out' are independent of the position of the window, because attention in layer"
    fewer = "mask its scores with -inf, except for a band of few past rows, or export the network for more frames"
    unmasked = refusal(stack(20, None))
    assert "a call returns 1 new row, but 0 of 20 rows of the output 'add_6_out'" in unmasked
    assert "sees 19 rows before each row and 19 after it" in unmasked and unmasked.endswith(fewer)
    assert f"a call returns 2 new rows, but 1 of 20 {because}" in refusal(stack(20, (19, 0)), 2)
    assert "sees 12 rows before each row and 0 after it" in refusal(stack(20, (12, 0), (12, 0)))
    assert f"but 0 of 20 {because}" in refusal(stack(20, (4, 0), bias=-np.arange(20)))


def test_absolute_positions_are_refused_with_what_works_instead() -> None:
    b = Stack(3, band=(0, 0))
    x = b.add(b.input(20, CHANNELS), drawn(0, 20, CHANNELS), 0.01, 0.02)
    said = refusal(passed(b.finish(b.block(x, (4, 0)))))
    assert "layer add_0: its constant operand differs between rows, as absolute positions do; add a bias to the scores" in said


@pytest.mark.parametrize("seed", range(20))
def test_random_streams_equal_their_windows(seed: int) -> None:
    agrees(seed)


@pytest.mark.parametrize("seed", [84, 101])
def test_networks_whose_rows_are_best_kept_in_views_are_streamed(seed: int) -> None:
    assert agrees(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("batch", range(10))
def test_many_random_streams_equal_their_windows(batch: int) -> None:
    streamed = sum(agrees(seed) for seed in range(1000 + 100 * batch, 1100 + 100 * batch))
    assert streamed > 50, "too few of the networks can be streamed at all"


def agrees(seed: int) -> bool:
    """Compare a random network with its windows and, if it returns rows, with the network of a longer window.

    Return whether it can be streamed.
    """
    graph, hop = passed(random_stream(seed)), (None, 1, 2, 4)[seed % 4]
    try:
        stream = stream_time(graph, hop)
    except CompileError as error:
        assert any(text in str(error) for text in REFUSALS), seed
        return False
    _, window, channels = graph.tensors[graph.inputs[0]].shape
    x = drawn(seed, (stream.calls_until_full + 4) * stream.hop, channels)
    got = outputs(stream, x)
    for call in range(stream.calls_until_full, len(got) + 1):
        end = call * stream.hop
        (wanted,) = stream.new_rows([result(graph, x[:, end - window : end])])
        assert np.array_equal(got[call - 1], wanted), seed
    later, (part,) = 3 * stream.hop, stream.returned
    rows = graph.tensors[graph.outputs[0]].shape
    if got[0].shape[1:-1] != rows[1:-1]:
        long = passed(random_stream(seed, window + later))
        wanted = result(long, x[:, -window - later :])
        moved = wanted.shape[1] - rows[1]
        assert np.array_equal(got[-1], wanted[:, part[1].start + moved : part[1].stop + moved]), seed
    return True
