"""Importer functions of ATen ops: OPS maps each op name to a function that adds TFLite ops to a Builder.

A function takes a Builder and the op's arguments as in ATen's schema. A tensor is a Map if the network computes it, and a numpy
array if it is constant. The function returns a Map or a list of Maps, or raises Unsupported. Source: ATen's
native_functions.yaml.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..channels_last import view
from . import attention, axes, elementwise, norms, quantised, recurrent, spatial

Function = Callable[..., Any]
OPS: dict[str, Function] = {
    **elementwise.FUNCTIONS,
    "adaptive_avg_pool1d": spatial.adaptive_average_pool,
    "adaptive_avg_pool2d": spatial.adaptive_average_pool,
    "adaptive_max_pool1d": spatial.adaptive_max_pool,
    "adaptive_max_pool2d": spatial.adaptive_max_pool,
    "add": elementwise.binary("add"),
    "amax": axes.reduce("reduce_max"),
    "amin": axes.reduce("reduce_min"),
    "avg_pool1d": spatial.average_pool,
    "avg_pool2d": spatial.average_pool,
    "batch_norm": elementwise.batch_norm,
    "bmm": attention.matmul,
    "cat": axes.concatenation,
    "celu": lambda b, x, alpha=1.0: elementwise.elu(b, x, alpha, 1, 1 / alpha),
    "channel_shuffle": axes.channel_shuffle,
    "chunk": axes.chunk,
    "clamp": elementwise.clamp,
    "clamp_max": lambda b, x, high: elementwise.clamp(b, x, None, high),
    "clamp_min": lambda b, x, low: elementwise.clamp(b, x, low, None),
    "clone": axes.identity,
    "constant_pad_nd": lambda b, x, pads, value=0: axes.pad(b, x, pads, "constant", value),
    "contiguous": axes.identity,
    "conv1d": spatial.convolution,
    "conv2d": spatial.convolution,
    "conv_transpose2d": spatial.transposed_convolution,
    "detach": axes.identity,
    "div": elementwise.division,
    "dropout": axes.dropout,
    "elu": elementwise.elu,
    "feature_dropout": axes.dropout,
    "flatten": axes.flatten,
    "gelu": elementwise.gelu,
    "hardshrink": elementwise.shrink,
    "hardsigmoid": lambda b, x: elementwise.hard_sigmoid(b, x, alpha=1 / 6),
    "hardswish": elementwise.unary("hard_swish"),
    "hardtanh": lambda b, x, low=-1.0, high=1.0: elementwise.clamp(b, x, low, high),
    "layer_norm": norms.layer_norm,
    "leaky_relu": elementwise.leaky_relu,
    "linear": axes.linear,
    "log_softmax": partial(axes.softmax, kind="log_softmax"),
    "matmul": attention.matmul,
    "max": axes.max_or_min("reduce_max", "maximum"),
    "max_pool1d": spatial.max_pool,
    "max_pool2d": spatial.max_pool,
    "maximum": elementwise.binary("maximum"),
    "mean": axes.mean,
    "min": axes.max_or_min("reduce_min", "minimum"),
    "minimum": elementwise.binary("minimum"),
    "mul": elementwise.binary("mul"),
    "neg": lambda b, x: elementwise.binary("mul")(b, x, -1.0),
    "pad": axes.pad,
    "permute": axes.permute,
    "pow": elementwise.power,
    "prelu": elementwise.prelu,
    "relu": elementwise.unary("relu"),
    "relu6": elementwise.unary("relu6"),
    "reshape": view,
    "rms_norm": norms.rms_norm,
    "rsqrt": elementwise.unary("rsqrt"),
    "rsub": lambda b, x, y, alpha=1: elementwise.binary("sub")(b, y, x, alpha),
    "scaled_dot_product_attention": attention.dot_product_attention,
    "select": axes.select,
    "selu": lambda b, x: elementwise.elu(b, x, *elementwise.SELU),
    "sigmoid": elementwise.unary("logistic"),
    "silu": lambda b, x: elementwise.binary("mul")(b, x, b.like("logistic", x)),
    "slice": axes.slice_,
    "softmax": axes.softmax,
    "softplus": elementwise.softplus,
    "softshrink": lambda b, x, lambd=0.5: elementwise.shrink(b, x, lambd, lambd),
    "split": axes.split,
    "split_with_sizes": axes.split_sizes,
    "squeeze": axes.squeeze,
    "square": lambda b, x: elementwise.binary("mul")(b, x, x),
    "stack": axes.stack,
    "sub": elementwise.binary("sub"),
    "sum": axes.reduce("sum"),
    "threshold": elementwise.threshold,
    "to": axes.to,
    "transpose": axes.transpose,
    "unbind": axes.unbind,
    "unflatten": axes.unflatten,
    "unsqueeze": axes.unsqueeze,
    "upsample_bilinear2d": spatial.bilinear,
    "upsample_nearest2d": spatial.nearest,
    "view": view,
    **quantised.QUANTISED,
    **recurrent.RECURRENT,
}
# ops whose output shares the memory of their first argument: an in-place op on one of them changes both
VIEWS = frozenset(
    "chunk contiguous detach dropout feature_dropout flatten getitem permute reshape select slice split "
    "split_with_sizes squeeze to transpose unbind unflatten unsqueeze view".split()
)
