"""The rows and columns that the check of plans says an op reads are those on which the op's numpy reference depends."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from cases.ops import Case, cases

from tinyweave import ops
from tinyweave.ops import SPECS, OpSpec
from tinyweave.planning.check.fused import _field, _Fused, _rows_read
from tinyweave.planning.check.regions import activations
from tinyweave.planning.check.resampled import RESAMPLED

MOST_CASES, DRAWS = 6, 3
TIGHT, TIGHT_RESAMPLED = 0.15, 0.6  # least shares of cases without a needless read; an activation may hide reads in the others


def by_rows(case: Case) -> bool:
    """Return whether a case has an op with windows on maps of one image, with small outputs."""
    graph, op = case.graph, case.graph.ops[0]
    if len(graph.ops) > 1 or SPECS[op.kind].windows(graph, op) is None:
        return False
    maps = [graph.tensors[name] for name in activations(graph, op)]
    return all(x.dtype in ("int8", "int16") and len(x.shape) == 4 and x.shape[0] == 1 for x in (*maps, graph.output(op)))


BY_WINDOWS: dict[Callable[..., Any], list[str]] = {}  # windows of an op kind -> the kinds that have them
for _kind, _spec in SPECS.items():
    BY_WINDOWS.setdefault(_spec.windows, []).append(_kind)
WITHOUT = (
    OpSpec.__dataclass_fields__["windows"].default,
    SPECS["batch_matmul"].windows,
)  # no windows, and no maps of one image


def seen(case: Case, name: str, axis: int, rng: np.random.Generator) -> np.ndarray:
    """Return [output position, input position] along an axis: whether the output changes with the input `name` in some draw."""
    graph = case.graph
    shape, out = graph.tensors[name].shape, graph.output(graph.ops[0])
    depends = np.zeros((out.shape[axis], shape[axis]), bool)
    others = tuple(number for number in range(4) if number != axis)
    for draw in range(DRAWS):
        values = {x: rng.integers(-100, 100, graph.tensors[x].shape) for x in graph.inputs}
        (before,) = ops.run(graph, typed(case, values)).values()
        for at in range(shape[axis]):
            part = (slice(None),) * axis + (at,)
            changed = values[name].copy()
            changed[part] = rng.integers(-100, 100, changed[part].shape) if draw else -changed[part]
            (after,) = ops.run(graph, typed(case, values | {name: changed})).values()
            depends[:, at] |= (before != after).any(axis=others)
    return depends


def typed(case: Case, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values in the types of the inputs; inputs that are no maps, such as an output shape, keep the case's value."""
    given = dict(zip(case.graph.inputs, case.inputs[0], strict=True))
    return {name: values[name].astype(x.dtype) if x.ndim == 4 else x for name, x in given.items()}


@pytest.mark.parametrize(
    "windows", [pytest.param(each, id=f"{each.__module__}.{each.__name__}") for each in BY_WINDOWS if each not in WITHOUT]
)
def test_an_output_row_depends_on_the_rows_that_the_check_reads_and_no_others(windows: Callable[..., Any]) -> None:
    by_kind = {kind: [case for case in cases(kind) if by_rows(case)] for kind in BY_WINDOWS[windows]}
    assert any(by_kind.values()), "no case has maps"
    for kind, some in by_kind.items():
        if some:
            reads_of(kind, some[:: 1 if kind in RESAMPLED else -(-len(some) // MOST_CASES)])


def reads_of(kind: str, some: list[Case]) -> None:
    rng, tried, tight = np.random.default_rng(3), 0, 0
    for case in some:
        graph, op = case.graph, case.graph.ops[0]
        fused = _Fused(cast(Any, SimpleNamespace(graph=graph)), cast(Any, None), {}, frozenset(), {}, {}, None)
        out = graph.output(op)
        for name in dict.fromkeys(activations(graph, op)):
            rows, height = seen(case, name, 1, rng), graph.tensors[name].shape[1]
            claimed = [_rows_read(fused, op, name, row) for row in range(out.shape[1])]
            read = np.array([[at in span for at in range(height)] for span in claimed])
            assert not (rows & ~read).any(), f"{case.id}: an output depends on rows of '{name}' that the check does not read"
            tried, tight = tried + 1, tight + bool((rows == read).all())
            if kind in RESAMPLED or any(window.up > 1 for window in SPECS[kind].windows(graph, op) or ()):
                continue
            columns = seen(case, name, 2, rng)
            spans = [_field(fused, op, name, (range(1), range(col, col + 1)))[1] for col in range(out.shape[2])]
            across = np.array([[at in span for at in range(graph.tensors[name].shape[2])] for span in spans])
            assert not (columns & ~across).any(), f"{case.id}: an output depends on columns of '{name}' that are not read"
            tried, tight = tried + 1, tight + bool((columns == across).all())
    assert tried > 1
    assert tight >= (TIGHT_RESAMPLED if kind in RESAMPLED else TIGHT) * tried, (
        f"the check reads more than it must in {tried - tight} of {tried} cases"
    )
