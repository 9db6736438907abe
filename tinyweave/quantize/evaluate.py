"""Run a graph, float or int8, on many samples at once with the numpy references.

In: arrays [samples, *shape] per input. Out: the same per output. Ops whose first axis is a batch take all samples along it, the
others run sample by sample; tensors are dropped after their last use.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op
from ..ops import spec_for
from ..ops.constraints import DATA
from ..ops.data_movement import PIECES, copied
from ..ops.state import initial_state

Array = NDArray[Any]
Visit = Callable[[str, Array], Array]  # the name of a tensor and its value -> the value to go on with
MOST_ELEMENTS = 1 << 21  # of the largest tensor of a chunk of samples: references compute in float64
BATCHED = frozenset(
    """average_pool_2d conv_2d depthwise_conv_2d elu gelu hard_swish leaky_relu logistic max_pool_2d relu relu6 relu_n1_to_1
resize_bilinear resize_nearest_neighbor rsqrt softmax tanh""".split()
)
BINARY = frozenset(("add", "sub", "mul"))
VIEWS = frozenset(("reshape", "squeeze", "expand_dims"))


def evaluate(
    graph: Graph,
    values: Mapping[str, Array],
    *,
    visit: Visit | None = None,
    keep: bool = False,
    ops: Collection[str] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return the outputs, or with `keep` all activations, [samples, *shape] each.

    values: of the inputs, or, where only some `ops` run (by name), of all tensors that these read. visit: sees every activation
    when it is there, the inputs included, and may change it. constants: used in place of the graph's. Each sample begins with
    the first value of all state.
    """
    count = len(next(iter(values.values()))) if values else 0
    held = dict(values) | {n: np.broadcast_to(first, (count, *first.shape)) for n, first in initial_state(graph).items()}
    if visit is not None and ops is None:
        held |= {name: visit(name, held[name]) for name in graph.inputs}
    given = {t.name: t.data for t in graph.tensors.values() if t.data is not None}
    known: Mapping[str, Array] = ChainMap(held, dict(constants or {}), given)
    chosen = [op for op in graph.ops if ops is None or op.name in ops]
    last = {name: index for index, op in enumerate(chosen) for name in op.inputs if name is not None}
    for index, op in enumerate(chosen):
        arrays = [None if name is None else known[name] for name in op.inputs]
        for name, array in zip(op.outputs, _run(graph, op, arrays), strict=True):
            held[name] = array if visit is None else visit(name, array)
        if not keep:
            for read in op.inputs:
                if read is not None and last[read] == index and read not in graph.outputs:
                    held.pop(read, None)
    return held if keep else {name: held[name] for name in graph.outputs}


def chunks(graph: Graph, count: int) -> Iterator[slice]:
    """Yield slices of so many samples that no tensor becomes too large."""
    largest = max(tensor.elements for tensor in graph.tensors.values() if tensor.data is None)
    step = max(1, min(64, MOST_ELEMENTS // max(largest, 1)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def outputs(graph: Graph, inputs: Mapping[str, Array], wanted: Iterable[str] = (), visit: Visit | None = None) -> list[Array]:
    """Return the values of some tensors, the outputs if none are named, of any number of samples, by chunks."""
    names = tuple(wanted) or graph.outputs
    stopped = replace(graph, outputs=names)
    count = len(next(iter(inputs.values())))
    parts = []
    for part in chunks(graph, count):
        done = evaluate(stopped, {name: array[part] for name, array in inputs.items()}, visit=visit)
        parts.append([done[name] for name in names])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _run(graph: Graph, op: Op, arrays: list[Array | None]) -> list[Array]:
    """Return an op's outputs of stacked samples."""
    inputs, results = graph.inputs_of(op), graph.outputs_of(op)
    stacked = [a for a, t in zip(arrays, inputs, strict=True) if a is not None and t is not None and t.data is None]
    count = len(stacked[0]) if stacked else 1
    if op.kind in VIEWS:
        return [stacked[0].reshape(count, *results[0].shape)]
    if op.kind in PIECES and len(stacked) == 1 and stacked[0] is arrays[DATA.get(op.kind, 0)]:
        return copied(graph, op, stacked[0])
    spec = spec_for(graph, op)

    def changed(change: Callable[[Array], Array]) -> list[Array | None]:
        """Return the inputs, the activations among them changed."""
        varies = [t is not None and t.data is None for t in inputs]
        return [change(a) if a is not None and does else a for a, does in zip(arrays, varies, strict=True)]

    if not _is_batched(graph, op):
        runs = [spec.reference(graph, op, changed(itemgetter(sample))) for sample in range(count)]
        return [np.stack(column) for column in zip(*runs, strict=True)]
    activations = [tensor for tensor in (*inputs, *results) if tensor is not None and tensor.data is None]
    wide = {tensor.name: replace(tensor, shape=(count * tensor.shape[0], *tensor.shape[1:])) for tensor in activations}
    flat = changed(lambda array: array.reshape(-1, *array.shape[2:]))
    done = spec.reference(replace(graph, tensors={**graph.tensors, **wide}), op, flat)
    return [array.reshape(count, *tensor.shape) for array, tensor in zip(done, results, strict=True)]


def _is_batched(graph: Graph, op: Op) -> bool:
    """Return whether samples can be stacked along the first axis of the op's activations."""
    tensors = [t for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None and t.data is None]
    rank, out = len(tensors[-1].shape), tensors[-1]
    if op.kind == "fully_connected":
        return rank >= 2 and tensors[0].shape[0] == out.shape[0]
    if rank < 2 or any(len(t.shape) != rank or t.shape[0] != out.shape[0] for t in tensors):
        return False
    if op.kind in BINARY:
        return all(t is None or t.data is None or len(t.shape) < rank or t.shape[0] == 1 for t in graph.inputs_of(op))
    return op.kind in BATCHED
