"""Write only the final state of a recurrent layer if no op reads the states before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Graph, Op
from ..ops import spec_of
from ..ops.data_movement import PIECES, copied
from .rewrite import exchange, of_each_op


@of_each_op
def last_step(graph: Graph, op: Op) -> Graph:
    """Set the attribute `last` of int8 recurrent layers if only the final state is read, by a slice, and drop that slice."""
    # float32 layers keep all states, which calibration must see
    if spec_of(op).family != "sequence" or op.attrs["last"] or graph.output(op).dtype != "int8":
        return graph
    out, readers = graph.output(op), graph.consumers.get(op.outputs[0], ())
    if out.name in graph.outputs or len(readers) != 1:
        return graph
    reader = graph.ops[readers[0]]
    if reader.kind not in PIECES or len(reader.outputs) > 1:
        return graph
    _, time, cells = out.shape
    step = 0 if op.attrs["reverse"] else time - 1
    (seen,) = copied(graph, reader, np.arange(out.elements).reshape(1, *out.shape))
    if graph.output(reader).shape != (1, 1, cells) or not np.array_equal(seen.ravel(), np.arange(cells) + step * cells):
        return graph
    shorter = replace(op, outputs=(*reader.outputs, *op.outputs[1:]), attrs={**op.attrs, "last": 1.0})
    return exchange(graph, [shorter], gone=reader.name)
