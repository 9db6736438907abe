"""Quantisation-aware training: run a float graph as a PyTorch module that computes what its int8 form will compute.

Gradients pass roundings unchanged (straight-through estimator). The scales of activations and of int4 weights are learned
(Esser et al., Learned Step Size Quantization, 2020); zero points are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..ir import CompileError, Graph, Op, Quant, limits
from ..ir import Tensor as Value
from ..ops import SPECS, reduce, spec_for
from ..ops.spec import ACTIVATIONS, LEAST_SCALE
from .calibrate import Calibration
from .convert import WeightFormat, affine, dequantised, quantised, to_int8, weight_scales
from .evaluate import Array
from .scale_groups import is_float

Inputs = list[Tensor]  # operands of an op that are present: activations [samples, *shape] and constants [*shape]


class FakeQuantModule(nn.Module):
    """A PyTorch module of a float graph with fake-quantised weights and activations; samples are along the first axis."""

    def __init__(
        self, graph: Graph, calibration: Calibration, weights: Mapping[str, WeightFormat], turned: tuple[bool, ...] = ()
    ) -> None:
        """Create the module, with `weights` formats if not int8; inputs that are `turned` have channels first."""
        super().__init__()
        _check_trainable(graph)
        self.graph, self.calibration, self.forms, self.turned = graph, calibration, dict(weights), turned
        # `scales` of activations and `steps`, the scales of int4 weights, are logarithms: a step changes all by similar factors
        self.values, self.scales, self.steps = nn.ParameterDict(), nn.ParameterDict(), nn.ParameterDict()
        self.sources: dict[str, list[Tensor]] = {}  # op that moves values -> its `_source_indices`, computed once
        self.steps_of: dict[str, Tensor] = {}  # op -> scales of its weights in the last forward pass
        groups, keys = calibration.groups, {name: str(index) for index, name in enumerate(calibration.quants)}
        self.keys = {name: keys[groups.group(name)] for name in groups.parent}
        self.quants = {keys[name]: quant for name, quant in calibration.quants.items()}
        for name, key in keys.items():
            if name not in groups.fixed:
                self.scales[key] = torch.tensor(calibration.quants[name].scale[0]).log()
        for index, op in enumerate(graph.ops):
            spec = SPECS[op.kind]
            if spec.weights is None:
                continue
            kernel, bias = graph.input(op, 1), graph.input(op, spec.weights.bias)
            assert kernel.data is not None and bias.data is not None
            self.values[f"{index}_weights"] = torch.from_numpy(kernel.data.copy())
            self.values[f"{index}_bias"] = torch.from_numpy(bias.data.copy())
            if op.name in self.forms:
                x = calibration.of(op.inputs[spec.data] or "")
                assert x is not None
                chosen = weight_scales(kernel.data, spec.weights.axis, bias.data, x.scale[0], self.forms[op.name])
                self.steps[str(index)] = torch.from_numpy(chosen.astype(np.float32)).log()

    def forward(self, *inputs: Tensor) -> Any:
        """Return the network's output, or a tuple of its outputs, with samples along the first axis."""
        held: dict[str, Tensor] = {}
        for number, (name, x) in enumerate(zip(self.graph.inputs, inputs, strict=True)):
            moved = x.permute(0, 2, 3, 1) if number < len(self.turned) and self.turned[number] else x
            held[name] = self.fake_quantised(name, moved.reshape(-1, *self.graph.tensors[name].shape))
        for index, op in enumerate(self.graph.ops):
            held |= self.layer(index, op, held)
        found = tuple(held[name].flatten(0, 1) for name in self.graph.outputs)
        return found[0] if len(found) == 1 else found

    def layer(self, index: int, op: Op, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the fake-quantised outputs of the op number `index` by name; `held` has the activations that it reads."""
        spec, arrays = SPECS[op.kind], Inputs()
        for place, (name, tensor) in enumerate(zip(op.inputs, self.graph.inputs_of(op), strict=True)):
            if name is None or tensor is None or (spec.weights is not None and place in (1, spec.weights.bias)):
                continue
            copy = self.calibration.groups.requantised.get((op.name, place))
            value = held[name] if tensor.data is None else self._constant(op, tensor.data)
            arrays.append(value if copy is None else self.fake_quantised(copy, value))
        if spec.moves:
            return dict(zip(op.outputs, self._moved(op, arrays), strict=True))
        if spec.weights is not None:
            arrays += self._weights(index, op)
        if op.kind == "average_pool_2d":
            return {op.outputs[0]: self._average(op, arrays[0])}
        real = KINDS[op.kind](self.graph, op, arrays)
        value = self.fake_quantised(op.outputs[0], real, self._bits(op, self.scale(op.outputs[0]).detach()))
        if spec.family == "unary":
            value = value + (self._by_table(op, arrays[0].detach()) - value).detach()
        return {op.outputs[0]: value}

    def fake_quantised(self, name: str, values: Tensor, bits: Tensor | None = None) -> Tensor:
        """Return `values` rounded and clipped to the scale of the activation `name`, if any; `bits` as for `fake_quantise`."""
        if name not in self.keys:
            return values
        zero, (least, most) = self.quants[self.keys[name]].zero_point[0], limits("int8")
        return fake_quantise(values, self.scale(name, values[0].numel()), (least - zero, most - zero), bits)

    def scale(self, name: str, count: int = 1) -> Tensor:
        """Return the scale of an activation; its gradient is divided by sqrt(127 * `count`), the elements per sample."""
        key = self.keys[name]
        if key not in self.scales:
            return torch.tensor(self.quants[key].scale[0])
        return _slowed(self.scales[key].exp().clamp_min(LEAST_SCALE), count * 127)

    def _weights(self, index: int, op: Op) -> Inputs:
        """Return the fake-quantised weights and bias of the op number `index`, and record the scales of the weights."""
        spec = SPECS[op.kind]
        assert spec.weights is not None
        axis, kernel, bias = spec.weights.axis, self.values[f"{index}_weights"], self.values[f"{index}_bias"]
        x = self.scale(op.inputs[spec.data] or "").detach()
        if op.name in self.forms:
            steps = _slowed(self.steps[str(index)].exp().clamp_min(LEAST_SCALE), kernel[0].numel() * 7)
            ends = limits(self.forms[op.name].dtype)
        else:
            chosen = weight_scales(_array(kernel), axis, _array(bias), float(x))
            steps, ends = torch.from_numpy(chosen.astype(np.float32)), (-127, 127)
        self.steps_of[op.name] = steps.detach()
        shape = [-1 if a == axis else 1 for a in range(kernel.ndim)]
        return [fake_quantise(kernel, steps.reshape(shape), ends), fake_quantise(bias, steps.detach() * x, (-(2**31), 2**31))]

    def _constant(self, op: Op, data: Array) -> Tensor:
        """Return a constant operand fake-quantised, by the output's scale if shared, else its own range; integers unchanged."""
        if data.dtype != np.float32:
            return torch.from_numpy(data.copy())
        if SPECS[op.kind].shares_scale:
            return self.fake_quantised(op.outputs[0], torch.from_numpy(data))
        quant = affine(data.min(initial=0), data.max(initial=0))
        return torch.from_numpy(dequantised(quantised(data, quant), quant))

    def _moved(self, op: Op, arrays: Inputs) -> list[Tensor]:
        """Return the outputs of an op that only moves values; precomputed indices let gradients pass."""
        if SPECS[op.kind].family == "view":
            return [arrays[0].reshape(-1, *self.graph.output(op).shape)]
        operands = [(t, a) for t, a in zip(filter(None, self.graph.inputs_of(op)), arrays, strict=True) if is_float(t)]
        count = next(len(array) for tensor, array in operands if tensor.data is None)
        if op.name not in self.sources:
            with torch.inference_mode(False):  # a later training needs them
                self.sources[op.name] = _source_indices(self.graph, op)
        wide = [a.expand(count, *a.shape) if t.data is not None else a for t, a in operands]
        flat = torch.cat([wide[0].new_zeros(count, 1), *(array.flatten(1) for array in wide)], dim=1)
        return [flat[:, indices.flatten()].reshape(count, *indices.shape) for indices in self.sources[op.name]]

    def _average(self, op: Op, x: Tensor) -> Tensor:
        """Return an average pool of x, rounded to the scale of its input, half away from 0, as the int8 kernel does."""
        scale = self.scale(op.inputs[0] or "").detach()
        zero = self.quants[self.keys[op.inputs[0] or ""]].zero_point[0]
        top, left = (sides[0] for sides in op.attrs["padding"])
        if op.attrs["padding"] != ((top, top), (left, left)):
            raise CompileError("pads its sides differently, which torch does not support", "add a pad op before it", op=op)
        window = {"kernel_size": op.attrs["kernel"], "stride": op.attrs["stride"], "padding": (top, left)}
        means = _activated(functional.avg_pool2d(_channels_first(x), **window, count_include_pad=False), op)
        with torch.no_grad():
            levels = torch.round(_channels_first(x) / scale) + zero
            whole = functional.avg_pool2d(levels, **window, count_include_pad=False)
            exact = _activated((_half_away(whole) - zero) * scale, op)
        return _channels_last(means + (exact - means).detach(), x)

    def _bits(self, op: Op, out: Tensor) -> Tensor | None:
        """Return the fractional bits, a scalar or one per channel, that the first of two roundings keeps; None for one."""
        if not SPECS[op.kind].rounds_twice:
            return None
        factor, more = self.scale(op.inputs[0] or "").detach() / out, 0
        if op.kind == "mean":
            more = reduce.count(self.graph, op).bit_length() - 1
        elif op.kind != "mul":
            factor = factor * self.steps_of[op.name]
        elif (data := self.graph.input(op, 1).data) is None:
            factor = factor * self.scale(op.inputs[1] or "").detach()
        else:
            factor = factor * torch.tensor(affine(data.min(initial=0), data.max(initial=0)).scale[0])
        bits: Tensor = (more - torch.frexp(factor).exponent).clamp_min(0)
        return bits

    def _by_table(self, op: Op, x: Tensor) -> Tensor:
        """Return the outputs of a unary op for inputs x as its int8 kernel computes them, by a table of 256 entries."""
        names = op.inputs[0] or "", op.outputs[0]
        quants = [Quant((float(self.scale(name).detach()),), self.quants[self.keys[name]].zero_point) for name in names]
        tensors = {n: Value(n, (1, 256), "int8", q) for n, q in zip(names, quants, strict=True)}
        single = Graph(op.name, tensors, (op,), names[:1], names[1:])
        (table,) = SPECS[op.kind].reference(single, op, [np.arange(-128, 128).astype(np.int8)[None]])
        places = torch.round(x / quants[0].scale[0]).long() + (quants[0].zero_point[0] + 128)
        return torch.from_numpy(dequantised(table[0], quants[1]))[places]


def fake_quantise(values: Tensor, scale: Tensor, ends: tuple[float, float], bits: Tensor | None = None) -> Tensor:
    """Return real values rounded to multiples of `scale` and clipped; gradients reach the values in the range, and the scale.

    `scale` broadcasts to the values; `ends` are the least and the greatest multiple. If the kernel rounds twice, `bits` are the
    fractional bits that its first rounding keeps, a scalar or one per channel.
    """
    steps = torch.clamp(values / scale, *ends)
    with torch.no_grad():
        whole = torch.round(steps) if bits is None else _half_away(torch.round(torch.ldexp(steps, bits)) * torch.exp2(-bits))
    return (steps + (whole - steps).detach()) * scale


def _half_away(values: Tensor) -> Tensor:
    return torch.sign(values) * torch.floor(values.abs() + 0.5)


def _slowed(scale: Tensor, count: int) -> Tensor:
    """Return the scale with its gradient divided by sqrt(count), as learned step size quantisation does."""
    part = float(count) ** -0.5
    return torch.add(scale * part, (scale * (1 - part)).detach())


def converted(module: FakeQuantModule) -> Graph:
    """Return the int8 graph of a trained module, with the trained weights and the learned scales."""
    graph, learned = module.graph, module.calibration
    tensors, forms = dict(graph.tensors), dict[str, WeightFormat]()
    for index, op in enumerate(graph.ops):
        layer = SPECS[op.kind].weights
        if layer is None:
            continue
        for place, role in ((1, "weights"), (layer.bias, "bias")):
            tensor = graph.input(op, place)
            tensors[tensor.name] = replace(tensor, data=_array(module.values[f"{index}_{role}"]).copy())
        if op.name in module.forms:
            steps = _array(module.steps[str(index)].exp()).astype(np.float64)
            forms[op.name] = WeightFormat(module.forms[op.name].dtype, steps)
    quants = {name: replace(quant, scale=(float(module.scale(name).detach()),)) for name, quant in learned.quants.items()}
    return to_int8(replace(graph, tensors=tensors), learned.groups, quants, weights=forms)


def _array(parameter: Tensor) -> Array:
    return np.asarray(parameter.detach().numpy())


def _check_trainable(graph: Graph) -> None:
    """Raise one CompileError for all op kinds that have no PyTorch form, or for the first op that shares its weights."""
    kinds = {op.kind for op in graph.ops if not SPECS[op.kind].moves}
    lacking = sorted(kinds - KINDS.keys() - {"average_pool_2d"})
    if lacking:
        hint = "use post-training quantisation, or remove these ops"
        raise CompileError(f"ops cannot be trained: {', '.join(lacking)}", hint)
    for op in graph.ops:
        layer = SPECS[op.kind].weights
        if layer is not None and any(len(graph.consumers[op.inputs[place] or ""]) > 1 for place in (1, layer.bias)):
            raise CompileError("shares its weights with another op", "give each layer weights of its own", op=op)


def _source_indices(graph: Graph, op: Op) -> list[Tensor]:
    """Return, for each output of a move, the index, from 1 over all float inputs, that each element copies; 0 is padding."""
    arrays: list[Any] = [None if tensor is None else tensor.data for tensor in graph.inputs_of(op)]
    start = 1
    for index, tensor in enumerate(graph.inputs_of(op)):
        if tensor is not None and is_float(tensor):
            arrays[index] = np.arange(start, start + tensor.elements, dtype=np.float32).reshape(tensor.shape)
            start += tensor.elements
    if start > 1 << 24:
        raise CompileError("moves too many values for training", "at most 16 million are supported", op=op)
    return [torch.from_numpy(array.astype(np.int64)) for array in spec_for(graph, op).reference(graph, op, arrays)]


def _channels_first(x: Tensor) -> Tensor:
    """View maps [samples, 1, h, w, c] as [samples, c, h, w]."""
    return x.flatten(0, 1).permute(0, 3, 1, 2)


def _channels_last(y: Tensor, x: Tensor) -> Tensor:
    """View maps y, [samples, c, h, w], as [samples, 1, h, w, c]; the number of samples is that of `x`."""
    return y.permute(0, 2, 3, 1).reshape(len(x), -1, *y.shape[2:], y.shape[1])


def _activated(y: Tensor, op: Op) -> Tensor:
    activation = op.attrs.get("activation", "none")
    return y if activation == "none" else y.clamp(*ACTIVATIONS[activation])


def _convolved(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    x, kernel, bias = arrays
    (top, bottom), (left, right) = op.attrs["padding"]
    is_depthwise = op.kind == "depthwise_conv_2d"
    padded = functional.pad(_channels_first(x), (left, right, top, bottom))
    filters, depth = (kernel.permute(3, 0, 1, 2), 1) if is_depthwise else (kernel.permute(0, 3, 1, 2), kernel.shape[3])
    where = {"stride": op.attrs["stride"], "dilation": op.attrs["dilation"], "groups": x.shape[-1] // depth}
    return _activated(_channels_last(functional.conv2d(padded, filters, bias, **where), x), op)


def _dense(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    x, kernel, bias = arrays
    y = functional.linear(x.reshape(len(x), -1, kernel.shape[1]), kernel, bias)
    return _activated(y.reshape(len(x), *graph.output(op).shape), op)


def _max_pool(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    (top, bottom), (left, right) = op.attrs["padding"]
    padded = functional.pad(_channels_first(arrays[0]), (left, right, top, bottom), value=-torch.inf)
    pooled = functional.max_pool2d(padded, op.attrs["kernel"], op.attrs["stride"])
    return _activated(_channels_last(pooled, arrays[0]), op)


def _mean(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    x = arrays[0]
    return x.mean(dim=[axis + 1 for axis in reduce.axes(graph, op)]).reshape(len(x), *graph.output(op).shape)


def _binary(join: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Graph, Op, Inputs], Tensor]:
    def run(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
        rank, wide = len(graph.output(op).shape), Inputs()
        for tensor, array in zip(graph.inputs_of(op), arrays, strict=True):
            assert tensor is not None
            ones = [1] * (rank - len(tensor.shape))
            lead = () if tensor.data is not None else (len(array),)
            wide.append(array.reshape(*lead, *ones, *tensor.shape))
        return _activated(join(*wide), op)

    return run


def _unary(change: Callable[[Tensor], Tensor]) -> Callable[[Graph, Op, Inputs], Tensor]:
    return lambda graph, op, arrays: change(arrays[0])


KINDS: dict[str, Callable[[Graph, Op, Inputs], Tensor]] = {
    "add": _binary(torch.add),
    "conv_2d": _convolved,
    "depthwise_conv_2d": _convolved,
    "elu": _unary(functional.elu),
    "fully_connected": _dense,
    "gelu": lambda graph, op, arrays: functional.gelu(arrays[0], approximate="tanh" if op.attrs["approximate"] else "none"),
    "hard_swish": _unary(functional.hardswish),
    "leaky_relu": lambda graph, op, arrays: functional.leaky_relu(arrays[0], op.attrs["alpha"]),
    "logistic": _unary(torch.sigmoid),
    "max_pool_2d": _max_pool,
    "mean": _mean,
    "mul": _binary(torch.mul),
    "relu": _unary(torch.relu),
    "relu6": _unary(functional.relu6),
    "relu_n1_to_1": _unary(functional.hardtanh),
    "softmax": lambda graph, op, arrays: torch.softmax(arrays[0] * op.attrs["beta"], -1),
    "sub": _binary(torch.sub),
    "tanh": _unary(torch.tanh),
}
