"""`deploy`, `compare`, `verify` and `profile` on an emulated core."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import tiny
from cli.running import PROMISED, lookup, run, sample_files

from tinyweave import api
from tinyweave.api import runs
from tinyweave.devices import all_devices, find
from tinyweave.devices.device import Memory
from tinyweave.exporters.tflite import to_tflite
from tinyweave.kernels.table import foreign
from tinyweave.report.schema import faults
from tinyweave.simulate.cores import CORES


@pytest.mark.emulator
def test_deploy_writes_c_and_consistent_reports(capsys, chain, tmp_path, emulator):
    out = tmp_path / "firmware" / "net"
    samples = sample_files(tmp_path, np.full((2, 8, 8, 1), 5, np.int8))["npy"]
    assert run("deploy", chain, "--device", "stm32f412", "--inputs", samples, "--samples", 3, "-o", out, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    known = {key: lookup(record, key) for key in PROMISED}
    unknown = {key for key, value in known.items() if value is None}
    assert unknown <= {"verify.first_difference", "plan.optimal"}
    assert known["fits"] is True and known["verify.max_abs_diff"] == 0
    assert record["verify"]["ok"] is True and record["verify"]["samples"] == 3
    ram, flash = record["ram"], record["flash"]
    assert ram["total"] == ram["arena"] + ram["static"] + ram["stack"] and ram["stack"] > 0
    assert flash["total"] == flash["weights"] + flash["tables"] + flash["code"] and flash["code"] > 0
    assert all(touched == ram["memories"] for touched in record["verify"]["touched"].values())
    assert set(record["verify"]["touched"]) == {"host", "cortex-m4"} and record["core"] == "cortex-m4"
    # the traced build calls a hook after each step, so its steps add up to slightly more than the shipped build
    steps = sum(layer["instructions"] for layer in record["layers"])
    assert record["instructions"] > 0 and abs(steps - record["instructions"]) < 0.05 * record["instructions"]
    assert json.loads((out / "report.json").read_text()) == record
    report = (out / "report.md").read_text()
    assert "**fits stm32f412 with --optimize balanced**" in report and f"{ram['total']:,}" in report and "conv_2d_0" in report
    assert "nrf52840" in record["boards"] and (out / "chain.c").exists()
    assert [path.name for path in out.parent.iterdir()] == ["net"]


@pytest.mark.emulator
def test_deploy_replans_if_the_stack_does_not_fit_beside_the_arena(capsys, emulator, tmp_path):
    model = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
    options = ("--device", "stm32f412", "--ram", 7600, "--json")
    assert run("plan", model, *options) == 0
    planned = json.loads(capsys.readouterr().out)["ram"]["arena"]
    assert run("deploy", model, *options, "--samples", 1, "-o", tmp_path / "net") == 0
    ram = json.loads(capsys.readouterr().out)["ram"]
    assert planned + ram["static"] + ram["stack"] > 7600 >= ram["total"] and ram["arena"] < planned


@pytest.mark.emulator
def test_deploy_reports_the_measured_excess(capsys, chain, tmp_path, emulator):
    """The arena and the constants fit, but not with the stack and the code."""
    assert run("plan", chain, "--optimize", "size", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    limits = ("--ram", planned["ram"]["arena"], "--flash", planned["flash"]["constants"], "--optimize", "size")
    assert run("deploy", chain, *limits, "--samples", 1, "-o", tmp_path / "net") == 1
    printed = capsys.readouterr().out
    assert "does not fit" in printed and printed.count("B too many") == 2 and "peak:" in printed
    assert "does not fit" in (tmp_path / "net" / "report.md").read_text()


@pytest.mark.emulator
def test_boards_are_compared_by_kernels_that_their_cores_run(emulator: None) -> None:
    model = api.load(Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite")
    esp32, stm32 = api.compare_boards(model, api.request_of(api.PlanOptions()), [find("esp32"), find("stm32f103")])
    assert not foreign(esp32.plan.variants, "xtensa-lx6") and foreign(stm32.plan.variants, "xtensa-lx6")


@pytest.mark.emulator
def test_compare_lists_every_board_and_builds_once_per_core_kernels_and_flash(capsys, chain, emulator, monkeypatch):
    built: list[str] = []
    build = runs.emulated.build
    monkeypatch.setattr(runs.emulated, "build", lambda f, n, core, **o: built.append(core) or build(f, n, core, **o))
    assert run("compare", chain, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert faults(found, "record") == ""
    if runs.emulated.missing("cortex-m55") is None:  # otherwise another core replaces it
        # the M4 with its own kernels, and with those of an ESP32; RV32IMC with its own, and with those of a CH32V003; and the
        # cores of boards whose Flash is beside the chip, if other boards have the same core
        beside = [device.core for device in all_devices() if device.bus and device.core in CORES]
        shared = [core for core in beside if any(d.core == core and not d.bus for d in all_devices())]
        assert sorted(built) == sorted([*set(built), "cortex-m4", "rv32imc", *shared])
    assert {board["name"] for board in found["compare"]} == {device.name for device in all_devices()}
    assert {board["measured_on"] for board in found["compare"]} == set(built)
    by_name = {board["name"]: board for board in found["compare"]}
    assert by_name["stm32l4r5"]["instructions"] < by_name["esp32"]["instructions"]
    assert by_name["stm32l4r5"]["latency_ms"] > 0 and by_name["esp32"]["latency_ms"] is by_name["esp32-c6"]["cycles"] is None
    assert by_name["fe310-g002"]["latency_ms"] > 0 and by_name["esp32-c6"]["latency_ms"] is None, "an RV32IMAC with timings"
    for board in found["compare"]:
        assert board["ram"]["left"] == board["ram"]["limit"] - board["ram"]["total"]
        assert board["fits"] == (board["ram"]["left"] >= 0 and (board["flash"]["left"] is None or board["flash"]["left"] >= 0))
    assert found["fits"] is True and "stm32f746" in found["boards"]
    assert lookup(found, "ram.arena") == sum(api.plan(api.load(chain)).arena.values()) and lookup(found, "ram.total") is None
    assert run("compare", chain) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{len(found['compare'])} boards" in shown and "xtensa-lx6 *" in shown and "xtensa-lx6 by cortex-m4" in shown


@pytest.mark.emulator
def test_compare_reports_the_excess_and_exits_with_1_if_no_board_fits(capsys, tmp_path, emulator, monkeypatch):
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    board = replace(all_devices()[0], name="small", memories=(Memory("ram", "sram", 256, 0), Memory("rom", "flash", 512, 512)))
    monkeypatch.setattr(runs, "all_devices", lambda: (board,))
    assert run("compare", path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False and found["boards"] == []
    assert found["compare"][0]["ram"]["left"] < 0 and found["compare"][0]["flash"]["left"] < 0
    assert run("compare", path) == 1
    assert "too little RAM and Flash" in capsys.readouterr().out


@pytest.mark.emulator
def test_verify_and_profile_print_their_results(capsys, chain, emulator):
    assert run("verify", chain, "--device", "stm32f746", "--samples", 2) == 0
    printed = capsys.readouterr().out
    said = " ".join(printed.split())
    assert "every output byte equals the reference, 2 inputs" in said and "emulated cortex-m7" in said
    assert run("profile", chain) == 0
    printed = capsys.readouterr().out
    assert "instructions: " in printed and "stack" in printed and "softmax_4" in printed
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.emulator
def test_profile_estimates_cycles(capsys, chain, emulator):
    assert run("profile", chain, "--device", "stm32l4r5", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cycles_range"][0] < found["cycles"] < found["cycles_range"][1] and found["flash_waits"] == 5
    assert found["instructions"] < found["cycles"] < 4 * found["instructions"]
    assert found["latency_ms"] == pytest.approx(found["cycles"] / 120e3, abs=0.001)
    assert found["energy_mj"] == pytest.approx(found["latency_ms"] * 13.2 * 3 / 1000, abs=0.0001)
    layers = [layer["cycles"] for layer in found["layers"] if layer["cycles"] is not None]
    assert sum(layers) == pytest.approx(found["cycles"], rel=0.05)

    assert run("profile", chain, "--device", "stm32l4r5", "--optimize", "size") == 0
    printed = capsys.readouterr().out
    assert "ms (" in printed and "tw_conv_2d_s8_dsp is faster" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert run("profile", chain, "--device", "mps2-an386") == 0
    assert "no Flash wait states" in " ".join(capsys.readouterr().out.split())


@pytest.mark.emulator
def test_a_core_without_timings_has_no_cycles(capsys, chain, emulator):
    assert run("profile", chain, "--device", "esp32-c6", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert all(found[key] is None for key in ("cycles", "cycles_range", "latency_ms", "energy_mj"))
    assert run("profile", chain, "--device", "esp32-c6") == 0
    assert "cycles: not estimated" in capsys.readouterr().out


@pytest.mark.emulator
def test_verify_names_the_differing_layer(capsys, chain, emulator, monkeypatch):
    """A weight of the emitted C is changed, so the exit code is 1."""
    right = api.emit_c

    def wrong(*arguments, **options):
        emitted = right(*arguments, **options)
        files = dict(emitted.files)
        name = next(file for file in files if file.endswith("_weights.h"))
        numbers = files[name].split("{", 1)
        files[name] = numbers[0] + "{" + numbers[1].replace("7", "8", 1)
        return replace(emitted, files=files)

    monkeypatch.setattr(api, "emit_c", wrong)
    monkeypatch.setattr(runs, "emit_c", wrong)
    assert run("verify", chain, "--json", "--optimize", "size") == 1
    record = json.loads(capsys.readouterr().out)
    assert record["verify"]["ok"] is False and record["verify"]["max_abs_diff"] > 0
    assert "conv_2d_0" in record["verify"]["first_difference"]
