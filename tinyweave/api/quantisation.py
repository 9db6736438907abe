"""Quantise: from a float model and samples to an int8 model, measured against the float one.

In: a model as its file has it, samples. Out: a Quantisation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen.names import identifier
from ..devices import parse_size
from ..exporters.tflite import to_tflite
from ..ir import CompileError, Graph
from ..lazy import lazy
from ..ops.constraints import TAKE_INT4_WEIGHTS
from ..progress import Progress, silent
from ..quantize.blame import blame
from ..quantize.calibrate import calibrate, picked
from ..quantize.convert import WeightForm
from ..quantize.precision import PrecisionLimits
from ..quantize.prepare import prepare
from ..quantize.ptq import CALIBRATION, fidelity, has_classes, quantise, right
from ..quantize.rules import RULES, check_rules
from ..quantize.samples import open_samples
from ..results import Model, Quantisation
from .models import with_edges
from .plans import flash_need, plan

if TYPE_CHECKING:
    from ..importers import torch
    from ..quantize import qat
else:
    torch, qat = lazy("importers.torch"), lazy("quantize.qat")

BLAMED = 16  # samples that the noise of layers is measured on, at most
METADATA = "tinyweave.preprocessing"


def quantize(
    model: Model,
    samples: Any,
    *,
    scale: Sequence[float] | None = None,
    offset: Sequence[float] = (0.0,),
    labels: Any = None,
    method: str = "auto",
    count: int = CALIBRATION,
    equalize: bool = False,
    correct_bias: bool = False,
    adaptive_rounding: bool = False,
    blamed: bool = False,
    flash: int | str | None = None,
    min_sqnr: float | None = None,
    max_accuracy_drop: float | None = None,
    path: Path | None = None,
    progress: Progress = silent,
) -> Quantisation:
    """Return the int8 form of a model that was read as it is (`read`); `path` is where its file is going to lie.

    samples, scale, offset, labels: see `quantize.samples.open_samples`. method: "auto" or one of `quantize.ranges.METHODS`.
    count: samples that choose the scales, at most; all are compared. equalize, correct_bias, adaptive_rounding: see
    `quantize.ptq.quantise`.
    blamed: measure the noise of each layer, too. flash, min_sqnr (dB), max_accuracy_drop (points below float): limits, for
    which layers may have 4-bit weights and int16 maps.
    """
    check_rules(model.original)
    opened = open_samples(samples, model.original, scale, offset, labels)
    done = quantise(
        model.original,
        opened,
        method=method,
        count=count,
        equalize=equalize,
        correct_bias=correct_bias,
        adaptive_rounding=adaptive_rounding,
        limits=_limits(flash, min_sqnr, max_accuracy_drop),
        flash=lambda graph: _flash(model, graph),
        progress=progress,
    )
    near = fidelity(done.real, done.graph, opened, progress)
    inputs = picked(done.real, opened.batch(done.used), 3 * len(done.real.ops), BLAMED) if blamed else {}
    noise = blame(done.real, done.graph, inputs, progress) if blamed else None
    about = {"inputs": [opened.preprocessing.record(done.real.tensors[name]) for name in done.real.inputs]}
    file = to_tflite(done.graph, metadata={METADATA: json.dumps(about).encode()}, signature=True)
    made = replace(model, original=done.graph, file=file, path=path or model.path.with_name(f"{model.path.stem}_int8.tflite"))
    return Quantisation(
        with_edges(made, "model", "model"),
        done.real,
        done.calibration,
        opened.preprocessing,
        done.used,
        done.gains,
        near,
        noise,
        done.precision,
        len(model.file),
        done.left_out,
    )


def _limits(flash: int | str | None, min_sqnr: float | None, max_accuracy_drop: float | None) -> PrecisionLimits | None:
    """Return the limits that are given, None for none."""
    if flash is None and min_sqnr is None and max_accuracy_drop is None:
        return None
    if min_sqnr is not None and not 0 < min_sqnr < 200:
        raise CompileError(f"--min-sqnr {min_sqnr:g} is no signal to noise ratio", "give dB above 0, for example 30")
    if max_accuracy_drop is not None and not 0 <= max_accuracy_drop < 100:
        raise CompileError(f"--max-accuracy-drop {max_accuracy_drop:g} is no loss", "give points from 0, for example 0.5")
    return PrecisionLimits(None if flash is None else parse_size(flash), min_sqnr, max_accuracy_drop)


def _flash(model: Model, graph: Graph) -> int:
    """Return the bytes of Flash that the int8 graph of a model needs at most, by the plan of least code."""
    return flash_need(plan(with_edges(replace(model, original=graph), "model", "model"), optimize="size")).upper_bound


def accuracies(
    before: Model,
    after: Model,
    samples: Any,
    *,
    labels: Any,
    scale: Sequence[float] | None = None,
    offset: Sequence[float] = (0.0,),
) -> tuple[float, float]:
    """Return the share of right answers of a float model and of an int8 model of the same inputs, both as read."""
    real, small = before.original, after.original
    opened = open_samples(samples, real, scale, offset, labels)
    if opened.labels is None:
        raise CompileError("the samples have no labels", "give a class per sample")
    if [real.tensors[name].shape for name in real.inputs] != [small.tensors[name].shape for name in small.inputs]:
        raise CompileError(
            f"'{after.path.name}' has other inputs than '{before.path.name}'", "give the float form of this model"
        )
    if not (has_classes(real) and has_classes(small)):
        raise CompileError(f"'{after.path.name}' gives no classes", "leave out its accuracy")
    return right(real, real, opened), right(small, real, opened)


def prepare_qat(
    module: Any, example: Any, samples: Any, *, weight_bits: int = 8, method: str = "mse", progress: Progress = silent
) -> qat.Trainable:
    """Return a module that computes what the int8 form of a PyTorch module does, to be trained; ranges begin as samples say."""
    if weight_bits not in (4, 8):
        raise CompileError(f"weights of {weight_bits} bits are not supported", "give 4 or 8")
    real = prepare(torch.from_module(module, example))
    opened = open_samples(samples, real)
    calibration = calibrate(real, opened.batch(range(min(len(opened), CALIBRATION))), method, progress)
    forms = {
        op.name: WeightForm("int4")
        for op in real.ops
        if weight_bits == 4 and op.kind in TAKE_INT4_WEIGHTS and RULES[op.kind].weights is not None
    }
    given = example if isinstance(example, tuple) else (example,)
    turned = tuple(_is_turned(tuple(x.shape), real.tensors[name].shape) for x, name in zip(given, real.inputs, strict=True))
    return qat.Trainable(real, calibration, forms, turned)


def _is_turned(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether the graph has the channels of an input last that the module has first."""
    return len(given) == 4 and (given[0], *given[2:], given[1]) == shape


def convert_qat(trained: qat.Trainable, name: str | None = None) -> Model:
    """Return the int8 model of a trained module."""
    if not isinstance(trained, qat.Trainable):
        raise CompileError(f"a {type(trained).__name__} is not what prepare_qat returned", "train that module, then give it")
    small: Graph = replace(qat.trained(trained)[1], name=name or trained.graph.name)
    path, file = Path(f"{small.name}_int8.tflite"), to_tflite(small, signature=True)
    return with_edges(Model(identifier(small.name), small, small, {}, path, file, "model"), "model", "model")
