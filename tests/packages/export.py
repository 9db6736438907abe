"""Exports of tiny networks for tests: written once, and run by the tools that an engineer would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
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
Samples = list[list[np.ndarray]]


@cache
def model(network: str) -> tw.Model:
    """Return a network of cases/tiny.py as it is read from its .tflite file."""
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
    """Return the outputs of the numpy reference, which other tests hold against LiteRT's kernels."""
    graph = model(network).graph
    state = ops.initial_state(graph)
    runs = [ops.run(graph, dict(zip(graph.inputs, sample, strict=True)), state=state) for sample in given]
    return [[run[name].tobytes() for name in graph.outputs] for run in runs]


def export(folder: Path, form: str, network: str = "chain", device: str | None = None, **options: Any) -> Path:
    """Write an export, and return its folder."""
    tw.export(model(network), folder, device, format=form, **options)
    return folder


def needs(*programs: str) -> None:
    """Skip the test where one of these programs is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install {PACKAGES.get(program, program)}")


PACKAGES = {
    "qemu-system-arm": "qemu-system-arm",
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
}


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a program that must end well; return what it printed, on both outputs."""
    command, variables = [str(word) for word in words], os.environ | environment
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def cmake(source: Path, build: Path, *options: str, **environment: str) -> str:
    """Configure and build without a warning; return what CMake printed."""
    needs("cmake")
    said = run("cmake", "-S", source, "-B", build, *options, CFLAGS="-Wall -Wextra -Werror", **environment)
    return said + run("cmake", "--build", build, "-j", "2", **environment)


def compile_for_arm(folder: Path, device: str) -> None:
    """Compile the C files in a folder for a device's core, without a warning."""
    needs("arm-none-eabi-gcc")
    flags = CORES[tw.devices.find(device).core].gcc
    with TemporaryDirectory() as out:
        words = ["arm-none-eabi-gcc", *flags, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I", folder, "-c"]
        run(*words, *sorted(folder.glob("*.c")), cwd=Path(out))


def kconfig(path: Path) -> Any:
    """Return what kconfiglib reads of a Kconfig file."""
    kconfiglib = pytest.importorskip("kconfiglib", reason="needs kconfiglib: pip install 'tinyweave[test]'")
    return kconfiglib.Kconfig(str(path), warn_to_stderr=False)


def outputs(printed: str, network: str) -> list[list[bytes]]:
    """Return the outputs that an example printed with TW_PRINT_OUTPUTS, by sample."""
    found: dict[int, list[bytes]] = {}
    for sample, digits in re.findall(rf"^tw-output {network} (\d+) \d+ ([0-9a-f]*)$", printed, re.MULTILINE):
        found.setdefault(int(sample), []).append(bytes.fromhex(digits))
    return [found[sample] for sample in sorted(found)]
