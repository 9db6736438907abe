"""Ops with scales and attributes of any size run or are refused, without NumPy warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from cases.ops import GENERATORS, cases

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.simulate import compare

SCALES = (1e-45, 1e-38, 2.0**-40, 2.0**40, 3e38)
ATTRIBUTES = (1e-45, 3e38, -3e38, 0.0, -1.0)


def extreme_graphs(graph: Graph) -> Iterator[Graph]:
    """Yield the graph with extreme scales of each tensor, and with extreme values of each real attribute."""
    for name, tensor in graph.tensors.items():
        for value in SCALES if tensor.quant is not None else ():
            quant = replace(tensor.quant, scale=(float(np.float32(value)),) * len(tensor.quant.scale))
            yield replace(graph, tensors=graph.tensors | {name: replace(tensor, quant=quant)})
    for place, op in enumerate(graph.ops):
        for key, value in ((key, value) for key, said in op.attrs.items() if isinstance(said, float) for value in ATTRIBUTES):
            changed = replace(op, attrs={**op.attrs, key: float(np.float32(value))})
            yield replace(graph, ops=(*graph.ops[:place], changed, *graph.ops[place + 1 :]))


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_ops_with_extreme_numbers_run_or_are_refused_without_a_warning(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for graph in extreme_graphs(next(cases(kind)).graph):
            try:
                made = ops.check(from_tflite(to_tflite(graph), "odd"))
            except CompileError:
                continue
            for sample in compare.samples(made, 3, 0):
                ops.run(made, dict(zip(made.inputs, sample, strict=True)), state=ops.initial_state(made))
