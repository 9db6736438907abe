"""Models: from a file, or a PyTorch module, to a graph after the passes.

In: the path of a .tflite, .onnx or .pt2 file or a module, and what its edges are to be. Out: a Model, or one error that names
all that cannot be compiled. What is no .tflite file becomes one first: LiteRT runs it, and other tools open it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen.names import identifier
from ..exporters.tflite import to_tflite
from ..files import read_file
from ..importers import tflite
from ..ir import CompileError, Graph
from ..kernels.table import without_kernel
from ..lazy import lazy
from ..passes import run_passes, run_tolerantly
from ..passes.stream_time import stream_time
from ..results import Model

if TYPE_CHECKING:
    from ..importers import onnx, pt2, torch
else:
    onnx, pt2, torch = (lazy(f"importers.{name}") for name in ("onnx", "pt2", "torch"))

IO = ("model", "int8")
LAYOUTS = ("model", "nhwc")
AUTO = "auto"  # the hop that the strides of a network suggest
MOST_FRAMES = 1 << 20


def load(path: str | Path, io: str = "model", name: str | None = None, *, layout: str = "model") -> Model:
    """Import a file and run the passes; `io="int8"` strips float and uint8 edges, `layout="nhwc"` transposes there."""
    model, reasons = _imported(Path(path), name, io, layout)
    if reasons:
        raise _cannot_compile(model.path, reasons)
    return model


def load_module(
    module: Any, example: Any = None, io: str = "model", name: str | None = None, *, layout: str = "model"
) -> Model:
    """Import a PyTorch module with an example of its input, or an ExportedProgram, as a float model; edges as in `load`.

    The model's file is what the module is as .tflite; its path, where nothing lies, is named after the module.
    """
    _check_edges(io, layout)
    graph = torch.from_program(module) if example is None else torch.from_module(module, example)
    graph = replace(graph, name=name or graph.name)
    model = Model(identifier(graph.name), graph, graph, {}, Path(f"{graph.name}.tflite"), to_tflite(graph), "model")
    return with_edges(model, io, layout)


def look_at(path: str | Path, io: str = "model", *, layout: str = "model") -> tuple[Model, list[CompileError]]:
    """Import a file as far as that can be done, to be inspected; and per op that cannot be compiled the reason.

    Where there are reasons other than missing kernels, such ops are of the kind `ir.UNSUPPORTED`, and the graph is as the file
    has it but for what the first passes do.
    """
    model, reasons = _imported(Path(path), None, io, layout)
    return model, reasons or without_kernel(model.graph)


def read(path: str | Path, name: str | None = None) -> Model:
    """Import a file as it is, also one that cannot be compiled: what `reorder` needs."""
    path = Path(path)
    file = _tflite_of(path)
    return _model(path, name, tflite.from_tflite(file, path.stem), file)


def with_edges(model: Model, io: str, layout: str) -> Model:
    """Return an imported model after the passes that give it these edges, see `load`; with the same hop, if it has one."""
    graph, tensors = run_passes(model.original, float_io=io == "model", own_layout=layout == "model")
    edged = replace(model, graph=graph, tensors=tensors, io=io, layout=layout, stream=None)
    return streamed(edged, model.stream.hop) if model.stream else edged


def streamed(model: Model, hop: int | str | None) -> Model:
    """Return the model that takes `hop` new frames of its window at each call, of "auto" as many as the network steps by;
    without a hop the model itself.

    Raise CompileError where no layer has less to do then.
    """
    if hop is None:
        return model
    text = str(hop)
    if text != AUTO and (not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= MOST_FRAMES or len(text) > 9):
        raise CompileError(f"--stream-time {text[:40]} is no number of frames", f"give a whole number above 0, or {AUTO}")
    stream = stream_time(model.whole.graph, None if text == AUTO else int(text))
    return replace(model, graph=stream.graph, stream=stream)


def check_kernels(model: Model) -> None:
    """Raise CompileError where an op of the model has no kernel."""
    if reasons := without_kernel(model.graph):
        raise _cannot_compile(model.path, reasons)


def _check_edges(io: str, layout: str) -> None:
    if io not in IO:
        raise CompileError(f"--io {io} is unknown", f"it is one of {', '.join(IO)}")
    if layout not in LAYOUTS:
        raise CompileError(f"--layout {layout} is unknown", f"it is one of {', '.join(LAYOUTS)}")


def _tflite_of(path: Path) -> bytes:
    """Return the bytes of a .tflite file, or what a file of another format is as one."""
    match path.suffix.lower():
        case ".onnx":
            raw = read_file(path, onnx.MAX_FILE, "give a readable .onnx file")
            return to_tflite(onnx.from_onnx(raw, path.stem, lambda name: _beside(path, name)))
        case ".pt2":
            return to_tflite(pt2.from_pt2(read_file(path, pt2.MAX_FILE, "give a readable .pt2 file"), path.stem))
    return read_file(path, tflite.MAX_FILE, "give a readable .tflite, .onnx or .pt2 file")


def _beside(path: Path, name: str) -> bytes:
    """Return the bytes of a file beside another; a link could lead elsewhere."""
    other = path.with_name(name)
    if other.is_symlink():
        raise CompileError(f"'{other}' is a link", onnx.BESIDE)
    return read_file(other, onnx.MAX_FILE, onnx.BESIDE)


def _model(path: Path, name: str | None, graph: Graph, file: bytes) -> Model:
    return Model(identifier(name or path.stem), graph, graph, {}, path, file, "model")


def _imported(path: Path, name: str | None, io: str, layout: str) -> tuple[Model, list[CompileError]]:
    """Return the model; where it cannot be compiled as far as it can be read, and the reasons that ops give."""
    _check_edges(io, layout)
    file = _tflite_of(path)
    try:
        return with_edges(_model(path, name, tflite.from_tflite(file, path.stem), file), io, layout), []
    except CompileError as error:
        reasons: list[CompileError] = []
        try:
            graph = run_tolerantly(tflite.from_tflite(file, path.stem, reasons), reasons)
        except CompileError:
            raise error from None
        # what has no kernel for its shape may get one by the other passes; a type stays
        reasons += [reason for reason in without_kernel(graph) if "on float32" in reason.why]
        if not reasons:
            raise
        return _model(path, name, graph, file), reasons


def _cannot_compile(path: Path, reasons: Sequence[CompileError]) -> CompileError:
    """Return the one line for a model with ops that are not supported."""
    kinds = Counter(error.op.kind for error in reasons if error.op)
    counts = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    if all("float32" in error.why for error in reasons):
        why = f"it is a float model: {count} op{'s compute' if count > 1 else ' computes'} on float32"
        return CompileError(why, f"make it int8 with 'tinyweave quantize {shlex.quote(str(path))} --calibrate SAMPLES'")
    why = f"{count} op{'s' if count > 1 else ''} cannot be compiled: {counts}; {reasons[0]}"
    return CompileError(why, f"'tinyweave inspect {shlex.quote(str(path))}' lists all")
