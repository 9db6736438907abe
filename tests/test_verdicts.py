"""Verdicts: a network fits if the plan or the build of any objective does, and a looser limit never costs anything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from fuzz.generate import random_network

import tinyweave as tw
from tinynas.costs import model_of
from tinyweave import api
from tinyweave.api.plans import limits_excess
from tinyweave.api.results import Model
from tinyweave.cli import main
from tinyweave.devices import find
from tinyweave.planning import Plan
from tinyweave.planning.kernels.stack import stack_bytes

DIGITS = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"
BOARD = find("stm32f412")


@cache
def model(name: int | str) -> Model:
    if name == "digits":
        return api.load(DIGITS)
    return model_of(NETWORKS[name]() if isinstance(name, str) else random_network(name, 10))


@cache
def plan(name: int | str, optimize: str | None, key: str = "ram", limit: float | None = None) -> Plan:
    return tw.plan(model(name), BOARD, optimize=optimize, **{key: limit})


def fits(name: int | str, optimize: str | None, key: str, limit: float) -> bool:
    options = api.PlanOptions(optimize=optimize, **{key: limit})
    return not any(limits_excess(plan(name, optimize, key, limit), api.request_of(options, BOARD)))


def arena(made: Plan) -> int:
    return sum(made.arena.values())


def ms(made: Plan) -> float:
    return api.estimate_latency_ms(made, BOARD) or 0.0


NEEDS = {"ram": arena, "flash": lambda made: api.estimate_flash(made).constants, "latency_ms": ms}


def products(made: Plan) -> tuple[float, float]:
    """Return what `balanced` minimises: RAM x time of plans with one kernel set, RAM x Flash x time of plans with two."""
    product = arena(made) * ms(made)
    return product, product * api.estimate_flash(made).constants


COSTS = {
    "size": lambda made: (arena(made) + stack_bytes(made, BOARD.core),),
    "speed": lambda made: (ms(made),),
    "balanced": products,
    None: products,
}


def ladder(name: int | str, key: str) -> Sequence[float]:
    """Return limits from too little to more than any plan needs, each plan's own need among them."""
    needs = sorted({NEEDS[key](plan(name, optimize)) for optimize in api.OPTIMIZE})
    if key == "latency_ms":
        return [needs[0] / 2, *(round(need + 0.002, 3) for need in needs), 2 * needs[-1]]
    return [int(needs[0]) - 4, *map(int, needs), int(needs[-1]) + 400]


@pytest.mark.parametrize("key", ["ram", "flash", "latency_ms"])
@pytest.mark.parametrize("name", ["residual", *rest_in_sweeps(range(6), 2)])
def test_a_looser_limit_never_costs_anything(name: int | str, key: str) -> None:
    limits = ladder(name, key)
    for optimize, cost in COSTS.items():
        verdicts = [fits(name, optimize, key, limit) for limit in limits]
        assert verdicts == sorted(verdicts) and verdicts[-1], (optimize, limits, verdicts)
        own = [plan(name, optimize, key, limit) for limit, fit in zip(limits, verdicts, strict=True) if fit]
        own = [made for made in own if made.objective == (optimize or "balanced")]
        pairs = [(cost(looser), cost(made)) for made, looser in pairwise(own)]
        assert own and all(any(x <= y * 1.02 for x, y in zip(*costs, strict=True)) for costs in pairs), (optimize, pairs)


@pytest.mark.parametrize("key", ["ram", "flash", "latency_ms"])
@pytest.mark.parametrize("name", ["residual", *rest_in_sweeps(range(6), 2)])
def test_a_network_fits_if_the_plan_of_any_objective_does(name: int | str, key: str) -> None:
    for limit in ladder(name, key):
        verdicts = {optimize: fits(name, optimize, key, limit) for optimize in (None, *api.OPTIMIZE)}
        assert len({*verdicts.values()}) == 1, (limit, verdicts)


@pytest.mark.parametrize("name", ["digits", "residual"])
def test_a_ram_limit_keeps_the_objective_and_the_plan_that_meets_it(name: str) -> None:
    free = tw.plan(model(name))
    for ram in (arena(free), arena(free) + 1000, 10 * arena(free)):
        made = tw.plan(model(name), ram=ram)
        assert made.objective == "balanced" and (made.offsets, made.variants) == (free.offsets, free.variants)
    small = tw.plan(model(name), ram=arena(tw.plan(model(name), optimize="size")))
    assert arena(small) < arena(free) or name != "digits"


@pytest.mark.emulator
def test_deploy_builds_the_plans_of_other_objectives_before_it_says_that_none_fits(
    tmp_path: Path, emulator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plans have the same arena. The portable kernels take less stack, which only a build shows."""
    more = {"out": tmp_path / "out", "samples": 1}
    small, usual = (tw.deploy(model("chain"), "stm32f412", optimize=optimize, **more) for optimize in ("size", None))
    assert small.profile.arena == usual.profile.arena and small.profile.ram < usual.profile.ram
    for optimize in ("speed", "balanced"):
        done = tw.deploy(model("chain"), "stm32f412", optimize=optimize, ram=small.profile.ram, **more)
        assert done.fits and done.verification.ok and done.profile.ram <= small.profile.ram
        assert done.plan.objective in ("size", "flash", *(["speed"] if optimize == "speed" else [])), "with zig it fits"
    file = tmp_path / "chain.tflite"
    file.write_bytes(model("chain").file)
    words = ["deploy", str(file), "--device", "stm32f412", "--samples", "1", "-o", str(tmp_path / "out")]
    assert main([*words, "--ram", str(small.profile.ram)]) == 0
    assert f"fits stm32f412 with --optimize {done.plan.objective}" in capsys.readouterr().out.splitlines()
    assert main([*words, "--ram", str(sum(small.profile.arena.values()) + 1)]) == 1
    assert "does not fit stm32f412" in capsys.readouterr().out.splitlines()


@pytest.mark.emulator
def test_deploy_keeps_the_objective_if_fewer_fused_layers_of_the_same_kernels_fit(tmp_path: Path, emulator: None) -> None:
    """It took the same kernels for the same program, and the plan of objective flash needed ten times the instructions."""
    done = [tw.deploy(DIGITS, "nrf52840", out=tmp_path, samples=1, optimize="speed")]
    for share in (0.91, 0.83):
        limit = int(share * done[0].profile.flash)
        done.append(tw.deploy(DIGITS, "nrf52840", out=tmp_path, samples=1, optimize="speed", flash=limit))
        assert done[-1].fits and done[-1].profile.flash <= limit and done[-1].plan.objective == "speed"
    counted = [each.profile.instructions for each in done]
    assert counted == sorted(counted)
