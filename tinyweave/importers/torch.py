"""Import a PyTorch module or a torch.export.ExportedProgram.

In: an nn.Module and an example input, or an ExportedProgram. Out: a Graph, channels last, of float32, or of int8 if torchao's
pt2e quantised it. The ATen ops are read before decomposition, which would break an LSTM or a hard swish into many ops.
`aten.OPS` lists the supported ops.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from ..installing import install
from ..ir import CompileError, Graph
from . import aten
from .function_chains import fuse_functions
from .program import (
    CHANGED,
    ImportedProgram,
    Node,
    Ref,
    changed_in_place,
    check_quantised_inputs,
    checked_state,
    graph_of,
    input_type_advice,
    line_of,
    op_name,
    refs,
)

QUANTISED = "quantized_decomposed."  # the namespace of torchao's ops


def from_module(module: Any, example: Any, name: str = "", *, compare: bool = False) -> Graph:
    """Return the graph of an nn.Module in evaluation mode, called `name`, or by default like the module's class.

    `example` is an input tensor, or a tuple of input tensors, with a batch size of 1. If `compare` is set, the values of a
    float graph are compared with PyTorch.
    """
    return _graph(_exported(module, example), name or type(module).__name__, compare)


def trace(module: Any, example: Any) -> ImportedProgram:
    """Trace a module in evaluation mode with torch.export and return the program.

    `example` is an input tensor, or a tuple of input tensors, with a batch size of 1.
    """
    return _converted(_exported(module, example))


def _exported(module: Any, example: Any) -> Any:
    """Return the torch.export.ExportedProgram of a module in evaluation mode.

    `example` is an input tensor, or a tuple of input tensors, with a batch size of 1.
    """
    torch = _torch()
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


def from_program(program: Any, name: str = "model", *, compare: bool = False) -> Graph:
    """Return the graph of a torch.export.ExportedProgram, called `name`; `compare` is as for `from_module`."""
    torch = _torch()
    if not isinstance(program, torch.export.ExportedProgram):
        what = "give an example input beside it" if isinstance(program, torch.nn.Module) else "give a .tflite file or a module"
        raise CompileError(f"a {type(program).__name__} is not an ExportedProgram", what)
    return _graph(program, name, compare)


def _graph(program: Any, name: str, compare: bool) -> Graph:
    """Return the graph of an ExportedProgram. If it is refused, try again after torch has decomposed the unknown ops."""
    runs = {"PyTorch": partial(_run, program)} if compare else {}
    try:
        return graph_of(fuse_functions(_converted(program)), name, runs)
    except CompileError as error:
        try:
            return graph_of(fuse_functions(_converted(_decomposed(program))), name, runs)
        except Exception:
            raise error from None


def _run(program: Any, given: Sequence[np.ndarray]) -> Sequence[np.ndarray] | None:
    """Return the outputs of an ExportedProgram, whose buffers stay as they are; None if PyTorch cannot run it."""
    torch = _torch()
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
    table = {op: how for op, how in _torch().export.default_decompositions().items() if _short(str(op)) not in aten.OPS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.run_decompositions(table)


def _torch() -> Any:
    """Return the module torch; raise CompileError if it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise CompileError("torch is not installed", install("torch")) from error
    return torch


@contextmanager
def _evaluation_mode(module: Any) -> Iterator[None]:
    """A context in which a module is in evaluation mode; afterwards each submodule has its previous mode again.

    An exported module, such as a model quantised by torchao, has no modes: the exporter has fixed what each op computes.
    """
    training = [part for part in module.modules() if part.training]
    with suppress(NotImplementedError):
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _converted(program: Any) -> ImportedProgram:
    """Return an ExportedProgram as an ImportedProgram. Nodes whose arguments are all constant are computed here by torch."""
    torch = _torch()
    signature = program.graph_signature
    tensors = {**program.state_dict, **program.constants}
    sources = {spec.arg.name: spec for spec in signature.input_specs}
    known, inputs = dict[str, Any](), dict[str, tuple[int, ...]]()
    nodes, outputs, stale, integers, quantised = list[Node](), list[Ref](), set[str](), set[str](), set[str]()
    calls = {node.name: _node(torch, node) for node in program.graph.nodes if node.op == "call_function"}
    updates = _buffer_updates(signature)
    buffers = {name for name, spec in sources.items() if spec.kind.name == "BUFFER"}
    changed = changed_in_place((*calls.values(), *updates)) & buffers
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = sources[node.name]
            if spec.target is not None and node.name not in changed:
                known[node.name] = tensors[spec.target]
            elif spec.target is None:
                inputs[node.name] = _input_shape(torch, node)
                integers |= {node.name} if node.meta["val"].dtype in (torch.int32, torch.int64) else set()
                quantised |= {node.name} if node.meta["val"].dtype in (torch.int8, torch.uint8) else set()
        elif node.op == "output":
            kinds = [spec.kind.name for spec in signature.output_specs]
            found = [value for value, kind in zip(node.args[0], kinds, strict=True) if kind == "USER_OUTPUT"]
            outputs = [_output(torch, value, stale) for value in found]
        elif node.op == "call_function":
            _check_not_stale(node.all_input_nodes, stale)
            depends = any(value.name not in known for value in node.all_input_nodes)
            if depends and _name(node).endswith("_"):
                stale |= _overlapping(torch, known, node.args[0])
            if not depends and not str(node.target).startswith(QUANTISED):
                if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and _name(node) not in aten.OPS:
                    raise CompileError(f"{_name(node)} makes random numbers", "remove it in evaluation mode")
                with torch.no_grad():
                    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda value: known[value.name])
                    known[node.name] = node.target(*args, **kwargs)
            elif not str(node.target).startswith("aten._assert"):
                nodes.append(calls[node.name])
        else:
            raise CompileError(f"the program has a {node.op} in '{node.name}'", "export it by torch.export.export")
    check_quantised_inputs(quantised, nodes, outputs)
    used = {ref.name for node in nodes for ref in refs(node)}
    constants = {key: _array(torch, key, value, sources) for key, value in known.items() if key in used}
    states = {
        name: checked_state(sources[name].target, _array(torch, name, tensors[sources[name].target], sources))
        for name in sorted(changed)
    }
    return ImportedProgram(inputs, constants, [*nodes, *updates], outputs, aten.OPS, "PyTorch", integers, states)


def _buffer_updates(signature: Any) -> list[Node]:
    """Return nodes that copy the new values of buffers, which a decomposed program has as outputs, into the buffers."""
    buffers = {spec.target: spec.arg.name for spec in signature.input_specs}
    return [
        Node(f"new_{spec.arg.name}", "copy_", (Ref(buffers[spec.target]), Ref(spec.arg.name)))
        for spec in signature.output_specs
        if spec.kind.name == "BUFFER_MUTATION"
    ]


def _output(torch: Any, value: Any, stale: Collection[str]) -> Ref:
    """Return a network output, a node of the torch.fx graph, as a Ref.

    Raise CompileError if it is not a tensor, or if it is in `stale`, the names of the constants whose known value is out of
    date because an op of the network changes their memory in place.
    """
    if not isinstance(value, torch.fx.Node):
        raise CompileError(f"an output of the module is {value!r}, not a tensor", "return only tensors")
    _check_not_stale([value], stale)
    return Ref(value.name)


def _check_not_stale(read: Iterable[Any], stale: Collection[str]) -> None:
    """Raise CompileError if a node in `read` is a stale constant.

    A constant is stale if it is a view of memory that an op of the network has changed in place: its known value is then out of
    date. `stale` has the names of these constants.
    """
    for value in read:
        if value.name in stale:
            raise CompileError(CHANGED, "use the out-of-place op", tensor=value.name)


def _overlapping(torch: Any, known: Mapping[str, Any], changed: Any) -> set[str]:
    """Return the names of the constants in `known` that share memory with the constant `changed`, which itself is left out."""
    leaves = torch.utils._pytree.tree_leaves
    storages = {name: {part.untyped_storage().data_ptr() for part in leaves(value)} for name, value in known.items()}
    name = changed.name if isinstance(changed, torch.fx.Node) else ""
    return {other for other, parts in storages.items() if other != name and parts & storages.get(name, set())}


def _input_shape(torch: Any, node: Any) -> tuple[int, ...]:
    """Return the shape of the network input `node`; raise CompileError if it is dynamic, or neither float32 nor integers."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise CompileError(f"is {value!r}, not a tensor", "make all inputs tensors", tensor=node.name)
    if not all(isinstance(extent, int) for extent in value.shape):
        raise CompileError(f"has the dynamic shape {list(value.shape)}", "export it with fixed shapes", tensor=node.name)
    if value.dtype not in (torch.float32, torch.int32, torch.int64, torch.int8, torch.uint8):
        raise CompileError(f"is an input of {value.dtype}", input_type_advice(str(value.dtype)), tensor=node.name)
    return tuple(value.shape)


def _name(node: Any) -> str:
    """Return the op of a torch.fx node: an ATen op without namespace and overload, or "getitem" for indexing in Python."""
    return "getitem" if node.target is operator.getitem else _short(str(node.target))


def _short(target: str) -> str:
    """Return the short name of the op `target`, such as "conv2d" for "aten.conv2d.default"."""
    return op_name(target.removeprefix("aten.").removeprefix(QUANTISED))


def _node(torch: Any, node: Any) -> Node:
    """Convert a node of the torch.fx graph to a Node of the ImportedProgram."""

    def plain(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return Ref(value.name)
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        return value

    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kwargs = {key: plain(value) for key, value in node.kwargs.items() if value is not None}
    where, line = str(stack[-1][0]) if stack else "", line_of(node.meta.get("stack_trace"))
    return Node(node.name, _name(node), tuple(map(plain, node.args)), kwargs, where, line)


def _array(torch: Any, name: str, value: Any, sources: Any) -> np.ndarray:
    """Return the constant `name` as an array: float32, a mask of bools, or integers that are indices or dequantised later.

    `sources` has the torch input spec of each parameter and buffer, for its name in messages. Only parameters must be finite.
    """
    known, integers = sources.get(name), (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool)
    label = known.target if known is not None and known.target else name
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, *integers):
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise CompileError(f"is {kind}", "only float32 parameters are supported: call .float()", tensor=label)
    is_parameter = known is not None and known.kind.name == "PARAMETER"
    if torch.isnan(value).any() or (is_parameter and not torch.isfinite(value).all()):  # other constants may be masks
        raise CompileError("holds values that are not finite", "train it again, or repair it", tensor=label)
    return np.asarray(value.detach().numpy())
