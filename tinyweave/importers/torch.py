"""Import a PyTorch module or a torch.export.ExportedProgram.

In: an nn.Module and an example input, or an ExportedProgram. Out: a Graph, channels last, of float32, or of int8 if torchao's
pt2e quantised it. The ATen ops are read before decomposition, which would break an LSTM or a hard swish into many ops.
`aten.OPS` lists the supported ops.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from ..support.installing import install
from . import aten
from .function_chains import fuse_functions
from .program import (
    ILL_FORMED,
    ImportedProgram,
    Node,
    Ref,
    changed_in_place,
    check_not_stale,
    checked_state,
    folded,
    graph_of,
    input_type_advice,
    line_of,
    op_name,
    refs,
)
from .shapes import EXAMPLE, Axis, Dynamic, Shapes, fixed_shapes

QUANTISED = "quantized_decomposed."  # the namespace of torchao's ops


def from_module(module: Any, example: Any, name: str = "", *, compare: bool = False) -> Graph:
    """Return the graph of an nn.Module in evaluation mode; `example` is an input or a tuple of them, with a batch size of 1."""
    return _graph(_exported(module, example), name or type(module).__name__, compare)


def trace(module: Any, example: Any) -> ImportedProgram:
    """Trace a module in evaluation mode with torch.export; `example` is one or a tuple of inputs, with batch 1."""
    return _converted(_exported(module, example))


def _exported(module: Any, example: Any) -> Any:
    """Return the torch.export.ExportedProgram of a module in evaluation mode; `example` is as for `trace`."""
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


def from_any(model: Any, example: Any = None, shapes: Shapes | None = None) -> Graph:
    """Return the graph of a module, with an example input, or of an ExportedProgram, compared with torch.

    `shapes` has the shapes of a program's inputs with dynamic axes. For a module without an example, it has the shape of each
    argument of `forward`, and the example is zeros.
    """
    torch = _torch()
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
    torch = _torch()
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
        try:
            return graph_of(fuse_functions(_converted(_decomposed(program), shapes)), name, runs)
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
    try:
        import torch
    except ImportError as error:
        raise CompileError("torch is not installed", install("torch")) from error
    return torch


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
    """Return an ExportedProgram as an ImportedProgram; torch computes nodes whose arguments are all constant."""
    torch = _torch()
    signature, made_by = program.graph_signature, {node.name: node for node in program.graph.nodes}
    for node in made_by.values():
        if node.op not in ("placeholder", "call_function", "output"):
            raise CompileError(f"the program has a {node.op} in '{node.name}'", "export it by torch.export.export")
    sources = {spec.arg.name: spec for spec in signature.input_specs}
    given = [node for node in made_by.values() if node.op == "placeholder" and sources[node.name].target is None]
    inputs, numbers = _sizes(torch, program, given, shapes)
    types = {node.name: str(node.meta["val"].dtype).removeprefix("torch.") for node in given}
    functions = [node for node in made_by.values() if node.op == "call_function" and node.name not in numbers]
    calls, updates = [_node(torch, node, numbers) for node in functions], _buffer_updates(signature)
    changed = changed_in_place((*calls, *updates)) & {n for n, spec in sources.items() if spec.kind.name == "BUFFER"}
    tensors = {**program.state_dict, **program.constants}
    stored = {name: tensors[spec.target] for name, spec in sources.items() if spec.target is not None}
    known = numbers | {name: value for name, value in stored.items() if name not in changed}

    def compute(call: Node) -> Any:
        node = made_by[call.name]
        if str(node.target).startswith(QUANTISED):
            return NotImplemented
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and call.op not in aten.OPS:
            raise CompileError(f"{call.op} makes random numbers", "remove it in evaluation mode")
        with torch.no_grad():
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda value: known[value.name])
            return node.target(*args, **kwargs)

    nodes, stale = folded(calls, known, compute, partial(_share_memory, torch))
    used = {ref.name for node in nodes for ref in refs(node)}
    constants = {key: _array(torch, key, value, sources) for key, value in known.items() if key in used}
    states = {n: checked_state(sources[n].target, _array(torch, n, stored[n], sources)) for n in sorted(changed)}
    outputs = _outputs(torch, program, stale)
    return ImportedProgram(inputs, constants, [*nodes, *updates], outputs, aten.OPS, "PyTorch", types, states)


def _buffer_updates(signature: Any) -> list[Node]:
    """Return nodes that copy the new values of buffers, which a decomposed program has as outputs, into the buffers."""
    buffers = {spec.target: spec.arg.name for spec in signature.input_specs}
    return [
        Node(f"new_{spec.arg.name}", "copy_", (Ref(buffers[spec.target]), Ref(spec.arg.name)))
        for spec in signature.output_specs
        if spec.kind.name == "BUFFER_MUTATION"
    ]


def _outputs(torch: Any, program: Any, stale: Collection[str]) -> list[Ref]:
    """Return the outputs of an ExportedProgram as Refs; raise CompileError if one is no tensor, or `stale`."""
    (values,) = (node.args[0] for node in program.graph.nodes if node.op == "output")
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    found = [value for value, kind in zip(values, kinds, strict=True) if kind == "USER_OUTPUT"]
    for value in found:
        if not isinstance(value, torch.fx.Node):
            raise CompileError(f"an output of the module is {value!r}, not a tensor", "return only tensors")
    check_not_stale((value.name for value in found), stale)
    return [Ref(value.name) for value in found]


def _share_memory(torch: Any, *values: Any) -> bool:
    """Return whether two values, each a tensor, a number or a list of these, share memory."""
    tensors = ([part for part in torch.utils._pytree.tree_leaves(value) if isinstance(part, torch.Tensor)] for value in values)
    one, two = ({tensor.untyped_storage().data_ptr() for tensor in each} for each in tensors)
    return not one.isdisjoint(two)


def _sizes(
    torch: Any, program: Any, inputs: Sequence[Any], given: Shapes | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """Return the shapes of the network inputs, and the values of nodes that are, or are computed from, sizes, by name."""
    axes, expressions = dict[str, list[Axis]](), dict[str, Any]()
    for node in inputs:
        axes[node.name] = []
        for extent in _checked_input(torch, node).shape:
            if isinstance(extent, int):
                axes[node.name].append(extent)
                continue
            expressions[key := str(extent.node.expr)] = extent.node.expr
            axes[node.name].append(Dynamic(key, hint=extent.node.hint if extent.node.has_hint() else EXAMPLE))

    def number(expression: Any, sizes: Mapping[str, int]) -> Any:
        free = {symbol: sizes.get(str(symbol)) for symbol in expression.free_symbols}
        return None if None in free.values() else expression.subs(free)

    shapes, sizes = fixed_shapes(axes, given, lambda key, sizes: number(expressions[key], sizes))
    numbers = dict[str, Any]()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        for symbolic, plain in ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool)):
            if isinstance(value, symbolic):
                found = number(value.node.expr, sizes)
                if found is None:
                    raise CompileError("is a size that depends on the data", "export it with fixed shapes", tensor=node.name)
                numbers[node.name] = plain(found)
    return {name: tuple(map(int, shape)) for name, shape in shapes.items()}, numbers


def _checked_input(torch: Any, node: Any) -> Any:
    """Return the torch.Tensor that describes the network input `node`; raise CompileError if it has an unsupported type."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise CompileError("is not a tensor", "make all inputs tensors", tensor=node.name)
    if value.dtype not in (torch.float32, torch.int32, torch.int64, torch.int8, torch.uint8):
        raise CompileError(f"is an input of {value.dtype}", input_type_advice(str(value.dtype)), tensor=node.name)
    return value


# ATen ops that are computed on constants, beside aten.OPS: they are functions of their arguments only, and change none
PURE = frozenset(
    """_weight_norm arange atan2 argsort baddbmm bartlett_window bitwise_xor blackman_window broadcast_tensors
    broadcast_to cartesian_prod cumprod diag diag_embed diagonal diff eye fill floor_divide fmod full gather
    hamming_window hann_window heaviside hypot isfinite isinf isnan kaiser_window kron lift_fresh_copy linspace
    logical_xor logspace meshgrid nan_to_num narrow new_full new_ones new_zeros norm numpy_T ones outer remainder
    rot90 scalar_tensor scatter sort std_mean swapaxes t take take_along_dim tensor_split tile trace tril
    tril_indices triu triu_indices type_as unfold view_as vstack hstack xor zeros""".split()
)
NOT_FOLDED = frozenset(("dropout", "feature_dropout", *aten.quantised.QUANTISED, *aten.recurrent.RECURRENT))


def is_foldable(op: str) -> bool:
    """Return whether `computed` computes the ATen op `op`, or its in-place form."""
    name = op.removesuffix("_")
    return name in PURE or (name in aten.OPS and name not in NOT_FOLDED)


def computed(op: str, args: Any, kwargs: Mapping[str, Any], most: int) -> Any:
    """Compute the ATen op `op`, such as "linspace", on constants; return an array, or a list of arrays.

    An in-place op, such as "fill_", changes its first argument. Views share memory. Arguments are numbers, arrays, types such
    as "torch.int64", and lists of these. `most` limits the elements of all outputs together.
    """
    try:
        torch = _torch()
    except CompileError as error:
        raise CompileError(f"torch computes {op} on constants, and is not installed", error.what_to_do) from error
    from torch._subclasses.fake_tensor import FakeTensorMode

    def from_array(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("torch."):
            return getattr(torch, value.removeprefix("torch."))
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value if value.flags.writeable and min(value.strides, default=0) >= 0 else value.copy())
        return value

    def to_array(value: Any) -> Any:
        return np.asarray((value.float() if value.dtype.is_floating_point else value).numpy())

    tree = torch.utils._pytree
    function, (args, kwargs) = getattr(torch.ops.aten, op), tree.tree_map(from_array, (args, dict(kwargs)))
    try:
        with torch.no_grad(), FakeTensorMode() as fake:  # a damaged file may ask for any size, so shapes are computed first
            fakes = tree.tree_map_only(torch.Tensor, fake.from_tensor, (args, kwargs))
            shapes = function(*fakes[0], **fakes[1])
        if (count := sum(part.numel() for part in tree.tree_leaves(shapes))) > most:
            raise CompileError(f"{op} computes a constant of {count:,} elements", f"at most {most:,} are supported")
        with torch.no_grad():
            made = function(*args, **kwargs)
    except (RuntimeError, NotImplementedError, *ILL_FORMED) as error:
        raise CompileError(f"torch cannot compute {op} on these constants", "compute it before the export") from error
    return list(map(to_array, made)) if isinstance(made, (list, tuple)) else to_array(made)


def _name(node: Any) -> str:
    """Return the op of a torch.fx node: an ATen op without namespace and overload, or "getitem" for indexing in Python."""
    return "getitem" if node.target is operator.getitem else _short(str(node.target))


def _short(target: str) -> str:
    """Return the short name of the op `target`, such as "conv2d" for "aten.conv2d.default"."""
    return op_name(target.removeprefix("aten.").removeprefix(QUANTISED))


def _node(torch: Any, node: Any, numbers: Mapping[str, Any]) -> Node:
    """Convert a node of the torch.fx graph to a Node of the ImportedProgram; `numbers` has the nodes that are numbers."""

    def plain(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return numbers[value.name] if value.name in numbers else Ref(value.name)
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        return value

    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kwargs = {key: plain(value) for key, value in node.kwargs.items() if value is not None}
    where, line = str(stack[-1][0]) if stack else "", line_of(node.meta.get("stack_trace"))
    return Node(node.name, _name(node), tuple(map(plain, node.args)), kwargs, where, line)


def _array(torch: Any, name: str, value: Any, sources: Any) -> np.ndarray:
    """Return the constant `name` as float32, bools or integers; only parameters, by `sources`, must be finite."""
    known, integers = sources.get(name), (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool)
    label = known.target if known is not None and known.target else name
    if known is None and isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        value = value.float()  # a computed constant; the network computes in float32
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float32, *integers):
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise CompileError(f"is {kind}", "only float32 parameters are supported: call .float()", tensor=label)
    is_parameter = known is not None and known.kind.name == "PARAMETER"
    if torch.isnan(value).any() or (is_parameter and not torch.isfinite(value).all()):  # other constants may be masks
        raise CompileError("holds values that are not finite", "train it again, or repair it", tensor=label)
    return np.asarray(value.detach().numpy())
