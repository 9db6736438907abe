"""Ops that make maps larger run in fused stages, several rows of theirs for each of their input."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from cases.maps import UP, neck
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_SOME_ROWS, random_network
from planning.stage_twins import same_in_c_and_python, untiled

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Plan, Request, check, plan, plan_in_stages
from tinyweave.planning.fuse.row_access import RowGraph
from tinyweave.planning.fuse.row_schedule import schedule_stage
from tinyweave.planning.search import path_search
from tinyweave.planning.search.problem import Problem, tensor_numbers
from tinyweave.planning.search.stage_growth import growing
from tinyweave.planning.search.stages import grow_stages

STAGES = [(0, 1), (2, 3, 4, 5, 6, 7, 8), (9, 10)]


def row_graph(kind: str) -> RowGraph:
    graph = neck(kind)
    return RowGraph(graph, [variant_for(graph, op).name for op in graph.ops])


@pytest.mark.parametrize("kind", UP)
def test_rows_of_a_larger_map_share_the_time_of_one_of_its_input(kind: str) -> None:
    """least 4 rows, twice as many of the sum, twice as many of what is added to the stem."""
    scheduled = schedule_stage(row_graph(kind), range(2, 9))
    assert scheduled is not None
    timings = scheduled.timings
    assert [timings[index].every for index in range(2, 9)] == [4, 4, 2, 2, 2, 1, 1]
    between = 2 if kind == "resize_bilinear" else 1  # rows of the input of which one of the output is made
    assert scheduled.line_buffers["conv_2d_3_out"] == (2 if kind == "transpose_conv" else between)


@pytest.mark.parametrize("kind", UP)
def test_a_growing_stage_predicts_its_line_buffers(kind: str) -> None:
    """What the search counts is what the schedule says, for each interval of ops."""
    rows, count = row_graph(kind), len(neck(kind).ops)
    numbers = tensor_numbers(rows)
    for begin in range(count):
        for end, may_end, growth in growing(untiled(rows, range(count)), begin, count):
            scheduled = schedule_stage(rows, range(begin, end))
            assert (scheduled is not None) == may_end
            for name, kept in scheduled.line_buffers.items() if scheduled else ():
                assert kept == min(growth.tensors[numbers[name]].buffer_rows, rows.height[name])


@pytest.mark.parametrize("kind", UP)
def test_a_larger_map_need_not_be_there_as_a_whole(kind: str) -> None:
    """Of 64 x 64 x 8 bytes."""
    made = plan(neck(kind, 64), Request(stream_inputs=True, stream_outputs=True))
    assert made.arena["sram"] < 64 * 64 * 8 / 2
    larger = [index for index, op in enumerate(made.graph.ops) if op.kind == kind]
    assert all(next(len(stage.ops) for stage in made.stages if index in stage.ops) > 1 for index in larger)


@pytest.mark.emulator
@pytest.mark.parametrize(("core", "kind"), rest_in_sweeps([*product(["cortex-m4"], UP), *product(["rv32imc"], UP)], len(UP)))
def test_the_bytes_are_the_same(kind: str, core: str, tmp_path: Path) -> None:
    path = tmp_path / "neck.tflite"
    path.write_bytes(to_tflite(neck(kind)))
    model = api.load(path)
    plans: list[Plan] = [plan_in_stages(model.graph, STAGES), check(plan_in_stages(model.graph, [tuple(range(11))]))]
    plans += [
        api.plan(model, core, stream_inputs=rows, stream_outputs=rows, optimize=optimize)
        for rows, optimize in ((False, "size"), (True, "size"), (True, "speed"))
    ]
    for made in plans:
        result = api.verify_plan(model, made, api.ProofOptions(count=3), core=core)
        assert result.ok and set(result.touched) == {"host", core}, result.first_difference


def enlarging(seed: int) -> Graph:
    """A random network that runs by rows and has an op that makes a map larger, where the seed leads to one."""
    return random_network(seed, random.Random(seed).randint(6, 14), growers=BY_SOME_ROWS, live=2)


def test_the_c_finds_the_stages_that_the_python_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = list[Problem]()
    monkeypatch.setattr(path_search, "grow_stages", lambda problem: problems.append(problem) or grow_stages(problem))
    for kind in UP:
        plan(neck(kind, 32), Request(stream_inputs=True, max_mac_overhead=1.5))
    graphs = [graph for graph in map(enlarging, range(40)) if any(op.kind in UP for op in graph.ops)]
    for graph in graphs:
        plan(graph, Request(max_mac_overhead=1.5))
    assert len(graphs) > 10 and len(problems) > 20
    for problem in problems:
        same_in_c_and_python(problem)


@pytest.mark.shared
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("file", "streamed", "most"),
    [
        ("openmv__openmv__palm_detection_full_192", False, 224_448),  # 237,724 where enlarged maps are whole
        ("MohamedElhadidy0019__stm32ai-modelzoo__ssd_mobilenet_v2_fpnlite_035_192_int8", True, 91_808),
    ],
)
def test_real_models_with_enlarged_maps(file: str, streamed: bool, most: int, shared: Path) -> None:
    """The path of the second one needs fewer bytes with an enlarged map by rows, but its placement more: it takes another."""
    model = api.load(shared / f"models/{file}.tflite", io="int8")
    assert sum(plan(model.graph, Request(stream_inputs=streamed)).arena.values()) <= most
