"""`plan`: whether a model fits, limits, explanations, the Pareto front; and `reorder`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import maps, tiny
from cli.running import bad, run

import tinyweave as tw
from tests.passes.padded import padded_layer
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.kernels import layer_cycles

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"


def test_plan_reports_whether_the_model_fits_and_the_excess(capsys, chain):
    size = ("--optimize", "size")  # used if the fastest kernels do not fit
    assert run("plan", chain, "--json", "--optimize", "speed") == 0
    fast = json.loads(capsys.readouterr().out)["ram"]["arena"]
    assert run("plan", chain, "--ram", fast - 1, "--optimize", "speed") == 0
    capsys.readouterr()
    assert run("plan", chain, "--ram", "64k", "--json", *size) == 0
    fits = json.loads(capsys.readouterr().out)
    assert fits["fits"] is True and fits["excess"]["ram"] == 0 and fits["plan"]["steps"] == 6
    arena = fits["ram"]["arena"]
    assert arena < fast
    assert list(fits["plan"]["ablation"]) == [
        *("file order", "best order", "+ views", "+ in-place", "+ overlap", "+ moves", "+ fusion")
    ]
    assert sum(b["bytes"] for b in fits["peak"]["buffers"]) > fits["peak"]["bytes"] == arena  # input and output share bytes
    assert fits["plan"]["lower_bound"] <= arena == sum(fits["ram"]["memories"].values())
    assert run("plan", chain, "--ram", arena - 1, "--json", *size) == 1
    tight = json.loads(capsys.readouterr().out)
    assert tight["fits"] is False and tight["excess"] == {"ram": 1, "flash": None, "latency_ms": None}
    assert run("plan", chain, "--ram", arena, *size) == 0
    printed = capsys.readouterr().out
    assert "fits" in printed and "0 B left" in printed and "offset" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_plan_writes_a_plan_that_can_be_read_back(chain, tmp_path):
    from tinyweave.planning import from_json, to_json

    target = tmp_path / "sub" / "plan.json"
    assert run("plan", chain, "-o", target) == 0
    model = api.load(chain)
    assert to_json(from_json(target.read_text(), model.graph)) == target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["plan.json"]


def test_plan_explains_a_tensor_given_by_its_name_or_its_name_in_the_c(capsys, chain):
    for name in ("conv", "conv_2d_0"):
        assert run("plan", chain, "--explain", name, "--optimize", "size") == 0
        printed = capsys.readouterr().out
        assert printed.startswith("conv_2d_0: ") and "tensor 'conv'" in printed
        assert "read last by move_1 in step 2" in printed
        assert "writes" in printed and "behind its reads" in printed
        assert max(map(len, printed.splitlines())) <= 100
    assert run("plan", chain, "--explain", "scores", "--json", "--ram", "1") == 1
    record = json.loads(capsys.readouterr().out)
    explained = record["explain"]
    assert explained["tensor"] == "scores" and explained["persistent"] == ["network output"]
    assert explained["writers"] == [{"step": 5, "op": "softmax_4"}] and explained["readers"] == []
    large, portable = explained["kernels"]
    assert large["kernel"] == "tw_softmax_s8_table_dsp" and large["reason"].endswith(
        "a table of exponentials pays, but it has 3"
    )
    assert portable == {"kernel": "tw_softmax_s8", "reason": "the first kernel whose requirements the layer meets"}
    assert record["plan"]["ablation"] is None
    assert run("plan", chain, "--json") == 0
    assert json.loads(capsys.readouterr().out)["explain"] is None


def test_plan_names_streamed_outputs(capsys, chain, tmp_path):
    path = tmp_path / "heads.tflite"
    path.write_bytes(to_tflite(maps.heads()))
    assert run("plan", path, "--stream-outputs", "--json", "-o", tmp_path / "plan.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ram"]["streamed_outputs"] == ["wide"]
    assert found["ram"]["streamed_inputs"] == []
    assert json.loads((tmp_path / "plan.json").read_text())["streamed_outputs"] == ["wide"]
    assert run("plan", path, "--stream-outputs") == 0
    assert "(line buffer of 1 row) (output, streamed)" in " ".join(capsys.readouterr().out.split())
    assert run("plan", path, "--stream-outputs", "--explain", "wide") == 0
    assert "a network output, handed out by rows" in capsys.readouterr().out
    assert run("plan", path, "--stream-outputs", "--stream-inputs", "--pareto") == 0
    assert "what RAM costs in time, inputs and outputs by rows" in capsys.readouterr().out
    assert run("compile", path, "--stream-outputs", "-o", tmp_path / "c", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ram"]["streamed_outputs"] == ["wide"]
    assert "--stream-outputs" in (tmp_path / "c" / "heads.h").read_text()
    assert "cannot hand out a network output row by row" in bad(capsys, "plan", chain, "--stream-outputs")
    assert "cannot stream outputs" in bad(capsys, "plan", path, "--stream-outputs", "--schedule", "layer")


def test_constants_above_the_flash_limit_do_not_fit_and_an_estimate_above_it_may_not(capsys, chain):
    least_constants = ("--optimize", "size")  # the plan of fewest constants
    assert run("plan", chain, *least_constants, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    flash, (least, most) = record["flash"], record["flash"]["estimate"]
    assert 0 < flash["constants"] < least < most and flash["total"] is record["excess"]["flash"] is record["fits"] is None
    for limit, code, fits, over, said in (
        (flash["constants"] - 1, 1, False, 1, "1 B too many"),
        (flash["constants"], 0, None, None, "may not fit"),
        (least, 0, None, None, "which is perhaps too many; --optimize"),
        (most - 1, 0, None, None, "may not fit"),
        (most, 0, True, 0, "at least 0 B left"),
    ):
        assert run("plan", chain, *least_constants, "--flash", limit, "--json") == code
        record = json.loads(capsys.readouterr().out)
        assert (record["fits"], record["excess"]["flash"]) == (fits, over), limit
        assert run("plan", chain, *least_constants, "--flash", limit) == code
        printed = capsys.readouterr().out
        assert said in printed and f"{flash['constants']:,}" in printed
        assert run("plan", chain, *least_constants, "--flash", limit, "--ram", 1 << 20, "--json") == code
        assert json.loads(capsys.readouterr().out)["fits"] is fits  # a limit that is kept does not decide an open one


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus", "rv32imc"])
def test_the_flash_of_a_build_is_in_the_range_that_plan_estimates(capsys, chain, core, emulator):
    assert run("plan", chain, "--device", core, "--json") == 0
    foreseen = json.loads(capsys.readouterr().out)["flash"]
    assert run("profile", chain, "--device", core, "--json") == 0
    measured = json.loads(capsys.readouterr().out)["flash"]
    assert foreseen["constants"] == measured["constants"] <= measured["weights"] + measured["tables"]
    least, most = foreseen["estimate"]
    assert least <= measured["total"] <= most and measured["estimate"] is None


def test_boards_that_fit_have_enough_external_flash():
    measured = SimpleNamespace(arena={"sram": 1}, static=0, stack=0, flash=2_600_000, reads=())
    boards = {board.name for board in api.boards_that_fit(measured)}
    assert "rp2040" not in boards and {"rp2350", "esp32-s3"} <= boards


def test_options_override_the_limits_of_a_device(capsys, chain):
    assert run("plan", chain, "--device", "NUCLEO-F746ZG", "--flash", "10k", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"]["name"] == "stm32f746"
    memories = {"dtcm": 64 * 1024, "sram": 256 * 1024}
    assert record["limits"] == {"ram": 320 * 1024, "memories": memories, "flash": 10 * 1024, "latency_ms": None}
    assert record["ram"]["memories"] == {"dtcm": record["ram"]["arena"]}
    assert run("plan", chain, "--device", "NUCLEO-F746ZG", "--ram", "100k", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["limits"] == {"ram": 100 * 1024, "memories": None, "flash": 1024 * 1024, "latency_ms": None}
    assert record["ram"]["memories"] == {"sram": record["ram"]["arena"]}


def test_layers_of_unknown_cycles_are_named_and_others_estimated(capsys, tmp_path, monkeypatch):
    path = tmp_path / "edges.tflite"
    path.write_bytes(to_tflite(tiny.edges()))  # float edges
    known = json.loads(layer_cycles.CONSTANTS.read_text())
    less = {core: {name: by for name, by in of.items() if "quantize_" not in name} for core, of in known.items()}
    monkeypatch.setattr(layer_cycles, "_constants", lambda: less)
    assert run("plan", path, "--io", "model", "--device", "cortex-m4", "--json") == 0
    found = json.loads(capsys.readouterr().out)["plan"]
    assert found["cycles"] is None and found["latency_ms"] is None and found["cycles_at_least"] > 0
    assert found["cycles_missing"] == ["quantize", "dequantize"]
    assert run("plan", path, "--device", "cortex-m4", "--json") == 0
    whole = json.loads(capsys.readouterr().out)["plan"]
    assert whole["cycles"] == whole["cycles_at_least"] and whole["cycles_missing"] == []
    assert run("plan", path, "--io", "model", "--device", "cortex-m4") == 0
    assert "without quantize and dequantize" in " ".join(capsys.readouterr().out.split())
    assert run("plan", path, "--io", "model", "--device", "stm32f412", "--pareto") == 0
    printed = capsys.readouterr().out
    assert "at least ms" in printed and "without quantize and dequantize" in " ".join(printed.split())


def test_points_of_a_front_fit_the_memories_of_the_board(capsys, chain):
    assert run("plan", chain, "--device", "stm32l476", "--pareto", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    entries = record["points"] + [entry for entry in record["schedules"] if "arena" in entry]
    assert len(entries) > 4 and all(entry["fits"] for entry in entries), "its two memories have other names than one"


def test_plans_of_a_front_are_divided_among_memories_if_they_fit():
    model, half = api.load(DIGITS), 4000
    alone, divided = (
        api.pareto(model),
        api.front(
            model, api.Request(limits=api.Limits(2 * half, None, ({"fast": half, "slow": half},)), core=api.DEFAULT_CORE)
        ),
    )
    assert divided[0].arena == alone[0].arena and alone[0].arena["sram"] > 2 * half, "what they do not hold stays in one"
    assert half < alone[-1].arena["sram"] < 2 * half
    assert set(divided[-1].arena) == {"fast", "slow"} and max(divided[-1].arena.values()) <= half


def test_a_core_without_a_board_has_cycles_but_no_latency_and_no_limits(capsys, chain):
    assert run("plan", chain, "--device", "cortex-m4", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["device"] == {"name": "cortex-m4", "core": "cortex-m4", "clock_hz": None, "ram": None, "flash": None}
    assert record["limits"] == {"ram": None, "memories": None, "flash": None, "latency_ms": None} and record["fits"] is None
    assert record["plan"]["cycles"] > 0 and record["plan"]["latency_ms"] is None
    assert run("plan", chain, "--device", "cortex-m4", "--ram", "64k") == 0
    printed = capsys.readouterr().out
    assert "fits cortex-m4" in printed and "MHz" not in printed and " ms" not in printed
    assert run("devices", "cortex-m85") == 0
    assert "a core without a board" in capsys.readouterr().out


def test_reorder_writes_a_model(capsys, chain, tmp_path):
    out = tmp_path / "new" / "chain.tflite"
    assert run("reorder", chain, "-o", out) == 0
    printed = capsys.readouterr().out
    assert "file order: 128 B" in printed and "no order needs less" in printed and "saved: 0 B (live)" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert out.read_bytes() == chain.read_bytes(), "a chain has one order"


def test_reorder_prints_json(capsys, chain):
    assert run("reorder", chain, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["optimal"] is True and record["count"] == "live" and record["out"] is None
    assert set(record["orders"]) == {"file", "best"}
    best = record["orders"]["best"]
    assert best["peak"] == max(step["bytes"] for step in best["steps"]) == record["lower_bound"]


def test_reorder_says_how_much_less_an_engine_needs_or_that_it_needs_no_less(capsys, chain, tmp_path):
    path, out = tmp_path / "padded.tflite", tmp_path / "new.tflite"
    path.write_bytes(to_tflite(padded_layer("conv_2d", ((0, 1), (0, 1)))))
    assert run("reorder", path, "--engine", "tflm", "-o", out) == 0
    printed = " ".join(capsys.readouterr().out.split())
    engine = tw.reorder(path, engine="tflm").engine
    assert engine is not None and engine.after < engine.before and out.read_bytes() != path.read_bytes()
    assert f"activations need {engine.after:,} B" in printed and f"instead of {engine.before:,} B" in printed
    assert "1 pad op folded" in printed and "file order" in printed
    assert run("reorder", chain, "--engine", "tflm", "-o", out) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "the file is unchanged: TFLite Micro needs no fewer than " in printed and "folded" not in printed
    assert out.read_bytes() == chain.read_bytes()
    assert run("reorder", chain, "--engine", "tflm", "--json") == 0
    assert f"{json.loads(capsys.readouterr().out)['engine']['before']:,} B for its activations" in printed


def test_the_front_is_printed_as_table_and_json(chain: Path, capsys) -> None:
    assert run("plan", chain, "--pareto", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    points = found["points"]
    assert points[0]["mac_overhead"] == 1 and all(point["fits"] is None for point in points)
    assert run("plan", chain, "--pareto", "--ram", points[-1]["arena"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{point['arena']:,}" in printed for point in points) and "fits in" in printed
    assert all(f"  {each['schedule']} " in printed for each in found["schedules"])
    proved = "proved: of all plans with the orders, stages, tiles and kernels that the planner tries, none in as little RAM"
    assert f"{proved} has fewer estimated cycles" in " ".join(printed.split())
    assert run("plan", chain, "--pareto", "--ram", points[-1]["arena"] - 1) == 1
    assert "does not fit" in capsys.readouterr().out
    light = found["by_flash"][-1]["constants"]
    assert light < min(point["constants"] for point in points) and "by Flash" in printed
    for flash in (light, light - 1):
        assert run("plan", chain, "--pareto", "--json", "--flash", flash) == (0 if flash == light else 1)
        tight = json.loads(capsys.readouterr().out)
        assert {point["constants"] for point in tight["points"]} == {light} and tight["limit_flash"] == flash
        assert {point["fits"] for point in tight["points"]} == {flash == light}
        assert run("plan", chain, "--pareto", "--flash", flash) == (0 if flash == light else 1)
        assert (f"does not fit with {flash:,} B of Flash" in capsys.readouterr().out) == (flash < light)
    assert "leave out --schedule" in bad(capsys, "plan", chain, "--pareto", "--schedule", "layer")
    assert "1.0 or more" in bad(capsys, "plan", chain, "--max-mac-overhead", "0.5")
    assert run("plan", chain, "--max-mac-overhead", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["mac_overhead"] >= 1


def test_plan_prints_the_verdict_first_and_on_one_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("plan", DIGITS, "--device", "nrf52840") == 0
    short = capsys.readouterr().out.splitlines()
    assert run("plan", DIGITS, "--device", "nrf52840", "--all") == 0
    whole = capsys.readouterr().out.splitlines()
    assert short[0] == whole[0] == "fits nrf52840 with --optimize balanced" and len(short) <= 23 and "add --all" in short[-1]
    drawn, all_drawn = ([line for line in lines if " .. " in line and "#" in line] for lines in (short, whole))
    buffers = api.plan(api.load(DIGITS), "nrf52840").buffers
    assert len(all_drawn) == len(buffers) and set(drawn) < set(all_drawn)
    assert f"all {len(buffers)} buffers" in short[-1]
    (peak,) = {int(line.split("step ")[1]) for line in short if "alive at the peak" in line}
    assert len(drawn) == sum(buffer.start < peak <= buffer.end for buffer in buffers) < 8
    details = ("kernels, and their shares of MACs and cycles", "+ fusion", "  peak: ")
    assert all(any(detail in line for line in whole) and not any(detail in line for line in short) for detail in details)
