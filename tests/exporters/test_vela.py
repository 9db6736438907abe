"""Files for Vela: a program with its output that knows two tricks stands for Vela, and Vela itself where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tinyweave as tw
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError
from tinyweave.simulate import compare, litert
from tinyweave.support import toolchain, vela

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
# SRAM falls with the number of slices, cycles rise with it; a file with more than six is refused
PROGRAM = """#!{python}
import sys
from pathlib import Path
from tinyweave.importers.tflite import from_tflite
path, options = Path(sys.argv[1]), sys.argv[2:]
assert options[:2] == ["--optimise", "Size"]
slices = sum(op.kind == "slice" for op in from_tflite(path.read_bytes(), "x").ops)
with open(r"{log}", "a") as log:
    print(slices, *options[2:-2], file=log)
if slices > {most}:
    sys.exit("Error: too many slices")
summary = Path(options[-1]) / "model_summary_x.csv"
summary.write_text(f"sram_memory_used,cycles_total\\n{{100 - slices / 4}},{{1000 + 10 * slices}}\\n")
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the program in PATH, and return the file with a line per run."""
    program, log = tmp_path / "vela", tmp_path / "log"
    program.write_text(PROGRAM.format(python=sys.executable, log=log, most=6))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return log


@pytest.mark.litert
def test_the_file_with_the_least_sram_within_the_cycles_is_written(runs: Path) -> None:
    inputs = compare.samples(from_tflite(DIGITS.read_bytes(), "x"), 3, 0)
    found = set[int]()
    for most in (1.2, 1.045):
        runs.unlink(missing_ok=True)
        done = tw.reorder(DIGITS, engine="vela:ethos-u55-128", max_mac_overhead=most)
        assert done.engine is not None and done.engine.before == 100 * 1024 and done.engine.macs <= most
        tried = [line.split() for line in runs.read_text().splitlines()]
        assert all(words[1:] == ["--accelerator-config", "ethos-u55-128"] for words in tried)
        counts = [int(words[0]) for words in tried]
        best = max(count for count in counts if count <= 6 and 1000 + 10 * count <= most * 1000)
        assert done.engine.after == 1024 * 100 - 256 * best and bool(done.engine.unchanged) == (best == 0)
        assert sum(op.kind == "slice" for op in done.graph.ops) == best
        found.add(best)
        for a, b in zip(litert.run(DIGITS.read_bytes(), inputs), litert.run(done.file, inputs), strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    assert len(found) == 2 and max(found) > 0


def test_a_file_that_gains_nothing_is_unchanged_and_vela_runs_without_a_core(runs: Path) -> None:
    done = tw.reorder(DIGITS, engine="vela")
    assert done.engine is not None and done.file == DIGITS.read_bytes()
    assert done.engine.unchanged == "Vela needs no fewer than 102,400 B for its activations with up to 1 times the MACs"
    assert set(runs.read_text().split()) == {"0"}


def test_what_vela_refuses_and_that_it_is_missing_is_one_line(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vela").write_text(PROGRAM.format(python=sys.executable, log=runs, most=-1))
    with pytest.raises(CompileError, match="Vela cannot compile the model: Error: too many slices"):
        tw.reorder(DIGITS, engine="vela")
    monkeypatch.setattr(toolchain, "which", lambda program: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "folder" / "python"))
    with pytest.raises(CompileError, match=r"Vela is not installed; .* install ethos-u-vela"):
        vela.program()
