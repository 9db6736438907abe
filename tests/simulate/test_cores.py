"""Whole networks on every emulated core, by every compiler: the reference's bytes, and the arena that was claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases.tiny import NETWORKS
from fuzz.generate import random_network

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph
from tinyweave.plan import plan
from tinyweave.simulate import compare, emulated
from tinyweave.simulate.cores import CORES
from tinyweave.simulate.run import Run, touched

pytestmark = pytest.mark.emulator
pytest.importorskip("unicorn", reason="needs the emulator (pip install 'tinyweave[verify]')")

GRAPHS = {name: make() for name, make in NETWORKS.items()} | {f"network_{seed}": random_network(seed, 12) for seed in (3, 8)}


def runs(graph: Graph, folder: Path, core: str) -> tuple[Run, Run]:
    """A graph on a core, by the numpy reference's truth; the arena is full of other noise in the second run."""
    made = plan(graph)
    for file, text in emit(made, graph.name, Origin("cases.tflite", "0" * 64)).files.items():
        (folder / file).write_text(text)
    x = compare.samples(graph, 4, 1, [])[3]
    expected = ops.run(graph, dict(zip(graph.inputs, x, strict=True)))
    firmware = emulated.build(folder, graph.name, core)
    sizes = compare.output_bytes(graph)
    a, b = (emulated.invoke(firmware, made.arena, compare.pack(x), sizes, fill=fill) for fill in (0, 1))
    for name, array in zip(graph.outputs, compare.unpack(graph, a), strict=True):
        assert compare.difference(expected[name], array) is None, name
    assert touched(a, b) == made.arena
    return a, b


@pytest.mark.parametrize("compiler", ["", "zig"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("core", CORES)
def test_networks(core: str, name: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason)
    for variable in ("TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
        monkeypatch.setenv(variable, compiler)
    a, b = runs(GRAPHS[name], tmp_path, core)
    assert a.instructions == b.instructions
    assert a.instructions is not None and a.instructions > 100
    assert a.stack == b.stack
    assert a.stack is not None and 0 < a.stack < 2048
