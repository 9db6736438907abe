"""Streamed outputs: which tensors can be streamed, their line buffers, refusals, and output bytes."""

from __future__ import annotations

import itertools
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.draw import integers, single_op
from cases.maps import heads, segmentation
from cases.strict import c99
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from fuzz.generate import BY_ROW, random_network
from planning.stages import plan_in_stages

from tinyweave import api
from tinyweave.api import results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Request, Tile, from_json, front, plan, to_json
from tinyweave.planning.alias.overlap import shared_in, views
from tinyweave.planning.fuse.row_access import RowGraph, StreamedIO, row_accesses, streamable_outputs
from tinyweave.planning.fuse.row_schedule import distances_by_stage, is_fused, schedule_stage, schedule_stages
from tinyweave.planning.order.order_search import file_order
from tinyweave.planning.search.of_graph import problem_of
from tinyweave.planning.search.orders import stage_cycles_of
from tinyweave.planning.search.pareto import least_bytes
from tinyweave.planning.search.path_search import PathSearch
from tinyweave.support import toolchain

ALL = (0, 1, 2, 3, 4)  # ops of the segmentation
M4, M0, RISC_V = "cortex-m4", "cortex-m0", "rv32imc"
BUILDS = [
    (False, M4),
    (True, M4),
    (True, RISC_V),
    (False, RISC_V),
    (False, M0),
    (True, M0),
]  # whether the input is streamed, core


def row_graph_of(graph: Graph, *streamed_outputs: str, tiles: tuple[Tile, ...] = ()) -> RowGraph:
    return RowGraph(graph, [variant_for(graph, op).name for op in graph.ops], (), tiles, streamed_outputs)


def imported(graph: Graph, folder: Path) -> results.Model:
    path = folder / f"{graph.name}.tflite"
    path.write_bytes(to_tflite(graph))
    return api.load(path)


def test_a_line_buffer_holds_the_rows_of_an_iteration() -> None:
    graph = segmentation()
    assert streamable_outputs(row_graph_of(graph)) == ("classes",)
    for ops in (ALL, (2, 3, 4), (4,)):
        whole, streamed_outputs = (schedule_stage(row_graph_of(graph, *names), ops) for names in ((), ("classes",)))
        assert whole is not None and streamed_outputs is not None
        assert streamed_outputs == replace(whole, line_buffers={**whole.line_buffers, "classes": 1})
    for rows in (2, 5):  # the last iteration has fewer
        scheduled = schedule_stage(row_graph_of(graph, "classes", tiles=(Tile((3, 4), 4, rows),)), ALL)
        assert scheduled is not None and scheduled.line_buffers["classes"] == rows
    assert is_fused(row_graph_of(graph, "classes"), (4,)) and not is_fused(row_graph_of(graph), (4,))


@pytest.mark.parametrize("shape", [(11, 3), (3, 11)], ids=["tall", "wide"])
def test_a_resize_with_an_irregular_ratio_waits_for_its_whole_input(shape: tuple[int, int]) -> None:
    x = Tensor("x", (1, 6, 6, 4), "int8", Quant((0.1,), (0,)))
    attrs = {"align_corners": False, "half_pixel_centers": True}
    graph = single_op("resize_bilinear", [x, integers("size", *shape)], replace(x, name="out"), attrs)
    ((name, window),) = row_accesses(graph, graph.ops[0], variant_for(graph, graph.ops[0]).name, last=True) or ()
    rows = np.arange(shape[0])
    begin, end = window.read((rows, rows + 1), 6)
    assert name == "x" and (begin == 0).all() and (end == 6).all()


def test_only_unread_maps_that_are_computed_by_rows_can_be_streamed() -> None:
    graph = heads()
    made = plan(graph, Request(stream_outputs=True))
    assert made.streamed_outputs == ("wide",) and made.buffer("wide").bytes == 10 * 8
    assert all(made.buffer(made.places[name].buffer).end == len(made.stages) for name in ("body", "vector", "flat"))
    twice = replace(graph, outputs=(*graph.outputs, "wide"))
    with pytest.raises(CompileError, match="cannot hand out a network output row by row"):
        plan(twice, Request(stream_outputs=True))
    for name in ("chain", "residual", "edges", "stream"):
        with pytest.raises(CompileError, match="none is a map of several rows"):
            plan(NETWORKS[name](), Request(stream_outputs=True))
    for schedule in ("layer", "unfused"):
        with pytest.raises(CompileError, match=f"schedule {schedule} cannot stream outputs"):
            plan(graph, Request(schedule, stream_outputs=True))


@pytest.mark.parametrize("schedule", ["best", "patch", "msf"])
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
def test_a_streamed_output_saves_ram_and_survives_the_round_trip_through_json(schedule: str, brought: bool) -> None:
    graph = segmentation()
    whole, streamed_outputs = (
        plan(graph, Request(schedule, stream_inputs=brought, stream_outputs=out)) for out in (False, True)
    )
    assert streamed_outputs.streamed_outputs == ("classes",) and streamed_outputs.streamed_inputs == (
        ("image",) if brought else ()
    )
    assert streamed_outputs.arena["sram"] < whole.arena["sram"]
    stage = next(stage for stage in streamed_outputs.stages if ALL[-1] in stage.ops)
    assert stage.tiles is not None and streamed_outputs.buffer("classes").bytes % (12 * 6) == 0
    text = to_json(streamed_outputs)
    assert to_json(from_json(text, graph)) == text and from_json(text, graph).streamed_outputs == ("classes",)


def test_the_front_has_streamed_outputs() -> None:
    found = front(segmentation(), Request(stream_inputs=True, stream_outputs=True))
    assert all(made.streamed_outputs == ("classes",) and made.streamed_inputs == ("image",) for made in found)
    assert found[-1].arena["sram"] <= plan(segmentation(), Request(stream_inputs=True, stream_outputs=True)).arena["sram"]


def test_the_line_buffer_of_an_output_may_overlap_its_input_rows() -> None:
    """An op that reads each byte before it writes the same byte needs no distance; an op with windows does."""
    graph = heads()
    row_graph, owner = row_graph_of(graph, "wide"), views(graph)
    stages = schedule_stages(row_graph, [(0,), (1,), (2,), (3,)])
    assert distances_by_stage(row_graph, stages, owner)[1] == {"body": 0}
    graph = segmentation()
    row_graph, owner = row_graph_of(graph, "classes"), views(graph)
    stages = schedule_stages(row_graph, [(index,) for index in ALL])
    assert distances_by_stage(row_graph, stages, owner)[4] == {"sum": 12 * 6}


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_into_stages_needs_fewer_bytes_than_the_found_one(seed: int) -> None:
    """Every partition of a small network with streamed outputs is compared with the result of the dynamic programme."""
    graph = random_network(seed, 6, growers=BY_ROW, live=2)
    streamed_outputs = streamable_outputs(row_graph_of(graph))
    row_graph, order = row_graph_of(graph, *streamed_outputs), file_order(graph)
    shared = shared_in(graph, order, parts=False)
    cycles_of = stage_cycles_of(graph, order, shared, streams=StreamedIO((), streamed_outputs))
    found = least_bytes(PathSearch(problem_of(cycles_of, order, shared.owner)).fastest)
    assert found is not None
    stages, tiles = [stage.ops for stage in found.stages], [tile for stage in found.stages for tile in stage.tiles]
    chosen = plan_in_stages(graph, stages, tiles=tiles, streamed_outputs=streamed_outputs)
    for cuts in itertools.product((False, True), repeat=len(order) - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(order)]
        stages = [order[a:b] for a, b in itertools.pairwise(edges)]
        if all(len(ops) == 1 or schedule_stage(row_graph, ops) is not None for ops in stages):
            made = plan_in_stages(graph, stages, streamed_outputs=streamed_outputs)
            assert chosen.lower_bound <= made.lower_bound, stages


@pytest.mark.emulator
@pytest.mark.parametrize(("brought", "core"), rest_in_sweeps(BUILDS, 3))
def test_streamed_output_rows_equal_the_reference(core: str, brought: bool, tmp_path: Path) -> None:
    model = imported(segmentation(), tmp_path)
    for optimize in ("size", "speed"):
        made = api.plan(model, core, stream_inputs=brought, stream_outputs=True, optimize=optimize)
        assert made.streamed_outputs == ("classes",)
        result = api.verify_plan(model, made, api.ProofOptions(count=3), core=core)
        assert result.ok and set(result.touched) == {"host", core}, result.first_difference


@pytest.mark.parametrize("head", ["resize_bilinear", "transpose_conv"])
def test_an_enlarged_map_is_streamed(head: str, tmp_path: Path) -> None:
    """The last op waits for its whole operand, which is small."""
    model = imported(segmentation(2, head), tmp_path)
    whole, made = (api.plan(model, stream_inputs=True, stream_outputs=out) for out in (False, True))
    assert made.arena["sram"] < whole.arena["sram"] and made.buffer("classes").bytes == 12 * 6
    assert is_fused(row_graph_of(model.graph, *made.streamed_outputs), made.stages[-1].ops)
    result = api.verify_plan(model, made, api.ProofOptions(count=3), core=None)
    assert result.ok, result.first_difference or dict(result.touched)


@pytest.mark.parametrize("tiles", [(), (Tile((3, 4), 5, 5),), (Tile((1, 2), 7), Tile((3, 4), 7, 2, cached=False))])
def test_streamed_outputs_of_tiles_of_several_rows_equal_the_reference(tiles: tuple[Tile, ...], tmp_path: Path) -> None:
    model = imported(segmentation(), tmp_path)
    made = plan_in_stages(model.graph, [ALL], streamed_inputs=("image",), tiles=tiles, streamed_outputs=("classes",))
    result = api.verify_plan(model, made, api.ProofOptions(count=2), core=None)
    assert result.ok, result.first_difference or dict(result.touched)


def test_a_network_may_have_streamed_and_whole_outputs(tmp_path: Path) -> None:
    model = imported(heads(), tmp_path)
    made = api.plan(model, stream_inputs=True, stream_outputs=True)
    (wide,) = made.streamed_outputs
    result = api.verify_plan(model, made, api.ProofOptions(count=3), core=None)
    assert result.ok, result.first_difference
    header = api.emit_c(model, made).files["heads.h"]
    flags = [f"HEADS_OUTPUT_{i}_STREAMED {int(name == wide)}" for i, name in enumerate(model.graph.outputs)]
    assert all(flag in header for flag in flags) and header.count("_ROW_BYTES ") == 2
    assert "streamed row by row" in header


MAIN = """
#include <stdio.h>
#include "segmentation.h"
static int rows;
static int write_rows(void *user, int32_t output, int32_t first, int32_t count, const void *source)
{
    (void)user; (void)output; (void)source;
    rows += count;
    return first == 4 ? 7 : 0;
}
int main(void)
{
    static uint8_t arena[SEGMENTATION_SRAM_BYTES] __attribute__((aligned(SEGMENTATION_ALIGN)));
    const segmentation_memory memory = {{arena, sizeof arena}};
    const segmentation_io io = {NULL, NULL, write_rows};
    const int failed = segmentation_init(&memory) != 0 || segmentation_output(&memory, 0) != NULL;
    const int status = segmentation_invoke(&memory, &io);
    printf("%d %d %d", failed, status, rows);
    return 0;
}
"""


def test_an_error_of_the_callback_ends_invoke(tmp_path: Path) -> None:
    model = imported(segmentation(), tmp_path)
    api.write(api.emit_c(model, api.plan(model, stream_outputs=True)), tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    compiler, program = toolchain.host(), tmp_path / "program"
    flags = [*c99(compiler.name), "-DTW_PLAIN_C", "-I", tmp_path]
    toolchain.compile_c(compiler, [*flags, *sorted(tmp_path.glob("*.c")), "-o", program])
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert said == "0 7 5", "after the row 4 invoke returns what the callback returned"


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_stream_all_outputs_that_can_be_streamed(seed: int) -> None:
    """Every plan is checked, with random strategies and cores."""
    rng = random.Random(seed)
    graph = random_network(seed, rng.randint(4, 10), growers=BY_ROW, live=2)
    wanted = streamable_outputs(row_graph_of(graph))
    if not wanted:
        with pytest.raises(CompileError, match="cannot hand out a network output"):
            plan(graph, Request(stream_outputs=True))
        return
    made = plan(
        graph, Request(rng.choice(("best", "msf")), stream_outputs=True, core=rng.choice(("", "cortex-m4", "cortex-m55")))
    )
    assert made.streamed_outputs == wanted
