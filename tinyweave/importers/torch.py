"""A PyTorch module, or a program that torch.export wrote, as a Graph.

In: an nn.Module and an example of its input, or an ExportedProgram. Out: a Graph, channels last, of float32, or of int8 if it
is quantised by torchao's pt2e. ATen's ops are taken as they are exported, before decompositions: those would take an LSTM and a
hard swish apart. `aten.OPS` has them all.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from . import aten
from .erf_chains import with_gelu
from .program import CHANGED, Exported, Node, Ref, graph_of, refs

QUANTISED = "quantized_decomposed."  # the namespace of torchao's ops


def from_module(module: Any, example: Any, name: str = "") -> Graph:
    """Return the graph of a module in evaluation mode; `example` is its input, or a tuple of them, each with a batch of 1."""
    return graph_of(with_gelu(exported(module, example)), name or type(module).__name__)


def exported(module: Any, example: Any) -> Exported:
    """Return a module in evaluation mode as data; `example` is as for `from_module`."""
    torch = _torch()
    inputs = example if isinstance(example, tuple) else (example,)
    if not isinstance(module, torch.nn.Module):
        raise CompileError(f"a {type(module).__name__} is no PyTorch module", "give an nn.Module and an example input")
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            raise CompileError(f"an example input is a {type(value).__name__}", "give a torch.Tensor, or a tuple of them")
    with _evaluating(module), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(module, inputs)
        except Exception as error:  # whatever the module, or torch's tracer, raises
            told = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise CompileError(f"torch.export cannot trace the module: {told}", "make it traceable") from error
    return _plain(program)


def from_program(program: Any, name: str = "model") -> Graph:
    """Return the graph of a torch.export.ExportedProgram."""
    torch = _torch()
    if not isinstance(program, torch.export.ExportedProgram):
        what = "give an example input beside it" if isinstance(program, torch.nn.Module) else "give a .tflite file or a module"
        raise CompileError(f"a {type(program).__name__} is no exported program", what)
    return graph_of(with_gelu(_plain(program)), name)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise CompileError("torch is not installed", "pip install 'tinyweave[torch]'") from error
    return torch


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Evaluate, and leave each part of the module in the mode in which it was."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _plain(program: Any) -> Exported:
    """Return the program as data; what depends on constants only is computed."""
    torch = _torch()
    signature = program.graph_signature
    tensors = {**program.state_dict, **program.constants}
    sources = {spec.arg.name: spec for spec in signature.input_specs}
    known: dict[str, Any] = {}
    inputs: dict[str, tuple[int, ...]] = {}
    nodes: list[Node] = []
    outputs: list[Ref] = []
    stale: set[str] = set()
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise CompileError("the module changes its buffers or its inputs", "call eval() before the export")
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = sources[node.name]
            if spec.target is not None:
                known[node.name] = tensors[spec.target]
            else:
                inputs[node.name] = _input_shape(torch, node)
        elif node.op == "output":
            outputs = [_output(torch, value, stale) for value in node.args[0]]
        elif node.op == "call_function":
            _check_read(node.all_input_nodes, stale)
            depends = any(value.name not in known for value in node.all_input_nodes)
            if depends and _name(node).endswith("_"):
                stale |= _views(torch, known, node.args[0])
            if not depends and not str(node.target).startswith(QUANTISED):
                if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and _name(node) not in aten.OPS:
                    raise CompileError(f"{_name(node)} makes random numbers", "leave it out where the module is evaluated")
                with torch.no_grad():
                    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda value: known[value.name])
                    known[node.name] = node.target(*args, **kwargs)
            elif not str(node.target).startswith("aten._assert"):
                nodes.append(_node(torch, node))
        else:
            raise CompileError(f"the program has a {node.op} in '{node.name}'", "export it by torch.export.export")
    used = {ref.name for node in nodes for ref in refs(node)}
    constants = {key: _array(torch, key, value, sources) for key, value in known.items() if key in used}
    return Exported(inputs, constants, nodes, outputs, aten.OPS, "PyTorch")


def _output(torch: Any, value: Any, stale: Collection[str]) -> Ref:
    if not isinstance(value, torch.fx.Node):
        raise CompileError(f"an output of the module is {value!r}, no tensor", "give tensors as outputs")
    _check_read([value], stale)
    return Ref(value.name)


def _check_read(read: Iterable[Any], stale: Collection[str]) -> None:
    for value in read:
        if value.name in stale:
            raise CompileError(CHANGED, "use the form that is not in place", tensor=value.name)


def _views(torch: Any, known: Mapping[str, Any], changed: Any) -> set[str]:
    """Return the other constants that have elements of one that is changed in place."""
    kept = {
        name: {part.untyped_storage().data_ptr() for part in torch.utils._pytree.tree_leaves(value)}
        for name, value in known.items()
    }
    name = changed.name if isinstance(changed, torch.fx.Node) else ""
    return {other for other, parts in kept.items() if other != name and parts & kept.get(name, set())}


def _input_shape(torch: Any, node: Any) -> tuple[int, ...]:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise CompileError(f"is {value!r}, no tensor", "give tensors as inputs", tensor=node.name)
    if not all(isinstance(extent, int) for extent in value.shape):
        raise CompileError(f"has the dynamic shape {list(value.shape)}", "export it with fixed shapes", tensor=node.name)
    if value.dtype != torch.float32:
        raise CompileError(f"is an input of {value.dtype}", "only float32 is supported: call .float()", tensor=node.name)
    return tuple(value.shape)


def _name(node: Any) -> str:
    """Return the name of an op without its namespace and its overload."""
    name = "getitem" if node.target is operator.getitem else str(node.target)
    return name.removeprefix("aten.").removeprefix(QUANTISED).split(".")[0]


def _node(torch: Any, node: Any) -> Node:

    def plain(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return Ref(value.name)
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        return value

    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kwargs = {key: plain(value) for key, value in node.kwargs.items() if value is not None}
    return Node(node.name, _name(node), tuple(map(plain, node.args)), kwargs, str(stack[-1][0]) if stack else "")


def _array(torch: Any, name: str, value: Any, sources: Any) -> np.ndarray:
    """Return a parameter or another constant: float32, or integers that have a scale."""
    known, integers = sources.get(name), (torch.int8, torch.uint8, torch.int32, torch.int64)
    label = known.target if known is not None and known.target else name
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, *integers):
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise CompileError(f"is {kind}", "only float32 parameters are supported: call .float()", tensor=label)
    if not torch.isfinite(value).all():
        raise CompileError("holds values that are not finite", "train it again, or repair it", tensor=label)
    return value.detach().numpy()
