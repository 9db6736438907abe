"""Import the forms that ONNX ops had before opset 13, by the functions that import their newer forms.

OLD_FORMS has a row per change of an op: its name, the last opset of the old form, and a function that takes the importer
function of the next form, the builder, and the inputs and attributes of the old form. `functions_of` chains them.
Source: ONNX's Changelog.md. What it leaves open (Upsample and Resize before opset 11) is as in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..aten.elementwise import constant
from ..quantised_constants import Array
from ..unsupported import Unsupported, normalised_axis
from . import OPS

Function = Callable[..., Any]
WITHOUT_MEANING = ("consumed_inputs", "is_test", "output_sequence")  # attributes that change no output in inference


def functions_of(opset: int | None) -> Mapping[str, Function]:
    """Return the importer function of each ONNX op, for the form that the op has in this opset; None means a new opset."""
    found = dict(OPS)
    for op, last, form in OLD_FORMS:
        if opset is not None and opset <= last:
            found[op] = partial(form, found.get(op))
    return found


def _inputs(*names: str) -> Function:
    """Return a form whose attributes `names` are inputs in the next form."""

    def form(newer: Function, b: Any, *inputs: Any, **attributes: Any) -> Any:
        values = [attributes.pop(name, None) for name in names]
        while values and values[-1] is None:
            values.pop()
        return newer(b, *inputs, *(None if value is None else _array(value) for value in values), **attributes)

    return form


def _array(value: Any) -> Array:
    """Return numbers of an attribute as an array of int64 or float32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _without(*names: str) -> Function:
    """Return a form whose attributes `names` have no meaning in inference."""
    return lambda newer, b, *inputs, **attributes: newer(
        b, *inputs, **{name: value for name, value in attributes.items() if name not in names}
    )


def _default(**values: Any) -> Function:
    """Return a form whose attributes have other default values than in the next form."""
    return lambda newer, b, *inputs, **attributes: newer(b, *inputs, **{**values, **attributes})


def _aligned(newer: Function, b: Any, x: Any, y: Any, *, broadcast: int = 0, axis: int | None = None, **more: Any) -> Any:
    """Import an operand `y` whose axes begin at the axis `axis` of `x`."""
    if broadcast and axis is not None:
        missing = len(x.shape) - axis % len(x.shape) - len(y.shape)
        y = OPS["Unsqueeze"](b, y, np.arange(len(y.shape), len(y.shape) + missing)) if missing > 0 else y
    return newer(b, x, y, **more)


def _softmax(newer: Function, b: Any, x: Any, *, axis: int = 1) -> Any:
    """Import a softmax over all axes from `axis` on."""
    axis = normalised_axis(len(x.shape), axis)
    if prod(x.shape[axis + 1 :]) == 1:
        return newer(b, x, axis=axis)
    rows = newer(b, OPS["Flatten"](b, x, axis=axis), axis=1)
    return OPS["Reshape"](b, rows, np.array(x.shape))


def _per_channel(newer: Function, b: Any, *inputs: Any, spatial: int = 1, **more: Any) -> Any:
    """Import a BatchNormalization with the statistics of each channel."""
    if not spatial:
        raise Unsupported("its spatial is 0: its statistics are those of each pixel; only those of channels are supported")
    return newer(b, *inputs, **more)


def _tile_axis(newer: Function, b: Any, x: Any, tiles: Any, axis: Any) -> Any:
    repeats = np.ones(len(x.shape), int)
    repeats[int(np.ravel(constant(axis, "axis"))[0])] = int(np.ravel(constant(tiles, "tiles"))[0])
    return newer(b, x, repeats)


def _resize(newer: Any, b: Any, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """Import an Upsample, or a Resize of opset 10, with output i at i / scale; nearest rounds up along axes that shrink."""
    factors = constant(scales, "scales")
    resized = partial(OPS["Resize"], b, roi=None, coordinate_transformation_mode="asymmetric")
    if mode != "nearest":
        return resized(x, scales=factors, mode="linear" if mode == "bilinear" else mode)
    for rounding, chosen in (("ceil", factors < 1), ("floor", factors > 1)):
        if chosen.any():
            x = resized(x, scales=np.where(chosen, factors, 1), nearest_mode=rounding)
    return x


def _image_scales(newer: Function, b: Any, x: Any, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Any:
    return newer(b, x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)


# the names of TensorProto.DataType, by number
TYPES = "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64".split()
TWO_OPERANDS = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
OLD_FORMS: Sequence[tuple[str, int, Function]] = (  # of each op, the newest change is first
    ("BatchNormalization", 8, _per_channel),
    ("Cast", 5, lambda newer, b, x, *, to: newer(b, x, to=TYPES.index(to.upper()))),
    ("Clip", 10, _inputs("min", "max")),
    ("Concat", 3, _default(axis=1)),
    ("Gemm", 6, _without("broadcast")),
    ("LogSoftmax", 12, _softmax),
    ("PRelu", 6, lambda newer, b, x, slope: newer(b, x, constant(slope, "slope").reshape(-1, *[1] * (len(x.shape) - 2)))),
    ("Pad", 10, _inputs("pads", "value")),
    ("Pad", 1, lambda newer, b, x, *, paddings, **more: newer(b, x, pads=paddings, **more)),
    ("Reshape", 4, _inputs("shape")),
    ("Resize", 10, _resize),
    ("Selu", 5, _default(alpha=1.6732, gamma=1.0507)),
    ("Slice", 9, _inputs("starts", "ends", "axes")),
    ("Softmax", 12, _softmax),
    ("Split", 12, _inputs("split")),
    ("Squeeze", 12, _inputs("axes")),
    ("Tile", 5, _tile_axis),
    ("TopK", 9, _inputs("k")),
    ("Unsqueeze", 12, _inputs("axes")),
    ("Upsample", 10, _resize),
    ("Upsample", 8, _inputs("scales")),
    ("Upsample", 6, _image_scales),
    *((op, 6, _aligned) for op in TWO_OPERANDS),
    *((op, 6, _without(*WITHOUT_MEANING)) for op in OPS),
)
