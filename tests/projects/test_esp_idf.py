"""The ESP-IDF component has a valid manifest and Kconfig, and its example builds for RISC-V with stubs of ESP-IDF."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cases import tiny
from cli.running import run as command
from projects.export import STUBS, cmake, export, kconfig, needs, run

from tinyweave.exporters.tflite import to_tflite

# from docs.espressif.com, manifest file format of the component manager
SCHEMA = {
    "type": "object",
    "required": ["version"],
    "additionalProperties": False,
    "properties": {
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "description": {"type": "string", "minLength": 1},
        "url": {"type": "string", "pattern": "^https://"},
        "license": {"type": "string", "enum": ["Apache-2.0"]},
        "targets": {"type": "array", "items": {"enum": ["esp32", "esp32s2", "esp32s3", "esp32c3", "esp32c6", "esp32h2"]}},
        "dependencies": {"type": "object", "additionalProperties": {"type": ["string", "object"]}, "required": ["idf"]},
    },
}


def faults(text: str) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install '.[test]'")
    yaml: Any = pytest.importorskip("yaml", reason="needs pyyaml: pip install '.[test]'")
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text))]


def test_the_manifest_is_valid_and_the_check_rejects_faults(tmp_path: Path) -> None:
    text = (export(tmp_path, "esp-idf", device="esp32-c3") / "idf_component.yml").read_text()
    assert faults(text) == [] and "- esp32c3" in text
    for old, new in (('"1.0.0"', '"1.0"'), ("- esp32c3", "- esp33"), ("license:", "licence:"), ("  idf:", "  zephyr:")):
        assert old in text and len(faults(text.replace(old, new))) == 1


def test_the_example_runs_at_the_clock_of_the_estimate(tmp_path: Path) -> None:
    """ESP-IDF runs an ESP32 at 160 MHz unless told otherwise."""
    wanted = {"esp32": 240, "esp32-s3": 240, "esp32-c3": 160, None: None}
    for device, clock in wanted.items():
        folder = export(tmp_path / str(device), "esp-idf", device=device) / "examples" / "chain_example"
        lines = (folder / "sdkconfig.defaults").read_text().splitlines()
        assert lines[0] == f'CONFIG_IDF_TARGET="{(device or "esp32c3").replace("-", "")}"'
        assert lines[3:] == ([f"CONFIG_ESP_DEFAULT_CPU_FREQ_MHZ_{clock}=y"] if clock else [])


def test_it_says_that_kernels_of_an_arm_core_are_slow(capsys: Any, tmp_path: Path) -> None:
    said = "kernels are for a cortex-m4, and slow plain C on Espressif's chips: give --device, such as esp32-c3"
    path = tmp_path / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    for form, device, slow in (("esp-idf", "nrf52840", True), ("esp-idf", "esp32-c3", False), ("zephyr", "nrf52840", False)):
        assert command("export", path, "--format", form, "--device", device, "-o", tmp_path / device / form) == 0
        readme = (tmp_path / device / form / "README.md").read_text()
        assert [said in capsys.readouterr().out.splitlines(), f"- Its {said}." in readme] == [slow, slow]


def test_the_kconfig_is_valid_and_has_the_profile_option(tmp_path: Path) -> None:
    folder = export(tmp_path, "esp-idf", device="esp32-c3")
    config = kconfig(folder / "Kconfig")
    assert config.syms["TINYWEAVE_CHAIN_PROFILE"].str_value == "n"
    (folder / "Kconfig").write_text((folder / "Kconfig").read_text().replace("config TINY", "konfig TINY"))
    code = "import kconfiglib, sys; kconfiglib.Kconfig(sys.argv[1])"  # in a process, because it leaves the file open
    with pytest.raises(AssertionError, match="syntax error"):
        run(sys.executable, "-c", code, folder / "Kconfig")


@pytest.mark.parametrize("profile", [False, True])
def test_the_example_builds_for_riscv(profile: bool, tmp_path: Path) -> None:
    needs("riscv64-unknown-elf-gcc")
    example = export(tmp_path, "esp-idf", device="esp32-c3") / "examples" / "chain_example"
    idf = STUBS / "esp_idf"
    options = [f"-DCMAKE_TOOLCHAIN_FILE={idf}/riscv.cmake", "-DCONFIG_TINYWEAVE_CHAIN_PROFILE=y"]
    cmake(example, tmp_path / "b", *options[: 1 + profile], IDF_PATH=str(idf))
    symbols = run("riscv64-unknown-elf-nm", "-A", *sorted((tmp_path / "b").rglob("*.a")))
    for name in ("app_main", "chain_example", "chain_invoke"):
        assert f" T {name}\n" in symbols
    assert (" T chain_profile_step\n" in symbols) == (" U chain_profile_step\n" in symbols) == profile
