"""What is picked of several plans: fast enough, small enough, and within what there is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases.graphs import Net
from fuzz.generate import BY_ROW, random_network

from tinyweave import api, results
from tinyweave.planning import Plan, plan
from tinyweave.planning.kernels.cycles import cycles_to_compare

DIGITS = Path(__file__).parents[3] / "examples" / "spoken_digits" / "digits.tflite"
CORE = "cortex-m4"


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


def cycles(made: Plan) -> float:
    return cycles_to_compare(made, CORE)


def size(made: Plan) -> int:
    return sum(made.arena.values())


@pytest.fixture(scope="module")
def unfused(model: results.Model) -> Plan:
    """Op by op, all on the fastest kernels."""
    return plan(model.graph, "unfused", core=CORE)


@pytest.mark.parametrize("optimize", ["speed", "balanced"])
def test_no_plan_takes_more_than_it_may(model: results.Model, unfused: Plan, optimize: str):
    made = api.plan(model, optimize=optimize, core=CORE)
    assert cycles(made) <= (1 + api.OPTIMIZE[optimize]) * cycles(unfused) and size(made) <= size(unfused)


def test_more_time_buys_memory(model: results.Model):
    speed, balanced, least = (api.plan(model, optimize=name, core=CORE) for name in ("speed", "balanced", "size"))
    assert size(least) < size(balanced) <= size(speed) and cycles(speed) <= cycles(balanced) < cycles(least)


def test_memory_that_is_short_costs_time(model: results.Model):
    fast, least = (api.plan(model, optimize=name, core=CORE) for name in ("speed", "size"))
    found = []
    for ram in (size(fast), size(fast) - 1, (size(fast) + size(least)) // 2):
        made = api.plan(model, limits=results.Limits(ram, None), optimize="speed", core=CORE)
        assert size(made) <= ram
        found.append(cycles(made))
    assert found == sorted(found) and found[0] == cycles(fast) < found[1]


@pytest.mark.parametrize("seed", range(20))
def test_more_memory_never_costs_time(seed: int):
    graph = random_network(seed, random.Random(seed).randint(4, 12), growers=BY_ROW, live=2)
    free = plan(graph, core=CORE, max_slowdown=1.2)
    limits = [size(free) * tenths // 10 for tenths in (5, 8, 9, 10, 20)]
    plans = [plan(graph, core=CORE, max_slowdown=1.2, ram_limit=limit) for limit in limits]
    taken = [cycles(made) for made, limit in zip(plans, limits, strict=True) if size(made) <= limit]
    assert taken == sorted(taken, reverse=True) and taken[-1] == cycles(free)


def test_where_nothing_fits_the_smallest_is_shown(model: results.Model):
    made = api.plan(model, limits=results.Limits(100, None), optimize="speed", core=CORE)
    assert size(made) == size(api.plan(model, optimize="size"))


def test_where_not_even_the_input_fits_few_kernels_are_taken_back():
    """Only that of the first layer, whose scratch lies beside the input; the others need less than it."""
    net = Net(64, 64, 8)
    graph = net.finish("input", net.conv(net.conv(net.conv("image", 4, 3, 4), 6, 3, 2), 8, 3, 2))
    told: list[tuple[str, int, int]] = []
    made = plan(graph, core=CORE, ram_limit=100, progress=lambda *step: told.append(step))
    assert size(made) == size(plan(graph))
    assert made.variants[:3] == ("tw_conv_2d_s8", "tw_conv_2d_s8_dsp", "tw_conv_2d_s8_dsp")
    assert told == [("plans compared", number, 0) for number in range(3)], "all fast, none fast, and those that may be"


@pytest.mark.parametrize("core", ["cortex-m0plus", "rv32imc", "xtensa-lx7", "cortex-m85"])
def test_a_core_whose_cycles_are_not_known_gets_what_its_like_gets(model: results.Model, core: str):
    like = "cortex-m55" if core == "cortex-m85" else "cortex-m3"
    assert api.plan(model, core=core).offsets == api.plan(model, core=like).offsets
