"""Find the layers that lose accuracy, from the SQNR at the network's outputs with each layer quantised alone and together.

SQNR is the signal to quantisation noise ratio. A layer is an op with its weights and its output, or an input of the network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir import Graph, Op, Quant, Tensor
from ..ops import SPECS
from ..support.progress import Progress, silent
from .calibrate import clamped_ranges, downstream, fake_quantised
from .convert import interval
from .evaluate import Array, evaluate
from .fidelity import decibel, noise_to_signal, signal_tensors
from .layerwise import int8_ops, real_constants

COSTLY = 1.0  # dB: a layer is accused only if it costs at least this much SQNR at the outputs
POOR_WEIGHTS = 35.0  # dB: 8 bits reach 40 and more unless the largest weight of a channel is many times the others
OUTLIER = 3.0  # limit of (largest weight of a channel) / (its 90 % quantile); about 1.8 for normally distributed weights
CLIPPING = 8.0  # limit of (clipping noise) / (rounding noise); about 1 for the best range
UNEVEN = 16.0  # limit of (largest value of the largest channel) / (largest value of the median channel)


@dataclass(frozen=True)
class LayerNoise:
    """How much noise the quantisation of one layer causes. All numbers are in dB."""

    name: str
    kind: str
    alone: float  # SQNR at the outputs if only this layer is quantised
    costs: float  # gain in SQNR at the outputs if only this layer stays float
    cumulated: float  # SQNR at the outputs if this layer and all layers before it are quantised
    output: float  # SQNR of the layer's own output
    weights: float | None  # SQNR of its worst weight channel; None without weights
    helps: str  # advice in words
    accused: bool  # whether it costs `COSTLY` or more and has a fault: clipped values, or weights with outliers


@dataclass(frozen=True)
class Blame:
    """The noise of each layer, accused layers first, and the SQNR at the outputs in dB with all layers quantised."""

    sqnr_db: float
    layers: tuple[LayerNoise, ...]

    @property
    def accused(self) -> tuple[LayerNoise, ...]:
        """The layers whose `accused` is set: they cost at least COSTLY dB and have a fault."""
        return tuple(layer for layer in self.layers if layer.accused)


def blame(real: Graph, small: Graph, inputs: Mapping[str, Array], progress: Progress = silent) -> Blame:
    """Measure the noise of each layer, with fake quantisation in `real`; arguments as for `adaptively_rounded`."""
    maker = {name: op for op in real.ops for name in op.outputs}
    int8 = {name: small.tensors[name] for name in (*real.inputs, *maker)}
    pairs = zip(real.ops, int8_ops(real, small), strict=True)
    constants = {op.name: real_constants(real, small, op, int8_op) for op, int8_op in pairs}
    exact, names, clamped = evaluate(real, inputs, keep=True), signal_tensors(real), clamped_ranges(real)
    by_layer: dict[str, Op | None] = dict.fromkeys(real.inputs) | {op.name: op for op in real.ops if not _moves(op)}
    layers = tuple(by_layer)

    def rerun(values: Mapping[str, Array], layer: str, chosen: Collection[str]) -> dict[str, Array]:
        """Recompute all activations that depend on a layer; the layers in `chosen` are quantised, all others float."""

        def visit(name: str, array: Array) -> Array:
            op = maker.get(name)
            if (op.name if op else name) not in chosen or (op and _moves(op)):
                return array
            if op and SPECS[op.kind].averages:
                return _rounded(array, int8[name].quant)
            return fake_quantised(array, int8[name].quant, int8[name].dtype)

        op = by_layer[layer]
        ops = {layer, *downstream(real, set(op.outputs))} if op else set(downstream(real, {layer}))
        start = values if op else {**values, layer: visit(layer, inputs[layer])}
        used = {name: array for op in ops if op in chosen for name, array in constants[op].items()}
        return evaluate(real, start, ops=ops, visit=visit, keep=True, constants=used)

    def sqnr_db(values: Mapping[str, Array]) -> float:
        return decibel(noise_to_signal(exact, values, names))

    partial, cumulated = exact, dict[str, float]()
    for number, layer in enumerate(layers):
        partial = rerun(partial, layer, layers[: number + 1])
        cumulated[layer] = sqnr_db(partial)
        progress("adding up noise", number + 1, len(layers))
    total, judged = cumulated[layers[-1]], []
    for number, (layer, op) in enumerate(by_layer.items()):
        alone = sqnr_db(rerun(exact, layer, {layer}))
        costs = sqnr_db(rerun(partial, layer, set(layers) - {layer})) - total
        written, kind = (op.outputs[0], op.kind) if op else (layer, "input")
        values = np.clip(exact[written], *clamped[written]) if written in clamped else exact[written]
        output, clips = _output_noise(values, int8[written])
        weights, fault = _weight_noise(real, op, constants[layer]) if op else (None, "")
        helps = _what_helps(values, fault, clips)
        accused = costs >= COSTLY and (clips or bool(fault))
        judged.append(LayerNoise(layer, kind, alone, costs, cumulated[layer], output, weights, helps, accused))
        progress("blaming layers", number + 1, len(layers))
    return Blame(total, tuple(sorted(judged, key=lambda layer: (not layer.accused, -layer.costs))))


def _moves(op: Op) -> bool:
    """Return whether an op only moves or selects values, so that its quantisation adds no noise."""
    return SPECS[op.kind].shares_scale and not SPECS[op.kind].averages


def _rounded(values: Array, quant: Quant | None) -> Array:
    """Round averages of int8 values, which are in range, to multiples of their scale; a `quant` of None changes nothing."""
    return values if quant is None else (np.rint(values / quant.scale[0]) * quant.scale[0]).astype(np.float32)


def _output_noise(values: Array, int8: Tensor) -> tuple[float, bool]:
    """Return the SQNR in dB, and whether clipping is above CLIPPING times the rounding noise, of real values as `int8`."""
    quant, values = int8.quant, values.astype(np.float64)
    if quant is None:
        return np.inf, False
    lost, rounding = (values - fake_quantised(values, quant, int8.dtype)) ** 2, quant.scale[0] ** 2 / 12
    low, high = interval(quant, int8.dtype)
    outside = (values < low - quant.scale[0] / 2) | (values > high + quant.scale[0] / 2)
    return decibel(lost.sum() / max((values**2).sum(), 1e-30)), bool(lost[outside].sum() > CLIPPING * rounding * values.size)


def _weight_noise(real: Graph, op: Op, constants: Mapping[str, Array]) -> tuple[float | None, str]:
    """Return the SQNR in dB of an op's worst weight channel (None: no quantised weights), and its weights' fault or ""."""
    layer = SPECS[op.kind].weights
    weights = None if layer is None else real.input(op, 1).data
    quantised = constants.get(op.inputs[1] or "") if len(op.inputs) > 1 else None
    if layer is None or weights is None or quantised is None:
        return None, ""
    exact, kept = (
        np.moveaxis(a.astype(np.float64), layer.axis, 0).reshape(a.shape[layer.axis], -1) for a in (weights, quantised)
    )
    power, lost = (exact**2).sum(axis=1), ((exact - kept) ** 2).sum(axis=1)
    counts = power > power.max(initial=0) * 1e-4  # a channel that is almost 0 does not matter
    ratios = np.where(counts, lost / np.maximum(power, 1e-30), 0)
    worst = decibel(float(ratios.max(initial=0)))
    outliers = counts & (np.abs(exact).max(axis=1) > OUTLIER * np.quantile(np.abs(exact), 0.9, axis=1))
    if worst < POOR_WEIGHTS:
        return worst, f"channel {int(ratios.argmax())} of its weights: a wrong scale, or outliers"
    if lost[outliers].sum() > lost[counts].sum() / 2:
        return worst, f"outliers among its weights, in {int(outliers.sum())} of {len(outliers)} channels"
    return worst, ""


def _what_helps(values: Array, fault: str, clips: bool) -> str:
    if fault:
        return f"{fault}: limit them in training, or rescale them"
    if clips:
        return "values outside of its range are clipped: --method minmax, or samples with such values"
    largest = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
    if largest.size > 1 and largest.max() > UNEVEN * max(float(np.median(largest)), 1e-30):
        return "its channels have very different ranges: rescale them in training"
    return "it has no fault; more bits"
