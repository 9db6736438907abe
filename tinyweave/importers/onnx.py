"""Import an .onnx file.

In: the bytes of an untrusted file. Out: a Graph, channels last, of float32, or of int8 if the file is quantised.
`onnx_ops.OPS` has the importer function of each op, `onnx_ops.old_forms` those of opsets before 13. Nodes that depend on
initializers and shapes only are computed at import. Source: ONNX IR and operator schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from math import prod
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from ..support.installing import install
from .channels_last import BYTES
from .check_values import TOLERANCE, onnx_runs
from .function_chains import fuse_functions
from .onnx_ops.old_forms import functions_of
from .program import IF, ImportedProgram, Node, Ref, graph_of
from .refused import refusal_of
from .shapes import Axis, Dynamic, Shapes, fixed_shapes

MAX_FILE = 1 << 28  # bytes of the file; a float network is four times as large as its int8 form
MAX_NODES = 1 << 12
MAX_BYTES = 1 << 28  # total size of all initializers
TOLERANCE_HALF = 0.05  # of the range of an output, if another evaluator computes in float16
ML = "ai.onnx.ml"  # the domain of scikit-learn's models
KEEPING = ("Cast", "Identity", "Reshape", "Squeeze")  # ops that keep labels labels
MOST_NESTED = 4  # function bodies in function bodies
FLOATS = ("float16", "bfloat16", "float32", "float64")
BESIDE = "put it beside the .onnx file, or save the model as one file: onnx.save(onnx.load(path), out)"
NAMELESS = ("?", "None", "-1")  # what exporters such as Paddle2ONNX write for each unknown size; these need not be equal
STANDARD = ("", "ai.onnx")  # names of the default operator domain
Read = Callable[[str], bytes]


def from_onnx(
    data: bytes, name: str, read: Read | None = None, path: Path | None = None, shapes: Shapes | None = None
) -> Graph:
    """Return the graph of an .onnx file, called `name`; raise CompileError if it is damaged or an op is unsupported.

    `read` maps the bare name of an external data file in the model's folder to its bytes; None if the model must be one file.
    With `path`, a float graph is compared with ONNX Runtime. `shapes` gives inputs with dynamic axes a shape.
    """
    onnx = _onnx()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        return graph_of(_program(onnx, _inlined(onnx, model), read, shapes), name, onnx_runs(path) if path else None)
    except Exception as error:
        is_theirs = type(error).__module__.startswith(("google.protobuf", "onnx"))
        if is_theirs or isinstance(error, (ValueError, TypeError, KeyError, IndexError)):
            raise CompileError("not a readable .onnx file", "it may be cut short or damaged") from error
        raise


def _inlined(onnx: Any, model: Any) -> Any:
    """Return the model without local functions, and with the schema's function body in place of ops that have no importer."""
    if model.functions:
        _check_size(model)
        model = onnx.inliner.inline_local_functions(model)
    value_of = onnx.helper.make_tensor_value_info  # the inliner takes the types of initializers from here
    model.graph.value_info.extend(value_of(tensor.name, tensor.data_type, tensor.dims) for tensor in model.graph.initializer)
    opset, functions = _opset(model) or 0, functions_of(_opset(model))
    for _ in range(MOST_NESTED):  # a body may have such ops, too
        unknown = [node for node in _all_nodes(model.graph.node) if node.domain in STANDARD and node.op_type not in functions]
        # the body makes rows that are masked out completely 0; masks with finite numbers cannot say so
        masked = {node.op_type for node in unknown if node.op_type == "Attention" and any(node.input[3:])}
        names = {node.op_type for node in unknown if refusal_of("ONNX", node.op_type) is None} - masked
        bodies = {op: schema for op in names if (schema := _schema(onnx, op, opset)) is not None}
        if not bodies or len(model.graph.node) > MAX_NODES:
            break
        for node in (node for node in unknown if node.op_type in bodies):  # the inliner ignores default values
            given = {attribute.name for attribute in node.attribute}
            defaults = [attribute.default_value for attribute in bodies[node.op_type].attributes.values()]
            node.attribute.extend(value for value in defaults if value.name and value.name not in given)
        try:
            model = onnx.inliner.inline_selected_functions(model, [("", op) for op in bodies], inline_schema_functions=True)
        except (RuntimeError, TypeError):  # ONNX cannot infer a type, or is older than 1.20: the ops are refused by name
            break
    return model


def _schema(onnx: Any, op: str, opset: int) -> Any:
    """Return the schema of an ONNX op if it has a function body, else None."""
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    return schema if schema.has_function or schema.has_context_dependent_function else None


def _opset(model: Any) -> int | None:
    """Return the opset of ONNX's own ops; None if the file does not declare it."""
    opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
    return opsets.get("", opsets.get("ai.onnx"))


def _onnx() -> Any:
    try:
        import onnx
        import onnx.defs
        import onnx.helper
        import onnx.inliner
        import onnx.numpy_helper
    except ImportError as error:
        raise CompileError("onnx is not installed", install("onnx")) from error
    return onnx


def _check_size(model: Any) -> None:
    """Raise CompileError if the graph has more than MAX_NODES nodes once all calls of local functions are inlined."""
    bodies = [((function.domain, function.name), function.node) for function in model.functions]
    calls: dict[Any, list[tuple[str, str]]] = {
        name: [(node.domain, node.op_type) for node in _all_nodes(body)]
        for name, body in (*bodies, ((None, None), model.graph.node))
    }
    sizes, total = dict.fromkeys(calls, 0), sum(map(len, calls.values()))
    grown = total <= MAX_NODES
    while grown:  # a recursive function grows until it exceeds the limit
        before = dict(sizes)
        for name, called in calls.items():
            sizes[name] = min(sum(1 + sizes.get(each, 0) for each in called), MAX_NODES + 1)
        grown = sizes != before
    if max(total, sizes[None, None]) > MAX_NODES:
        raise CompileError(f"the graph has more than {MAX_NODES:,} nodes", "the nodes of called functions count at each call")


def _all_nodes(nodes: Any) -> Iterator[Any]:
    """Yield the nodes, and the nodes of subgraphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)


def _program(onnx: Any, model: Any, read: Read | None, shapes: Shapes | None) -> ImportedProgram:
    """Return the main graph as an ImportedProgram; inputs, constants and outputs keep their names in the file."""
    if not model.opset_import:
        raise CompileError("the .onnx file holds no model", "it may be empty or damaged")
    if _opset(model) is None and any(node.domain in STANDARD for node in model.graph.node):
        raise CompileError("the file has ONNX ops but does not declare their opset", "export it again")
    graph = model.graph
    _check_nodes(model)
    if graph.sparse_initializer:
        raise CompileError("the file has sparse initializers", "store them as dense tensors")
    constants = _constants(onnx, graph, read)
    given = [value for value in graph.input if value.name not in constants]
    inputs, _ = fixed_shapes({value.name: _input_axes(value) for value in given}, shapes)
    types = {value.name: _input_type(onnx, value) for value in given}
    known = {*inputs, *constants, ""}
    nodes = list(_nodes_of(onnx, graph, read, constants, known=known))
    labels = _labels(graph)
    nodes = [node for node in nodes if node.name not in labels]
    outputs = [Ref(value.name) for value in graph.output if value.name not in labels]
    for ref in outputs:
        if ref.name not in known:
            raise CompileError("is an output that no node computes", "the file may be damaged", tensor=ref.name)
    functions = functions_of(_opset(model))
    halves = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
    used = {tensor.data_type for tensor in graph.initializer} | {value.type.tensor_type.elem_type for value in graph.input}
    tolerance = TOLERANCE if halves.isdisjoint(used) else TOLERANCE_HALF
    return fuse_functions(ImportedProgram(inputs, constants, nodes, outputs, functions, "ONNX", types, tolerance=tolerance))


def _labels(graph: Any) -> set[str]:
    """Return the values that hold labels of an ai.onnx.ml classifier, to be left out if the network has another output.

    Values that the network computes with are no labels.
    """
    labels = set[str]()
    for _, node in _in_order(graph.node):
        if node.domain == ML and node.op_type == "LinearClassifier":
            labels.update(node.output[:1])
        elif (node.domain == ML and node.op_type == "ArrayFeatureExtractor") or (
            node.op_type in KEEPING and not labels.isdisjoint(node.input)
        ):
            labels.update(node.output)
    read = {name for node in graph.node if labels.isdisjoint(node.output) for name in node.input}
    is_left = any(value.name not in labels for value in graph.output) and labels.isdisjoint(read)
    return labels if is_left else set()


def _check_nodes(model: Any) -> None:
    count = sum(1 for _ in _all_nodes(model.graph.node))
    if count > MAX_NODES:
        raise CompileError(f"the graph has {count:,} nodes", f"at most {MAX_NODES:,} are supported")


def _nodes_of(
    onnx: Any,
    graph: Any,
    read: Read | None,
    constants: dict[str, np.ndarray],
    *,
    known: set[str],
    names: Mapping[str, str] = MappingProxyType({}),
    guards: tuple[tuple[Ref, bool], ...] = (),
) -> Iterator[Node]:
    """Yield the nodes of a graph, and the nodes of both branches before each If node, in execution order.

    `names` maps a name in a branch to its unique name in the program; `guards` are the conditions of the If nodes around a
    branch, and the values for which the branch runs. Initializers of branches are added to `constants`, outputs to `known`.
    """
    for position, node in _in_order(graph.node):
        own = onnx.NodeProto()
        own.CopyFrom(node)
        own.input[:] = [names.get(name, name) for name in node.input]
        own.output[:] = [names.get(name, name) for name in node.output]
        for name in own.input:
            if name not in known:
                raise CompileError("is read but no node computes it", "the file may be damaged", tensor=name)
        made = [name for name in own.output if name]
        if not made or len(set(made)) < len(made) or known.intersection(made):
            raise CompileError(
                f"node {position} ({node.op_type}) has no output, or overwrites an existing tensor", "the file may be damaged"
            )
        chosen = list[tuple[Ref, ...]]()  # the outputs of both branches
        if node.op_type == IF and node.domain in STANDARD:
            del own.attribute[:]
            for is_taken, branch in ((True, "then_branch"), (False, "else_branch")):
                inner = next((each.g for each in node.attribute if each.name == branch), onnx.GraphProto())
                prefix = f"{own.name or made[0]}.{branch}."
                values = [*(t.name for t in inner.initializer), *(name for each in inner.node for name in each.output if name)]
                below = {**names, **{name: prefix + name for name in values}}
                found = _constants(onnx, inner, read)
                constants |= {below[name]: value for name, value in found.items()}
                known.update(below[name] for name in found)
                within = (*guards, (Ref(own.input[0]), is_taken))
                yield from _nodes_of(onnx, inner, read, constants, known=known, names=below, guards=within)
                chosen.append(tuple(Ref(below.get(value.name, value.name)) for value in inner.output))
                if len(chosen[-1]) != len(node.output) or not known.issuperset(ref.name for ref in chosen[-1]):
                    raise CompileError(f"node {position} (If) has a {branch} without its outputs", "the file may be damaged")
        known.update(made)
        yield from (replace(each, guards=guards) for each in _nodes(onnx, own, chosen))


def _in_order(nodes: Any) -> Iterator[tuple[int, Any]]:
    """Yield (position in the file, node) in the order of the file, but each node after the nodes whose outputs it reads."""
    made_by = {name: position for position, node in enumerate(nodes) for name in node.output if name}
    sorter = TopologicalSorter(
        {position: {made_by[name] for name in _reads(node) if name in made_by} for position, node in enumerate(nodes)}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        position = error.args[1][0]
        why = f"node {position} ({nodes[position].op_type}) reads an output that depends on its own"
        raise CompileError(why, "the file may be damaged") from error
    ready: list[int] = []
    while sorter.is_active():
        for position in sorter.get_ready():
            heappush(ready, position)
        position = heappop(ready)
        yield position, nodes[position]
        sorter.done(position)


def _reads(node: Any) -> Iterator[str]:
    """Yield the names of the values that a node reads, or that subgraphs in its attributes read from outside."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {name for each in graph.node for name in each.output} | {tensor.name for tensor in graph.initializer}
            read = [value.name for value in graph.output] + [name for each in graph.node for name in _reads(each)]
            yield from (name for name in read if name not in own)


def _constants(onnx: Any, graph: Any, read: Read | None) -> dict[str, np.ndarray]:
    """Return the initializers of an ONNX graph, by name; `read` is as for `from_onnx`."""
    constants, files = dict[str, np.ndarray](), dict[str, bytes]()
    total = 0
    for tensor in graph.initializer:
        is_beside = tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data
        array = _external(onnx, tensor, read, files) if is_beside else onnx.numpy_helper.to_array(tensor)
        constants[tensor.name] = _numbers(array, tensor.name)
        total += constants[tensor.name].nbytes
        if total > MAX_BYTES:
            raise CompileError(f"the initializers take more than {MAX_BYTES:,} bytes", "no microcontroller can hold them")
    return constants


def _external(onnx: Any, tensor: Any, read: Read | None, files: dict[str, bytes]) -> np.ndarray:
    """Return an initializer stored in another file of the model's folder, but not elsewhere; `files` is a cache."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if read is None or location in ("", "..") or PurePath(location).name != location:
        raise CompileError(f"is stored in the file '{location}'", BESIDE, tensor=tensor.name)
    if location not in files:
        files[location] = read(location)
    dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
    begin = int(where.get("offset", 0))
    size = prod(shape) * dtype.itemsize
    if min(begin, *shape, 0) < 0 or int(where.get("length", size)) != size or begin + size > len(files[location]):
        raise CompileError(
            f"does not match the file '{location}' in offset or length", "one of both may be damaged", tensor=tensor.name
        )
    return np.frombuffer(files[location], dtype, prod(shape), begin).reshape(shape)


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    """Return numbers, with floats as float32; raise CompileError, with `name`, for other values than numbers."""
    if str(values.dtype) in FLOATS:
        return np.asarray(values.astype(np.float32))
    if values.dtype.kind not in "iub":
        raise CompileError(f"holds {values.dtype}", "only numbers are supported", tensor=name or "constant")
    return values


def _input_type(onnx: Any, value: Any) -> str:
    """Return the type of a graph input, described by the ValueInfoProto `value`; raise CompileError if it is not supported."""
    code = value.type.tensor_type.elem_type
    names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    dtype = str(names.get(code, "an unknown type"))
    if dtype not in ("float", "float16", "bfloat16", "double", "int32", "int64", *BYTES):
        raise CompileError(f"is an input of {dtype}", "make it float, or uint8 or int8 and cast it to float", tensor=value.name)
    return dtype


def _input_axes(value: Any) -> list[Axis]:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise CompileError("has no shape", "export the model with fixed shapes", tensor=value.name)
    names = ["" if dim.dim_param in NAMELESS else dim.dim_param for dim in kind.shape.dim]
    return [
        dim.dim_value if dim.dim_value > 0 else Dynamic(name or f"{value.name}[{axis}]", name)
        for axis, (dim, name) in enumerate(zip(kind.shape.dim, names, strict=True))
    ]


def _nodes(onnx: Any, node: Any, branches: Sequence[tuple[Ref, ...]]) -> list[Node]:
    """Convert an ONNX node to a Node, plus a `getitem` Node per output if it has several; `branches` are an If's outputs."""
    op = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    made = [name for name in node.output if name]
    where = node.name or made[0]
    args = (*(Ref(name) if name else None for name in node.input), *branches)
    attributes = {each.name: _attribute(onnx, each) for each in node.attribute}
    if len(node.output) == 1:
        return [Node(made[0], op, args, attributes, where)]
    whole = f"{where}: {', '.join(made)}"
    parts = [Node(name, "getitem", (Ref(whole), index), {}, where) for index, name in enumerate(node.output) if name]
    return [Node(whole, op, args, {**attributes, "outputs": len(node.output)}, where), *parts]


def _attribute(onnx: Any, attribute: Any) -> Any:
    """Return an ONNX attribute as plain Python data or an array; a subgraph (no supported op has one) is returned unchanged."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        if value.external_data:
            raise CompileError("is stored in another file", "save the model as one file", tensor=value.name or "constant")
        return _numbers(onnx.numpy_helper.to_array(value), value.name)
    texts = [each.decode() if isinstance(each, bytes) else each for each in (value if isinstance(value, list) else [value])]
    return texts if isinstance(value, list) else texts[0]
