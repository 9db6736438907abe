"""Generate docs/SUPPORTED_OPS.md from op names, refusals and the constraints of each op kind, which are the error messages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tinyweave.importers.aten import OPS
from tinyweave.importers.onnx_ops import MAPPED
from tinyweave.importers.onnx_ops.quantised import QUANTISED
from tinyweave.importers.onnx_ops.runtime import FLOAT_OPS, ML_OPS
from tinyweave.importers.refused import FRONT_ENDS, REFUSALS
from tinyweave.importers.tflite_lowering import FORMS, LOWERED
from tinyweave.kernels.table import VARIANTS
from tinyweave.ops import SPECS
from tinyweave.tflite_schema import CUSTOM, KINDS
from tinyweave.tflite_schema import OPS as TFLITE_OPS

# op -> its names in PyTorch and ONNX; names that differ only in case, underscores or the number of axes are not listed
OTHER_NAMES: Mapping[str, str] = {
    "add": "Add Sum add",
    "average_pool_2d": "avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d",
    "batch_matmul": "bmm dot matmul mm mv FusedMatMul MatMul TransposeMatMul",
    "broadcast_to": "copy expand expand_as Expand",
    "cast": "to Cast CastLike",
    "clamp": "clamp clamp_max clamp_min hardtanh Clip",
    "concatenation": "cat Concat",
    "conv_2d": "conv1d conv2d Conv FusedConv",
    "depth_to_space": "pixel_shuffle",
    "depthwise_conv_2d": "conv1d conv2d Conv",
    "dequantize": "dequantize_per_channel dequantize_per_tensor DequantizeLinear",
    "embedding_lookup": "embedding Gather",
    "equal": "eq",
    "expand_dims": "unsqueeze Unsqueeze",
    "fully_connected": "addmm linear matmul FusedGemm Gemm LinearClassifier LinearRegressor MatMul QGemm",
    "gather": "index_select Gather GatherElements",
    "gather_nd": "GatherND",
    "gelu": "gelu BiasGelu FastGelu Gelu",
    "greater": "gt",
    "greater_equal": "ge GreaterOrEqual",
    "gru": "gru gru_cell",
    "identity": "alias clone contiguous detach dropout feature_dropout to Dropout Identity",
    "l2_normalization": "LpNormalization",
    "less": "lt",
    "less_equal": "le LessOrEqual",
    "local_response_norm": "LRN",
    "logical_and": "and bitwise_and And",
    "logical_not": "bitwise_not Not",
    "logical_or": "or bitwise_or Or",
    "logistic": "sigmoid Sigmoid",
    "logsumexp": "ReduceLogSumExp",
    "max_pool_2d": "adaptive_max_pool1d adaptive_max_pool2d max_pool1d max_pool2d",
    "maximum": "max maximum Max",
    "mean": "mean GlobalAveragePool ReduceMean",
    "mean of several inputs": "Mean",
    "minimum": "min minimum Min",
    "mean_variance_norm": "MeanVarianceNormalization",
    "mirror_pad": "pad Pad",
    "norm": "linalg_vector_norm ReduceL1 ReduceL2",
    "not_equal": "ne",
    "pack": "stack",
    "pad": "constant_pad_nd pad Pad",
    "padv2": "constant_pad_nd pad Pad",
    "power": "pow Pow",
    "quantize": "quantize_per_channel quantize_per_tensor QuantizeLinear",
    "reduce_all": "all",
    "reduce_any": "any",
    "reduce_max": "amax max GlobalMaxPool",
    "reduce_min": "amin min",
    "reduce_prod": "prod",
    "relu6": "clamp hardtanh relu6 Clip",
    "reshape": "flatten reshape reshape_as unflatten view view_as Flatten",
    "resize_bicubic": "upsample_bicubic2d Resize",
    "resize_bilinear": "upsample_bilinear2d upsample_linear1d Resize",
    "resize_nearest_neighbor": (
        "upsample_nearest1d upsample_nearest2d _upsample_nearest_exact1d _upsample_nearest_exact2d Resize"
    ),
    "reverse_v2": "flip",
    "scaled_elu": "celu selu Celu Selu",
    "select_v2": "index_put masked_fill where ScatterElements ScatterND Where",
    "shrink": "hardshrink softshrink",
    "simple_rnn": "rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell RNN",
    "slice": "select slice",
    "space_to_depth": "pixel_unshuffle",
    "split": "chunk split",
    "split_v": "split_with_sizes Split",
    "stateless_lstm": "lstm lstm_cell LSTM",
    "strided_slice": "slice Slice",
    "sub": "rsub sub",
    "sum": "sum ReduceSum",
    "sum of squares": "ReduceSumSquare",
    "threshold": "ThresholdedRelu",
    "tile": "repeat repeat_interleave",
    "topk_v2": "topk TopK",
    "transpose": "movedim permute transpose",
    "transpose_conv": "conv_transpose1d conv_transpose2d ConvTranspose",
    "unpack": "unbind",
}
INTEGER_FORM = "QLinear"  # prefix of the names of ONNX Runtime's ops on integers
COMMON = 4  # a constraint that at least this many op kinds share is listed once for all of them
NONE = "—"
HEAD = f"""\
# Supported ops

`tinyweave inspect MODEL` names each op of your model that is not supported, with the reason. Find your op:

- If it is in [the table of names](#names-in-each-front-end), it is supported. [The section of the op](#constraints-of-each-op)
  lists its data types and constraints.
- If it is in [the table of refusals](#refused-on-purpose), it is not supported, and the table says what to use instead.
- If it is in neither table, it is not supported yet.

A uint8 network is computed in int8. By default its inputs and outputs stay uint8, and every output byte equals LiteRT's. If an
op cannot give the same bytes in int8, the network is refused.

`pytest --update-golden tests/report/test_supported_ops.py` generates this page from `tinyweave/ops` and `tinyweave/importers`.

## Names in each front end

The columns have the names of an op in `.tflite` files, in PyTorch and in ONNX; {NONE} means that the format has no such op. If
`.tflite` has no such op, tinyweave writes several ops or a custom op to `.tflite` files. An op that no format has is created by
tinyweave itself. PyTorch's names are names of ATen ops, as in programs of `torch.export`; torch decomposes other ops into
these, if it can. Ops on constants and shapes, such as `ones_like`, are computed when the file is read.
"""
REFUSED = """\
## Refused on purpose

Error messages give these reasons. In a name, `*` stands for any letters.
"""
DEMANDS = f"""\
## Constraints of each op

Op kinds with equal constraints share a section. It lists the data types of inputs and outputs, then the constraints that an op
must meet.

- "any": the kernel copies elements of every type.
- "view": the op needs no code and no RAM, because its output has the bytes of its input.
- "custom op": TFLite has no such op, so a .tflite file has the custom op `{CUSTOM}KIND`.

### Common constraints
"""

REWRITTEN = """\
## Rewritten ops

Ops of a `.tflite` file that tinyweave rewrites as other ops when it reads the file:
"""


def op_names() -> dict[str, dict[str, list[str]]]:
    """Return op -> front end -> names, sorted by op; a PyTorch or ONNX op that becomes several ops has its own row."""
    kinds = sorted({*SPECS, *LOWERED})
    rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: {end: [] for end in FRONT_ENDS})
    for kind in kinds:
        custom = TFLITE_OPS[kind].custom if kind in TFLITE_OPS else ""
        rows[kind][".tflite"] = [kind.upper()] if kind in KINDS.values() else [custom] if custom else []
    ops_of = defaultdict[str, list[str]](list)
    for op, others in OTHER_NAMES.items():
        for name in others.split():
            ops_of[name].append(op)
    known = {_key(kind): kind for kind in kinds}
    of_onnx = {name.rpartition(".")[2] for name in (*MAPPED, *QUANTISED, *FLOAT_OPS, *ML_OPS)}
    for end, names in (("PyTorch", set(OPS)), ("ONNX", of_onnx)):
        for name in sorted(names):
            plain = name.removeprefix(INTEGER_FORM)
            for op in ops_of[plain] or [known.setdefault(_key(plain), name)]:
                rows[op][end].append(name)
    return dict(sorted(rows.items()))


def _key(name: str) -> str:
    """Return a name under which the same op of PyTorch, ONNX and TFLite is found: "batchnorm" for BatchNormalization."""
    return re.sub(r"_|alization$|(?<=[a-z_])[12]d$", "", name.lower())


def supported_ops() -> str:
    """Return the text of SUPPORTED_OPS.md: ops of each format, types and constraints of each kind, refusals, rewrites."""
    uses = Counter(sentence for kind in SPECS for sentence in _constraints(kind))
    common = {sentence: number for number, (sentence, count) in enumerate(uses.most_common(), 1) if count >= COMMON}
    rows = [HEAD, *_table(("op", *FRONT_ENDS), ((op, *map(_listed, names.values())) for op, names in op_names().items())), ""]
    refusals = ((each.why, each.instead, *map(_listed, each.names().values())) for each in REFUSALS)
    rows += [REFUSED, *_table(("reason", "instead", *FRONT_ENDS), refusals), ""]
    rows += [DEMANDS, *(f"{number}. {sentence}" for sentence, number in common.items())]
    kinds_of = defaultdict[tuple[str, ...], list[str]](list)
    for kind in sorted(SPECS):
        kinds_of[_items(kind, common)].append(kind)
    for items, kinds in kinds_of.items():
        rows += ["", f"### {', '.join(kinds)}", "", *(f"- {item}" for item in items)]
    rewritten = {kind: " ".join((each.__doc__ or "").split()) for kind, each in sorted({**LOWERED, **FORMS}.items())}
    rows += ["", REWRITTEN, *(f"- {kind}: {says[0].lower()}{says[1:].removesuffix('.')}" for kind, says in rewritten.items())]
    return "\n".join(rows) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or NONE


def _items(kind: str, common: Mapping[str, int]) -> tuple[str, ...]:
    """Return the list under an op kind: its types, the numbers on the page of `common` constraints, its other constraints."""
    numbers = sorted(common[sentence] for sentence in _constraints(kind) if sentence in common)
    custom = f", custom op {TFLITE_OPS[kind].custom}".rstrip() if TFLITE_OPS[kind].numbers is not None else ""
    types = f"types: {_types(kind)}{custom}"
    shared = [f"[common constraints](#common-constraints) {', '.join(map(str, numbers))}"] if numbers else []
    return types, *shared, *(sentence for sentence in _constraints(kind) if sentence not in common)


def _constraints(kind: str) -> list[str]:
    return [" ".join((constraint.__doc__ or "").split()) for constraint in SPECS[kind].constraints]


def _types(kind: str) -> str:
    """Return the data types that the kernels of an op kind take and return, as text."""
    if SPECS[kind].view:
        return "view"
    pairs = dict.fromkeys(row.types for row in VARIANTS if kind in row.kinds)
    return ", ".join(each if each == to else f"{each} to {to}" for each, to in pairs) or "known when compiling"
