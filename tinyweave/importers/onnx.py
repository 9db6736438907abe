"""Import an .onnx file.

In: the bytes of an untrusted file. Out: a Graph, channels last, of float32, or of int8 if the file is quantised.
`onnx_ops.OPS` has the importer function of each op, `onnx_ops.old_forms` those of opsets before 13. Nodes that depend on
initializers and shapes only are computed at import. Source: ONNX IR and operator schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from math import prod
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..installing import install
from ..ir import CompileError, Graph
from .channels_last import BYTES
from .check_values import onnx_runs
from .function_chains import fuse_functions
from .onnx_ops.old_forms import functions_of
from .program import ImportedProgram, Node, Ref, graph_of
from .shapes import Axis, Dynamic, Shapes, fixed_shapes

MAX_FILE = 1 << 28  # bytes of the file; a float network is four times as large as its int8 form
MAX_NODES = 1 << 12
MAX_BYTES = 1 << 28  # total size of all initializers
FLOATS = ("float16", "float32", "float64")
BESIDE = "put it beside the .onnx file, or save the model as one file: onnx.save(onnx.load(path), out)"
STANDARD = ("", "ai.onnx")  # names of the default operator domain
Read = Callable[[str], bytes]


def from_onnx(
    data: bytes, name: str, read: Read | None = None, path: Path | None = None, shapes: Shapes | None = None
) -> Graph:
    """Return the graph of an .onnx file, called `name`; raise CompileError if it is damaged or an op is unsupported.

    `data` is the content of the file. `read` maps the bare name of an external data file in the model's folder to its bytes;
    None if the model must be one file. With the `path` of the file, the values of a float graph are compared with ONNX Runtime.
    `shapes` gives inputs with dynamic axes a shape.
    """
    onnx = _onnx()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        if model.functions:
            _check_size(model)
            model = onnx.inliner.inline_local_functions(model)
        return graph_of(_program(onnx, model, read, shapes), name, onnx_runs(path) if path else None)
    except Exception as error:
        is_theirs = type(error).__module__.startswith(("google.protobuf", "onnx"))
        if is_theirs or isinstance(error, (ValueError, TypeError, KeyError, IndexError)):
            raise CompileError("not a readable .onnx file", "it may be cut short or damaged") from error
        raise


def _opset(model: Any) -> int | None:
    """Return the opset of ONNX's own ops; None if the file does not declare it."""
    opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
    return opsets.get("", opsets.get("ai.onnx"))


def _onnx() -> Any:
    """Return the module onnx; raise CompileError if it is not installed."""
    try:
        import onnx
        import onnx.helper
        import onnx.inliner
        import onnx.numpy_helper
    except ImportError as error:
        raise CompileError("onnx is not installed", install("onnx")) from error
    return onnx


def _check_size(model: Any) -> None:
    """Raise CompileError if the graph has more than MAX_NODES nodes once all calls of local functions are inlined."""
    calls = {(function.domain, function.name): list(_calls(function.node)) for function in model.functions}
    calls[None, None] = list(_calls(model.graph.node))
    sizes, total = dict.fromkeys(calls, 0), sum(map(len, calls.values()))
    grown = total <= MAX_NODES
    while grown:  # a recursive function grows until it exceeds the limit
        before = dict(sizes)
        for name, called in calls.items():
            sizes[name] = min(sum(1 + sizes.get(each, 0) for each in called), MAX_NODES + 1)
        grown = sizes != before
    if max(total, sizes[None, None]) > MAX_NODES:
        raise CompileError(f"the graph has more than {MAX_NODES:,} nodes", "the nodes of called functions count at each call")


def _calls(nodes: Any) -> Iterator[tuple[str, str]]:
    """Yield (domain, op type) of each node, including the nodes of subgraphs in attributes."""
    for node in nodes:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _calls(graph.node)


def _program(onnx: Any, model: Any, read: Read | None, shapes: Shapes | None) -> ImportedProgram:
    """Return the main graph as an ImportedProgram. Inputs, constants and outputs keep their names in the file.

    `read` maps the name of an external data file to its bytes; None if there are no such files. `shapes` gives inputs with
    dynamic axes a shape.
    """
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
    known, nodes = {*inputs, *constants, ""}, list[Node]()
    for position, node in _in_order(graph.node):
        for name in node.input:
            if name not in known:
                raise CompileError("is read but no node computes it", "the file may be damaged", tensor=name)
        made = [name for name in node.output if name]
        if not made or len(set(made)) < len(made) or known.intersection(made):
            raise CompileError(
                f"node {position} ({node.op_type}) has no output, or overwrites an existing tensor", "the file may be damaged"
            )
        known.update(made)
        nodes += _nodes(onnx, node)
    integers = [name for name, dtype in types.items() if dtype in ("int32", "int64")]
    bytes_ = {name: dtype for name, dtype in types.items() if dtype in BYTES}
    outputs = [Ref(value.name) for value in graph.output]
    for ref in outputs:
        if ref.name not in known:
            raise CompileError("is an output that no node computes", "the file may be damaged", tensor=ref.name)
    functions = functions_of(_opset(model))
    return fuse_functions(ImportedProgram(inputs, constants, nodes, outputs, functions, "ONNX", integers, {}, bytes_))


def _check_nodes(model: Any) -> None:
    """Raise CompileError if the main graph has more than MAX_NODES nodes."""
    if len(model.graph.node) > MAX_NODES:
        raise CompileError(f"the graph has {len(model.graph.node):,} nodes", f"at most {MAX_NODES:,} are supported")


def _in_order(nodes: Any) -> Iterator[tuple[int, Any]]:
    """Yield (position in the file, node) so that each node follows the nodes whose outputs it reads.

    Apart from this, the nodes are in the order of the file.
    """
    made_by = {name: position for position, node in enumerate(nodes) for name in node.output if name}
    sorter = TopologicalSorter(
        {position: {made_by[name] for name in node.input if name in made_by} for position, node in enumerate(nodes)}
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


def _constants(onnx: Any, graph: Any, read: Read | None) -> dict[str, np.ndarray]:
    """Return the initializers, the constants of an ONNX graph, by name.

    `read` maps the name of an external data file to its bytes; None if there are no such files.
    """
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
    """Return an initializer that is stored in another file in the folder of the model.

    `read` maps the name of the file to its bytes. `files` caches the files that were read. A path to another folder is refused.
    """
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
    """Return the values of an initializer or attribute; float16 and float64 become float32. Raise CompileError for non-numbers.

    `name` is only used in the message.
    """
    if values.dtype.kind not in "fiub":
        raise CompileError(f"holds {values.dtype}", "only numbers are supported", tensor=name or "constant")
    return np.asarray(values.astype(np.float32) if str(values.dtype) in FLOATS else values)


def _input_type(onnx: Any, value: Any) -> str:
    """Return the type of a graph input, described by the ValueInfoProto `value`; raise CompileError if it is not supported."""
    code = value.type.tensor_type.elem_type
    names = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    dtype = str(names.get(code, "an unknown type"))
    if dtype not in ("float", "int32", "int64", *BYTES):
        raise CompileError(f"is an input of {dtype}", "make it float, or uint8 or int8 and cast it to float", tensor=value.name)
    return dtype


def _input_axes(value: Any) -> list[Axis]:
    """Return the axes of a graph input, described by the ValueInfoProto `value`."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise CompileError("has no shape", "export the model with fixed shapes", tensor=value.name)
    return [
        dim.dim_value if dim.dim_value > 0 else Dynamic(dim.dim_param or f"{value.name}[{axis}]", dim.dim_param)
        for axis, dim in enumerate(kind.shape.dim)
    ]


def _nodes(onnx: Any, node: Any) -> list[Node]:
    """Convert an ONNX node to one Node, or, if it has several outputs, to a Node and a `getitem` Node for each output."""
    op = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    made = [name for name in node.output if name]
    where = node.name or made[0]
    args = tuple(Ref(name) if name else None for name in node.input)
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
