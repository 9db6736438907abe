"""Run every command on each file of a folder, and check that it gives right values or one clear error.

In: folders of .tflite, .onnx and .pt2 files (--cases). Out: a row per file, which is one of:

- `right`: C and reference kernels gave the same bytes. For .onnx, .pt2 and float files also the SQNR of the import in dB,
  relative to ONNX Runtime, PyTorch or LiteRT. Float files are made int8 with random samples.
- `refused`, with the message.
- A fault: a traceback, an exit code that is not documented, a message with internals of a library, a warning of Python, files
  left by a refused command, a byte or value that differs, or a time above --limit-s.

Exit code 1 if a file has a fault. To try another checkout, run this script with that checkout's Python.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".tflite", ".onnx", ".pt2")
EXACT_DB = 80.0  # SQNR of a float import; less is a wrong value, because float32 rounding leaves 100 dB
QUANTISED_DB = 20.0  # SQNR of a quantised import, whose values may differ by one step
INTERNALS = re.compile(
    r"Symbol\(|object at 0x|\btype \d+\b|truth value of an array|unpack_from|load it unsafely|Traceback|<class '|dtype\('"
    r"|errno|KeyError|IndexError|TypeError|AttributeError|could not broadcast|cannot reshape array|\bNoneType\b"
)
Array = np.ndarray[Any, Any]


def command(*words: object) -> tuple[int, str, str]:
    """Run a command of tinyweave in this process; return its exit code, standard output and standard error."""
    from tinyweave.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def layouts(value: Array, shape: Sequence[int]) -> list[Array]:
    """Return the value in each layout of `shape` that an importer may have chosen: channels last, or axes of length 1 added."""
    moved = np.moveaxis(value, 1, -1) if value.ndim > 2 else value
    possible = [value, moved]
    if int(np.prod(shape)) == value.size:
        possible += [value.reshape(shape), moved.reshape(shape)]
    fitting: list[Array] = []
    for each in possible:
        if each.shape == tuple(shape) and not any(np.array_equal(each, other, equal_nan=True) for other in fitting):
            fitting.append(np.ascontiguousarray(each))
    return fitting


def draw(shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Array:
    """Return a random input: normal floats, small whole numbers for indices, all values of 8 bits."""
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    if dtype in ("int8", "uint8"):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def runner(path: Path, file: bytes) -> tuple[list[tuple[list[int | None], str]], Callable[[list[Array]], list[Array]]]:
    """Return shapes and types of the file's own inputs, and a function that runs the file in the library that wrote it."""
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        kinds = {"float": "float32", "double": "float64"}
        names = [each.name for each in session.get_inputs()]
        shapes = [[size if isinstance(size, int) else None for size in each.shape] for each in session.get_inputs()]
        types = [re.sub(r"tensor\((.*)\)", r"\1", each.type) for each in session.get_inputs()]
        known = [(shape, kinds.get(kind, kind)) for shape, kind in zip(shapes, types, strict=True)]
        return known, lambda given: list(session.run(None, dict(zip(names, given, strict=True))))
    if path.suffix == ".pt2":
        import torch
        import torchao.quantization.pt2e  # noqa: F401  # its ops, without which torch does not read a quantised program

        program = torch.export.load(path)
        module = program.module()
        metas = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
        known = [
            ([size if isinstance(size, int) else None for size in meta.shape], str(meta.dtype).removeprefix("torch."))
            for meta in metas
        ]

        def run_torch(given: list[Array]) -> list[Array]:
            with torch.no_grad():
                found = module(*(torch.from_numpy(value) for value in given))
            return [each.numpy() for each in torch.utils._pytree.tree_leaves(found)]

        return known, run_torch
    from tinyweave.importers.tflite import from_tflite
    from tinyweave.simulate import litert

    graph = from_tflite(file, path.stem)
    inputs = [graph.tensors[name] for name in graph.inputs]
    known = [(list(tensor.shape), tensor.dtype) for tensor in inputs]
    return known, lambda given: litert.run(file, [given])[0].outputs


def sqnr(expected: Array, found: Array) -> float:
    """Return the SQNR in dB of the finite values; below 0 if the infinite values are not the same."""
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return -np.inf
    noise = float(np.square(expected - found)[finite].sum())
    return np.inf if noise == 0 else 10 * float(np.log10(max(np.square(expected[finite]).sum(), 1e-30) / noise))


def import_sqnr(path: Path) -> float:
    """Return the SQNR of the imported graph, run in numpy, relative to the library that wrote the file: the worst output's."""
    from tinyweave import ops
    from tinyweave.api.models import read
    from tinyweave.quantize.convert import as_integers, as_real

    model, rng = read(path), np.random.default_rng(1)
    graph = model.original
    known, run = runner(path, model.file)
    given = []
    for (shape, dtype), name in zip(known, graph.inputs, strict=True):
        tensor = graph.tensors[name]
        sizes = [1 if size is None else size for size in shape]
        given.append(draw(sizes if np.prod(sizes) == tensor.elements else tensor.shape, dtype, rng))
    expected, best = run(given), -np.inf
    tensors = [graph.tensors[name] for name in graph.inputs]
    choices = [
        [as_integers(tensor, each).astype(tensor.dtype) for each in layouts(value, tensor.shape)]
        for value, tensor in zip(given, tensors, strict=True)
    ]
    for arrays in itertools.islice(itertools.product(*choices), 16):
        found = [
            as_real(graph.tensors[name], value) if other.dtype.kind == "f" else value
            for (name, value), other in zip(
                ops.run(graph, dict(zip(graph.inputs, arrays, strict=True))).items(), expected, strict=True
            )
        ]
        pairs = list(zip(expected, found, strict=True))
        best = max(best, min(max((sqnr(e, f) for e in layouts(e, f.shape)), default=-np.inf) for e, f in pairs))
    return best


def is_float(path: Path) -> bool:
    """Whether the file computes on float32 between its inputs and outputs, so that it must be quantised first."""
    from tinyweave.api.models import read

    graph = read(path).original
    edges = ("quantize", "dequantize")
    return any(graph.tensors[name].dtype == "float32" for op in graph.ops if op.kind not in edges for name in op.inputs if name)


def is_hybrid(path: Path) -> bool:
    """Whether only the weights of a .tflite file are quantised: LiteRT quantises the activations of its ops at run time."""
    from tinyweave.api.models import read

    return path.suffix == ".tflite" and any(name.endswith(".real") for name in read(path).original.tensors)


def quantised(path: Path, folder: Path) -> tuple[Path, tuple[int, str, str]]:
    """Quantise a float file with 8 random samples; return the int8 file and what the command printed."""
    from tinyweave.api.models import read

    graph, rng = read(path).original, np.random.default_rng(2)
    tensors = [(name, graph.tensors[name]) for name in graph.inputs]
    samples = {name: np.stack([draw(tensor.shape, tensor.dtype, rng) for _ in range(8)]) for name, tensor in tensors}
    np.savez(folder / "samples.npz", **samples)
    out = folder / f"{path.stem}_int8.tflite"
    return out, command("quantize", path, "--inputs", folder / "samples.npz", "-o", out)


def fault_of(code: int, out: str, err: str) -> str:
    """Return what is wrong with the exit code and the output of a command as `KIND: text`, "" if nothing is."""
    line = " ".join(err.split())
    if "Traceback" in err + out or code not in (0, 1, 2):
        return f"TRACEBACK: exit code {code}, {line[-300:]}"
    if found := INTERNALS.search(err):
        return f"INTERNALS: '{found[0]}' in {line[:300]}"
    if code == 2 and not (out and not err) and (err.count("\n") != 1 or not err.startswith("tinyweave: ")):
        return f"NOT ONE LINE: {line[:300]}"
    if "Warning" in err:
        return f"WARNING: {line[:300]}"
    if code == 1:
        return f"DIFFERS: {' '.join(each for each in (out + err).splitlines() if 'iffer' in each)[:300]}"
    return ""


def compared(path: Path) -> tuple[str, bool]:
    """Return the SQNR of the import as text, and whether it is enough; an int8 .tflite file is compared by `verify` alone."""
    if path.suffix == ".tflite" and not is_float(path):
        return "", True
    try:
        decibel = import_sqnr(path)
    except Exception as error:  # the library that wrote the file refuses it, or tinyweave does
        return f"not compared: {type(error).__name__}: {' '.join(str(error).split())[:120]}", True
    least = EXACT_DB if is_float(path) and not is_hybrid(path) else QUANTISED_DB
    return f"import {min(decibel, 999):.0f} dB", decibel >= least


def judge(path: Path, folder: Path) -> dict[str, str]:
    """Return the row of a file: its result and a message."""
    steps, said, model = [("inspect", command("inspect", path))], "", path
    with contextlib.suppress(Exception):  # a file that cannot be read: `deploy` says why
        said, enough = compared(path)
        if not enough:
            return {"result": "DIFFERS", "message": said}
        if is_float(path):
            model, done = quantised(path, folder)
            steps.append(("quantize", done))
    if steps[-1][0] == "inspect" or steps[-1][1][0] == 0:
        steps.append(("deploy", command("deploy", model, "-o", folder / "out")))
    if steps[-1][1][0] == 0:
        steps.append(("verify", command("verify", model, "--optimize", "size", "--samples", "2")))
    for name, done in steps:
        if fault := fault_of(*done):
            kind, message = fault.split(": ", 1)
            return {"result": kind, "message": f"{name}: {message}"}
    name, (code, _, err) = steps[-1]
    if code and (folder / "out").exists():
        return {"result": "LEFT FILES", "message": f"{name}: {err.strip()}"}
    if code == 0 and steps[0][1][2]:
        return {"result": "DISAGREE", "message": f"inspect refuses what {name} takes: {steps[0][1][2].strip()}"}
    if code == 0:
        return {"result": "right", "message": said}
    return {"result": "refused", "message": f"{name}: {err.strip().removeprefix('tinyweave: ').replace(f'{path}: ', '')}"}


def judged(path: Path, limit_s: int) -> dict[str, str]:
    """Judge a file in a process of its own, whose time is limited."""
    with tempfile.TemporaryDirectory(prefix="cases-") as folder:
        words = [sys.executable, __file__, "--one", str(path.resolve()), str(Path(folder) / "row.json")]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False, cwd=folder)
        except subprocess.TimeoutExpired:
            return {"result": "TOO SLOW", "message": f"more than {limit_s} s"}
        if done.returncode or "Traceback" in done.stderr:
            return {"result": "CRASHED", "message": " ".join(done.stderr.split())[-300:]}
        row: dict[str, str] = json.loads((Path(folder) / "row.json").read_text())
        return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only files whose path contains one of these")
    parser.add_argument("--cases", type=Path, nargs="+", default=[ROOT.parent / "shared" / "cases"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit-s", type=int, default=300, help="seconds for a file")
    parser.add_argument("--one", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        path, row = options.one
        row.write_text(json.dumps(judge(path, row.parent)))
        return 0
    files = [
        path
        for folder in options.cases
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES and (not options.names or any(name in str(path) for name in options.names))
    ]
    if not files:
        sys.exit(f"no file in {', '.join(map(str, options.cases))}")
    results: Counter[str] = Counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        for path, row in zip(files, pool.map(lambda path: judged(path, options.limit_s), files), strict=True):
            results[row["result"]] += 1
            print(f"| {path.parent.name}/{path.name} | {row['result']} | {row['message']} |", flush=True)
    print("\n" + ", ".join(f"{count} {result}" for result, count in results.most_common()) + f", of {len(files)}")
    return 0 if set(results) <= {"right", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())
