"""Run a float or int8 graph on a batch of samples with the numpy references.

Inputs and outputs are [samples, *shape]. An op whose first axis is a batch runs once on all samples stacked, others sample by
sample. With variables, samples are consecutive calls, each of which starts with the variables that the call before has left.
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
from ..ops import SPECS, spec_for, spec_of
from ..ops.data_movement import PIECES, copied
from ..ops.state import initial_state

Array = NDArray[Any]
Visit = Callable[[str, Array], Array]  # tensor name and value -> the value that later ops read
MOST_ELEMENTS = 1 << 21  # limit on the largest tensor times the samples of a chunk; references compute in float64


def evaluate(
    graph: Graph,
    values: Mapping[str, Array],
    *,
    visit: Visit | None = None,
    keep: bool = False,
    ops: Collection[str] | None = None,
    constants: Mapping[str, Array] | None = None,
    states: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Run the graph on a batch of samples; return the outputs by name, or all activations if `keep` is set.

    `visit` gets the name and value of each activation, and returns what later ops read. If only `ops` run, `values` must have
    all that they read. `constants` and `states` replace values of the graph.
    """
    count, first = len(next(iter(values.values()))) if values else 0, initial_state(graph)
    if count > 1 and ops is None and keeps_variables(graph):
        whole, calls = replace(graph, outputs=(*graph.outputs, *first)), list[dict[str, Array]]()
        for index in range(count):
            one, states = {name: array[index : index + 1] for name, array in values.items()}, calls[-1] if calls else None
            calls.append(evaluate(whole, one, visit=visit, keep=keep, constants=constants, states=states))
        return {name: np.concatenate([call[name] for call in calls]) for name in (calls[0] if keep else graph.outputs)}
    states = (
        {name: np.broadcast_to(value, (count, *value.shape)) for name, value in first.items()} if states is None else states
    )
    held = {**values, **{name: states[name] for name in first}}
    if visit is not None and ops is None:
        held |= {name: visit(name, held[name]) for name in graph.inputs}
    own = {t.name: t.data for t in graph.tensors.values() if t.data is not None}
    known: Mapping[str, Array] = ChainMap(held, dict(constants or {}), own)
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


def keeps_variables(graph: Graph) -> bool:
    """Return whether ops of the graph read or assign variables, which keep their values from call to call."""
    return any(spec_of(op).family == "state" for op in graph.ops)


def chunks(graph: Graph, count: int) -> Iterator[slice]:
    """Yield slices of at most 64 of `count` samples, fewer for tensors above MOST_ELEMENTS; one with variables."""
    if keeps_variables(graph):
        yield slice(0, count)
        return
    largest = max(tensor.elements for tensor in graph.tensors.values() if tensor.data is None)
    step = max(1, min(64, MOST_ELEMENTS // max(largest, 1)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def visit_all(graph: Graph, inputs: Mapping[str, Array], visit: Visit) -> Iterator[int]:
    """Run the graph chunk by chunk with `visit` (see `evaluate`) as the caller iterates; yield the number of samples done."""
    for part in chunks(graph, len(next(iter(inputs.values())))):
        evaluate(graph, {name: array[part] for name, array in inputs.items()}, visit=visit)
        yield part.stop


def outputs(graph: Graph, inputs: Mapping[str, Array], wanted: Iterable[str] = ()) -> list[Array]:
    """Return the values of the tensors `wanted` (default: the outputs), [samples, *shape] each, computed in chunks."""
    names = tuple(wanted) or graph.outputs
    stopped = replace(graph, outputs=names)
    parts = []
    for part in chunks(graph, len(next(iter(inputs.values())))):
        done = evaluate(stopped, {name: array[part] for name, array in inputs.items()})
        parts.append([done[name] for name in names])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _run(graph: Graph, op: Op, arrays: list[Array | None]) -> list[Array]:
    """Return the outputs of an op; `arrays` are [samples, *shape] for activations, [*shape] for constants, or None."""
    inputs, results = graph.inputs_of(op), graph.outputs_of(op)
    varies = [tensor is not None and tensor.data is None for tensor in inputs]
    stacked = [a for a, v in zip(arrays, varies, strict=True) if a is not None and v]
    count = len(stacked[0]) if stacked else 1
    if SPECS[op.kind].family == "view":
        return [stacked[0].reshape(count, *results[0].shape)]
    if op.kind in PIECES and len(stacked) == 1 and stacked[0] is arrays[SPECS[op.kind].data]:
        return copied(graph, op, stacked[0])
    spec = spec_for(graph, op)

    def changed(change: Callable[[Array], Array]) -> list[Array | None]:
        return [change(a) if a is not None and v else a for a, v in zip(arrays, varies, strict=True)]

    if not _is_batched(graph, op):
        runs = [spec.reference(graph, op, changed(itemgetter(sample))) for sample in range(count)]
        return [np.stack(column) for column in zip(*runs, strict=True)]
    activations = [tensor for tensor in (*inputs, *results) if tensor is not None and tensor.data is None]
    wide = {tensor.name: replace(tensor, shape=(count * tensor.shape[0], *tensor.shape[1:])) for tensor in activations}
    flat = changed(lambda array: array.reshape(-1, *array.shape[2:]))
    done = spec.reference(replace(graph, tensors={**graph.tensors, **wide}), op, flat)
    return [array.reshape(count, *tensor.shape) for array, tensor in zip(done, results, strict=True)]


def _is_batched(graph: Graph, op: Op) -> bool:
    """Return whether an op gives the same results if all samples are stacked along the first axis of its activations."""
    tensors = [t for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None and t.data is None]
    rank, out = len(tensors[-1].shape), tensors[-1]
    if op.kind == "fully_connected":
        return rank >= 2 and tensors[0].shape[0] == out.shape[0]
    if rank < 2 or any(len(t.shape) != rank or t.shape[0] != out.shape[0] for t in tensors):
        return False
    if SPECS[op.kind].family == "binary":
        return all(t is None or t.data is None or len(t.shape) < rank or t.shape[0] == 1 for t in graph.inputs_of(op))
    return SPECS[op.kind].batched
