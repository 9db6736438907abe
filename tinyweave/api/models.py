"""Import a model file or a PyTorch module and run the passes (graph simplifications) on it.

Models of other formats are converted to .tflite first, so that LiteRT can run them. If several ops cannot be compiled, one
CompileError names all of them.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..importers import tflite
from ..importers.shapes import Shapes
from ..ir import CompileError, Graph, shortened
from ..passes import run_passes, run_tolerantly
from ..support.c_names import identifier
from ..support.files import read_file
from .results import Model

IO = ("auto", "model", "int8")
LAYOUTS = ("model", "nhwc")
IN_PYTHON = (
    "save the network itself: torch.export.save(torch.export.export(net.eval(), (x,)), 'net.pt2'); 'tinyweave docs pytorch'"
)
BY_KERAS = "convert it with TensorFlow, tf.lite.TFLiteConverter.from_keras_model(net).convert(); 'tinyweave docs keras'"
BY_TENSORFLOW = "convert its folder with TensorFlow, tf.lite.TFLiteConverter.from_saved_model(folder).convert()"
# suffix of a file or folder of another format -> what it is, and what to do
FOREIGN: dict[str, tuple[str, str]] = {
    **dict.fromkeys((".pt", ".pth", ".ckpt"), ("a PyTorch file of weights or of a pickled module", IN_PYTHON)),
    **dict.fromkeys((".ptl", ".torchscript"), ("a TorchScript file", IN_PYTHON)),
    ".safetensors": ("a file of weights without their network", IN_PYTHON),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), ("a Keras model", BY_KERAS)),
    ".pb": ("a TensorFlow model", BY_TENSORFLOW),
    **dict.fromkeys(
        (".mlmodel", ".mlpackage"), ("a Core ML model", "give the model that it was converted from, as .onnx or .pt2")
    ),
    ".pte": ("an ExecuTorch program, compiled for its runtime", IN_PYTHON),
    ".ort": ("a model in ONNX Runtime's own format", "give the .onnx file that it was made from"),
}
AUTO = "auto"  # value of --stream-time: choose the frames per call that fit the network's strides
MOST_FRAMES = 1 << 20
ON_FLOAT = "on float32"  # in the reason why a float op cannot be compiled


def load_file(
    path: str | Path, io: str = "auto", name: str | None = None, *, layout: str = "model", shapes: Shapes | None = None
) -> Model:
    """Import a .tflite, .onnx or .pt2 file and run the passes; the arguments are those of `load`."""
    model, reasons = _imported(Path(path), name, io, layout, shapes)
    if reasons:
        raise _cannot_compile(model.path, reasons)
    return model


def load_module(
    module: Any,
    example: Any = None,
    io: str = "auto",
    name: str | None = None,
    *,
    layout: str = "model",
    shapes: Shapes | None = None,
) -> Model:
    """Import a PyTorch module or an ExportedProgram as a model; the arguments are those of `load`.

    The model's `file` is the module converted to .tflite. No file exists at the model's `path`.
    """
    from ..exporters.tflite import to_tflite
    from ..importers import torch

    _check_edges(io, layout)
    graph = torch.from_any(module, example, shapes)
    graph = replace(graph, name=graph.name if name is None else name)
    model = Model(_name(name, graph.name), graph, graph, {}, Path(f"{graph.name}.tflite"), to_tflite(graph), "model")
    return with_io(model, io, layout)


def load_float_module(module: Any, samples: Any) -> tuple[Model, Any]:
    """Import a PyTorch module, traced with the first of the samples of `quantize`; return the model and the samples.

    An array or tensor of samples has one sample per index of its first axis. In another iterable, a sample is an array or
    tensor with a batch of 1, or a tuple of them, one per input.
    """
    pytorch = sys.modules.get("torch")  # imported, if the module is one of torch
    is_module = pytorch is not None and isinstance(module, pytorch.nn.Module)
    if pytorch is None or not is_module or isinstance(samples, (str, Path)):
        what = f"a {type(module).__name__}" + (" with samples in files" if is_module else "")
        raise CompileError(f"{what} cannot be quantised", "give the path of a file, or a model of tw.load(module, example)")
    samples = samples if hasattr(samples, "shape") else list(samples)
    if not len(samples):
        raise CompileError("there are no calibration samples", "give at least one; a hundred or two are usual")
    first = samples[:1] if hasattr(samples, "shape") else samples[0]
    parts = [pytorch.as_tensor(part) for part in (first if isinstance(first, (tuple, list)) else [first])]
    example = tuple(part.float() if part.dtype == pytorch.float64 else part for part in parts)
    return load_module(module, example), samples.detach().cpu().numpy() if hasattr(samples, "detach") else samples


def inspect_file(
    path: str | Path, io: str = "auto", *, layout: str = "model", shapes: Shapes | None = None
) -> tuple[Model, list[CompileError]]:
    """Import a file even if some ops cannot be compiled, and return the model with an error per such op.

    If ops have no kernel but are otherwise supported, all passes have run. If an op is unknown or breaks a constraint, its kind
    in the graph is `ir.UNSUPPORTED`, and only the first passes have run.
    """
    model, reasons = _imported(Path(path), None, io, layout, shapes)
    return model, reasons or without_kernel(model.graph)


def read(path: str | Path, name: str | None = None, shapes: Shapes | None = None) -> Model:
    """Import a file without running the passes, for `reorder` and `quantize`; ops without a kernel are allowed."""
    path = Path(path)
    file = _tflite_of(path, shapes)
    return _model(path, name, tflite.from_tflite(file, path.stem), file)


def with_io(model: Model, io: str, layout: str, *, retrainable: bool | None = None) -> Model:
    """Return the model with the passes run again for other `io` and `layout` (see `load_file`), or to be `retrainable`.

    A model that streams in time keeps its number of new frames per call.
    """
    about: dict[str, Any] = {"io": io, "layout": layout}
    about["retrainable"] = model.retrainable if retrainable is None else retrainable
    graph, tensors = run_passes(model.original, **about)
    edged = replace(model, graph=graph, tensors=tensors, stream=None, **about)
    return streamed(edged, model.stream.hop) if model.stream else edged


def for_file(model: Model) -> Model:
    """Return the model with all its channels, so that a file of weights also suits this network trained again."""
    return model if model.retrainable else with_io(model, model.io, model.layout, retrainable=True)


def streamed(model: Model, hop: int | str | None) -> Model:
    """Return the model as one that takes `hop` new frames per call, and keeps rows that earlier calls computed as state.

    `hop` is a number, digits, or "auto" to choose it from the network's strides; None returns `model` as it is. Raise
    CompileError if it is malformed, or no layer would have less work than for a whole window.
    """
    if hop is None:
        return model
    from ..passes.stream_time import stream_time

    text = str(hop)
    if text != AUTO and (not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= MOST_FRAMES or len(text) > 9):
        raise CompileError(f"--stream-time {text[:40]} is not a number of frames", f"give a whole number above 0, or {AUTO}")
    stream = stream_time(model.whole.graph, None if text == AUTO else int(text))
    return replace(model, graph=stream.graph, stream=stream)


def origins(models: Sequence[Model]) -> dict[str, tuple[str, str]]:
    """Map each model's C name to the name and the SHA-256 of its file."""
    return {model.name: (model.path.name, model.sha256) for model in models}


def check_kernels(model: Model) -> None:
    """Raise CompileError if the model has no ops, or if no kernel supports one of its ops."""
    if not model.graph.ops:
        raise CompileError("the network has no ops: each output is an input or a constant", "there is nothing to compile")
    if reasons := without_kernel(model.graph):
        raise _cannot_compile(model.path, reasons)


def without_kernel(graph: Graph) -> list[CompileError]:
    """Return an error for each op of a graph that no kernel supports."""
    from ..kernels.table import without_kernel

    return without_kernel(graph)


def _check_edges(io: str, layout: str) -> None:
    """Raise CompileError if the option `io` or `layout` has an unknown value."""
    if io not in IO:
        raise CompileError(f"--io {io} is unknown", f"it is one of {', '.join(IO)}")
    if layout not in LAYOUTS:
        raise CompileError(f"--layout {layout} is unknown", f"it is one of {', '.join(LAYOUTS)}")


def _check_format(path: Path) -> None:
    """Raise CompileError if the file or folder has another format than .tflite, .onnx and .pt2, by its name."""
    suffix = ".pb" if (path / "saved_model.pb").is_file() else path.suffix.lower()
    if suffix in FOREIGN and path.exists():
        what, to_do = FOREIGN[suffix]
        raise CompileError(f"'{path}' is {what}", to_do)


def _tflite_of(path: Path, shapes: Shapes | None) -> bytes:
    """Return the bytes of a .tflite file, or of a .onnx or .pt2 file converted to .tflite.

    `shapes` gives inputs with dynamic axes a shape.
    """
    _check_format(path)
    suffix = path.suffix.lower()
    if suffix not in (".onnx", ".pt2"):
        file = read_file(path, tflite.MAX_FILE, "give a readable .tflite, .onnx or .pt2 file")
        if not shapes:
            return file
        graph = tflite.from_tflite(file, path.stem, shapes=shapes)
    elif suffix == ".onnx":
        from ..importers import onnx

        raw = read_file(path, onnx.MAX_FILE, "give a readable .onnx file")
        graph = onnx.from_onnx(raw, path.stem, lambda name: _beside(path, name), path, shapes)
    else:
        from ..importers import pt2

        graph = pt2.from_pt2(read_file(path, pt2.MAX_FILE, "give a readable .pt2 file"), path.stem, shapes)
    from ..exporters.tflite import to_tflite

    return to_tflite(graph)


def _beside(path: Path, name: str) -> bytes:
    """Read the file `name` in the folder of `path`; raise CompileError for a link, which may lead out of the folder."""
    from ..importers import onnx

    other = path.with_name(name)
    if other.is_symlink():
        raise CompileError(f"'{other}' is a link", onnx.BESIDE)
    return read_file(other, onnx.MAX_FILE, onnx.BESIDE)


def _model(path: Path, name: str | None, graph: Graph, file: bytes) -> Model:
    """Return the model of an imported graph, before the passes."""
    return Model(_name(name, path.stem), graph, graph, {}, path, file, "model")


def _name(given: str | None, origin: str) -> str:
    """Return the prefix of the C names: `given` if it is not None, else an identifier made from `origin`."""
    name = identifier(origin if given is None else given)
    if given is not None and name != given:
        raise CompileError(f"the C names cannot begin with the name '{shortened(given)}'", f"give for example {name}")
    return name


def _imported(path: Path, name: str | None, io: str, layout: str, shapes: Shapes | None) -> tuple[Model, list[CompileError]]:
    """Import a file and run the passes; if that fails, import as much of it as possible.

    Returns:
        The model, and an empty list if the passes succeeded. Otherwise the graph as far as it could be read, and an error per
        op that is not supported.
    """
    _check_edges(io, layout)
    file = _tflite_of(path, shapes)
    try:
        return with_io(_model(path, name, tflite.from_tflite(file, path.stem), file), io, layout), []
    except CompileError as error:
        reasons: list[CompileError] = []
        try:
            graph = run_tolerantly(tflite.from_tflite(file, path.stem, reasons), reasons)
        except CompileError:
            raise error from None
        # passes that have not run may still change a shape that no kernel supports, but not the type float32
        reasons += [reason for reason in without_kernel(graph) if ON_FLOAT in reason.why]
        if not reasons:
            raise
        return _model(path, name, graph, file), reasons


def _cannot_compile(path: Path, reasons: Sequence[CompileError]) -> CompileError:
    """Return one error that counts the ops in `reasons` (an error per op that is not supported) by kind."""
    floats = sum(ON_FLOAT in error.why for error in reasons)
    others = [error for error in reasons if ON_FLOAT not in error.why]
    real = f"it is a float model: {floats} op{'s compute' if floats > 1 else ' computes'} on float32"
    if not others:
        command = f"'tinyweave quantize {shlex.quote(str(path))} --inputs SAMPLES'"
        return CompileError(real, f"make it int8 with {command if path.exists() else 'tw.quantize(model, samples)'}")
    kinds = Counter(error.op.kind for error in others if error.op)
    counts = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    why = f"{count} op{'s' if count > 1 else ''} cannot be compiled: {counts}; {others[0]}"
    why = f"{real}, and {why}" if floats else why
    return CompileError(why, f"'tinyweave inspect {shlex.quote(str(path))}' lists all")
