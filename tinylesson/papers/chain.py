"""A network as papers on RAM and MACs model it: a chain of convolutions, in which each reads the output of the one before.

In: layer sizes, or a Graph. Out: ChainLayers; `plan_bytes` without buffers that a paper ignores. An element is one byte. Skip
connections, pooling and the classifier are not part of the chain.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tinyweave.ir import CompileError, Graph, Op, is_constant
from tinyweave.ops import spec_of
from tinyweave.ops.window import ChainLayer
from tinyweave.planning import Plan, scratch_name

NO_CHAIN = "is a convolution that does not read the output of the op before it", "this count covers chains of convolutions only"


def square(side: int, c_in: int, c_out: int, kernel: int = 1, stride: int = 1, *, depthwise: bool = False) -> ChainLayer:
    """Return a convolution whose input is a square map of `side` rows, padded by half the kernel on all sides."""
    pad = kernel // 2, kernel // 2
    return ChainLayer(side, side, c_in, c_out, (kernel, kernel), (stride, stride), (pad, pad), depthwise)


class Chain(NamedTuple):
    """The convolutions of a graph as a chain, in which each reads the output of the one before."""

    layers: tuple[ChainLayer, ...]
    left_out: tuple[str, ...]  # names of the ops that are not in the chain


def chain_of(graph: Graph) -> Chain:
    """Return the chain of convolutions in a graph, in which each reads the output of the one before.

    Left out are ops before the first convolution that read the image and keep its size, skip connections (sums with an earlier
    map), and all ops after the last convolution, also one of a 1x1 map (a classifier). Raise CompileError if the graph has
    several inputs, or its convolutions form no chain.
    """
    if len(graph.inputs) != 1:
        raise CompileError(f"the network has {len(graph.inputs)} inputs", "this count covers networks with one input only")
    last, ended = graph.inputs[0], None
    layers, left_out, known = list[ChainLayer](), list[str](), {last}
    for op in graph.ops:
        if spec_of(op).family == "convolution" and not ended and op.inputs[0] == last:
            layers.append(_layer(graph, op))
        else:
            left_out.append(op.name)
            if spec_of(op).family == "convolution" and graph.input(op).shape[1:3] != (1, 1):
                raise CompileError(*NO_CHAIN, op=ended or op)
            if not ended and not _is_skip(graph, op, last, known) and (layers or not _is_on_image(graph, op, last)):
                ended = op
        if not ended:
            last = op.outputs[0]
            known.add(last)
    if not layers:
        raise CompileError("no convolution reads the network's input", "this count covers chains of convolutions only")
    return Chain(tuple(layers), tuple(left_out))


def _is_on_image(graph: Graph, op: Op, last: str) -> bool:
    """Return whether an op before the first convolution only transforms the image `last`, of as many elements."""
    operands = [t for t in graph.inputs_of(op) if t is not None and not is_constant(t)]
    return [t.name for t in operands] == [last] and operands[0].elements == graph.tensors[op.outputs[0]].elements


def _is_skip(graph: Graph, op: Op, last: str, known: Collection[str]) -> bool:
    """Return whether an op adds a map of `known`, those of the chain so far, to the latest map, `last`."""
    shapes = {graph.tensors[name].shape for name in (*op.inputs, *op.outputs) if name}
    return op.kind == "add" and last in op.inputs and set(op.inputs) <= set(known) and len(shapes) == 1


def _layer(graph: Graph, op: Op) -> ChainLayer:
    x, weights, out = graph.input(op), graph.input(op, 1), graph.tensors[op.outputs[0]]
    _, h, w, c_in = x.shape
    depthwise = op.kind == "depthwise_conv_2d"
    if x.shape[0] != 1 or x.bytes != x.elements or op.attrs.get("dilation", (1, 1)) != (1, 1):
        raise CompileError(
            "has a batch, a dilation or elements wider than a byte", "this count covers plain int8 convolutions only", op=op
        )
    if not depthwise and weights.shape[3] != c_in:
        raise CompileError("has groups of channels", "this count covers dense and depthwise convolutions only", op=op)
    kernel = weights.shape[1], weights.shape[2]
    return ChainLayer(h, w, c_in, out.shape[3], kernel, op.attrs["stride"], op.attrs["padding"], depthwise)


def plan_bytes(plan: Plan, left_out: Collection[str]) -> int:
    """Return the peak RAM of a plan in bytes, over all its steps, without the buffers named in `left_out`.

    Shared bytes count once. Raises CompileError if the plan uses several memories.
    """
    if len(plan.arena) > 1:
        raise CompileError(
            f"the plan uses several memories, {' and '.join(plan.arena)}", "this count covers one memory only: see --ram"
        )
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
    """Return the names that scratch buffers of a plan's ops have, to leave scratch out of its RAM."""
    return {scratch_name(op.name) for op in plan.graph.ops}
