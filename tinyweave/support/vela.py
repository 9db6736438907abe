"""Run Vela, Arm's compiler for Ethos-U, on a .tflite file, and read how much SRAM and how many cycles it estimates."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ..ir import CompileError
from . import toolchain
from .installing import pip


class Estimate(NamedTuple):
    """Vela's figures for a compiled file: bytes of SRAM, and cycles of an inference."""

    sram: int
    cycles: float


def program() -> str:
    """Return the path of Vela; raise CompileError if it is neither beside this Python nor in PATH."""
    path = toolchain.which("vela") or os.path.join(os.path.dirname(sys.executable), "vela")
    if not os.access(path, os.X_OK):
        raise CompileError("Vela is not installed", f"{pip()} install ethos-u-vela")
    return path


def estimate(file: bytes, accelerator: str) -> Estimate:
    """Compile a .tflite file with the options `--optimise Size --accelerator-config ACCELERATOR` ("" for Vela's default)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(file)
        chosen = ["--accelerator-config", accelerator] if accelerator else []
        command = [program(), str(path), "--optimise", "Size", *chosen, "--output-dir", folder]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        found = list(Path(folder).glob("*_summary_*.csv"))
        if done.returncode or not found:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "rror" in line]
            raise CompileError(f"Vela cannot compile the model: {said[0] if said else 'no message'}", "run vela on the file")
        with found[0].open(encoding="utf-8", newline="") as table:
            row = next(csv.DictReader(table))
    return Estimate(round(float(row["sram_memory_used"]) * 1024), float(row["cycles_total"]))
