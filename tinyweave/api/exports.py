"""Collect planned models, their C and example samples into a Package, which `tinyweave.projects` writes for a build system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..devices import Device
from ..ir import CompileError
from ..planning import Plan
from ..projects import Package, PackagedModel, Trial, checked_name, checked_version
from ..simulate import compare
from .code import PLAIN, CodeOptions, emit_c, merge_files
from .options import PACKAGE_VERSION
from .plans import DEFAULT_CORE, estimate_flash, estimate_latency_ms
from .preparation import preparation_of
from .references import reference_outputs, samples
from .results import Model

EXAMPLES = 10  # most samples in the example program


@dataclass(frozen=True)
class PackageOptions:
    """Options of a package, as for `verbs.export`.

    The README shows `command`, which writes the package, and `options`, those of planner and device as words of a command line.
    `commands` has a command per model, for the comments of its C; empty for none.
    """

    name: str | None = None
    version: str = PACKAGE_VERSION
    command: str = ""
    options: str = ""
    commands: Sequence[str] = ()
    inputs: Sequence[Sequence[np.ndarray]] = ()
    arrays: Sequence[str] = ()


def package(
    models: Sequence[Model],
    plans: Sequence[Plan],
    device: Device | None = None,
    options: PackageOptions = PackageOptions(),
    code: CodeOptions = PLAIN,
) -> Package:
    """Return planned models as a package, with the C and example samples with correct outputs of each model.

    Raise CompileError if several models have no package name, or the name or version is not valid.
    """
    if options.name is None and len(models) > 1:
        raise CompileError("a package of several models needs a name", "name it with --package")
    name = checked_name(models[0].name if options.name is None else options.name)
    version = checked_version(options.version)
    sources = [
        emit_c(model, plan, device, replace(code, command=command))
        for model, plan, command in zip(models, plans, options.commands or [""] * len(models), strict=True)
    ]
    packaged = [
        PackagedModel(
            plan,
            emitted,
            model.path.name,
            _trials(model, options.inputs[:EXAMPLES] if index == 0 else ()),
            model.file,
            _costs(plan, device),
            *preparation_of(model),
        )
        for index, (model, plan, emitted) in enumerate(zip(models, plans, sources, strict=True))
    ]
    core = device.core if device else DEFAULT_CORE
    files = merge_files(sources)
    words = options.command, options.options
    return Package(name, version, tuple(packaged), files, core, device, *words, arrays=options.arrays)


def _costs(plan: Plan, device: Device | None) -> str:
    """Return the estimated Flash and time of a plan, for a reader of the package."""
    flash, ms = estimate_flash(plan, device), estimate_latency_ms(plan, device)
    time = f"about {ms:,.3g} ms per inference" if ms else "time unknown" if device else "time depends on the board (`--device`)"
    return f"{flash.lower_bound:,} to {flash.upper_bound:,} B of Flash, of these {flash.constants:,} B of constants; {time}."


def _trials(model: Model, inputs: Sequence[Sequence[np.ndarray]]) -> tuple[Trial, ...]:
    """Return samples for the example program, with their reference outputs: `inputs`, or a random sample if there are none.

    The samples run in sequence. For a model that streams in time, samples are added until there are enough calls to fill the
    model's window of frames.
    """
    in_c = replace(model, io="int8") if model.io == "auto" else model  # the example copies the bytes of the C's types
    cases = samples(in_c, 1, 0, inputs)
    right = reference_outputs(in_c, cases, use_litert=False)
    return tuple(
        Trial(tuple(compare.pack(case)), tuple(compare.pack(outputs)))
        for case, outputs in zip(cases, right.outputs, strict=True)
    )
