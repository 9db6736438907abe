"""Import a file or a PyTorch module and run the passes.

Files of other formats are converted to .tflite first, so that LiteRT can run them. If ops cannot be compiled, one error names
them all.
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
from ..ir import CompileError, Graph, shortened
from ..kernels.table import without_kernel
from ..lazy import lazy
from ..passes import run_passes, run_tolerantly
from ..passes.stream_time import stream_time
from .results import Model

if TYPE_CHECKING:
    from ..importers import onnx, pt2, torch
else:
    onnx, pt2, torch = (lazy(f"importers.{name}") for name in ("onnx", "pt2", "torch"))

IO = ("model", "int8")
LAYOUTS = ("model", "nhwc")
AUTO = "auto"  # the hop that fits the strides of the network
MOST_FRAMES = 1 << 20


def load_file(path: str | Path, io: str = "model", name: str | None = None, *, layout: str = "model") -> Model:
    """Import a file and run the passes.

    `io="int8"` strips float and uint8 inputs and outputs; `layout="nhwc"` puts channels last.
    """
    model, reasons = _imported(Path(path), name, io, layout)
    if reasons:
        raise _cannot_compile(model.path, reasons)
    return model


def load_module(
    module: Any, example: Any = None, io: str = "model", name: str | None = None, *, layout: str = "model"
) -> Model:
    """Import a PyTorch module with an example of its input, or an ExportedProgram, as a float model; see `load_file`.

    The model's `file` is the module converted to .tflite; no file exists at its `path`.
    """
    _check_edges(io, layout)
    graph = torch.from_program(module) if example is None else torch.from_module(module, example)
    graph = replace(graph, name=graph.name if name is None else name)
    model = Model(_name(name, graph.name), graph, graph, {}, Path(f"{graph.name}.tflite"), to_tflite(graph), "model")
    return with_io(model, io, layout)


def inspect_file(path: str | Path, io: str = "model", *, layout: str = "model") -> tuple[Model, list[CompileError]]:
    """Import a file as far as possible; return the model, and the reason of each op that cannot be compiled.

    If any reason is more than a missing kernel, such ops have the kind `ir.UNSUPPORTED`, and only the first passes have run.
    """
    model, reasons = _imported(Path(path), None, io, layout)
    return model, reasons or without_kernel(model.graph)


def read(path: str | Path, name: str | None = None) -> Model:
    """Import a file without passes, even if it cannot be compiled; `reorder`, `quantize` and `prune` need such models."""
    path = Path(path)
    file = _tflite_of(path)
    return _model(path, name, tflite.from_tflite(file, path.stem), file)


def with_io(model: Model, io: str, layout: str) -> Model:
    """Run the passes again with other options `io` and `layout` of `load_file`; a streaming model keeps its hop."""
    graph, tensors = run_passes(model.original, float_io=io == "model", own_layout=layout == "model")
    edged = replace(model, graph=graph, tensors=tensors, io=io, layout=layout, stream=None)
    return streamed(edged, model.stream.hop) if model.stream else edged


def streamed(model: Model, hop: int | str | None) -> Model:
    """Return the model that takes `hop` new frames of its window per call; the model itself if `hop` is None.

    "auto" chooses the hop from the network's strides. Raise CompileError if no layer would have less work.
    """
    if hop is None:
        return model
    text = str(hop)
    if text != AUTO and (not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= MOST_FRAMES or len(text) > 9):
        raise CompileError(f"--stream-time {text[:40]} is not a number of frames", f"give a whole number above 0, or {AUTO}")
    stream = stream_time(model.whole.graph, None if text == AUTO else int(text))
    return replace(model, graph=stream.graph, stream=stream)


def origins(models: Sequence[Model]) -> dict[str, tuple[str, str]]:
    """Return the name and SHA-256 of each model's file, by the model's name in C."""
    return {model.name: (model.path.name, model.sha256) for model in models}


def check_kernels(model: Model) -> None:
    """Raise CompileError if the model has no ops, or has ops without a kernel."""
    if not model.graph.ops:
        raise CompileError("the network has no ops: each output is an input or a constant", "there is nothing to compile")
    if reasons := without_kernel(model.graph):
        raise _cannot_compile(model.path, reasons)


def _check_edges(io: str, layout: str) -> None:
    if io not in IO:
        raise CompileError(f"--io {io} is unknown", f"it is one of {', '.join(IO)}")
    if layout not in LAYOUTS:
        raise CompileError(f"--layout {layout} is unknown", f"it is one of {', '.join(LAYOUTS)}")


def _tflite_of(path: Path) -> bytes:
    """Return the bytes of a .tflite file, or a file of another format converted to .tflite."""
    match path.suffix.lower():
        case ".onnx":
            raw = read_file(path, onnx.MAX_FILE, "give a readable .onnx file")
            return to_tflite(onnx.from_onnx(raw, path.stem, lambda name: _beside(path, name)))
        case ".pt2":
            return to_tflite(pt2.from_pt2(read_file(path, pt2.MAX_FILE, "give a readable .pt2 file"), path.stem))
    return read_file(path, tflite.MAX_FILE, "give a readable .tflite, .onnx or .pt2 file")


def _beside(path: Path, name: str) -> bytes:
    """Return the bytes of a file in the folder of `path`; refuse links, which may lead elsewhere."""
    other = path.with_name(name)
    if other.is_symlink():
        raise CompileError(f"'{other}' is a link", onnx.BESIDE)
    return read_file(other, onnx.MAX_FILE, onnx.BESIDE)


def _model(path: Path, name: str | None, graph: Graph, file: bytes) -> Model:
    return Model(_name(name, path.stem), graph, graph, {}, path, file, "model")


def _name(given: str | None, origin: str) -> str:
    """Return the prefix of the C names: `given`, or an identifier made from `origin`."""
    name = identifier(origin if given is None else given)
    if given is not None and name != given:
        raise CompileError(f"the C names cannot begin with the name '{shortened(given)}'", f"give for example {name}")
    return name


def _imported(path: Path, name: str | None, io: str, layout: str) -> tuple[Model, list[CompileError]]:
    """Return the compilable model and no reasons, or the model as far as it can be read and the reasons of its ops."""
    _check_edges(io, layout)
    file = _tflite_of(path)
    try:
        return with_io(_model(path, name, tflite.from_tflite(file, path.stem), file), io, layout), []
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
    """Return the error for a model with ops that are not supported."""
    kinds = Counter(error.op.kind for error in reasons if error.op)
    counts = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    if all("float32" in error.why for error in reasons):
        why = f"it is a float model: {count} op{'s compute' if count > 1 else ' computes'} on float32"
        return CompileError(why, f"make it int8 with 'tinyweave quantize {shlex.quote(str(path))} --calibrate SAMPLES'")
    why = f"{count} op{'s' if count > 1 else ''} cannot be compiled: {counts}; {reasons[0]}"
    return CompileError(why, f"'tinyweave inspect {shlex.quote(str(path))}' lists all")
