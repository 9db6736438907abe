"""Drop ops at the inputs and outputs of a network if the caller can do their work, or does not need it.

`strip_floats` drops conversions from and to float32, which write_input and read_output of the emitted C compute; `add_floats`
of ops adds them again. `strip_edges` also drops those of uint8, so that the network takes and returns int8: scales and zero
points stay on the tensors. `strip_transposes` drops transposes between channels first, as PyTorch has them, and channels last,
as cameras deliver them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..ir import Graph, Op, rebuild
from ..ops import spec_of
from ..ops.data_movement import permutation
from ..ops.quantization import INTEGERS
from .tensor_map import TensorMap

OUTSIDE = ("float32", "uint8")  # types that inputs and outputs of an int8 network may have in the file
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def strip_floats(graph: Graph) -> tuple[Graph, TensorMap]:
    """Drop quantize ops from float32 at the network's inputs, and dequantize ops at its outputs."""
    return _stripped(graph, _quantises, lambda graph, op: op.kind == "dequantize"), {}


def strip_edges(graph: Graph) -> tuple[Graph, TensorMap]:
    """Drop quantize ops at the network's inputs, and dequantize and quantize ops at its outputs, so that both are int8."""
    return _stripped(graph, _opens, _closes), {}


def strip_transposes(graph: Graph) -> tuple[Graph, TensorMap]:
    """Drop transposes that convert inputs of the network to channels last, or outputs to channels first."""
    return _stripped(graph, partial(_turns, order=TO_LAST), partial(_turns, order=TO_FIRST)), {}


def _quantises(graph: Graph, op: Op) -> bool:
    return op.kind == "quantize" and graph.input(op).dtype == "float32" and graph.output(op).dtype in INTEGERS


def _opens(graph: Graph, op: Op) -> bool:
    return op.kind == "quantize" and graph.input(op).dtype in OUTSIDE and graph.output(op).dtype == "int8"


def _closes(graph: Graph, op: Op) -> bool:
    return spec_of(op).family == "conversion" and graph.input(op).dtype == "int8" and graph.output(op).dtype in OUTSIDE


def _turns(graph: Graph, op: Op, order: tuple[int, ...]) -> bool:
    return op.kind == "transpose" and len(graph.input(op).shape) == 4 and permutation(graph, op) == order


def _stripped(graph: Graph, opens: Callable[[Graph, Op], bool], closes: Callable[[Graph, Op], bool]) -> Graph:
    """Drop ops at inputs for which `opens(graph, op)` holds, and at outputs for which `closes` does, if no other op reads."""
    inputs, outputs, dropped = list(graph.inputs), list(graph.outputs), set[int]()
    for position, name in enumerate(graph.inputs):
        readers = graph.consumers.get(name, ())
        op = graph.ops[readers[0]] if len(readers) == 1 and name not in graph.outputs else None
        if op is not None and opens(graph, op) and op.outputs[0] not in graph.outputs:
            dropped.add(readers[0])
            inputs[position] = op.outputs[0]
    for position, name in enumerate(graph.outputs):
        op = graph.ops[graph.producer[name]] if name in graph.producer and name not in graph.consumers else None
        if op is None or not closes(graph, op) or graph.outputs.count(name) > 1:
            continue
        source = graph.input(op).name
        if source in graph.producer and source not in (*inputs, *graph.outputs):
            dropped.add(graph.producer[name])
            outputs[position] = source
    ops = tuple(op for index, op in enumerate(graph.ops) if index not in dropped)
    return rebuild(graph, ops=ops, inputs=tuple(inputs), outputs=tuple(outputs))
