"""Exports of tiny networks for tests, built and run with the tools that an engineer would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
import pytest
from cases import tiny

import tinyweave as tw
from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.simulate.cores import CORES

STUBS = Path(__file__).parent / "stubs"
VENDORS = STUBS / "vendors"  # linker scripts like those of vendors
STACKS, HEAPS = ("_estack", "__StackTop"), ("end", "_end", "__HeapBase", "_heap_start")  # symbols in these scripts
Samples = list[list[np.ndarray]]


@cache
def model(network: str) -> tw.Model:
    """Return a network of cases/tiny.py, read from a .tflite file."""
    path = Path(mkdtemp(prefix="tinyweave-test-")) / f"{network}.tflite"
    path.write_bytes(to_tflite(tiny.NETWORKS[network]()))
    loaded = tw.load(path)
    shutil.rmtree(path.parent)
    return loaded


def samples(network: str, count: int) -> Samples:
    """Return random inputs of a network."""
    graph, rng = model(network).graph, np.random.default_rng(7)
    tensors = [graph.tensors[name] for name in graph.inputs]

    def draw(tensor: Any) -> np.ndarray:
        if tensor.dtype == "float32":
            return rng.uniform(-1, 1, tensor.shape).astype(np.float32)
        return rng.integers(-128, 128, tensor.shape).astype(np.int8)

    return [[draw(tensor) for tensor in tensors] for _ in range(count)]


def reference(network: str, given: Samples) -> list[list[bytes]]:
    """Return the outputs of the numpy reference, which other tests compare with LiteRT's kernels."""
    graph = model(network).graph
    state = ops.initial_state(graph)
    runs = [ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state) for sample in given]
    return [[run[name].tobytes() for name in graph.outputs] for run in runs]


def export(folder: Path, form: str, network: str = "chain", device: str | None = None, **options: Any) -> Path:
    """Write an export and return its folder."""
    tw.export(model(network), device, out=folder, format=form, **options)
    return folder


def needs(*programs: str) -> None:
    """Skip the test if one of these programs is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install {PACKAGES.get(program, program)}")


PACKAGES = {
    "qemu-system-arm": "qemu-system-arm",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "arm-none-eabi-g++": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
}


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a program that must succeed; return its standard output and error."""
    command, variables = [str(word) for word in words], os.environ | environment
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def cmake(source: Path, build: Path, *options: str, **environment: str) -> str:
    """Configure and build without a warning; return CMake's output."""
    needs("cmake")
    said = run("cmake", "-S", source, "-B", build, *options, CFLAGS="-Wall -Wextra -Werror", **environment)
    return said + run("cmake", "--build", build, "-j", "2", **environment)


def compile_for_arm(folder: Path, device: str) -> None:
    """Compile the C files in a folder for a device's core without a warning."""
    needs("arm-none-eabi-gcc")
    flags = CORES[tw.devices.find(device).core].gcc
    with TemporaryDirectory() as out:
        words = ["arm-none-eabi-gcc", *flags, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I", folder, "-c"]
        run(*words, *sorted(folder.glob("*.c")), cwd=Path(out))


def kconfig(path: Path) -> Any:
    """Parse a Kconfig file with kconfiglib."""
    kconfiglib = pytest.importorskip("kconfiglib", reason="needs kconfiglib: pip install '.[test]'")
    return kconfiglib.Kconfig(str(path), warn_to_stderr=False)


def outputs(printed: str, network: str) -> list[list[bytes]]:
    """Return the outputs that an example printed with TW_PRINT_OUTPUTS, by sample."""
    found: dict[int, list[bytes]] = {}
    for sample, digits in re.findall(rf"^tw-output {network} (\d+) \d+ ([0-9a-f]*)$", printed, re.MULTILINE):
        found.setdefault(int(sample), []).append(bytes.fromhex(digits))
    return [found[sample] for sample in sorted(found)]


def project_of_stm32cube(folder: Path, device: str) -> Path:
    """Write an STM32CubeMX project with the vendor's linker script, and add an export as its README says."""
    needs("make", "arm-none-eabi-gcc")
    export(folder, "stm32cube", device=device)
    for name, place in (("main.h", "Core/Inc"), ("main.c", "Core/Src"), ("Makefile", ".")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(STUBS / "stm32cube" / name, folder / place)
    shutil.copy(VENDORS / f"{device}.ld", folder / "board.ld")
    (line,) = re.findall(r"`(include \S+\.mk)` after `LDFLAGS`", (folder / "README.md").read_text())
    lines = (folder / "Makefile").read_text().splitlines()
    assert lines.index(line) == 1 + next(i for i, text in enumerate(lines) if text.startswith("LDFLAGS ="))
    return folder


def place_of_arena(program: Path) -> str:
    """Return the sections of the arenas; fail if another part of the program overlaps them."""
    elffile: Any = pytest.importorskip("elftools.elf.elffile", reason="needs pyelftools: pip install '.[verify]'")
    with program.open("rb") as stream:
        file = elffile.ELFFile(stream)
        table = file.get_section_by_name(".symtab").iter_symbols()
        symbols = {s.name: s for s in table if s.name and s["st_shndx"] != "SHN_UNDEF"}
        allocated = [s for s in file.iter_sections() if s["sh_flags"] & 2 and s["sh_size"]]
        sections = [(s.name, s["sh_addr"], s["sh_size"]) for s in allocated]
        empty = {s.name for s in allocated if s["sh_type"] == "SHT_NOBITS"}
    variables = {n: (s["st_value"], s["st_size"]) for n, s in symbols.items() if s["st_info"]["type"] == "STT_OBJECT"}
    arenas = {n: at for n, at in variables.items() if re.fullmatch(r"\w+_(dtcm|ccm|axi|sram)", n)}
    assert arenas and all(address % 4 == 0 for address, _ in arenas.values())
    held = sorted((address, address + size) for address, size in variables.values() if size and address >= 0x10000000)
    assert all(low[1] <= high[0] for low, high in pairwise(held)), "variables overlap"
    homes = {n: next(s for s, at, size in sections if at <= begin < at + size) for n, (begin, _) in arenas.items()}
    assert empty >= set(homes.values()), "the image of the program must not hold arenas"
    value = {name: symbols[name]["st_value"] for name in (*STACKS, *HEAPS) if name in symbols}
    stack = next(value[name] for name in STACKS if name in value)
    heap = min((value[name] for name in HEAPS if name in value), default=stack)
    for arena, (begin, size) in arenas.items():
        home = homes[arena]
        apart = [(at, at + n) for name, at, n in sections if name != home] + ([(heap, stack)] if heap < stack else [])
        assert all(high <= begin or begin + size <= low for low, high in apart), "the arena overlaps sections, heap or stack"
        assert home == ".bss" or not begin < stack <= begin + size
    return " ".join(sorted(set(homes.values())))
