"""The exports that Makefiles build: STM32Cube's middleware and RIOT's module, with stubs of what they come into."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from packages.export import STUBS, export, model, needs, run, samples

import tinyweave as tw


@pytest.mark.parametrize("profile", [False, True])
def test_the_middleware_joins_a_project_of_stm32cube(profile: bool, tmp_path: Path) -> None:
    """The arena lies in the DTCM, the rest where the board's own linker script has it."""
    needs("make", "arm-none-eabi-gcc")
    folder, stub = export(tmp_path, "stm32cube", device="stm32h743"), STUBS / "stm32cube"
    for name, place in (("main.h", "Core/Inc"), ("main.c", "Core/Src"), ("Makefile", ".")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(stub / name, folder / place)
    shutil.copy(STUBS / "board.ld", folder)
    run("make", "-j2", *(["TW_PROFILE=1"] if profile else []), cwd=folder)
    symbols = run("arm-none-eabi-nm", "build/stub.elf", cwd=folder)
    assert re.search(r"^20000000 \w chain_dtcm$", symbols, re.M) and re.search(r"^08\w+ T chain_invoke$", symbols, re.M)
    assert (" T chain_profile_step\n" in symbols) == profile
    sizes = run("arm-none-eabi-size", "-A", "build/stub.elf", cwd=folder)
    assert re.search(rf"^\.dtcm +{tw.plan(model('chain'), 'stm32h743').arena['dtcm']} +536870912$", sizes, re.M)


@pytest.mark.parametrize("profile", [False, True])
def test_the_module_and_the_example_build_with_riot_and_run(profile: bool, tmp_path: Path) -> None:
    needs("make", "cc")
    folder = export(tmp_path, "riot", device="nrf52840", inputs=samples("chain", 2))
    run("make", "-C", folder / "example", f"RIOTBASE={STUBS / 'riot'}", *(["TW_PROFILE=1"] if profile else []))
    printed = run(folder / "example" / "bin" / "chain_example.elf")
    assert printed.count("chain sample") == 2 and printed.endswith("every output is the reference's, byte for byte\n")
    assert ("tw-profile chain 1/" in printed) == profile
