"""The verb `export`: models as projects and libraries of other build systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from . import steps
from .commands import app
from .modules import api, files, ir, manifest, sample_files, text
from .options import SHARED, Inputs, Json, KernelPrefix, Name, Options, Out, command_line, source_options, with_options

VERSION = "1.0.0"
FORMATS = "cmake, arduino, platformio, esp-idf, zephyr, cmsis-pack, stm32cube or riot"  # `--help` imports no table


@app.command()
@with_options(*SHARED, source_options)
def export(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="A .tflite, .onnx or .pt2 file, or several that make one package.")
    ],
    *,
    form: Annotated[str, typer.Option("--format", metavar="NAME", help=f"The build system: {FORMATS}.")],
    chosen: Options,
    inputs: Inputs = None,
    name: Name = None,
    package: Annotated[
        str | None, typer.Option("--package", metavar="ID", help="Name of the package; that of the model if left out.")
    ] = None,
    package_version: Annotated[
        str, typer.Option("--package-version", metavar="X.Y.Z", help="Version of the package.")
    ] = VERSION,
    kernel_prefix: KernelPrefix = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write models as a project that builds elsewhere.

    The folder holds what the build system asks for, the C that `compile` writes, and an example that reads a sample and prints
    the result. What an earlier run wrote there and is no longer part of it is removed, unless somebody has changed it.

    Example: tinyweave export kws.tflite --format cmake --device mps2-an386 -o firmware/kws
    """
    if len(models) > 1 and name is not None:
        raise ir.CompileError("--name is of one model", "leave it out: the names come from the files")
    api.check_format(form)
    board, limits = steps.target_of(chosen)
    loaded = [steps.load_model(path, chosen, name) for path in models]
    arrays = sample_files.read_inputs(inputs, loaded[0])
    plans = [steps.make_plan(model, board, limits, chosen) for model in loaded]
    options = {"name": name, "kernel_prefix": kernel_prefix}
    more = {"format": form, "inputs": inputs, "package": package}
    more |= {"package_version": None if package_version == VERSION else package_version}
    command = command_line("export", models, chosen, **more, **options)
    planned_with = {key: value for key, value in chosen.items() if key not in ("source", "pixels")}
    made = api.package(
        loaded,
        plans,
        name=package,
        version=package_version,
        device=board,
        command=command,
        options=" ".join(command_line("", [], planned_with).split(" ")[2:]),
        commands=[command_line("compile", [path], chosen, **options) for path in models],
        kernel_prefix=kernel_prefix or "",
        inputs=arrays,
        row_source=chosen["source"],
        pixels=chosen["pixels"],
    )
    contents, folder = api.export_files(made, form), out or Path("out") / f"{made.name}_{form.replace('-', '_')}"
    with manifest.generated_folder(folder, command, steps.origins(loaded), is_nested=True) as written:
        files.write_below(written.scratch, contents)
    entries = steps.written_records(loaded, plans, board=board, limits=limits, chosen=chosen)
    if as_json:
        exported = {"format": form, "package": made.name, "version": made.version}
        files_of = steps.written_files(folder, [*contents, manifest.MANIFEST], written)
        return steps.print_json({"tinyweave": __version__, "models": entries, **exported, **files_of})
    text.heading(text.console(), f"wrote {len(contents) + 1} files to {folder}")
    own = [file for file in contents if file.rpartition("/")[2] not in made.files]
    for file in own:
        print(f"  {file}")
    print(f"  and the C of {', '.join(model.name for model in loaded)}: {len(contents) - len(own)} files")
    steps.say_removed(folder, written)
    if len(entries) > 1 and not steps.keeps_state(plans):
        print("the example has an arena for each model; those that do not run at the same time can share one")
    steps.show_needs(entries)
    print(f"how to build it: {folder / 'README.md'}")
    return 0
