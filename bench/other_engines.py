"""Compare TFLite Micro's RAM and outputs for a model and for the file that `reorder --engine tflm` makes of the model.

In: .tflite files, and a Python that has PyPI's `tflite-micro` (--tflite-micro). Out: a row per model: bytes of TFLite Micro's
arena before and after, in total, for activations (head) and for structures (tail, with pointers of 64 bits), and the MACs of
the new file as a multiple. Each file is also run on two random inputs. Exit code 1: outputs differ, a file needs more than
before, or the activations are other than foreseen.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tinyweave import api
from tinyweave.ir import CompileError

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


def row(path: Path, most_macs: float, python: str, new: Path) -> tuple[list[str], bool]:
    """Return the cells of a model, and whether all is right."""
    try:
        done = api.reorder(path, engine="tflm", max_mac_overhead=most_macs)
    except CompileError as error:
        return [path.stem, f"refused: {error}"], True
    new.write_bytes(done.file)
    edges = len(done.model.original.inputs), len(done.model.original.outputs)
    (before, outputs), (after, others) = (in_tflite_micro(each, edges, python) for each in (path, new))
    assert done.engine is not None
    if not before:
        return [path.stem, f"TFLite Micro cannot run it: {outputs}"], not after
    if done.engine.unchanged:
        return [path.stem, *map(str, before), f"unchanged: {done.engine.unchanged}"], before == after
    right = outputs == others and after[0] < before[0] and after[1] == done.engine.after
    return [path.stem, *map(str, (*before, *after)), f"{done.engine.macs:.3f}", "equal" if right else "WRONG"], right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--tflite-micro", metavar="PYTHON", required=True, help="a Python that has PyPI's tflite-micro")
    parser.add_argument("--max-mac-overhead", type=float, default=1.0)
    options = parser.parse_args()
    print("| model | total | head | tail | new total | head | tail | MACs | outputs |")
    all_right = True
    with tempfile.TemporaryDirectory() as folder:
        for path in options.models:
            cells, right = row(path, options.max_mac_overhead, options.tflite_micro, Path(folder) / "new.tflite")
            all_right &= right
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
