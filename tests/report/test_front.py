"""The Pareto front of RAM and time: figures equal those of the plans."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tinyweave import api
from tinyweave.codegen import constants_of
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.kernels.dsp import dense, taps
from tinyweave.kernels.table import BY_NAME
from tinyweave.planning import Limits, check, constant_bytes, to_json, with_copies, without_copies, worth_copying
from tinyweave.report.front import front_lines, front_record, front_rows, verdict_line
from tinyweave.report.record import Record

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
BOARD = find("stm32f412")


@pytest.fixture(scope="module")
def model() -> api.results.Model:
    return api.load(DIGITS)


@pytest.fixture(scope="module")
def record(model) -> Record:
    plans, others, by_flash = (
        api.pareto(model),
        api.baseline_plans(model, api.Request(core=api.DEFAULT_CORE)),
        api.flash_front(model, api.Request(core=api.DEFAULT_CORE)),
    )
    limits = Limits(8000, None, latency_ms=100, clock_hz=BOARD.clock_hz)
    return front_record(model, plans, limits, BOARD.core, BOARD, by_flash=[plans[0], *by_flash], standing=others)


def test_points_equal_the_plans_of_the_front_and_of_other_strategies(model, record: Record) -> None:
    points, others = record["points"], {each["schedule"]: each for each in record["schedules"]}
    for point, plan in zip(points, api.pareto(model), strict=True):
        live = [(step, plan.live(step)) for step, stage in enumerate(plan.stages) for _ in stage.ops]
        assert [(layer["step"], layer["live"]) for layer in point["layers"]] == live
        assert (point["arena"], point["gap"]) == (sum(plan.arena.values()), plan.gap)
        lean = [op for op, name in zip(plan.graph.ops, plan.variants, strict=True) if name and BY_NAME[name].lean]
        padding = sum((dense if op.kind == "conv_2d" else taps).padding(plan.graph, op) for op in lean)  # layers share it
        assert point["constants"] >= constant_bytes(plan.graph, plan.variants) - padding > 0
        cycles = api.estimate_cycles(plan, BOARD)
        assert cycles is not None and point["cycles"] == cycles.cycles
        assert point["fits"] == (point["arena"] <= 8000 and point["latency_ms"] <= 100)
    assert all(a["latency_ms"] < b["latency_ms"] for a, b in pairwise(points)), "in the order of the board's own time"
    assert list(others) == ["layer", "patch", "msf"]
    for name, each in others.items():
        plan = api.plan(model, schedule=name)
        assert (each["arena"], each["gap"]) == (sum(plan.arena.values()), plan.gap)
        assert not any(each["arena"] < p["arena"] and each["slowdown"] < p["slowdown"] for p in points), "none beats the front"
    assert others["layer"]["arena"] > points[0]["arena"] and others["patch"]["mac_overhead"] > 1


def test_tables_and_lines_show_gaps_flash_and_other_strategies(record: Record) -> None:
    rows = front_rows(record)
    assert rows[0][:5] == ("", "arena, B", "ms", "cycles x", "MACs") and len({len(row) for row in rows}) == 1
    has_gap = any(point["gap"] for point in record["points"])
    by_flash = [row for row in rows if row[0] == "by Flash"]
    assert [row[-1 - has_gap] for row in by_flash] == [f"{each['constants']:,}" for each in record["by_flash"]] != []
    assert not any(each in record["points"] for each in record["by_flash"]), "each plan has one row"
    assert [row[0] for row in rows[-3:]] == ["layer", "patch", "msf"]
    assert len(rows) == 1 + len(record["points"]) + len(by_flash) + 3
    assert ("gap, B" in rows[0]) == has_gap == any("with a gap" in line for line in front_lines(record))
    assert any(line.startswith("proved: of all plans with the orders") for line in front_lines(record))
    gapped = {**record, "points": [{**record["points"][0], "gap": 1234}]}
    assert "1,234" in front_rows(gapped)[1] and any("with a gap" in line for line in front_lines(gapped))
    unknown = {**record, "cycles_of": "cortex-m3", "core": "rv32imc"}
    assert "for a cortex-m3, since those of a rv32imc are not known" in front_lines(unknown)[0]
    assert "no kernel's cycles are known" in front_lines({**record, "cycles_of": None})[0]


def test_copies_of_constants_trade_ram_for_time_on_a_board_with_slow_flash(model) -> None:
    """The front with copies ends with a plan without, and begins with one that copies all constants."""
    board = find("rp2350")
    limits = api.request_of(api.PlanOptions(), board).limits
    flash, auto, whole = (api.pareto(model, board, weights=weights) for weights in ("flash", "auto", "ram"))
    sizes, spent = ([sum(plan.arena.values()) for plan in auto], [api.estimate_latency_ms(plan, board) for plan in auto])
    assert sizes == sorted(set(sizes), reverse=True) and spent == sorted(set(spent)) and len(auto) > len(flash)
    assert to_json(auto[-1]) == to_json(flash[-1]) and spent[0] < 0.95 * api.estimate_latency_ms(flash[0], board)
    for plan in (auto[0], *whole):
        assert sum(plan.copy_bytes.values()) == sum(each.bytes for each in constants_of(plan))
    for plan in auto:
        room = sum(plan.copy_bytes.values()) + 16
        again = worth_copying(without_copies(plan), constants_of(plan), room, board.core, limits.reads)
        best = check(with_copies(without_copies(plan), again, "sram"))
        assert api.estimate_latency_ms(best, board) >= 0.999 * api.estimate_latency_ms(plan, board)
    record = front_record(model, auto, limits, board.core, board)
    assert [point["copied"] for point in record["points"]] == [sum(plan.copy_bytes.values()) for plan in auto]
    rows, lines = front_rows(record), front_lines(record)
    column = rows[0].index("copied, B")
    assert rows[1][column] == f"{sum(auto[0].copy_bytes.values()):,}" and rows[-1][column] == "-"
    assert any(line.startswith("copied: ") for line in lines) and any(
        line.startswith("proved, without copies") for line in lines
    )
    assert not any("with a gap" in line for line in front_lines({**record, "points": record["points"][:1]})), (
        "nothing is proved"
    )
    with pytest.raises(CompileError, match="without a file of weights"):
        api.pareto(model, board, weights="fetch")


def test_the_verdict_names_the_fastest_plan_that_fits(record: Record) -> None:
    fitting = [point for point in record["points"] if point["fits"]]
    assert f"within 100 ms with {fitting[0]['arena']:,} B" in verdict_line(record)
    none = {**record, "points": [{**point, "fits": False} for point in record["points"]]}
    assert verdict_line(none).startswith(
        "does not fit in 8,000 B of RAM within 100 ms: the least is 6,528 B, the fastest takes"
    )
    assert verdict_line({**record, "limit": None, "limit_ms": None}) == ""
