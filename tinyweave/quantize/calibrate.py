"""Calibrate a float graph: choose the scale of every activation from samples.

The methods of `ranges.py` choose a range from a histogram. "auto" takes, for each scale group, the range of any method that
changes the network's outputs least, and then compares this mixture with each single method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce as accumulated
from math import inf

import numpy as np

from ..ir import CompileError, Graph, Op, Quant
from ..ops import SPECS, macs, spec_for
from ..ops.extrema import CHOOSING, CLAMPS, takes_larger
from ..ops.recurrent import lstm
from ..ops.recurrent import sequence as layers
from ..ops.spec import ACTIVATIONS
from ..ops.state import initial_state
from ..support.progress import Progress, silent
from .convert import affine, dequantised, interval, quantised
from .evaluate import Array, evaluate, keeps_variables, outputs, visit_all
from .fidelity import MASKED, masks_scores, noise_to_signal, signal_tensors
from .ranges import METHODS, Histogram
from .scale_groups import ScaleGroups, float_inputs, is_float, least_scales, scale_groups

FINEST = 2.0**-6  # smallest output scale of an op, as a multiple of the scale of the sum or product that is rescaled to it
NEGLIGIBLE = 8.0  # a score so far below the maximum has the softmax 0, in steps of 1/256
MOST_CELL_BITS = 6  # limit on integer bits of an LSTM's cell state
SAME_SCALE = 0.001  # relative difference below which two scales are the same candidate; 1 % can cost some dB at a clamp
TRIED = 32  # limit on samples for trying candidates
FAR_ABOVE = 1.2  # a sample whose magnitude exceeds the largest one among these samples by this factor is tried, too
MOST_WORK = 4e10  # approximate limit on multiply-accumulates of all trials together

ALL = (-inf, inf)

Choice = tuple[str, Quant]  # the method, and the scale that it chose


@dataclass(frozen=True)
class Calibration:
    """The scale groups of a float graph, and the scale of each with the name of the method that chose it."""

    groups: ScaleGroups
    quants: Mapping[str, Quant]  # group -> its scale and zero point
    methods: Mapping[str, str]  # group -> method; "given" if the op or the integer samples of an input dictate the scale

    def of(self, tensor: str) -> Quant | None:
        """Return the scale and zero point of a tensor, or None if it is not a float activation."""
        return self.quants[self.groups.group(tensor)] if tensor in self.groups.parent else None


def calibrate(
    graph: Graph,
    inputs: Mapping[str, Array],
    method: str = "auto",
    progress: Progress = silent,
    input_quants: Mapping[str, Quant] | None = None,
) -> Calibration:
    """Choose the scales of a float graph.

    `inputs` are real numbers of at least one sample, [samples, *shape] by name; `method` is "auto", or a key of
    `ranges.METHODS`; `input_quants` fixes the scales of inputs. Raise CompileError for an unknown method, or values that are
    not finite.
    """
    if method != "auto" and method not in METHODS:
        raise CompileError(f"the method {method} is unknown", f"it is one of auto, {', '.join(METHODS)}")
    groups = scale_groups(graph)
    histograms, members = collect_histograms(graph, inputs, progress), groups.members()
    seen = {group: [histograms[name] for name in names if name in histograms] for group, names in members.items()}
    joined = {group: accumulated(Histogram.joined, each) for group, each in seen.items() if each}
    fixed = groups.fixed | {groups.group(name): quant for name, quant in (input_quants or {}).items()}
    settled: dict[str, Choice] = {group: ("given", quant) for group, quant in fixed.items()}
    cells = largest_cell_states(graph, inputs)
    for group in {groups.group(cell) for cell in cells}:
        largest = max(value for cell, value in cells.items() if groups.group(cell) == group)
        settled[group] = "power of two", power_of_two_quant(largest)
    least, methods = least_scales(graph, groups), METHODS if method == "auto" else {method: METHODS[method]}
    candidates = {
        group: _merged({name: affine(*choose(histogram), least_scale=least[group]) for name, choose in methods.items()})
        for group, histogram in joined.items()
        if group not in settled
    }
    settled |= {group: next(iter(choices.items())) for group, choices in candidates.items() if len({*choices.values()}) == 1}
    differing = {group: choices for group, choices in candidates.items() if group not in settled}
    if differing:
        settled |= _best_candidates(graph, inputs, differing, groups, settled=settled, progress=progress)
    # the only groups that are left consist of requantised copies, which have no histogram; int8 has 1/256 of the steps of int16
    for copy, cell in groups.narrowed.items():
        settled.setdefault(groups.group(copy), ("given", Quant((256 * settled[groups.group(cell)][1].scale[0],), (0,))))
    settled |= {group: ("minmax", affine(0, 0)) for group in members if group not in settled}
    quants = {group: quant for group, (_, quant) in settled.items()}
    return Calibration(groups, _coarsened(graph, groups, quants), {group: name for group, (name, _) in settled.items()})


def _coarsened(graph: Graph, groups: ScaleGroups, quants: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return the scales with output scales raised that are below FINEST times the scale of the sum or product they rescale."""
    coarse = dict(quants)
    for op in graph.ops:
        inputs = [coarse[groups.group(name)].scale[0] for name in op.inputs if name in groups.parent]
        group = groups.group(op.outputs[0]) if op.outputs[0] in groups.parent else ""
        spec = SPECS[op.kind]
        # rsqrt: its output falls as its input grows
        is_exempt = spec.shares_scale or spec.family in ("recurrent", "sequence") or op.kind == "rsqrt"
        if not inputs or not group or group in groups.fixed or is_exempt:
            continue
        computed = max(inputs)
        constants = [t.data for t in graph.inputs_of(op) if t is not None and t.data is not None and is_float(t)]
        if spec.arithmetic == "sum" and constants and constants[0].any():
            computed = max(computed, affine(constants[0].min(), constants[0].max()).scale[0])
        if spec.arithmetic == "product" and len(inputs) > 1:
            computed = inputs[0] * inputs[1]
        elif op.kind == "squared_difference":
            computed **= 2
        elif spec.weights is not None or op.kind == "mul":
            computed *= float(np.abs(constants[0]).max(initial=0)) / 127
        factor = computed * FINEST / coarse[group].scale[0]
        if factor > 1:
            low, high = interval(coarse[group])
            coarse[group] = affine(factor * low, factor * high)
    return coarse


def collect_histograms(graph: Graph, inputs: Mapping[str, Array], progress: Progress = silent) -> dict[str, Histogram]:
    """Return the histogram of the values of every float activation over all samples, by the activation's name.

    Scores masked before a softmax count as NEGLIGIBLE below the largest, and values beyond `clamped_ranges` as the range's end.
    Raise CompileError if a value is infinite or NaN.
    """
    masked = {op.outputs[0] for op in graph.ops if masks_scores(graph, op)} - {*graph.outputs}
    scores = {name for name in masked if {graph.ops[index].kind for index in graph.consumers.get(name, ())} == {"softmax"}}
    histograms = {t.name: Histogram() for t in graph.tensors.values() if t.dtype == "float32" and t.data is None}
    clamped = clamped_ranges(graph)

    def count(name: str, values: Array) -> Array:
        if name in histograms:
            if not np.isfinite(values).all():
                why, hint = "becomes infinite or NaN on a calibration sample", "look at the samples and at the float model"
                raise CompileError(why, hint, tensor=name)
            counted = _without_masked(values) if name in scores else values
            histograms[name].add(np.clip(counted, *clamped[name]) if name in clamped else counted)
        return values

    for op in graph.ops:
        state = graph.optional_input(op, layers.STATE) if SPECS[op.kind].family == "sequence" else None
        if state is not None and state.data is not None:  # quantised like the output
            count(op.outputs[0], state.data)
    variables = {op.inputs[0] for op in graph.ops if op.kind == "read_variable"}
    for name, first in initial_state(graph).items():
        if name in variables:
            count(name, first)
    for done in visit_all(graph, inputs, count):
        progress("calibrating", done, len(next(iter(inputs.values()))))
    return histograms


def clamped_ranges(graph: Graph) -> dict[str, tuple[float, float]]:
    """Return, by name, the range to which all readers of an activation clamp it, perhaps after moves; int8 saturates alike."""
    ranges: dict[str, tuple[float, float]] = {}
    for op in reversed(graph.ops):
        out = [ranges.get(name, ALL) for name in op.outputs]
        low, high = min(least for least, _ in out), max(most for _, most in out)
        spec, constants = SPECS[op.kind], [t.data for t in graph.inputs_of(op) if t is not None and t.data is not None]
        if op.kind in (*ACTIVATIONS, "hard_swish") and spec.useful is not None:
            low, high = spec.useful(low, high)
        elif op.kind in CLAMPS:
            low = max([low, *(float(data.min()) for data in constants if takes_larger(op))])
            high = min([high, *(float(data.max()) for data in constants if not takes_larger(op))])
        elif not spec.moves and op.kind not in CHOOSING:
            low, high = ALL
        for name in op.inputs:
            if name is not None:
                least, most = ranges.get(name, (low, high))
                ranges[name] = ALL if name in (*graph.outputs, *graph.inputs) else (min(low, least), max(high, most))
    return {name: ends for name, ends in ranges.items() if ends != ALL and ends[0] < ends[1]}


def _without_masked(scores: Array) -> Array:
    """Raise scores of a softmax more than MASKED below the maximum of the last axis to NEGLIGIBLE below it."""
    most = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(scores < most - MASKED, most - NEGLIGIBLE, scores)


def largest_cell_states(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, float]:
    """Return the largest magnitude of each LSTM's cell state (by the name of the state), over all samples and time steps."""
    largest = dict[str, float]()
    for op in graph.ops:
        if SPECS[op.kind].family == "recurrent" or (SPECS[op.kind].family == "sequence" and layers.has_cell(op)):
            names = [name for _, name in float_inputs(graph, op) if graph.tensors[name].role != "state"]
            samples = outputs(graph, inputs, names)
            find = _largest_cell if SPECS[op.kind].family == "sequence" else _largest_kept_cell
            cell = op.outputs[1 if SPECS[op.kind].family == "sequence" else 2]
            largest[cell] = max(find(graph, op, dict(zip(names, each, strict=True))) for each in zip(*samples, strict=True))
    return largest


def _largest_cell(graph: Graph, op: Op, values: Mapping[str, Array]) -> float:
    """Return the largest magnitude of the cell state of a stateless_lstm for the `values` of its inputs in one sample."""
    arrays = [None if t is None else values.get(t.name, t.data) for t in graph.inputs_of(op)]
    first = arrays[layers.CELL]
    states = [cell for _, cell in layers.real_lstm_states(op, arrays)]
    return float(np.abs([*states, *([] if first is None else [first[0]])]).max())


def _largest_kept_cell(graph: Graph, op: Op, values: Mapping[str, Array]) -> float:
    """Return the largest magnitude of the cell state of TFLite's LSTM in one sample, which begins with the states 0."""
    axis, largest = lstm.time_and_batch(graph, op)[0], 0.0
    arrays = [None if t is None else t.data for t in graph.inputs_of(op)]
    arrays[lstm.HIDDEN], arrays[lstm.CELL] = (np.zeros(tensor.shape, np.float32) for tensor in graph.outputs_of(op)[1:])
    for step in range(graph.input(op).shape[axis]):
        arrays[0] = np.take(values[op.inputs[0] or ""], [step], axis)
        _, arrays[lstm.HIDDEN], cell = spec_for(graph, op).reference(graph, op, arrays)
        arrays[lstm.CELL], largest = cell, max(largest, float(np.abs(cell).max()))
    return largest


def power_of_two_quant(largest: float) -> Quant:
    """Return the smallest power of two that is an int16 scale for values up to `largest`, below 2^MOST_CELL_BITS."""
    bits = np.ceil(np.log2(max(largest, 2.0**-15) / (1 - 2.0**-15)))
    return Quant((float(2.0 ** (np.clip(bits, 0, MOST_CELL_BITS) - 15)),), (0,))


def downstream(graph: Graph, names: set[str]) -> tuple[str, ...]:
    """Return the names of the ops, in execution order, that depend on one of the tensors `names`, directly or indirectly."""
    reached, ops = set(names), []
    for op in graph.ops:
        if reached.intersection(name for name in op.inputs if name is not None):
            reached.update(op.outputs)
            ops.append(op.name)
    return tuple(ops)


def _merged(choices: Mapping[str, Quant]) -> dict[str, Quant]:
    """Return `choices` with nearly equal Quants (scales within SAME_SCALE, zero points within 2) replaced by the first."""
    merged: dict[str, Quant] = {}
    for name, quant in choices.items():
        alike = (
            other
            for other in merged.values()
            if abs(quant.scale[0] / other.scale[0] - 1) < SAME_SCALE and abs(quant.zero_point[0] - other.zero_point[0]) <= 2
        )
        merged[name] = next(alike, quant)
    return merged


def subsample(graph: Graph, inputs: Mapping[str, Array], runs: float, most: int = TRIED) -> dict[str, Array]:
    """Return at most `most` samples, so few that `runs` runs need about MOST_WORK MACs and all activations fit into memory."""
    chosen = _subsample_indices(graph, inputs, runs, most)
    return {name: array[chosen] for name, array in inputs.items()}


def _subsample_indices(graph: Graph, inputs: Mapping[str, Array], runs: float, most: int = TRIED) -> Array:
    in_memory = (1 << 27) // sum(t.elements for t in graph.tensors.values() if t.data is None)
    count = int(min(most, max(2, MOST_WORK / max(1, runs * macs(graph))), max(1, in_memory)))
    return some_samples(graph, count, len(next(iter(inputs.values()))))


def some_samples(graph: Graph, count: int, total: int) -> Array:
    """Return the indices of at most `count` of `total` samples, evenly spaced, or the first if they are consecutive calls."""
    return np.arange(min(count, total)) if keeps_variables(graph) else evenly_spaced(count, total)


def _with_largest(inputs: Mapping[str, Array], chosen: Array) -> dict[str, Array]:
    """Return the samples `chosen`, and of each input a far larger sample, without which a range that clips it looks best."""
    more = set[int]()
    for array in inputs.values():
        magnitudes = np.abs(array.reshape(len(array), -1)).max(axis=1, initial=0)
        if magnitudes.max() > FAR_ABOVE * magnitudes[chosen].max():
            more.add(int(magnitudes.argmax()))
    return {name: array[sorted({*map(int, chosen), *more})] for name, array in inputs.items()}


def evenly_spaced(count: int, total: int) -> Array:
    """Return at most `count` indices in [0, total), evenly spaced."""
    return np.unique(np.linspace(0, total - 1, min(count, total)).astype(int))


def fake_quantised(values: Array, quant: Quant | None, dtype: str = "int8") -> Array:
    """Quantise real numbers and dequantise them again; return them unchanged if `quant` is None."""
    return values if quant is None else dequantised(quantised(values, quant, dtype), quant)


def _best_candidates(
    graph: Graph,
    inputs: Mapping[str, Array],
    candidates: dict[str, dict[str, Quant]],
    groups: ScaleGroups,
    *,
    settled: Mapping[str, Choice],
    progress: Progress,
) -> dict[str, Choice]:
    """Return the best method and scale for each scale group in `candidates`.

    First each group gets the candidate that changes the outputs least if nothing else is quantised. This mixture is then
    compared with each single method, because one clipped range can hide the clipping of another. `candidates` maps group ->
    method -> scale; `settled` has the choices for all other groups.
    """
    trials = sum(len({*choices.values()}) for choices in candidates.values())
    values = evaluate(graph, _with_largest(inputs, _subsample_indices(graph, inputs, trials / 2 + len(METHODS))), keep=True)
    names, members, best, done = signal_tensors(graph), groups.members(), dict[str, Choice](), 0
    for group, choices in candidates.items():
        tied, noises = {name for name in members[group] if name in values}, dict[Quant, float]()
        ops = downstream(graph, tied)
        for quant in dict.fromkeys(choices.values()):

            def changed(name: str, array: Array, quant: Quant = quant, tied: set[str] = tied) -> Array:
                return fake_quantised(array, quant) if name in tied else array

            start = values | {name: changed(name, values[name]) for name in tied}
            noises[quant] = noise_to_signal(values, evaluate(graph, start, ops=ops, visit=changed, keep=True), names)
            done += 1
            progress("choosing ranges", done, trials)
        least = min(noises, key=lambda quant: noises[quant])
        best[group] = next(method for method, quant in choices.items() if quant == least), least
    mixtures = [best, *({group: (method, choices[method]) for group, choices in candidates.items()} for method in METHODS)]

    def total_noise(chosen: Mapping[str, Choice]) -> float:
        quants = {group: quant for group, (_, quant) in {**settled, **chosen}.items()}

        def visit(name: str, array: Array) -> Array:
            return fake_quantised(array, quants.get(groups.group(name)) if name in groups.parent else None, groups.dtype(name))

        start = {name: values[name] for name in graph.inputs}
        return noise_to_signal(values, evaluate(graph, start, visit=visit, keep=True), names)

    return min(mixtures, key=total_noise)
