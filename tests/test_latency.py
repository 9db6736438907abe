"""Latency limits: plans within the limit, reports if no plan is fast enough, and replanning by `deploy` after measurement."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tinyweave import api
from tinyweave.api.results import Model
from tinyweave.cli import main
from tinyweave.devices import Device, find
from tinyweave.planning import Limits, Plan
from tinyweave.simulate import emulated

DIGITS = Path(__file__).parents[1] / "examples" / "keywords" / "digits.tflite"
BOARD = find("stm32f412")
ROUNDING = 2e-3  # in milliseconds, for the rounded cycles of each layer
REAL = "mlcommons__tiny__kws_ref_model"


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def model() -> Model:
    return api.load(DIGITS)


def size(plan: Plan) -> int:
    return sum(plan.arena.values())


def ms(plan: Plan, board: Device = BOARD) -> float:
    cycles = api.estimate_cycles(plan, board)
    assert cycles is not None and cycles.cycles is not None and board.clock_hz is not None
    return cycles.cycles / board.clock_hz * 1e3


def test_a_latency_limit_is_converted_to_cycles_by_the_clock() -> None:
    limits = api.limits_of(BOARD, latency_ms=1.1)
    assert limits.cycles == 110_000 and limits.latency_excess(110_000) == 0
    assert limits.latency_excess(160_000) == pytest.approx(0.5) and limits.latency_excess(None) is None
    assert Limits(None, None).cycles is None and Limits(None, None).latency_excess(10**9) is None


@pytest.mark.shared
def test_a_plan_without_moves_is_chosen_if_moves_take_too_long(shared: Path) -> None:
    """With little RAM moves make the fastest path fit; with little time as well, another path is chosen."""
    real = api.load(shared / "models" / f"{REAL}.tflite")
    free = replace(api.limits_of(BOARD), ram=None, maps=())
    fastest = api.make_plan(real, api.Request(objective="speed", limits=free, core=BOARD.core))
    assert ms(fastest) == ms(api.make_plan(real, api.Request("layer", objective="speed", limits=free, core=BOARD.core)))
    moving = api.make_plan(
        real, api.Request(objective="speed", limits=api.limits_of(BOARD, ram=size(fastest) - 1), core=BOARD.core)
    )
    assert ms(fastest) < ms(moving) and size(moving) < size(fastest)
    for limit in ((ms(fastest) + ms(moving)) / 2, 1):
        found = api.make_plan(
            real, api.Request(objective="speed", limits=api.limits_of(BOARD, latency_ms=limit), core=BOARD.core)
        )
        assert ms(found) <= ms(fastest) + ROUNDING and size(found) <= size(fastest)


def test_if_no_plan_is_fast_enough_the_fastest_is_returned(model: Model) -> None:
    """The fastest plan within the RAM is returned, or the smallest plan if none fits the RAM."""
    core = BOARD.core
    assert size(api.make_plan(model, api.Request(limits=api.limits_of(BOARD, ram=100, latency_ms=1), core=core))) == size(
        api.plan(model, optimize="size")
    )
    ram = size(api.plan(model, optimize="balanced"))
    within = api.make_plan(model, api.Request(objective="speed", limits=api.limits_of(BOARD, ram=ram), core=core))
    for optimize in api.OPTIMIZE:
        late = api.make_plan(
            model, api.Request(objective=optimize, limits=api.limits_of(BOARD, ram=ram, latency_ms=1), core=core)
        )
        assert late.variants == within.variants and size(late) == size(within) <= ram and ms(late) > 1


def test_plan_reports_the_latency_limit_and_the_excess(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", DIGITS, "--device", "stm32f412", "--latency-ms", "50", "--optimize", "size", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["limits"]["latency_ms"] == 50 and record["excess"]["latency_ms"] == 0 and record["fits"] is True
    assert 0 < record["plan"]["latency_ms"] <= 50 and record["ram"]["arena"] > 6528
    assert run("plan", DIGITS, "--device", "stm32f412", "--latency-ms", "2.5", "--json") == 1
    record = json.loads(capsys.readouterr().out)
    taken = record["plan"]["latency_ms"]
    assert record["fits"] is False and record["excess"]["latency_ms"] == pytest.approx(taken - 2.5, abs=2e-3)
    assert run("plan", DIGITS, "--device", "stm32f412", "--latency-ms", "2.5") == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "does not fit stm32f412" in printed and "of 2.5 ms" in printed and "too long" in printed
    assert "the fastest plan in so much RAM with these options" in printed


def test_deploy_does_not_build_a_plan_that_is_too_slow(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("deploy", DIGITS, "--device", "stm32f412", "--latency-ms", "2", "-o", tmp_path / "c")
    assert run(*arguments) == 1
    assert "nothing was built or written: by the estimate it takes too long" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_command_in_the_c_has_the_latency_limit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("--device", "stm32f412", "--latency-ms", "60", "--optimize", "size", "-o", tmp_path)
    assert run("compile", DIGITS, *arguments) == 0
    said = "Command: tinyweave compile digits.tflite --device stm32f412 --latency-ms 60 --optimize size"
    assert said in (tmp_path / "digits.c").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--latency-ms", "5"), "--latency-ms needs a clock; name a board with --device"),
        (("--device", "cortex-m4", "--latency-ms", "5"), "'cortex-m4' has no clock; name a board"),
        (("--device", "esp32", "--latency-ms", "5"), "the timings of a xtensa-lx6 are unknown"),
        (("--device", "fe310-g002", "--latency-ms", "5"), "the cycles of a sifive-e31 are only estimated from a run"),
        (("--device", "esp32-c3", "--latency-ms", "5"), "the cycles of a rv32imc-esp are only estimated from a run"),
        (("--device", "stm32f412", "--latency-ms", "0"), "--latency-ms 0 is not a time"),
        (("--device", "stm32f412", "--latency-ms", "nan"), "--latency-ms nan is not a time"),
        (("--device", "stm32f412", "--latency-ms", "inf"), "--latency-ms inf is not a time"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "deploy"])
def test_a_latency_limit_without_a_clock_or_timings_is_refused(verb: str, arguments: tuple, message: str, capsys) -> None:
    assert run(verb, DIGITS, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err and printed.err.count("\n") == 1


def test_deploy_replans_if_the_measured_latency_exceeds_the_limit(model: Model, tmp_path: Path) -> None:
    """Flash waits, for example, make the built code slower than predicted; the deployed plan is within the limit."""
    if reason := emulated.missing(BOARD.core):
        pytest.skip(reason[0])
    limits = api.limits_of(BOARD, latency_ms=47.5)
    first = api.make_plan(model, api.Request(objective="size", limits=limits, core=BOARD.core))
    late = api.profile_plan(model, first, BOARD.core, device=BOARD)
    assert late.cycles is not None and limits.cycles is not None and late.cycles.likely > limits.cycles >= ms(first) * 1e5
    done = api.deploy_model(
        model, tmp_path, api.Request(objective="size", limits=limits, core=BOARD.core), BOARD, proof=api.ProofOptions(count=1)
    )
    assert done.fits and done.verification.ok and done.excess["latency_ms"] == 0
    assert done.profile.cycles is not None and done.profile.cycles.likely <= limits.cycles
    assert size(done.plan) > size(first)
    text = (tmp_path / "digits.c").read_text()
    assert f"arena {size(done.plan)} B" in text.replace(",", "")
