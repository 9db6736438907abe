"""Post-training quantisation: calibrate a float graph on samples, then convert it to int8 or mixed precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir import CompileError, Graph
from ..support.progress import Progress, silent
from .calibrate import Calibration, calibrate, evenly_spaced, some_samples, subsample
from .calibration_samples import Samples, check_samples_differ
from .convert import to_int8
from .evaluate import Array
from .fidelity import check_sample_labels, fidelity, is_classifier
from .mixed_precision import Measures, MixedPrecision, PrecisionLimits, choose_precision
from .simplify_float import simplify_float

MEASURED = 64  # limit on samples for adaptive rounding, and for measuring layers
LEARNED = 16  # least number of samples for adaptive rounding
WEIGHED = 32  # limit on samples for measuring the damage of each layer in mixed precision
CALIBRATION = 200  # default limit on samples for calibration


@dataclass(frozen=True, eq=False)
class Quantised:
    """The result of post-training quantisation."""

    real: Graph  # the simplified float graph
    graph: Graph  # its int8 form
    calibration: Calibration
    used: tuple[int, ...]  # indices of the samples used for calibration
    precision: MixedPrecision | None  # None without limits


@dataclass(frozen=True)
class QuantiseOptions:
    """Options of quantisation."""

    method: str = "auto"  # how ranges are chosen: "auto" or one of `ranges.METHODS`
    count: int = CALIBRATION  # largest number of calibration samples
    limits: PrecisionLimits | None = None  # int4 weights and int16 activations are used to meet these, see `mixed_precision.py`


def quantise(
    graph: Graph,
    samples: Samples,
    options: QuantiseOptions = QuantiseOptions(),
    *,
    flash: Callable[[Graph], int] = lambda graph: 0,
    progress: Progress = silent,
) -> Quantised:
    """Quantise a float graph, calibrated on `options.count` samples; `flash` measures int8 graphs if there is a limit."""
    limits = options.limits
    if options.count < 1:
        raise CompileError(f"{options.count} calibration samples are too few", "use at least one; a hundred or two are usual")
    real, input_quants = simplify_float(graph), samples.integer_scales()
    check_sample_labels(real, samples)
    used = tuple(map(int, some_samples(real, options.count, len(samples))))
    inputs = samples.batch(used)
    check_samples_differ(inputs)
    calibration = calibrate(real, inputs, options.method, progress, input_quants)
    if limits is None:
        return Quantised(real, to_int8(real, calibration.groups, calibration.quants), calibration, used, None)
    few = subsample(real, inputs, 8, MEASURED)
    learning = subsample(real, _held_out(inputs, few), 8, MEASURED)
    weighing, quality = subsample(real, few, 4 * len(real.ops), WEIGHED), _quality(real, samples, limits, progress)
    measures = Measures(weighing, learning, inputs, flash, quality)
    precision = choose_precision(real, calibration, limits, measures, progress)
    return Quantised(real, precision.graph, calibration, used, precision)


def _held_out(inputs: Mapping[str, Array], few: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the samples of `inputs` that are not in `few`, on which layers are measured; all if too few would be left."""
    total, measured = (len(next(iter(arrays.values()))) for arrays in (inputs, few))
    others = np.setdiff1d(np.arange(total), evenly_spaced(measured, total))
    return {name: array[others] for name, array in inputs.items()} if len(others) >= LEARNED else inputs


def _quality(
    real: Graph, samples: Samples, limits: PrecisionLimits, progress: Progress
) -> Callable[[Graph], tuple[float, float]]:
    """Return a function of an int8 graph that measures its SQNR in dB and its accuracy drop in percentage points."""
    if limits.accuracy_drop is not None and (samples.labels is None or not is_classifier(real)):
        why = "the samples have no labels" if samples.labels is None else "the network is not a classifier"
        raise CompileError(
            f"the accuracy cannot be limited: {why}", "limit the signal to noise ratio, or give a class per sample"
        )

    def quality(graph: Graph) -> tuple[float, float]:
        measured = fidelity(real, graph, samples, progress)
        return measured.sqnr_db, 0.0 if measured.accuracy is None else 100 * (measured.accuracy[0] - measured.accuracy[1])

    return quality
