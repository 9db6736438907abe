"""A program exported by another framework as plain data, and its conversion to a Graph.

In: an ImportedProgram. Out: a checked Graph, channels last, of float32, or of int8 if the program is quantised. If ops cannot
be imported, one CompileError names all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..ir import CompileError, Graph, Tensor, verify
from ..passes.fold_float import fold_float
from ..quantize.prequantised import from_prequantised
from .aten import VIEWS
from .channels_last import MAX_ELEMENTS, Axes, Builder, Map, Unavailable, common_order, extents, flattened, memory_orders
from .unsupported import Unsupported

MAX_COMPUTED = 1 << 29  # bytes of all constants computed at import, 13 per element of a quantised constant
MAX_ATTEMPTS = 16  # combinations of memory orders of the inputs
# exceptions that ill-formed arguments raise in an importer function
ILL_FORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError)
LIMITING = ("maximum", "minimum", "padv2")  # ops whose constant may be infinite
CHANGED = "is read through another view after the network has changed it in place"
CONSTANT_ONLY = "all of its inputs are constant, and tinyweave cannot compute it at import; compute it before the export"
NOT_FINITE = "train it again, or repair it; if it is a mask, give it finite numbers, such as -100"
MAX_LISTED = 12  # reasons in one message


Refused = tuple[str, str, str]  # an op that cannot be imported, its module or node, and the reason


class Ref(NamedTuple):
    """An argument that stands for the output of another node, an input or a constant."""

    name: str


@dataclass(frozen=True)
class Node:
    """One op of a program."""

    name: str  # of its output
    op: str  # the framework's name of the op, without namespace and overload
    args: tuple[Any, ...]  # tensors are Refs
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""  # the module that the op belongs to, for messages


@dataclass(frozen=True)
class ImportedProgram:
    """A program as plain data. Each Ref names an input, a constant or an earlier node."""

    inputs: Mapping[str, tuple[int, ...]]  # name -> shape
    constants: Mapping[str, np.ndarray]  # parameters, buffers and initializers
    nodes: Sequence[Node]  # in execution order
    outputs: Sequence[Ref]
    functions: Mapping[str, Callable[..., Any]]  # op name -> importer function
    framework: str  # its name in messages


def graph_of(program: ImportedProgram, name: str) -> Graph:
    """Return the program as a Graph called `name`, or raise one CompileError with the reasons for all refused ops.

    Inputs and outputs [1, c, h, w] become [1, h, w, c], and [1, c, w] of ops with one spatial axis become [1, 1, w, c]. Others
    keep their layout, such as those that the program itself has channels last. The memory orders of the inputs are tried one
    after the other until all ops can be imported.
    """
    for key, shape in program.inputs.items():
        if prod(shape) > MAX_ELEMENTS:
            raise CompileError(f"has {prod(shape):,} elements", f"at most {MAX_ELEMENTS:,} are supported", tensor=key)
        if len(shape) in (2, 4) and shape[0] != 1:
            raise CompileError(f"has a batch of {shape[0]}", "export it with a batch of 1", tensor=key)
    refused: list[tuple[int, list[Refused]]] = []
    # with three axes try the given order first, with four channels last
    choices = [memory_orders(len(shape))[:: -1 if len(shape) == 3 else 1] for shape in program.inputs.values()]
    for chosen in islice(product(*choices), MAX_ATTEMPTS):
        problems: list[Refused] = []
        graph, missing = _attempt(program, name, chosen, problems)
        if graph is not None:
            return _finished(verify(fold_float(graph)))
        refused.append((missing, problems))
    # report the attempt that built most nodes: in the others an early refusal hides those of later nodes
    raise _refusal(min(refused, key=lambda attempt: attempt[0])[1], program.framework)


def _finished(graph: Graph) -> Graph:
    """Return the graph checked, and converted to int8 if the program is quantised."""
    for tensor in (tensor for op in graph.ops if op.kind not in LIMITING for tensor in graph.inputs_of(op)):
        if tensor is not None and tensor.data is not None and not np.isfinite(tensor.data).all():
            raise CompileError("holds values that are not finite", NOT_FINITE, tensor=tensor)
    has_scales = any(tensor.quant is not None for tensor in graph.tensors.values() if tensor.data is None)
    return from_prequantised(graph) if has_scales else ops.check(graph)


def _attempt(
    program: ImportedProgram, name: str, chosen: Sequence[tuple[int, ...]], problems: list[Refused]
) -> tuple[Graph | None, int]:
    """Try to build the graph with the inputs' logical axes in the memory orders `chosen`; append refused ops to `problems`.

    Return the graph, or None if an op was refused, and the number of values that could not be built.
    """
    b = Builder()
    values: dict[str, Any] = dict(program.constants)
    for (key, shape), order in zip(program.inputs.items(), chosen, strict=True):
        axes = [b.new_axis(extent) for extent in shape]
        dims = _edge(axes, order)
        values[key] = Map(b.add(Tensor(key, extents(dims), "float32")), tuple(axes), dims)
    roots: dict[str, str] = {}
    last_read, computed = _last_reads(program), 0
    for position, node in enumerate(program.nodes):
        b.where = node.where or node.name
        args, kwargs = resolved(node.args, values), resolved(node.kwargs, values)
        if any(isinstance(value, Missing) for value in _leaves((args, kwargs))):
            values[node.name] = Missing()
            continue
        try:
            if node.op in VIEWS or node.op.endswith("_"):
                roots[node.name] = roots.get(node.args[0].name, node.args[0].name)
            values[node.name] = made = _applied(b, program, node.op, args, kwargs)
            computed += new_bytes(made, _leaves((args, kwargs), np.ndarray))
            if node.op.endswith("_"):
                _overwrite(node, values, roots, [n for n, read in last_read.items() if read > position])
        except (Unsupported, *ILL_FORMED) as error:
            problems.append((node.op, node.where or node.name, _why(error, _leaves((args, kwargs)))))
            values[node.name] = Missing()
        check_computed(computed)
    names = []
    for ref in program.outputs:
        b.where, value = ref.name, values.get(ref.name)  # a constant that no node reads is not among them
        try:
            if not isinstance(value, Missing):
                names.append(_output(b, value))
        except Unsupported as error:
            problems.append(("output", ref.name, str(error)))
    missing = sum(isinstance(value, Missing) for value in values.values())
    return None if problems else b.graph(name, list(program.inputs), names), missing


def _why(error: Exception, arguments: Sequence[Any]) -> str:
    """Return the reason for a refusal from the exception that the importer function raised."""
    if isinstance(error, Unsupported):
        return str(error)
    if isinstance(error, AttributeError) and not any(isinstance(value, Map) for value in arguments):
        return CONSTANT_ONLY
    return f"its arguments have an unsupported form ({error})"


def new_bytes(made: Any, read: Sequence[np.ndarray]) -> int:
    """Return the bytes of a computed constant, or 0 if it is a view of the constants in `read`."""
    is_new = isinstance(made, np.ndarray) and not any(np.may_share_memory(made, array) for array in read)
    return made.nbytes if is_new else 0


def check_computed(count: int) -> None:
    """Raise CompileError if the constants computed at import exceed MAX_COMPUTED bytes."""
    if count > MAX_COMPUTED:
        raise CompileError(
            f"the constants computed at import take more than {MAX_COMPUTED:,} bytes",
            "no microcontroller can hold them",
        )


def input_type_advice(dtype: str) -> str:
    """Return the advice for an input of an unsupported dtype."""
    to_do = "call .float()" if "float" in dtype else "compute what depends on integers outside the network"
    return f"only float32 is supported: {to_do}"


class Missing:
    """Placeholder for the output of a refused op."""


def _applied(b: Builder, program: ImportedProgram, op: str, args: Any, kwargs: Any) -> Any:
    """Apply the importer function of an op to resolved arguments; return a Map, an array, or a list of these.

    Raise Unsupported if the op has no importer function, or reads an unavailable output.
    """
    if op == "getitem":
        found = args[0][args[1]]
        return found() if callable(found) else found
    for value in _leaves((args, kwargs)):
        if isinstance(value, Unavailable):
            raise Unsupported(value.why)
    function = program.functions.get(op) or program.functions.get(op.removesuffix("_"))
    if function is None and not any(isinstance(value, Map) for value in _leaves((args, kwargs))):
        raise Unsupported(CONSTANT_ONLY)
    if function is None:
        raise Unsupported(f"tinyweave does not import it; docs/{program.framework.upper()}.md lists the ops that it does")
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return function(b, *args, **kwargs)
    except FloatingPointError as error:
        raise Unsupported(f"computing its constants overflows or divides by 0 ({error}); the file may be damaged") from error


def _overwrite(node: Node, values: dict[str, Any], roots: Mapping[str, str], read_later: Sequence[str]) -> None:
    """Update in `values` all names of the tensor that an in-place op changed; refuse if a later node reads another view of it.

    `roots` maps each view to the tensor that it is a view of.
    """
    changed, root = values[node.args[0].name], roots[node.name]
    for name in [*roots, root]:
        if roots.get(name, name) == root and name != node.name:
            if values.get(name) is changed:
                values[name] = values[node.name]
            elif name in read_later:
                raise Unsupported(
                    "it changes in place a tensor that is read later through another view; use the out-of-place op"
                )


def _last_reads(program: ImportedProgram) -> dict[str, int]:
    """Return name -> position of the last node that reads it."""
    reads = {ref.name: position for position, node in enumerate(program.nodes) for ref in refs(node)}
    return reads | {ref.name: len(program.nodes) for ref in program.outputs}


def refs(node: Node) -> list[Ref]:
    """Return the Refs among the arguments of a node, in order and with repetitions."""
    return _leaves((node.args, node.kwargs), Ref)


def _leaves(value: Any, kind: type = object) -> list[Any]:
    """Return the values of type `kind` in nested lists, tuples and dicts."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list) or type(value) is tuple:  # a Ref or Unavailable is one value
        return [leaf for part in value for leaf in _leaves(part, kind)]
    return [value] if isinstance(value, kind) else []


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """Return arguments with each Ref replaced by its value."""
    if isinstance(value, Ref):
        return values[value.name]
    if isinstance(value, Mapping):
        return {key: resolved(part, values) for key, part in value.items()}
    return type(value)(resolved(part, values) for part in value) if isinstance(value, (list, tuple)) else value


def _output(b: Builder, x: Any) -> str:
    """Return the name of an output's tensor: channels last if that is its memory order, else in logical order."""
    if not isinstance(x, Map):
        raise Unsupported(
            x.why if isinstance(x, Unavailable) else "it is a constant or not a tensor; return only computed tensors"
        )
    order = tuple(range(len(x.axes))) if len(x.axes) < 4 and flattened(x.axes) == x.order else common_order(x)
    return b.tensor(x, _edge(x.axes, order))


def _edge(axes: Sequence[Axes], order: tuple[int, ...]) -> tuple[Axes, ...]:
    """Return the tensor axes of an input or output with its logical axes in this memory order."""
    dims = tuple(axes[axis] for axis in order)
    return ((), *dims) if len(order) == 3 and order != (0, 1, 2) else dims


def _refusal(problems: Sequence[Refused], framework: str) -> CompileError:
    """Return one error for all refused ops, with the count and the first module for each op and reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for op, where, why in problems:
        grouped.setdefault((op, why), []).append(where)
    lines = [
        f"{op} ({len(places)} times, first in {places[0]}): {why}" if len(places) > 1 else f"{op} (in {places[0]}): {why}"
        for (op, why), places in sorted(grouped.items(), key=lambda item: -len(item[1]))
    ]
    more = f"; and {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
    count = f"{len(problems)} op{'s' if len(problems) > 1 else ''}"
    return CompileError(f"{count} of the {framework} model cannot be imported: " + "; ".join(lines[:MAX_LISTED]) + more)
