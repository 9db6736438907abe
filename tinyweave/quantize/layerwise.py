"""Improve the constants of an int8 graph layer by layer; each layer sees the outputs of the improved layers before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ..ir import Graph, Op, Tensor
from .calibrate import fake_quantised
from .convert import as_real
from .evaluate import Array, evaluate
from .scale_groups import is_float

Maps = tuple[Mapping[str, Array], Mapping[str, Array]]  # activations of the float graph; dequantised ones of the int8 graph


def layer_by_layer(
    real: Graph,
    small: Graph,
    inputs: Mapping[str, Array],
    improve: Callable[[Op, Op, Maps, Mapping[str, Array]], Tensor | None],
    done: Callable[[int], None] = lambda count: None,
) -> Graph:
    """Return the int8 graph with one constant of each layer replaced, in execution order.

    `inputs` are real numbers of a few samples, [samples, *shape]; all maps are kept in memory. `improve` gets the float op, its
    int8 op, the activations of both graphs as real numbers, and the int8 op's real constants; it returns the new constant, or
    None.
    """
    expected = evaluate(real, inputs, keep=True)
    computed = {name: _as_kept(small, name, values) for name, values in inputs.items()}
    for number, (op, int8_op) in enumerate(zip(real.ops, int8_ops(real, small), strict=True)):
        constants = real_constants(real, small, op, int8_op)
        if (new := improve(op, int8_op, (expected, computed), constants)) is not None:
            small = replace(small, tensors={**small.tensors, new.name: new})
            constants = real_constants(real, small, op, int8_op)
        found = evaluate(real, computed, ops={op.name}, keep=True, constants=constants)
        computed |= {name: _as_kept(small, name, found[name]) for name in op.outputs}
        done(number + 1)
    return small


def _as_kept(small: Graph, name: str, values: Array) -> Array:
    return fake_quantised(values, small.tensors[name].quant, small.tensors[name].dtype)


def int8_ops(real: Graph, small: Graph) -> Iterator[Op]:
    """Yield, for each op of the float graph, the op of the same name in the int8 graph."""
    by_name = {op.name: op for op in small.ops}
    return (by_name[op.name] for op in real.ops)


def real_constants(real: Graph, small: Graph, op: Op, int8_op: Op) -> dict[str, Array]:
    """Return the dequantised constants of an int8 op, with the names and shapes that they have in the float graph."""
    pairs = zip(real.inputs_of(op), small.inputs_of(int8_op), strict=False)
    return {
        exact.name: in_float_layout(as_real(now, now.data), exact.shape, op)
        for exact, now in pairs
        if exact is not None and is_float(exact) and now is not None and now.data is not None and now.quant is not None
    }


def in_float_layout(weights: Array, shape: tuple[int, ...], op: Op) -> Array:
    """Return int8 weights in the float op's layout; `int16_activations` may have made a convolution of another op."""
    turned = weights.transpose(3, 1, 2, 0) if op.kind == "depthwise_conv_2d" and weights.shape != shape else weights
    return turned.reshape(shape)
