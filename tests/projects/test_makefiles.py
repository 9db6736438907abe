"""Exports for Makefiles: the STM32Cube middleware and the RIOT module, built with stubs of their projects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects.export import STUBS, export, needs, place_of_arena, project_of_stm32cube, run, samples


@pytest.mark.parametrize("profile", [False, True])
def test_the_middleware_builds_in_an_stm32cube_project(profile: bool, tmp_path: Path) -> None:
    """The arena is in .bss, because RAM starts with the DTCM in the linker script of an F746."""
    folder = project_of_stm32cube(tmp_path, "stm32f746")
    said = run("make", "-s", "-j2", *(["TW_PROFILE=1"] if profile else []), cwd=folder)
    assert said == "" and place_of_arena(folder / "build" / "stub.elf") == ".bss"
    symbols = run("arm-none-eabi-nm", "build/stub.elf", cwd=folder)
    assert re.search(r"^08\w+ T chain_invoke$", symbols, re.M) and re.search(r"^20\w+ \w SystemCoreClock$", symbols, re.M)
    assert (" T chain_profile_step\n" in symbols) == profile


def test_the_networks_of_a_debug_build_are_compiled_with_o2(tmp_path: Path) -> None:
    folder = project_of_stm32cube(tmp_path, "stm32f746")
    commands = [line for line in run("make", "-n", cwd=folder).splitlines() if " -c " in line]
    assert all(command.index("-O1") < command.index("-O2") for command in commands if "Third_Party/chain/src/" in command)
    assert {re.findall(r"\S+\.c", command)[-1] for command in commands if "-O2" not in command} == {
        "Core/Src/main.c",
        "Middlewares/Third_Party/chain/example/chain_app.c",
        "Middlewares/Third_Party/chain/example/chain_example.c",
    }


@pytest.mark.parametrize("profile", [False, True])
def test_the_module_and_the_example_build_with_riot_and_run(profile: bool, tmp_path: Path) -> None:
    needs("make", "cc")
    folder = export(tmp_path, "riot", device="nrf52840", inputs=samples("chain", 2))
    run("make", "-C", folder / "example", f"RIOTBASE={STUBS / 'riot'}", *(["TW_PROFILE=1"] if profile else []))
    printed = run(folder / "example" / "bin" / "chain_example.elf")
    assert printed.count("chain sample") == 2 and printed.endswith("every output is the reference's, byte for byte\n")
    assert ("tw-profile chain 1/" in printed) == profile
