"""Windows say which rows an output reads along an axis, also if the output has more rows than the input."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cases.ops import cases

from tinyweave import ops
from tinyweave.ops.window import MOST_STEPS, Window, all_taps_inside, positions, window_around

RESAMPLED = ("resize_nearest_neighbor", "resize_bilinear", "transpose_conv")


def test_the_first_row_of_windows_of_a_larger_output() -> None:
    twice, between = Window(1, 1, 0, 2, 0), Window(2, 1, 1, 2, 1)
    assert [twice.first(row) for row in range(6)] == [0, 0, 1, 1, 2, 2]
    assert [between.first(row) for row in range(6)] == [-1, 0, 0, 1, 1, 2]
    assert [Window(2, 2, 0, 3, 0).first(row) for row in range(6)] == [0, 0, 1, 2, 2, 3]
    begin, end = between.read((np.array([0, 3]), np.array([2, 6])), 3)
    assert begin.tolist() == [0, 1] and end.tolist() == [2, 3]


def test_window_around_is_the_smallest_window_that_contains_the_read_rows() -> None:
    low, high = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2, 2])
    assert window_around(low, high, 3, 6) == Window(2, 1, 1, 2, 1)
    assert window_around(np.arange(6) // 2, np.arange(6) // 2, 1, 2) == Window(1, 1, 0, 2, 0)
    assert window_around(np.arange(4) * 3, np.arange(4) * 3 + 1, 3, 1) == Window(2, 3)
    assert window_around(np.arange(9), np.arange(9), 1, MOST_STEPS + 1) is None


@pytest.mark.parametrize("kind", RESAMPLED)
def test_an_output_depends_on_nothing_outside_of_its_windows(kind: str) -> None:
    """Rows and columns of the input are changed individually."""
    rng, tight, tried = np.random.default_rng(1), 0, 0
    for case in cases(kind):
        graph, (op,) = case.graph, case.graph.ops
        windows, x = ops.SPECS[kind].windows(graph, op), ops.data(graph, op)
        if windows is None or x.dtype != "int8":
            continue
        value = rng.integers(-100, 100, x.shape).astype(np.int8)
        (before,) = ops.run(graph, {x.name: value}).values()
        for axis, window in zip((1, 2), windows, strict=True):
            spans = np.arange(before.shape[axis])
            begin, end = window.read((spans, spans + 1), x.shape[axis])
            depends = np.zeros((before.shape[axis], x.shape[axis]), bool)
            for at in range(x.shape[axis]):
                changed = value.copy()
                changed[(slice(None),) * axis + (at,)] ^= 127
                (after,) = ops.run(graph, {x.name: changed}).values()
                others = tuple(number for number in range(4) if number != axis)
                depends[:, at] = (before != after).any(axis=others)
                outside = (at < begin) | (end <= at)
                assert not (depends[:, at] & outside).any(), (case.id, axis, at, window)
            widest = depends.sum(axis=1).max(initial=0)
            tight, tried = tight + (window.extent <= max(widest, 1) + 1), tried + 1
    assert tried > 20 and tight > 0.8 * tried, "windows are no larger than they must be"


def test_wait_and_kept_equal_those_of_a_simulated_row_schedule() -> None:
    """The simulation walks through the rows of random schedules."""
    rng = random.Random(7)
    for _ in range(300):
        up, stride = rng.choice([(1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (2, 3), (5, 4), (4, 3)])
        window = Window(rng.randint(1, 4), stride, rng.randint(0, 2), up, rng.randrange(up))
        unit = rng.randint(1, 3)
        ticks, every, late = up * unit, stride * unit, rng.randint(0, 7)  # ticks per row of the input and of the output
        rows = range(4 * up)
        wait = window.wait(ticks)
        assert wait == max((window.first(row) + window.extent - 1) * ticks - row * every for row in rows), window
        newest = [(wait + late + row * every) // ticks for row in rows]
        kept = max(new - window.first(row) + 1 for new, row in zip(newest, rows, strict=True))
        assert window.kept(ticks, wait + late) == kept, window


def test_all_taps_inside_equals_a_count_of_the_taps() -> None:
    rng, some = random.Random(3), 0
    for _ in range(2000):
        size, out, dilation = rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 3)
        axis = {"kernel": rng.randint(1, 7), "stride": rng.randint(1, 4), "dilation": dilation, "before": rng.randint(0, 6)}
        inside = positions(size, out, **axis)
        assert all_taps_inside(size, out, **axis) == int(inside.sum()), (size, out, axis)
        some += bool(0 < inside.sum() < inside.size)
    assert some > 1000
