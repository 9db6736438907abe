"""Each raise statement of the check is reached by a plan with one damage, or by a violation of test_violations.py."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.maps import block
from fuzz.faster_kernels import with_kernels_of
from planning.damage import FOLDER, PLANS, made, moved, placed, ringed, rows_of, schedule_rows
from planning.damages import DAMAGES
from planning.row_violations import ROW_RULES
from planning.stages import plan_in_stages
from planning.test_violations import violations
from planning.violations import RULES

from tinyweave.planning import Plan, Tile, check
from tinyweave.planning.check import Touched, UnsoundPlanError


def statements() -> dict[tuple[str, int], str]:
    """Return (file, first line) of each raise statement of the check -> its source."""
    trees = {path.name: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}
    nodes = [(file, node) for file, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    found = {(file, node.lineno): ast.unparse(node) for file, node in nodes}
    assert {file for file, _ in found} == {"__init__.py", "fused.py", "regions.py"}
    assert all("UnsoundPlanError" in text for text in found.values())
    return found


def damaged(name: str) -> Plan:
    plan_name, damage, _ = DAMAGES[name]
    return damage(made(plan_name))


def refusal(plan: Plan) -> tuple[str, tuple[str, int]]:
    """Return the check's message for an unsound plan, and the file and line that raised it."""
    with pytest.raises(UnsoundPlanError) as error:
        check(plan)
    last = error.traceback[-1]
    return str(error.value), (Path(last.path).name, last.lineno + 1)


@pytest.mark.parametrize("name", PLANS)
def test_the_undamaged_plans_are_sound(name: str) -> None:
    assert check(made(name)) is made(name)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_plan_is_refused(name: str) -> None:
    message, _ = refusal(damaged(name))
    assert DAMAGES[name][2] in message


def test_every_raise_statement_of_the_check_is_reached() -> None:
    violated = [found[0].plan for rule in (*RULES, *ROW_RULES) for found in violations(rule).values()]
    lines = {refusal(plan)[1] for plan in (*map(damaged, DAMAGES), *violated)}
    left = {line: text for line, text in statements().items() if line not in lines}
    assert not left
    assert lines <= set(statements())


def tall_tiles() -> list[Plan]:
    """Return plans with tiles of many iterations: with a streamed input, with line buffers, with scratch."""
    tall = block(33, 9)
    plans = [
        plan_in_stages(tall, [(0, 1), (2,), (3,)], tiles=(Tile((0, 1), 1, 2),)),
        plan_in_stages(tall, [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 4, 2),)),
        plan_in_stages(tall, [(0, 1, 2, 3)], tiles=(Tile((0, 1), 4, 2),)),
        plan_in_stages(tall, [(0, 1, 2, 3)], tiles=(Tile((1, 2), 3, 1, True),), streamed_inputs=("x",)),
        plan_in_stages(tall, [(0, 1, 2, 3)], tiles=(Tile((1, 2), 4, 3),), streamed_inputs=("x",), streamed_outputs=("last",)),
    ]
    return [*plans, *(with_kernels_of(each, "cortex-m4") for each in plans[:2])]


def random_damage(old: Plan, rng: np.random.Generator) -> Plan:
    """Change one number of a plan: an offset, a place, a line buffer, a timing or a tile."""
    schedule, names = rows_of(old), list(rows_of(old).line_buffers)
    match rng.integers(4):
        case 0:
            buffer = old.buffers[rng.integers(len(old.buffers))].name
            return moved(old, **{buffer: int(rng.integers(sum(old.arena.values()))) // 4 * 4})
        case 1 if names:
            name = names[rng.integers(len(names))]
            return ringed(old, **{name: max(1, schedule.line_buffers[name] + int(rng.integers(-1, 2)))})
        case 2:
            node = list(schedule.timings)[rng.integers(len(schedule.timings))]
            field = ("first", "every", "rows")[rng.integers(3)]
            return schedule_rows(
                old, node, **{field: max(0, getattr(schedule.timings[node], field) + int(rng.integers(-1, 2)))}
            )
        case _:
            name = list(schedule.tiles)[rng.integers(len(schedule.tiles))]
            place = old.places[name]
            return placed(old, **{name: replace(place, offset=max(0, place.offset + 16 * int(rng.integers(-4, 5))))})


def is_accepted(damaged: Plan, watch: Callable[[Touched], None] | None) -> bool:
    try:
        check(damaged, watch)
    except UnsoundPlanError:
        return False
    return True


def test_skipping_repeated_tile_iterations_does_not_change_the_result() -> None:
    """With a watcher, all iterations are checked."""
    rng, verdicts = np.random.default_rng(7), list[bool]()
    plans = tall_tiles()
    for number in range(200):
        damaged = random_damage(plans[number % len(plans)], rng)
        verdicts.append(is_accepted(damaged, None))
        assert verdicts[-1] == is_accepted(damaged, lambda touched: None), damaged
    assert min(verdicts.count(True), verdicts.count(False)) > 50


OPTIMISED = """
from dataclasses import replace
from cases.tiny import NETWORKS
from tinyweave.planning import check, plan
assert False, "python -O leaves this out"
made = plan(NETWORKS["chain"]())
check(replace(made, offsets=dict.fromkeys(made.offsets, 0), arena={"sram": max(buffer.bytes for buffer in made.buffers)}))
"""


def test_python_with_optimisation_refuses_a_damaged_plan() -> None:
    paths = [str(Path(__file__).parents[1]), str(FOLDER.parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-O", "-c", OPTIMISED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "UnsoundPlanError: conv_2d_0 writes over its own operand" in done.stderr
