"""Import a .tflite file.

In: the bytes of an untrusted file. Out: a verified Graph. SAME and VALID padding become numbers, ops are named
`<kind>_<position>`, tensor names are made unique, and variables become state tensors that the ops in `Graph.init` initialise.
float16 becomes float32, sparse constants become dense, and integer weights of float32 ops become float32. A file that is
damaged, exceeds a limit or is unsupported raises CompileError. Source: TFLite schema.fbs; `tflite_schema.OPS` has the options.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import tflite

from ..ir import CompileError, Graph, Op, Tensor, itemsize, opaque, rebuild, verify
from ..ops import spec_of
from ..tflite_schema import IDENTIFIER, NO_OPERANDS, OPS, SCHEMA_VERSION, WITHOUT_VALUE, attributes, kind_of
from .refused import refusal_of
from .shapes import Axis, Dynamic, Shapes, fixed_shapes
from .tflite_constants import real_weights
from .tflite_file import MAX_BYTES, MAX_COUNT, MAX_OPS, DamagedError, File, claimed, indices, quant_of, tensor_of, unique
from .tflite_lowering import lowered

ABSENT = -1  # index of an absent optional input
MAX_FILE = 1 << 26  # bytes
MAX_DEPTH = 16  # composites inside composites
COMPOSITE = "stablehlo_composite"  # kind of an op that is replaced by the ops of its decomposition, a subgraph


def from_tflite(data: bytes, name: str, problems: list[CompileError] | None = None, shapes: Shapes | None = None) -> Graph:
    """Convert the first subgraph of a .tflite file, which LiteRT runs by default, to a Graph.

    `problems`, if not None, gets the errors of unsupported ops, which become ops of the kind UNSUPPORTED. Inputs with dynamic
    axes get their `shapes`, or keep the shape in the file, whose batch is 1.
    """
    try:
        return verify(_graph(data, name, problems, shapes))
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        # raised by flatbuffers if an offset or a length points outside the file
        why = f": {error}" if isinstance(error, DamagedError) else ""
        raise CompileError(f"not a readable .tflite file{why}", "it may be cut short or damaged") from error


def _graph(data: bytes, name: str, problems: list[CompileError] | None, shapes: Shapes | None) -> Graph:
    """Return the graph of the first subgraph, without a check that it is valid; the arguments are as for `from_tflite`."""
    if data[4:8] != IDENTIFIER:
        raise CompileError("not a readable .tflite file: it lacks the identifier TFL3", "give a .tflite, .onnx or .pt2 model")
    model = tflite.Model.GetRootAs(data, 0)
    if model.Version() != SCHEMA_VERSION:
        raise CompileError(f"the .tflite schema has version {model.Version()}", f"version {SCHEMA_VERSION} is supported")
    if model.SubgraphsLength() < 1:
        raise CompileError("the file has no subgraph", "it may be damaged")
    file = File(data, model, tolerant=problems is not None)
    main = _subgraph(file, 0)
    variables: dict[Variable, str] = {}
    tensors: dict[str, Tensor] = {}
    try:
        init = _init(file, main, variables, tensors)
    except CompileError as error:
        if problems is None or not (error.op or set(main.kinds) - set(OPS)):
            raise
        init, variables, tensors = [], {}, {}
        problems += [error] if error.op else []  # without an op: an unsupported control flow op has its own problem

    names = {index: variables[variable] for index, variable in main.handles.items() if variable in variables}
    broken = _read_tensors(file, main, names, tensors, init, strict=problems is None)
    signatures = {names[index]: file.vector(main.tensors[index], "ShapeSignature") for index in main.inputs}
    _reshape_inputs(tensors, signatures, shapes or {})
    ops, part = list[Op](), _Part(file, main, names, broken, tensors)
    for operator in main.operators:
        if operator.kind in WITHOUT_VALUE:
            continue
        op = Op(f"{operator.kind.partition(' ')[0]}_{len(ops)}", operator.kind, (), ())
        try:
            made = _converted(part, operator, op, len(ops))
            for each in made if shapes else ():
                _infer_again(tensors, each)
            ops += made
        except CompileError as error:
            if problems is None:
                raise
            problems.append(error)
            ops.append(_opaque(part, operator, op))
    if not main.handles.keys().isdisjoint((*main.inputs, *main.outputs)):
        raise CompileError("a variable is an input or output of the network", "pass its value instead")
    inputs, outputs = (tuple(names[index] for index in edge) for edge in (main.inputs, main.outputs))
    return _widened(Graph(name, tensors, tuple(ops), inputs, outputs, tuple(init)))


class _Part(NamedTuple):
    """A subgraph whose tensors are read: their names by index, and the errors of those that are unreadable, by name."""

    file: File
    main: _Subgraph
    names: Mapping[int, str]
    broken: Mapping[str, CompileError]
    tensors: dict[str, Tensor]


def _converted(part: _Part, operator: _Operator, op: Op, number: int) -> list[Op]:
    """Return the ops that compute an operator, from op `number` of the graph on; `op` has its kind only."""
    (file, main, names, broken, tensors), (owner, table, _, reads, writes) = part, operator
    if any(index in main.handles and index not in names for index in (*reads, *writes)):
        raise CompileError("uses a variable that is never initialised", "export the model with its initialiser subgraph", op=op)
    if op.kind not in OPS:
        raise _unknown(op)
    for name in (names[i] for i in (*reads, *writes) if i in names):
        if name in broken:
            raise CompileError(broken[name].why, broken[name].what_to_do, op=op, tensor=name)
    op = _with_operands(op, [names.get(i) for i in reads], [names[i] for i in writes], tensors)
    if op.kind == "unidirectional_sequence_lstm":
        _check_hidden(file, owner, table, op, tensors)
    op = replace(op, attrs=attributes(table, replace(NO_OPERANDS, tensors=tensors), op))
    return lowered(real_weights(op, tensors, file.claim), tensors, number)


def _opaque(part: _Part, operator: _Operator, op: Op) -> Op:
    """Return the operator as an op of the kind UNSUPPORTED; an unreadable constant becomes an absent input."""
    names, written = part.names, part.main.written
    known = (names.get(i) if i in written or names.get(i) not in part.broken else None for i in operator.reads)
    outputs = tuple(names[i] for i in operator.writes if i in names)
    return opaque(replace(op, inputs=tuple(known), outputs=outputs))


def _read_tensors(
    file: File, main: _Subgraph, names: dict[int, str], tensors: dict[str, Tensor], init: list[Op], *, strict: bool
) -> dict[str, CompileError]:
    """Read the tensors of ops into `names`, `tensors` and `init`; return the errors, or, if `strict`, raise the first."""
    broken, written = dict[str, CompileError](), main.written
    for index in sorted(
        written.union(main.outputs, *(operator.reads for operator in main.operators)) - {ABSENT, *main.handles}
    ):
        table = main.tensors[index]
        names[index] = unique(file.text(table.Name()) or f"tensor_{index}", index, tensors)
        dtype, shape = claimed(file, table, names[index])
        try:
            is_edge = index in main.inputs or index in main.outputs
            tensor = tensor_of(file, table, names[index], index in written, is_edge=is_edge, dtype=dtype, shape=shape)
            tensors[names[index]] = tensor
        except CompileError as error:
            if strict:
                raise
            broken[names[index]] = error
            tensors[names[index]] = tensor = Tensor(names[index], shape, dtype or "int8")
        if tensor.role == "state":
            init.append(_first_value(tensor, tensors))
    return broken


def _widened(graph: Graph) -> Graph:
    """Drop unused tensors; store int4 constants as int8, but for weights that only ops on int8 activations read."""
    weights, others = set[str | None](), set[str | None](graph.outputs)
    for op in (*graph.init, *graph.ops):
        takes = spec_of(op).takes_int4_weights and len(op.inputs) > 1 and graph.input(op).dtype == "int8"
        weights |= {op.inputs[1]} if takes else set()
        others |= {name for index, name in enumerate(op.inputs) if not takes or index != 1}
    narrow = {name for name, tensor in graph.tensors.items() if tensor.dtype == "int4"} - (weights - others)
    return rebuild(graph, tensors={**graph.tensors} | {name: replace(graph.tensors[name], dtype="int8") for name in narrow})


Variable = tuple[bytes, bytes]  # container and name


class _Operator(NamedTuple):
    """An operator of a subgraph; a tensor is an index into `_Subgraph.tensors`, or ABSENT (an optional input)."""

    owner: tflite.SubGraph  # the subgraph of the file that has it
    table: tflite.Operator
    kind: str
    reads: list[int]
    writes: list[int]


@dataclass(frozen=True)
class _Subgraph:
    """A subgraph with composites decomposed."""

    tensors: list[tflite.Tensor]
    operators: list[_Operator]
    inputs: list[int]
    outputs: list[int]
    handles: dict[int, Variable]  # resource tensor -> the variable that it stands for

    @property
    def kinds(self) -> list[str]:
        """The kinds of the operators."""
        return [operator.kind for operator in self.operators]

    @property
    def written(self) -> set[int]:
        """The tensors that are inputs or that an op writes."""
        return {*self.inputs, *(index for operator in self.operators for index in operator.writes)}


def _subgraph(file: File, number: int, callers: tuple[int, ...] = ()) -> _Subgraph:
    """Return subgraph `number`, which the composites of `callers` led to; raise CompileError if it is too large or damaged."""
    table = file.model.Subgraphs(number)
    for what, count, limit in (("tensors", table.TensorsLength(), MAX_COUNT), ("ops", table.OperatorsLength(), MAX_OPS)):
        if count > limit:
            raise CompileError(f"the file has {count} {what}", f"at most {limit} are supported")
    count = table.TensorsLength()
    tables = [table.Operators(index) for index in range(table.OperatorsLength())]
    kinds = [kind_of(file.model, operator) for operator in tables]
    for position, kind in enumerate(kinds):
        if kind not in (*OPS, COMPOSITE) and not file.tolerant:
            raise _unknown(Op(f"{kind.partition(' ')[0]}_{position}", kind, (), ()))
    operands = sum(o.InputsLength() + o.OutputsLength() for o in tables)
    if operands > MAX_COUNT:
        raise CompileError(f"the ops have {operands} operands", f"at most {MAX_COUNT} are supported")
    reads = [indices(file.vector(o, "Inputs"), ABSENT, count) for o in tables]
    writes = [indices(file.vector(o, "Outputs"), 0, count) for o in tables]
    operators = [_Operator(table, *each) for each in zip(tables, kinds, reads, writes, strict=True)]
    handles = {}
    for position, operator in enumerate(operators):
        if operator.kind == "var_handle":
            op = Op(f"var_handle_{position}", operator.kind, (), ())
            if len(operator.writes) != 1:
                raise CompileError(f"has {len(operator.writes)} outputs", "the file may be damaged", op=op)
            said = attributes(operator.table, NO_OPERANDS, op)
            handles[operator.writes[0]] = variable = (said["container"] or b"", said["shared_name"] or b"")
            file.text(b"".join(variable))
    inputs, outputs = (indices(file.vector(table, edge), 0, count) for edge in ("Inputs", "Outputs"))
    part = _Subgraph([table.Tensors(index) for index in range(count)], operators, inputs, outputs, handles)
    return _inlined(file, part, (*callers, number)) if COMPOSITE in kinds else part


def _inlined(file: File, part: _Subgraph, callers: tuple[int, ...]) -> _Subgraph:
    """Return a subgraph with each composite replaced by the ops of its decomposition, which may have composites, too."""
    tensors, handles, operators = list(part.tensors), dict(part.handles), list[_Operator]()
    for position, operator in enumerate(part.operators):
        made = [operator]
        if operator.kind == COMPOSITE:
            op = Op(f"composite_{position}", COMPOSITE, (), ())
            inner, first = _decomposition(file, operator.table, op, callers), len(tensors)
            if len(inner.inputs) != len(operator.reads) or len(inner.outputs) != len(operator.writes):
                raise CompileError("has other operands than its decomposition", "the file may be damaged", op=op)
            written = {index for each in inner.operators for index in each.writes}
            if not {*inner.outputs} <= written or len({*inner.outputs}) != len(operator.writes):
                raise CompileError("has a decomposition that returns an input, a constant or a tensor twice", op=op)
            own = {index: first + index for index, _ in enumerate(inner.tensors)} | {ABSENT: ABSENT}
            own |= dict(zip((*inner.inputs, *inner.outputs), (*operator.reads, *operator.writes), strict=True))
            tensors += inner.tensors
            handles |= {own[index]: variable for index, variable in inner.handles.items()}
            made = [
                each._replace(reads=[own[i] for i in each.reads], writes=[own[i] for i in each.writes])
                for each in inner.operators
            ]
        operators += made
        if len(operators) > MAX_OPS or len(tensors) > MAX_COUNT:
            raise CompileError(f"the composites have more than {MAX_OPS} ops or {MAX_COUNT} tensors", "export it without them")
    return replace(part, tensors=tensors, operators=operators, handles=handles)


def _decomposition(file: File, operator: tflite.Operator, op: Op, callers: tuple[int, ...]) -> _Subgraph:
    """Return the subgraph that computes a composite; `callers` are the subgraphs that led to the composite."""
    union, said = operator.BuiltinOptions2(), operator.BuiltinOptions2Type()
    if union is None or said != tflite.BuiltinOptions2.StableHLOCompositeOptions:
        raise CompileError("has no StableHLOCompositeOptions", "the file may be damaged", op=op)
    options = tflite.StableHLOCompositeOptions()
    options.Init(union.Bytes, union.Pos)
    number = options.DecompositionSubgraphIndex()
    if not 0 < number < file.model.SubgraphsLength() or number in callers or len(callers) > MAX_DEPTH:
        raise CompileError(f"has subgraph {number} as its decomposition", "the file may be damaged", op=op)
    file.claim_decomposition()
    return _subgraph(file, number, callers)


def _init(file: File, main: _Subgraph, variables: dict[Variable, str], tensors: dict[str, Tensor]) -> list[Op]:
    """Return the ops that initialise variables, from the subgraphs of call_once; add states to `variables` and `tensors`."""
    init: list[Op] = []
    called = {0}
    for position, kind in enumerate(main.kinds):
        if kind != "call_once":
            continue
        caller = Op(f"call_once_{position}", kind, (), ())
        number = attributes(main.operators[position].table, NO_OPERANDS, caller)["subgraph"]
        if not 0 < number < file.model.SubgraphsLength() or number in called:
            raise CompileError(f"calls subgraph {number}", "call another subgraph, once", op=caller)
        if any(touching in ("read_variable", "assign_variable") for touching in main.kinds[:position]):
            raise CompileError("initialises variables after their first use", "call the initialiser first", op=caller)
        called.add(number)
        part = _subgraph(file, number)
        if set(part.kinds) - {"var_handle", "assign_variable"} or part.inputs or part.outputs:
            raise CompileError("calls a subgraph that does more than initialise variables", "assign constants only", op=caller)
        init += _assignments(file, part, caller, variables, tensors)
    return init


def _assignments(
    file: File, part: _Subgraph, caller: Op, variables: dict[Variable, str], tensors: dict[str, Tensor]
) -> Iterator[Op]:
    """Yield an assign_variable op for each constant that the initialiser `part` assigns; `caller` is for messages."""
    for reads in (operator.reads for operator in part.operators if operator.kind == "assign_variable"):
        if len(reads) != 2 or reads[0] not in part.handles or reads[1] in (ABSENT, *part.handles):
            raise CompileError(
                "has an assignment that does not assign a constant to a variable", "the file may be damaged", op=caller
            )
        variable = part.handles[reads[0]]
        if variable in variables:
            raise CompileError("assigns to a variable twice", "initialise each variable once", op=caller)
        name = variables[variable] = unique(variable[1].decode(errors="replace") or "variable", len(variables), tensors)
        tensors[name] = Tensor(name, (), "int8")  # reserves the name until the value is read
        table = part.tensors[reads[1]]
        dtype, shape = claimed(file, table, f"{name}.initial")
        value = tensor_of(file, table, f"{name}.initial", written=False, dtype=dtype, shape=shape)
        file.claim(value.bytes, True, name)
        tensors[name] = replace(value, name=name, data=None, role="state")
        yield _initial_assignment(value, name, tensors)


def _initial_assignment(value: Tensor, name: str, tensors: dict[str, Tensor]) -> Op:
    """Add `value` to `tensors` as a constant, and return the op that assigns it to the state tensor `name`."""
    own = unique(f"{name}.initial", len(tensors), tensors)
    tensors[own] = replace(value, name=own)
    return Op(f"init_{name}", "assign_variable", (own,), (name,))


def _first_value(tensor: Tensor, tensors: dict[str, Tensor]) -> Op:
    """Return the op that initialises a state with the real number 0, as TFLite does; add the constant to `tensors`."""
    zero = tensor.zero_point if tensor.dtype == "int8" and tensor.quant is not None and not tensor.quant.per_channel else 0
    value = replace(tensor, data=np.full(tensor.shape, zero, tensor.dtype), role="constant")
    return _initial_assignment(value, tensor.name, tensors)


def _reshape_inputs(tensors: dict[str, Tensor], signatures: Mapping[str, np.ndarray[Any, Any]], shapes: Shapes) -> None:
    """Give the inputs in `tensors` their `shapes`; `signatures` has -1 for a dynamic axis, or is empty if none is.

    Files store 1 for a dynamic axis of unknown size. Raise CompileError if such an axis is not the batch and has no shape.
    """
    axes = dict[str, list[Axis]]()
    for name, signature in signatures.items():
        stored = tensors[name].shape
        said = list(signature) if len(signature) == len(stored) else stored
        axes[name] = [
            Dynamic(f"{name}[{axis}]") if extent < 0 and (name in shapes or (axis and stored[axis] == 1)) else stored[axis]
            for axis, extent in enumerate(said)
        ]
    for name, shape in fixed_shapes(axes, shapes)[0].items():
        _reshape(tensors, name, shape)


def _infer_again(tensors: dict[str, Tensor], op: Op) -> None:
    """Compute the shapes of the outputs of `op` in `tensors` from the shapes of its inputs."""
    for name, shape in zip(op.outputs, spec_of(op).infer(replace(NO_OPERANDS, tensors=tensors), op), strict=False):
        _reshape(tensors, name, shape)


def _reshape(tensors: dict[str, Tensor], name: str, shape: tuple[int, ...]) -> None:
    """Give a tensor another shape; raise CompileError if it then has more than MAX_BYTES bytes."""
    if (size := prod(shape) * itemsize(tensors[name].dtype)) > MAX_BYTES:
        raise CompileError(f"has {size:,} bytes", f"at most {MAX_BYTES:,} are supported", tensor=name)
    tensors[name] = replace(tensors[name], shape=shape)


def _with_operands(op: Op, inputs: list[str | None], outputs: list[str], tensors: Mapping[str, Tensor]) -> Op:
    """Return the op with these input and output tensors. State tensors that the op changes are added to its outputs."""
    state = [name for name in inputs if name is not None and tensors[name].role == "state"]
    if op.kind == "assign_variable":
        if len(inputs) != 2 or inputs[:1] != state or outputs:
            raise CompileError("does not assign exactly one value to a variable", "the file may be damaged", op=op)
        inputs, outputs = inputs[1:], state
    elif spec_of(op).family == "recurrent":
        outputs = [*outputs, *state]
    return replace(op, inputs=tuple(inputs), outputs=tuple(outputs))


def _check_hidden(file: File, owner: tflite.SubGraph, operator: tflite.Operator, op: Op, tensors: Mapping[str, Tensor]) -> None:
    """Raise CompileError if an LSTM's hidden state (its fifth intermediate tensor) and its output differ in quantisation."""
    intermediates = indices(file.vector(operator, "Intermediates"), 0, owner.TensorsLength())
    if len(intermediates) > 4 and op.outputs:
        table, out = owner.Tensors(intermediates[4]), tensors[op.outputs[0]]
        if quant_of(file, table.Quantization(), f"hidden of {op.name}", 1) != out.quant:
            raise CompileError("quantises its hidden state and its output differently", "export it with equal scales", op=op)


def _unknown(op: Op) -> CompileError:
    refusal = refusal_of(".tflite", op.kind if op.kind.startswith("custom ") else op.kind.upper())
    to_do = refusal.instead if refusal else "'tinyweave docs supported_ops' lists the supported ops"
    return CompileError(f"ops of the kind {op.kind} are not supported{f': {refusal.why}' if refusal else ''}", to_do, op=op)
