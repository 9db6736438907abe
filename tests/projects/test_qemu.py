"""Firmware of plans runs on boards that QEMU emulates, an emulator beside Unicorn, and returns the bytes of the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from firmware_programs import run_firmware, run_program
from projects.export import model, needs, outputs, reference, samples

import tinyweave as tw
from tinyweave import api
from tinyweave.projects import Package
from tinyweave.support import toolchain


def package(network: str, device: str, board: str) -> Package:
    """Return a package for `board` of a network that was planned for `device`."""
    options = api.PackageOptions(inputs=samples(network, 5))
    return api.package([model(network)], [tw.plan(model(network), device)], tw.devices.find(board), options)


@pytest.mark.emulator
@pytest.mark.parametrize("network", ["stream", "residual"])
def test_a_plan_for_another_board_gives_the_reference_bytes_in_a_second_emulator(network: str) -> None:
    """One network has state, one has several outputs."""
    needs("qemu-system-arm")
    made = package(network, "stm32h743", "mps2-an500")
    printed, ram, compiler = run_firmware(made, tw.devices.find("mps2-an500"))
    right = reference(network, samples(network, 5))
    assert outputs(printed, network)[:5] == right and len({*map(tuple, right)}) > 1
    assert "cortex-m7" in compiler.replace("_", "-") and sum(ram.values()) >= sum(made.models[0].plan.arena.values())


def test_a_core_without_a_qemu_board_and_missing_qemu_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = replace(package("chain", "rp2040", "rp2040"), program={"main.c": ""})
    with pytest.raises(tw.CompileError, match="no cortex-m0plus, only cortex-m4, cortex-m7, cortex-m55; give a board with one"):
        run_program(made, tmp_path / "input")
    monkeypatch.setattr(toolchain, "which", lambda program: None)
    with pytest.raises(tw.CompileError, match="qemu-system-arm, which is not installed; apt-get install qemu-system-arm"):
        run_program(replace(made, device=tw.devices.find("nrf52840")), tmp_path / "input")
