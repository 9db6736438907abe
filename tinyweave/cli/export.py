"""The command `export`, which writes models as projects or libraries of other build systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api.options import PACKAGE_VERSION
from . import steps
from .commands import app
from .modules import api, sample_files, text
from .options import SHARED, Inputs, Json, Options, Out, code_options, of_code, option, with_options

FORMATS = "cmake, arduino, platformio, esp-idf, zephyr, cmsis-pack, stm32cube, riot, tflm or web"  # `--help` imports no formats


@app.command()
@with_options(*SHARED, code_options)
def export(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help=".tflite, .onnx or .pt2 files; several form one package.")
    ],
    *,
    form: Annotated[str, option("--format NAME", f"Build system: {FORMATS}.")],
    chosen: Options,
    inputs: Inputs = None,
    package: Annotated[str | None, option("--package ID", "Name of the package; by default the model's name.")] = None,
    package_version: Annotated[str, option("--package-version X.Y.Z", "Version of the package.")] = PACKAGE_VERSION,
    array: Annotated[
        list[str] | None,
        option(
            "--array NAME",
            "With tflm: name of the array in your firmware that holds the .tflite file. The array is written anew, without "
            "the weights. Give it once per model.",
        ),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write models as a project of another build system.

    Writes the files of the build system, the C that `compile` writes, and an example that runs a sample and prints the
    result. Files of an earlier run that are no longer needed are removed, except edited ones.

    Example: tinyweave export kws.tflite --format cmake --device mps2-an386 -o firmware/kws
    """
    targets = steps.targets_of(models, chosen)
    arrays = sample_files.read_inputs(inputs, targets[0].model)
    about: dict[str, Any] = {"format": form, "package": package, "package_version": package_version, "array": array or []}
    with steps.progress_bar() as report:
        done = api.export(
            [target.model for target in targets],
            targets[0].device,
            targets[0].options,
            out=out and os.path.join(".", out),  # -o may be a device's name
            **about,
            inputs=arrays,
            **of_code(chosen),
            typed={**chosen, **about, "inputs": inputs},
            progress=report,
        )
    made, folder = done.package, done.folder
    assert made, "an export has a package"
    entries = steps.plan_records(targets, done, chosen)
    if as_json:
        exported = {"format": form, "package": made.name, "version": made.version}
        return steps.written_json(entries, folder, done, **exported)
    text.heading(text.console(), f"wrote {len(done.files) + 1} files to {folder}")
    for file in done.own:
        print(f"  {file.relative_to(folder)}")
    print(f"  and the C of {', '.join(model.name for model in done.models)}: {len(done.files) - len(done.own)} files")
    steps.report_earlier_files(folder, done.written)
    if len(entries) > 1 and not any(plan.keeps_state for plan in done.plans):
        print("the example has one arena per model; models that never run at the same time can share one")
    steps.show_needs(entries)
    print("\n".join(filter(None, (made.foreign(form), f"how to build it: {folder / 'README.md'}"))))
    return 0
