"""An .onnx file as a Graph.

In: the file's bytes, which nobody vouches for. Out: a Graph, channels last, of float32, or of int8 if the file is quantised.
`onnx_ops.OPS` says what each op becomes; what depends on constants and shapes only is computed while the graph grows. Source:
ONNX IR and operator schemas, opset 13 and later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import PurePath
from typing import Any

import numpy as np

from ..ir import CompileError, Graph
from .erf_chains import with_gelu
from .onnx_ops import OPS, QUANTISED
from .program import Exported, Node, Ref, graph_of

OLDEST_OPSET = 13
MAX_FILE = 1 << 28  # bytes: a float network is four times as large as its int8 form
MAX_NODES = 1 << 12
MAX_BYTES = 1 << 28  # of all constants together
FLOATS = ("float16", "float32", "float64")
BESIDE = "put it beside the .onnx file, or write the model as one: onnx.save(onnx.load(path), out)"
QUANTISED_INPUTS = frozenset(op.rpartition(".")[2] for op in QUANTISED if op != "QuantizeLinear")
Read = Callable[[str], bytes]


def from_onnx(data: bytes, name: str, read: Read | None = None) -> Graph:
    """Return the graph of a file, called `name`; CompileError for what is damaged or unsupported.

    read: returns the bytes of a file beside it, which may hold constants; it is asked for names without a path only.
    """
    onnx = _onnx()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        if model.functions:
            _check_size(model)
            model = onnx.inliner.inline_local_functions(model)
        return graph_of(_program(onnx, model, read), name)
    except Exception as error:
        is_theirs = type(error).__module__.startswith(("google.protobuf", "onnx"))
        if is_theirs or isinstance(error, (ValueError, TypeError, KeyError, IndexError)):
            raise CompileError(f"not a readable .onnx file: {error}", "it may be cut short or damaged") from error
        raise


def _onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.inliner
        import onnx.numpy_helper
    except ImportError as error:
        raise CompileError("onnx is not installed", "pip install 'tinyweave[onnx]'") from error
    return onnx


def _check_size(model: Any) -> None:
    """Raise CompileError where the graph has too many nodes once each call of a function is what that holds."""
    calls = {(function.domain, function.name): list(_calls(function.node)) for function in model.functions}
    calls[None, None] = list(_calls(model.graph.node))
    sizes, total = dict.fromkeys(calls, 0), sum(map(len, calls.values()))
    grown = total <= MAX_NODES
    while grown:  # what calls itself grows until it is too large
        before = dict(sizes)
        for name, called in calls.items():
            sizes[name] = min(sum(1 + sizes.get(each, 0) for each in called), MAX_NODES + 1)
        grown = sizes != before
    if max(total, sizes[None, None]) > MAX_NODES:
        raise CompileError(f"the graph has more than {MAX_NODES:,} nodes", "functions that it calls are counted with it")


def _calls(nodes: Any) -> Iterator[tuple[str, str]]:
    """Yield the domain and the op of nodes, and of those in the graphs among their attributes."""
    for node in nodes:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _calls(graph.node)


def _program(onnx: Any, model: Any, read: Read | None) -> Exported:
    """Return the main graph as an Exported whose values have the names that the file gives them."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opset = opsets.get("", opsets.get("ai.onnx", 0))
    if not opsets:
        raise CompileError("the .onnx file holds no model", "it may be empty or damaged")
    if opset < OLDEST_OPSET:
        raise CompileError(
            f"the file is of opset {opset}",
            f"opset {OLDEST_OPSET} and later are supported: onnx.version_converter.convert_version(model, {OLDEST_OPSET})",
        )
    graph = model.graph
    if len(graph.node) > MAX_NODES:
        raise CompileError(f"the graph has {len(graph.node):,} nodes", f"at most {MAX_NODES:,} are supported")
    if graph.sparse_initializer:
        raise CompileError("the file holds sparse constants", "store them as dense ones")
    constants = _constants(onnx, graph, read)
    scaled = {name for node in graph.node if node.op_type in QUANTISED_INPUTS for name in node.input}
    inputs = {
        value.name: _input_shape(onnx, value, value.name in scaled) for value in graph.input if value.name not in constants
    }
    known, nodes = {*inputs, *constants, ""}, list[Node]()
    for position, node in enumerate(graph.node):
        for name in node.input:
            if name not in known:
                raise CompileError("is read before any node makes it", "the file may be damaged", tensor=name)
        made = [name for name in node.output if name]
        if not made or len(set(made)) < len(made) or known.intersection(made):
            raise CompileError(
                f"node {position} ({node.op_type}) makes no tensor, or one that there is", "the file may be damaged"
            )
        known.update(made)
        nodes += _nodes(onnx, node)
    outputs = [Ref(value.name) for value in graph.output]
    for ref in outputs:
        if ref.name not in known:
            raise CompileError("is an output that no node makes", "the file may be damaged", tensor=ref.name)
    return with_gelu(Exported(inputs, constants, nodes, outputs, OPS, "ONNX"))


def _constants(onnx: Any, graph: Any, read: Read | None) -> dict[str, np.ndarray]:
    constants, files = dict[str, np.ndarray](), dict[str, bytes]()
    total = 0
    for tensor in graph.initializer:
        is_beside = tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data
        array = _beside(onnx, tensor, read, files) if is_beside else onnx.numpy_helper.to_array(tensor)
        constants[tensor.name] = _numbers(array, tensor.name)
        total += constants[tensor.name].nbytes
        if total > MAX_BYTES:
            raise CompileError(f"the constants take more than {MAX_BYTES:,} bytes", "no microcontroller has room for them")
    return constants


def _beside(onnx: Any, tensor: Any, read: Read | None, files: dict[str, bytes]) -> np.ndarray:
    """Return a constant that lies in a file beside the model's; nothing outside of its folder is asked for."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    location = where.get("location", "")
    if read is None or location in ("", "..") or PurePath(location).name != location:
        raise CompileError(f"lies in the file '{location}'", BESIDE, tensor=tensor.name)
    if location not in files:
        files[location] = read(location)
    dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
    begin = int(where.get("offset", 0))
    size = prod(shape) * dtype.itemsize
    if min(begin, *shape, 0) < 0 or int(where.get("length", size)) != size or begin + size > len(files[location]):
        raise CompileError(
            f"does not lie in the file '{location}' as it says", "one of them may be damaged", tensor=tensor.name
        )
    return np.frombuffer(files[location], dtype, prod(shape), begin).reshape(shape)


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    """Return a constant, floats of any length as float32."""
    if values.dtype.kind not in "fiub":
        raise CompileError(f"holds {values.dtype}", "only numbers are supported", tensor=name or "constant")
    return np.asarray(values.astype(np.float32) if str(values.dtype) in FLOATS else values)


def _input_shape(onnx: Any, value: Any, has_scale: bool) -> tuple[int, ...]:
    """Return the shape of an input, a float one, or bytes where an op says what they stand for."""
    kind, bytes_ = value.type.tensor_type, (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    if kind.elem_type != onnx.TensorProto.FLOAT and not (has_scale and kind.elem_type in bytes_):
        known = kind.elem_type in onnx.TensorProto.DataType.values()
        what = onnx.TensorProto.DataType.Name(kind.elem_type).lower() if known else "of an unknown type"
        raise CompileError(f"is an input of {what}", "only float inputs are supported", tensor=value.name)
    if not kind.HasField("shape"):
        raise CompileError("has no shape", "export the model with fixed shapes", tensor=value.name)
    shape = list[int]()
    for axis, dim in enumerate(kind.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif axis == 0 and len(kind.shape.dim) > 1 and not dim.HasField("dim_value"):
            shape.append(1)  # the batch is usually left open
        else:
            what = f"'{dim.dim_param}'" if dim.dim_param else "unknown"
            raise CompileError(f"has an axis {axis} of a size that is {what}", "export it with fixed shapes", tensor=value.name)
    return tuple(shape)


def _nodes(onnx: Any, node: Any) -> list[Node]:
    """Return a node of the program, and one for each of several outputs."""
    op = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
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
    """Return an attribute as plain data; one that is a graph as it is: the op that has it is not supported."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        if value.external_data:
            raise CompileError("lies in another file", "write the model as one file", tensor=value.name or "constant")
        return _numbers(onnx.numpy_helper.to_array(value), value.name)
    texts = [each.decode() if isinstance(each, bytes) else each for each in (value if isinstance(value, list) else [value])]
    return texts if isinstance(value, list) else texts[0]
