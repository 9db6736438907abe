"""A saved planning problem gives the stages of the original one without the model."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from fuzz.generate import BY_ROW, random_network
from planning.stage_twins import untiled

from tinyweave.ir import CompileError
from tinyweave.kernels.table import variant_for
from tinyweave.planning import Request, plan
from tinyweave.planning.fuse.row_access import RowGraph
from tinyweave.planning.search import path_search
from tinyweave.planning.search.problem import Problem
from tinyweave.planning.search.stage_growth import grow_stages_in_python
from tinyweave.planning.search.stages import Stages, as_columns, grow_stages


def problems_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Problem, Stages]]:
    """Return the problems that the planner solves for a random network, and their stages."""
    solved = list[tuple[Problem, Stages]]()

    def noted(problem: Problem) -> Stages:
        solved.append((problem, grow_stages(problem)))
        return solved[-1][1]

    monkeypatch.setattr(path_search, "grow_stages", noted)
    plan(random_network(seed, 10, growers=BY_ROW, live=2), Request(max_mac_overhead=1.5))
    return solved


def columns(stages: Stages) -> list[list[int]]:
    return [column.tolist() for column in stages]


@pytest.mark.parametrize("seed", range(6))
def test_a_reloaded_problem_has_the_same_stages(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = problems_of(seed, monkeypatch)
    assert solved
    for problem, stages in solved:
        reloaded = Problem.from_json(problem.to_json())
        assert reloaded == problem
        assert columns(as_columns(grow_stages_in_python(reloaded))) == columns(stages)


def test_the_examples_have_stages_and_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = [each for seed in range(6) for each in problems_of(seed, monkeypatch)]
    assert any(len(stages.stage) for _, stages in solved) and any(len(stages.tiles) for _, stages in solved)


def small_problem() -> Problem:
    graph = random_network(random.Random(0).randrange(100), 5, growers=BY_ROW, live=2)
    return untiled(RowGraph(graph, [variant_for(graph, op).name for op in graph.ops]), range(len(graph.ops)))


def test_a_printed_problem_names_its_tensors_and_ops() -> None:
    problem = small_problem()
    assert all(repr(each.name) in str(problem) for each in (*problem.tensors, *problem.ops))


@pytest.mark.parametrize(
    "damaged",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 99'),
        lambda text: text.replace('"row_bytes"', '"column_bytes"'),
    ],
    ids=["cut off", "a list", "another format", "an unknown field"],
)
def test_text_that_is_not_a_saved_problem_is_refused(damaged: Callable[[str], str]) -> None:
    with pytest.raises(CompileError, match="not a saved planning problem"):
        Problem.from_json(damaged(small_problem().to_json()))
