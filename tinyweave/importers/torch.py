"""Import a PyTorch module or a torch.export.ExportedProgram.

In: an nn.Module and an example input, or an ExportedProgram. Out: a Graph, channels last, of float32, or of int8 if torchao's
pt2e quantised it. The ATen ops are read before decomposition, which would break an LSTM or a hard swish into many ops.
`aten.OPS` lists the supported ops.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from . import aten
from .function_chains import fuse_functions
from .program import ImportedProgram, graph_of, op_name
from .pt2 import read_archive
from .shapes import Shapes
from .torch_constants import NOT_FOLDED, aten_op, import_torch


def from_module(module: Any, example: Any, name: str = "", *, compare: bool = False) -> Graph:
    """Return the graph of an nn.Module in evaluation mode; `example` is an input or a tuple of them, with a batch size of 1."""
    return _graph(_exported(module, example), name or type(module).__name__, compare)


def _exported(module: Any, example: Any) -> Any:
    """Return the torch.export.ExportedProgram of a module in evaluation mode; `example` is as for `from_module`."""
    torch = import_torch()
    inputs = example if isinstance(example, tuple) else (example,)
    if not isinstance(module, torch.nn.Module):
        raise CompileError(f"a {type(module).__name__} is not a PyTorch module", "give an nn.Module and an example input")
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            raise CompileError(f"an example input is a {type(value).__name__}", "give a torch.Tensor, or a tuple of them")
    with _evaluation_mode(module), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.export(module, inputs)
        except Exception as error:  # the module or torch's tracer may raise anything
            message = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise CompileError(f"torch.export cannot trace the module: {message}", "make it traceable") from error


def from_any(model: Any, example: Any = None, shapes: Shapes | None = None) -> Graph:
    """Return the graph of a module, with an example input, or of an ExportedProgram, compared with torch.

    `shapes` has the shapes of a program's inputs with dynamic axes. For a module without an example, it has the shape of each
    argument of `forward`, and the example is zeros.
    """
    torch = import_torch()
    if isinstance(model, torch.nn.Module) and shapes:
        if example is not None:
            raise CompileError("the example gives the shapes of the inputs", "leave out shapes, or the example")
        names = [name for name in inspect.signature(model.forward).parameters if name in shapes]
        if unknown := shapes.keys() - {*names}:
            raise CompileError(f"the module's forward has no argument '{min(unknown)}'", "name its arguments")
        example = tuple(torch.zeros(*shapes[name]) for name in names)
    if example is None:
        return from_program(model, shapes=shapes, compare=True)
    return from_module(model, example, compare=True)


def from_program(program: Any, name: str = "model", shapes: Shapes | None = None, *, compare: bool = False) -> Graph:
    """Return the graph of an ExportedProgram; `shapes` is for inputs with dynamic axes, `compare` as in `from_module`."""
    torch = import_torch()
    if not isinstance(program, torch.export.ExportedProgram):
        what = "give an example input beside it" if isinstance(program, torch.nn.Module) else "give a .tflite file or a module"
        raise CompileError(f"a {type(program).__name__} is not an ExportedProgram", what)
    return _graph(program, name, compare, shapes)


def _graph(program: Any, name: str, compare: bool, shapes: Shapes | None = None) -> Graph:
    """Return the graph of an ExportedProgram. If it is refused, try again after torch has decomposed the unknown ops."""
    runs = {"PyTorch": partial(_run, program)} if compare else {}
    try:
        return graph_of(fuse_functions(_converted(program, shapes)), name, runs)
    except CompileError as error:
        if aten.elementwise.OF_BATCH in error.why:  # decomposed, it would look like the norm of an instance
            raise
        try:
            return graph_of(fuse_functions(_converted(_decomposed(program), shapes)), name, runs)
        except Exception:
            raise error from None


def _run(program: Any, given: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
    """Return the outputs of an ExportedProgram, whose buffers stay as they are; None if PyTorch cannot run it."""
    torch = import_torch()
    users = set(program.graph_signature.user_inputs)
    types = [node.meta["val"].dtype for node in program.graph.nodes if node.op == "placeholder" and node.name in users]
    try:
        inputs = [torch.from_numpy(value).to(dtype) for value, dtype in zip(given, types, strict=True)]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = deepcopy(program.module())(*inputs)
        return [output.numpy() for output in torch.utils._pytree.tree_leaves(outputs)]
    except Exception:  # a module may raise anything
        return None


def _decomposed(program: Any) -> Any:
    """Return an ExportedProgram without in-place ops, in which torch has decomposed all ops that are not in `aten.OPS`."""
    usual = import_torch().export.default_decompositions()
    table = {op: how for op, how in usual.items() if op_name(str(op).removeprefix("aten.")) not in aten.OPS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.run_decompositions(table)


@contextmanager
def _evaluation_mode(module: Any) -> Iterator[None]:
    """A context in which a module is in evaluation mode; an exported module, such as torchao's, has no modes."""
    training = [part for part in module.modules() if part.training]
    with suppress(NotImplementedError):
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _converted(program: Any, shapes: Shapes | None = None) -> ImportedProgram:
    """Return an ExportedProgram as an ImportedProgram, read from the bytes of its .pt2 file."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import_torch().export.save(program, file)
        except Exception as error:  # a tensor may be of any class
            message = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise CompileError(f"torch.export.save cannot write the module: {message}", "make its tensors dense") from error
    return read_archive(file.getvalue(), shapes, _is_foldable)


def _is_foldable(op: str) -> bool:
    """Return whether torch computes an ATen op on constants. Any op may be one, as long as it is not random."""
    function = aten_op(op)
    if function is None or op.removesuffix("_") in NOT_FOLDED or op.startswith("_assert"):
        return False
    tags = {tag.name for name in function.overloads() for tag in getattr(function, name).tags}
    if "nondeterministic_seeded" in tags and op not in aten.OPS:
        raise CompileError(f"{op} makes random numbers", "remove it in evaluation mode")
    return True
