"""Quantise: from a float model and samples to an int8 model, measured against the float one.

In: a model as its file has it, samples. Out: a Quantisation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..exporters.tflite import to_tflite
from ..quantize.blame import blame
from ..quantize.calibrate import Progress, picked, silent
from ..quantize.ptq import CALIBRATION, fidelity, quantise
from ..quantize.rules import check_rules
from ..quantize.samples import open_samples
from ..results import Model, Quantisation
from .models import with_edges

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
