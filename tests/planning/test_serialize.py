"""Plan files: reading a written plan gives the same plan, and a damaged file is refused in one line or gives a sound plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cases.maps import block, segmentation
from cases.tiny import NETWORKS
from planning.stages import plan_in_stages

from tinyweave.ir import CompileError, Graph
from tinyweave.planning import Plan, Tile, from_json, plan, to_json

PLANS: dict[str, tuple[Callable[[], Graph], Callable[[Graph], Plan]]] = {
    "layers": (NETWORKS["residual"], plan),
    "moves": (NETWORKS["chain"], plan),
    "state": (NETWORKS["stream"], plan),
    "tiles": (block, lambda graph: plan_in_stages(graph, [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 5, 2),))),
    "streams": (
        segmentation,
        lambda graph: plan_in_stages(graph, [(0, 1, 2, 3, 4)], streamed_inputs=("image",), streamed_outputs=("classes",)),
    ),
}
WRONG = (None, True, -1, 0, 1, 7, 1.5, 1 << 40, "", "image", [], {}, [[]], {"a": 1})


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value in a record, including containers."""
    if path:
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(each, (*path, key))


def damaged(record: Any, path: tuple[Any, ...], value: Any) -> str:
    copy = json.loads(json.dumps(record))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(copy, indent=1)


@pytest.mark.parametrize("name", PLANS)
def test_reading_a_written_plan_gives_the_same_plan(name: str) -> None:
    made = PLANS[name][1](PLANS[name][0]())
    again = from_json(to_json(made), PLANS[name][0]())
    assert to_json(again) == to_json(made) and again.stages == made.stages


def test_the_keys_of_a_plan_file_belong_to_its_version() -> None:
    """Files with these keys have version 10. Other keys need another version, because users keep plan files."""
    record = json.loads(to_json(PLANS["tiles"][1](block())))
    assert record["version"] == 10
    assert sorted(record) == sorted(
        """arena buffers channels_once copies graph lower_bound moves offsets pieces places scratch stages streamed_inputs
        streamed_outputs variants version weights_file""".split()
    )
    stage, buffer = record["stages"][0], record["buffers"][0]
    assert sorted(buffer) == ["align", "bytes", "end", "memory", "name", "start"]
    assert sorted(stage) == ["ops", "schedule", "tiles"] and sorted(stage["tiles"][0]) == ["cached", "cols", "ops", "rows"]
    assert sorted(stage["schedule"]) == ["rings", "tiles", "timings"]
    assert sorted(stage["schedule"]["timings"][0]) == ["every", "first", "node", "rows", "rows_per_iteration"]


@pytest.mark.parametrize("name", PLANS)
def test_damaged_plan_files_are_refused_or_give_sound_plans(name: str) -> None:
    """Each file has one wrong value: the check accepts the plan, or the error is one line."""
    graph = PLANS[name][0]()
    text = to_json(PLANS[name][1](graph))
    record, refused = json.loads(text), 0
    ways = list(leaves(record))
    for number, path in enumerate(ways):
        for value in WRONG if number % 5 == 0 or len(path) < 3 else WRONG[number % 3 :: 3]:
            try:
                from_json(damaged(record, path, value), graph)
            except CompileError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 3 * len(ways)


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1, -100])
def test_truncated_plan_files_are_refused(cut: int) -> None:
    text = to_json(plan(NETWORKS["chain"]()))
    with pytest.raises(CompileError):
        from_json(text[:cut], NETWORKS["chain"]())


def test_plans_that_would_take_too_long_to_check_are_refused() -> None:
    graph = block()
    made = plan_in_stages(graph, [(0, 1, 2, 3)])
    record = json.loads(to_json(made))
    timings = record["stages"][0]["schedule"]["timings"]
    timings[-1]["every"] = 1 << 30
    with pytest.raises(CompileError, match="takes no ticks, or more than"):
        from_json(json.dumps(record), graph)
    for name in ("arena", "offsets"):
        record = json.loads(to_json(made))
        record[name] = dict.fromkeys(record[name], 1 << 30)
        with pytest.raises(CompileError, match="bytes exceed the supported maximum"):
            from_json(json.dumps(record), graph)
    with pytest.raises(CompileError):
        from_json("[" * 100_000, graph)
