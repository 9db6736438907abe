"""Compare an int8 graph with the float graph it was made from: signal to quantisation noise ratio (SQNR) and agreement.

SQNR is measured before a final softmax, sigmoid or the like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import Graph
from ..ops import SPECS
from ..progress import Progress, silent
from .calibration_samples import Samples, check_labels
from .convert import as_integers, as_real
from .evaluate import Array, chunks, outputs

LEAST_POWER = 1e-100  # of a signal, against division by 0; below the square of the smallest float32


@dataclass(frozen=True)
class Fidelity:
    """Closeness of an int8 network to the float one on some samples."""

    samples: int
    sqnr_db: float
    agreement: float | None  # share of samples with the same predicted class; None if the network is no classifier
    accuracy: tuple[float, float] | None  # (float, int8) share of samples with the right class; None without labels


def signal_tensors(graph: Graph) -> tuple[str, ...]:
    """Return the tensors at which SQNR is measured: the outputs, or the input of a final softmax or the like."""
    names = []
    for name in graph.outputs:
        op = graph.ops[graph.producer[name]] if name in graph.producer else None
        names.append(op.inputs[0] if op is not None and SPECS[op.kind].output_quant is not None and op.inputs[0] else name)
    return tuple(dict.fromkeys(name for name in names if graph.tensors[name].dtype == "float32")) or graph.outputs


def noise_to_signal(reference: Mapping[str, Array], changed: Mapping[str, Array], names: tuple[str, ...]) -> float:
    """Return the power of the difference over the power of the reference, added over the tensors `names`."""
    total = 0.0
    for name in names:
        signal = reference[name].astype(np.float64)
        total += float(((signal - changed[name]) ** 2).sum()) / max(float((signal**2).sum()), LEAST_POWER)
    return total


def decibel(noise_to_signal: float) -> float:
    """Return a noise to signal ratio as SQNR in dB."""
    return float(-10 * np.log10(max(noise_to_signal, 1e-30)))


def sqnr(real: Graph, small: Graph, inputs: Mapping[str, Array]) -> float:
    """Return the SQNR of an int8 graph in dB for real inputs [samples, *shape]."""
    names = signal_tensors(real)
    expected = dict(zip(names, outputs(real, inputs, names), strict=True))
    computed = zip(names, outputs(small, as_int8(small, inputs), names), strict=True)
    return decibel(noise_to_signal(expected, {n: as_real(small.tensors[n], values) for n, values in computed}, names))


def fidelity(real: Graph, small: Graph, samples: Samples, progress: Progress = silent) -> Fidelity:
    """Compare an int8 graph with the float one, which has the same tensor names, on all samples."""
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
            classes.append((predicted_classes(expected[-1]), predicted_classes(scores)))
        progress("comparing with the float model", part.stop, len(samples))
    sqnr_db = decibel(float((lost / np.maximum(power, LEAST_POWER)).sum()))
    if not classes:
        return Fidelity(len(samples), sqnr_db, None, None)
    before, after = (np.concatenate(column) for column in zip(*classes, strict=True))
    right = None
    if samples.labels is not None:
        right = float(np.mean(before == samples.labels)), float(np.mean(after == samples.labels))
    return Fidelity(len(samples), sqnr_db, float(np.mean(before == after)), right)


def accuracy(graph: Graph, samples: Samples, inputs: Sequence[str]) -> float:
    """Return the share of labelled samples that a float or int8 graph classifies right.

    `inputs` are the names of the samples' arrays, in the order of the graph's inputs.
    """
    assert samples.labels is not None
    found: list[Array] = []
    for part in chunks(graph, len(samples)):
        batch = samples.batch(range(part.start, part.stop))
        own = {name: batch[other] for name, other in zip(graph.inputs, inputs, strict=True)}
        (scores,) = outputs(graph, as_int8(graph, own), graph.outputs)
        found.append(predicted_classes(as_real(graph.tensors[graph.outputs[0]], scores)))
    return float(np.mean(np.concatenate(found) == samples.labels))


def as_int8(small: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return real inputs quantised to the types and scales of an int8 graph's inputs."""
    return {name: as_integers(small.tensors[name], values) for name, values in inputs.items()}


def is_classifier(graph: Graph) -> bool:
    """Return whether the only output is a vector of scores, not of the size of an input, or a single sigmoid."""
    out = graph.tensors[graph.outputs[0]]
    if len(graph.outputs) != 1 or out.shape[-1:] != (out.elements,):
        return False
    if out.elements == 1:
        return out.name in graph.producer and graph.ops[graph.producer[out.name]].kind == "logistic"
    return all(graph.tensors[name].elements != out.elements for name in graph.inputs)


def check_sample_labels(graph: Graph, samples: Samples) -> None:
    """Raise CompileError for a label that is not a class of the network."""
    if samples.labels is not None and is_classifier(graph):
        check_labels(samples.labels, max(graph.tensors[graph.outputs[0]].elements, 2))


def predicted_classes(scores: Array) -> Array:
    """Return the class of each sample: the highest score, or 1 if the only score, a probability, is at least 0.5."""
    flat = scores.reshape(len(scores), -1)
    return flat.argmax(axis=1) if flat.shape[1] > 1 else np.asarray(flat[:, 0] >= 0.5, np.int64)
