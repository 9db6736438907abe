"""Emit the C that delivers a model's input from a camera or a JPEG file, and count its RAM."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ..camera.emit import c_files, ram_bytes
from ..camera.row_source import RowSource, check_source, pixel_values, row_source
from ..ir import CompileError, Tensor
from .results import Model

RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")


def row_source_files(model: Model, text: str, pixels: str | None = None) -> dict[str, str]:
    """Return the C files of a source for a model.

    `pixels` is LOW..HIGH, the network's values of black and white; None takes the ends of the input's range.
    """
    source, tensor = _checked(model, text)
    return c_files(source, model.name, _shape(tensor), _values(tensor, pixels))


def row_source_bytes(model: Model, text: str) -> int:
    """Return the RAM of a source for a model: the bytes of its struct on a 32-bit core."""
    source, tensor = _checked(model, text)
    return ram_bytes(source, _shape(tensor))


def _checked(model: Model, text: str) -> tuple[RowSource, Tensor]:
    source, tensors = row_source(text), [model.graph.tensors[name] for name in model.graph.inputs]
    if len(tensors) != 1 or len(tensors[0].shape) != 4 or tensors[0].shape[0] != 1:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        raise CompileError(f"--source delivers one image, the model takes {shapes}", "leave out --source")
    if tensors[0].dtype not in ("int8", "uint8"):
        raise CompileError(f"--source delivers 8-bit values, the input is {tensors[0].dtype}", "add --io int8")
    check_source(source, _shape(tensors[0]))
    return source, tensors[0]


def _shape(tensor: Tensor) -> tuple[int, int, int]:
    _, rows, columns, channels = tensor.shape
    return rows, columns, channels


def _values(tensor: Tensor, pixels: str | None) -> NDArray[np.int8]:
    lowest = -128 if tensor.dtype == "int8" else 0
    if pixels is None:
        return (np.arange(256) + lowest).astype(np.uint8).view(np.int8)
    match = RANGE.fullmatch(pixels)
    if match is None or float(match[1]) == float(match[2]):
        raise CompileError(
            f"--pixels {pixels[:40]} is not a range", "write the values of black and white, such as 0..1 or -1..1"
        )
    return pixel_values(tensor.scale, tensor.zero_point, float(match[1]), float(match[2]), lowest)
