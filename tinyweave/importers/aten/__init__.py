"""What PyTorch's ops are in TFLite's: OPS has a function per op.

Each function takes a Builder and the op's arguments as ATen's schema has them: a Map for a tensor that the network computes, a
numpy array for a constant, and plain numbers. It returns a Map, or a list of them, and raises Unsupported where TFLite has no
op, or chain of ops, that computes the same. Source: ATen's native_functions.yaml.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..channels_last import viewed
from .attention import dot_product_attention, matmul
from .axes import (
    channel_shuffle,
    chunk,
    concatenation,
    dropout,
    extreme,
    flatten,
    linear,
    mean,
    pad,
    permute,
    reduce,
    same,
    select,
    slice_,
    softmax,
    split,
    split_sizes,
    squeeze,
    stack,
    to,
    transpose,
    unbind,
    unflatten,
    unsqueeze,
)
from .elementwise import (
    batch_norm,
    binary,
    clamp,
    division,
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    power,
    prelu,
    unary,
)
from .norms import layer_norm, rms_norm
from .quantised import QUANTISED
from .recurrent import RECURRENT
from .spatial import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    bilinear,
    convolution,
    max_pool,
    nearest,
    transposed_convolution,
)

Function = Callable[..., Any]
OPS: dict[str, Function] = {
    "adaptive_avg_pool1d": adaptive_average_pool,
    "adaptive_avg_pool2d": adaptive_average_pool,
    "adaptive_max_pool1d": adaptive_max_pool,
    "adaptive_max_pool2d": adaptive_max_pool,
    "add": binary("add"),
    "amax": reduce("reduce_max"),
    "amin": reduce("reduce_min"),
    "avg_pool1d": average_pool,
    "avg_pool2d": average_pool,
    "batch_norm": batch_norm,
    "bmm": matmul,
    "cat": concatenation,
    "channel_shuffle": channel_shuffle,
    "chunk": chunk,
    "clamp": clamp,
    "clamp_max": lambda b, x, high: clamp(b, x, None, high),
    "clamp_min": lambda b, x, low: clamp(b, x, low, None),
    "clone": same,
    "constant_pad_nd": lambda b, x, pads, value=0: pad(b, x, pads, "constant", value),
    "contiguous": same,
    "conv1d": convolution,
    "conv2d": convolution,
    "conv_transpose2d": transposed_convolution,
    "detach": same,
    "div": division,
    "dropout": dropout,
    "elu": elu,
    "feature_dropout": dropout,
    "flatten": flatten,
    "gelu": gelu,
    "hardsigmoid": lambda b, x: hard_sigmoid(b, x, alpha=1 / 6),
    "hardswish": unary("hard_swish"),
    "hardtanh": lambda b, x, low=-1.0, high=1.0: clamp(b, x, low, high),
    "layer_norm": layer_norm,
    "leaky_relu": leaky_relu,
    "linear": linear,
    "log_softmax": partial(softmax, kind="log_softmax"),
    "matmul": matmul,
    "max": extreme("reduce_max", "maximum"),
    "max_pool1d": max_pool,
    "max_pool2d": max_pool,
    "maximum": binary("maximum"),
    "mean": mean,
    "min": extreme("reduce_min", "minimum"),
    "minimum": binary("minimum"),
    "mul": binary("mul"),
    "neg": lambda b, x: binary("mul")(b, x, -1.0),
    "pad": pad,
    "permute": permute,
    "pow": power,
    "prelu": prelu,
    "relu": unary("relu"),
    "relu6": unary("relu6"),
    "reshape": viewed,
    "rms_norm": rms_norm,
    "rsqrt": unary("rsqrt"),
    "rsub": lambda b, x, y, alpha=1: binary("sub")(b, y, x, alpha),
    "scaled_dot_product_attention": dot_product_attention,
    "select": select,
    "sigmoid": unary("logistic"),
    "silu": lambda b, x: binary("mul")(b, x, b.like("logistic", x)),
    "slice": slice_,
    "softmax": softmax,
    "split": split,
    "split_with_sizes": split_sizes,
    "squeeze": squeeze,
    "square": lambda b, x: binary("mul")(b, x, x),
    "stack": stack,
    "sub": binary("sub"),
    "sum": reduce("sum"),
    "tanh": unary("tanh"),
    "to": to,
    "transpose": transpose,
    "unbind": unbind,
    "unflatten": unflatten,
    "unsqueeze": unsqueeze,
    "upsample_bilinear2d": bilinear,
    "upsample_nearest2d": nearest,
    "view": viewed,
    **QUANTISED,
    **RECURRENT,
}
# what returns its first argument's elements, which an op in place would change, too
VIEWS = frozenset(
    "chunk contiguous detach dropout feature_dropout flatten getitem permute reshape select slice split "
    "split_with_sizes squeeze to transpose unbind unflatten unsqueeze view".split()
)
