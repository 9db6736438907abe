"""Plan files with another kernel or with random edits are refused in one line, or give the bytes of the reference."""

from __future__ import annotations

from itertools import islice

import pytest
from planning.edited_plans import PLANS, edits, faults, outcome, swaps

from tinyweave.planning import Plan

EVERY = 2  # a prime number, so that all kernels are drawn: of these swaps, one is tried
EDITS = 40


@pytest.mark.parametrize(("name", "least"), [("streams", 1), ("enlarged", 1), ("state", 1)])
def test_a_plan_with_another_kernel_is_refused_or_gives_the_bytes_of_the_reference(name: str, least: int) -> None:
    graph, made = PLANS[name]()
    found = [(about, outcome(graph, text)) for about, text in islice(swaps(made), 0, None, EVERY)]
    accepted = [(about, plan) for about, plan in found if isinstance(plan, Plan)]
    assert len(accepted) >= least and len(found) - len(accepted) > 0.9 * len(found)
    assert not faults(accepted)


@pytest.mark.parametrize("name", ["streams", "enlarged", "state", "memories"])
def test_an_edited_plan_is_refused_or_gives_the_bytes_of_the_reference(name: str) -> None:
    graph, made = PLANS[name]()
    found = [(about, outcome(graph, text)) for about, text in edits(made, EDITS, seed=1)]
    accepted = [(about, plan) for about, plan in found if isinstance(plan, Plan)]
    assert len(found) - len(accepted) > EDITS / 2
    assert not faults([(about, plan) for about, plan in accepted if list(plan.arena) == ["sram"]])
