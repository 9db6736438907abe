"""A saved planning problem gives the solution of the original one, without the model."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.graphs import Net
from fuzz.generate import BY_ROW, HEADED, random_network

from tinyweave import api
from tinyweave.api.models import check_kernels
from tinyweave.ir import CompileError, Graph, Quant, rebuild
from tinyweave.planning import Limits, PlanSearch, Problem, Request, solve
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.kernel_choice import PORTABLE
from tinyweave.planning.kernels.flash_budget import kernel_sets
from tinyweave.planning.place.relocation_ops import is_move
from tinyweave.planning.search.orders import stage_cycles_of
from tinyweave.planning.search.path_search import Solution
from tinyweave.planning.search.problem import NEVER


def assert_solved(graph: Graph, request: Request) -> Solution:
    """Plan a graph, and assert that its saved problem has the plan's stages, tiles and kernels as its solution."""
    search = PlanSearch(graph, request)
    made = search.plan()
    problem, asked = search.problem_of(made)
    again = Problem.from_json(problem.to_json())
    found = solve(again, asked)
    assert again == problem and found is not None and found == solve(problem, asked)
    names, planned = {op.op_index: op.name for op in problem.ops}, [op.name for op in made.graph.ops]
    moves = {index for index, op in enumerate(made.graph.ops) if is_move(op)}
    stages = [[planned[index] for index in stage.ops] for stage in made.stages if stage.ops[0] not in moves]
    assert [[names[index] for index in stage.ops] for stage in found.stages] == stages
    tiles = [([planned[i] for i in tile.ops], tile.cols, tile.rows) for stage in made.stages for tile in stage.tiles or ()]
    assert [([names[i] for i in tile.ops], tile.cols, tile.rows) for each in found.stages for tile in each.tiles] == tiles
    kernels = dict(zip(planned, made.variants, strict=True))
    chosen = [(names[i], name) for stage in found.stages for i, name in zip(stage.ops, stage.kernels, strict=True) if name]
    assert chosen and all(kernels[op] == name for op, name in chosen)
    return found


def chain() -> Graph:
    """Return a network that all strategies but `layer` fuse, with tiles."""
    net = Net(32, 32, 3)
    x = net.depthwise(net.conv("image", 16, 3, 2), 3)
    last = net.conv(net.depthwise(net.conv(x, 24), 3, 2), 8)
    return Graph("chain", net.tensors, tuple(net.ops), ("image",), (last,))


KINDS = (
    {"objective": "size"},
    {"objective": "speed", "max_mac_overhead": 1.5, "limits": Limits(ram=6500)},
    {"objective": "balanced", "stream_inputs": True, "stream_outputs": True, "max_mac_overhead": 1.5},
    {"objective": "size", "core": ""},
    {"objective": "size", "core": "", "stream_inputs": True, "max_mac_overhead": 2.0},
    {"objective": "flash"},
    {"strategy": "patch", "objective": "balanced"},
    {"strategy": "msf", "objective": "size"},
    {"strategy": "layer"},
)
UNFUSED = ({"objective": "flash"}, {"strategy": "layer"})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_a_saved_problem_has_the_solution_of_the_plan(kind: dict[str, Any]) -> None:
    found = assert_solved(chain(), Request(**{"core": "cortex-m4", **kind}))
    assert any(len(stage.ops) > 1 for stage in found.stages) == (kind not in UNFUSED)
    for seed in range(4):
        for growers in (BY_ROW, HEADED):
            if "stream_inputs" not in kind:  # not every network can stream
                assert_solved(random_network(seed, 8, growers=growers, live=3), Request(**{"core": "cortex-m4", **kind}))


@pytest.mark.shared
@pytest.mark.parametrize("models", [slice(10, 13), pytest.param(slice(0, 36), marks=pytest.mark.sweep)], ids=["few", "many"])
def test_the_saved_problems_of_real_models_have_the_solutions_of_their_plans(models: slice, shared: Path) -> None:
    graphs = list[Graph]()
    for path in sorted((shared / "models").glob("*.tflite"), key=lambda path: path.stat().st_size)[models]:
        with suppress(CompileError):  # some models are refused
            check_kernels(model := api.load(path))
            graphs.append(model.graph)
    assert len(graphs) >= (models.stop - models.start) * 5 // 6
    for graph in graphs:
        assert_solved(graph, Request(core="cortex-m4"))


def test_text_that_is_not_a_saved_problem_is_refused() -> None:
    """The search in C would read beyond its arrays."""
    search = PlanSearch(chain(), Request(core="cortex-m4", max_mac_overhead=1.5))
    record = json.loads(search.problem_of(search.plan())[0].to_json())
    _, tensors, ops, tiles, *_, costs = record
    tile, read = next(of[0] for of in tiles if of), ops[0][5][0]
    for text in ("[]", "{}", json.dumps(record)[:-9], "[" * 9999):
        with pytest.raises(CompileError, match="not a saved planning problem"):
            Problem.from_json(text)
    damages: list[tuple[Any, int, Any]] = [(ops[0], 2, len(tensors)), (ops[0], 2, "image"), (read, 0, -1), (read[1], 3, 0)]
    damages += [(ops[0][7][0], 1, -1), (tensors[0], 12, len(tensors)), (tensors[0], 1, 1.5), (tile, 0, len(ops)), (tile, 1, 0)]
    damages += [(tile[4][0], 0, len(tensors)), (costs[0], 0, 10_000), (costs[0], 3, "many"), (record, 8, [len(ops) + 1])]
    damages += [(record, 6, 1 << 61), (record, 3, tiles[1:]), (costs[0][4][0], 0, None), (record, 0, 99)]
    for at, key, value in damages:
        right, at[key] = at[key], value
        with pytest.raises(CompileError, match="not a saved planning problem"):
            Problem.from_json(json.dumps(record))
        at[key] = right
    assert Problem.from_json(json.dumps(record)).to_json() == json.dumps(record)
    again = Problem.from_json(json.dumps([*record[:-1], []]))
    with pytest.raises(CompileError, match="lacks the cost of tile"):
        solve(again, ("size", NEVER, NEVER))


def test_layers_that_differ_in_their_outliers_take_cycles_of_their_own() -> None:
    """They have the same shapes and kernels; an outlier is a filter that the fast arithmetic cannot hold."""
    net, name, outliers = Net(12, 12, 16), "image", (0, 1, 2, 0)
    for _ in outliers:
        name = net.conv(name, 16, 3)
    graph = net.finish("alike", name)
    tensors, data = dict(graph.tensors), np.random.default_rng(1).integers(-127, 128, (16, 3, 3, 16), np.int8)
    for op, count in zip(graph.ops, outliers, strict=False):
        weights = tensors[str(op.inputs[1])]
        quant = Quant((2.0,) * count + (0.01,) * (16 - count), (0,) * 16, 0)
        tensors[weights.name] = replace(weights, data=data, quant=quant)
    graph, order = rebuild(graph, tensors=tensors), tuple(range(len(graph.ops)))
    rules = [rule for rules in kernel_sets(graph, "cortex-m4") for rule in rules]
    cycles_of = stage_cycles_of(graph, order, shared_in(graph, order, parts=False), kernels=(PORTABLE, *rules))
    of_row = [cycles_of.by_rows(index) for index in range(4)]
    for index, cycles in enumerate(of_row):
        assert cycles == tuple(cycles_of.once(index, kernel.name, (1, 12)) for kernel in cycles_of.usable[index])
    assert of_row[0] == of_row[3] and min(of_row[1]) < min(of_row[2])
