"""Measure the stack of each kernel, and of the function that calls the kernels.

In: a folder of .tflite files. Out: tinyweave/kernels/stack_bytes.json. For each core with a cycle model it has the bytes
of each kernel's deepest chain of calls, on whole maps and on parts of maps, as GCC reports them, and FRAME: constants of the
bytes of `invoke`, fitted to the plans of these files. Prints the error of this fit.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
import one_line  # noqa: F401

# isort: split
from tinyweave import api
from tinyweave.api import results
from tinyweave.ir import CompileError
from tinyweave.kernels.layer_cycles import cost_model_core
from tinyweave.kernels.table import FILES, STACK_BYTES, VARIANTS
from tinyweave.planning import Plan
from tinyweave.planning.kernels.stack import FRAME, frame_features
from tinyweave.simulate import emulated
from tinyweave.simulate.cores import CORES
from tinyweave.support import toolchain

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
EVERY = 8  # of the models
CALLS = 24  # bytes that the registers of the function which calls `invoke` take
Chains = Mapping[str, tuple[int, frozenset[str]]]  # function -> bytes of its frame, the functions that it calls


def chains(core: str, files: Mapping[str, str]) -> Chains:
    """Compile C files for a core, and return the frame and the callees of each function."""
    compiler = emulated.COMPILERS[CORES[core].isa]()
    flags = [*emulated.flags_for(core, compiler), "-fcallgraph-info=su", "-idirafter", str(emulated.FOLDER / "include")]
    frames, calls = dict[str, int](), dict[str, set[str]]()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        for path in sorted(Path(folder).glob("*.c")):
            try:
                toolchain.compile_c(compiler, [*flags, "-c", path, "-o", path.with_suffix(".o")])
            except CompileError:
                continue  # for another core
            for line in path.with_suffix(".ci").read_text().splitlines():
                if node := re.match(r'node: \{ title: "([^"]+)" label: "[^"]*\\n(\d+) bytes', line):
                    frames[node[1]] = int(node[2])
                elif edge := re.match(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', line):
                    calls.setdefault(edge[1], set()).add(edge[2])
    return {name: (size, frozenset(calls.get(name, ()))) for name, size in frames.items()}


def kernels(core: str) -> dict[str, list[int]]:
    """Return, for each kernel that a core has, the stack bytes of a call on whole maps, and of a call on a part of them."""
    known = chains(core, {name: path.read_text() for name, path in FILES.items()})

    @cache
    def deepest(name: str) -> int:
        size, callees = known.get(name, (0, frozenset()))
        return size + max(map(deepest, callees), default=0)

    def owner(function: str) -> str:
        return max((row.name for row in VARIANTS if function.startswith(f"{row.name}_")), key=len, default="")

    whole = {row.name for row in VARIANTS}
    parts = {kernel: [name for name in known.keys() - whole if owner(name) == kernel] for kernel in whole}
    return {
        row.name: [deepest(row.name), max(map(deepest, parts[row.name]), default=0)]
        for row in VARIANTS
        if row.name in known and (not row.cores or core in row.cores)
    }


def frames(core: str, plans: list[tuple[results.Model, Plan]]) -> list[float]:
    """Return the constants of the frame of `invoke` on a core, and print their error."""
    sizes = []
    for model, plan in plans:
        files = api.emit_c(model, plan).files
        own = {name: text for name, text in files.items() if name.endswith(".h") or name == f"{model.name}.c"}
        sizes.append(CALLS + chains(core, own)[f"{model.name}_invoke"][0])
    counts = np.array([frame_features(plan) for _, plan in plans], float)
    fitted = np.linalg.lstsq(counts, np.array(sizes, float), rcond=None)[0].round(1)
    error = counts @ fitted - sizes
    print(f"{core}: {len(plans)} plans, error {error.min():.0f} to {error.max():.0f} B, root mean square {error.std():.0f} B")
    return [float(constant) for constant in fitted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="?", type=Path, default=MODELS, help="a folder of .tflite files")
    folder: Path = parser.parse_args().models
    plans = list[tuple[results.Model, Plan]]()
    for path in sorted(folder.glob("*.tflite"))[::EVERY]:
        try:
            model = api.load(path)
            plans.append((model, api.plan(model)))
        except CompileError:
            continue
    cores = sorted({cost_model_core(core) for core in CORES})
    found = {core: {FRAME: frames(core, plans), **kernels(core)} for core in cores}
    lines = ",\n".join(
        f' "{core}": {{\n' + ",\n".join(f"  {json.dumps(name)}: {json.dumps(sizes)}" for name, sizes in rows.items()) + "\n }"
        for core, rows in found.items()
    )
    STACK_BYTES.write_text(f"{{\n{lines}\n}}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
