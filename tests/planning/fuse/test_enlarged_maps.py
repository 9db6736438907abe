"""Ops that make maps larger run in fused stages, several rows of theirs for each of their input."""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path

import pytest
from cases.maps import UP, neck
from cases.possible import same_in_c_and_python
from cases.sweeps import rest_in_sweeps
from fuzz.generate import BY_SOME_ROWS, random_network

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Plan, check, plan, plan_in_stages
from tinyweave.planning.fuse.access import RowGraph
from tinyweave.planning.fuse.possible import Question, possible_stages
from tinyweave.planning.fuse.schedule import schedule_stage
from tinyweave.planning.fuse.stages import growing
from tinyweave.planning.trade import space

STAGES = [(0, 1), (2, 3, 4, 5, 6, 7, 8), (9, 10)]


def row_graph(kind: str) -> RowGraph:
    graph = neck(kind)
    return RowGraph(graph, [variant_for(graph, op).name for op in graph.ops])


@pytest.mark.parametrize("kind", UP)
def test_rows_of_a_larger_map_share_the_time_of_one_of_its_input(kind: str) -> None:
    """least 4 rows, twice as many of the sum, twice as many of what is added to the stem."""
    scheduled = schedule_stage(row_graph(kind), range(2, 9))
    assert scheduled is not None
    timings = scheduled.schedule.timings
    assert [timings[index].every for index in range(2, 9)] == [4, 4, 2, 2, 2, 1, 1]
    between = 2 if kind == "resize_bilinear" else 1  # rows of the input of which one of the output is made
    assert scheduled.schedule.rings["conv_2d_3_out"] == (2 if kind == "transpose_conv" else between)


@pytest.mark.parametrize("kind", UP)
def test_a_growing_stage_foresees_its_rings(kind: str) -> None:
    """What the search counts is what the schedule says, for each interval of ops."""
    rows, count = row_graph(kind), len(neck(kind).ops)
    for begin in range(count):
        for end, is_stage, maps in growing(rows, range(count), begin):
            scheduled = schedule_stage(rows, range(begin, end))
            assert (scheduled is not None) == is_stage
            for name, ring in scheduled.schedule.rings.items() if scheduled else ():
                assert ring == min(maps[name].ring_rows, rows.height[name])


@pytest.mark.parametrize("kind", UP)
def test_a_larger_map_need_not_be_there_as_a_whole(kind: str) -> None:
    """Of 64 x 64 x 8 bytes."""
    made = plan(neck(kind, 64), stream_inputs=True, stream_outputs=True)
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
        api.plan(model, stream_inputs=rows, stream_outputs=rows, optimize=optimize, core=core)
        for rows, optimize in ((False, "size"), (True, "size"), (True, "speed"))
    ]
    for made in plans:
        result = api.verify(model, made, count=3, core=core)
        assert result.ok and set(result.touched) == {"host", core}, result.first_difference


def enlarging(seed: int) -> Graph:
    """A random network that runs by rows and has an op that makes a map larger, where the seed leads to one."""
    return random_network(seed, random.Random(seed).randint(6, 14), growers=BY_SOME_ROWS, live=2)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_the_c_finds_the_stages_that_the_python_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Question]()
    monkeypatch.setattr(space, "possible_stages", lambda question: asked.append(question) or possible_stages(question))
    for kind in UP:
        plan(neck(kind, 32), stream_inputs=True, max_mac_overhead=1.5)
    graphs = [graph for graph in map(enlarging, range(40)) if any(op.kind in UP for op in graph.ops)]
    for graph in graphs:
        plan(graph, max_mac_overhead=1.5)
    assert len(graphs) > 10 and len(asked) > 20
    for question in asked:
        same_in_c_and_python(question)


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
    model = api.load(shared / f"models/{file}.tflite", "int8")
    assert sum(plan(model.graph, stream_inputs=streamed).arena.values()) <= most
