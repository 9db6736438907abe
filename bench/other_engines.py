"""Compare an engine's RAM and outputs for a model and for the file that `reorder --engine ENGINE` makes of the model.

In: .tflite files, an engine, and for TFLite Micro a Python that has PyPI's `tflite-micro` (--tflite-micro). Out: a row per
model: what the engine needs before and after, and the MACs of the new file as a multiple.

- tflm: bytes of its arena, in total, for activations (head) and for structures (tail, with pointers of 64 bits).
- litert: bytes between the lowest and the highest address of its activations; blocks far apart count one by one.
- vela: bytes of SRAM, and cycles, as Vela says.

TFLite Micro and LiteRT run each file on two random inputs, for Vela LiteRT does, unless --io int8 changes the inputs. Exit
code 1: outputs differ, a file needs more than before, or the activations are other than foreseen (LiteRT: by more than 6 %).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import one_line  # noqa: F401

from tinyweave import api
from tinyweave.ir import CompileError, Graph
from tinyweave.support import vela

APART = 1 << 16  # bytes between blocks of LiteRT's memory

RUNS = """
import json, sys
import numpy as np
from tflite_micro import runtime
engine = runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read(), arena_size=1 << 27)
random, outputs, edges = np.random.default_rng(0), [], json.loads(sys.argv[2])
for _ in range(2 if edges[0] else 0):
    for index in range(edges[0]):
        said = engine.get_input_details(index)
        shape, dtype = said["shape"], np.dtype(said["dtype"])
        values = random.normal(size=shape) if dtype.kind == "f" else random.integers(0, 128, shape)
        engine.set_input(values.astype(dtype), index)
    engine.invoke()
    outputs += [engine.get_output(index).tolist() for index in range(edges[1])]
print(json.dumps(outputs))
engine.print_allocations()
"""


def in_tflite_micro(path: Path, edges: tuple[int, int], python: str) -> tuple[list[int], Any]:
    """Return the bytes of the arena (total, head, tail; [] if TFLite Micro cannot run the file), and the outputs."""
    done = subprocess.run([python, "-c", RUNS, str(path), json.dumps(edges)], capture_output=True, text=True, check=False)
    if done.returncode:
        return [], (done.stderr.strip().splitlines() or ["no message"])[-1]
    said = (done.stdout + done.stderr).split("Arena allocation ")[1:4]
    return [int(each.split()[1]) for each in said], done.stdout.splitlines()[0]


def tflite_micro_arena(path: Path, python: str) -> int:
    """Return the bytes of TFLite Micro's arena on this machine, as a Python that has PyPI's `tflite-micro` records them.

    Activations lie as on a microcontroller; structures have pointers of 64 bits, and kernels for all cores need no scratch.
    """
    arena, said = in_tflite_micro(path, (0, 0), python)
    return arena[0] if arena else sys.exit(f"{python}: TFLite Micro says of {path.name}: {said}")


def in_litert(path: Path, graph: Graph) -> tuple[list[int], Any]:
    """Return the bytes that LiteRT's activations span ([] if LiteRT cannot run the file), and the outputs."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # scripts that import this one do without

    try:
        engine = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        engine.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        return [], error
    names, ends = {each.name for each in graph.tensors.values() if each.role == "activation"}, list[tuple[int, int]]()
    for said in engine.get_tensor_details():
        if said["name"] in names:
            held = engine.tensor(said["index"])()  # LiteRT refuses to run while it is referred to
            ends.append((held.ctypes.data, held.ctypes.data + held.nbytes))
            del held
    total, highest = 0, 0
    for low, high in sorted(ends):
        total += high - low if low > highest + APART else max(0, high - highest)
        highest = max(highest, high)
    random, outputs = np.random.default_rng(0), list[Any]()
    for _ in range(2):
        for said in engine.get_input_details():
            shape, dtype = said["shape"], np.dtype(said["dtype"])
            values = random.normal(size=shape) if dtype.kind == "f" else random.integers(0, 128, shape)
            engine.set_tensor(said["index"], values.astype(dtype))
        engine.invoke()
        outputs += [engine.get_tensor(said["index"]).tolist() for said in engine.get_output_details()]
    return [total], outputs


def measured(path: Path, edges: tuple[int, int], graph: Graph, options: argparse.Namespace) -> tuple[list[int], Any]:
    """Return the RAM (for Vela also the cycles) of a file in the engine, [] if the engine refuses it, and the outputs."""
    if options.engine == "tflm":
        return in_tflite_micro(path, edges, options.tflite_micro)
    needed, outputs = in_litert(path, graph)
    if options.engine == "litert":
        return needed, outputs
    said = vela.estimate(path.read_bytes(), options.engine.partition(":")[2])
    return [said.sram, round(said.cycles)], outputs


def row(path: Path, options: argparse.Namespace, new: Path) -> tuple[list[str], bool]:
    """Return the cells of a model, and whether all is right."""
    try:
        done = api.reorder(path, engine=options.engine, max_mac_overhead=options.max_mac_overhead, io=options.io)
    except CompileError as error:
        return [path.stem, f"refused: {error}"], True
    new.write_bytes(done.file)
    edges = len(done.model.original.inputs), len(done.model.original.outputs)
    before, outputs = measured(path, edges, done.model.original, options)
    after, others = measured(new, edges, done.graph, options)
    assert done.engine is not None
    if not before:
        return [path.stem, f"the engine cannot run it: {outputs}"], not after
    if done.engine.unchanged:
        return [path.stem, *map(str, before), f"unchanged: {done.engine.unchanged}"], before == after
    foreseen = after[1 if options.engine == "tflm" else 0]
    most = 1.06 * done.engine.after if options.engine == "litert" else done.engine.after
    equal = outputs == others or options.io == "int8"
    right = equal and after[0] < before[0] and done.engine.after <= foreseen <= most
    said = ("equal" if options.io == "model" else "other inputs") if right else "WRONG"
    return [path.stem, *map(str, (*before, *after)), f"{done.engine.macs:.3f}", said], right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--engine", default="tflm", help="as for reorder")
    parser.add_argument("--tflite-micro", metavar="PYTHON", help="a Python that has PyPI's tflite-micro")
    parser.add_argument("--max-mac-overhead", type=float, default=1.0)
    parser.add_argument("--io", choices=["model", "int8"], default="model")
    options = parser.parse_args()
    if options.engine == "tflm" and not options.tflite_micro:
        parser.error("the engine tflm needs --tflite-micro")
    needs = {"tflm": ("total", "head", "tail"), "litert": ("activations",)}.get(options.engine, ("SRAM", "cycles"))
    print(f"| model | {' | '.join((*needs, *(f'new {each}' for each in needs)))} | MACs | outputs |")
    all_right = True
    with tempfile.TemporaryDirectory() as folder:
        for path in options.models:
            cells, right = row(path, options, Path(folder) / "new.tflite")
            all_right &= right
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
