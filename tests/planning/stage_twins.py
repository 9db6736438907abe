"""Fused stages of the C search compared with those of the Python search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tinyweave.planning.fuse.row_access import RowGraph
from tinyweave.planning.order.order_search import without_views
from tinyweave.planning.search.of_graph import problem_of
from tinyweave.planning.search.problem import Problem
from tinyweave.planning.search.stage_cycles import StageCycles
from tinyweave.planning.search.stage_growth import grow_stages_in_python
from tinyweave.planning.search.stages import SOURCE, Stages, as_columns, grow_stages_in_c
from tinyweave.support import toolchain


def same_in_c_and_python(problem: Problem) -> Stages:
    """Return the stages of a problem and assert that C and Python give the same."""
    if toolchain.library(SOURCE) is None:
        pytest.skip("needs a C compiler")
    in_c, in_python = grow_stages_in_c(problem), as_columns(grow_stages_in_python(problem))
    assert in_c is not None
    for name, column, other in zip(Stages._fields, in_c, in_python, strict=True):
        assert column.tolist() == other.tolist(), name
    return in_c


def untiled(row_graph: RowGraph, order: Sequence[int]) -> Problem:
    """Return the problem of a graph without tiles, in which no op runs unfused."""
    problem = problem_of(StageCycles(row_graph, [[] for _ in order], ""), order, without_views(row_graph.graph), partition=())
    return replace(problem, partition=None)
