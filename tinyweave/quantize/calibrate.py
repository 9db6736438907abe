"""Choose the scale of every activation from samples.

In: a float graph, arrays [samples, *shape] per input. Out: a Quant per group of tensors that share one, and how it was chosen.
The methods (minmax, percentile, mse, entropy) are functions of ranges.py. "auto" measures: where they differ, each candidate
is tried by itself, and the one that changes the network's outputs least is taken; unless one method for all tensors together
changes them less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce as accumulated
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Quant
from ..ops import lstm, macs, spec_for
from ..progress import Progress, silent
from .convert import affine, dequantised, interval, quantised
from .evaluate import chunks, evaluate, outputs
from .ranges import METHODS, Histogram, check_finite
from .rules import RULES, Groups, groups, is_number, least_scales

Array = NDArray[Any]
FINEST = 2.0**-6  # scale of an output over that of what is computed: finer says nothing, and arithmetic has its limits
MOST_CELL_BITS = 6  # before the point of an LSTM's cell state
LEAST_POWER = 1e-100  # of a signal: squares of the least float32 are above it
SATURATING = ("softmax", "logistic", "log_softmax", "tanh")
ALIKE = 0.001  # candidates whose scales differ by less are one; 1 % may be a few dB, where a range ends exactly at a clip
TRIED = 32  # samples that a candidate is tried on, at most
FAR_ABOVE = 1.2  # times the greatest magnitude of those: what a sample must reach to be tried on as well
MOST_WORK = 4e10  # multiply-accumulates that the trials of all candidates may take together, about


@dataclass(frozen=True)
class Calibration:
    """quants and methods by group; a group of given scale has the method "given"."""

    groups: Groups
    quants: Mapping[str, Quant]
    methods: Mapping[str, str]

    def of(self, tensor: str) -> Quant | None:
        """Return the scale of a tensor; None of one that is no activation."""
        return self.quants[self.groups.group(tensor)] if tensor in self.groups.of else None


def calibrate(
    graph: Graph,
    inputs: Mapping[str, Array],
    method: str = "auto",
    progress: Progress = silent,
    given: Mapping[str, Quant] | None = None,
) -> Calibration:
    """Return the scales of a checked float graph that keeps the rules, from at least one sample; `given`: those of inputs."""
    if method != "auto" and method not in METHODS:
        raise CompileError(f"the method {method} is unknown", f"it is one of auto, {', '.join(METHODS)}")
    found = groups(graph)
    histograms = collect(graph, inputs, progress)
    members = found.members()
    seen = {group: [histograms[name] for name in names if name in histograms] for group, names in members.items()}
    joined = {group: accumulated(Histogram.joined, each) for group, each in seen.items() if each}
    fixed = found.fixed | {found.group(name): quant for name, quant in (given or {}).items()}
    settled = {group: ("given", quant) for group, quant in fixed.items()}
    settled |= {cell: ("power of two", power_of_two(largest)) for cell, largest in cell_ranges(graph, inputs).items()}
    least, wanted = least_scales(graph, found), METHODS if method == "auto" else {method: METHODS[method]}
    candidates = {
        group: _merged({name: affine(*choose(histogram), least_scale=least[group]) for name, choose in wanted.items()})
        for group, histogram in joined.items()
        if group not in settled
    }
    settled |= {group: next(iter(choices.items())) for group, choices in candidates.items() if len({*choices.values()}) == 1}
    differing = {group: choices for group, choices in candidates.items() if group not in settled}
    if differing:
        settled |= _tried(graph, inputs, differing, found, given=settled, progress=progress)
    # what is left are requantised copies of a given scale, which joined no other
    settled |= {group: ("minmax", affine(0, 0)) for group in members if group not in settled}
    quants = {group: quant for group, (_, quant) in settled.items()}
    return Calibration(found, _coarsened(graph, found, quants), {group: name for group, (name, _) in settled.items()})


def _coarsened(graph: Graph, found: Groups, quants: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return the scales, those of outputs made no finer than what is computed from the inputs can be: see `FINEST`."""
    coarse = dict(quants)
    for op in graph.ops:
        inputs = [coarse[found.group(name)].scale[0] for name in op.inputs if name in found.of]
        group = found.group(op.outputs[0]) if op.outputs[0] in found.of else ""
        is_other = RULES[op.kind].tied or RULES[op.kind].recurrent or op.kind == "rsqrt"  # which gives less for larger inputs
        if not inputs or not group or group in found.fixed or is_other:
            continue
        computed = max(inputs)
        constants = [t.data for t in graph.inputs_of(op) if t is not None and t.data is not None and is_number(t)]
        if op.kind in ("add", "sub") and constants and constants[0].any():
            computed = max(computed, affine(constants[0].min(), constants[0].max()).scale[0])
        if op.kind in ("mul", "batch_matmul") and len(inputs) > 1:
            computed = inputs[0] * inputs[1]
        elif op.kind == "squared_difference":
            computed **= 2
        elif RULES[op.kind].weights is not None or op.kind == "mul":
            computed *= float(np.abs(constants[0]).max(initial=0)) / 127
        finer = computed * FINEST / coarse[group].scale[0]
        if finer > 1:
            low, high = interval(coarse[group])
            coarse[group] = affine(finer * low, finer * high)
    return coarse


def collect(graph: Graph, inputs: Mapping[str, Array], progress: Progress = silent) -> dict[str, Histogram]:
    """Return the histogram of every float activation over all samples."""
    histograms = {t.name: Histogram() for t in graph.tensors.values() if t.dtype == "float32" and t.data is None}

    def count(name: str, values: Array) -> Array:
        if name in histograms:
            check_finite(name, values)
            histograms[name].add(values)
        return values

    total = len(next(iter(inputs.values())))
    for part in chunks(graph, total):
        evaluate(graph, {name: array[part] for name, array in inputs.items()}, visit=count)
        progress("calibrating", part.stop, total)
    return histograms


def cell_ranges(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, float]:
    """Return the greatest absolute value of each LSTM's cell state, over all samples and steps."""
    largest = dict[str, float]()
    layers = [op for op in graph.ops if RULES[op.kind].recurrent]
    names = [op.inputs[0] or "" for op in layers]
    for op, sequences in zip(layers, outputs(graph, inputs, names) if layers else (), strict=True):
        axis = lstm.time_and_batch(graph, op)[0]
        states = [np.zeros(tensor.shape, np.float32) for tensor in graph.outputs_of(op)[1:]]
        arrays = [None if tensor is None else tensor.data for tensor in graph.inputs_of(op)]
        largest[op.outputs[2]] = 0.0
        for sequence in sequences:
            arrays[lstm.HIDDEN], arrays[lstm.CELL] = states
            for step in range(graph.input(op).shape[axis]):
                arrays[0] = np.take(sequence, [step], axis)
                _, arrays[lstm.HIDDEN], cell = spec_for(graph, op).reference(graph, op, arrays)
                arrays[lstm.CELL] = cell
                largest[op.outputs[2]] = max(largest[op.outputs[2]], float(np.abs(cell).max()))
    return largest


def power_of_two(largest: float) -> Quant:
    """Return the least scale of int16, a power of two that the LSTM's kernels take, whose range holds a value."""
    bits = np.ceil(np.log2(max(largest, 2.0**-15) / (1 - 2.0**-15)))
    return Quant((float(2.0 ** (np.clip(bits, 0, MOST_CELL_BITS) - 15)),), (0,))


def signals(graph: Graph) -> tuple[str, ...]:
    """Return the tensors at which noise is measured: the outputs, or what a softmax or the like makes an output of."""
    names = []
    for name in graph.outputs:
        op = graph.ops[graph.producer[name]] if name in graph.producer else None
        names.append(op.inputs[0] if op is not None and op.kind in SATURATING and op.inputs[0] else name)
    return tuple(dict.fromkeys(name for name in names if graph.tensors[name].dtype == "float32")) or graph.outputs


def noise(reference: Mapping[str, Array], changed: Mapping[str, Array], names: tuple[str, ...]) -> float:
    """Return the power of the difference over the power of the signal, added over several tensors."""
    total = 0.0
    for name in names:
        signal = reference[name].astype(np.float64)
        total += float(((signal - changed[name]) ** 2).sum()) / max(float((signal**2).sum()), LEAST_POWER)
    return total


def decibel(noise_to_signal: float) -> float:
    """Return a signal to noise ratio in dB."""
    return float(-10 * np.log10(max(noise_to_signal, 1e-30)))


def downstream(graph: Graph, names: set[str]) -> tuple[str, ...]:
    """Return the ops, in order, that read one of these tensors or anything made of them."""
    reached, ops = set(names), []
    for op in graph.ops:
        if reached.intersection(name for name in op.inputs if name is not None):
            reached.update(op.outputs)
            ops.append(op.name)
    return tuple(ops)


def _merged(choices: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return the candidates, those that are like one before them replaced by that."""
    merged: dict[str, Quant] = {}
    for name, quant in choices.items():
        alike = (
            other
            for other in merged.values()
            if abs(quant.scale[0] / other.scale[0] - 1) < ALIKE and abs(quant.zero_point[0] - other.zero_point[0]) <= 2
        )
        merged[name] = next(alike, quant)
    return merged


def picked(graph: Graph, inputs: Mapping[str, Array], runs: float, most: int = TRIED) -> dict[str, Array]:
    """Return some of the samples, evenly spread: as many as so many runs can work on in moderate time and memory."""
    chosen = _places(graph, inputs, runs, most)
    return {name: array[chosen] for name, array in inputs.items()}


def _places(graph: Graph, inputs: Mapping[str, Array], runs: float, most: int = TRIED) -> Array:
    in_memory = (1 << 27) // sum(t.elements for t in graph.tensors.values() if t.data is None)
    count = int(min(most, max(2, MOST_WORK / max(1, runs * macs(graph))), max(1, in_memory)))
    return evenly(count, len(next(iter(inputs.values()))))


def _with_largest(inputs: Mapping[str, Array], chosen: Array) -> dict[str, Array]:
    """Return the chosen samples, and for each input the one of greatest magnitude where that is far above theirs: a range that
    suits the others may clip it."""
    more = set[int]()
    for array in inputs.values():
        magnitudes = np.abs(array.reshape(len(array), -1)).max(axis=1, initial=0)
        if magnitudes.max() > FAR_ABOVE * magnitudes[chosen].max():
            more.add(int(magnitudes.argmax()))
    return {name: array[sorted({*map(int, chosen), *more})] for name, array in inputs.items()}


def evenly(count: int, total: int) -> Array:
    """Return the numbers of at most `count` of so many samples, evenly spread."""
    return np.unique(np.linspace(0, total - 1, min(count, total)).astype(int))


def through(values: Array, quant: Quant | None, dtype: str = "int8") -> Array:
    """Return real numbers as integers keep them."""
    return values if quant is None else dequantised(quantised(values, quant, dtype), quant)


def _tried(
    graph: Graph,
    inputs: Mapping[str, Array],
    candidates: dict[str, dict[str, Quant]],
    found: Groups,
    *,
    given: Mapping[str, tuple[str, Quant]],
    progress: Progress,
) -> dict[str, tuple[str, Quant]]:
    """Return per group the candidate that changes the outputs least when nothing else is quantised.

    All of them together are then compared with each method by itself, with all tensors quantised: what one range clips may be
    what another would have hidden.
    """
    trials = sum(len({*choices.values()}) for choices in candidates.values())
    chosen = _places(graph, inputs, trials / 2 + len(METHODS))
    values = evaluate(graph, _with_largest(inputs, chosen), keep=True)
    names, members, best, done = signals(graph), found.members(), dict[str, tuple[str, Quant]](), 0
    for group, choices in candidates.items():
        tied, measured = {name for name in members[group] if name in values}, dict[Quant, float]()
        ops = downstream(graph, tied)
        for quant in dict.fromkeys(choices.values()):

            def changed(name: str, array: Array, quant: Quant = quant, tied: set[str] = tied) -> Array:
                return through(array, quant) if name in tied else array

            start = values | {name: changed(name, values[name]) for name in tied}
            measured[quant] = noise(values, evaluate(graph, start, ops=ops, visit=changed, keep=True), names)
            done += 1
            progress("choosing ranges", done, trials)
        least = min(measured, key=lambda quant: measured[quant])
        best[group] = next(method for method, quant in choices.items() if quant == least), least
    sets = [best, *({group: (method, choices[method]) for group, choices in candidates.items()} for method in METHODS)]

    def together(chosen: Mapping[str, tuple[str, Quant]]) -> float:
        quants = {group: quant for group, (_, quant) in {**given, **chosen}.items()}

        def visit(name: str, array: Array) -> Array:
            dtype = "int16" if name in found.cells else "int8"
            return through(array, quants.get(found.group(name)) if name in found.of else None, dtype)

        start = {name: values[name] for name in graph.inputs}
        return noise(values, evaluate(graph, start, visit=visit, keep=True), names)

    return min(sets, key=together)
