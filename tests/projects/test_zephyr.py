"""The Zephyr module has a valid module.yml and Kconfig, and the sample builds and runs with stubs of Zephyr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from projects.export import STUBS, cmake, compile_for_arm, export, kconfig, run, samples

# the part of the schema in Zephyr's scripts/zephyr_module.py that modules like this one use
SCHEMA = """
type: map
mapping:
  name: {required: false, type: str}
  build:
    required: false
    type: map
    mapping:
      cmake: {required: false, type: str}
      kconfig: {required: false, type: str}
  samples: {required: false, type: seq, sequence: [{type: str}]}
  tests: {required: false, type: seq, sequence: [{type: str}]}
"""


def faults(text: str) -> list[str]:
    core: Any = pytest.importorskip("pykwalify.core", reason="needs pykwalify: pip install '.[test]'")
    yaml: Any = pytest.importorskip("yaml", reason="needs pyyaml: pip install '.[test]'")
    check = core.Core(source_data=yaml.safe_load(text), schema_data=yaml.safe_load(SCHEMA))
    check.validate(raise_exception=False)
    return list(check.errors or [])


def test_the_module_is_valid_and_lists_existing_files(tmp_path: Path) -> None:
    yaml: Any = pytest.importorskip("yaml", reason="needs pyyaml: pip install '.[test]'")
    folder = export(tmp_path, "zephyr", device="nrf52840")
    text = (folder / "zephyr" / "module.yml").read_text()
    assert faults(text) == []
    assert faults(text.replace("kconfig:", "konfig:")) and faults(text.replace("- samples", "- [samples]"))
    said = yaml.safe_load(text)
    assert said["name"] == "tinyweave_chain", "a network may have the name of another module"
    assert (folder / said["build"]["cmake"] / "CMakeLists.txt").is_file() and (folder / said["build"]["kconfig"]).is_file()
    (sample,) = (folder / said["samples"][0]).rglob("sample.yaml")
    assert set(yaml.safe_load(sample.read_text())) == {"sample", "common", "tests"}
    assert (sample.parent / "prj.conf").is_file() and (sample.parent / "src" / "main.c").is_file()
    compile_for_arm(folder / "src", "nrf52840")


def test_the_kconfig_accepts_the_configuration_of_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = export(tmp_path, "zephyr")
    monkeypatch.setenv("MODULE", str(folder))
    config = kconfig(STUBS / "zephyr" / "Kconfig")
    config.warn_assign_undef = True
    config.load_config(str(folder / "samples" / "chain" / "prj.conf"))
    assert config.warnings == [] and config.syms["TINYWEAVE_CHAIN"].str_value == "y"
    assert config.syms["TINYWEAVE_CHAIN_PROFILE"].str_value == "n"
    (folder / "samples" / "chain" / "prj.conf").write_text("CONFIG_TINYWEAVE_CHAINS=y\n")
    config.load_config(str(folder / "samples" / "chain" / "prj.conf"))
    assert "TINYWEAVE_CHAINS" in config.warnings[0]


CORES = {  # device of the export, what the board's core has -> whether the kernels are plain C
    ("nrf52840", "CPU_CORTEX_M4"): "n",
    ("nrf52840", "CPU_CORTEX_M3"): "y",
    ("nrf52840", "ARCH_POSIX"): "y",
    ("stm32f746", "CPU_CORTEX_M7"): "n",
    ("stm32f746", "ARMV8_M_DSP"): "n",
    ("mps3-an547", "ARMV8_1_M_MVEI"): "n",
    ("mps3-an547", "ARMV8_M_DSP"): "y",
    ("samd21", "CPU_CORTEX_M3"): "n",  # the kernels for this device use no special instructions
}


@pytest.mark.parametrize(("device", "core"), CORES)
def test_kernels_are_plain_c_on_cores_without_their_instructions(
    device: str, core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(tmp_path, "zephyr", device=device, optimize="speed")
    monkeypatch.setenv("MODULE", str(folder))
    config = kconfig(STUBS / "zephyr" / "Kconfig")
    for name in ("TINYWEAVE_CHAIN", core):
        assert config.syms[name].set_value("y")
    assert config.syms["TINYWEAVE_CHAIN_PLAIN_C"].str_value == CORES[device, core]
    assert config.syms["FPU"].str_value == ("y" if core == "ARMV8_1_M_MVEI" else "n")


@pytest.mark.parametrize("profile", [False, True])
def test_the_zephyr_sample_builds_and_runs(profile: bool, tmp_path: Path) -> None:
    folder = export(tmp_path, "zephyr", device="nrf52840", inputs=samples("chain", 2))
    sample = folder / "samples" / "chain"
    chosen = ["CONFIG_TINYWEAVE_CHAIN_PLAIN_C=y", "CONFIG_TINYWEAVE_CHAIN_PROFILE=y"][: 1 + profile]
    (sample / "prj.conf").write_text("\n".join([(sample / "prj.conf").read_text(), *chosen]))
    said = cmake(sample, tmp_path / "b", f"-DZephyr_DIR={STUBS / 'zephyr'}", "-DCMAKE_SUPPRESS_DEVELOPER_WARNINGS=1")
    assert "CONFIG_TINYWEAVE_CHAIN_PLAIN_C is on: the kernels were chosen for a" in said
    printed = run(tmp_path / "b" / "app")
    assert printed.count("chain sample") == 2 and printed.endswith("every output is the reference's, byte for byte\n")
    assert ("tw-profile chain 1/" in printed) == profile
