"""Prune: from a float model, samples and limits to a smaller int8 model, trained to give what the larger one gave.

In: a model as its file has it, samples, bytes of RAM and Flash. Out: a Pruning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..devices import parse_size
from ..exporters.tflite import to_tflite
from ..ir import CompileError, Graph
from ..lazy import lazy
from ..ops import macs
from ..progress import Progress, silent
from ..quantize.calibrate import calibrate
from ..quantize.convert import to_int8
from ..quantize.evaluate import outputs
from ..quantize.prepare import prepare
from ..quantize.prune import Need, pruned
from ..quantize.ptq import CALIBRATION, fidelity, has_classes
from ..quantize.rules import check_rules
from ..quantize.samples import Samples, open_samples
from ..results import Model, Pruning
from .models import with_edges
from .plans import flash_need, plan
from .quantisation import METADATA

if TYPE_CHECKING:
    from ..quantize import qat
else:
    qat = lazy("quantize.qat")

RANGING = 8  # samples that give candidates their scales, which change no bytes
ANY = 1 << 40  # bytes: no limit
HELD = 5  # one of so many samples is not trained on
LEAST_HELD = 50  # samples of which some are held out


def prune(
    model: Model,
    samples: Any,
    *,
    ram: int | str | None = None,
    flash: int | str | None = None,
    scale: Sequence[float] | None = None,
    offset: Sequence[float] = (0.0,),
    labels: Any = None,
    epochs: int = 10,
    rate: float = 1e-4,
    path: Path | None = None,
    progress: Progress = silent,
) -> Pruning:
    """Return the int8 form of a float model, read as it is, without the channels that keep it above the limits.

    ram, flash: of the plan with the least RAM and code (`--optimize size`). epochs: of fine-tuning, which needs torch; 0: none.
    Of 50 samples and more a fifth is not trained on, and what is lost is measured on these. A training after which they are no
    nearer to the float model's is left out.
    """
    if ram is None and flash is None:
        raise CompileError("there is no limit to prune for", "give --ram or --flash")
    limits = Need(ANY if ram is None else parse_size(ram), ANY if flash is None else parse_size(flash))
    check_rules(model.original)
    opened = open_samples(samples, model.original, scale, offset, labels)
    real = prepare(model.original)
    _check_trainable(real, epochs)
    some = opened.batch(range(min(RANGING, len(opened))))

    def int8(graph: Graph, inputs: dict[str, NDArray[Any]]) -> Graph:
        made = calibrate(graph, inputs, "minmax", given=opened.own_steps())
        return to_int8(graph, made.groups, made.quants)

    def measure(graph: Graph) -> Need:
        return _need(with_edges(replace(model, original=int8(graph, some)), "model", "model"))

    before = measure(real)
    smaller, layers = pruned(real, limits, measure, progress)
    seen, unseen = _split(opened)
    calibrating = opened.batch(seen[:CALIBRATION])
    compared = opened.only(unseen)
    whole, small = fidelity(real, int8(real, calibrating), compared), int8(smaller, calibrating)
    after = cut = fidelity(real, small, compared)
    if epochs and layers:
        tuned = _tuned(real, smaller, opened, seen, epochs=epochs, rate=rate, progress=progress)
        after = fidelity(real, tuned, compared)
        small = tuned if after.sqnr_db > cut.sqnr_db else small
    about = {"inputs": [opened.preprocessing.record(real.tensors[name]) for name in real.inputs]}
    file = to_tflite(small, metadata={METADATA: json.dumps(about).encode()}, signature=True)
    named = path or model.path.with_name(f"{model.path.stem}_pruned.tflite")
    made = with_edges(replace(model, original=small, file=file, path=named), "model", "model")
    return Pruning(
        made, layers, (before, _need(made)), (macs(real), macs(small)), (whole, cut, after), len(seen), epochs if layers else 0
    )


def _need(model: Model) -> Need:
    """Return what the plan of an int8 model with the least RAM and code needs."""
    planned = plan(model, optimize="size")
    return Need(sum(planned.arena.values()), flash_need(planned).upper_bound)


def _check_trainable(graph: Graph, epochs: int) -> None:
    """Raise CompileError where a network cannot be trained, before anything is done."""
    if epochs and find_spec("torch") is None:
        raise CompileError("the training needs torch", "pip install 'tinyweave[torch]', or give --epochs 0")
    if epochs and (len(graph.inputs) != 1 or len(graph.outputs) != 1):
        raise CompileError("only networks with one input and one output are fine-tuned", "give --epochs 0")


def _split(samples: Samples) -> tuple[list[int], list[int]]:
    """Return which samples are trained on, and which are compared: others, where there are enough."""
    everything = list(range(len(samples)))
    if len(samples) < LEAST_HELD:
        return everything, everything
    return [i for i in everything if i % HELD], everything[::HELD]


def _tuned(
    real: Graph, smaller: Graph, samples: Samples, seen: list[int], *, epochs: int, rate: float, progress: Progress
) -> Graph:
    """Return the int8 graph of a pruned one, trained on some samples to give what the whole float one gives."""
    inputs = samples.batch(seen)
    (wanted,) = outputs(real, inputs, real.outputs)
    ranging = {name: array[:CALIBRATION] for name, array in inputs.items()}
    module = qat.Trainable(smaller, calibrate(smaller, ranging, "minmax", given=samples.own_steps()), {})
    is_labelled = samples.labels is not None and has_classes(real)
    labels = np.asarray(samples.labels, np.int64)[seen] if is_labelled else None
    qat.tune(module, inputs[real.inputs[0]], wanted, labels, epochs=epochs, rate=rate, progress=progress)
    return qat.trained(module)[1]
