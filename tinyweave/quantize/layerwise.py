"""Improve the constants of an int8 graph layer by layer; each layer sees the outputs of the improved layers before it.

Bias correction is one such improvement. Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
Correction (2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir import Graph, Op, Tensor
from ..ops import SPECS
from ..ops.fixed_point import round_half_away
from ..passes.rewrite import exchange
from .calibrate import fake_quantised
from .convert import as_real
from .evaluate import Array, evaluate
from .scale_groups import is_float

Maps = tuple[Mapping[str, Array], Mapping[str, Array]]  # activations of the float graph; dequantised ones of the int8 graph


def bias_corrected(real: Graph, small: Graph, inputs: Mapping[str, Array]) -> Graph:
    """Return the int8 graph with biases that give each channel the mean of the float graph before the activation."""

    def correct(op: Op, int8_op: Op, maps: Maps, constants: Mapping[str, Array]) -> Tensor | None:
        layer = SPECS[op.kind].weights
        if layer is None or len(small.consumers[int8_op.inputs[layer.bias] or ""]) > 1:
            return None
        whole = exchange(real, [replace(op, attrs={**op.attrs, "activation": "none"})])
        before = evaluate(whole, maps[0], ops={op.name}, keep=True)[op.outputs[0]].astype(np.float64)
        after = evaluate(whole, maps[1], ops={op.name}, keep=True, constants=constants)[op.outputs[0]]
        shift = (before - after).mean(axis=tuple(range(before.ndim - 1)))
        bias = small.input(int8_op, layer.bias)
        assert bias.data is not None and bias.quant is not None
        most = (1 << 31) - 1 if bias.dtype == "int32" else (1 << 46) - 2
        steps = round_half_away(shift / np.array(bias.quant.scale))
        data = np.clip(bias.data.astype(np.int64) + steps.astype(np.int64), -most - 1, most).astype(bias.data.dtype)
        return replace(bias, data=data)

    return layer_by_layer(real, small, inputs, correct)


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
