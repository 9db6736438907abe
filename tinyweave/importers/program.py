"""A program that another framework exported, as plain data, and the Graph that it means.

In: an Exported. Out: a checked Graph, channels last, of float32, or of int8 if the program is quantised; or one CompileError
that names all that is not supported.
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
from ..quantize.given import with_given_scales
from .aten import VIEWS
from .channels_last import MOST_ELEMENTS, Axes, Builder, Map, Unread, Unsupported, arranged, extents, flat, orders

MOST_COMPUTED = 1 << 29  # bytes of what is made of constants, which are 13 for a quantised weight
MOST_ATTEMPTS = 16  # orders in which the inputs may lie
# what arguments of another form than an op expects make it raise
ILL_FORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError)
LIMITING = ("maximum", "minimum", "padv2")  # which may have an infinite constant
CHANGED = "is read through another view after the network has changed it in place"
MOST_TOLD = 12  # kinds of ops in one message


class Ref(NamedTuple):
    """An argument that is what another node gives."""

    name: str


@dataclass(frozen=True)
class Node:
    """One op: `op` is its name in the framework, ATen's without its overload; where: the module that it stands in."""

    name: str
    op: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True)
class Exported:
    """inputs: name -> shape. What the arguments of a node refer to is an input, a constant, or a node before it.

    functions: what each of the framework's ops becomes.
    """

    inputs: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, np.ndarray]
    nodes: Sequence[Node]
    outputs: Sequence[Ref]
    functions: Mapping[str, Callable[..., Any]]
    framework: str


class Refused(NamedTuple):
    op: str
    where: str
    why: str


def graph_of(program: Exported, name: str) -> Graph:
    """Return the program as a Graph.

    Inputs and outputs [1, c, h, w] are [1, h, w, c] there, and [1, c, w] on which ops of one spatial axis work [1, 1, w, c];
    other ones are as they are, and so are those that the program itself takes or gives channels last.
    """
    for key, shape in program.inputs.items():
        if prod(shape) > MOST_ELEMENTS:
            raise CompileError(f"has {prod(shape):,} elements", "no microcontroller has room for it", tensor=key)
        if len(shape) in (2, 4) and shape[0] != 1:
            raise CompileError(f"has a batch of {shape[0]}", "export it with a batch of 1", tensor=key)
    refused: list[list[Refused]] = []
    # of three axes as they are first, of four channels last
    choices = [orders(len(shape))[:: -1 if len(shape) == 3 else 1] for shape in program.inputs.values()]
    for chosen in islice(product(*choices), MOST_ATTEMPTS):
        problems: list[Refused] = []
        graph = _attempt(program, name, chosen, problems)
        if graph is not None:
            return _finished(verify(fold_float(graph)))
        refused.append(problems)
    raise _refusal(min(refused, key=len), program.framework)


def _finished(graph: Graph) -> Graph:
    """Return a checked graph, of int8 where the program has scales."""
    for tensor in (tensor for op in graph.ops if op.kind not in LIMITING for tensor in graph.inputs_of(op)):
        if tensor is not None and tensor.data is not None and not np.isfinite(tensor.data).all():
            raise CompileError("holds values that are not finite", "train it again, or repair it", tensor=tensor)
    has_scales = any(tensor.quant is not None for tensor in graph.tensors.values() if tensor.data is None)
    return with_given_scales(graph) if has_scales else ops.check(graph)


def _attempt(program: Exported, name: str, chosen: Sequence[tuple[int, ...]], problems: list[Refused]) -> Graph | None:
    """Return the graph whose inputs lie in these orders; None, and what keeps it from being one, if it cannot be built."""
    b = Builder()
    values: dict[str, Any] = dict(program.constants)
    for (key, shape), order in zip(program.inputs.items(), chosen, strict=True):
        axes = [b.fresh(extent) for extent in shape]
        dims = _edge(axes, order)
        values[key] = Map(b.add(Tensor(key, extents(dims), "float32")), tuple(axes), dims)
    roots: dict[str, str] = {}
    last_read, computed = _last_reads(program), 0
    for position, node in enumerate(program.nodes):
        b.where = node.where or node.name
        args, kwargs = known(node.args, values), known(node.kwargs, values)
        if any(isinstance(value, Unknown) for value in _leaves((args, kwargs))):
            values[node.name] = Unknown()
            continue
        try:
            if node.op in VIEWS or node.op.endswith("_"):
                roots[node.name] = roots.get(node.args[0].name, node.args[0].name)
            values[node.name] = made = _applied(b, program.functions, node.op, args, kwargs)
            computed += new_bytes(made, _leaves((args, kwargs), np.ndarray))
            if node.op.endswith("_"):
                _overwrite(node, values, roots, [n for n, read in last_read.items() if read > position])
        except (Unsupported, *ILL_FORMED) as error:
            problems.append(Refused(node.op, node.where or node.name, _why(error, _leaves((args, kwargs)))))
            values[node.name] = Unknown()
        check_computed(computed)
    names = []
    for ref in program.outputs:
        b.where, value = ref.name, values.get(ref.name)  # a constant that no node reads is not among them
        try:
            if not isinstance(value, Unknown):
                names.append(_output(b, value))
        except Unsupported as error:
            problems.append(Refused("output", ref.name, str(error)))
    return None if problems else b.graph(name, list(program.inputs), names)


def _why(error: Exception, arguments: Sequence[Any]) -> str:
    """Return why an op is refused, by what it raised."""
    if isinstance(error, Unsupported):
        return str(error)
    if isinstance(error, AttributeError) and not any(isinstance(value, Map) for value in arguments):
        return "what it reads is constant, and it is not among the ops on constants that are supported here"
    return f"its arguments are of a form that is not known here ({error})"


def new_bytes(made: Any, read: Sequence[np.ndarray]) -> int:
    """Return the bytes of a constant that was computed; none of what is only a view of the constants that it was made of."""
    is_new = isinstance(made, np.ndarray) and not any(np.may_share_memory(made, array) for array in read)
    return made.nbytes if is_new else 0


def check_computed(count: int) -> None:
    """Raise CompileError where what was made of constants has more bytes than any network needs."""
    if count > MOST_COMPUTED:
        raise CompileError(
            f"what is computed of constants takes more than {MOST_COMPUTED:,} bytes", "no microcontroller has room for them"
        )


class Unknown:
    """Stands for what an op would give that is not supported."""


def _applied(b: Builder, functions: Mapping[str, Callable[..., Any]], op: str, args: Any, kwargs: Any) -> Any:
    if op == "getitem":
        found = args[0][args[1]]
        return found() if callable(found) else found
    for value in _leaves((args, kwargs)):
        if isinstance(value, Unread):
            raise Unsupported(value.why)
    function = functions.get(op) or functions.get(op.removesuffix("_"))
    if function is None:
        raise Unsupported("TFLite has no op for it here")
    return function(b, *args, **kwargs)


def _overwrite(node: Node, values: dict[str, Any], roots: Mapping[str, str], read_later: Sequence[str]) -> None:
    """Let all names of the elements that an op in place changed stand for the new ones; refuse other views of them."""
    changed, root = values[node.args[0].name], roots[node.name]
    for name in [*roots, root]:
        if roots.get(name, name) == root and name != node.name:
            if values.get(name) is changed:
                values[name] = values[node.name]
            elif name in read_later:
                raise Unsupported(
                    "it changes in place what is read later through another view; use the form that is not in place"
                )


def _last_reads(program: Exported) -> dict[str, int]:
    reads = {ref.name: position for position, node in enumerate(program.nodes) for ref in refs(node)}
    return reads | {ref.name: len(program.nodes) for ref in program.outputs}


def refs(node: Node) -> list[Ref]:
    """Return what a node reads, each as often as it does."""
    return _leaves((node.args, node.kwargs), Ref)


def _leaves(value: Any, kind: type = object) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list) or (isinstance(value, tuple) and not isinstance(value, Ref)):
        return [leaf for part in value for leaf in _leaves(part, kind)]
    return [value] if isinstance(value, kind) else []


def known(value: Any, values: Mapping[str, Any]) -> Any:
    """Return arguments with what the names in them stand for."""
    if isinstance(value, Ref):
        return values[value.name]
    if isinstance(value, Mapping):
        return {key: known(part, values) for key, part in value.items()}
    return type(value)(known(part, values) for part in value) if isinstance(value, (list, tuple)) else value


def _output(b: Builder, x: Any) -> str:
    """Return the output's tensor: channels last if it lies so, or in the logical order."""
    if not isinstance(x, Map):
        raise Unsupported(x.why if isinstance(x, Unread) else "an output is constant, or no tensor")
    order = tuple(range(len(x.axes))) if len(x.axes) < 4 and flat(x.axes) == x.order else arranged(x)
    return b.tensor(x, _edge(x.axes, order))


def _edge(axes: Sequence[Axes], order: tuple[int, ...]) -> tuple[Axes, ...]:
    """Return the axes of an input's or an output's tensor."""
    dims = tuple(axes[axis] for axis in order)
    return ((), *dims) if len(order) == 3 and order != (0, 1, 2) else dims


def _refusal(problems: Sequence[Refused], framework: str) -> CompileError:
    """Return the one error that tells of every op that is not supported: how often, where first, and why."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        grouped.setdefault((problem.op, problem.why), []).append(problem.where)
    lines = [
        f"{op} ({len(places)} times, first in {places[0]}): {why}" if len(places) > 1 else f"{op} (in {places[0]}): {why}"
        for (op, why), places in sorted(grouped.items(), key=lambda item: -len(item[1]))
    ]
    more = f"; and {len(lines) - MOST_TOLD} more" if len(lines) > MOST_TOLD else ""
    count = f"{len(problems)} op{'s' if len(problems) > 1 else ''}"
    return CompileError(f"{count} of the {framework} model cannot be imported: " + "; ".join(lines[:MOST_TOLD]) + more)
