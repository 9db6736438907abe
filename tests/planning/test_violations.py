"""The check refuses the smallest violation of each rule, and accepts plans that keep the rule with nothing to spare."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from cases.maps import block, neck, segmentation
from cases.tiny import activation
from cases.tiny import graph as tiny
from fuzz.attention import random_attention
from fuzz.faster_kernels import with_kernels_of
from fuzz.generate import BY_SOME_ROWS, random_network, random_stages
from fuzz.random_plans import trials
from planning.damage import PLANS, made, moved
from planning.row_violations import ROW_RULES
from planning.stages import plan_in_stages
from planning.violations import ROOM, RULES, WORD, Violation, above, overwritten_live_bytes, row_bytes

from tinyweave import api
from tinyweave.ir import Op
from tinyweave.kernels.access import overlap_distances
from tinyweave.passes import run_passes
from tinyweave.planning import Plan, Request, Tile, check, plan
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.check.regions import disjoint
from tinyweave.planning.memories import distribute

EXAMPLE = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
MOST = 12  # number of random violations per rule; sweeps try all
STRATEGIES = ("layer", "unfused", "best", "patch", "msf")


@cache
def plans() -> list[Plan]:
    """Return plans of the planner and random ones: fused, patched, streamed, in place, relocated, in several memories."""
    found = [made(name) for name in PLANS]
    digits = api.load(EXAMPLE).graph
    found += [plan(digits, Request(schedule, core="cortex-m4")) for schedule in STRATEGIES]
    found += [
        plan(digits, Request(stream_inputs=True)),
        plan(neck("resize_bilinear")),
        plan(neck("transpose_conv"), Request(stream_inputs=True)),
    ]
    found += [plan(graph, Request(schedule)) for graph, schedule in product((block(33, 9), segmentation()), STRATEGIES)]
    attention, _ = run_passes(random_attention(1), io="int8")
    found += [plan(attention, Request(core="cortex-m4", objective="size"))]
    for seed in range(4):
        found += [trial.plan for trial in trials(seed)[:2]]
    for seed in range(8):
        graph = random_network(seed, growers=BY_SOME_ROWS, live=2)
        stages, options = random_stages(graph, random.Random(seed))
        staged = plan_in_stages(graph, stages, **options)
        found += [staged, with_kernels_of(staged, "cortex-m4")]
    whole = plan(random_network(1), Request("unfused"))
    half = sum(whole.arena.values()) // 2
    return [*found, check(distribute(whole, {"fast": half, "slow": 4 * half}, overlap=True))]


def verdict(tried: Plan) -> str:
    """Return the check's message for a plan, "" if it accepts the plan."""
    try:
        check(tried)
    except UnsoundPlanError as error:
        return str(error)
    return ""


def wrong_verdict(violation: Violation) -> str:
    """Return the check's message if the check is wrong about a violation, else ""."""
    for sound in violation.sound:
        if text := verdict(sound):
            return f"{violation.rule}: what keeps the rule is refused: {text}"
    text = verdict(violation.plan)
    return "" if text and re.search(violation.says, text) else f"{violation.rule}: {text or 'accepted'}"


@cache
def violations(rule: Callable[[Plan], Iterator[Violation]]) -> dict[str, list[Violation]]:
    """Return the violations of a rule in all plans, by name."""
    drawn: dict[str, list[Violation]] = {}
    for violation in (violation for each in plans() for violation in rule(each)):
        drawn.setdefault(violation.rule, []).append(violation)
    return drawn


@pytest.mark.parametrize("most", [MOST, pytest.param(None, marks=pytest.mark.sweep, id="all")])
@pytest.mark.parametrize("rule", [*RULES, *ROW_RULES], ids=lambda rule: rule.__name__)
def test_the_smallest_violations_are_refused(rule: Callable[[Plan], Iterator[Violation]], most: int | None) -> None:
    drawn = violations(rule)
    assert drawn and min(map(len, drawn.values())) >= 2
    for name, found in drawn.items():
        some = random.Random(name).sample(found, min(len(found), most or len(found)))
        assert not [text for text in map(wrong_verdict, some) if text]


def test_regions_are_disjoint_if_no_byte_is_in_both() -> None:
    """All pairs of intervals within five bytes are compared, in one memory and in two."""
    spans = [(begin, end) for begin in range(5) for end in range(begin + 1, 6)]
    for (a, b), (c, d) in product(spans, spans):
        assert disjoint(("sram", a, b), ("sram", c, d)) == (not set(range(a, b)) & set(range(c, d)))
        assert disjoint(("sram", a, b), ("dtcm", c, d))


def test_a_tile_of_one_iteration_does_not_overwrite_live_bytes() -> None:
    """No later iteration of the tile hides what the first one wrote."""
    tiled = plan_in_stages(block(4, 5), [(0, 1, 2), (3,)], tiles=(Tile((0, 1, 2), 5, 4),))
    found = [violation for violation in overwritten_live_bytes(tiled) if "tile" in violation.rule]
    assert len(found) >= 4
    assert not [text for text in map(wrong_verdict, found) if text]


def test_a_row_computed_from_several_rows_may_overlap_none_of_them() -> None:
    """The kernel's distance is 0, so the whole output may start at the offset of the whole input, but a single row may not."""
    pool = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0)), "activation": "none"}
    tensors = [activation("x", (1, 8, 6, 4)), activation("pooled", (1, 4, 3, 4)), activation("y", (1, 4, 3, 4))]
    ops = [Op("max_pool_2d_0", "max_pool_2d", ("x",), ("pooled",), pool), Op("relu_1", "relu", ("pooled",), ("y",))]
    staged = plan_in_stages(tiny("pooled", tensors, ops, ("x",), ("y",)), [(0, 1)])
    assert overlap_distances(staged.graph, ops[0], staged.variants[0]) == {0: 0}
    row, first = row_bytes(staged.graph.tensors["pooled"]), staged.offsets["x"]
    for below in (row, row - WORD):  # its end is the begin of the map, or one word after it
        apart = moved(staged, x=first + ROOM, y=above(staged) + 2 * ROOM, pooled=first + ROOM - below)
        refusal = verdict(apart)
        assert ("row 0 of max_pool_2d_0 is written over row 0 of 'x'" in refusal) == (below < row), refusal
    for place, says in ((0, "written over row 0 of 'x', which it reads"), (1, "written over row 1 of 'x', which it reads")):
        over = moved(staged, y=above(staged), pooled=first + place * row_bytes(staged.graph.tensors["x"]))
        assert says in verdict(over)
