"""Random limits give the best plan within them, else the closest, or one error. `--fuzz-seed N --fuzz-count M` runs others."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fuzz.generate import BY_ROW, BY_SOME_ROWS, GROWERS, random_network
from fuzz.random_plans import CORES
from fuzz.seeds import parametrize

from tinyweave.ir import CompileError, Graph
from tinyweave.planning import Limits, Plan, Request, plan
from tinyweave.planning.kernels.cycles import cycles_to_compare
from tinyweave.planning.kernels.flash_budget import constant_bytes
from tinyweave.planning.strategies import STRATEGIES

ASKED = 6  # queries per network
IN_SWEEPS = 80
USUAL = 12
KNOWN_CYCLES = "cortex-m4"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seed", USUAL, IN_SWEEPS)


def size(made: Plan) -> int:
    return sum(made.arena.values())


def planned(graph: Graph, schedule: str, options: dict[str, Any]) -> Plan | None:
    """Return the plan, or None if the strategy refuses the network in one line."""
    try:
        return plan(graph, Request(schedule, **options))
    except CompileError as error:
        assert "\n" not in str(error)
        return None


def in_cycles(cycles: int) -> dict[str, float]:
    """Return the latency limit of this many cycles at a clock of 1 kHz."""
    return {"latency_ms": float(cycles), "clock_hz": 1e3}


def near(rng: random.Random, value: int) -> int:
    """Return a random limit: None, the value itself, or near it."""
    return rng.choice((0, 1, value - 1, value, value + 1, int(value * rng.uniform(0.3, 2))))


def test_random_limits_give_the_best_or_the_closest_plan(seed: int) -> None:
    rng = random.Random(seed)
    growers, live = rng.choice(((BY_ROW, 2), (BY_SOME_ROWS, 4), (GROWERS, 6)))
    graph = random_network(seed, rng.randint(4, 14), growers=growers, live=live)
    core, overhead = rng.choice((KNOWN_CYCLES, *CORES)), rng.choice((None, 1.0, 1.1, 1.5))
    free = plan(graph, Request(core=core, max_mac_overhead=overhead))
    cycles = round(cycles_to_compare(free, core)) if core == KNOWN_CYCLES else 10_000
    constants = constant_bytes(free.graph, free.variants)
    for _ in range(ASKED):
        options = {"core": core, "max_mac_overhead": overhead, "objective": rng.choice(("size", "balanced", "speed"))}
        ram = near(rng, size(free)) if rng.random() < 0.6 else None
        time_limit = near(rng, cycles) if rng.random() < 0.6 else None
        flash = near(rng, constants) if rng.random() < 0.4 else None
        options["limits"] = Limits(ram, flash, **({} if time_limit is None else in_cycles(time_limit)))
        options |= {"stream_inputs": rng.random() < 0.2, "stream_outputs": rng.random() < 0.2}
        schedule = rng.choice(("best", "best", "best", *STRATEGIES, "patch:2:3"))
        made = planned(graph, schedule, options)
        if made is None or flash is not None or ram is None:
            continue
        least = planned(graph, schedule, options | {"objective": "size", "limits": Limits()})
        assert least is not None
        assert size(made) <= max(ram, size(least)), f"{schedule}, {options}"
