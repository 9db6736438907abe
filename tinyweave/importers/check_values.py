"""Compare an imported float graph with another evaluator, a Run, on random inputs, to notice a rule that changes values."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, limits
from ..passes.effort import effort
from ..quantize.evaluate import evaluate
from ..support import parent
from ..support.toolchain import import_folders

Array = NDArray[Any]
Run = Callable[[Sequence[Array]], Sequence[Array] | None]  # inputs in the model's layout -> outputs, None if it cannot run
MOST_EFFORT = 1 << 28  # multiply-accumulates of the graph, about two seconds
TOLERANCE = 1e-3  # of the range of an output
MAX_MEMORY = 1 << 32  # bytes of address space of the process that runs an ONNX file
MAX_SECONDS = 20
# ONNX Runtime is C++ and the file is untrusted: a crash or an endless loop ends the child process only.
CHILD = """\
import io, runpy, sys
evaluator, path, memory, parent, *folders = sys.argv[1:]
sys.path += [folder for folder in folders if folder not in sys.path]
runpy.run_path(parent)["limit_process"](int(memory))
import numpy as np
given = list(np.load(io.BytesIO(sys.stdin.buffer.read())).values())
if evaluator == "ONNX Runtime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    types = [{"float": "float32", "double": "float64"}.get(each.type[7:-1], each.type[7:-1]) for each in session.get_inputs()]
    given = [value.astype(dtype) for value, dtype in zip(given, types, strict=True)]
else:
    from onnx.reference import ReferenceEvaluator
    session = ReferenceEvaluator(path)
    names = session.input_names
packed = io.BytesIO()
np.savez(packed, *session.run(None, dict(zip(names, given, strict=True))))
sys.stdout.buffer.write(packed.getvalue())
"""


def onnx_runs(path: Path) -> dict[str, Run]:
    """Return the evaluators of an ONNX file by name; each of them may be missing."""
    return {name: partial(_run_onnx, name, path) for name in ("ONNX Runtime", "onnx.reference")}


def _run_onnx(evaluator: str, path: Path, given: Sequence[Array]) -> Sequence[Array] | None:
    """Return the outputs of an ONNX file, computed in another process; None if that fails."""
    arguments = (evaluator, str(path.absolute()), str(MAX_MEMORY), parent.__file__)
    command = [sys.executable, "-I", "-c", CHILD, *arguments, *import_folders()]
    packed = io.BytesIO()
    np.savez(packed, *given)
    try:
        done = subprocess.run(command, input=packed.getvalue(), capture_output=True, timeout=MAX_SECONDS, check=True)
        with np.load(io.BytesIO(done.stdout)) as outputs:
            return [np.asarray(output) for output in outputs.values()]
    except (OSError, ValueError, EOFError, subprocess.SubprocessError):
        return None


def check_values(
    graph: Graph,
    shapes: Mapping[str, Sequence[int]],
    orders: Mapping[str, Sequence[int]],
    runs: Mapping[str, Run],
    tolerance: float = TOLERANCE,
) -> None:
    """Raise CompileError if the graph computes other values than all of `runs`, on two random inputs.

    Two, because rounding may change a comparison. A graph with integer scales, or more than MOST_EFFORT, is not compared.
    `shapes` are those of inputs in the model, `orders` the memory orders of their axes in `graph`. `tolerance` is a part of the
    range of an output.
    """
    edges = [graph.tensors[name] for name in (*graph.inputs, *graph.outputs)]
    is_float = graph.inputs and all(edge.quant is None or _is_cast(graph, edge.name) for edge in edges)
    if not runs or not is_float or sum(effort(graph, op) for op in graph.ops) > MOST_EFFORT:
        return
    able, failures = dict(runs), list[tuple[float, str, str]]()
    for given in _draws(graph, shapes):
        stored = {name: np.transpose(value, orders[name]).reshape(graph.tensors[name].shape) for name, value in given.items()}
        with np.errstate(all="ignore"):
            outputs = evaluate(graph, {name: value[None] for name, value in stored.items()})
        compared = list[tuple[float, str, str]]()
        for evaluator, run in list(able.items()):
            expected = run(list(given.values()))
            if expected is None or len(expected) != len(graph.outputs):
                del able[evaluator]
                continue
            apart = [(_difference(outputs[name][0], other), name) for name, other in zip(graph.outputs, expected, strict=True)]
            known = [(each, name, evaluator) for each, name in apart if each is not None]
            if known and max(known)[0] <= tolerance:
                return
            compared += [max(known)] if known else []
        failures += compared[:1]
        if not able or len(failures) == 2:
            break
    if failures:
        difference, name, evaluator = failures[0]
        raise CompileError(
            f"differs from {evaluator} by {difference:.1%} of its range on a random input, so the import changes the model",
            "report this with the model as an error in tinyweave's importer",
            tensor=name,
        )


def _is_cast(graph: Graph, name: str) -> bool:
    """Return whether a tensor is an input of 8-bit integers that the float graph casts to float32."""
    return name in graph.inputs and any(op.kind == "dequantize" for op in graph.ops)


def _draws(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Array]]:
    """Yield random inputs: normal twice, then in [0, 1], as a logarithm needs; int32 0 or 1, 8-bit over the whole range."""
    rng = np.random.default_rng(0)
    for draw in (rng.standard_normal, rng.standard_normal, rng.random):
        yield {
            name: _integers(rng, graph.tensors[name].dtype, shape)
            if graph.tensors[name].dtype != "float32"
            else draw(shape).astype(np.float32)
            for name, shape in shapes.items()
        }


def _integers(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    least, most = (0, 1) if dtype == "int32" else limits(dtype)
    return rng.integers(least, most + 1, size=shape).astype("int64" if dtype == "int32" else dtype)


def _difference(found: Array, expected: Array) -> float | None:
    """Return the largest difference, where both are finite, of the range of `expected`; `found` may have channels last."""
    axes = [extent for extent in found.shape if extent != 1]
    forms = [expected, np.moveaxis(expected, 1, -1)] if expected.ndim > 2 else [expected]
    differences = list[float]()
    for form in forms:
        if [extent for extent in form.shape if extent != 1] != axes:
            continue
        ours, theirs = found.astype(np.float64).ravel(), form.astype(np.float64).ravel()
        both = np.isfinite(ours) & np.isfinite(theirs)
        if not both.any():
            return None
        scale = max(np.ptp(theirs[both]), np.abs(theirs[both]).max(), 1e-6)
        differences.append(float(np.abs(ours - theirs)[both].max() / scale))
    return min(differences, default=np.inf)
