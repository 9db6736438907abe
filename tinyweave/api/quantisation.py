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
from ..exporters.tflite import to_tflite
from ..ir import CompileError, Graph
from ..lazy import lazy
from ..ops.constraints import TAKE_INT4_WEIGHTS
from ..progress import Progress, silent
from ..quantize.blame import blame
from ..quantize.calibrate import calibrate, picked
from ..quantize.convert import WeightForm
from ..quantize.prepare import prepare
from ..quantize.ptq import CALIBRATION, fidelity, has_classes, quantise, right
from ..quantize.rules import RULES, check_rules
from ..quantize.samples import open_samples
from ..results import Model, Quantisation
from .models import with_edges

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
    blamed: bool = False,
    path: Path | None = None,
    progress: Progress = silent,
) -> Quantisation:
    """Return the int8 form of a model that was read as it is (`read`); `path` is where its file is going to lie.

    samples, scale, offset, labels: see `quantize.samples.open_samples`. method: "auto" or one of `quantize.ranges.METHODS`.
    count: samples that choose the scales, at most; all are compared. equalize, correct_bias: see `quantize.ptq.quantise`.
    blamed: measure the noise of each layer, too.
    """
    check_rules(model.original)
    opened = open_samples(samples, model.original, scale, offset, labels)
    improved = {"equalize": equalize, "correct_bias": correct_bias}
    done = quantise(model.original, opened, method=method, count=count, **improved, progress=progress)
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
        len(model.file),
    )


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
    kinds = TAKE_INT4_WEIGHTS if weight_bits == 4 else ()
    forms = {op.name: WeightForm("int4") for op in real.ops if op.kind in kinds and RULES[op.kind].weights is not None}
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
    path = Path(f"{small.name}_int8.tflite")
    model = Model(identifier(small.name), small, small, {}, path, to_tflite(small, signature=True), "model")
    return with_edges(model, "model", "model")
