"""ImportedProgram, an exported network as plain data, and its conversion to a Graph.

In: the ImportedProgram that an importer (torch, pt2, onnx) has read. Out: a checked Graph, channels last, of float32, or of
int8 if the program is quantised. If ops cannot be imported, one CompileError names all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import prod
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..ir import CompileError, Graph, Op, Quant, Tensor, rebuild, verify
from ..ops import SPECS
from ..passes.fold_float import fold_float
from ..passes.rewrite import unused
from ..quantize.prequantised import from_prequantised
from ..quantize.scale_groups import is_float
from ..quantize.simplify_float import float_weights
from .aten import VIEWS
from .aten.spectrum import Complex
from .channels_last import BYTES, MAX_ELEMENTS, Axes, Builder, Map, Unavailable, extents, flattened, in_layout, memory_orders
from .check_values import TOLERANCE, Run, check_values
from .input_scales import fold_input_scales
from .refused import refusal_of
from .unsupported import Unsupported

MAX_COMPUTED = 1 << 29  # bytes of all constants computed at import, 13 per element of a quantised constant
MAX_ATTEMPTS = 16  # combinations of memory orders of the inputs that are tried
# exceptions that ill-formed arguments raise in an importer function
ILL_FORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError)
LIMITING = ("maximum", "minimum", "padv2")  # ops whose constant may be infinite
CHANGED = "is read through another view after the network has changed it in place"
CONSTANT_ONLY = "all of its inputs are constant, and tinyweave cannot compute it at import; compute it before the export"
MASKED = -100.0  # a score for which softmax gives 0
NOT_FINITE = "train it again, or repair it; if it is a mask, give it finite numbers, such as -100"
COMPUTED = (Map, Complex)  # what the network computes, as opposed to constants
IF = "If"  # ONNX's op that selects one of two lists of values by a condition
MAX_LISTED = 12  # reasons that one message lists
INTEGERS = ("int32", "int64")  # types of inputs that are indices, such as tokens

Refused = tuple[str, str, str]  # an op that cannot be imported, its module or node, and the reason


class Ref(NamedTuple):
    """A reference by name to a value of the program: an input, a constant, a state or the output of a node."""

    name: str


@dataclass(frozen=True)
class Node:
    """One op of an ImportedProgram. It has one output; several outputs are a list that `getitem` nodes index."""

    name: str  # the name of its output
    op: str  # the framework's name of the op, without namespace and overload
    args: tuple[Any, ...]  # tensors are Refs
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""  # the module that the op belongs to, for messages
    line: str = ""  # the line of the user's code that calls the op, such as "line 12 of" and the name of the file
    # the conditions of the If nodes around the node, and the values for which it runs
    guards: tuple[tuple[Ref, bool], ...] = ()


@dataclass(frozen=True)
class ImportedProgram:
    """An exported network as plain data. Each Ref in a node names an input, a constant, a state or an earlier node."""

    inputs: Mapping[str, tuple[int, ...]]  # name -> shape
    constants: Mapping[str, np.ndarray]  # parameters, unchanged buffers, initializers, and values computed from them
    nodes: Sequence[Node]  # in execution order
    outputs: Sequence[Ref]
    functions: Mapping[str, Callable[..., Any]]  # op name -> importer function
    framework: str  # the framework's name in messages
    types: Mapping[str, str]  # input -> its type; the network casts BYTES to float32, and other types than INTEGERS are floats
    states: Mapping[str, np.ndarray] = field(default_factory=dict)  # initial values of buffers that calls change and keep
    tolerance: float = TOLERANCE  # the difference of an output that rounding may make, of the output's range


def graph_of(program: ImportedProgram, name: str, runs: Mapping[str, Run] | None = None) -> Graph:
    """Return the program as a Graph called `name`, or raise one CompileError with the reasons for all refused ops.

    Inputs and outputs of the shape [1, c, h, w] become [1, h, w, c], and those with more spatial axes accordingly. A sequence
    [1, c, w] that a 1-d convolution or pool reads or writes becomes [1, 1, w, c]. Other inputs and outputs keep their layout,
    and so do all inputs and outputs of a program that is channels last itself.

    Each input may be channels first or last in memory. At most MAX_ATTEMPTS combinations are tried, until one needs no
    transpose; else the graph that transposes the fewest elements is returned. With `runs`, its values are compared with theirs.
    """
    for key, shape in program.inputs.items():
        if prod(shape) > MAX_ELEMENTS:
            raise CompileError(f"has {prod(shape):,} elements", f"at most {MAX_ELEMENTS:,} are supported", tensor=key)
    refused: list[tuple[int, list[Refused]]] = []
    # for inputs with three axes the logical order is tried first, for inputs with four axes channels last
    possible = [(program.types[key] in INTEGERS, memory_orders(len(shape))) for key, shape in program.inputs.items()]
    choices = [orders[-1:] if is_index else orders[:: -1 if len(orders[0]) == 3 else 1] for is_index, orders in possible]
    # one choice for all states keeps the combinations few; the logical order is tried first, in which steps of a cache are rows
    of_states = [[memory_orders(first.ndim)[index] for first in program.states.values()] for index in (-1, 0)]
    of_states = of_states if program.states else [[]]
    for transposes in (False, True):
        built: list[tuple[Graph, Mapping[str, tuple[int, ...]]]] = []
        for of_inputs, chosen in islice(product(product(*choices), of_states), MAX_ATTEMPTS):
            problems: list[Refused] = []
            orders = dict(zip((*program.inputs, *program.states), (*of_inputs, *chosen), strict=True))
            graph, missing = _attempt(program, name, orders, problems, Builder(transposes=transposes))
            if graph is None:
                refused.append((missing, problems))
            else:
                built.append((graph, orders))
                if not transposes:
                    break
        if built:
            best, chosen_orders = min(built, key=lambda each: _transposed(each[0]))
            whole = _finished(verify(fold_float(fold_input_scales(best))))
            check_values(whole, program.inputs, chosen_orders, runs or {}, program.tolerance)
            return whole
    # report the attempt that built most nodes: in other attempts an early refusal hides the refusals of later nodes
    raise _refusal(*min(refused, key=lambda attempt: (attempt[0], len(attempt[1]))), program)


def _transposed(graph: Graph) -> int:
    return sum(graph.output(op).elements for op in graph.ops if op.kind == "transpose")


def _finished(graph: Graph) -> Graph:
    """Check the graph, with infinite constants only as limits, and convert it to int8 if an activation has a scale."""
    graph = _with_finite_masks(graph)
    for tensor in (tensor for op in graph.ops if op.kind not in LIMITING for tensor in graph.inputs_of(op)):
        if tensor is not None and tensor.data is not None and not np.isfinite(tensor.data).all():
            raise CompileError("holds values that are not finite", NOT_FINITE, tensor=tensor)
    has_scales = any(tensor.quant is not None and is_float(tensor) for tensor in graph.tensors.values() if tensor.data is None)
    if has_scales:
        return from_prequantised(graph)
    graph = float_weights(graph)
    try:
        return ops.check(graph)
    except CompileError as error:
        # the name of the output tells where the op is in the model
        computed = error.op.outputs[0] if error.op else None
        raise CompileError(error.why, error.what_to_do, op=error.op, tensor=error.tensor or computed) from error


def _with_finite_masks(graph: Graph) -> Graph:
    """Raise constants that mask scores of a softmax to MASKED, which int8 can hold; a selection of such becomes an add."""
    tensors, written = dict(graph.tensors), []
    for op in graph.ops:
        floats = [(at, t.name, t.data) for at, t in enumerate(graph.inputs_of(op)) if t is not None and t.dtype == "float32"]
        masks = [(at, name, data) for at, name, data in floats if data is not None and data.min(initial=0) <= MASKED]
        condition = graph.input(op).data if op.kind == "select_v2" else None
        if not masks or (op.kind != "add" and condition is None) or not _is_only_for_softmax(graph, op):
            written.append(op)
            continue
        (at, name, data), *others = masks  # integers of a quantised file stay as they are
        finite = np.maximum(data, np.float32(MASKED))
        if condition is None:
            tensors[name] = replace(tensors[name], data=finite)
        elif not others and data.max() <= MASKED:
            mask = np.where(condition == (at == 1), finite, np.float32(0))
            name = unused(f"{op.name}_mask", tensors)
            tensors[name] = Tensor(name, mask.shape, "float32", data=mask, role="constant")
            op = replace(op, kind="add", inputs=(op.inputs[3 - at], name), attrs={"activation": "none"})
        written.append(op)
    return rebuild(graph, tensors=tensors, ops=tuple(written))


def _is_only_for_softmax(graph: Graph, op: Op) -> bool:
    """Return whether only softmax ops read the output of `op`, directly or through ops that only move elements."""
    if op.outputs[0] in graph.outputs:
        return False
    readers = [graph.ops[index] for index in graph.consumers.get(op.outputs[0], ())]
    return all(each.kind == "softmax" or (SPECS[each.kind].moves and _is_only_for_softmax(graph, each)) for each in readers)


def _attempt(
    program: ImportedProgram, name: str, orders: Mapping[str, tuple[int, ...]], problems: list[Refused], b: Builder
) -> tuple[Graph | None, int]:
    """Try to build the graph in `b`, with the memory order of each input's and state's axes; return it or None.

    Refused ops are appended to `problems`. The second result is the number of nodes that could not be computed.
    """
    values: dict[str, Any] = dict(program.constants)
    for key, shape in program.inputs.items():
        axes = [b.new_axis(extent) for extent in shape]
        dims = _edge(axes, orders[key])
        dtype = "int32" if program.types[key] in INTEGERS else program.types[key]
        quant = Quant((1.0,), (0,)) if dtype in BYTES else None
        tensor = Tensor(key, extents(dims), dtype if dtype in (*BYTES, "int32") else "float32", quant)
        values[key] = Map(b.add(tensor), tuple(axes), dims)
    states = {key: _state(b, key, first, orders[key]) for key, first in program.states.items()}
    values |= {key: read for key, (read, _) in states.items()}
    roots: dict[str, str] = {}
    last_read, computed = _last_reads(program), 0
    for position, node in enumerate(program.nodes):
        b.where = node.where or node.name
        args, kwargs = resolved(node.args, values), resolved(node.kwargs, values)
        if any(not _is_taken(values[ref.name], wanted) for ref, wanted in node.guards):
            values[node.name] = Idle()
            continue
        if node.op == IF and isinstance(args[0], np.ndarray):
            args = args[0], args[1 if np.any(args[0]) else 2]
        is_open = node.op == IF and isinstance(args[0], Map)
        if not is_open and any(isinstance(value, Missing) for value in leaves((args, kwargs))):
            values[node.name] = Missing()
            continue
        try:
            if node.op in VIEWS or node.op.endswith("_"):
                roots[node.name] = roots.get(node.args[0].name, node.args[0].name)
            values[node.name] = made = _applied(b, program, node.op, args, kwargs)
            computed += new_bytes(made, leaves((args, kwargs), np.ndarray))
            if node.op.endswith("_"):
                _overwrite(node, values, roots, [n for n, read in last_read.items() if read > position])
        except (Unsupported, *ILL_FORMED) as error:
            line = f" ({node.line})" if node.line else ""
            problems.append((node.op, node.where or node.name, _why(error, leaves((args, kwargs))) + line))
            values[node.name] = Missing()
        check_computed(computed)
    names = []
    for ref in program.outputs:
        b.where, value = ref.name, values.get(ref.name)  # `values` lacks constants that no node reads
        try:
            if not isinstance(value, Missing):
                names.append(_output(b, value))
        except Unsupported as error:
            problems.append(("output", ref.name, str(error)))
    for key, (_, state) in states.items():
        b.where, value = key, values[key]
        try:
            if not isinstance(value, Missing):
                b.op("assign_variable", (b.tensor(value, _edge(value.axes, orders[key])),), [], {}, states=[state])
        except Unsupported as error:
            problems.append(("state", key, str(error)))
    missing = sum(type(values[node.name]) is Missing for node in _ops(program))
    return None if problems else b.graph(name, list(program.inputs), names), missing


def _state(b: Builder, key: str, first: np.ndarray, order: tuple[int, ...]) -> tuple[Map, str]:
    """Add a state tensor for the buffer `key`, stored in `order`; return its value at the start of a call, and its name."""
    b.where, axes = key, tuple(map(b.new_axis, first.shape))
    dims = _edge(axes, order)
    shape = extents(dims)
    state = b.state(shape, "state", in_layout(Map("", axes, dims), first).reshape(shape))
    return b.map("read_variable", (state,), axes, dims), state


def _why(error: Exception, arguments: Sequence[Any]) -> str:
    """Return the reason of a refusal: Unsupported's own text, as the text of a NumPy exception says nothing of the model."""
    if isinstance(error, Unsupported):
        return str(error)
    if isinstance(error, AttributeError) and not any(isinstance(value, COMPUTED) for value in arguments):
        return CONSTANT_ONLY
    listed = ", ".join(map(_described, arguments[:MAX_LISTED]))
    return f"its arguments have an unsupported form: {listed or 'none'}"


def _described(argument: Any) -> str:
    """Return an argument of an op as text: what it is, and its shape or value."""
    if isinstance(argument, COMPUTED):
        return f"a map {list(argument.shape)}" if isinstance(argument, Map) else "complex numbers"
    return f"a constant {list(argument.shape)}" if isinstance(argument, np.ndarray) else repr(argument)[:60]


def new_bytes(made: Any, read: Sequence[np.ndarray]) -> int:
    """Return the bytes of a constant computed at import, or 0 if it is no array or shares memory with an array in `read`."""
    is_new = isinstance(made, np.ndarray) and not any(np.may_share_memory(made, array) for array in read)
    return made.nbytes if is_new else 0


def check_computed(count: int) -> None:
    """Raise CompileError if `count`, the bytes of all constants computed at import, exceeds MAX_COMPUTED."""
    if count > MAX_COMPUTED:
        raise CompileError(
            f"the constants computed at import take more than {MAX_COMPUTED:,} bytes", "no microcontroller can hold them"
        )


def op_name(name: str) -> str:
    """Return the name of an ATen op without its overload; of Python's operators, such as & and |, without the underscores."""
    base = name.split(".", maxsplit=1)[0]
    return base.strip("_") if base.startswith("__") else base


def input_type_advice(dtype: str) -> str:
    """Return the advice in the error for a network input of the unsupported type `dtype`."""
    to_do = "call .float()" if "float" in dtype else "compute what depends on it outside the network"
    return f"only float32, and int32 and int64 for indices, are supported: {to_do}"


def checked_state(name: str, first: np.ndarray) -> np.ndarray:
    """Return a copy of the initial value of a buffer that the module changes; raise CompileError if it is not float32."""
    if first.dtype != np.float32:
        what = f"is a buffer of {first.dtype} that the module changes"
        raise CompileError(what, "call eval() before the export; only float32 is kept from call to call", tensor=name)
    return np.array(first)


def _is_taken(condition: Any, wanted: bool) -> bool:
    """Return whether the condition of an If is constant and has the value `wanted`."""
    return isinstance(condition, np.ndarray) and bool(np.any(condition)) == wanted


class Missing:
    """A placeholder for the output of a refused op. Nodes that read it are skipped, so that each cause is reported once."""


class Idle(Missing):
    """A placeholder for the output of a node in a branch that is not taken."""


def _applied(b: Builder, program: ImportedProgram, op: str, args: Any, kwargs: Any) -> Any:
    """Call the importer function of `op`; raise Unsupported if there is none, or if constants overflow or divide by 0."""
    if op == "getitem":
        found = args[0][args[1]]
        return found() if callable(found) else found
    for value in leaves((args, kwargs)):
        if isinstance(value, Unavailable):
            raise Unsupported(value.why)
    function = program.functions.get(op) or program.functions.get(op.removesuffix("_"))
    if function is None and not any(isinstance(value, COMPUTED) for value in leaves((args, kwargs))):
        raise Unsupported(CONSTANT_ONLY)
    if function is None:
        refusal = refusal_of(program.framework, op.removesuffix("_"))
        listed = f"; 'tinyweave docs {program.framework.lower()}' lists the ops that it does"
        raise Unsupported(f"tinyweave does not import it{f': {refusal.why}; {refusal.instead}' if refusal else listed}")
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return function(b, *args, **kwargs)
    except FloatingPointError as error:
        raise Unsupported(f"computing its constants overflows or divides by 0 ({error}); the file may be damaged") from error


def _overwrite(node: Node, values: dict[str, Any], roots: Mapping[str, str], read_later: Sequence[str]) -> None:
    """After an in-place op, let all names of the changed tensor in `values` mean the new value.

    `roots` maps views to the tensor whose memory they share. Raise Unsupported if another view is in `read_later`.
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
    """Return value name -> position of the last node that reads the value; for outputs, the number of nodes."""
    reads = {ref.name: position for position, node in enumerate(program.nodes) for ref in refs(node)}
    return reads | dict.fromkeys((*(ref.name for ref in program.outputs), *program.states), len(program.nodes))


def changed_in_place(nodes: Iterable[Node]) -> set[str]:
    """Return the names of the values that in-place ops change, directly or through views."""
    roots, changed = dict[str, str](), set[str]()
    for node in nodes:
        if (node.op in VIEWS or node.op.endswith("_")) and node.args and isinstance(node.args[0], Ref):
            roots[node.name] = root = roots.get(node.args[0].name, node.args[0].name)
            changed |= {root} if node.op.endswith("_") else set()
    return changed


def folded(
    calls: Iterable[Node], known: dict[str, Any], compute: Callable[[Node], Any], share: Callable[[Any, Any], bool]
) -> tuple[list[Node], set[str]]:
    """Compute nodes that read only constants, and add these to `known`; return the other nodes, and the stale constants.

    `compute` returns NotImplemented for a node that is not computed. If such a node changes a constant in place, the constants
    that `share` its memory are stale. Raise CompileError if a stale constant is read.
    """
    nodes, stale = list[Node](), set[str]()
    for call in calls:
        read = [ref.name for ref in refs(call)]
        check_not_stale(read, stale)
        made = compute(call) if known.keys() >= {*read} else NotImplemented
        if made is not NotImplemented:
            known[call.name] = made
        elif not call.op.startswith("_assert"):
            nodes.append(call)
            changed = read[0] if call.op.endswith("_") and read and read[0] in known else None
            stale |= {n for n, v in known.items() if n != changed and share(v, known[changed])} if changed else set()
    return nodes, stale


def check_not_stale(names: Iterable[str], stale: Collection[str]) -> None:
    """Raise CompileError if one of the constants `names` is `stale`: an op of the network changed its memory in place."""
    for name in names:
        if name in stale:
            raise CompileError(CHANGED, "use the out-of-place op", tensor=name)


def refs(node: Node) -> list[Ref]:
    """Return all Refs among the arguments of a node, in order; a value that is read twice is listed twice."""
    return leaves((node.args, node.kwargs), Ref)


def leaves(value: Any, kind: type = object) -> list[Any]:
    """Return all values of type `kind` in nested lists, tuples and dicts, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list) or type(value) is tuple:  # a Ref or Unavailable is one value
        return [leaf for part in value for leaf in leaves(part, kind)]
    return [value] if isinstance(value, kind) else []


def resolved(value: Any, values: Mapping[str, Any]) -> Any:
    """Return (nested) arguments with each Ref replaced by its entry in `values`."""
    if isinstance(value, Ref):
        return values[value.name]
    if isinstance(value, Mapping):
        return {key: resolved(part, values) for key, part in value.items()}
    return type(value)(resolved(part, values) for part in value) if isinstance(value, (list, tuple)) else value


def _output(b: Builder, x: Any) -> str:
    """Return the name of the tensor of a network output: channels last if it lies so in memory, else in logical axis order."""
    if not isinstance(x, Map):
        raise Unsupported(
            x.why if isinstance(x, Unavailable) else "it is a constant or not a tensor; return only computed tensors"
        )
    order = tuple(range(len(x.axes))) if len(x.axes) < 4 and flattened(x.axes) == x.order else b.common_order(x)
    return b.tensor(x, _edge(x.axes, order))


def _edge(axes: Sequence[Axes], order: tuple[int, ...]) -> tuple[Axes, ...]:
    """Return the stored axes of a network input or output; a sequence [n, c, w] stored channels last becomes [n, 1, w, c]."""
    dims = tuple(axes[axis] for axis in order)
    return (dims[0], (), *dims[1:]) if len(order) == 3 and order != (0, 1, 2) else dims


def _refusal(missing: int, problems: Sequence[Refused], program: ImportedProgram) -> CompileError:
    """Return one error for all refused ops: for each op and reason, the count and the first module."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for op, where, why in problems:
        grouped.setdefault((op, why), []).append(where)
    lines = [
        f"{op} ({len(places)} times, first in {places[0]}): {why}" if len(places) > 1 else f"{op} (in {places[0]}): {why}"
        for (op, why), places in sorted(grouped.items(), key=lambda item: -len(item[1]))
    ]
    more = f"; and {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
    count = f"{len(problems)} op{'s' if len(problems) > 1 else ''}"
    whole = f"{count} of the {program.framework} model cannot be imported: " + "; ".join(lines[:MAX_LISTED]) + more
    total, others = len(_ops(program)), missing - sum(op not in ("output", "state") for op, _, _ in problems)
    reading = f", and {others} more read{'s' * (others == 1)} the outputs of these" if others > 0 else ""
    return CompileError(whole, f"{total - missing} of {total} ops can be imported{reading}")


def _ops(program: ImportedProgram) -> list[Node]:
    """Return the nodes of the program without those that only index a list of outputs."""
    return [node for node in program.nodes if node.op != "getitem"]


FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def line_of(trace: str | None) -> str:
    """Return the innermost line of a stack trace outside of PyTorch and the name of its file, or "" if there is none."""
    frames = [(path, number) for path, number in FRAME.findall(trace or "") if "/torch/" not in path.replace("\\", "/")]
    return f"line {frames[-1][1]} of {PurePath(frames[-1][0]).name}" if frames else ""
