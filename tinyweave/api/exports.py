"""Exports: models, planned, and what their examples show, as one Package.

In: Models and Plans. Out: a Package, or its files in a format.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..devices import Device
from ..ir import CompileError
from ..packages import Package, PackagedModel, Trial, check_format, checked_name, checked_version, export_files
from ..planning import Plan
from ..results import Model
from ..simulate import compare
from .plans import DEFAULT_CORE
from .runs import samples, source, together, windows

__all__ = ["check_format", "export_files", "package", "packaged"]

SAMPLES = 10  # of the given inputs, at most so many become part of the example


def package(
    models: Sequence[Model],
    plans: Sequence[Plan],
    *,
    name: str | None = None,
    version: str = "1.0.0",
    device: Device | None = None,
    command: str = "",
    options: str = "",
    commands: Sequence[str] = (),
    kernel_prefix: str = "",
    inputs: Sequence[Sequence[np.ndarray]] = (),
    row_source: str | None = None,
    pixels: str | None = None,
) -> Package:
    """Return planned models as a package. inputs: samples of the first model for the example; else one random sample each.

    name: that of the model where there is one. command: for the README; commands: of each model, for its C. options:
    those of the plan and the device, as they are typed. row_source, pixels: as `source` takes them.
    """
    if not models:
        raise CompileError("a package of no models", "give one or more")
    if name is None and len(models) > 1:
        raise CompileError("several models make one package", "name it with --package")
    chosen, version = checked_name(models[0].name if name is None else name), checked_version(version)
    sources = [
        source(model, plan, said, device, kernel_prefix=kernel_prefix, row_source=row_source, pixels=pixels)
        for model, plan, said in zip(models, plans, commands or [""] * len(models), strict=True)
    ]
    packaged = [
        PackagedModel(plan, emitted, model.path.name, _trials(model, inputs[:SAMPLES] if index == 0 else ()))
        for index, (model, plan, emitted) in enumerate(zip(models, plans, sources, strict=True))
    ]
    core = device.core if device else DEFAULT_CORE
    return Package(chosen, version, tuple(packaged), together(sources), core, device, command, options)


def packaged(model: Model, plan: Plan, trials: Sequence[tuple[Sequence[bytes], Sequence[bytes]]], board: Device) -> Package:
    """Return one model for a board; trials: its inputs and outputs, as bytes."""
    emitted = source(model, plan, "", board)
    part = PackagedModel(plan, emitted, model.path.name, tuple(Trial(*map(tuple, trial)) for trial in trials))
    return Package(model.name, "1.0.0", (part,), emitted.files, board.core, board, "", "")


def _trials(model: Model, inputs: Sequence[Sequence[np.ndarray]]) -> tuple[Trial, ...]:
    """Return samples and what the reference computes of them, in sequence."""
    cases = samples(model, 1, 0, inputs)
    right = compare.truth(model.whole.graph, windows(model, cases))
    return tuple(
        Trial(tuple(compare.pack(model.graph, case)), tuple(compare.pack_outputs(model.graph, outputs)))
        for case, outputs in zip(cases, right.outputs, strict=True)
    )
