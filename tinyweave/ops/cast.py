"""cast: numbers of one type as numbers of another; scales and zero points count for nothing.

Integers keep their low bits; floats lose their fraction and saturate, and what is not a number becomes the highest integer.
Source: TFLite cast.cc.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Op
from .constraints import arity
from .spec import Arrays, OpSpec, OptionalArrays, Shape
from .window import ONE_TO_ONE, Windows


def infer(graph: Graph, op: Op) -> list[Shape]:
    return [graph.input(op).shape]


def reference(graph: Graph, op: Op, arrays: OptionalArrays) -> Arrays:
    x, target = arrays[0], np.dtype(graph.output(op).dtype)
    assert x is not None
    if x.dtype != np.float32 or target.kind in "fb":
        return [x.astype(target)]
    info = np.iinfo(target)
    low, high = np.float32(info.min), np.float32(info.max)
    inside = (x < high) & (x > low)
    return [np.where(inside, np.where(inside, x, 0).astype(target), np.where(x <= low, info.min, info.max).astype(target))]


def windows(graph: Graph, op: Op) -> Windows | None:
    return ONE_TO_ONE


def shape_is_kept(graph: Graph, op: Op) -> bool:
    """input and output must have the same shape"""
    return graph.input(op).shape == graph.output(op).shape


SPECS = (OpSpec("cast", infer, reference, (arity(1), shape_is_kept), windows=windows),)
