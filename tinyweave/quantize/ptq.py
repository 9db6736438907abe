"""Post-training quantisation: from a float graph and samples to an int8 graph, and what it lost.

In: a Graph as imported, Samples. Out: a Quantised: both graphs, and how scales were chosen; and the Fidelity of the int8 graph
to the float one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import CompileError, Graph, Quant
from ..progress import Progress, silent
from .calibrate import LEAST_POWER, Calibration, calibrate, decibel, evenly, noise, picked, signals
from .convert import as_integers, as_real, to_int8
from .evaluate import chunks, outputs
from .improve import corrected, equalised
from .precision import Measures, Mixed, PrecisionLimits, keeps, mixed
from .prepare import prepare
from .rounding import rounded
from .samples import Samples, check_labels

Array = NDArray[Any]
MEASURED = 64  # samples that gains are measured on, and biases corrected on, at most
LEARNED = 16  # samples that weights are rounded by, at least
WEIGHED = 32  # samples that layers are weighed on for mixed precision, at most
CALIBRATION = 200  # samples that scales are chosen from, at most


@dataclass(frozen=True, eq=False)
class Quantised:
    """real: the float graph, simplified. graph: the int8 one. used: the samples that calibrated it.

    gains: what was tried to lose less -> what it gained in dB at the outputs; it was left out where that is not above 0, or
    where it is in `left_out`: with it, a limit would have been missed.
    precision: which layers are not int8 throughout, where there were limits.
    """

    real: Graph
    graph: Graph
    calibration: Calibration
    used: tuple[int, ...]
    gains: Mapping[str, float]
    precision: Mixed | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fidelity:
    """How near the int8 network comes to the float one on some samples.

    sqnr_db: power of the float outputs over that of the difference, before a last softmax, sigmoid or the like. agreement:
    share of the samples with the same class; accuracy: (float, int8) share of the right class; None where there are no classes,
    or no labels.
    """

    samples: int
    sqnr_db: float
    agreement: float | None
    accuracy: tuple[float, float] | None


def quantise(
    graph: Graph,
    samples: Samples,
    *,
    method: str = "auto",
    count: int = CALIBRATION,
    equalize: bool = False,
    correct_bias: bool = False,
    adaptive_rounding: bool = False,
    limits: PrecisionLimits | None = None,
    flash: Callable[[Graph], int] = lambda graph: 0,
    progress: Progress = silent,
) -> Quantised:
    """Return the int8 form of a float graph, with scales from at most `count` samples, evenly spread over those given.

    equalize, correct_bias, adaptive_rounding: see `improve.equalised`, `improve.corrected` and `rounding.rounded`; each is kept
    where it gains and the limits still hold. limits: for which layers may have 4-bit weights and int16 maps, see
    `precision.mixed`; `flash` returns the bytes that a graph needs.
    """
    if count < 1:
        raise CompileError(f"{count} samples choose no ranges", "use at least one; a hundred or two are usual")
    prepared, given = prepare(graph), samples.own_steps()
    _check_labels(prepared, samples)
    used = tuple(map(int, evenly(count, len(samples))))
    inputs = samples.batch(used)
    (real, small, calibration), gains = _calibrated(prepared, inputs, method, progress, given), dict[str, float]()
    few = picked(real, inputs, 8, MEASURED)
    reached = sqnr(real, small, few) if equalize or correct_bias or adaptive_rounding else 0.0
    if equalize:
        other = _calibrated(equalised(real, inputs), inputs, method, progress, given)
        gains["equalised channels"] = (now := sqnr(other[0], other[1], few)) - reached
        if now > reached:
            (real, small, calibration), reached = other, now
    precision, left_out = None, list[str]()
    if limits is not None:
        measures = _measures(real, samples, used, limits, flash=flash, progress=progress)
        precision = mixed(real, calibration, limits, measures, progress)
        small = precision.graph
        reached = sqnr(real, small, few) if correct_bias or adaptive_rounding else 0.0

    def better(other: Graph, what: str) -> tuple[Graph, float]:
        """Return the better graph, of those that keep the limits, and its signal to noise on the few samples."""
        gains[what] = (now := sqnr(real, other, few)) - reached
        if now > reached and limits is not None and not keeps(other, limits, measures):
            left_out.append(what)
        return (other, now) if now > reached and what not in left_out else (small, reached)

    if adaptive_rounding:
        learning = picked(real, _apart(inputs, few), 8, MEASURED)
        small, reached = better(rounded(real, small, learning, progress), "adaptive rounding")
    if correct_bias:
        small, reached = better(corrected(real, small, few), "corrected biases")
    return Quantised(real, small, calibration, used, gains, precision, tuple(left_out))


def _apart(inputs: Mapping[str, Array], few: Mapping[str, Array]) -> dict[str, Array]:
    """Return the samples that are not among the few on which gains are measured, or all where those are too few."""
    total, measured = (len(next(iter(arrays.values()))) for arrays in (inputs, few))
    others = np.setdiff1d(np.arange(total), evenly(measured, total))
    return {name: array[others] if len(others) >= LEARNED else array for name, array in inputs.items()}


def _measures(
    real: Graph,
    samples: Samples,
    used: Sequence[int],
    limits: PrecisionLimits,
    *,
    flash: Callable[[Graph], int],
    progress: Progress,
) -> Measures:
    """Return how layers are weighed, and how limits are measured: those of quality on all samples."""
    ranging = samples.batch(used)
    if limits.accuracy_drop is not None and (samples.labels is None or not has_classes(real)):
        why = "the samples have no labels" if samples.labels is None else "the network is no classifier"
        raise CompileError(f"no accuracy can be kept: {why}", "limit the signal to noise ratio, or give a class per sample")

    def quality(graph: Graph) -> tuple[float, float]:
        near = fidelity(real, graph, samples, progress)
        return near.sqnr_db, 0.0 if near.accuracy is None else 100 * (near.accuracy[0] - near.accuracy[1])

    return Measures(picked(real, ranging, 4 * len(real.ops), WEIGHED), ranging, flash, quality)


def _calibrated(
    real: Graph, inputs: Mapping[str, Array], method: str, progress: Progress, given: Mapping[str, Quant]
) -> tuple[Graph, Graph, Calibration]:
    calibration = calibrate(real, inputs, method, progress, given)
    return real, to_int8(real, calibration.groups, calibration.quants), calibration


def sqnr(real: Graph, small: Graph, inputs: Mapping[str, Array]) -> float:
    """Return the signal to noise ratio of an int8 graph at its outputs, in dB, on stacked real inputs."""
    names = signals(real)
    expected = dict(zip(names, outputs(real, inputs, names), strict=True))
    computed = zip(names, outputs(small, as_int8(small, inputs), names), strict=True)
    return decibel(noise(expected, {name: as_real(small.tensors[name], values) for name, values in computed}, names))


def fidelity(real: Graph, small: Graph, samples: Samples, progress: Progress = silent) -> Fidelity:
    """Compare an int8 graph with the float one, tensor names the same, on all samples."""
    _check_labels(real, samples)
    names = (*signals(real), real.outputs[0])
    power, lost = np.zeros(len(names) - 1), np.zeros(len(names) - 1)
    classes: list[tuple[Array, Array]] = []
    for part in chunks(real, len(samples)):
        inputs = samples.batch(range(part.start, part.stop))
        expected = outputs(real, inputs, names)
        computed = outputs(small, as_int8(small, inputs), names)
        for index, (name, a, b) in enumerate(zip(names[:-1], expected, computed, strict=False)):
            reference = a.astype(np.float64)
            power[index] += (reference**2).sum()
            lost[index] += ((reference - as_real(small.tensors[name], b)) ** 2).sum()
        if has_classes(real):
            result = small.tensors[real.outputs[0]]
            classes.append((classes_of(real, expected[-1]), classes_of(real, as_real(result, computed[-1]))))
        progress("comparing with the float model", part.stop, len(samples))
    sqnr = decibel(float((lost / np.maximum(power, LEAST_POWER)).sum()))
    if not classes:
        return Fidelity(len(samples), sqnr, None, None)
    before, after = (np.concatenate(column) for column in zip(*classes, strict=True))
    accuracy = None
    if samples.labels is not None:
        accuracy = float(np.mean(before == samples.labels)), float(np.mean(after == samples.labels))
    return Fidelity(len(samples), sqnr, float(np.mean(before == after)), accuracy)


def right(graph: Graph, real: Graph, samples: Samples) -> float:
    """Return the share of labelled samples that a graph gets right, int8 or not; its inputs are like those of `real`."""
    assert samples.labels is not None
    found: list[Array] = []
    for part in chunks(graph, len(samples)):
        inputs = samples.batch(range(part.start, part.stop))
        own = {name: inputs[other] for name, other in zip(graph.inputs, real.inputs, strict=True)}
        (scores,) = outputs(graph, as_int8(graph, own), graph.outputs)
        found.append(classes_of(graph, as_real(graph.tensors[graph.outputs[0]], scores)))
    return float(np.mean(np.concatenate(found) == samples.labels))


def as_int8(small: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return real inputs as the int8 graph takes them."""
    return {name: as_integers(small.tensors[name], values) for name, values in inputs.items()}


def has_classes(graph: Graph) -> bool:
    """Return whether the network is a classifier: one vector of scores, which is not the input again; or one probability."""
    out = graph.tensors[graph.outputs[0]]
    if len(graph.outputs) != 1 or out.shape[-1:] != (out.elements,):
        return False
    if out.elements == 1:
        return out.name in graph.producer and graph.ops[graph.producer[out.name]].kind == "logistic"
    return all(graph.tensors[name].elements != out.elements for name in graph.inputs)


def _check_labels(graph: Graph, samples: Samples) -> None:
    """Raise CompileError where a label is no class of the network."""
    if samples.labels is not None and has_classes(graph):
        check_labels(samples.labels, max(graph.tensors[graph.outputs[0]].elements, 2))


def classes_of(graph: Graph, scores: Array) -> Array:
    """Return the class of each sample: the highest score, or of one probability whether it is at least a half."""
    flat = scores.reshape(len(scores), -1)
    return flat.argmax(axis=1) if flat.shape[1] > 1 else np.asarray(flat[:, 0] >= 0.5, np.int64)
