"""The steps in access.py equal the steps of the C kernels, and the table's overlap distances and scratch follow from them.

Cases of every row of the table run with disjoint operands while their reads and writes are recorded. The records give the
actual overlap distance of the output and each input. `-m sweep` runs all cases instead of some.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from cases.ops import Case
from cases.rows import cases_of, some_of
from kernels.traces import Chosen, Seen, on_core, on_host

from tinyweave.ir import Graph, Op, Quant, Tensor
from tinyweave.kernels import access
from tinyweave.kernels.dsp import depthwise
from tinyweave.kernels.mve import weights as mve
from tinyweave.kernels.table import BY_NAME, VARIANTS, Variant
from tinyweave.simulate import emulated

GROUPS = 8  # groups of rows whose cases are built together
SOME = 10  # cases per row
WATCHED = [row for row in VARIANTS if row.files]  # the other rows call the C library's memcpy
CORE = "cortex-m4"
# the core's memmove copies bytes in the direction that does not overwrite bytes it has yet to read
MOVING = ("tw_pad_s8", "tw_concatenation_s8", "tw_strided_copy", "tw_table_copy", "tw_resize_nearest_neighbor_s8", "tw_move")
Pair = tuple[int, int]
Shape = tuple[int, int, int, int]
AT_MOST = {  # kernel -> index of an input that needs at most the declared distance
    "tw_prelu_s8": 1,  # it reads this operand only if the other one is negative
    "tw_prelu_s16": 1,  # the same
    "tw_conv_2d_s8_lean_dsp": 0,  # it reads a small window once, because it copies it
}


def differences(case: Case, row: Variant, seen: Seen) -> Iterator[str]:
    """Yield the differences between a kernel's accesses and those that its row and access.py declare."""
    graph, op = case.graph, case.graph.ops[0]
    about = f"{row.name}, {case.id}"
    if seen.written != max(tensor.bytes for tensor in graph.outputs_of(op) if tensor.role != "state"):
        yield f"{about}: wrote {seen.written} bytes of its output"
    end = 0 if seen.scratch is None else seen.scratch[1]
    if end != row.scratch(graph, op):
        yield f"{about}: touched {end} bytes of scratch, {row.scratch(graph, op)} are declared"
    for index, stepped in access.overlap_distances(graph, op, row.name).items():
        if op.inputs.count(op.inputs[index]) > 1 or index not in seen.distances:
            continue
        real = seen.distances[index]
        if real > stepped or (real < stepped and AT_MOST.get(row.name) != index):
            yield f"{about}: input {index} needs a distance of {real}, by its steps {stepped}"


@pytest.mark.parametrize("group", range(GROUPS))
def test_kernels_access_memory_in_the_declared_steps(group: int, tmp_path: Path) -> None:
    some = [Chosen(case, row) for row in WATCHED[group::GROUPS] for case in some_of(row, SOME)]
    check(some, on_host(f"group_{group}", some, tmp_path))


@pytest.mark.sweep
@pytest.mark.parametrize("name", [row.name for row in WATCHED])
def test_kernels_access_memory_in_the_declared_steps_in_all_cases(name: str, tmp_path: Path) -> None:
    rest = (Chosen(case, BY_NAME[name]) for case in cases_of(BY_NAME[name]))
    for number in range(1000):
        if not (some := list(islice(rest, 100))):
            assert number > 0
            return
        check(some, on_host(f"cases_{number}", some, tmp_path / str(number)))


@pytest.mark.emulator
def test_kernels_on_a_core_access_memory_in_the_declared_steps(tmp_path: Path) -> None:
    """Most cases are of kernels with Cortex-M4 instructions. Kernels for a Cortex-M55 run in test_overlap_distance.py."""
    if reason := emulated.missing(CORE):
        pytest.skip(reason[0])
    rows = [row for row in WATCHED if (CORE in row.cores or not row.cores) and row.name not in MOVING]
    some = [Chosen(case, row) for row in rows for case in some_of(row, SOME if row.cores else 2)]
    check(some, on_core("on_core", some, CORE, tmp_path))


def check(some: list[Chosen], watched: list[Seen]) -> None:
    wrong = [text for (case, row), seen in zip(some, watched, strict=True) for text in differences(case, row, seen)]
    assert not wrong, "\n".join(wrong[:20])


def layer(kind: str, weights: Shape, size: Pair, channels: int, *, stride: Pair, padding: tuple[Pair, Pair]) -> Graph:
    """Return a convolution with these weights that makes `channels` channels from a map of this size; all weights are 1."""
    window = zip(size, weights[1:3], stride, padding, strict=True)
    out = [(n + sum(pads) - taps) // step + 1 for n, taps, step, pads in window]
    shapes = {"x": (1, *size, weights[3]), "w": weights, "y": (1, *out, channels)}
    tensors = {name: Tensor(name, shape, "int8", Quant((0.5,), (0,))) for name, shape in shapes.items()}
    tensors["w"] = replace(tensors["w"], data=np.ones(weights, np.int8), role="constant")
    attrs = {"stride": stride, "dilation": (1, 1), "padding": padding, "activation": "none"}
    return Graph("g", tensors, (Op("layer", kind, ("x", "w"), ("y",), attrs),), ("x",), ("y",))


def convolution(size: Pair, channels: Pair, stride: Pair, padding: tuple[Pair, Pair]) -> Graph:
    """Return a 1x1 convolution of a map of this size."""
    return layer("conv_2d", (channels[1], 1, 1, channels[0]), size, channels[1], stride=stride, padding=padding)


def depthwise_convolution(size: Pair, kernel: Pair, stride: Pair, padding: tuple[Pair, Pair]) -> Graph:
    """Return a depthwise convolution of four channels of a map of this size."""
    return layer("depthwise_conv_2d", (1, *kernel, 4), size, 4, stride=stride, padding=padding)


def test_pixels_beyond_the_end_of_a_map_are_gathered(tmp_path: Path) -> None:
    """A 1x1 convolution may have padding at its end. If its last window is in the padding, all windows are gathered."""
    ends = ((0, 0), (0, 1), (1, 0), (2, 1))
    graphs = [convolution((4, 6), (16, 8), (1, 1), ((0, below), (0, right))) for below, right in ends]
    some = [Chosen(Case(f"end-{number}", graph, []), BY_NAME["tw_conv_2d_s8_mve"]) for number, graph in enumerate(graphs)]
    check(some, on_host("ends", some, tmp_path))


@pytest.mark.parametrize(
    ("size", "channels", "stride", "padding", "distance"),
    [
        ((1, 9), (16, 8), (2, 2), ((0, 1), (0, 1)), 12),
        ((5, 7), (16, 13), (2, 2), ((0, 0), (0, 1)), 21),
        ((3, 5), (17, 9), (2, 2), ((0, 0), (0, 1)), 17),
        ((3, 5), (1, 4), (2, 2), ((0, 0), (1, 0)), 5),
        ((1, 9), (8, 13), (2, 2), ((0, 1), (1, 0)), 2),
        ((3, 9), (1, 8), (2, 2), ((1, 0), (0, 0)), 49),
        ((7, 2), (4, 13), (2, 2), ((1, 0), (0, 0)), 2),
    ],
)
def test_only_padding_that_a_window_reaches_makes_a_kernel_gather(
    size: Pair, channels: Pair, stride: Pair, padding: tuple[Pair, Pair], distance: int
) -> None:
    graph = convolution(size, channels, stride, padding)
    assert access.overlap_distances(graph, graph.ops[0], "tw_conv_2d_s8_mve") == {0: distance}


def test_1x1_windows_are_read_again_for_each_four_outputs_at_any_stride(tmp_path: Path) -> None:
    rng, some = random.Random(1), list[Chosen]()
    for number in range(60):
        size, stride = (rng.randint(1, 7), rng.randint(1, 9)), rng.choice(((1, 1), (2, 2), (1, 2), (2, 1), (1, 3), (3, 1)))
        graph = convolution(size, (rng.choice((3, 4, 13, 16, 17)), rng.choice((3, 4, 7, 8, 9, 13))), stride, ((0, 0), (0, 0)))
        some.append(Chosen(Case(f"stride-{number}", graph, []), BY_NAME["tw_conv_2d_s8_mve"]))
    check(some, on_host("strides", some, tmp_path))


def test_the_last_pixel_of_an_odd_number_is_read_again_for_each_four_outputs(tmp_path: Path) -> None:
    row, sizes = BY_NAME["tw_conv_2d_s8_mve"], ((1, 1, 18), (1, 3, 35), (3, 3, 21), (1, 5, 8))
    graphs = [convolution((h, w), (16, units), (1, 1), ((0, 0), (0, 0))) for h, w, units in sizes]
    some = [Chosen(Case(f"odd-{number}", graph, []), row) for number, graph in enumerate(graphs)]
    check(some, on_host("odd", some, tmp_path))


def test_a_column_of_pixels_is_read_as_one_row_at_any_stride(tmp_path: Path) -> None:
    row, sizes = BY_NAME["tw_conv_2d_s8_mve"], ((9, 16, 16), (7, 17, 9), (12, 24, 8), (5, 3, 13))
    graphs = [convolution((h, 1), (depth, units), (2, 2), ((0, 0), (0, 0))) for h, depth, units in sizes]
    some = [Chosen(Case(f"column-{number}", graph, []), row) for number, graph in enumerate(graphs)]
    check(some, on_host("column", some, tmp_path))


def test_lines_of_a_depthwise_convolution_are_equal_blocks_of_columns() -> None:
    """A line of 16 words holds 28 outputs of three taps: 56 columns are computed 28 at a time, however many rows.

    With nine taps it holds 24 outputs, so 50 columns are computed 20 at a time, the next multiple of four after a third.
    """
    blocks = []
    for size, kernel in (((4, 58), (3, 3)), ((58, 4), (3, 3)), ((4, 58), (3, 9))):
        graph = depthwise_convolution(size, kernel, (1, 1), ((0, 0), (0, 0)))
        blocks.append(depthwise.columns_at_a_time(graph, graph.ops[0]))
    assert blocks == [28, 2, 20]


def test_as_many_windows_are_copied_for_mve_as_fit_in_the_scratch_memory() -> None:
    for rows, cols, depth in product((1, 2, 3, 5, 7), (1, 2, 3, 5), (1, 3, 8, 16, 33, 200)):
        count, window = mve.windows_at_once(rows, cols, depth), mve.up(rows * cols * depth)
        assert mve.scratch_of(rows, cols, depth) == count * window
        if rows == cols == 1:
            assert count == 2
        else:
            assert count in range(2, mve.MOST_WINDOWS + 1, 2) and (count == 2 or count * window <= mve.WINDOWS_BYTES)
            assert count == mve.MOST_WINDOWS or (count + 2) * window > mve.WINDOWS_BYTES
