"""Which layer loses the accuracy: the noise of each layer at the network's outputs, by itself and with the others.

In: a prepared float graph, the int8 graph made of it, samples. Out: a Blame, the worst layer first. A layer is an op with its
weights and its output, or an input of the network. All is measured on the float graph, with the real values that integers stand
for in place of the layer's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Graph, Op, Quant, Tensor
from ..progress import Progress, silent
from .calibrate import decibel, downstream, noise, signals, through
from .convert import interval
from .evaluate import evaluate
from .improve import matching, real_constants
from .rules import RULES

Array = NDArray[Any]
COSTLY = 1.0  # dB: what a layer must cost at the outputs to be accused
POOR_WEIGHTS = 35.0  # dB of a channel: 8 bits give 40 and more unless its greatest weight is many times the others
OUTLIER = 3.0  # greatest weight of a channel over that which nine in ten do not exceed; 1.8 of a normal distribution
CLIPPING = 8.0  # noise by values outside of the range, as a multiple of that by rounding; at the best range they are alike
AVERAGING = ("average_pool_2d", "resize_bilinear")
UNEVEN = 16.0  # greatest value of a map's channels over that of the median one


@dataclass(frozen=True)
class LayerNoise:
    """All in dB. alone: signal to noise at the outputs when only this layer is quantised. costs: what they gain when only this
    layer stays float. cumulated: at the outputs when the layers up to this one are quantised. output, weights: of its output,
    and of its worst channel of weights, by themselves. helps: what would help. accused: it costs much, and something is wrong.
    """

    name: str
    kind: str
    alone: float
    costs: float
    cumulated: float
    output: float
    weights: float | None
    helps: str
    accused: bool


@dataclass(frozen=True)
class Blame:
    """sqnr_db: signal to noise at the outputs with everything quantised. layers: the worst first."""

    sqnr_db: float
    layers: tuple[LayerNoise, ...]

    @property
    def accused(self) -> tuple[LayerNoise, ...]:
        return tuple(layer for layer in self.layers if layer.accused)


def blame(real: Graph, small: Graph, inputs: Mapping[str, Array], progress: Progress = silent) -> Blame:
    """Return the noise of each layer of a prepared float graph; `inputs` are real numbers of few samples."""
    maker = {name: op for op in real.ops for name in op.outputs}
    kept = {name: small.tensors[name] for name in (*real.inputs, *maker)}
    pairs = zip(real.ops, matching(real, small), strict=True)
    constants = {op.name: real_constants(real, small, op, given) for op, given in pairs}
    exact, names = evaluate(real, inputs, keep=True), signals(real)
    by_layer: dict[str, Op | None] = dict.fromkeys(real.inputs) | {op.name: op for op in real.ops if not _moves(op)}
    layers = tuple(by_layer)

    def rerun(values: Mapping[str, Array], layer: str, chosen: Collection[str]) -> dict[str, Array]:
        """Compute a layer and what follows it anew, the layers in `chosen` quantised."""

        def visit(name: str, array: Array) -> Array:
            op = maker.get(name)
            if (op.name if op else name) not in chosen or (op and _moves(op)):
                return array
            if op and op.kind in AVERAGING:
                return _rounded(array, kept[name].quant)
            return through(array, kept[name].quant, kept[name].dtype)

        op = by_layer[layer]
        ops = {layer, *downstream(real, set(op.outputs))} if op else set(downstream(real, {layer}))
        begun = values if op else {**values, layer: visit(layer, inputs[layer])}
        used = {name: array for op in ops if op in chosen for name, array in constants[op].items()}
        return evaluate(real, begun, ops=ops, visit=visit, keep=True, constants=used)

    partial, cumulated = exact, dict[str, float]()
    for number, layer in enumerate(layers):
        partial = rerun(partial, layer, layers[: number + 1])
        cumulated[layer] = decibel(noise(exact, partial, names))
        progress("adding up noise", number + 1, len(layers))
    total, judged = cumulated[layers[-1]], []
    for number, (layer, op) in enumerate(by_layer.items()):
        alone = decibel(noise(exact, rerun(exact, layer, {layer}), names))
        costs = decibel(noise(exact, rerun(partial, layer, set(layers) - {layer}), names)) - total
        made, kind = (op.outputs[0], op.kind) if op else (layer, "input")
        output, clips = _output_noise(made, exact, kept)
        weights, wrong = _weight_noise(real, op, constants[layer]) if op else (None, "")
        helps = _what_helps(exact[made], wrong, clips)
        accused = costs >= COSTLY and (clips or bool(wrong))
        judged.append(LayerNoise(layer, kind, alone, costs, cumulated[layer], output, weights, helps, accused))
        progress("blaming layers", number + 1, len(layers))
    return Blame(total, tuple(sorted(judged, key=lambda layer: (not layer.accused, -layer.costs))))


def _moves(op: Op) -> bool:
    """Return whether an op only moves or picks values, so that its output has no noise but its input's."""
    return RULES[op.kind].tied and op.kind not in AVERAGING


def _rounded(values: Array, quant: Quant | None) -> Array:
    """Return values as an op that averages gives them on the scale of its input: it rounds, and cannot leave the range."""
    return values if quant is None else (np.rint(values / quant.scale[0]) * quant.scale[0]).astype(np.float32)


def _output_noise(name: str, exact: Mapping[str, Array], kept: Mapping[str, Tensor]) -> tuple[float, bool]:
    """Return the signal to noise ratio of a tensor by itself, and whether most noise is of values outside of its range."""
    quant, dtype, values = kept[name].quant, kept[name].dtype, exact[name].astype(np.float64)
    if quant is None:
        return np.inf, False
    lost, rounding = (values - through(values, quant, dtype)) ** 2, quant.scale[0] ** 2 / 12
    low, high = interval(quant, dtype)
    outside = (values < low - quant.scale[0] / 2) | (values > high + quant.scale[0] / 2)
    return decibel(lost.sum() / max((values**2).sum(), 1e-30)), bool(lost[outside].sum() > CLIPPING * rounding * values.size)


def _weight_noise(real: Graph, op: Op, constants: Mapping[str, Array]) -> tuple[float | None, str]:
    """Return the signal to noise ratio of the channel of weights that has the worst, and what is wrong with them.

    Outliers: most noise is in channels whose greatest weight is several times that which nine in ten do not exceed.
    """
    axis = RULES[op.kind].weights
    weights = None if axis is None else real.input(op, 1).data
    became = constants.get(op.inputs[1] or "") if len(op.inputs) > 1 else None
    if axis is None or weights is None or became is None:
        return None, ""
    exact, kept = (np.moveaxis(a.astype(np.float64), axis, 0).reshape(a.shape[axis], -1) for a in (weights, became))
    power, lost = (exact**2).sum(axis=1), ((exact - kept) ** 2).sum(axis=1)
    counts = power > power.max(initial=0) * 1e-4  # a channel that hardly is one has no say
    ratios = np.where(counts, lost / np.maximum(power, 1e-30), 0)
    worst = decibel(float(ratios.max(initial=0)))
    far = np.abs(exact).max(axis=1) > OUTLIER * np.quantile(np.abs(exact), 0.9, axis=1)
    outliers = counts & far
    if worst < POOR_WEIGHTS:
        return worst, f"channel {int(ratios.argmax())} of its weights: a wrong scale, or outliers"
    if lost[outliers].sum() > lost[counts].sum() / 2:
        return worst, f"outliers among its weights, in {int(outliers.sum())} of {len(outliers)} channels"
    return worst, ""


def _what_helps(values: Array, weights: str, clips: bool) -> str:
    if weights:
        return f"{weights}: limit them in training, or scale them anew"
    if clips:
        return "values lie outside of its range: --method minmax, or samples that hold them"
    largest = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
    if largest.size > 1 and largest.max() > UNEVEN * max(float(np.median(largest)), 1e-30):
        return "its channels have very different ranges: --equalize"
    return "nothing is wrong with it; more bits"
