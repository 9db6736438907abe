"""Import a .pt2 file written by torch.export.save, without torch and without unpickling.

In: the bytes of an untrusted file: a zip archive with the graph as JSON and the weights as raw bytes. Out: a Graph. Sample
inputs, which are pickled, are ignored; pickled weights are refused. `importers/torch.py` reads modules by way of these bytes.
Source: torch's torch/_export/serde/schema.py (version 8) and torch/export/pt2_archive.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from math import ceil, isinf, prod
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from ..ir import CompileError, Graph
from . import aten
from .function_chains import fuse_functions
from .program import (
    ILL_FORMED,
    ImportedProgram,
    Node,
    Ref,
    changed_in_place,
    check_computed,
    check_not_stale,
    checked_state,
    folded,
    graph_of,
    input_type_advice,
    leaves,
    line_of,
    new_bytes,
    op_name,
    refs,
    resolved,
)
from .shapes import EXAMPLE, Axis, Dynamic, Shapes, fixed_shapes
from .size_formulas import size_of, symbol_or_formula
from .torch_constants import computed, is_foldable

MAX_FILE = 1 << 28  # bytes of the file, and of its unpacked content
MAX_EXPANDED = 1 << 16  # elements of a tensor that has more of them than the file stores
MAX_JSON = 1 << 26  # bytes of the graph; most of them are stack traces
MAX_NODES = 1 << 14
MAX_RANK = 8
MAX_ELEMENTS = 1 << 24  # elements of a constant computed at import
SCHEMA = 8
FLOAT32 = 7
INPUTS = (FLOAT32, 1, 2, 4, 5)  # type codes of inputs: float32, uint8, int8, int32, int64
# kind of an input that is stored in the file -> field with its name there
SOURCES = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
STORED = {
    1: "u1",
    2: "i1",
    4: "<i4",
    5: "<i8",
    FLOAT32: "<f4",
    12: "?",
}  # type code -> numpy type of constants; integers are indices or must be dequantised, bools are masks
DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 12: "bool"}
DTYPES |= {9: "complex32", 10: "complex64", 11: "complex128", 13: "bfloat16", 28: "uint16"}
POSITIONAL = 1
NAMESPACES = ("torch.ops.", "aten.", "quantized_decomposed.", "higher_order.")  # prefixes of ops, left out in this order
AGAIN = "write it again with torch.export.save of torch 2.9 or later"


def from_pt2(data: bytes, name: str, shapes: Shapes | None = None) -> Graph:
    """Return the graph, called `name`, of a .pt2 file; `shapes` gives inputs with dynamic axes a shape."""
    try:
        return graph_of(fuse_functions(read_archive(data, shapes)), name)
    except (*ILL_FORMED, BadZipFile, EOFError, RuntimeError, struct.error, zlib.error) as error:
        raise CompileError("not a readable .pt2 file", f"it may be cut short or damaged; {AGAIN}") from error


def read_archive(data: bytes, shapes: Shapes | None, may_compute: Callable[[str], bool] = is_foldable) -> ImportedProgram:
    """Unpack a .pt2 archive and return its program; raise CompileError if it is too large or old, or not one model.

    `may_compute` returns whether torch may compute an ATen op on constants.
    """
    with ZipFile(BytesIO(data)) as archive:
        parts = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
        if sum(entry.file_size for entry in parts.values()) > MAX_FILE:
            raise CompileError(f"the .pt2 file unpacks to more than {MAX_FILE:,} bytes", "no microcontroller can hold it")
        if {entry.compress_type for entry in parts.values()} - {ZIP_STORED, ZIP_DEFLATED}:
            raise CompileError("the .pt2 file has an unsupported zip compression", AGAIN)
        models = [part for part in parts if part.startswith("models/") and part.endswith(".json")]
        if "serialized_exported_program.json" in {entry.filename for entry in parts.values()}:
            raise CompileError("the .pt2 file is from an old torch and stores its weights as a pickle", AGAIN)
        if len(models) != 1:
            raise CompileError(f"the .pt2 file has {len(models)} models", "export exactly one")

        def read(part: str) -> bytes:
            with archive.open(parts[part]) as file:
                return file.read(parts[part].file_size)

        if "byteorder" in parts and read("byteorder") != b"little":
            raise CompileError("the .pt2 file is big-endian", "export it on a little-endian machine")
        program = _json(read(models[0]))
        model = models[0].removeprefix("models/").removesuffix(".json")
        tensors: dict[str, Callable[[], np.ndarray]] = {}
        for folder, config in (("weights", f"{model}_weights_config"), ("constants", f"{model}_constants_config")):
            path = f"data/{folder}/{config}.json"
            for key, entry in (_json(read(path))["config"] if path in parts else {}).items():
                tensors[key] = partial(_tensor, key, entry, folder, read)
        return _program(program, tensors, shapes, may_compute)


def _json(text: bytes) -> Any:
    if len(text) > MAX_JSON:
        raise CompileError(f"the graph of the .pt2 file has {len(text):,} bytes of JSON", f"at most {MAX_JSON:,} are supported")
    return json.loads(text)


def _tensor(key: str, entry: Mapping[str, Any], folder: str, read: Callable[[str], bytes]) -> np.ndarray:
    """Return a parameter, buffer or constant, `key` in messages, from the bytes that `read` returns of data/`folder`."""
    if entry["use_pickle"]:
        raise CompileError("is stored as a pickle, which is not loaded because it may run code", AGAIN, tensor=key)
    meta = entry["tensor_meta"]
    shape, strides = ([_integer(key, value) for value in meta[what]] for what in ("sizes", "strides"))
    if meta["dtype"] not in STORED:
        raise CompileError(f"is {_type_name(meta)}", "only float32 parameters are supported: call .float()", tensor=key)
    stored = np.dtype(STORED[meta["dtype"]])
    values = np.frombuffer(read(f"data/{folder}/{entry['path_name']}"), stored)[_integer(key, meta["storage_offset"]) :]
    last = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    if prod(shape) and (last >= values.size or prod(shape) > max(values.size, MAX_EXPANDED)):
        raise CompileError(f"has the shape {shape} but {values.size:,} values", "the file may be damaged", tensor=key)
    array = np.asarray(np.lib.stride_tricks.as_strided(values, shape, [stored.itemsize * step for step in strides]), order="C")
    if np.isnan(array).any():  # a mask may be infinite
        raise CompileError("holds values that are not finite", "train it again, or repair it", tensor=key)
    return array.astype(stored.newbyteorder("="))


def _type_name(meta: Mapping[str, Any]) -> str:
    return DTYPES.get(meta["dtype"], "an unknown type")


def _integer(name: str, value: Mapping[str, Any]) -> int:
    """Return a serialised extent, stride or offset of the tensor `name`; raise CompileError if it is dynamic."""
    number = value.get("as_int")
    if number is None:
        raise CompileError("has a dynamic extent", "export it with fixed shapes", tensor=name)
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number} is not an extent or a stride")
    return number


def _program(
    program: Mapping[str, Any],
    tensors: Mapping[str, Callable[[], np.ndarray]],
    shapes: Shapes | None,
    may_compute: Callable[[str], bool],
) -> ImportedProgram:
    """Return the program of the archive's JSON; nodes of constants, which `tensors` reads by name, are computed."""
    if program["schema_version"]["major"] != SCHEMA:
        raise CompileError(
            f"the .pt2 schema has version {program['schema_version']['major']}", f"version {SCHEMA} is supported"
        )
    graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
    if len(graph["nodes"]) > MAX_NODES:
        raise CompileError(f"the .pt2 file has {len(graph['nodes']):,} nodes", f"at most {MAX_NODES:,} are supported")
    metas = graph["tensor_values"]
    axes, sources, buffers = dict[str, list[Axis]](), dict[str, str](), dict[str, str]()
    for spec in signature["input_specs"]:
        ((kind, content),) = spec.items()
        name = _tensor_name(content["arg"], "input") if kind == "user_input" else content["arg"]["name"]
        if kind == "user_input":
            axes[name] = _input_axes(name, metas[name])
        elif kind in SOURCES:
            sources[name] = content[SOURCES[kind]]
            buffers |= {sources[name]: name} if kind == "buffer" else {}
        else:
            raise CompileError(f"is an input of kind {kind}", "make all inputs tensors", tensor=name)
    inputs, sizes = fixed_shapes(axes, shapes, size_of)
    outputs, updates = _outputs(signature, buffers)
    numbers = _numbers(graph, sizes)
    calls = [_with_numbers(made, numbers) for node in graph["nodes"] for made in _nodes(node)]
    calls = [_as_full(call, metas, sizes) if _is_full(call) else call for call in calls] + updates
    changed = changed_in_place(calls) & {*buffers.values()}
    states = {name: checked_state(sources[name], tensors[sources[name]]()) for name in sorted(changed)}
    read = dict.fromkeys(ref.name for call in calls for ref in refs(call))
    stored = {name: tensors[sources[name]] for name in read if name in sources and name not in states}
    constants, nodes, stale = _folded(calls, stored, metas, may_compute)
    check_not_stale((ref.name for ref in outputs), stale)
    arrays = {name: value for name, value in constants.items() if isinstance(value, np.ndarray)}
    types = {name: _type_name(metas[name]) for name in axes}
    return ImportedProgram(inputs, arrays, nodes, outputs, aten.OPS, "PyTorch", types, states)


def _outputs(signature: Mapping[str, Any], buffers: Mapping[str, str]) -> tuple[list[Ref], list[Node]]:
    """Return the outputs, and nodes that copy the new values of buffers into them; `buffers` has their names in the graph."""
    outputs, updates = list[Ref](), list[Node]()
    for spec in signature["output_specs"]:
        ((kind, content),) = spec.items()
        if kind == "buffer_mutation":
            made = content["arg"]["name"]
            updates.append(Node(f"new_{made}", "copy_", (Ref(buffers[content["buffer_name"]]), Ref(made))))
        elif kind == "user_output":
            outputs.append(Ref(_tensor_name(content["arg"], "output")))
        else:
            raise CompileError("the program changes its inputs", "use out-of-place ops on them")
    return outputs, updates


def _folded(
    calls: Sequence[Node],
    stored: Mapping[str, Callable[[], np.ndarray]],
    metas: Mapping[str, Any],
    may_compute: Callable[[str], bool],
) -> tuple[dict[str, Any], list[Node], set[str]]:
    """Compute the nodes of constants: return all constants, the other nodes, and the stale constants.

    `stored` has functions that read the constants of the file, `metas` the declared type of each node.
    """
    constants, total = dict[str, Any](), 0
    for name, read in stored.items():
        constants[name] = read()
        check_computed(total := total + constants[name].nbytes)

    def compute(call: Node) -> Any:
        nonlocal total
        if not _is_computed(call, constants, may_compute):
            return NotImplemented
        value = _computed(call, constants, metas.get(call.name, {}).get("dtype"))
        check_computed(total := total + new_bytes(value, leaves([constants[ref.name] for ref in refs(call)], np.ndarray)))
        return value

    return constants, *folded(calls, constants, compute, _shares)


def _tensor_name(arg: Mapping[str, Any], what: str) -> str:
    """Return the name of an input or output (`what`, for the message); raise CompileError if it is not a tensor."""
    if "as_tensor" not in arg:
        value = None if "as_none" in arg else next(iter(arg.values()), None)
        raise CompileError(f"an {what} of the program is {value!r:.60}, not a tensor", "make it a tensor")
    return str(arg["as_tensor"]["name"])


def _input_axes(name: str, meta: Mapping[str, Any]) -> list[Axis]:
    """Return the axes of the network input `name`; raise CompileError if it is neither float32 nor integers."""
    if meta["dtype"] not in INPUTS:
        raise CompileError(f"is an input of {_type_name(meta)}", input_type_advice(_type_name(meta)), tensor=name)
    if len(meta["sizes"]) > MAX_RANK:
        raise CompileError(f"has {len(meta['sizes'])} axes", f"at most {MAX_RANK} are supported", tensor=name)
    axes = list[Axis]()
    for extent in meta["sizes"]:
        said = extent.get("as_expr")
        hint = (said or {}).get("hint") or {}
        example = hint.get("as_int", EXAMPLE)
        axes.append(_integer(name, extent) if said is None else Dynamic(symbol_or_formula(said["expr_str"]), hint=int(example)))
    return axes


def _numbers(graph: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the values of nodes that are sizes, or computed from sizes, by their names; `sizes` has the dynamic extents."""
    numbers = dict[str, Any]()
    for name, value in {**graph.get("sym_int_values", {}), **graph.get("sym_float_values", {})}.items():
        plain = next((value[key] for key in ("as_int", "as_float") if key in value), None)
        numbers[name] = size_of(value["as_expr"]["expr_str"], sizes) if plain is None else plain
        if numbers[name] is None:
            raise CompileError("is a size that depends on the data", "export it with fixed shapes", tensor=name)
    return numbers


def _with_numbers(node: Node, numbers: Mapping[str, Any]) -> Node:
    """Return a node with the names of sizes in its arguments replaced by `numbers`."""
    read = {ref.name: numbers.get(ref.name, ref) for ref in refs(node)}
    return replace(node, args=resolved(node.args, read), kwargs=resolved(node.kwargs, read)) if numbers.keys() & read else node


LIKE: dict[str, tuple[float, ...]] = {"eq": (0.0,), "fill": (), "full_like": (), "ones_like": (1.0,), "zeros_like": (0.0,)}


def _is_full(call: Node) -> bool:
    """Return whether a call makes a constant from the shape of a map: an op in LIKE; of comparisons, that with infinity."""
    return call.op in LIKE and (call.op != "eq" or (isinstance(call.args[1], float) and isinf(call.args[1])))


def _as_full(call: Node, metas: Mapping[str, Any], sizes: Mapping[str, int]) -> Node:
    """Return a call for which `_is_full` as a call of `full`, which is constant even if the network computes the map."""
    shape = [
        each["as_int"] if "as_int" in each else size_of(each["as_expr"]["expr_str"], sizes)
        for each in metas[call.name]["sizes"]
    ]
    return replace(call, op="full", args=(shape, *(LIKE[call.op] or call.args[1:])), kwargs={})


def _nodes(node: Mapping[str, Any]) -> list[Node]:
    """Convert a serialised node to one Node, or, if it has several outputs, to a Node and a `getitem` Node for each output."""
    given = [(each["name"] if each["kind"] != POSITIONAL else None, _argument(each["arg"])) for each in node["inputs"]]
    args = tuple(value for name, value in given if name is None)
    kwargs = {name: value for name, value in given if name is not None and value is not None}
    stack = node["metadata"].get("nn_module_stack", "").split(";")[-1].split(",")
    where, line = stack[1] if len(stack) > 2 else "", line_of(node["metadata"].get("stack_trace"))
    target = node["target"]
    for namespace in NAMESPACES:
        target = target.removeprefix(namespace)
    if any(key.startswith("as_sym") for output in node["outputs"] for key in output):
        return []  # a size, which `_numbers` computes
    found = [output.get("as_tensors", output.get("as_tensor")) for output in node["outputs"]]
    op = op_name(target)
    if len(found) == 1 and isinstance(found[0], dict):
        return [Node(found[0]["name"], op, args, kwargs, where, line)]
    several = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    whole = node.get("name") or f"{several[0]['name']}.all"
    parts = [Node(part["name"], "getitem", (Ref(whole), index), {}, where) for index, part in enumerate(several) if part]
    return [Node(whole, op, args, kwargs, where, line), *parts]


def _argument(arg: Mapping[str, Any]) -> Any:
    """Return a serialised argument as plain Python data, with each tensor as a Ref; other kinds, such as graphs, stay."""
    ((kind, value),) = arg.items()
    return ARGUMENTS[kind](value) if kind in ARGUMENTS else value


def _size(value: Mapping[str, Any]) -> Any:
    return Ref(value["as_name"]) if "as_name" in value else next(iter(value.values()))


def _optional(value: Mapping[str, Any]) -> Ref | None:
    return Ref(value["as_tensor"]["name"]) if "as_tensor" in value else None


ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "as_tensor": lambda value: Ref(value["name"]),
    "as_tensors": lambda value: [Ref(part["name"]) for part in value],
    "as_float": float,  # infinity is serialised as text
    "as_optional_tensor": _optional,
    **dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), _size),
    **dict.fromkeys(("as_sym_ints", "as_sym_floats", "as_sym_bools"), lambda value: list(map(_size, value))),
    "as_optional_tensors": lambda value: [_optional(part) for part in value],
    **dict.fromkeys("as_int as_ints as_floats as_string as_bool as_bools".split(), lambda value: value),
    "as_scalar_type": lambda value: f"torch.{DTYPES.get(value, value)}",
    # arguments of factory and copy ops that change no value
    **dict.fromkeys("as_none as_memory_format as_layout as_device".split(), lambda value: None),
}


def _check_size(size: list[int]) -> None:
    """Raise CompileError if a constant of shape `size` is too large to be computed at import."""
    if len(size) > MAX_RANK or any(extent < 0 for extent in size) or prod(size) > MAX_ELEMENTS:
        raise CompileError(f"an op computes a constant of shape {size}", f"at most {MAX_ELEMENTS:,} elements are supported")


def _filled(size: list[int], value: float = 0.0, **_: Any) -> np.ndarray:
    _check_size(size)
    return np.full(size, value, np.float32)


BROADCAST = ("add", "div", "mul", "pow", "remainder", "sub")
# ATen op -> numpy function, for the ops that are computed at import if all their arguments are constant
CONSTANT: dict[str, Callable[..., Any]] = {
    "_weight_norm": lambda v, g, dim=0: _weight_norm(v, g, dim),
    "abs": np.abs,
    "add": lambda x, y, alpha=1: x + alpha * y,
    "arange": lambda *limits, **_: _arange(*limits),
    "cat": lambda parts, dim=0: _concatenated(np.concatenate, parts, dim),
    "clone": lambda x, **_: x.copy(),  # an in-place op may change one of them
    "detach": lambda x: x,
    "detach_": lambda x: x,
    "div": lambda x, y: x / y,
    "exp": np.exp,
    "expand": lambda x, size, **_: _expanded(x, [x.shape[i - len(size)] if n == -1 else n for i, n in enumerate(size)]),
    "flatten": lambda x, start=0, end=-1: x.reshape(*x.shape[: range(x.ndim)[start]], -1, *x.shape[range(x.ndim)[end] + 1 :]),
    "full": lambda size, value, **_: _filled(size, value),
    "lift_fresh_copy": lambda x: x.copy(),
    "mean": lambda x, dim=None, keepdim=False, **_: x.mean(_axes(dim), keepdims=keepdim),
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "numpy_T": lambda x: x.T,
    "ones": lambda size, **_: _filled(size, 1.0),
    "permute": lambda x, dims: x.transpose(dims),
    "pow": lambda x, y: x**y,
    "relu": lambda x: np.maximum(x, 0),
    "remainder": np.remainder,
    "reshape": lambda x, shape: x.reshape(shape),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": lambda x, dim, index: x[(slice(None),) * range(x.ndim)[dim] + (index, ...)],
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * range(x.ndim)[dim] + (slice(start, end, step),)],
    "sqrt": np.sqrt,
    "squeeze": lambda x, dim=None: _squeezed(x, range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim),
    "stack": lambda parts, dim=0: _concatenated(np.stack, parts, dim),
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "sum": lambda x, dim=None, keepdim=False, **_: x.sum(_axes(dim), keepdims=keepdim),
    "t": lambda x: x.T,
    "tanh": np.tanh,
    "transpose": lambda x, one, two: x.swapaxes(one, two),
    "tril": np.tril,
    "triu": np.triu,
    "unsqueeze": np.expand_dims,
    "view": lambda x, shape: x.reshape(shape),
    "zeros": lambda size, **_: _filled(size),
}


def _axes(dim: Any) -> tuple[int, ...] | None:
    return (dim,) if isinstance(dim, int) else tuple(dim) if dim else None


def _arange(first: float, end: float | None = None, step: float = 1) -> np.ndarray:
    """Return the result of ATen's arange(end), arange(start, end) or arange(start, end, step)."""
    start, stop = (0, first) if end is None else (first, end)
    _check_size([max(0, ceil((stop - start) / step))])
    return np.arange(start, stop, step)


def _concatenated(join: Callable[..., Any], parts: list[np.ndarray], dim: int) -> np.ndarray:
    _check_size([sum(part.size for part in parts)])
    return np.asarray(join(parts, axis=dim))


def _weight_norm(v: np.ndarray, g: np.ndarray, dim: int) -> np.ndarray:
    """Return v scaled so that its Euclidean norm over all axes but `dim` is g (weight normalisation)."""
    others = tuple(axis for axis in range(v.ndim) if axis != dim)
    return np.asarray(v * (g / np.sqrt((v.astype(np.float64) ** 2).sum(others, keepdims=True))))


def _expanded(x: np.ndarray, size: list[int]) -> np.ndarray:
    _check_size(size)
    return np.broadcast_to(x, size)


def _squeezed(x: np.ndarray, dims: Iterable[int]) -> np.ndarray:
    """Remove the axes in `dims` that have extent 1; the other axes in `dims` stay, as in ATen."""
    return np.squeeze(x, tuple(dim for dim in dims if x.shape[dim] == 1))


def _is_computed(node: Node, constants: Mapping[str, Any], may_compute: Callable[[str], bool]) -> bool:
    """Return whether the output of a node whose arguments are all constant is computed at import."""
    if node.op.endswith("_") and node.op not in CONSTANT:  # an in-place op must reach all views of its argument
        changed = constants.get(node.args[0].name) if node.args and isinstance(node.args[0], Ref) else None
        return may_compute(node.op) and isinstance(changed, np.ndarray) and changed.flags.writeable
    return node.op == "getitem" or node.op in CONSTANT or may_compute(node.op)


def _computed(node: Node, constants: Mapping[str, Any], dtype: Any) -> Any:
    """Compute a node of constants, by NumPy if in CONSTANT, else by torch; `dtype` is the type code of the file."""
    args, kwargs = resolved(node.args, constants), resolved(node.kwargs, constants)
    if node.op == "getitem":
        return args[0][args[1]]
    shapes = [np.shape(value) for value in args if isinstance(value, np.ndarray)]
    if node.op in CONSTANT:
        _check_size(list(np.broadcast_shapes(*shapes)) if node.op in BROADCAST else [])
        with suppress(TypeError, ValueError, IndexError), np.errstate(all="ignore"):  # torch takes more forms of arguments
            return np.asarray(CONSTANT[node.op](*args, **kwargs), STORED.get(dtype, np.float32))
    return computed(node.op, args, kwargs, MAX_ELEMENTS)


def _shares(value: Any, array: Any) -> bool:
    """Return whether an array, or an array of a list, shares memory with `array`."""
    return any(np.may_share_memory(part, array) for part in (value if isinstance(value, list) else [value]))
