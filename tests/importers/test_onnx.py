"""ONNX files: each op equals ONNX's reference or is refused in one line; damaged files are refused too."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")

from cases.from_onnx import CONV, Case, Constants, check_refused, distance, floats, ints, model, one, run_by_runtime  # noqa: E402
from onnx import TensorProto  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tinyweave.importers.aten.resizing import POSITIONS  # noqa: E402
from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.onnx_ops.resizing import ROUNDED  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402
from tinyweave.quantize.calibration_samples import open_samples  # noqa: E402
from tinyweave.quantize.fidelity import fidelity  # noqa: E402
from tinyweave.quantize.ptq import QuantiseOptions, quantise  # noqa: E402

CLOSE = 1e-5  # of the output's range


CASES: dict[str, Case] = {
    "conv-same-upper": one("Conv", *CONV, given=[floats(6, 4, 4, 3), floats(6)], auto_pad="SAME_UPPER", strides=[2, 1]),
    "conv-same-lower": one("Conv", *CONV, given=[floats(6, 4, 4, 3)], auto_pad="SAME_LOWER"),
    "conv-uneven-pads": one("Conv", *CONV, given=[floats(6, 4, 3, 3)], pads=[0, 1, 2, 1], strides=[2, 2]),
    "conv-depthwise": one("Conv", *CONV, given=[floats(4, 1, 3, 3), floats(4)], group=4, pads=[1, 1, 1, 1], dilations=[1, 1]),
    "conv-of-a-batch": one("Conv", 3, *CONV[1:], given=[floats(6, 4, 3, 3), floats(6)], strides=[2, 1]),
    "group-norm-of-a-batch": one("GroupNormalization", 3, *CONV[1:], given=[floats(2), floats(2)], num_groups=2),
    "conv-1d-of-a-batch": one("Conv", 3, 4, 20, given=[floats(6, 4, 5)], pads=[2, 2], strides=[2]),
    "pool-of-a-batch": one("MaxPool", 3, *CONV[1:], kernel_shape=[3, 3], strides=[2, 2]),
    "conv-1d": one("Conv", 1, 4, 20, given=[floats(6, 4, 5)], pads=[2, 2], strides=[2]),
    "conv-transpose": one("ConvTranspose", *CONV, given=[floats(4, 5, 3, 3), floats(5)], strides=[2, 2], pads=[1, 1, 1, 1]),
    "conv-transpose-uneven": one("ConvTranspose", *CONV, given=[floats(4, 5, 3, 3)], strides=[2, 2], pads=[1, 1, 0, 0]),
    "conv-transpose-more": one(
        "ConvTranspose", *CONV, given=[floats(4, 5, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
    ),
    "conv-transpose-1d": one("ConvTranspose", 1, 4, 9, given=[floats(4, 5, 3), floats(5)], strides=[2], pads=[1, 0]),
    "max-pool-ceil": one("MaxPool", *CONV, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max-pool-dilated": one("MaxPool", *CONV, kernel_shape=[3, 3], dilations=[2, 2], pads=[1, 0, 2, 1]),
    "max-pool-far": one("MaxPool", *CONV, kernel_shape=[3, 3], pads=[2, 2, 2, 2]),
    "average-pool-excluded": one("AveragePool", *CONV, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 0], ceil_mode=1),
    "max-pool-uneven": one("MaxPool", *CONV, kernel_shape=[3, 2], strides=[2, 2], pads=[0, 0, 1, 0]),
    "average-pool-same": one("AveragePool", *CONV, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    "average-pool-counted": one("AveragePool", *CONV, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "norm": one("BatchNormalization", *CONV, given=[floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5]),
    "layer-norm": one("LayerNormalization", 1, 5, 12, given=[floats(12), floats(12)]),
    "layer-norm-plain": one("LayerNormalization", 1, 5, 12, given=[floats(5, 12)], axis=1, epsilon=0.5),
    "gemm": one("Gemm", 1, 12, given=[floats(12, 7), floats(7)]),
    "gemm-transposed": one("Gemm", 1, 12, given=[floats(7, 12), floats(1, 7)], transB=1, alpha=0.5, beta=2.0),
    "gemm-one-bias": one("Gemm", 1, 12, given=[floats(12, 7), floats(1)]),
    "mat-mul-of-maps": ([("MatMul", ("x", "z"), ("y",), {})], {"x": (1, 4, 3), "z": (1, 3, 5)}, {}),
    "gemm-a-bias-per-row": one("Gemm", 5, 4, given=[floats(5, 4), floats(5, 1)], transB=1),
    "gemm-of-a-batch": one("Gemm", 3, 4, given=[floats(5, 4), floats(3, 5)], transB=1, alpha=0.5, beta=2.0),
    "einsum": ([("Einsum", ("x", "z"), ("y",), {"equation": "bij,bkj->bik"})], {"x": (1, 4, 6), "z": (1, 3, 6)}, {}),
    "einsum-of-a-constant": one("Einsum", 1, 4, 6, given=[floats(6, 5)], equation="bij,jk -> bki"),
    **{
        f"cum-sum-{exclusive}{reverse}": one("CumSum", *CONV, given=[np.array(-1)], exclusive=exclusive, reverse=reverse)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    },
    **{
        f"where-{op}": (
            [(op, ("x", "c"), ("m",), {}), ("Where", ("m", "x", "d"), ("y",), {})],
            {"x": CONV},
            {"c": floats(4, 1, 1), "d": np.float32(0.5)},
        )
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "logic": (
        [
            ("Less", ("x", "c"), ("a",), {}),
            ("Less", ("x", "d"), ("b",), {}),
            ("Not", ("b",), ("n",), {}),
            ("And", ("a", "n"), ("u",), {}),
            ("Or", ("u", "n"), ("v",), {}),
            ("Cast", ("v",), ("y",), {"to": TensorProto.FLOAT}),
        ],
        {"x": CONV},
        {"c": np.float32(0.7), "d": np.float32(-0.2)},
    ),
    "top-three": one("TopK", 1, 5, 7, given=[ints(3)], axis=-1),
    "least-three": one("TopK", 1, 5, 7, 4, given=[ints(3)], axis=1, largest=0),
    "top": one("TopK", 1, 5, 7, given=[ints(1)], axis=1),
    "least-of-all": one("TopK", 1, 5, 7, given=[ints(1)], largest=0),
    "mat-mul-first": ([("MatMul", ("c", "x"), ("y",), {})], {"x": (1, 5, 12)}, {"c": floats(7, 5)}),
    "mat-mul-vector": one("MatMul", 1, 5, 12, given=[floats(12)]),
    "instance-norm": one("InstanceNormalization", *CONV, given=[floats(4), floats(4)], epsilon=0.1),
    "group-norm": one("GroupNormalization", *CONV, given=[floats(2), floats(2)], num_groups=2),
    "mean-variance-norm": one("MeanVarianceNormalization", *CONV),
    "lp-norm": one("LpNormalization", 1, 5, 12, axis=1),
    "lp-norm-of-pixels": one("LpNormalization", 1, 5, 4, 6, axis=1),
    "lp-norm-of-five-axes": one("LpNormalization", 1, 2, 3, 4, 5, axis=-1),
    "l1": one("ReduceL1", *CONV, given=[ints(1)], keepdims=0),
    "l2": one("ReduceL2", *CONV, given=[ints(2, 3)]),
    "log-sum-exp": one("ReduceLogSumExp", *CONV, given=[ints(1)]),
    "sum-of-squares": one("ReduceSumSquare", *CONV, given=[ints(-1)]),
    "mat-mul": one("MatMul", 1, 5, 12, given=[floats(12, 7)]),
    "hard-sigmoid": one("HardSigmoid", *CONV),
    "hard-sigmoid-of-torch": one("HardSigmoid", *CONV, alpha=1 / 6),
    "clip-below": one("Clip", *CONV, given=[np.float32(-0.2)]),
    "clip-above": one("Clip", *CONV, given=[None, np.float32(0.3)]),
    "clip-infinite": one("Clip", *CONV, given=[np.float32(0), np.float32(np.inf)]),
    "clip-to-computed-limits": (  # a decibel scale ends 80 dB below its maximum
        [
            ("ReduceMax", ("x",), ("top",), {"keepdims": 0}),
            ("Sub", ("top", "range"), ("low",), {}),
            ("Clip", ("x", "low", "top"), ("y",), {}),
        ],
        {"x": CONV},
        {"range": np.float32(1.2)},
    ),
    "prelu": one("PRelu", *CONV, given=[floats(4, 1, 1)]),
    "prelu-one": one("PRelu", *CONV, given=[floats(1)]),
    **{
        op: one(op, *CONV)
        for op in "Abs Asinh Atan Ceil Cos Cosh Erf Floor Mish Reciprocal Round Sign Sin Sinh Softplus Softsign Tan".split()
    },
    **{
        f"{op}-of-tanh": ([("Tanh", ("x",), ("a",), {}), (op, ("a",), ("y",), {})], {"x": CONV}, {})
        for op in ("Acos", "Asin", "Atanh")
    },
    "acosh-of-cosh": ([("Cosh", ("x",), ("a",), {}), ("Acosh", ("a",), ("y",), {})], {"x": CONV}, {}),
    **{f"{op}-of-abs": ([("Abs", ("x",), ("a",), {}), (op, ("a",), ("y",), {})], {"x": CONV}, {}) for op in ("Log", "Sqrt")},
    "elu-of-alpha": one("Elu", *CONV, alpha=0.3),
    "celu": one("Celu", *CONV, alpha=0.3),
    "selu": one("Selu", *CONV),
    "selu-of-alpha": one("Selu", *CONV, alpha=0.5, gamma=2.0),
    "hard-shrink": one("Shrink", *CONV, lambd=0.3),
    "shrink-outwards": one("Shrink", *CONV, lambd=0.3, bias=-0.2),
    "soft-shrink": one("Shrink", *CONV, lambd=0.3, bias=0.3),
    "thresholded": one("ThresholdedRelu", *CONV, alpha=0.4),
    "softsign-in-parts": (
        [("Abs", ("x",), ("a",), {}), ("Add", ("one", "a"), ("d",), {}), ("Div", ("x", "d"), ("y",), {})],
        {"x": CONV},
        {"one": np.float32(1)},
    ),
    "power": one("Pow", *CONV, given=[np.float32(2)]),
    "cube": one("Pow", *CONV, given=[np.float32(3)]),
    "inverse": one("Pow", *CONV, given=[np.float32(-1)]),
    "power-of-a-constant": ([("Pow", ("c", "x"), ("y",), {})], {"x": CONV}, {"c": np.abs(floats(4, 1, 1)) + 0.5}),
    "dividend": ([("Div", ("c", "x"), ("y",), {})], {"x": CONV}, {"c": floats(4, 1, 1)}),
    "divided": one("Div", *CONV, given=[floats(4, 1, 1)]),
    "cast": one("Cast", *CONV, to=TensorProto.FLOAT),
    "softmax-of-channels": one("Softmax", *CONV, axis=1),
    "log-softmax": one("LogSoftmax", 1, 10),
    "mean-by-input": one("ReduceMean", *CONV, given=[ints(2, 3)], keepdims=0),
    **{
        f"{op}-of-nothing": one(op, *CONV[:3], given=[ints()], noop_with_empty_axes=1)
        for op in ("ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    },
    "sum": one("ReduceSum", *CONV, given=[ints(-1)]),
    "greatest": one("ReduceMax", *CONV, given=[ints(1)]),
    "least": one("ReduceMin", *CONV),
    "concat-of-a-constant": ([("Concat", ("c", "x"), ("y",), {"axis": 1})], {"x": CONV}, {"c": floats(1, 2, 9, 8)}),
    "split": one("Split", *CONV, given=[ints(1, 3)], axis=1, outputs=("y", "z")),
    "split-by-count": one("Split", *CONV, axis=2, num_outputs=2, outputs=("y", "z")),
    "slice": one("Slice", *CONV, given=[ints(1, -5), ints(2**63 - 1, -1), ints(1, 3), ints(1, 2)]),
    "gather-one": one("Gather", *CONV, given=[np.array(-1)], axis=2),
    "gather-some": one("Gather", *CONV, given=[ints(1, 2)], axis=1),
    "gather-any": one("Gather", *CONV, given=[ints(3, 0, 0)], axis=1),
    "gather-table": one("Gather", 1, 6, 5, given=[ints(3, 0, 0, -1).reshape(2, 2)], axis=1),
    "slice-backwards": one("Slice", *CONV, given=[ints(-1, 7), ints(-(2**63), 2), ints(1, 2), ints(-1, -2)]),
    "tile": one("Tile", *CONV, given=[ints(1, 2, 1, 3)]),
    "expand": one("Expand", 1, 4, 1, 8, given=[ints(4, 9, 1)]),
    "space-to-depth-by-columns": one("SpaceToDepth", 1, 2, 6, 4, blocksize=2, mode="CRD"),
    "pad-edge": one("Pad", *CONV, given=[ints(0, 0, 1, 2, 0, 0, 3, 1)], mode="edge"),
    "pad-wrap": one("Pad", *CONV, given=[ints(0, 0, 1, 2, 0, 0, 3, 1)], mode="wrap"),
    "pad-axes": one("Pad", *CONV, given=[ints(1, 2, 0, 1), np.float32(0.5), ints(2, 3)]),
    "pad-reflected": one("Pad", *CONV, given=[ints(0, 0, 1, 2, 0, 0, 2, 1)], mode="reflect"),
    "reshape": one("Reshape", *CONV, given=[ints(0, 2, 2, 9, -1)]),
    "flatten": one("Flatten", *CONV),
    "flatten-all": one("Flatten", *CONV, axis=0),
    "squeezed": one("Squeeze", 1, 12, 1, 1, given=[ints(2, 3)]),
    "unsqueezed": one("Unsqueeze", 1, 12, given=[ints(3, 2)]),
    "expand-nothing": one("Expand", *CONV, given=[ints(1, 1, 9, 8)]),
    "tile-nothing": one("Tile", *CONV, given=[ints(1, 1, 1, 1)]),
    "depth-to-space": one("DepthToSpace", 1, 8, 3, 4, blocksize=2),
    "depth-to-space-by-columns": one("DepthToSpace", 1, 8, 3, 4, blocksize=2, mode="CRD"),
    "space-to-depth": one("SpaceToDepth", 1, 2, 6, 4, blocksize=2),
    "nearest": one("Resize", *CONV, given=[None, np.array([1, 1, 2, 2], np.float32)]),
    "nearest-of-torch": one(
        "Resize",
        *CONV,
        given=[None, np.array([1, 1, 2, 3], np.float32)],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "nearest-symmetric": one(
        "Resize",
        1,
        2,
        5,
        3,
        given=[None, np.array([1, 1, 1.5, 2.5], np.float32)],
        coordinate_transformation_mode="half_pixel_symmetric",
    ),
    "linear": one("Resize", *CONV, given=[None, None, ints(1, 4, 18, 12)], mode="linear"),
    "linear-aligned": one(
        "Resize", *CONV, given=[None, None, ints(1, 4, 17, 15)], mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "nearest-channels": one("Resize", 1, 4, 12, given=[None, None, ints(1, 7, 9)], nearest_mode="ceil"),
    "linear-sequence": one("Resize", 1, 4, 12, given=[None, None, ints(1, 4, 9)], mode="linear"),
    "cubic-inside": one(
        "Resize", *CONV, given=[None, None, ints(1, 4, 5, 19)], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5
    ),
    "dropout": one("Dropout", *CONV, given=[np.float32(0.5), np.array(False)]),
    "sums": ([("Sum", ("x", "c", "x"), ("s",), {}), ("Mean", ("s", "x"), ("y",), {})], {"x": CONV}, {"c": floats(4, 1, 1)}),
    "shape-of-a-view": (  # PyTorch's export of x.view(x.size(0), -1)
        [
            ("Shape", ("x",), ("shape",), {}),
            ("Constant", (), ("zero",), {"value_ints": [0]}),
            ("Gather", ("shape", "zero"), ("batch",), {"axis": 0}),
            ("Constant", (), ("rest",), {"value_ints": [-1]}),
            ("Concat", ("batch", "rest"), ("wanted",), {"axis": 0}),
            ("Reshape", ("x", "wanted"), ("y",), {}),
        ],
        {"x": CONV},
        {},
    ),
    "shuffle": (
        [
            ("Reshape", ("x", "apart"), ("a",), {}),
            ("Transpose", ("a",), ("t",), {"perm": [0, 2, 1, 3, 4]}),
            ("Reshape", ("t", "together"), ("s",), {}),
            ("Conv", ("s", "w"), ("y",), {}),
        ],
        {"x": CONV},
        {"apart": ints(1, 2, 2, 9, 8), "together": ints(1, 4, 9, 8), "w": floats(3, 4, 1, 1)},
    ),
    "constants-fold": (
        [
            ("ConstantOfShape", ("n",), ("zeros",), {}),
            ("Unsqueeze", ("c", "axes"), ("u",), {}),
            ("Mul", ("u", "u"), ("sq",), {}),
            ("Add", ("sq", "zeros"), ("sum",), {}),
            ("Add", ("x", "sum"), ("y",), {}),
        ],
        {"x": CONV},
        {"n": ints(1), "c": floats(4), "axes": ints(1, 2)},
    ),
    "an-open-batch": ([("Relu", ("x",), ("y",), {})], {"x": ("batch", 4, 9, 8)}, {}),
}


# cases with attributes or inputs that ONNX's reference lacks or interprets against the specification
BY_RUNTIME: dict[str, Case] = {
    "local-response-norm-root": one("LRN", *CONV, size=5, alpha=0.5, beta=0.5),
    "local-response-norm": one("LRN", *CONV, size=3, alpha=0.5, beta=0.75, bias=1.5),
    "linear-axes": one(
        "Resize", *CONV, given=[None, np.array([1.3], np.float32)], mode="linear", axes=[3], nearest_mode="floor"
    ),
    **{
        f"resize-{mode}-{how}-{rounding}-{rows:g}x{columns:g}": one(
            "Resize",
            1,
            2,
            5,
            4,
            given=[None, np.array([1, 1, rows, columns], np.float32)],
            mode=mode,
            coordinate_transformation_mode=how,
            nearest_mode=rounding,
        )
        for rows, columns in ((2, 1.5), (0.75, 2.3))
        for how in POSITIONS
        for mode, rounding in (*(("nearest", each) for each in ROUNDED), ("linear", "floor"), ("cubic", "floor"))
    },
    "conv-transpose-groups": one("ConvTranspose", *CONV, given=[floats(4, 3, 3, 2)], group=2, strides=[2, 3], dilations=[2, 1]),
    "pad-cropping": one("Pad", *CONV, given=[ints(0, 0, -1, 2, 0, -1, 3, 0), np.float32(0.5)]),
    "conv-transpose-upper": one("ConvTranspose", *CONV, given=[floats(4, 5, 3, 3)], strides=[2, 2], auto_pad="SAME_UPPER"),
    "conv-transpose-lower": one("ConvTranspose", *CONV, given=[floats(4, 5, 3, 3)], strides=[2, 2], auto_pad="SAME_LOWER"),
    "conv-transpose-shape": one("ConvTranspose", *CONV, given=[floats(4, 5, 3, 3)], strides=[2, 3], output_shape=[18, 26]),
}


@pytest.mark.parametrize("name", [*CASES, *BY_RUNTIME])
def test_an_op_computes_what_the_reference_does(name: str) -> None:
    nodes, inputs, _ = case = (CASES | BY_RUNTIME)[name]
    outputs = [made for made in nodes[-1][2] if made]
    data = model(case, outputs)
    graph = from_onnx(data, name)
    x = [floats(*(1 if isinstance(extent, str) else extent for extent in shape)) for shape in inputs.values()]
    given = dict(zip(inputs, x, strict=True))
    by_runtime = name in BY_RUNTIME
    expected = run_by_runtime(data, given) if by_runtime else ReferenceEvaluator(onnx.load_from_string(data)).run(None, given)
    assert distance(graph, x, expected) < CLOSE
    assert not any(op.kind == "transpose" for op in graph.ops)


def relu(*shape: Any, constants: Constants | None = None) -> Case:
    return [("Relu", ("x",), ("y",), {})], {"x": shape}, constants or {}


REFUSED: dict[str, tuple[Any, str]] = {
    "text": (b"a text", "not a readable .onnx file"),
    "a cut file": (model(CASES["conv-1d"])[:-40], "not a readable .onnx file"),
    "nothing": (b"", "the .onnx file holds no model; it may be empty or damaged"),
    "statistics of each pixel": (
        model(one("BatchNormalization", *CONV, given=[np.ones(CONV[1:], np.float32)] * 4, spatial=0), opset=8),
        "its spatial is 0: its statistics are those of each pixel; only those of channels are supported",
    ),
    "an open size": (model(relu(1, 3, "height", 8)), "tensor 'x': has an axis 2 of dynamic size 'height'"),
    "all ops at once": (
        model(([("Det", ("x",), ("a",), {}), ("Det", ("x",), ("b",), {}), ("NonZero", ("x",), ("y",), {})], {"x": (1, 4)}, {})),
        "3 ops of the ONNX model cannot be imported: Det (2 times, first in a): tinyweave does not import it; "
        "'tinyweave docs onnx' lists the ops that it does; NonZero (in y)",
    ),
    "another domain": (
        model(one("Gelu", 1, 4), opset=13).replace(b"Gelu", b"Gulu"),
        "Gulu (in y): tinyweave does not import it",
    ),
    "a product of maps of other batches": (
        model(([("MatMul", ("x", "z"), ("y",), {})], {"x": (1, 3, 4, 4), "z": (1, 1, 4, 4)}, {})),
        "MatMul (in y): its maps [1, 3, 4, 4] and [1, 1, 4, 4] differ in their batch axes",
    ),
    "another number of channels": (
        model(one("Conv", *CONV, given=[floats(8, 1, 3, 3)])),
        "Conv (in y): its filters read 1 channels but the map has 4",
    ),
    "another number of axes": (
        model(one("Conv", 1, 4, 20, given=[floats(8, 4, 3, 3)])),
        "Conv (in y): its map has 3 axes but its filters have 4",
    ),
    "another number of elements": (
        model(one("Reshape", 1, 6, given=[ints(1, 3)])),
        "its shape [1, 3] and the map [1, 6] differ in their number of elements",
    ),
    "an unknown padding": (
        model(one("Conv", *CONV, given=[floats(6, 4, 4, 3)], auto_pad="SAME")),
        "Conv (in y): its auto_pad 'SAME' is unknown",
    ),
    "a place outside": (model(one("Gather", 1, 6, given=[np.array(9)], axis=1)), "its index 9 is out of range for 6"),
    "slopes by column": (
        model(one("PRelu", 1, 5, 7, 5, given=[floats(5)])),
        "its slope of shape [5] is not one value per channel",
    ),
    "places outside": (model(one("Gather", 1, 6, given=[ints(2, 9)], axis=1)), "its indices are out of range for 6"),
    "a division by 0": (model(one("Div", 1, 4, given=[np.float32(0)])), "it divides by 0"),
    "a weight that is no number": (
        model(one("Conv", *CONV, given=[np.full((8, 4, 1, 1), np.nan, np.float32)])),
        "holds values that are not finite",
    ),
    "a name twice": (
        model(([("Relu", ("x",), ("y",), {}), ("Tanh", ("x",), ("y",), {})], {"x": (1, 4)}, {})),
        "has no output, or overwrites an existing tensor",
    ),
    "an unknown name": (
        model(([("Relu", ("z",), ("y",), {})], {"x": (1, 4)}, {})),
        "tensor 'z': is read but no node computes it",
    ),
    "a missing output": (model(relu(1, 4), outputs=["z"]), "tensor 'z': is an output that no node computes"),
    "a constant output": (
        model(([("Shape", ("x",), ("y",), {})], {"x": (1, 4)}, {})),
        "output (in y): it is a constant or not a tensor",
    ),
    "training": (model(one("Dropout", 1, 4, given=[np.float32(0.5), np.array(True)])), "it is in training mode"),
    "antialias": (
        model(one("Resize", *CONV, given=[None, np.array([1, 1, 0.5, 0.5], np.float32)], mode="linear", antialias=1)),
        "it has antialias or a keep_aspect_ratio_policy",
    ),
    "a region": (
        model(
            one("Resize", *CONV, given=[floats(8), None, ints(1, 4, 3, 3)], coordinate_transformation_mode="tf_crop_and_resize")
        ),
        "its coordinate transformation 'tf_crop_and_resize' is not supported",
    ),
    "padding beyond a window": (
        model(one("MaxPool", *CONV, kernel_shape=[3, 3], pads=[3, 2, 2, 2])),
        "its padding is so large that a window lies in the padding alone",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_onnx_is_refused_in_one_line(name: str) -> None:
    check_refused(*REFUSED[name])


def test_small_vectors_are_normalised_in_int8() -> None:
    """Their squares are less than a step of the largest vector's square."""
    graph = from_onnx(model(one("LpNormalization", 1, 20, 6, axis=-1)), "net")
    sizes = np.geomspace(0.05, 1, 20, dtype=np.float32)[:, None]
    samples = open_samples({"x": floats(16, 1, 20, 6) * sizes}, graph)
    done = quantise(graph, samples, QuantiseOptions(method="minmax"))
    assert fidelity(done.real, done.graph, samples).sqnr_db > 34


def test_an_int8_input_that_is_not_cast_is_refused() -> None:
    made = onnx.load_from_string(model(relu(1, 4)))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    check_refused(made.SerializeToString(), "Relu (in y): it computes on int8; cast the integers to float32 first")


def test_damaged_files_are_read_or_refused() -> None:
    data, rng, refused = model(CASES["shuffle"]), np.random.default_rng(3), 0
    for _ in range(600):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        try:
            from_onnx(bytes(damaged[: len(data) - (int(rng.integers(60)) if rng.random() < 0.2 else 0)]), "damaged")
        except CompileError:
            refused += 1
    assert refused > 150


@pytest.mark.filterwarnings("ignore")  # torch speaks of its other exporter
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.sweep) for first in (1, 2))])
def test_architectures_exported_to_onnx_compute_the_same_as_imported_from_torch(first: int) -> None:
    """Each case takes every third architecture, so that a part of them runs in the usual tests."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")
    from cases.architectures import BUILDERS, network
    from cases.from_torch import trained

    from tinyweave.importers.torch import from_module

    for name in list(BUILDERS)[first::3]:
        module, example = network(name)
        module, file = trained(module), io.BytesIO()
        torch.onnx.export(module, (example,), file, dynamo=False, opset_version=17)
        graph = from_onnx(file.getvalue(), name)
        with torch.no_grad():
            expected = module(example).numpy()
        assert distance(graph, [example.numpy()], [expected]) < CLOSE, name
        kinds, wanted = (Counter(op.kind for op in each.ops) for each in (graph, from_module(module, example)))
        assert kinds == wanted or name == "shufflenet_v2", (name, kinds - wanted, wanted - kinds)
        assert not kinds["transpose"], name
