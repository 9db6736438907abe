"""The command `export`, which writes models as projects or libraries of other build systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..api.options import PACKAGE_VERSION, command_line
from . import steps
from .commands import app
from .modules import api, files, manifest, sample_files, text
from .options import SHARED, Inputs, Json, KernelPrefix, Name, Options, Out, option, source_options, with_options

FORMATS = "cmake, arduino, platformio, esp-idf, zephyr, cmsis-pack, stm32cube or riot"  # `--help` imports no formats


@app.command()
@with_options(*SHARED, source_options)
def export(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help=".tflite, .onnx or .pt2 files; several form one package.")
    ],
    *,
    form: Annotated[str, option("--format NAME", f"Build system: {FORMATS}.")],
    chosen: Options,
    inputs: Inputs = None,
    name: Name = None,
    package: Annotated[str | None, option("--package ID", "Name of the package; by default the model's name.")] = None,
    package_version: Annotated[str, option("--package-version X.Y.Z", "Version of the package.")] = PACKAGE_VERSION,
    kernel_prefix: KernelPrefix = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write models as a project of another build system.

    Writes the files of the build system, the C that `compile` writes, and an example that runs a sample and prints the
    result. Files of an earlier run that are no longer needed are removed, except edited ones.

    Example: tinyweave export kws.tflite --format cmake --device mps2-an386 -o firmware/kws
    """
    api.check_format(form)
    board, request = steps.device_and_request(chosen)
    loaded = steps.load_models(models, chosen, name)
    arrays = sample_files.read_inputs(inputs, loaded[0])
    plans = [steps.make_plan(model, request) for model in loaded]
    options = {"name": name, "kernel_prefix": kernel_prefix}
    more = {"format": form, "inputs": inputs, "package": package, "package_version": package_version}
    command = command_line("export", models, chosen, **more, **options)
    planned_with = {key: value for key, value in chosen.items() if key not in ("source", "pixels")}
    about = api.PackageOptions(
        package,
        package_version,
        command,
        options=" ".join(command_line("", [], planned_with).split(" ")[2:]),
        commands=[command_line("compile", [path], chosen, **options) for path in models],
        inputs=arrays,
    )
    made = api.package(loaded, plans, board, about, steps.code_options(chosen, kernel_prefix))
    contents, folder = api.export_files(made, form), out or Path("out") / f"{made.name}_{form.replace('-', '_')}"
    with manifest.generated_folder(folder, command, api.origins(loaded), is_nested=True) as written:
        files.write_below(written.scratch, contents)
    entries = steps.plan_records(loaded, plans, board, request, chosen)
    if as_json:
        exported = {"format": form, "package": made.name, "version": made.version}
        return steps.written_json(entries, folder, [*contents, manifest.MANIFEST], written, **exported)
    text.heading(text.console(), f"wrote {len(contents) + 1} files to {folder}")
    own = [file for file in contents if file.rpartition("/")[2] not in made.files]
    for file in own:
        print(f"  {file}")
    print(f"  and the C of {', '.join(model.name for model in loaded)}: {len(contents) - len(own)} files")
    steps.report_earlier_files(folder, written)
    if len(entries) > 1 and not steps.keeps_state(plans):
        print("the example has one arena per model; models that never run at the same time can share one")
    steps.show_needs(entries)
    print(f"how to build it: {folder / 'README.md'}")
    return 0
