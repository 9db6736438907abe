"""Emit the C that converts camera lines or a JPEG file to a model's input (the row source), and compute its RAM."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ..camera.emit import c_files, ram_bytes
from ..camera.row_source import RowSource, check_source, pixel_values, row_source
from ..ir import CompileError, Tensor
from .results import Model

# values of black and white, such as -1..1
RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)")


def row_source_files(model: Model, text: str, pixels: str | None = None) -> dict[str, str]:
    """Return the C files (name -> text) that convert a camera's picture or a JPEG file to a model's input, row by row."""
    source, tensor = _checked(model, text)
    return c_files(source, model.name, _shape(tensor), _values(tensor, pixels))


def row_source_bytes(model: Model, text: str) -> int:
    """Return the bytes of RAM, on a 32-bit core, of the C that feeds a model from a camera or a JPEG file."""
    source, tensor = _checked(model, text)
    return ram_bytes(source, _shape(tensor))


def _checked(model: Model, text: str) -> tuple[RowSource, Tensor]:
    """Parse a source of pictures, and return it with the only input, to which it must fit."""
    source, tensors = row_source(text), [model.graph.tensors[name] for name in model.graph.inputs]
    if len(tensors) != 1 or len(tensors[0].shape) != 4 or tensors[0].shape[0] != 1:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        raise CompileError(f"--source delivers one image, the model takes {shapes}", "leave out --source")
    if tensors[0].dtype not in ("int8", "uint8"):
        raise CompileError(f"--source delivers 8-bit values, the input is {tensors[0].dtype}", "add --io int8")
    check_source(source, _shape(tensors[0]))
    return source, tensors[0]


def _shape(tensor: Tensor) -> tuple[int, int, int]:
    """Return the (rows, columns, channels) of an image input."""
    _, rows, columns, channels = tensor.shape
    return rows, columns, channels


def _values(tensor: Tensor, pixels: str | None) -> NDArray[np.int8]:
    """Return the table [256] that maps pixel values to bytes of the network's input; `pixels` as for `row_source_files`."""
    lowest = -128 if tensor.dtype == "int8" else 0
    if pixels is None:
        return (np.arange(256) + lowest).astype(np.uint8).view(np.int8)
    match = RANGE.fullmatch(pixels)
    if match is None or float(match[1]) == float(match[2]):
        raise CompileError(
            f"--pixels {pixels[:40]} is not a range", "write the values of black and white, such as 0..1 or -1..1"
        )
    return pixel_values(tensor.scale, tensor.zero_point, float(match[1]), float(match[2]), lowest)
