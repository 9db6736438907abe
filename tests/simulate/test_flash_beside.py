"""Reads of Flash that is a separate chip: counted in emulated runs, estimated from plans, and printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tinyweave import api, planning
from tinyweave.api.results import Model
from tinyweave.cli import main
from tinyweave.devices import Device, find
from tinyweave.kernels.layer_cycles import RUN_BYTES, FlashReads
from tinyweave.kernels.table import BY_NAME
from tinyweave.planning import Plan
from tinyweave.planning.kernels.cycles import cycles_per_op, kernel_calls, plan_cycles
from tinyweave.report.columns import rounded
from tinyweave.simulate.instruction_timing import Cycles, FlashWaits, LineWaits

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
BOARDS = ("rp2040", "rp2350", "imxrt1062")


@pytest.fixture(scope="module")
def model() -> Model:
    return api.load(DIGITS)


def plan_for(model: Model, board: Device, optimize: str) -> Plan:
    """Return a plan by an objective without a limit of RAM."""
    limits = replace(api.limits_of(board), ram=None, maps=())
    return api.make_plan(model, api.Request(objective=optimize, limits=limits, core=board.core))


def test_lines_in_sequence_and_others_take_their_own_cycles() -> None:
    line = LineWaits(Cycles(10, 20, 30), Cycles(1, 2, 30))
    waits = FlashWaits(line, LineWaits(Cycles(5, 5, 5), Cycles(3, 4, 5)))
    missed = {"code": (7, 4), "data": (3, 1)}
    code, data = (3 * 10 + 4 * 1, 3 * 20 + 4 * 2, 7 * 30), (2 * 5 + 3, 2 * 5 + 4, 3 * 5)
    assert waits.of(missed) == tuple(a + b for a, b in zip(code, data, strict=True))
    assert waits.of({"data": (3, 1)}) == data and waits.of({}) == (0, 0, 0)
    assert waits.added(Cycles(100, 200, 300), missed) == (100 + 47, 200 + 82, 300 + 225)
    ahead = waits._replace(prefetched=True)
    assert ahead.added(Cycles(100, 200, 300), missed) == (100, 282, 525), "at best the core never waits"
    assert ahead.added(Cycles(9, 9, 9), missed).fewest == 47, "but no faster than the bus"


@pytest.mark.emulator
@pytest.mark.parametrize("optimize", ["balanced", "speed", "size"])
@pytest.mark.parametrize("name", BOARDS)
def test_the_reads_of_a_plan_are_foreseen(model: Model, name: str, optimize: str, emulator: None) -> None:
    board = find(name)
    plan = plan_for(model, board, optimize)
    run, inside = (api.profile_plan(model, plan, board.core, device=d, by_step=False) for d in (board, None))
    assert run.reading is not None and run.cycles is not None and inside.cycles is not None and inside.reading is None
    reading = run.reading.cycles
    for whole, without, waits in zip(run.cycles[1:], inside.cycles[1:], reading[1:], strict=True):
        assert whole == without + waits
    assert run.cycles.fewest in (inside.cycles.fewest + reading.fewest, max(inside.cycles.fewest, reading.fewest))
    assert 0 < reading.fewest < reading.likely < reading.most
    assert run.reading.constants > 0.9 * run.weights and run.reading.code > 0.5 * run.code, "at least once"
    estimate, reads = api.estimate_cycles(plan, board), api.estimate_reading(plan, board)
    assert estimate is not None and estimate.cycles is not None and reads is not None
    # estimates were fitted with gcc; zig's code takes up to a quarter more, and is placed where it evicts other lines
    is_fitted = "zig" not in run.compiler
    assert estimate.cycles == pytest.approx(run.cycles.likely, rel=0.1 if is_fitted else 0.25)
    ends = [estimate.cycles - reads.cycles.likely + end for end in (reads.cycles.fewest, reads.cycles.most)]
    assert list(reads.cycles) == sorted(reads.cycles) and reads.constants >= 0.95 * run.weights
    assert 0.95 * ends[0] < run.cycles.likely < (1.05 if is_fitted else 1.25) * ends[1]
    assert 0.4 * run.reading.constants < reads.constants < (1.35 if is_fitted else 1.5) * run.reading.constants
    without = plan_cycles(plan, board.core).cycles
    assert without is not None and estimate.cycles == pytest.approx(without + reads.cycles.likely, abs=2)


def test_each_layer_fetches_its_code_once_and_constants_in_order_or_not(model: Model) -> None:
    reads = FlashReads(waits=50, line=8, cache=1 << 14, code_line=8, code_cache=1 << 14, apart=110, cold=60)
    assert reads.of_code(1e6, 1, alone=True) == RUN_BYTES / 8 * 60 and reads.of_code(1e6, 1) == 0
    assert reads.of_constants(800, 9, alone=True) == 100 * 50
    assert reads.of_constants(800, 9, alone=True, in_order=False) == 100 * 110
    assert reads.of_constants(800, 9, alone=0.25, in_order=False) == 25 * 110, "a quarter of the calls"
    assert reads.of_constants(1 << 15, 9, alone=0) == 9 * (1 << 12) * 50, "each pass"
    assert reads._replace(apart=0, cold=0).of_constants(800, 9, alone=True, in_order=False) == 100 * 50


def test_ops_of_a_fused_stage_evict_constants_that_exceed_the_cache(model: Model) -> None:
    """All constants of the stage exceed the smaller cache, but those of no tile: then each row of tiles fetches them again."""
    plan = planning.plan(model.graph, api.Request(objective="size"))
    graph, calls = plan.graph, dict.fromkeys(range(len(plan.variants)), 0)
    for index, _, count in kernel_calls(plan):
        calls[index] += count
    constants = {i: BY_NAME[name].flash(graph, graph.ops[i]) for i, name in enumerate(plan.variants) if name}
    stages = [stage for stage in plan.stages if stage.schedule is not None]
    totals = [sum(constants.get(index, 0) for index in stage.ops) for stage in stages]
    tiled = stages[totals.index(max(totals))]
    assert tiled.tiles and all(sum(constants[index] for index in tile.ops) < max(totals) for tile in tiled.tiles)
    cache = -(-max(totals) // 8) * 8  # of one set, so that all lines miss or none
    reads = FlashReads(waits=50, line=8, cache=cache, code_line=8, code_cache=1 << 14, apart=110, cold=60, ways=cache // 8)
    lines = 0.0
    for index in (index for index in tiled.ops if index in constants):
        blocks = [-(-graph.output(graph.ops[t.ops[-1]]).shape[2] // t.cols) for t in tiled.tiles if index in t.ops]
        lines += constants[index] / 8 * (calls[index] / (blocks or [1])[0] - 1)
    assert lines > 0 and all(plan.variants[index] and BY_NAME[plan.variants[index]].stream is None for index in tiled.ops)
    smaller = reads._replace(cache=cache - 16, ways=cache // 8 - 2)
    fits, evicts = (plan_cycles(plan, "cortex-m33", each).at_least for each in (reads, smaller))
    assert fits is not None and evicts == pytest.approx(fits + lines * 110, abs=1)
    costs = [cycles_per_op(plan, "cortex-m33", each) for each in (None, reads)]
    for index in (index for index in tiled.ops if index in constants):
        free, once = (cost[index] for cost in costs)
        assert free and once == pytest.approx(free + constants[index] / 8 * 110 + RUN_BYTES / 8 * 60), "at least once"
    tile = max(tiled.tiles, key=lambda each: sum(constants[index] for index in each.ops))
    lines_held = -(-max(constants[index] for index in tile.ops) // 8)
    assert sum(constants[index] for index in tile.ops) > 8 * lines_held + 8
    costs.append(cycles_per_op(plan, "cortex-m33", reads._replace(cache=8 * lines_held, ways=lines_held)))
    for index in tile.ops:
        free, each = costs[0][index], costs[2][index]
        assert free and each == pytest.approx(free + calls[index] * constants[index] / 8 * 110 + RUN_BYTES / 8 * 60), (
            "each call"
        )
    others = [plan_cycles(plan, "cortex-m33", each._replace(apart=0)) for each in (reads, smaller)]
    assert others[0] == others[1], "of Flash on the chip such fetches are neglected"


@pytest.mark.emulator
def test_plan_profile_and_compare_print_the_share_of_reads(capsys: pytest.CaptureFixture[str], emulator: None) -> None:
    def printed(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 0
        return " ".join(capsys.readouterr().out.split())

    for verb, key in (("plan", "plan"), ("profile", None)):
        record = json.loads(printed(verb, DIGITS, "--device", "rp2350", "--json"))
        where = record[key] if key else record
        reads, clock = where["flash_reads"], 150e3
        (low, high), text = reads["cycles_range"], printed(verb, DIGITS, "--device", "rp2350")
        shown = [rounded(count / clock) for count in (reads["cycles"], low, high)]
        kilobytes = [f"{reads[what] / 1000:,.0f} kB" for what in ("constants", "code")]
        said = f"of these {shown[0]} ms ({shown[1]} to {shown[2]}) reading {kilobytes[0]} of weights and {kilobytes[1]} of code"
        assert said in text, text
        assert low < reads["cycles"] < high and reads["cycles"] < where["cycles"]
        ends = record["cycles_range"] or [where["cycles"] - reads["cycles"] + end for end in (low, high)]
        assert f"({rounded(ends[0] / clock)} to {rounded(ends[1] / clock)}) at 150 MHz" in text, "as wide as the reads may take"
        inside = json.loads(printed(verb, DIGITS, "--device", "stm32f446", "--json"))
        assert (inside[key] if key else inside)["flash_reads"] is None
        assert "reading" not in printed(verb, DIGITS, "--device", "stm32f446")
    boards = {board["name"]: board for board in json.loads(printed("compare", DIGITS, "--json"))["compare"]}
    slow, fast = boards["rp2350"], boards["lpc55s69"]
    assert slow["core"] == fast["core"] and slow["clock_hz"] == fast["clock_hz"]
    assert slow["latency_ms"] > fast["latency_ms"], "of equal core and clock, with Flash on the chip"
