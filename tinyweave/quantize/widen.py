"""Give layers of an int8 graph int16 activations, TFLite's 16x8 scheme: symmetric maps, int8 weights, int64 biases.

In: a float graph, the int8 graph made of it, names of ops. Out: the int8 graph with these ops on int16. A map has int16 where
such an op makes or reads it; `quantize` ops stand between the two types. A dense layer and a depthwise convolution become
convolutions of the same sums, which have the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from ..ir import CompileError, Graph, Op, Quant, Tensor, rebuild, verify
from ..ops import SPECS, check
from ..passes.rewrite import integers
from .convert import constant_bias, finite, integer_constant
from .rules import RULES, Groups, is_number

HEADROOM = 2.0  # of the greatest magnitude that samples show: a bit of 16 against values outside of the range
WEIGHTED = ("conv_2d", "depthwise_conv_2d", "fully_connected", "transpose_conv")
BINARY = ("add", "sub")
MOVES = """concatenation depth_to_space expand_dims pack reshape resize_nearest_neighbor slice space_to_depth split
split_v squeeze strided_slice transpose unpack""".split()
KINDS = frozenset((*WEIGHTED, *BINARY, "leaky_relu", *MOVES))


def wide_quant(largest: float) -> Quant:
    """Return the int16 scale of maps of this greatest magnitude; their zero point is 0."""
    return Quant((float(np.float32(max(largest * HEADROOM, 2.0**-20) / 32767)),), (0,))


def can_widen(graph: Graph, op: Op, found: Groups) -> bool:
    """Return whether an op of a float graph has a form on int16, all of whose activations are tensors of `found`."""
    activations = [t.name for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None and t.data is None]
    given = any((op.name, index) in found.requantised for index in range(len(op.inputs)))
    return op.kind in KINDS and not given and all(name in found.of for name in activations)


def widened(real: Graph, small: Graph, found: Groups, ops: Collection[str], quants: Mapping[str, Quant]) -> Graph:
    """Return the int8 graph with some ops, named as in the float graph, on int16; `quants`: group -> its int16 scale.

    Raise CompileError where such an op would break a constraint of its kernel.
    """
    chosen = [op for op in real.ops if op.name in ops]
    made = {name for op in chosen for name in op.outputs}
    read = {t.name for op in chosen for t in real.inputs_of(op) if t is not None and is_number(t) and t.data is None}
    also_int8 = {name for op in real.ops if op.name not in ops for name in op.inputs} | set(real.outputs)
    names = {name: name if name in made and name not in also_int8 else f"{name}.int16" for name in made | read}
    tensors, done, there = dict(small.tensors), list[Op](), set(made)
    for name, wide in names.items():
        tensors[wide] = replace(small.tensors[name], name=wide, dtype="int16", quant=quants[found.group(name)])
    floats = {op.name: op for op in real.ops}
    for op in small.ops:
        if op.name not in ops:
            done.append(op)
            continue
        for given in (name for name in op.inputs if name in read - there):
            there.add(given)
            done.append(Op(f"int16_of_{given}", "quantize", (given,), (names[given],)))
        renamed = replace(
            op,
            inputs=tuple(names.get(name, name) if name else None for name in op.inputs),
            outputs=tuple(names[name] for name in op.outputs),
        )
        done += _with_constants(real, floats[op.name], renamed, tensors)
        done += [Op(f"int8_of_{name}", "quantize", (names[name],), (name,)) for name in op.outputs if name in also_int8]
    return check(verify(rebuild(small, tensors=tensors, ops=tuple(done))))


def _with_constants(real: Graph, op: Op, renamed: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return an op of the float graph on int16 constants, and the views around it; constants are put among `tensors`."""
    inputs = list(renamed.inputs)
    if op.kind in (*BINARY, *MOVES):
        for index, tensor in enumerate(real.inputs_of(op)):
            if tensor is None or tensor.data is None or not is_number(tensor):
                continue
            own = wide_quant(float(np.abs(finite(tensor)).max(initial=0)) / HEADROOM)
            quant = own if op.kind in BINARY else tensors[renamed.outputs[0]].quant
            assert quant is not None
            inputs[index] = name = f"{tensor.name}.int16_of_{op.name}"
            tensors[name] = replace(integer_constant(tensor, quant, "int16"), name=name)
        return [replace(renamed, inputs=tuple(inputs))]
    if op.kind not in WEIGHTED:
        return [renamed]
    rule, x = RULES[op.kind], tensors[inputs[SPECS[op.kind].data] or ""]
    weights, bias = tensors[inputs[1] or ""], real.input(op, rule.bias)
    assert weights.quant is not None and x.quant is not None
    if weights.dtype != "int8":
        raise CompileError("has 4-bit weights, for which int16 activations have no kernel", "give it weights of 8 bits", op=op)
    name = f"{bias.name}.int64_of_{op.name}"
    tensors[name] = constant_bias(name, finite(bias), x.quant.scale[0], np.array(weights.quant.scale), "int64")
    inputs[rule.bias] = name
    whole = replace(renamed, inputs=tuple(inputs))
    return AS_CONVOLUTION[op.kind](real, whole, tensors) if op.kind in AS_CONVOLUTION else [whole]


def _depthwise(real: Graph, op: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return a depthwise convolution as one with as many groups as the map has channels."""
    weights = tensors[op.inputs[1] or ""]
    assert weights.quant is not None and weights.data is not None
    data, name = np.ascontiguousarray(weights.data.transpose(3, 1, 2, 0)), f"{weights.name}.by_channel"
    tensors[name] = replace(weights, name=name, shape=data.shape, data=data, quant=replace(weights.quant, axis=0))
    attrs = {name: op.attrs[name] for name in ("stride", "dilation", "padding", "activation")}
    return [replace(op, kind="conv_2d", inputs=(op.inputs[0], name, op.inputs[2]), attrs=attrs)]


def _dense(real: Graph, op: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return a dense layer as a convolution of one tap, between two views."""
    x, out, weights = (tensors[name or ""] for name in (op.inputs[0], op.outputs[0], op.inputs[1]))
    assert weights.data is not None
    units, depth = weights.shape
    shaped = replace(
        weights, name=f"{weights.name}.as_taps", shape=(units, 1, 1, depth), data=weights.data.reshape(units, 1, 1, depth)
    )
    before = replace(x, name=f"{op.name}.rows", shape=(1, x.elements // depth, 1, depth), role="activation")
    after = replace(out, name=f"{op.name}.sums", shape=(1, out.elements // units, 1, units), role="activation")
    shapes = [integers(real, op, role, tensor.shape) for role, tensor in (("rows_shape", before), ("shape", out))]
    tensors |= {tensor.name: tensor for tensor in (shaped, before, after, *shapes)}
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": op.attrs["activation"]}
    return [
        Op(f"{op.name}_rows", "reshape", (x.name, shapes[0].name), (before.name,), {"new_shape": before.shape}),
        replace(op, kind="conv_2d", inputs=(before.name, shaped.name, op.inputs[2]), outputs=(after.name,), attrs=attrs),
        Op(f"{op.name}_shape", "reshape", (after.name, shapes[1].name), (out.name,), {"new_shape": out.shape}),
    ]


AS_CONVOLUTION: dict[str, Callable[[Graph, Op, dict[str, Tensor]], list[Op]]] = {
    "depthwise_conv_2d": _depthwise,
    "fully_connected": _dense,
}
