"""Ops that enlarge maps (resize, transpose_conv) run in fused stages, with several output rows per input row."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from cases.maps import UP, neck
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_SOME_ROWS, random_network
from planning.stage_twins import same_in_c_and_python, untiled
from planning.stages import plan_in_stages

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Plan, Request, check, plan
from tinyweave.planning.fuse.row_access import RowGraph
from tinyweave.planning.fuse.row_schedule import schedule_stage
from tinyweave.planning.search import path_search
from tinyweave.planning.search.of_graph import tensor_numbers
from tinyweave.planning.search.problem import Problem
from tinyweave.planning.search.stage_growth import growing
from tinyweave.planning.search.stages import grow_stages

STAGES = [(0, 1), (2, 3, 4, 5, 6, 7, 8), (9, 10)]


def row_graph(kind: str) -> RowGraph:
    graph = neck(kind)
    return RowGraph(graph, [variant_for(graph, op).name for op in graph.ops])


@pytest.mark.parametrize("kind", UP)
def test_several_rows_of_an_enlarged_map_share_the_ticks_of_an_input_row(kind: str) -> None:
    """The row counts double at each of the two enlargements, so a row takes 4, 2 and 1 ticks."""
    scheduled = schedule_stage(row_graph(kind), range(2, 9))
    assert scheduled is not None
    timings = scheduled.timings
    assert [timings[index].every for index in range(2, 9)] == [4, 4, 2, 2, 2, 1, 1]
    between = 2 if kind == "resize_bilinear" else 1  # rows of the input that an output row reads
    assert scheduled.line_buffers["conv_2d_3_out"] == (2 if kind == "transpose_conv" else between)


@pytest.mark.parametrize("kind", UP)
def test_a_growing_stage_predicts_its_line_buffers(kind: str) -> None:
    """The search predicts the line buffers of the row schedule for each interval of ops."""
    rows, count = row_graph(kind), len(neck(kind).ops)
    numbers = tensor_numbers(rows)
    for begin in range(count):
        for end, may_end, growth in growing(untiled(rows, range(count)), begin, count):
            scheduled = schedule_stage(rows, range(begin, end))
            assert (scheduled is not None) == may_end
            for name, kept in scheduled.line_buffers.items() if scheduled else ():
                assert kept == min(growth.tensors[numbers[name]].buffer_rows, rows.height[name])


@pytest.mark.parametrize("kind", UP)
def test_an_enlarged_map_is_not_kept_whole(kind: str) -> None:
    """The map has 64 x 64 x 8 bytes."""
    made = plan(neck(kind, 64), Request(stream_inputs=True, stream_outputs=True))
    assert made.arena["sram"] < 64 * 64 * 8 / 2
    larger = [index for index, op in enumerate(made.graph.ops) if op.kind == kind]
    assert all(next(len(stage.ops) for stage in made.stages if index in stage.ops) > 1 for index in larger)


@pytest.mark.emulator
@pytest.mark.parametrize(("core", "kind"), rest_in_sweeps([*product(["cortex-m4"], UP), *product(["rv32imc"], UP)], len(UP)))
def test_plans_with_enlarged_maps_give_the_bytes_of_the_reference(kind: str, core: str, tmp_path: Path) -> None:
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
    """Return a random network of ops that run by rows; for some seeds it enlarges a map."""
    return random_network(seed, random.Random(seed).randint(6, 14), growers=BY_SOME_ROWS, live=2)


def test_stages_with_enlarged_maps_are_the_same_in_c_and_python(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("openmv__openmv__palm_detection_full_192", False, 224_448),  # 237,724 if enlarged maps are kept whole
        ("MohamedElhadidy0019__stm32ai-modelzoo__ssd_mobilenet_v2_fpnlite_035_192_int8", True, 91_808),
    ],
)
def test_real_models_with_enlarged_maps_need_at_most_the_known_ram(file: str, streamed: bool, most: int, shared: Path) -> None:
    """In the second model, fusing the enlarged map needs fewer bytes before placement but more after it."""
    model = api.load(shared / f"models/{file}.tflite", io="int8")
    assert sum(plan(model.graph, Request(stream_inputs=streamed)).arena.values()) <= most
