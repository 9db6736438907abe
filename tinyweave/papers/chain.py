"""A network as papers count it: a chain of convolutions. In: figures, or a Graph with one; a Plan. Out: Layers; bytes.

Sizes are (h, w), an element is a byte. What such a chain leaves out, the papers leave out too: skips, pools, the classifier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..ir import CompileError, Graph, Op, is_constant
from ..ops.window import Padding, Size, output_size
from ..planning import Plan, scratch_name

KINDS = ("conv_2d", "depthwise_conv_2d")
NO_CHAIN = "is no convolution of what the op before it made", "this count knows chains of them only"


class ChainLayer(NamedTuple):
    """A convolution of a map of h x w x c_in; depthwise: an output channel reads one input channel."""

    h: int
    w: int
    c_in: int
    c_out: int
    kernel: Size = (1, 1)
    stride: Size = (1, 1)
    padding: Padding = ((0, 0), (0, 0))
    depthwise: bool = False

    @property
    def h_out(self) -> int:
        return output_size(self.h, self.kernel[0], self.stride[0], 1, self.padding[0])

    @property
    def w_out(self) -> int:
        return output_size(self.w, self.kernel[1], self.stride[1], 1, self.padding[1])

    @property
    def in_bytes(self) -> int:
        return self.h * self.w * self.c_in

    @property
    def out_bytes(self) -> int:
        return self.h_out * self.w_out * self.c_out

    @property
    def is_square(self) -> bool:
        """Alike in rows and columns, as papers have it."""
        return self.h == self.w and all(pair[0] == pair[1] for pair in (self.kernel, self.stride, self.padding))

    @property
    def macs_per_pixel(self) -> int:
        """Return multiply-accumulates of all channels of one position of the output, padding included."""
        return self.kernel[0] * self.kernel[1] * (1 if self.depthwise else self.c_in) * self.c_out

    @property
    def macs(self) -> int:
        return self.h_out * self.w_out * self.macs_per_pixel


def square(side: int, c_in: int, c_out: int, kernel: int = 1, stride: int = 1, *, depthwise: bool = False) -> ChainLayer:
    """Return a layer on a square map, padded alike on all sides so that with stride 1 the map keeps its size."""
    pad = kernel // 2, kernel // 2
    return ChainLayer(side, side, c_in, c_out, (kernel, kernel), (stride, stride), (pad, pad), depthwise)


def macs(layers: Sequence[ChainLayer]) -> int:
    """Return what a layer-by-layer run executes, padding included."""
    return sum(layer.macs for layer in layers)


class Chain(NamedTuple):
    """The convolutions of a graph, and the names of the ops that papers leave out."""

    layers: tuple[ChainLayer, ...]
    left_out: tuple[str, ...]


def chain_of(graph: Graph) -> Chain:
    """Return the chain in a graph whose convolutions each read what the op before them made.

    Left out are ops on the image before the first one, sums with an earlier map of the chain (skips), and whatever follows the
    last one, in which a convolution of one pixel is a classifier.
    """
    if len(graph.inputs) != 1:
        raise CompileError(f"the network has {len(graph.inputs)} inputs", "this count knows chains from one input")
    last, ended = graph.inputs[0], None
    layers, left_out, known = list[ChainLayer](), list[str](), {last}
    for op in graph.ops:
        if op.kind in KINDS and not ended and op.inputs[0] == last:
            layers.append(_layer(graph, op))
        else:
            left_out.append(op.name)
            if op.kind in KINDS and graph.input(op).shape[1:3] != (1, 1):
                raise CompileError(*NO_CHAIN, op=ended or op)
            if not ended and not _is_skip(graph, op, last, known) and (layers or not _is_on_image(graph, op, last)):
                ended = op
        if not ended:
            last = op.outputs[0]
            known.add(last)
    if not layers:
        raise CompileError("the network has no convolution of its input", "this count knows chains of them only")
    return Chain(tuple(layers), tuple(left_out))


def _is_on_image(graph: Graph, op: Op, last: str) -> bool:
    """Return whether an op changes an image to another one of its size."""
    operands = [t for t in graph.inputs_of(op) if t is not None and not is_constant(t)]
    return [t.name for t in operands] == [last] and operands[0].elements == graph.tensors[op.outputs[0]].elements


def _is_skip(graph: Graph, op: Op, last: str, known: Collection[str]) -> bool:
    """Return whether an op adds an earlier map of the chain to the last one."""
    shapes = {graph.tensors[name].shape for name in (*op.inputs, *op.outputs) if name}
    return op.kind == "add" and last in op.inputs and set(op.inputs) <= set(known) and len(shapes) == 1


def _layer(graph: Graph, op: Op) -> ChainLayer:
    x, weights, out = graph.input(op), graph.input(op, 1), graph.tensors[op.outputs[0]]
    _, h, w, c_in = x.shape
    depthwise = op.kind == "depthwise_conv_2d"
    if x.shape[0] != 1 or x.bytes != x.elements or op.attrs.get("dilation", (1, 1)) != (1, 1):
        raise CompileError("has a batch, a dilation or wide numbers", "this count knows bytes and plain windows only", op=op)
    if not depthwise and weights.shape[3] != c_in:
        raise CompileError("has groups of channels", "this count knows dense and depthwise convolutions only", op=op)
    kernel = weights.shape[1], weights.shape[2]
    return ChainLayer(h, w, c_in, out.shape[3], kernel, op.attrs["stride"], op.attrs["padding"], depthwise)


def plan_bytes(plan: Plan, left_out: Collection[str]) -> int:
    """Return the most that a plan in one memory has in use in a step, once where buffers overlap, but for these buffers."""
    if len(plan.arena) > 1:
        raise CompileError(f"the plan lies in {' and '.join(plan.arena)}", "this count knows one memory; see --ram")
    counted = 0
    for step in range(len(plan.stages)):
        total = top = 0
        for buffer in plan.alive(step):
            if buffer.name not in left_out:
                begin, end = plan.offsets[buffer.name], plan.offsets[buffer.name] + buffer.bytes
                total, top = total + max(0, end - max(begin, top)), max(end, top)
        counted = max(counted, total)
    return counted


def scratch_names(plan: Plan) -> set[str]:
    """Return the buffers that hold working memory of kernels."""
    return {scratch_name(op.name) for op in plan.graph.ops}
