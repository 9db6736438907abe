"""Give ops of an int8 graph int16 activations: TFLite's 16x8 scheme with symmetric scales, int8 weights and int64 biases.

Every activation that such an op reads or writes becomes int16; `quantize` ops convert between int8 and int16. Dense layers and
depthwise convolutions become ordinary convolutions with the same sums, because only ordinary convolutions have an int16 kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from ..ir import CompileError, Graph, Op, Quant, Tensor, rebuild, verify
from ..ops import SPECS, check
from ..passes.rewrite import integers
from .convert import finite_data, quantised_bias, quantised_constant
from .scale_groups import ScaleGroups, float_inputs, is_float

HEADROOM = 2.0  # range of an int16 map divided by the largest magnitude in the samples: one bit against saturation


def int16_quant(largest: float) -> Quant:
    """Return the symmetric int16 scale (zero point 0) for a range of HEADROOM times the largest magnitude `largest`."""
    return Quant((float(np.float32(max(largest * HEADROOM, 2.0**-20) / 32767)),), (0,))


def takes_int16(graph: Graph, op: Op, groups: ScaleGroups) -> bool:
    """Return whether an op can have int16 activations: it has an int16 kernel, and reads no requantised copy."""
    activations = [t.name for t in (*graph.inputs_of(op), *graph.outputs_of(op)) if t is not None and t.data is None]
    is_copied = any((op.name, index) in groups.requantised for index in range(len(op.inputs)))
    return SPECS[op.kind].int16 and not is_copied and all(name in groups.parent for name in activations)


def with_int16(real: Graph, small: Graph, groups: ScaleGroups, ops: Collection[str], quants: Mapping[str, Quant]) -> Graph:
    """Return the int8 graph with int16 activations in the ops named `ops`; `quants` maps scale group -> int16 scale."""
    chosen = [op for op in real.ops if op.name in ops]
    made = {name for op in chosen for name in op.outputs}
    read = {name for op in chosen for _, name in float_inputs(real, op)}
    also_int8 = {name for op in real.ops if op.name not in ops for name in op.inputs} | set(real.outputs)
    names = {name: name if name in made and name not in also_int8 else f"{name}.int16" for name in made | read}
    tensors, done, available = dict(small.tensors), list[Op](), set(made)
    for name, wide in names.items():
        tensors[wide] = replace(small.tensors[name], name=wide, dtype="int16", quant=quants[groups.group(name)])
    floats = {op.name: op for op in real.ops}
    for op in small.ops:
        if op.name not in ops:
            done.append(op)
            continue
        for source in (name for name in op.inputs if name in read - available):
            available.add(source)
            done.append(Op(f"int16_of_{source}", "quantize", (source,), (names[source],)))
        renamed = replace(
            op,
            inputs=tuple(names.get(name, name) if name else None for name in op.inputs),
            outputs=tuple(names[name] for name in op.outputs),
        )
        done += _with_int16_constants(real, floats[op.name], renamed, tensors)
        done += [Op(f"int8_of_{name}", "quantize", (names[name],), (name,)) for name in op.outputs if name in also_int8]
    return check(verify(rebuild(small, tensors=tensors, ops=tuple(done))))


def _with_int16_constants(real: Graph, op: Op, renamed: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return the ops that compute `op` on the int16 operands of `renamed`; their new constants are added to `tensors`."""
    inputs = list(renamed.inputs)
    spec = SPECS[op.kind]
    if spec.family == "binary" or spec.moves:
        for index, tensor in enumerate(real.inputs_of(op)):
            if tensor is None or tensor.data is None or not is_float(tensor):
                continue
            own = int16_quant(float(np.abs(finite_data(tensor)).max(initial=0)) / HEADROOM)
            quant = own if spec.family == "binary" else tensors[renamed.outputs[0]].quant
            assert quant is not None
            inputs[index] = name = f"{tensor.name}.int16_of_{op.name}"
            tensors[name] = replace(quantised_constant(tensor, quant, "int16"), name=name)
        return [replace(renamed, inputs=tuple(inputs))]
    if spec.weights is None:
        return [renamed]
    x = tensors[inputs[spec.data] or ""]
    weights, bias = tensors[inputs[1] or ""], real.input(op, spec.weights.bias)
    assert weights.quant is not None and x.quant is not None
    if weights.dtype != "int8":
        raise CompileError("has 4-bit weights, for which int16 activations have no kernel", "give it weights of 8 bits", op=op)
    name = f"{bias.name}.int64_of_{op.name}"
    tensors[name] = quantised_bias(name, finite_data(bias), x.quant.scale[0], np.array(weights.quant.scale), "int64")
    inputs[spec.weights.bias] = name
    whole = replace(renamed, inputs=tuple(inputs))
    return AS_CONVOLUTION[op.kind](real, whole, tensors) if op.kind in AS_CONVOLUTION else [whole]


def _depthwise(real: Graph, op: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return a depthwise convolution as a conv_2d with one group per channel; its weights are added to `tensors`."""
    weights = tensors[op.inputs[1] or ""]
    assert weights.quant is not None and weights.data is not None
    data, name = np.ascontiguousarray(weights.data.transpose(3, 1, 2, 0)), f"{weights.name}.by_channel"
    tensors[name] = replace(weights, name=name, shape=data.shape, data=data, quant=replace(weights.quant, axis=0))
    attrs = {name: op.attrs[name] for name in ("stride", "dilation", "padding", "activation")}
    return [replace(op, kind="conv_2d", inputs=(op.inputs[0], name, op.inputs[2]), attrs=attrs)]


def _dense(real: Graph, op: Op, tensors: dict[str, Tensor]) -> list[Op]:
    """Return a dense layer as a 1x1 convolution between two reshapes; their tensors are added to `tensors`."""
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
