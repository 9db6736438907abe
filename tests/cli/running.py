"""Run a command in the test's process; check its exit code, and the one-line error for faulty input."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tinyweave.cli import main

# documented keys of the JSON output
PROMISED = [
    "ram.total", "ram.arena", "ram.memories", "ram.static", "ram.stack",
    "flash.total", "flash.weights", "flash.tables", "flash.code",
    "macs_original", "macs", "instructions", "cycles", "latency_ms", "compiler",
    "plan.lower_bound", "plan.optimal", "verify.max_abs_diff", "verify.first_difference", "fits",
]  # fmt: skip


def lookup(record: dict, key: str):
    for part in key.split("."):
        record = record[part]
    return record


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def bad(capsys, *arguments: object) -> str:
    """Run a command that must end with code 2, an empty standard output and one line on standard error; return the line."""
    assert run(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1 and printed.err.startswith("tinyweave: ")
    assert "Traceback" not in printed.err
    return printed.err


def sample_files(folder: Path, samples: np.ndarray) -> dict[str, Path]:
    paths = {kind: folder / f"x.{kind}" for kind in ("npy", "npz", "bin")}
    np.save(paths["npy"], samples)
    np.savez(paths["npz"], image=samples)
    paths["bin"].write_bytes(samples.tobytes())
    return paths
