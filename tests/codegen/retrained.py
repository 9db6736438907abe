"""A network as if it was trained again: other weights and quantisation, but the same ops, names and shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyweave.codegen.weights_file import without_comments
from tinyweave.ir import CompileError, Graph, Quant, Tensor
from tinyweave.ops import SPECS, data
from tinyweave.planning import Plan, from_json, to_json


def retrained(graph: Graph, seed: int) -> Graph:
    """Return the network with permuted constants, and other scales and zero points where no rule of an op forbids it."""
    rng, tensors = np.random.default_rng(seed), dict(graph.tensors)
    kept = {name for op in graph.init for name in (*op.inputs, *op.outputs)}
    for op in graph.ops:
        ends = [*graph.inputs_of(op)[:1], graph.output(op)]
        if op.kind == "quantize" and ends[0].quant and ends[0].scale == ends[1].scale:
            kept |= {t.name for t in ends}  # between int8 and uint8
    for name, tensor in graph.tensors.items():
        if name in kept or not any(name in op.inputs or name in op.outputs for op in graph.ops):
            continue
        changed = _changed(tensor, rng)
        if changed is not None and _is_allowed(replace(graph, tensors=tensors | {name: changed})):
            tensors[name] = changed
    return _with_scales_of_biases(replace(graph, tensors=tensors))


def _with_scales_of_biases(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for op in graph.ops:
        weights = SPECS[op.kind].weights
        bias = graph.optional_input(op, weights.bias) if weights and weights.bias is not None else None
        if bias is not None and bias.quant is not None and (filters := graph.input(op, 1)).quant is not None:
            scales = [float(np.float32(data(graph, op).scale * scale)) for scale in filters.quant.scale]
            tensors[bias.name] = replace(bias, quant=replace(bias.quant, scale=tuple(scales), zero_point=(0,) * len(scales)))
    return replace(graph, tensors=tensors)


def _changed(tensor: Tensor, rng: np.random.Generator) -> Tensor | None:
    if tensor.quant is None and tensor.data is not None and tensor.dtype == "int32" and "bias" in tensor.name:
        return replace(tensor, data=rng.permutation(tensor.data))
    if tensor.quant is None or tensor.role == "state":
        return None
    scales = tuple(float(np.float32(scale * rng.uniform(0.8, 1.25))) for scale in tensor.quant.scale)
    if tensor.data is not None:
        data = rng.permutation(tensor.data.reshape(-1)).reshape(tensor.shape)
        return replace(tensor, data=data, quant=replace(tensor.quant, scale=scales))
    zero_point = int(rng.integers(-128, 128)) if tensor.dtype == "int8" else tensor.zero_point
    return replace(tensor, quant=Quant(scales, (zero_point,), tensor.quant.axis))


def _is_allowed(graph: Graph) -> bool:
    try:
        return all(constraint(graph, op) for op in graph.ops for constraint in SPECS[op.kind].constraints)
    except CompileError:
        return False


def plan_again(plan: Plan, graph: Graph) -> Plan | None:
    """Return a plan for the same network, trained again; None if a kernel of the plan cannot run it."""
    try:
        return from_json(to_json(plan), graph, retrained=True)
    except CompileError:
        return None


def same_code(one: dict[str, str], other: dict[str, str]) -> bool:
    """Return whether the C of two networks is equal, but for comments."""
    names = [name for name in one if name.endswith((".c", ".h"))]
    return all(without_comments(one[name]) == without_comments(other.get(name, "")) for name in names)
