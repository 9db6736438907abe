"""The commands, one function each; a command calls `api` and prints the result. Its docstring is its help text."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..api.options import SAMPLES, SEED
from ..support.command_words import quoted
from . import steps
from .help import App, GroupedCommands
from .modules import api, columns, deployment, files, ir, manifest, measured, planning, records, sample_files, text
from .options import (
    BAD_INPUT,
    DIFFERS,
    DOES_NOT_FIT,
    SHARED,
    Device,
    Inputs,
    Json,
    ModelFile,
    Offset,
    Options,
    Out,
    Samples,
    Scale,
    Seed,
    Shape,
    check_planned,
    code_options,
    io_options,
    numbers,
    of_code,
    option,
    schedule_options,
    shapes_of,
    stream_options,
    with_options,
)

app = App(
    name="tinyweave",
    cls=GroupedCommands,
    help="Fits int8 neural networks into microcontrollers: plans the memory, writes plain C, proves every byte.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@with_options(io_options)
def inspect(model: ModelFile, *, chosen: Options, as_json: Json = False) -> int:
    """Show a model layer by layer.

    Prints shapes, MACs and memory before any planning. If ops are not supported, it lists them with the reasons and exits
    with 2. For a float model it estimates what the model needs as int8.

    Example: tinyweave inspect kws.tflite
    """
    with steps.errors_name(model):
        found = api.inspect(model, io=chosen["io"], layout=chosen["layout"], shapes=shapes_of(chosen["shape"]))
    record = records.inspection_record(found)
    steps.show(record, lambda: [text.show_model, text.show_layers, text.show_unsupported], as_json=as_json)
    return BAD_INPUT if found.unsupported else 0


@app.command()
@with_options(*SHARED)
def plan(
    model: ModelFile,
    *,
    chosen: Options,
    tensor: Annotated[
        str | None,
        option(
            "--explain TENSOR",
            "Explain the address of this tensor (or output of this layer), and the choice of its layer's kernel.",
        ),
    ] = None,
    pareto: Annotated[bool, option("--pareto", "Show the Pareto front: plans that trade RAM for time.")] = False,
    is_whole: Annotated[
        bool, option("--all", "Draw all buffers; show the kernels, and the bytes that each technique saves.")
    ] = False,
    out: Annotated[Path | None, option("-o --out FILE", "Write the plan as JSON, for `compile --plan`.")] = None,
    as_json: Json = False,
) -> int:
    """Plan the memory and draw it.

    Shows whether the plan fits, its time, and the address, size and lifetime of the buffers at the peak. If the plan exceeds a
    limit, it proposes other options, and exits with 1.

    Example: tinyweave plan kws.tflite --device stm32f412
    """
    given = {
        "--explain": tensor,
        "--optimize": chosen["optimize"],
        "--weights file or fetch": chosen["weights"] in ("file", "fetch"),
        "-o": out,
    }
    for name, value in given.items():
        if pareto and value:
            raise ir.CompileError(f"{name} needs one plan, and --pareto shows many", "leave out one of them")
    target = steps.target_of(model, chosen)
    if pareto:
        return steps.show_front(target, as_json=as_json)
    explained = None
    with steps.progress_bar() as report:
        if tensor is None:
            planned, (record, *_) = deployment.planned(*target, chosen, progress=report)
        else:
            planned = api.plan(*target, progress=report)
            explained = records.explained(target.model, planned, tensor, target.device)
            record = steps.record_of(target, planned)
    record["explain"] = records.explanation_record(explained) if explained else None
    if out is not None:
        files.write_file(out, planning.to_json(planned))

    def shown() -> list[steps.Show]:
        if explained:
            return [lambda out, record: text.show_explanation(out, planned, explained)]
        return [partial(text.show_plan, plan=planned, is_whole=is_whole), text.show_advice]

    steps.show(record, shown, as_json=as_json)
    return DOES_NOT_FIT if record["fits"] is False else 0


@app.command(name="compile")
@with_options(*SHARED, code_options)
def compile_model(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help=".tflite, .onnx or .pt2 files; several share one folder.")
    ],
    *,
    chosen: Options,
    plan_file: Annotated[
        Path | None, option("--plan FILE", "Emit this plan, written by `plan -o FILE` with the same --io and --layout.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write the C of a model, or of several.

    Writes <name>.h, <name>.c and <name>_weights.h of each model, and the kernels that they use. Files of an earlier run that
    are no longer needed are removed, except edited ones.

    Example: tinyweave compile kws.tflite -o firmware/kws
    """
    if len(models) > 1 and out is None:
        raise ir.CompileError("several models share one folder", "give it with -o")
    if plan_file is not None:
        check_planned(chosen)
    targets = steps.targets_of(models, chosen)
    folder = out or Path("out") / targets[0].model.name
    with steps.progress_bar() as report:
        done = api.compile(
            [target.model for target in targets],
            targets[0].device,
            targets[0].options,
            out=os.path.join(".", folder),  # -o may be a device's name
            planned=plan_file,
            **of_code(chosen),
            typed={**chosen, "plan": plan_file},
            progress=report,
        )
    entries = steps.plan_records(targets, done, chosen)
    if as_json:
        return steps.written_json(entries, folder, done)
    text.heading(text.console(), f"wrote {len(done.files) + 1} files to {folder}")
    sizes = {file.name: file.stat().st_size for file in done.files}
    for file in done.own:
        print(f"  {file.name}  {sizes.pop(file.name):,} B")
    print(f"  {manifest.MANIFEST}  lists all, with {len(sizes)} files of kernels, {sum(sizes.values()):,} B")
    steps.report_earlier_files(folder, done.written)
    if len(entries) == 1:
        print(f"arena: {columns.size(entries[0]['ram']['arena'])}")
    else:
        for record in entries:
            print(f"arena of {record['model']['name']}: {columns.size(record['ram']['arena'])}")
        if not any(plan.keeps_state for plan in done.plans):
            print("models that never run at the same time can share one arena of the largest size")
    steps.show_needs(entries)
    return 0


@app.command()
def run(
    model: ModelFile,
    *,
    inputs: Annotated[Path, option("--inputs PATH", "A folder, an image, or a .wav, .npy, .npz, .csv or .bin file.")],
    device: Device = None,
    scale: Scale = None,
    offset: Offset = "0",
    names: Annotated[
        Path | None, option("--classes FILE", "Names of the classes, one per line; else of MODEL.json or the file.")
    ] = None,
    shape: Shape = None,
    out: Annotated[Path | None, option("-o --out FILE", "Write the outputs of the C as .npy or .npz.")] = None,
    as_json: Json = False,
) -> int:
    """Run a model on samples.

    Shows the outputs that its C computes on this machine, or on an emulated core with --device. A float model runs in numpy.
    Values of images become inputs as `quantize` recorded it in the file, by --scale and --offset, or else 0 to 255 become all
    values of an 8-bit input.

    Example: tinyweave run vww.tflite --inputs photos
    """
    if out is not None and out.suffix not in (".npy", ".npz"):
        raise ir.CompileError(f"'{out}' is neither .npy nor .npz", "give another name")
    classes = files.read_file(names, 1 << 20, "give a text file").decode(errors="replace").splitlines() if names else ()
    factor = None if scale is None else numbers("--scale", scale)
    with steps.errors_name(model), steps.progress_bar() as report:
        how: dict[str, Any] = {"scale": factor, "offset": numbers("--offset", offset), "classes": classes}
        done = api.run(model, inputs, device, **how, shapes=shapes_of(shape), progress=report)
    if out is not None:
        files.write_file(out, done.file(out.suffix))
    steps.show(records.outputs_record(done), lambda: [text.show_outputs], as_json=as_json)
    return 0


@app.command()
@with_options(*SHARED)
def verify(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    as_json: Json = False,
) -> int:
    """Prove that the C computes the right bytes.

    Runs the C on this machine and on an emulated core, and compares every output byte with LiteRT's reference kernels. Exits
    with 1 if a byte differs.

    Example: tinyweave verify kws.tflite --device stm32f746 --samples 20
    """
    target = steps.target_of(model, chosen)
    arrays = sample_files.read_inputs(inputs, target.model)
    with steps.progress_bar() as report:
        planned = api.plan(*target, progress=report)
        how: dict[str, Any] = {"inputs": arrays, "samples": samples, "seed": seed}
        result = api.verify(*target, planned=planned, **how, progress=report)
    record = steps.record_of(target, planned, verification=result)
    steps.show(record, lambda: [text.show_proof], as_json=as_json)
    return 0 if result.ok else DIFFERS


@app.command()
@with_options(*SHARED)
def profile(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    board_log: Annotated[
        Path | None, option("--compare FILE", "Compare with the log of an export's example on a board.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Measure one inference on an emulated core.

    Shows instructions and kernel of each layer, estimated cycles and milliseconds on the device, the stack, and the sizes of
    code and data.

    Example: tinyweave profile kws.tflite --device stm32f746
    """
    log = None
    if board_log is not None:
        log = files.read_file(board_log, 1 << 26, "give the log of an export's example").decode(errors="replace")
    target = steps.target_of(model, chosen)
    arrays = sample_files.read_inputs(inputs, target.model)
    with steps.progress_bar() as report:
        planned = api.plan(*target, progress=report)
        found = api.profile(*target, planned=planned, sample=arrays[0] if arrays else None, progress=report)
    record = steps.record_of(target, planned, profile=found)
    if log is not None:
        record["measured"] = measured.measured_records(record, planned, log)

    def shown() -> list[steps.Show]:
        return [text.show_profile, text.show_memory, text.show_instructions] if log is None else [text.show_measured]

    steps.show(record, shown, as_json=as_json)
    return 0


@app.command()
@with_options(*SHARED, code_options)
def deploy(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Plan, write, prove and measure the C of a model.

    Builds the C, runs it on this machine and on an emulated core, compares every output byte, and measures RAM, Flash and
    instructions. Writes the C and a report. If the plan already exceeds a limit, nothing is built or written, and options or
    changes with which it would fit are shown. Exits with 1 if a limit is exceeded or a byte differs.

    Example: tinyweave deploy kws.tflite --device stm32f746 -o firmware/kws
    """
    target = steps.target_of(model, chosen)
    arrays = sample_files.read_inputs(inputs, target.model)
    folder = out or Path("out") / target.model.name
    with steps.progress_bar() as report:
        done = deployment.deploy(
            *target,
            out=os.path.join(".", folder),  # -o may be a device's name
            inputs=arrays,
            samples=samples,
            seed=seed,
            **of_code(chosen),
            typed={**chosen, "inputs": inputs, "samples": samples, "seed": seed, "out": out},
            progress=report,
        )
    if done.written is None:
        steps.show(done.record, lambda: [text.show_misfit], as_json=as_json)
        return DOES_NOT_FIT
    if done.outputs and not as_json:
        text.show_outputs(text.console(), records.outputs_record(done.outputs), most=10)
        print()
    shown = partial(text.show_deployment, folder=quoted(str(folder)), model=quoted(str(model)))
    steps.show(done.record, lambda: [shown, text.show_advice], as_json=as_json)
    steps.report_earlier_files(folder, done.written, as_json=as_json)
    return 0 if done.fits and done.record["verify"]["ok"] else DOES_NOT_FIT


@app.command()
@with_options(io_options, stream_options)
def weights(
    model: ModelFile,
    *,
    chosen: Options,
    plan_file: Annotated[Path, option("--plan FILE", "NAME_plan.json of the C, which `--weights file` wrote beside it.")],
    out: Annotated[Path, option("-o --out FILE", "Path of the new file of weights.")],
    device: Device = None,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    as_json: Json = False,
) -> int:
    """Make new weights for C that is built already.

    The model is the compiled one, trained again: its names and shapes are the same, its weights and quantisation differ. Runs
    the C with the new file on this machine and on an emulated core, and compares every output byte. Exits with 2 if the model
    needs other C.

    Example: tinyweave weights new.tflite --plan firmware/kws/kws_plan.json -o new.weights
    """
    about = {key: chosen[key] for key in ("io", "layout", "stream_time")}
    with steps.errors_name(model):
        loaded = api.load(model, shapes=shapes_of(chosen["shape"]), **about)
    arrays = sample_files.read_inputs(inputs, loaded)
    with steps.progress_bar() as report:
        how: dict[str, Any] = {"inputs": arrays, "samples": samples, "seed": seed}
        done = api.weights(loaded, plan_file, device, out=out, **how, progress=report)
    record = records.record(done.model, plan=done.plan, verification=done.verification)
    record["files"] = [str(out)] if done.verification.ok else []
    steps.show(record, lambda: [text.show_proof], as_json=as_json)
    if done.verification.ok and not as_json:
        print(f"wrote {out}, {columns.size(len(done.file))}")
    return 0 if done.verification.ok else DIFFERS


@app.command()
def reorder(
    model: ModelFile,
    *,
    shape: Shape = None,
    engine: Annotated[
        str | None,
        option("--engine tflm|litert|vela[:CORE]", "Rewrite the model for less RAM in this engine, as vela:ethos-u55-128."),
    ] = None,
    max_mac_overhead: Annotated[
        float | None,
        option(
            "--max-mac-overhead F",
            "Let --engine run the first layers patch by patch, up to F times the network's MACs. Default: 1.0.",
        ),
    ] = None,
    io: Annotated[str, option("--io model|int8", "Keep inputs and outputs, or make them int8 for --engine.")] = "model",
    out: Annotated[Path | None, option("-o --out FILE", "Write the model as .tflite.")] = None,
    as_json: Json = False,
) -> int:
    """Order a model's ops for the least peak memory.

    Writes a .tflite file that computes the same results. Only the order of its ops changes, which saves memory in every runtime
    that frees a tensor after its last use. With --engine pad ops are folded into convolutions, and first layers run patch by
    patch. Vela, which must be installed, compiles each file that is tried. The file stays as it is if the engine would need no
    less RAM.

    Example: tinyweave reorder kws.tflite --engine tflm -o kws_tflm.tflite
    """
    if out is not None and out.suffix != ".tflite":
        raise ir.CompileError(f"the name '{out.name}' does not end in .tflite", "give another name")
    with steps.errors_name(model), steps.progress_bar() as report:
        how: dict[str, Any] = {"engine": engine, "max_mac_overhead": max_mac_overhead, "io": io, "shapes": shapes_of(shape)}
        done = api.reorder(model, **how, progress=report)
    record = records.reorder_record(done, out)
    if out is not None:
        files.write_file(out, done.file)
    steps.show(record, lambda: [text.show_reordering], as_json=as_json)
    return 0


@app.command()
@with_options(schedule_options, io_options)
def compare(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    as_json: Json = False,
) -> int:
    """Compare a model with every known board.

    Plans, builds and runs the model once per core. Shows the estimated latency on each board, and the bytes of RAM and Flash
    that are free or missing. Exits with 1 if the model fits no board.

    Example: tinyweave compare kws.tflite
    """
    target = steps.target_of(model, chosen)
    arrays = sample_files.read_inputs(inputs, target.model)
    with steps.progress_bar() as report:
        boards = api.compare(target.model, target.options, sample=arrays[0] if arrays else None, progress=report)
    record = records.comparison_record(target.model, boards)
    steps.show(record, lambda: [text.show_comparison], as_json=as_json)
    return 0 if record["fits"] else DOES_NOT_FIT


def _version(wanted: bool) -> None:
    """Print the version and exit, if the option --version was given."""
    if wanted:
        print(f"tinyweave {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, option("--version", "Print the version and exit.", is_eager=True, callback=_version)] = False,
) -> None:
    """Print the help if no command was given; typer calls this function before each command."""
    if context.invoked_subcommand is None:
        print(context.get_help())
