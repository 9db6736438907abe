"""Quantisation-aware training: a float graph as a PyTorch module that computes what its int8 form will, to be trained.

In: a prepared float graph and the scales that calibration chose. Out: a module; of a trained one the int8 graph, by the
conversion that post-training quantisation uses. The module interprets the graph itself: norms are folded and activations are
part of their layers from the first step, as deployed. Gradients pass roundings as if there were none; scales of activations and
of 4-bit weights are learned (Esser et al., Learned Step Size Quantization, 2020), zero points stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..ir import CompileError, Graph, Op, Quant, limits
from ..ir import Tensor as Value
from ..ops import SPECS, reduce, spec_for
from ..ops.float32 import LIMITS
from ..progress import Progress, silent
from .calibrate import Calibration
from .convert import WeightForm, affine, dequantised, quantised, to_int8, weight_scales
from .evaluate import VIEWS
from .rules import LEAST_SCALE, RULES, is_number
from .samples import check_labels

BATCH = 32
MOST_NORM = 5.0  # of the gradient of a step
MOVING = frozenset(
    """batch_to_space_nd broadcast_to concatenation depth_to_space expand_dims gather gather_nd mirror_pad pack pad reshape
resize_nearest_neighbor slice space_to_batch_nd space_to_depth split split_v squeeze strided_slice tile transpose
unpack""".split()
)
ROUNDED_TWICE = frozenset(("conv_2d", "depthwise_conv_2d", "mean", "mul"))  # first to a few bits behind the point
# kinds whose kernels are integer arithmetic of their own, on one value each
BY_TABLE = frozenset(("elu", "gelu", "hard_swish", "leaky_relu", "logistic", "relu", "relu6", "relu_n1_to_1", "tanh"))
Inputs = list[Tensor]  # activations [samples, *shape], constants [*shape], those left out are not there


class Trainable(nn.Module):
    """A float graph whose values are those that int8 will keep. It takes what the graph takes, [samples, ...] each.

    turned: inputs that are given channels first, as PyTorch has them. weights: op -> its form, for those that are not int8.
    """

    def __init__(
        self, graph: Graph, calibration: Calibration, weights: Mapping[str, WeightForm], turned: tuple[bool, ...] = ()
    ) -> None:
        super().__init__()
        _check(graph)
        self.graph, self.calibration, self.forms, self.turned = graph, calibration, dict(weights), turned
        # logarithms of the scales of activations and of 4-bit weights: a step of the optimiser changes any by as much
        self.values, self.scales, self.steps = nn.ParameterDict(), nn.ParameterDict(), nn.ParameterDict()
        self.sources: dict[str, list[Tensor]] = {}  # op that moves values -> where its outputs come from
        self.steps_of: dict[str, Tensor] = {}  # op -> the scales of its weights in the last forward pass
        of, keys = calibration.groups, {name: str(index) for index, name in enumerate(calibration.quants)}
        self.keys = {name: keys[of.group(name)] for name in of.of}
        self.quants = {keys[name]: quant for name, quant in calibration.quants.items()}
        for name, key in keys.items():
            if name not in of.fixed:
                self.scales[key] = torch.tensor(calibration.quants[name].scale[0]).log()
        for index, op in enumerate(graph.ops):
            rule = RULES[op.kind]
            if rule.weights is None:
                continue
            kernel, bias = graph.input(op, 1), graph.input(op, rule.bias)
            assert kernel.data is not None and bias.data is not None
            self.values[f"{index}_weights"] = torch.from_numpy(kernel.data.copy())
            self.values[f"{index}_bias"] = torch.from_numpy(bias.data.copy())
            if op.name in self.forms:
                x = calibration.of(op.inputs[SPECS[op.kind].data] or "")
                assert x is not None
                chosen = weight_scales(kernel.data, rule.weights, bias.data, x.scale[0], self.forms[op.name])
                self.steps[str(index)] = torch.from_numpy(chosen.astype(np.float32)).log()

    def forward(self, *inputs: Tensor) -> Any:
        """Return the outputs, a tensor or a tuple of them."""
        held: dict[str, Tensor] = {}
        for number, (name, given) in enumerate(zip(self.graph.inputs, inputs, strict=True)):
            moved = given.permute(0, 2, 3, 1) if number < len(self.turned) and self.turned[number] else given
            held[name] = self.kept(name, moved.reshape(-1, *self.graph.tensors[name].shape))
        for index, op in enumerate(self.graph.ops):
            held |= self.layer(index, op, held)
        found = tuple(held[name].flatten(0, 1) for name in self.graph.outputs)
        return found[0] if len(found) == 1 else found

    def layer(self, index: int, op: Op, held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of one op, as int8 keeps them."""
        rule, arrays = RULES[op.kind], Inputs()
        for place, (name, tensor) in enumerate(zip(op.inputs, self.graph.inputs_of(op), strict=True)):
            if name is None or tensor is None or (rule.weights is not None and place in (1, rule.bias)):
                continue
            copy = self.calibration.groups.requantised.get((op.name, place))
            value = held[name] if tensor.data is None else self._constant(op, tensor.data)
            arrays.append(value if copy is None else self.kept(copy, value))
        if op.kind in MOVING:
            return dict(zip(op.outputs, self._moved(op, arrays), strict=True))
        if rule.weights is not None:
            arrays += self._weights(index, op)
        if op.kind == "average_pool_2d":
            return {op.outputs[0]: self._average(op, arrays[0])}
        real = KINDS[op.kind](self.graph, op, arrays)
        value = self.kept(op.outputs[0], real, self._bits(op, self.scale(op.outputs[0]).detach()))
        if op.kind in BY_TABLE:
            value = value + (self._by_table(op, arrays[0].detach()) - value).detach()
        return {op.outputs[0]: value}

    def kept(self, name: str, values: Tensor, bits: Tensor | None = None) -> Tensor:
        """Return an activation as int8 keeps it."""
        if name not in self.keys:
            return values
        zero, (least, most) = self.quants[self.keys[name]].zero_point[0], limits("int8")
        return stepped(values, self.scale(name, values[0].numel()), least - zero, most - zero, bits)

    def scale(self, name: str, count: int = 1) -> Tensor:
        """Return the scale of an activation of so many elements."""
        key = self.keys[name]
        if key not in self.scales:
            return torch.tensor(self.quants[key].scale[0])
        return _slowed(self.scales[key].exp().clamp_min(LEAST_SCALE), count * 127)

    def _weights(self, index: int, op: Op) -> Inputs:
        """Return the weights and the bias of an op as its form keeps them."""
        rule = RULES[op.kind]
        assert rule.weights is not None
        kernel, bias = self.values[f"{index}_weights"], self.values[f"{index}_bias"]
        shape = [-1 if axis == rule.weights else 1 for axis in range(kernel.ndim)]
        x = self.scale(op.inputs[SPECS[op.kind].data] or "").detach()
        if op.name in self.forms:
            steps = _slowed(self.steps[str(index)].exp().clamp_min(LEAST_SCALE), kernel[0].numel() * 7)
            least, most = limits(self.forms[op.name].dtype)
        else:
            chosen = weight_scales(_array(kernel), rule.weights, _array(bias), float(x))
            steps, least, most = torch.from_numpy(chosen.astype(np.float32)), -127, 127
        self.steps_of[op.name] = steps.detach()
        return [stepped(kernel, steps.reshape(shape), least, most), stepped(bias, steps.detach() * x, -(2**31), 2**31)]

    def _constant(self, op: Op, data: np.ndarray) -> Tensor:
        """Return a constant as int8 keeps it: on the scale of a tied op's output, or on one of its own."""
        if data.dtype != np.float32:
            return torch.from_numpy(data.copy())
        if RULES[op.kind].tied:
            return self.kept(op.outputs[0], torch.from_numpy(data))
        quant = affine(data.min(initial=0), data.max(initial=0))
        return torch.from_numpy(dequantised(quantised(data, quant), quant))

    def _moved(self, op: Op, arrays: Inputs) -> list[Tensor]:
        """Return what an op that only moves values gives: where each comes from is what the op does to their places."""
        if op.kind in VIEWS:
            return [arrays[0].reshape(-1, *self.graph.output(op).shape)]
        given = [(t, a) for t, a in zip(filter(None, self.graph.inputs_of(op)), arrays, strict=True) if is_number(t)]
        count = next(len(array) for tensor, array in given if tensor.data is None)
        if op.name not in self.sources:
            self.sources[op.name] = _places(self.graph, op)
        wide = [a.expand(count, *a.shape) if t.data is not None else a for t, a in given]
        flat = torch.cat([wide[0].new_zeros(count, 1), *(array.flatten(1) for array in wide)], dim=1)
        return [flat[:, places.flatten()].reshape(count, *places.shape) for places in self.sources[op.name]]

    def _average(self, op: Op, x: Tensor) -> Tensor:
        """Return averages, which int8 rounds away from 0 as it stores them, on the scale of the input."""
        scale = self.scale(op.inputs[0] or "").detach()
        zero = self.quants[self.keys[op.inputs[0] or ""]].zero_point[0]
        top, left = (sides[0] for sides in op.attrs["padding"])
        if op.attrs["padding"] != ((top, top), (left, left)):
            raise CompileError("has a padding that torch has not", "pad before it", op=op)
        window = {"kernel_size": op.attrs["kernel"], "stride": op.attrs["stride"], "padding": (top, left)}
        means = _bounded(functional.avg_pool2d(_first(x), **window, count_include_pad=False), op)
        with torch.no_grad():
            whole = functional.avg_pool2d(torch.round(_first(x) / scale) + zero, **window, count_include_pad=False)
            exact = _bounded((_half_away(whole) - zero) * scale, op)
        return _last(means + (exact - means).detach(), x)

    def _bits(self, op: Op, out: Tensor) -> Tensor | None:
        """Return the bits behind the point that the kernel rounds to before it rounds to whole steps; None if it does not."""
        if op.kind not in ROUNDED_TWICE:
            return None
        factor, more = self.scale(op.inputs[0] or "").detach() / out, 0
        if op.kind == "mean":
            more = reduce.count(self.graph, op).bit_length() - 1
        else:
            factor = factor * (self._other_scale(op) if op.kind == "mul" else self.steps_of[op.name])
        bits: Tensor = (more - torch.frexp(factor).exponent).clamp_min(0)
        return bits

    def _other_scale(self, op: Op) -> Tensor:
        tensor = self.graph.input(op, 1)
        if tensor.data is None:
            return self.scale(tensor.name).detach()
        return torch.tensor(affine(tensor.data.min(initial=0), tensor.data.max(initial=0)).scale[0])

    def _by_table(self, op: Op, x: Tensor) -> Tensor:
        """Return what the int8 op gives for each of the 256 values, looked up."""
        names = op.inputs[0] or "", op.outputs[0]
        quants = [Quant((float(self.scale(name).detach()),), self.quants[self.keys[name]].zero_point) for name in names]
        tensors = {n: Value(n, (1, 256), "int8", q) for n, q in zip(names, quants, strict=True)}
        single = Graph(op.name, tensors, (op,), names[:1], names[1:])
        (table,) = SPECS[op.kind].reference(single, op, [np.arange(-128, 128).astype(np.int8)[None]])
        places = torch.round(x / quants[0].scale[0]).long() + (quants[0].zero_point[0] + 128)
        return torch.from_numpy(dequantised(table[0], quants[1]))[places]


def stepped(values: Tensor, scale: Tensor, least: float, most: float, bits: Tensor | None = None) -> Tensor:
    """Return real numbers rounded to steps and clipped; gradients reach the values inside, and the scale.

    bits: of those that the kernel's first rounding leaves behind the point, one for all or one per channel; None: it has none.
    """
    steps = torch.clamp(values / scale, least, most)
    with torch.no_grad():
        whole = torch.round(steps) if bits is None else _half_away(torch.round(torch.ldexp(steps, bits)) * torch.exp2(-bits))
    return (steps + (whole - steps).detach()) * scale


def _half_away(values: Tensor) -> Tensor:
    return torch.sign(values) * torch.floor(values.abs() + 0.5)


def _slowed(scale: Tensor, count: int) -> Tensor:
    """Return the scale, with the gradient that learned steps have: 1 / sqrt(elements * greatest step) of its own."""
    part = float(count) ** -0.5
    return torch.add(scale * part, (scale * (1 - part)).detach())


def tune(
    module: Trainable,
    inputs: np.ndarray[Any, Any],
    wanted: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any] | None,
    *,
    epochs: int,
    rate: float,
    progress: Progress = silent,
) -> None:
    """Train a module of one input and one output to give what is wanted: what a larger network gave, say. The seed is fixed.

    inputs: [samples, *shape]. wanted: [samples, *output]. labels: classes, which are half of the aim then; of one probability
    0 or 1.
    """
    if not 0 <= rate < math.inf:
        raise CompileError(f"{rate} is no rate of a training", "give a small number, as 1e-4")
    draws = torch.Generator().manual_seed(0)
    x, aim = torch.from_numpy(inputs), torch.from_numpy(np.ascontiguousarray(wanted)).flatten(1)
    classes = None if labels is None else torch.from_numpy(labels)
    if labels is not None:
        check_labels(labels, max(aim.shape[1], 2))
    last = module.graph.ops[module.graph.producer[module.graph.outputs[0]]]
    optimizer = torch.optim.Adam(module.parameters(), rate)
    steps = epochs * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    orders = (torch.randperm(len(x), generator=draws) for _ in range(epochs))
    for done, chosen in enumerate(chain.from_iterable(torch.split(order, BATCH) for order in orders)):
        optimizer.zero_grad()
        given = module(x[chosen]).flatten(1)
        loss = _loss(given, aim[chosen], None if classes is None else classes[chosen], is_softmax=last.kind == "softmax")
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), MOST_NORM)
        optimizer.step()
        schedule.step()
        progress("training", done + 1, steps)


def _loss(given: Tensor, aim: Tensor, classes: Tensor | None, *, is_softmax: bool) -> Tensor:
    """Return the cross entropy with the aim, of probabilities, or the mean square error as a share of the aim's; with classes
    half of the cross entropy with them."""
    if is_softmax:
        logs = torch.log(given.clamp_min(1e-3))
        soft = -(aim * logs).sum(dim=1).mean()
        return soft if classes is None else (soft + functional.nll_loss(logs, classes)) / 2
    soft = ((given - aim) ** 2).mean() / (aim**2).mean().clamp_min(1e-12)
    if classes is None:
        return soft
    if given.shape[1] == 1:
        return (soft + functional.binary_cross_entropy(given[:, 0].clamp(1e-3, 1 - 1e-3), classes.to(given.dtype))) / 2
    return (soft + functional.cross_entropy(given, classes)) / 2


def trained(module: Trainable) -> tuple[Graph, Graph, Calibration]:
    """Return the float graph with the module's weights, the int8 graph, and the scales that were learned."""
    graph, learned = module.graph, module.calibration
    tensors, forms = dict(graph.tensors), dict[str, WeightForm]()
    for index, op in enumerate(graph.ops):
        rule = RULES[op.kind]
        if rule.weights is None:
            continue
        for place, role in ((1, "weights"), (rule.bias, "bias")):
            tensor = graph.input(op, place)
            tensors[tensor.name] = replace(tensor, data=_array(module.values[f"{index}_{role}"]).copy())
        if op.name in module.forms:
            forms[op.name] = WeightForm(module.forms[op.name].dtype, _array(module.steps[str(index)].exp()).astype(np.float64))
    quants = {name: replace(quant, scale=(float(module.scale(name).detach()),)) for name, quant in learned.quants.items()}
    real = replace(graph, tensors=tensors)
    return real, to_int8(real, learned.groups, quants, weights=forms), replace(learned, quants=quants)


def _array(parameter: Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(parameter.detach().numpy())


def _check(graph: Graph) -> None:
    """Raise one CompileError for all ops that cannot be trained."""
    lacking = sorted({op.kind for op in graph.ops} - MOVING - KINDS.keys() - {"average_pool_2d"})
    if lacking:
        raise CompileError(
            f"ops cannot be trained: {', '.join(lacking)}", "quantise the model by samples, or leave them out of it"
        )
    for op in graph.ops:
        rule = RULES[op.kind]
        if rule.weights is not None and any(len(graph.consumers[op.inputs[place] or ""]) > 1 for place in (1, rule.bias)):
            raise CompileError("shares its weights with another op", "give each layer weights of its own", op=op)


def _places(graph: Graph, op: Op) -> list[Tensor]:
    """Return per output which element of the inputs laid end to end each element is, the first being 1; 0 is a padding."""
    arrays: list[Any] = [None if tensor is None else tensor.data for tensor in graph.inputs_of(op)]
    start = 1
    for index, tensor in enumerate(graph.inputs_of(op)):
        if tensor is not None and is_number(tensor):
            arrays[index] = np.arange(start, start + tensor.elements, dtype=np.float32).reshape(tensor.shape)
            start += tensor.elements
    if start > 1 << 24:
        raise CompileError("moves too many values to be trained", "at most 16 million", op=op)
    return [torch.from_numpy(array.astype(np.int64)) for array in spec_for(graph, op).reference(graph, op, arrays)]


def _first(x: Tensor) -> Tensor:
    """Return maps [samples, 1, h, w, c] as torch takes them, channels first; nothing is moved."""
    return x.flatten(0, 1).permute(0, 3, 1, 2)


def _last(y: Tensor, x: Tensor) -> Tensor:
    return y.permute(0, 2, 3, 1).reshape(len(x), -1, *y.shape[2:], y.shape[1])


def _bounded(y: Tensor, op: Op) -> Tensor:
    activation = op.attrs.get("activation", "none")
    return y if activation == "none" else y.clamp(*LIMITS[activation])


def _convolved(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    x, kernel, bias = arrays
    (top, bottom), (left, right) = op.attrs["padding"]
    is_deep = op.kind == "depthwise_conv_2d"
    padded = functional.pad(_first(x), (left, right, top, bottom))
    filters, depth = kernel.permute((3, 0, 1, 2) if is_deep else (0, 3, 1, 2)), 1 if is_deep else kernel.shape[3]
    where = {"stride": op.attrs["stride"], "dilation": op.attrs["dilation"], "groups": x.shape[-1] // depth}
    return _bounded(_last(functional.conv2d(padded, filters, bias, **where), x), op)


def _dense(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    x, kernel, bias = arrays
    y = functional.linear(x.reshape(len(x), -1, kernel.shape[1]), kernel, bias)
    return _bounded(y.reshape(len(x), *graph.output(op).shape), op)


def _max_pool(graph: Graph, op: Op, arrays: Inputs) -> Tensor:
    (top, bottom), (left, right) = op.attrs["padding"]
    padded = functional.pad(_first(arrays[0]), (left, right, top, bottom), value=-torch.inf)
    return _bounded(_last(functional.max_pool2d(padded, op.attrs["kernel"], op.attrs["stride"]), arrays[0]), op)


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
        return _bounded(join(*wide), op)

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
