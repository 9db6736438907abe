"""The name of each op in the three front ends: .tflite, PyTorch (ATen) and ONNX."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from ..ops import SPECS
from ..tflite_schema import KINDS
from ..tflite_schema import OPS as TFLITE_OPS
from .aten import OPS
from .onnx_ops import MAPPED
from .onnx_ops.quantised import QUANTISED
from .onnx_ops.runtime import FLOAT_OPS, ML_OPS
from .refused import FRONT_ENDS
from .tflite_lowering import LOWERED

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
    "fill": "full_like ones_like",
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
    "reshape": "flatten reshape unflatten view Flatten",
    "resize_bicubic": "upsample_bicubic2d Resize",
    "resize_bilinear": "upsample_bilinear2d upsample_linear1d Resize",
    "resize_nearest_neighbor": (
        "upsample_nearest1d upsample_nearest2d _upsample_nearest_exact1d _upsample_nearest_exact2d Resize"
    ),
    "reverse_v2": "flip",
    "scaled_elu": "celu selu Celu Selu",
    "select_v2": "masked_fill where ScatterElements ScatterND Where",
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
