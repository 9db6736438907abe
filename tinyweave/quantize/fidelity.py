"""Compare an int8 graph with its float graph: signal to quantisation noise ratio (SQNR) and agreement of classes.

If an output is computed by a softmax, a sigmoid or a similar op, SQNR is measured at the input of this op, except at scores
that a mask lowers before a softmax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..ir import Graph, Op
from ..ops import SPECS
from ..support.progress import Progress, silent
from .calibration_samples import Samples, check_labels
from .convert import as_integers, as_real
from .evaluate import Array, chunks, outputs
from .scale_groups import is_float

TOP = 5  # classes that `best_classes` returns
MASKED = 50.0  # a score so far below the maximum is masked out
LEAST_POWER = 1e-100  # least power of a signal, against division by 0; below the square of the smallest float32


@dataclass(frozen=True)
class Fidelity:
    """How closely an int8 network reproduces the float network on some samples."""

    samples: int
    sqnr_db: float
    agreement: float | None  # fraction of samples with the same predicted class; None if the network is no classifier
    accuracy: tuple[float, float] | None  # fraction of samples with the right class (float, int8); None without labels
    best: Array | None = field(default=None, compare=False, repr=False)  # `best_classes` of the int8 network


def masks_scores(graph: Graph, op: Op) -> bool:
    """Return whether an op masks scores: a sum or a selection with a constant that has values of at most -MASKED."""
    spec, constants = SPECS[op.kind], [tensor.data for tensor in graph.inputs_of(op) if is_float(tensor) and tensor is not None]
    is_one = spec.arithmetic == "sum" or spec.family == "selection"
    return is_one and any(data is not None and data.min(initial=0.0) <= -MASKED for data in constants)


def signal_tensors(graph: Graph) -> tuple[str, ...]:
    """Return the tensors at which SQNR is measured: outputs, or unmasked inputs of a softmax or sigmoid before them."""
    names = []
    for name in graph.outputs:
        op = graph.ops[graph.producer[name]] if name in graph.producer else None
        before = op.inputs[0] if op is not None and SPECS[op.kind].output_quant is not None else None
        is_masked = before in graph.producer and masks_scores(graph, graph.ops[graph.producer[before]])
        names.append(name if before is None or is_masked else before)
    return tuple(dict.fromkeys(name for name in names if graph.tensors[name].dtype == "float32")) or graph.outputs


def noise_to_signal(reference: Mapping[str, Array], changed: Mapping[str, Array], names: tuple[str, ...]) -> float:
    """Return the sum, over the tensors `names`, of (power of the error) / (power of the signal in `reference`)."""
    total = 0.0
    for name in names:
        signal = reference[name].astype(np.float64)
        total += float(((signal - changed[name]) ** 2).sum()) / max(float((signal**2).sum()), LEAST_POWER)
    return total


def decibel(noise_to_signal: float) -> float:
    """Convert a noise to signal ratio of powers to SQNR in dB."""
    return float(-10 * np.log10(max(noise_to_signal, 1e-30)))


def sqnr(real: Graph, small: Graph, inputs: Mapping[str, Array]) -> float:
    """Return the SQNR in dB of the int8 graph `small` against the float graph `real`; `inputs` are real, [samples, *shape]."""
    names = signal_tensors(real)
    expected = dict(zip(names, outputs(real, inputs, names), strict=True))
    computed = zip(names, outputs(small, as_int8(small, inputs), names), strict=True)
    return decibel(noise_to_signal(expected, {n: as_real(small.tensors[n], values) for n, values in computed}, names))


def fidelity(real: Graph, small: Graph, samples: Samples, progress: Progress = silent) -> Fidelity:
    """Compare an int8 graph (`small`) with its float graph (`real`), which has the same tensor names, on all samples."""
    check_sample_labels(real, samples)
    names = (*signal_tensors(real), real.outputs[0])
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
        if is_classifier(real):
            scores = as_real(small.tensors[real.outputs[0]], computed[-1])
            classes.append((best_classes(expected[-1])[:, 0], best_classes(scores)))
        progress("comparing with the float model", part.stop, len(samples))
    sqnr_db = decibel(float((lost / np.maximum(power, LEAST_POWER)).sum()))
    if not classes:
        return Fidelity(len(samples), sqnr_db, None, None)
    before, best = (np.concatenate(column) for column in zip(*classes, strict=True))
    after = best[:, 0]
    right = None
    if samples.labels is not None:
        right = float(np.mean(before == samples.labels)), float(np.mean(after == samples.labels))
    return Fidelity(len(samples), sqnr_db, float(np.mean(before == after)), right, best)


def accuracy(graph: Graph, samples: Samples, inputs: Sequence[str]) -> float:
    """Return the fraction of labelled samples whose class a graph predicts right; `inputs` are the samples' array names."""
    assert samples.labels is not None
    found: list[Array] = []
    for part in chunks(graph, len(samples)):
        batch = samples.batch(range(part.start, part.stop))
        own = {name: batch[other] for name, other in zip(graph.inputs, inputs, strict=True)}
        (scores,) = outputs(graph, as_int8(graph, own), graph.outputs)
        found.append(best_classes(as_real(graph.tensors[graph.outputs[0]], scores))[:, 0])
    return float(np.mean(np.concatenate(found) == samples.labels))


def as_int8(small: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Quantise real inputs, by name, to the types and scales of an int8 graph's inputs."""
    return {name: as_integers(small.tensors[name], values) for name, values in inputs.items()}


def is_classifier(graph: Graph) -> bool:
    """Return whether the only output is a vector of scores, or a sigmoid; one as large as an input may be an autoencoder's."""
    out = graph.tensors[graph.outputs[0]]
    if len(graph.outputs) != 1 or out.shape[-1:] != (out.elements,):
        return False
    if out.elements == 1:
        return out.name in graph.producer and graph.ops[graph.producer[out.name]].kind == "logistic"
    return all(graph.tensors[name].elements != out.elements for name in graph.inputs)


def check_sample_labels(graph: Graph, samples: Samples) -> None:
    """Raise CompileError if the network is a classifier and a label is not one of its classes."""
    if samples.labels is not None and is_classifier(graph):
        check_labels(samples.labels, max(graph.tensors[graph.outputs[0]].elements, 2))


def best_classes(scores: Array) -> Array:
    """Return the TOP classes of each sample, the highest score first; a single score is the probability of class 1."""
    flat = scores.reshape(len(scores), -1)
    return np.argsort(-flat, axis=1, kind="stable")[:, :TOP] if flat.shape[1] > 1 else np.asarray(flat >= 0.5, np.int64)
