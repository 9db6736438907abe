"""Post-training quantisation: calibrate a float graph on samples, convert it to int8, and improve the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir import CompileError, Graph
from ..support.progress import Progress, silent
from .adaptive_rounding import adaptively_rounded
from .calibrate import Calibration, calibrate, evenly_spaced, some_samples, subsample
from .calibration_samples import Samples, check_samples_differ
from .convert import to_int8
from .equalise import equalised
from .evaluate import Array
from .fidelity import check_sample_labels, fidelity, is_classifier, sqnr
from .layerwise import bias_corrected
from .mixed_precision import Measures, MixedPrecision, PrecisionLimits, choose_precision, meets_limits
from .simplify_float import simplify_float

MEASURED = 64  # limit on samples for measuring gains and correcting biases
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
    gains: Mapping[str, float]  # improvement that was tried -> gain in SQNR at the outputs in dB; kept only if above 0
    precision: MixedPrecision | None  # None without limits
    left_out: tuple[str, ...] = ()  # improvements that gained, but broke a limit and were dropped


@dataclass(frozen=True)
class QuantiseOptions:
    """Options of quantisation; equalisation, rounding and bias correction are each kept only if they raise the SQNR.

    The latter two must also keep the limits. int4 weights are rounded adaptively without this option, too.
    """

    method: str = "auto"  # how ranges are chosen: "auto" or one of `ranges.METHODS`
    count: int = CALIBRATION  # largest number of calibration samples
    equalize: bool = False  # rescale channels between layers, see `equalise.py`
    correct_bias: bool = False  # restore the means of channels, see `layerwise.py`
    adaptive_rounding: bool = False  # learn to round each weight up or down, see `adaptive_rounding.py`
    limits: PrecisionLimits | None = None  # int4 weights and int16 activations are used to meet these, see `mixed_precision.py`


def quantise(
    graph: Graph,
    samples: Samples,
    options: QuantiseOptions = QuantiseOptions(),
    *,
    flash: Callable[[Graph], int] = lambda graph: 0,
    progress: Progress = silent,
) -> Quantised:
    """Quantise a float graph, calibrated on at most `options.count` of the samples, and try the improvements in `options`.

    `flash` returns the bytes of Flash that an int8 graph needs; it is called only if there is a Flash limit.
    """
    limits = options.limits
    if options.count < 1:
        raise CompileError(f"{options.count} calibration samples are too few", "use at least one; a hundred or two are usual")
    prepared, input_quants = simplify_float(graph), samples.integer_scales()
    check_sample_labels(prepared, samples)
    used = tuple(map(int, some_samples(prepared, options.count, len(samples))))
    inputs = samples.batch(used)
    check_samples_differ(inputs)

    def calibrated(real: Graph) -> tuple[Graph, Graph, Calibration]:
        calibration = calibrate(real, inputs, options.method, progress, input_quants)
        return real, to_int8(real, calibration.groups, calibration.quants), calibration

    (real, small, calibration), gains = calibrated(prepared), dict[str, float]()
    few = subsample(real, inputs, 8, MEASURED)
    adjusts = options.correct_bias or options.adaptive_rounding
    reached = sqnr(real, small, few) if options.equalize or adjusts else 0.0
    if options.equalize:
        other = calibrated(equalised(real, inputs))
        gains["equalised channels"] = (now := sqnr(other[0], other[1], few)) - reached
        if now > reached:
            (real, small, calibration), reached = other, now
    precision, left_out = None, list[str]()
    learning = subsample(real, _held_out(inputs, few), 8, MEASURED)
    if limits is not None:
        weighing, quality = subsample(real, few, 4 * len(real.ops), WEIGHED), _quality(real, samples, limits, progress)
        measures = Measures(weighing, learning, inputs, flash, quality)
        precision = choose_precision(real, calibration, limits, measures, progress)
        small = precision.graph
        reached = sqnr(real, small, few) if adjusts else 0.0

    def better(other: Graph, what: str) -> tuple[Graph, float]:
        """Return `other` and its SQNR if it is better and keeps the limits, else the current graph's; record the gain."""
        gains[what] = (now := sqnr(real, other, few)) - reached
        if now > reached and limits is not None and not meets_limits(other, limits, measures):
            left_out.append(what)
        return (other, now) if now > reached and what not in left_out else (small, reached)

    if options.adaptive_rounding:
        small, reached = better(adaptively_rounded(real, small, learning, progress), "adaptive rounding")
    if options.correct_bias:
        small, reached = better(bias_corrected(real, small, few), "corrected biases")
    return Quantised(real, small, calibration, used, gains, precision, tuple(left_out))


def _held_out(inputs: Mapping[str, Array], few: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the samples of `inputs` that are not in `few`, on which gains are measured; all if too few would be left."""
    total, measured = (len(next(iter(arrays.values()))) for arrays in (inputs, few))
    others = np.setdiff1d(np.arange(total), evenly_spaced(measured, total))
    return {name: array[others] for name, array in inputs.items()} if len(others) >= LEARNED else inputs


def _quality(
    real: Graph, samples: Samples, limits: PrecisionLimits, progress: Progress
) -> Callable[[Graph], tuple[float, float]]:
    """Return a function of an int8 graph that measures its SQNR in dB and its accuracy drop in percentage points.

    Raise CompileError if accuracy is limited and cannot be measured.
    """
    if limits.accuracy_drop is not None and (samples.labels is None or not is_classifier(real)):
        why = "the samples have no labels" if samples.labels is None else "the network is not a classifier"
        raise CompileError(
            f"the accuracy cannot be limited: {why}", "limit the signal to noise ratio, or give a class per sample"
        )

    def quality(graph: Graph) -> tuple[float, float]:
        measured = fidelity(real, graph, samples, progress)
        return measured.sqnr_db, 0.0 if measured.accuracy is None else 100 * (measured.accuracy[0] - measured.accuracy[1])

    return quality
