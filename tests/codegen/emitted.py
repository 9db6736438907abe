"""Helpers for tests of emitted C: write the files and compile them with warnings as errors."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cases.strict import c99

from tinyweave.codegen import Origin, Source, emit
from tinyweave.ir import Graph
from tinyweave.planning import Plan, plan
from tinyweave.simulate import compare
from tinyweave.support import toolchain
from tinyweave.support.files import write_below


def source_of(graph: Graph, made: Plan | None = None, name: str = "") -> Source:
    return emit(made or plan(graph), name or graph.name, Origin(f"{graph.name}.tflite", "0" * 64))


def write(source: Source, folder: Path) -> None:
    write_below(folder, source.all)


def emitted(made: Plan, folder: Path, name: str = "") -> Path:
    """Write the C of a plan into a folder, which may be new, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write(source_of(made.graph, made, name), folder)
    return folder


def prove(made: Plan, folder: Path, cores: Sequence[str] = (), *, count: int = 4, seed: int = 0) -> None:
    """Assert that the C of a plan gives the bytes of the numpy reference, and touches exactly the arena of the plan."""
    name = made.graph.name
    result = compare.verify(made, emitted(made, folder), name, compare.samples(made.graph, count, seed), cores=cores)
    assert result.ok, f"seed {seed}: {result.first_difference or dict(result.touched)}"


def compile_strictly(compiler: toolchain.Toolchain, path: Path, flags: Sequence[str] = ()) -> None:
    """Compile one file without any warning."""
    command = [*compiler.command, *(flags or c99(compiler.name)), "-c", path.name, "-o", f"{path.stem}.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)
    assert done.returncode == 0 and not done.stderr, f"{compiler.name}: {done.stderr}"


def inputs_of(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    return compare.samples(graph, 4, seed)[3]
