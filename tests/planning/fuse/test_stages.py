"""Fused stages: timings and line buffers computed by hand, grown stages equal scheduled ones, the best path among all paths."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from fuzz.generate import BY_ROW, random_network
from planning.stage_twins import same_in_c_and_python, untiled

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Op, Quant, Tensor
from tinyweave.kernels.table import variant_for
from tinyweave.ops import SPECS, macs
from tinyweave.ops.window import Window
from tinyweave.planning import Request, Tile, front, plan
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.fuse.row_access import RowGraph, StreamedIO, recomputed_macs, tile_accesses, tile_bytes, tile_sizes
from tinyweave.planning.fuse.row_schedule import plan_macs, schedule_stage
from tinyweave.planning.order.order_search import file_order
from tinyweave.planning.plan import RowTiming
from tinyweave.planning.search import stage_growth, stages
from tinyweave.planning.search.of_graph import problem_of, tensor_numbers
from tinyweave.planning.search.orders import stage_cycles_of
from tinyweave.planning.search.pareto import least_bytes
from tinyweave.planning.search.path_search import PathSearch
from tinyweave.planning.search.problem import Problem
from tinyweave.planning.search.stage_growth import growing

SEEDS = range(15)


def row_graph_of(graph: Graph, *streamed_inputs: str) -> RowGraph:
    return RowGraph(graph, [variant_for(graph, op).name for op in graph.ops], streamed_inputs)


def by_row(seed: int) -> Graph:
    return random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2)


def test_row_timings_of_windows_and_strides_computed_by_hand() -> None:
    """A 3x3 convolution with stride 2 reads 9 rows. The 5x5 depthwise one after it waits for two more rows, two ticks apart."""
    row_graph = Net(9, 9, 3)
    first = row_graph.conv("image", 8, 3, 2)
    last = row_graph.depthwise(first, 5)
    graph = row_graph.finish("by_hand", last)
    scheduled = schedule_stage(row_graph_of(graph), (0, 1))
    assert scheduled is not None
    assert scheduled.timings == {0: RowTiming(0, 1, 5), 1: RowTiming(2, 1, 5)}
    assert scheduled.line_buffers == {first: 5} and scheduled.ticks == 7
    scheduled = schedule_stage(row_graph_of(graph, "image"), (0, 1))
    assert scheduled is not None
    assert scheduled.timings == {"image": RowTiming(0, 1, 9), 0: RowTiming(1, 2, 5), 1: RowTiming(5, 2, 5)}
    assert scheduled.line_buffers == {"image": 3, first: 5} and scheduled.ticks == 14


def test_a_residual_input_is_kept_in_its_line_buffer() -> None:
    row_graph = Net(20, 4, 2)
    stem = row_graph.conv("image", 4)
    body = row_graph.depthwise(row_graph.depthwise(stem, 3), 5)
    graph = row_graph.finish("skip", row_graph.add(stem, body))
    scheduled = schedule_stage(row_graph_of(graph), (0, 1, 2, 3))
    assert scheduled is not None
    # the sum at row r reads row r of the stem, which has computed row r + 1 + 2 by then
    assert scheduled.line_buffers == {stem: 4, graph.ops[1].outputs[0]: 5, body: 1}


def test_a_map_that_a_later_stage_reads_is_kept_whole() -> None:
    row_graph = Net(8, 8, 2)
    stem = row_graph.conv("image", 4)
    body = row_graph.depthwise(stem, 3)
    graph = row_graph.finish("later", row_graph.add(stem, row_graph.depthwise(body, 3)))
    scheduled = schedule_stage(row_graph_of(graph), (0, 1))
    assert scheduled is not None and scheduled.line_buffers == {}
    assert schedule_stage(row_graph_of(graph), (1, 3)) is None, "the sum reads what comes between"


def intervals(graph: Graph) -> Iterator[tuple[int, int]]:
    yield from ((a, b) for a, b in itertools.combinations(range(len(graph.ops) + 1), 2) if b > a + 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
def test_grown_stages_equal_scheduled_stages(seed: int, brought: bool) -> None:
    assert_grown_as_scheduled(by_row(seed), brought)


def test_grown_stages_with_independent_branches_equal_scheduled_stages() -> None:
    """Neither branch reads the other, so their relative ticks are known only at the op that reads both."""
    net = Net(48, 8, 4)
    slow = net.depthwise(net.conv("image", 4, 3, 2), 5, 2)
    fast = net.depthwise(net.conv("image", 4, 3, 4), 3)
    graph = net.finish("apart", net.depthwise(net.add(fast, net.conv(slow, 4)), 3))
    assert_grown_as_scheduled(graph, False)
    assert_grown_as_scheduled(graph, True)


def assert_grown_as_scheduled(graph: Graph, brought: bool) -> None:
    row_graph, order = row_graph_of(graph, *(graph.inputs if brought else ())), file_order(graph)
    problem, numbers = untiled(row_graph, order), tensor_numbers(row_graph)
    grown = {
        (a, end): {x: tensor.buffer_rows for x, tensor in growth.tensors.items()}
        for a in range(len(order))
        for end, may_end, growth in growing(problem, a, len(order))
        if may_end and end > a + 1
    }
    direct = {(a, b): found for a, b in intervals(graph) if (found := schedule_stage(row_graph, order[a:b])) is not None}
    assert set(direct) == set(grown) or brought, "where only a streamed input has readers outside, they differ"
    for span, scheduled in direct.items():
        rows = {name: scheduled.timings[graph.producer.get(name, name)].rows for name in scheduled.line_buffers}
        assert scheduled.line_buffers == {name: min(grown[span][numbers[name]], rows[name]) for name in scheduled.line_buffers}


def test_the_sizes_of_a_tile_computed_by_hand() -> None:
    """The widest map of the block is in a tile. A 3x3 window with stride 1 reads each of its 9 rows up to three times."""
    row_graph = Net(9, 12, 4)
    wide = row_graph.conv("image", 16)
    thin = row_graph.conv(row_graph.depthwise(wide, 3), 4)
    graph = row_graph.finish("block", thin)
    rows = row_graph_of(graph)
    assert tile_accesses(rows, (0, 1, 2)) == (("image", Window(3, 1, 1)),)
    deep = graph.ops[1].outputs[0]
    assert tile_sizes(rows, Tile((0, 1, 2), 4)) == {deep: (1, 4), wide: (3, 6)}
    assert tile_sizes(rows, Tile((0, 1, 2), 12)) == {deep: (1, 12), wide: (3, 12)}
    assert tile_bytes(rows, Tile((0, 1, 2), 4)) == {deep: 1 * 4 * 16, wide: 3 * 6 * 16}
    # rows 0 and 8 are read twice, the seven between them three times: 16 times again
    assert recomputed_macs(rows, Tile((0, 1, 2), 4)) == {0: 16 * 12 * 4 * 16, 1: 0}
    # three at a time: rows 0 to 3, 2 to 6, 5 to 8, and so four again
    assert tile_accesses(rows, (0, 1, 2), 3) == (("image", Window(5, 3, 1)),)
    assert tile_sizes(rows, Tile((0, 1, 2), 4, 3)) == {deep: (3, 4), wide: (5, 6)}
    assert recomputed_macs(rows, Tile((0, 1, 2), 4, 3)) == {0: 4 * 12 * 4 * 16, 1: 0}
    assert tile_accesses(rows, (1, 2)) == ((wide, Window(3, 1, 1)),) and recomputed_macs(rows, Tile((1, 2), 4)) == {1: 0}


def test_a_tile_reads_the_gate_of_one_pixel_and_does_not_compute_it() -> None:
    """Squeeze-and-excitation has such gates."""
    net = Net(9, 12, 4)
    wide = net.conv("image", 8)
    mean = net.op(
        "average_pool_2d", (wide,), (1, 1, 1, 8), kernel=(9, 12), padding=((0, 0), (0, 0)), stride=(1, 1), activation="none"
    )
    gate = net.conv(mean, 8)
    gated = net.op("mul", (wide, gate), net.shape(wide), activation="none")
    rows = row_graph_of(net.finish("gated", net.conv(gated, 4, 3)))
    reads = tile_accesses(rows, (3, 4))
    assert reads is not None and {x: window.stride for x, window in reads} == {wide: 1, gate: 0}
    assert tile_accesses(rows, (2, 3)) is None and tile_accesses(rows, (2, 3, 4)) is None


def rows_read(graph: Graph, run: Sequence[int], row: int) -> list[set[int]]:
    """Return, for each op of a tile, the output rows that row `row` of the last op needs."""
    needed: dict[int, set[int]] = {run[-1]: {row}}
    for index in reversed(run[:-1]):
        out, needed[index] = graph.output(graph.ops[index]), set()
        for reader in (other for other in run if out.name in graph.ops[other].inputs):
            windows = SPECS[graph.ops[reader].kind].windows(graph, graph.ops[reader])
            assert windows is not None
            extent, stride, pad, up, _ = windows[0]
            assert up == 1
            first = [r * stride - pad for r in needed[reader]]
            needed[index] |= {r for top in first for r in range(top, top + extent) if 0 <= r < out.shape[1]}
    return [needed[index] for index in run]


def spanned(rows: set[int]) -> set[int]:
    """Return the rows and all rows between them; an iteration computes these too."""
    return set(range(min(rows), max(rows) + 1)) if rows else rows


@pytest.mark.parametrize("rows_per_iteration", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_recomputed_macs_of_tiles_equal_a_count_of_their_rows(seed: int, rows_per_iteration: int) -> None:
    graph = by_row(seed)
    row_graph = row_graph_of(graph)
    for a, b in intervals(graph):
        run = range(a, b)
        if tile_accesses(row_graph, run) is None:
            continue
        height = graph.output(graph.ops[b - 1]).shape[1]
        alone = [rows_read(graph, run, row) for row in range(height)]
        iterations = [alone[row : row + rows_per_iteration] for row in range(0, height, rows_per_iteration)]
        needed = [[spanned(set.union(*rows)) for rows in zip(*iteration, strict=True)] for iteration in iterations]
        for position, (index, again) in enumerate(
            sorted(recomputed_macs(row_graph, Tile(tuple(run), 3, rows_per_iteration)).items())
        ):
            op = graph.ops[index]
            if op.kind == "conv_2d" and graph.input(op, 1).shape[1:3] == (1, 1):
                each = SPECS[op.kind].macs(graph, op, True) // graph.output(op).shape[1]
                assert again == each * (sum(len(rows[position]) for rows in needed) - graph.output(op).shape[1])
            assert again >= 0 or len(set.union(*(rows[position] for rows in needed))) < graph.output(op).shape[1]
        sizes = tile_sizes(row_graph, Tile(tuple(run), 3, rows_per_iteration))
        for position, (name, (rows, cols)) in enumerate(reversed(sizes.items())):
            assert rows == max(max(r[position], default=-1) - min(r[position], default=0) + 1 for r in needed)
            assert 0 <= cols <= graph.tensors[name].shape[2]


def adds(count: int) -> Graph:
    """Return a network of `count` adds, each of the last map and one of the eight maps before it."""
    rng = random.Random(count)
    tensors = {f"map_{i}": Tensor(f"map_{i}", (1, 8, 4, 4), "int8", Quant((0.5,), (0,))) for i in range(count + 1)}
    pairs = [(f"map_{rng.randrange(max(0, i - 8), i + 1)}", f"map_{i}") for i in range(count)]
    ops = [Op(f"add_{i}", "add", pair, (f"map_{i + 1}",), {"activation": "none"}) for i, pair in enumerate(pairs)]
    return Graph("adds", tensors, tuple(ops), ("map_0",), (f"map_{count}",))


def test_long_orders_grow_a_fixed_number_of_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """This bounds the planning of networks of a thousand ops. Short stages are grown in networks of any length."""
    graph = adds(60)
    steps, grown = len(graph.ops), list[int]()

    def counted(*args: Any) -> Iterator[Any]:
        for one in growing(*args):
            grown.append(1)
            yield one

    monkeypatch.setattr(stage_growth, "growing", counted)
    monkeypatch.setattr(stages, "grow_stages_in_c", lambda problem: None)
    bytes_, counts = list[int](), list[int]()
    for most in (stage_growth.MOST_GROWN, 10 * steps, 1):
        monkeypatch.setattr(stage_growth, "MOST_GROWN", most)
        grown.clear()
        shared = shared_in(graph, file_order(graph), parts=False)
        cycles_of = stage_cycles_of(graph, file_order(graph), shared)
        found = least_bytes(PathSearch(problem_of(cycles_of, file_order(graph), shared.owner)).fastest)
        assert found is not None
        bytes_.append(found.bytes)
        counts.append(len(grown))
    assert counts[0] > counts[1] > counts[2]
    assert counts[1] <= (10 + stage_growth.SHORT) * steps and counts[2] <= 2 * stage_growth.SHORT * steps
    assert bytes_ == sorted(bytes_)


def test_the_most_ops_of_a_stage() -> None:
    """An order has at most 50,000 growth steps. Up to 316 ops a stage may have any length, then fewer ops, but at least 6."""
    assert stage_growth.longest_stage(316) == 316 and 316 * 316 <= 2 * 50_000 < 317 * 317
    assert stage_growth.longest_stage(317) == 50_000 // 317 == 157
    assert [stage_growth.longest_stage(steps) for steps in (1, 7142, 7143, 10_000)] == [1, 7, 6, 6]


@pytest.mark.parametrize("one_tile_per_stage", [False, True], ids=["stages", "single tiles"])
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("seed", range(20))
def test_stages_are_the_same_in_c_and_python(
    seed: int, brought: bool, one_tile_per_stage: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = by_row(seed) if seed < 15 else random_network(seed, 16, growers=BY_ROW, live=3)
    found = list[stages.Stages]()

    def compared(problem: Problem) -> stages.Stages:
        found.append(same_in_c_and_python(problem))
        return found[-1]

    monkeypatch.setattr("tinyweave.planning.search.path_search.grow_stages", compared)
    shared = shared_in(graph, file_order(graph), parts=False)
    streams = StreamedIO(graph.inputs if brought else ())
    cycles_of = stage_cycles_of(graph, file_order(graph), shared, streams=streams)
    for budget in (0, macs(graph) // 4, 10 * macs(graph)):
        kinds = {"budget": budget, "one_tile_per_stage": one_tile_per_stage}
        PathSearch(problem_of(cycles_of, file_order(graph), shared.owner, **kinds))
    assert len(found) == 3


@pytest.mark.parametrize("seed", rest_in_sweeps(SEEDS, 8))
@pytest.mark.parametrize("core", ["", "cortex-m4"])
def test_a_larger_mac_overhead_never_needs_more_ram(seed: int, core: str) -> None:
    graph, arena = by_row(seed), list[int]()
    least = sum(SPECS[op.kind].macs(graph, op, True) for op in graph.ops)
    for overhead in (1.0, 1.1, 1.5, 3.0):
        made = plan(graph, Request(max_mac_overhead=overhead, core=core))
        assert sum(plan_macs(made)) <= overhead * least
        arena.append(made.lower_bound)
    assert arena == sorted(arena, reverse=True)


def test_a_mac_limit_below_the_least_macs_is_refused() -> None:
    """Two windows of 3 rows read 6 of 8 rows; a plan that fuses the map with its reader computes only these 6 rows."""
    row_graph = Net(8, 8, 2)
    attrs = {"kernel": (3, 3), "stride": (3, 3), "padding": ((0, 0), (0, 0)), "activation": "none"}
    graph = row_graph.finish("skipped", row_graph.op("average_pool_2d", (row_graph.conv("image", 4),), (1, 2, 2, 4), **attrs))
    made, work = plan(graph), macs(graph)
    executed = sum(plan_macs(made))
    assert executed < work
    assert plan(graph, Request(max_mac_overhead=executed / work)).arena == made.arena
    assert plan(graph, Request(max_mac_overhead=executed / work, core="cortex-m4")) is not None
    for overhead in ((executed - 1) / work, 0.1):
        for planned in (plan, front):
            with pytest.raises(CompileError, match=f"no plan runs with {overhead:g} times its work"):
                planned(graph, Request(max_mac_overhead=overhead))
    for overhead in (0, -1, float("inf"), float("nan")):
        with pytest.raises(CompileError, match="a network cannot run with"):
            plan(graph, Request(max_mac_overhead=overhead))


def test_tiles_without_recomputation_are_as_narrow_as_with_a_mac_overhead() -> None:
    """A tile of a 1x1 and a depthwise 1x1 layer has one column; allowing more MACs does not change the plan."""
    row_graph = Net(12, 12, 2)
    graph = row_graph.finish(
        "narrow", row_graph.conv(row_graph.depthwise(row_graph.conv(row_graph.conv("image", 2, 3), 32), 1), 2, 3)
    )
    made, more = plan(graph), plan(graph, Request(max_mac_overhead=1 + 1 / macs(graph)))
    assert sum(plan_macs(made)) == sum(plan_macs(more)) == macs(graph)
    assert made.arena == more.arena
    assert min(tile.cols for stage in made.stages for tile in stage.tiles or ()) < 4


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "rv32imc", "cortex-m0"])
def test_streamed_inputs_give_the_bytes_of_the_reference(core: str, tmp_path: Path) -> None:
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(NETWORKS["chain"]()))
    model = api.load(path)
    made = api.plan(model, stream_inputs=True)
    assert made.streamed_inputs == ("image",) and made.buffer("image").bytes == 3 * 8 < model.graph.tensors["image"].bytes
    result = api.verify_plan(model, made, api.ProofOptions(count=4), core=core)
    assert result.ok and set(result.touched) == {"host", core}, result.first_difference


def test_inputs_that_cannot_be_streamed_are_refused() -> None:
    row_graph = Net(8, 8, 2)
    row_graph.tensors["turned"] = Tensor("turned", (4,), "int32", None, np.array([0, 2, 1, 3], np.int32), "constant")
    graph = row_graph.finish("columns", row_graph.op("transpose", ("image", "turned"), (1, 8, 8, 2)))
    with pytest.raises(CompileError, match="cannot take a network input row by row"):
        plan(graph, Request(stream_inputs=True))
    with pytest.raises(CompileError, match="schedule layer cannot stream inputs"):
        plan(graph, Request("layer", stream_inputs=True))


@pytest.mark.parametrize("grown", [0, stages.MOST_IN_PYTHON])
def test_stages_grow_in_c_once_python_has_grown_many(grown: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_c = list[Problem]()
    monkeypatch.setattr(stages, "grow_stages_in_c", in_c.append)
    monkeypatch.setattr(stages, "_grown_in_python", [grown])
    plan(by_row(0))
    assert stages._grown_in_python[0] > grown and bool(in_c) == (grown > 0)
