"""Fuse a pad op into the convolutions or max pools that read it, if their own padding then has the same effect.

A convolution pads with the zero point, so the pad op must add this value. A max pool ignores its padding, so the pad op must
add the lowest int8 value, or repeat values that the same windows contain. Only rows and columns can be fused, and every window
must still contain part of the map.

A .tflite file has only the paddings SAME and VALID: `pad_to_same` removes a pad op if its readers then have SAME. Keras writes
pad ((0, 1), (0, 1)) before a stride of 2, which is SAME for maps of even size. PyTorch pads by 1 on each side: a kernel with a
row and a column of zeros at its end then computes the same values with SAME.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Graph, Op, limits
from ..ops import SPECS, spec_of
from ..ops.data_movement import pad_value
from ..ops.layout import paddings
from ..ops.window import Size, output_size, same_padding
from .rewrite import exchange, of_each_op, part

MOST_ZEROS = 2  # rows or columns of zeros that `pad_to_same` adds to a side of a kernel


def without_pad(graph: Graph, op: Op) -> Graph:
    """Remove a pad op on int8 that all its readers can replace by padding of their own."""
    pads = spec_of(op).family == "pad" or op.kind == "mirror_pad"
    if not pads or graph.input(op).dtype != "int8" or op.outputs[0] in graph.outputs:
        return graph
    padded = [_padded(graph, graph.ops[index], op) for index in graph.consumers.get(op.outputs[0], ())]
    fused = [reader for reader in padded if reader is not None]
    return exchange(graph, fused, gone=op.name) if len(fused) == len(padded) > 0 else graph


fuse_pad = of_each_op(without_pad)


def _padded(graph: Graph, reader: Op, pad: Op) -> Op | None:
    """Return `reader`, the op after a pad, with that padding added to its own, or None if results would differ."""
    added = paddings(graph, pad)
    if len(added) != 4 or added[0] != (0, 0) or added[3] != (0, 0) or not _is_alike(graph, reader, pad):
        return None
    own = reader.attrs["padding"]
    total = tuple((own[axis][0] + added[1 + axis][0], own[axis][1] + added[1 + axis][1]) for axis in (0, 1))
    windows = SPECS[reader.kind].windows(graph, reader)
    if windows is None or any(max(sizes) >= window.extent for sizes, window in zip(total, windows, strict=True)):
        return None
    return replace(reader, inputs=(pad.inputs[0], *reader.inputs[1:]), attrs={**reader.attrs, "padding": total})


def _is_alike(graph: Graph, reader: Op, pad: Op) -> bool:
    """Return whether padding by `reader` itself gives the same result as the pad op before it."""
    if pad.kind == "mirror_pad":
        if reader.kind != "max_pool_2d" or pad.attrs["mode"] != "symmetric" or any(map(any, reader.attrs["padding"])):
            return False
        return all(2 * max(paddings(graph, pad)[1 + axis]) <= reader.attrs["kernel"][axis] for axis in (0, 1))
    value = pad_value(graph, pad)
    if reader.kind == "max_pool_2d":
        return value == limits("int8")[0]
    return SPECS[reader.kind].family == "convolution" and value == graph.output(pad).zero_point


def pad_to_same(graph: Graph, pad: Op, most_zeros: int) -> Graph:
    """Remove a pad op if its readers can use SAME, with at most `most_zeros` zeros at each side of their kernels."""
    fused = without_pad(graph, pad)
    for index in graph.consumers.get(pad.outputs[0], ()) if fused is not graph else ():
        reader = next(op for op in fused.ops if op.name == graph.ops[index].name)
        is_filter = spec_of(reader).family == "convolution"
        changed = _with_same(fused, reader, most_zeros if is_filter else 0)
        if changed is None:
            return graph
        fused = changed
    return fused


def _with_same(graph: Graph, op: Op, most_zeros: int) -> Graph | None:
    """Return the graph in which `op` computes the same with SAME, by adding zeros to its kernel; None if it cannot."""
    kernel = op.attrs["kernel"] if "kernel" in op.attrs else graph.input(op, 1).shape[1:3]
    zeros, padding = list[Size](), list[Size]()
    for axis in (0, 1):
        size, stride = graph.input(op).shape[1 + axis], op.attrs["stride"][axis]
        dilation, own = op.attrs.get("dilation", (1, 1))[axis], op.attrs["padding"][axis]
        counts = sorted(((a, b) for a in range(most_zeros + 1) for b in range(most_zeros + 1)), key=sum)
        same = ((count, same_padding(size, kernel[axis] + sum(count), stride, dilation)) for count in counts)
        found = [each for each in same if each[1][0] == own[0] + each[0][0] * dilation]
        if not found or output_size(size, kernel[axis], stride, dilation, own) != -(-size // stride):
            return None
        zeros.append(found[0][0])
        padding.append(found[0][1])
    inputs, constants = op.inputs, []
    if any(map(any, zeros)):
        weights = graph.input(op, 1)
        assert weights.data is not None
        constants.append(part(graph, op, "extended", weights, np.pad(weights.data, ((0, 0), *zeros, (0, 0)))))
        inputs = (op.inputs[0], constants[0].name, *op.inputs[2:])
    return exchange(graph, [replace(op, inputs=inputs, attrs={**op.attrs, "padding": tuple(padding)})], constants)
