"""`deploy --second-emulator` runs the C as complete firmware on a QEMU board: reports, differences, and requirements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from packages.export import model, needs, samples

import tinyweave as tw
from tinyweave import api, toolchain
from tinyweave.api.second_emulator import second_emulator
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.simulate import compare, firmware
from tinyweave.simulate.run import Fault


@pytest.mark.emulator
@pytest.mark.parametrize("network", ["chain", "stream"])
def test_a_deployment_reports_the_qemu_board(
    network: str, tmp_path: Path, emulator: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One network has several samples, one has state; the plan uses several memories."""
    needs("qemu-system-arm")
    path = tmp_path / f"{network}.tflite"
    path.write_bytes(to_tflite(model(network).original))
    words = ["deploy", str(path), "--device", "stm32h743", "--second-emulator", "-o", str(tmp_path / "out")]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said["verify"]["boards"]) == ["mps2-an500"] and said["verify"]["ok"] is True
    assert "cortex-m7" in said["verify"]["boards"]["mps2-an500"].replace("_", "-")
    report = (tmp_path / "out" / "report.md").read_text()
    assert "QEMU's mps2-an500" in report and "--second-emulator" in (tmp_path / "out" / f"{network}.h").read_text()


@pytest.fixture(scope="module")
def planned() -> tw.Plan:
    return tw.plan(model("residual"), "nrf52840")


def test_the_first_differing_byte_is_reported(planned: tw.Plan) -> None:
    """The expected second output of the second sample is changed."""
    needs("qemu-system-arm")
    cases = samples("residual", 2)
    right = compare.truth(model("residual").graph, cases)
    board = tw.devices.find("nrf52840")
    assert second_emulator(model("residual"), planned, board, cases, right)[::2] == ("mps2-an386", None)
    wrong = [[output.copy() for output in outputs] for outputs in right.outputs]
    wrong[1][1].reshape(-1)[5] ^= np.int8(1)
    *_, text = second_emulator(model("residual"), planned, board, cases, replace(right, outputs=wrong))
    have, want = (int(outputs[1][1].view(np.uint8).reshape(-1)[5]) for outputs in (right.outputs, wrong))
    assert text == f"the firmware on QEMU's mps2-an386: byte 5 of output 1 of sample 1 is {have}, expected {want}"


def test_firmware_that_stops_early_is_a_fault(planned: tw.Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("qemu-system-arm")
    cases = samples("residual", 1)
    right = compare.truth(model("residual").graph, cases)
    monkeypatch.setattr(firmware, "run", lambda *_: "the core faulted\n")
    with pytest.raises(Fault, match="mps2-an386 ended before output 0 of sample 0: it said the core faulted"):
        second_emulator(model("residual"), planned, tw.devices.find("nrf52840"), cases, right)


def test_a_core_without_a_qemu_board_and_missing_qemu_are_refused_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(tw.CompileError, match="QEMU emulates no cortex-m0plus, only cortex-m4, cortex-m7, cortex-m55"):
        tw.deploy(model("chain"), "rp2040", folder=tmp_path / "out", second_emulator=True)
    monkeypatch.setattr(toolchain, "which", lambda program: None)
    with pytest.raises(tw.CompileError, match="qemu-system-arm, which is not installed; apt-get install qemu-system-arm"):
        tw.deploy(model("chain"), "nrf52840", folder=tmp_path / "out", second_emulator=True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(tw.CompileError, match="leave out --second-emulator"):
        api.qemu_board(tw.devices.find("esp32-c3"))
