"""The CMake export builds on the host and for cores, other projects find it, and its firmware gives the reference's bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from projects.export import STUBS, cmake, export, model, needs, outputs, reference, run, samples

import tinyweave as tw
from tinyweave.codegen.layer import traced
from tinyweave.projects.linker_scripts import BOARDS
from tinyweave.report.measured import read_log

SWITCHES = ("-DTW_PRINT_OUTPUTS=ON", "-DTW_PROFILE=ON")
USER = """
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(chain 1.0 REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE tinyweave::chain)
"""
SUBDIRECTORY = USER.replace("find_package(chain 1.0 REQUIRED)", "add_subdirectory(chain)")
MAIN = """
#include "chain.h"
static uint8_t sram[CHAIN_SRAM_BYTES] __attribute__((aligned(CHAIN_ALIGN)));
static const chain_memory memory = {.sram = {sram, sizeof sram}};
int main(void) { return chain_init(&memory) + chain_invoke(&memory, NULL); }
"""


@pytest.mark.parametrize("board", BOARDS)
def test_the_firmware_of_a_board_gives_the_reference_bytes_under_qemu(board: str, tmp_path: Path) -> None:
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    given = samples("chain", 3)
    folder = export(tmp_path, "cmake", device=board, inputs=given)
    said = cmake(folder, folder / "b", f"-DCMAKE_TOOLCHAIN_FILE={folder}/cmake/arm-none-eabi.cmake", *SWITCHES)
    assert "warning" not in said.lower()
    printed = run(
        *f"qemu-system-arm -M {board} -icount shift=5 -nographic -semihosting -kernel".split(),
        folder / "b/example/chain_example.elf",
    )
    layers = read_log(printed, "chain", traced(tw.plan(model("chain"), board)))
    assert all(0 < cycles < 1_000_000 for cycles in layers), "SysTick counts for the profile"
    right = reference("chain", given)
    assert outputs(printed, "chain") == right
    classes = [max(range(3), key=[byte ^ 0x80 for byte in scores].__getitem__) for (scores,) in right]
    assert [int(number) for number in re.findall(r"^chain sample \d: class (\d), score 0\.\d{3}$", printed, re.M)] == classes
    assert printed.endswith("every output is the reference's, byte for byte\n")


SDKS = {  # macros that an SDK defines -> its clock, as a function of the firmware's
    "__ZEPHYR__": "uint32_t k_cycle_get_32(void) { return firmware_cycles(); }",
    "ARDUINO=1 F_CPU=1000000": "unsigned long micros(void) { return firmware_cycles(); }",
    "USE_HAL_DRIVER": "uint32_t HAL_GetTick(void) { return rounds; }",
}


@pytest.mark.parametrize("macros", SDKS)
def test_the_profile_counts_by_the_sdk_if_the_counter_of_the_core_stands_still(macros: str, tmp_path: Path) -> None:
    """The DWT counter of QEMU's Cortex-M4 stays 0."""
    needs("arm-none-eabi-gcc", "qemu-system-arm")
    folder = export(tmp_path, "cmake", device="mps2-an386")
    build, startup = folder / "example" / "CMakeLists.txt", folder / "firmware" / "startup.c"
    assert "TW_CYCLES=firmware_cycles" in build.read_text()
    build.write_text(build.read_text().replace("TW_CYCLES=firmware_cycles", macros))
    startup.write_text(f"{startup.read_text()}\n{SDKS[macros].partition('{')[0]};\n{SDKS[macros]}\n")
    stubs = f"-DCMAKE_C_STANDARD_INCLUDE_DIRECTORIES={STUBS / 'zephyr'}"
    cmake(folder, folder / "b", f"-DCMAKE_TOOLCHAIN_FILE={folder}/cmake/arm-none-eabi.cmake", "-DTW_PROFILE=ON", stubs)
    printed = run(
        *"qemu-system-arm -M mps2-an386 -icount shift=5 -nographic -semihosting -kernel".split(),
        folder / "b/example/chain_example.elf",
    )
    layers = read_log(printed, "chain", traced(tw.plan(model("chain"), "mps2-an386")))
    assert all(0 < cycles < 1_000_000 for cycles in layers)


def test_the_example_reports_a_wrong_output_byte(tmp_path: Path) -> None:
    """An expected output of the example is changed. The firmware reports the difference and exits with an error."""
    needs("cmake")
    folder = export(tmp_path, "cmake")
    header = folder / "example" / "chain_samples.h"
    text = header.read_text()
    at = text.index("{", text.index("chain_sample_output_0[CHAIN_SAMPLES]")) + 1
    number = re.compile(r"\d+,").search(text, at)
    assert number
    header.write_text(f"{text[: number.start()]}{(int(number[0][:-1]) + 1) % 256},{text[number.end() :]}")
    cmake(folder, folder / "b")
    with pytest.raises(AssertionError, match=r"chain sample 0: output 0 is not the reference's\n[^\n]*\noutputs DIFFER"):
        run(folder / "b" / "example" / "chain_example")


def test_a_project_can_use_the_package_installed_and_as_a_subdirectory(tmp_path: Path) -> None:
    needs("cmake")
    folder = export(tmp_path / "user" / "chain", "cmake")
    cmake(folder, tmp_path / "b")
    run("cmake", "--install", tmp_path / "b", "--prefix", tmp_path / "installed")
    for text, option in ((USER, f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"), (SUBDIRECTORY, "-DUNUSED=1")):
        (tmp_path / "user" / "CMakeLists.txt").write_text(text)
        (tmp_path / "user" / "user.c").write_text(MAIN)
        cmake(tmp_path / "user", tmp_path / "user" / f"b{len(text)}", option)
        run(tmp_path / "user" / f"b{len(text)}" / "user")
    (tmp_path / "user" / "CMakeLists.txt").write_text(USER.replace("1.0 REQUIRED", "2.0 REQUIRED"))
    with pytest.raises(AssertionError, match=r"compatible\s+with requested version"):
        run("cmake", "-S", tmp_path / "user", "-B", tmp_path / "c", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")


def test_several_models_with_state_and_streams_share_one_example(tmp_path: Path) -> None:
    """The models have float inputs and outputs, two inputs and outputs, state, and streamed rows; they share kernel files."""
    networks = ["chain", "residual", "edges", "stream"]
    models = [model(name) for name in networks]
    tw.export(models, out=tmp_path / "a", format="cmake", package="four", package_version="2.3.4")
    cmake(tmp_path / "a", tmp_path / "a" / "b", "-DTW_PROFILE=ON")
    printed = run(tmp_path / "a" / "b" / "example" / "four_example")
    assert printed.endswith("every output is the reference's, byte for byte\n")
    assert [name for name in networks if re.search(rf"^{name} sample 0: ", printed, re.M)] == networks
    for name in networks:
        read_log(printed, name, traced(tw.plan(model(name))))
    export(tmp_path / "c", "cmake", stream_inputs=True, inputs=samples("chain", 2))
    cmake(tmp_path / "c", tmp_path / "c" / "b")
    assert run(tmp_path / "c" / "b" / "example" / "chain_example").count("class") == 2


@pytest.mark.parametrize("form", ["cmake", "tflm"])
@pytest.mark.parametrize("name", ["all", "install", "test", "mine"])
def test_a_package_may_have_the_name_of_a_target(form: str, name: str, tmp_path: Path) -> None:
    """Of CMake's own, which were refused, or of the program that links the library."""
    needs("cmake")
    export(tmp_path / "a", form, package=name)
    program = "int main(void) { return 0; }"
    (tmp_path / "main.c").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(mine C CXX)\nadd_subdirectory(a)\nadd_executable(mine main.c)\n"
        f"target_link_libraries(mine PRIVATE tinyweave::{name})\n"
    )
    cmake(tmp_path, tmp_path / "b")
    assert (tmp_path / "b" / "mine").is_file() and list((tmp_path / "b").rglob(f"libtinyweave_{name}.a"))
