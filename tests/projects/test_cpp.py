"""The C files of an export may be renamed to .cpp: a C++ compiler accepts them, and the program computes the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects.export import model, needs, run

import tinyweave as tw
from tinyweave.simulate.cores import CORES

NETWORKS = ["chain", "residual", "edges", "stream"]
FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror")


def renamed(folder: Path, networks: list[str], core: str, **options: object) -> list[Path]:
    """Export networks with their example, rename all C files to .cpp, and return the C++ files."""
    tw.export([model(name) for name in networks], core, out=folder, format="cmake", package="networks", **options)
    files = sorted(path for path in folder.rglob("*.c") if path.parent.name in ("src", "example"))
    return [path.rename(path.with_suffix(".cpp")) for path in files]


@pytest.mark.parametrize(("networks", "streamed"), [(NETWORKS, False), (["chain"], True)])
def test_the_export_built_as_cpp_gives_the_reference_bytes(networks: list[str], streamed: bool, tmp_path: Path) -> None:
    needs("g++")
    files = renamed(tmp_path / "export", networks, "cortex-m4", stream_inputs=streamed)
    switch = ["-DTW_TRACE=networks_profile_step"] if streamed else []
    words = [*FLAGS, *switch, "-DTW_PLAIN_C", "-DTW_PRINT_OUTPUTS", "-I", tmp_path / "export" / "src"]
    run("g++", *words, *files, "-o", tmp_path / "program")
    printed = run(tmp_path / "program")
    assert printed.endswith("every output is the reference's, byte for byte\n")
    assert ("tw-profile chain " in printed) == streamed and all(f"{name} sample 0" in printed for name in networks)


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_the_export_compiles_as_cpp_for_arm(core: str, tmp_path: Path) -> None:
    needs("arm-none-eabi-g++")
    files = renamed(tmp_path / "export", NETWORKS, core, optimize="speed")
    run("arm-none-eabi-g++", *CORES[core].gcc, *FLAGS, "-I", tmp_path / "export" / "src", "-c", *files, cwd=tmp_path)
