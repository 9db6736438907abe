"""Remove channels of a float model until it fits limits, train it to give the float outputs, and make it int8."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..devices import parse_size
from ..exporters.tflite import to_tflite
from ..ir import CompileError, Graph
from ..lazy import lazy
from ..ops import macs
from ..quantize.calibrate import calibrate
from ..quantize.calibration_samples import Samples
from ..quantize.channel_pruning import Footprint, pruned
from ..quantize.convert import to_int8
from ..quantize.evaluate import outputs
from ..quantize.fidelity import fidelity, is_classifier
from ..quantize.ptq import CALIBRATION
from ..quantize.scale_groups import check_quantisable
from ..quantize.simplify_float import simplify_float
from ..support.installing import install
from ..support.progress import Progress, silent
from .models import with_io
from .options import EPOCHS, RATE
from .plans import SMALLEST, estimate_flash, make_plan
from .quantisation import METADATA, SampleOptions
from .results import Model, Pruning

if TYPE_CHECKING:
    from ..quantize import qat
else:
    qat = lazy("tinyweave.quantize.qat")

AS_THEY_ARE = SampleOptions()
RANGING = 8  # samples that choose the scales of candidates; few, since the size of a network does not depend on scales
ANY = 1 << 40  # bytes that stand for no limit
HELD = 5  # one in 5 samples is held out
LEAST_HELD = 50  # with fewer samples, none are held out


@dataclass(frozen=True)
class PruneOptions:
    """Limits and training, as for `verbs.prune`."""

    ram: int | str | None = None
    flash: int | str | None = None
    epochs: int = EPOCHS
    rate: float = RATE


def prune_model(
    model: Model,
    samples: Any,
    options: PruneOptions,
    read_as: SampleOptions = AS_THEY_ARE,
    *,
    progress: Progress = silent,
) -> Pruning:
    """Remove channels of a float model until its int8 form fits the limits, and train the smaller network.

    The float model's outputs, and labels if there are any, guide the training. With 50 samples or more, a fifth of them is held
    out for measuring the error. Training that does not raise the SQNR is discarded.

    Raises:
        CompileError: no limit is given, the limits cannot be met, or the network cannot be quantised or trained.
    """
    ram, flash, epochs = options.ram, options.flash, options.epochs
    if ram is None and flash is None:
        raise CompileError("pruning needs a limit", "give --ram or --flash")
    limits = Footprint(ANY if ram is None else parse_size(ram), ANY if flash is None else parse_size(flash))
    check_quantisable(model.original)
    opened = read_as.open(samples, model.original)
    real = simplify_float(model.original)
    _check_trainable(real, epochs)
    some = opened.batch(range(min(RANGING, len(opened))))

    def int8(graph: Graph, inputs: dict[str, NDArray[Any]]) -> Graph:
        made = calibrate(graph, inputs, "minmax", input_quants=opened.integer_scales())
        return to_int8(graph, made.groups, made.quants)

    def measure(graph: Graph) -> Footprint:
        return _need(with_io(replace(model, original=int8(graph, some)), "model", "model"))

    before = measure(real)
    smaller, layers = pruned(real, limits, measure, progress)
    seen, unseen = _split(opened)
    calibrating = opened.batch(seen[:CALIBRATION])
    compared = opened.only(unseen)
    whole, small = fidelity(real, int8(real, calibrating), compared), int8(smaller, calibrating)
    after = cut = fidelity(real, small, compared)
    if epochs and layers:
        tuned = _tuned(real, smaller, opened, seen, epochs=epochs, rate=options.rate, progress=progress)
        after = fidelity(real, tuned, compared)
        small = tuned if after.sqnr_db > cut.sqnr_db else small
    about = {"inputs": [opened.preprocessing.record(real.tensors[name]) for name in real.inputs]}
    file = to_tflite(small, metadata={METADATA: json.dumps(about).encode()}, signature=True)
    named = model.path.with_name(f"{model.path.stem}_pruned.tflite")
    made = with_io(replace(model, original=small, file=file, path=named), "model", "model")
    return Pruning(
        made, layers, (before, _need(made)), (macs(real), macs(small)), (whole, cut, after), len(seen), epochs if layers else 0
    )


def _need(model: Model) -> Footprint:
    """Return the RAM and Flash in bytes of the smallest plan of an int8 model; the Flash is an upper bound."""
    planned = make_plan(model, SMALLEST)
    return Footprint(sum(planned.arena.values()), estimate_flash(planned).upper_bound)


def _check_trainable(graph: Graph, epochs: int) -> None:
    """Raise CompileError if the network has several inputs or outputs, or torch is missing; 0 epochs are always allowed."""
    if epochs and find_spec("torch") is None:
        raise CompileError("the training needs torch", f"{install('torch')}, or give --epochs 0")
    if epochs and (len(graph.inputs) != 1 or len(graph.outputs) != 1):
        raise CompileError("only networks with one input and one output are fine-tuned", "give --epochs 0")


def _split(samples: Samples) -> tuple[list[int], list[int]]:
    """Return the indices of the training samples and of the held-out samples.

    With fewer than LEAST_HELD samples, both have the indices of all samples.
    """
    everything = list(range(len(samples)))
    if len(samples) < LEAST_HELD:
        return everything, everything
    return [i for i in everything if i % HELD], everything[::HELD]


def _tuned(
    real: Graph, smaller: Graph, samples: Samples, seen: list[int], *, epochs: int, rate: float, progress: Progress
) -> Graph:
    """Train a pruned float graph to give the outputs of the unpruned one, and return its int8 graph."""
    inputs = samples.batch(seen)
    (wanted,) = outputs(real, inputs, real.outputs)
    ranging = {name: array[:CALIBRATION] for name, array in inputs.items()}
    module = qat.FakeQuantModule(smaller, calibrate(smaller, ranging, "minmax", input_quants=samples.integer_scales()), {})
    is_labelled = samples.labels is not None and is_classifier(real)
    labels = np.asarray(samples.labels, np.int64)[seen] if is_labelled else None
    qat.distil(module, inputs[real.inputs[0]], wanted, labels, epochs=epochs, rate=rate, progress=progress)
    return qat.converted(module)
