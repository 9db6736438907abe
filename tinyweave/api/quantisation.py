"""Quantise a float model to int8 with samples, measure its error, and prepare PyTorch modules for training in int8."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..devices import parse_size
from ..exporters.tflite import to_tflite
from ..importers.shapes import Shapes
from ..ir import CompileError, Graph
from ..lazy import lazy
from ..ops import SPECS
from ..quantize.blame import blame
from ..quantize.calibrate import calibrate, subsample
from ..quantize.calibration_samples import Samples, open_samples
from ..quantize.convert import WeightFormat, to_int8
from ..quantize.fidelity import accuracy, fidelity, is_classifier
from ..quantize.mixed_precision import PrecisionLimits
from ..quantize.ptq import CALIBRATION, QuantiseOptions, quantise
from ..quantize.scale_groups import check_quantisable
from ..quantize.simplify_float import simplify_float
from ..simulate import compare
from ..support.c_names import identifier
from ..support.progress import Progress, silent
from .models import ON_FLOAT, read, with_io
from .plans import SMALLEST, estimate_flash, make_plan
from .results import Model, Quantisation

if TYPE_CHECKING:
    from ..importers import torch
    from ..quantize import qat
else:
    torch, qat = lazy("tinyweave.importers.torch"), lazy("tinyweave.quantize.qat")

DEFAULTS = QuantiseOptions()
BLAMED = 16  # most samples for measuring the error of each layer
METADATA = "tinyweave.preprocessing"  # name of the .tflite metadata that records scale and offset


@dataclass(frozen=True)
class SampleOptions:
    """How samples are read: `scale`, `offset` and `labels` of `verbs.quantize`."""

    scale: Sequence[float] | None = None
    offset: Sequence[float] = (0.0,)
    labels: Any = None

    def open(self, samples: Any, graph: Graph) -> Samples:
        """Open samples (an array, an iterable or a path) for the inputs of a graph; raise CompileError if they do not fit."""
        return open_samples(samples, graph, self.scale, self.offset, self.labels)


def quantize_model(
    model: Model,
    samples: Any,
    read_as: SampleOptions = SampleOptions(),
    options: QuantiseOptions = DEFAULTS,
    *,
    blamed: bool = False,
    progress: Progress = silent,
) -> Quantisation:
    """Quantise a float model from `read`, as `verbs.quantize` does, and measure the error of each layer if `blamed` is set."""
    check_quantisable(model.original)
    opened = read_as.open(samples, model.original)
    done = quantise(model.original, opened, options, flash=lambda graph: _flash(model, graph), progress=progress)
    near = fidelity(done.real, done.graph, opened, progress)
    inputs = subsample(done.real, opened.batch(done.used), 3 * len(done.real.ops), BLAMED) if blamed else {}
    noise = blame(done.real, done.graph, inputs, progress) if blamed else None
    about = {"inputs": [opened.preprocessing.record(done.real.tensors[name]) for name in done.real.inputs]}
    file = to_tflite(done.graph, metadata={METADATA: json.dumps(about).encode()}, signature=True)
    made = replace(model, original=done.graph, file=file, path=model.path.with_name(f"{model.path.stem}_int8.tflite"))
    return Quantisation(
        model=with_io(made, "model", "model"),
        preprocessing=opened.preprocessing,
        fidelity=near,
        blame=noise,
        float_bytes=len(model.file),
        real=done.real,
        calibration=done.calibration,
        used=done.used,
        precision=done.precision,
    )


def int8_form(path: str | Path, shapes: Shapes | None = None) -> Model:
    """Return the float model of a file as int8 with ranges of one random sample, to estimate its RAM and Flash.

    The RAM depends on the shapes alone, the outputs mean nothing. `shapes` is as for `load`. Raise CompileError if the file is
    damaged, or an op has no quantised form.
    """
    model = read(path, shapes=shapes)
    real = simplify_float(model.original)
    (sample,) = compare.samples(real, 1, seed=0)
    inputs = {name: values[None] for name, values in zip(real.inputs, sample, strict=True)}
    calibration = calibrate(real, inputs, "minmax")
    small = to_int8(real, calibration.groups, calibration.quants)
    return with_io(replace(model, original=small, file=to_tflite(small)), "model", "model")


def is_float_model(reasons: Sequence[CompileError]) -> bool:
    """Return whether some of the `reasons` that ops cannot be compiled are that they compute on float32."""
    return any(ON_FLOAT in error.why for error in reasons)


def precision_limits(
    flash: int | str | None, min_sqnr: float | None, max_accuracy_drop: float | None
) -> PrecisionLimits | None:
    """Return the limits that mixed precision must meet, or None if there is none; raise CompileError for malformed ones."""
    if flash is None and min_sqnr is None and max_accuracy_drop is None:
        return None
    if min_sqnr is not None and not 0 < min_sqnr < 200:
        raise CompileError(f"--min-sqnr {min_sqnr:g} is not an SQNR", "give dB above 0, for example 30")
    if max_accuracy_drop is not None and not 0 <= max_accuracy_drop < 100:
        raise CompileError(
            f"--max-accuracy-drop {max_accuracy_drop:g} is not a loss", "give percentage points of at least 0, for example 0.5"
        )
    return PrecisionLimits(None if flash is None else parse_size(flash), min_sqnr, max_accuracy_drop)


def _flash(model: Model, graph: Graph) -> int:
    """Return the upper bound on the Flash (bytes) of the smallest plan of `graph`, an int8 form of `model`."""
    return estimate_flash(make_plan(with_io(replace(model, original=graph), "model", "model"), SMALLEST)).upper_bound


def accuracies(before: Model, after: Model, samples: Any, read_as: SampleOptions) -> tuple[float, float]:
    """Return the accuracy (0 to 1) of a float model and of its int8 model on labelled samples."""
    real, small = before.original, after.original
    opened = read_as.open(samples, real)
    if opened.labels is None:
        raise CompileError("the samples have no labels", "give a class per sample")
    if [real.tensors[name].shape for name in real.inputs] != [small.tensors[name].shape for name in small.inputs]:
        raise CompileError(f"'{after.path.name}' has other inputs than '{before.path.name}'", "give its float model")
    if not (is_classifier(real) and is_classifier(small)):
        raise CompileError(f"'{after.path.name}' gives no classes", "leave out its accuracy")
    return accuracy(real, opened, real.inputs), accuracy(small, opened, real.inputs)


def prepare_qat(module: Any, example: Any, samples: Any, *, weight_bits: int = 8, method: str = "mse") -> qat.FakeQuantModule:
    """Return a PyTorch module with fake quantisation, for quantisation-aware training; `convert_qat` makes it int8 afterwards.

    The module takes batches of the same layout as `module`; its output maps are channels last. Normalisation layers are folded
    with their current statistics, and dropout is removed. Training learns the activation ranges, and the scales of 4-bit
    weights, along with the weights.

    Args:
        module: the float module, an nn.Module; it is not changed.
        example: example input: a torch.Tensor with a batch of 1, or a tuple with a tensor per input.
        samples: samples that choose the initial ranges, as for `quantize`, but without scale and offset; at most 200 are used.
        weight_bits: 8, or 4 for the weights of convolutions and linear layers.
        method: how the initial ranges are chosen, as for `quantize`.

    Raises:
        CompileError: the module cannot be traced or quantised, the samples do not fit its inputs, or `weight_bits` is wrong.
    """
    if weight_bits not in (4, 8):
        raise CompileError(f"weights of {weight_bits} bits are not supported", "give 4 or 8")
    real = simplify_float(torch.from_module(module, example, compare=True))
    opened = open_samples(samples, real)
    calibration = calibrate(real, opened.batch(range(min(len(opened), CALIBRATION))), method)
    forms = {op.name: WeightFormat("int4") for op in real.ops if weight_bits == 4 and SPECS[op.kind].takes_int4_weights}
    given = example if isinstance(example, tuple) else (example,)
    turned = tuple(_is_turned(tuple(x.shape), real.tensors[name].shape) for x, name in zip(given, real.inputs, strict=True))
    return qat.FakeQuantModule(real, calibration, forms, turned)


def _is_turned(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether an input of shape `given` is channels first, and the same input of the graph (`shape`) channels last."""
    return len(given) == 4 and (given[0], *given[2:], given[1]) == shape


def convert_qat(trained: qat.FakeQuantModule, name: str | None = None) -> Model:
    """Return the int8 model of a trained module, for `plan`, `compile` and `verify`.

    Args:
        trained: the module from `prepare_qat`, after training.
        name: name of the model, from which the prefix of its C names is made; None takes the module's class name.

    Raises:
        CompileError: `trained` is not a module from `prepare_qat`.
    """
    if not isinstance(trained, qat.FakeQuantModule):
        raise CompileError(f"a {type(trained).__name__} is not a module of prepare_qat", "train that module, then give it")
    small: Graph = replace(qat.converted(trained), name=name or trained.graph.name)
    path, file = Path(f"{small.name}_int8.tflite"), to_tflite(small, signature=True)
    return with_io(Model(identifier(small.name), small, small, {}, path, file, "model"), "model", "model")
