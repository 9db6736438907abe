"""Compare an engine's RAM and outputs for a model and for the file that `reorder --engine ENGINE` makes of the model.

In: .tflite files, an engine, and for TFLite Micro a Python that has PyPI's `tflite-micro` (--tflite-micro). Out: a row per
model: what the engine needs before and after, and the MACs of the new file as a multiple. Last, the counts of rows.

- tflm: bytes of its arena, in total, for activations (head) and for structures (tail, with pointers of 64 bits).
- litert: bytes between the lowest and the highest address of its activations; blocks far apart count one by one.
- vela: bytes of SRAM, and cycles, as Vela says.

TFLite Micro and LiteRT run each file on two random inputs, for Vela LiteRT does, unless --io int8 changes the inputs. The
outputs are compared, and all tensors that both files have, such as the boundary of patches. Exit code 1: one differs, a file
needs more than before, or the activations are other than foreseen (LiteRT: 5 % less or 8 % more).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import one_line  # noqa: F401
import tflite

from tinyweave import api
from tinyweave.ir import CompileError, Graph
from tinyweave.support import vela

APART = 1 << 16  # bytes between blocks of LiteRT's memory

RUNS = """
import json, sys
import numpy as np
from tflite_micro import runtime
file, outputs, (samples, count, shown) = open(sys.argv[1], "rb").read(), [], json.load(sys.stdin)
for keeping in [1, 0] if shown else [0]:  # 1: it keeps all tensors, each in memory of its own, and refuses a file with offsets
    kind, said = runtime.InterpreterConfig(keeping), file.replace(b"Offline", b"offline") if keeping else file
    engine = runtime.Interpreter.from_bytes(said, arena_size=1 << 29, intrepreter_config=kind)
    for sample in samples:
        for index, values in enumerate(sample):
            engine.set_input(np.array(values, engine.get_input_details(index)["dtype"]), index)
        engine.invoke()
        outputs += [engine.get_output(index).tolist() for index in range(count)]
        outputs += [engine.GetTensor(index, 0)["tensor_data"].tolist() for index in shown if keeping]
print(json.dumps(outputs))
engine.print_allocations()
"""


def samples(graph: Graph) -> list[list[Any]]:
    """Return two random samples, each a list of the inputs' values."""
    random, tensors = np.random.default_rng(0), [graph.tensors[name] for name in graph.inputs]
    drawn = {"float32": random.normal}
    return [[drawn.get(t.dtype, partial(random.integers, 0, 128))(size=t.shape).tolist() for t in tensors] for _ in range(2)]


def in_tflite_micro(path: Path, python: str, graph: Graph | None = None, shown: Sequence[int] = ()) -> tuple[list[int], Any]:
    """Return the bytes of the arena (total, head, tail; [] if TFLite Micro cannot run the file), and what it computes."""
    given = json.dumps((samples(graph), len(graph.outputs), shown) if graph else ((), 0, ()))
    done = subprocess.run([python, "-c", RUNS, str(path)], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        return [], (done.stderr.strip().splitlines() or ["no message"])[-1]
    said = (done.stdout + done.stderr).split("Arena allocation ")[1:4]
    return [int(each.split()[1]) for each in said], done.stdout.splitlines()[0]


def tflite_micro_arena(path: Path, python: str) -> int:
    """Return the bytes of TFLite Micro's arena on this machine, as a Python that has PyPI's `tflite-micro` records them.

    Activations lie as on a microcontroller; structures have pointers of 64 bits, and kernels for all cores need no scratch.
    """
    arena, said = in_tflite_micro(path, python)
    return arena[0] if arena else sys.exit(f"{python}: TFLite Micro says of {path.name}: {said}")


def in_litert(path: Path, graph: Graph, shown: Sequence[int]) -> tuple[list[int], Any]:
    """Return the bytes that LiteRT's activations span ([] if LiteRT cannot run the file), and what it computes."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # scripts that import this one do without

    total, highest, outputs = 0, 0, list[Any]()
    names = {each.name for each in graph.tensors.values() if each.role == "activation"}
    for keeping in (False, True):
        options = {"experimental_op_resolver_type": OpResolverType.BUILTIN_REF, "experimental_preserve_all_tensors": keeping}
        try:
            engine = Interpreter(str(path), **options)
            engine.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            return [], error
        said = [said["index"] for said in engine.get_tensor_details() if said["name"] in names and not keeping]
        for low, count in sorted(_held(engine, index) for index in said):
            total += count if low > highest + APART else max(0, low + count - highest)
            highest = max(highest, low + count)
        for sample in samples(graph):
            for said, values in zip(engine.get_input_details(), sample, strict=True):
                engine.set_tensor(said["index"], np.array(values, said["dtype"]))
            engine.invoke()
            read = [*(said["index"] for said in engine.get_output_details()), *(shown if keeping else ())]
            outputs += [engine.get_tensor(index).tolist() for index in read]
    return [total], outputs


def _held(engine: Any, index: int) -> tuple[int, int]:
    """Return the address of a tensor and its bytes; (0, 0) for a scalar and a tensor that is allocated when LiteRT runs."""
    try:
        held = engine.tensor(index)()  # LiteRT cannot run while it is referred to
    except ValueError:
        return 0, 0
    return (held.ctypes.data, held.nbytes) if isinstance(held, np.ndarray) else (0, 0)


def measured(path: Path, graph: Graph, shown: Sequence[int], options: argparse.Namespace) -> tuple[list[int], Any]:
    """Return the RAM (for Vela also the cycles) of a file in the engine, [] if the engine refuses it, and what it computes."""
    if options.engine == "tflm":
        return in_tflite_micro(path, options.tflite_micro, graph, shown)
    needed, computed = in_litert(path, graph, shown)
    if options.engine == "litert" or not needed:
        return needed, computed
    said = vela.estimate(path.read_bytes(), options.engine.partition(":")[2])
    return [said.sram, round(said.cycles)], computed


def computed_by(path: Path, graph: Graph) -> dict[str, int]:
    """Return the indices in the file of the tensors that ops of a graph compute, by names that occur once in the file."""
    tensors = tflite.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0)
    names = [tensors.Tensors(index).Name().decode() for index in range(tensors.TensorsLength())]
    found = {name for op in graph.ops for name in op.outputs if graph.tensors[name].role == "activation"}
    return {name: names.index(name) for name in found if names.count(name) == 1}


def row(path: Path, options: argparse.Namespace, new: Path) -> tuple[str, ...]:
    """Return the cells of a model; the last begins with the result, `WRONG` if something is not as it should be."""
    try:
        done = api.reorder(path, engine=options.engine, max_mac_overhead=options.max_mac_overhead, io=options.io)
    except CompileError as error:
        return path.stem, f"refused: {error}"
    new.write_bytes(done.file)
    known, found = computed_by(path, done.model.original), computed_by(new, done.graph)
    shared = known.keys() & found.keys() if options.io == "model" else ()
    before, computed = measured(path, done.model.original, [known[name] for name in shared], options)
    assert done.engine is not None
    if not before:
        return path.stem, f"the engine cannot run it: {computed}"
    if done.engine.unchanged:
        is_same = new.read_bytes() == path.read_bytes()
        return path.stem, *map(str, before), f"{'unchanged' if is_same else 'WRONG'}: {done.engine.unchanged}"
    after, others = measured(new, done.graph, [found[name] for name in shared], options)
    foreseen = after[1 if options.engine == "tflm" else 0] if after else 0
    low = high = done.engine.after
    if options.engine == "litert":  # it pads tensors less, and some of its kernels have scratch
        low, high = 0.95 * low, 1.08 * high
    is_equal = computed == others or options.io == "int8"
    right = bool(after) and is_equal and after[0] < before[0] and low <= foreseen <= high
    said = f"equal: outputs and {len(shared)} tensors" if options.io == "model" else "less: other inputs"
    return path.stem, *map(str, (*before, *after)), f"{done.engine.macs:.3f}", said if right else "WRONG"


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
    results = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for path in options.models:
            cells = row(path, options, Path(folder) / "new.tflite")
            results.append(cells[-1].partition(":")[0])
            print(f"| {' | '.join(cells)} |", flush=True)
    print(", ".join(f"{results.count(result)} {result}" for result in dict.fromkeys(results)))
    return 1 if "WRONG" in results else 0


if __name__ == "__main__":
    sys.exit(main())
