"""The command line: one function per verb, each calls the public API and shows what it returned.

Exit codes: 0 done; 1 it does not fit, or it differs; 2 bad input, told in one line; 70 our own mistake; 130 interrupted.
The process starts in `__main__`.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .lazy import lazy

if TYPE_CHECKING:
    import numpy as np

    from . import advice, api, devices, files, ir, manifest, planning, results, toolchain
    from .report import counts, figure, markdown, record, tables, text, trace
else:  # a verb loads what it uses: `--help` nothing of it
    advice, api, devices, files, ir = map(lazy, ("advice", "api", "devices", "files", "ir"))
    manifest, planning, results, toolchain = map(lazy, ("manifest", "planning", "results", "toolchain"))
    counts, figure, markdown, record, tables, text, trace = (
        lazy(f"report.{name}") for name in ("counts", "figure", "markdown", "record", "tables", "text", "trace")
    )

# typer's errors for wrong options share this base, which has lived in two packages
USAGE_ERROR = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
NOTHING_TWICE = ("layer", "unfused", "stream2d")  # schedules without work that --max-mac-overhead could allow
MAX_INPUTS = 1 << 29  # bytes of samples
MAX_RECORD = 1 << 26  # bytes of a file of `profile --json`
DOES_NOT_FIT = 1
DIFFERS = 1
BAD_INPUT = 2
OUR_MISTAKE = 70
INTERRUPTED = 130

app = typer.Typer(
    name="tinyweave",
    help="Fits int8 neural networks into microcontrollers: plans the memory, writes plain C, proves every byte.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.")]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="A family, part, board (see `tinyweave devices`) or core, or a TOML file."),
]
Ram = Annotated[str | None, typer.Option("--ram", metavar="SIZE", help="RAM limit: 65536, 64k or 1m. Overrides the device's.")]
Flash = Annotated[str | None, typer.Option("--flash", metavar="SIZE", help="Flash limit, likewise.")]
Schedule = Annotated[
    str,
    typer.Option(
        "--schedule", metavar="NAME", help="best, unfused, layer (by layer), or as others do: patch, patch:N:K, msf, stream2d."
    ),
]
Optimize = Annotated[
    str,
    typer.Option(
        "--optimize",
        metavar="balanced|speed|size",
        help="Use the fast kernels of the device's core where they pay (balanced), wherever they fit (speed), or never (size).",
    ),
]
StreamInputs = Annotated[
    bool, typer.Option("--stream-inputs", help="A callback brings the inputs by rows; they never lie in RAM as a whole.")
]
StreamOutputs = Annotated[
    bool,
    typer.Option(
        "--stream-outputs",
        help="A callback takes the outputs by rows: those that are maps, computed by rows, and that no layer reads.",
    ),
]
Overhead = Annotated[
    float | None,
    typer.Option(
        "--max-mac-overhead",
        metavar="F",
        help="Multiply-accumulates at most F times the network's, for less RAM; 1.0 if not given, any with patch and msf.",
    ),
]
Io = Annotated[
    str, typer.Option("--io", metavar="model|int8", help="Keep the model's input and output types, or strip to int8.")
]
Layout = Annotated[
    str,
    typer.Option(
        "--layout", metavar="model|nhwc", help="Keep the layout of inputs and outputs, or put channels last: no transposes."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON (keys in docs/JSON.md).")]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE", help="Real inputs: .npy, .npz (one array per input) or raw .bin.")
]
CompareWith = Annotated[
    Path | None, typer.Option("--compare", metavar="FILE", help="What `profile --json` printed earlier: show what changed.")
]
TraceFile = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Also write the layers as a trace for Perfetto or Chrome.")
]
Samples = Annotated[
    int, typer.Option("--samples", min=1, max=100_000, help="How many inputs to compare, the given ones included.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")]
Options = dict[str, Any]  # what a verb's shared options are, by the name of the parameter
Name = Annotated[
    str | None, typer.Option("--name", metavar="ID", help="Prefix of the C names; from the file's name if left out.")
]
KernelPrefix = Annotated[
    str | None,
    typer.Option(
        "--kernel-prefix", metavar="ID", help="Begin the kernels' names with this, to link folders that have their own."
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="Emit this plan, of `plan -o FILE` with the same --io and --layout."),
]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder to write; out/<name> if left out.")]


def _target_options(*, device: DeviceName = None, ram: Ram = None, flash: Flash = None) -> None:
    """List the options that say what the network must fit."""


def _schedule_options(
    *,
    schedule: Schedule = "best",
    optimize: Optimize = "balanced",
    stream_inputs: StreamInputs = False,
    stream_outputs: StreamOutputs = False,
    max_mac_overhead: Overhead = None,
) -> None:
    """List the options that `api.plan` takes as they are."""


def _edge_options(*, io: Io = "model", layout: Layout = "model") -> None:
    """List the options that say what the network's inputs and outputs look like."""


SHARED = (_target_options, _schedule_options, _edge_options)
SAMPLES, SEED = 5, 0
DEFAULTS = {name: option.default for shared in SHARED for name, option in signature(shared).parameters.items()}
DEFAULTS |= {"samples": SAMPLES, "seed": SEED}


def _with(*shared: Callable[..., None]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a verb the options of these functions; the verb takes them as the dict `chosen`."""
    options = [option for each in shared for option in signature(each, eval_str=True).parameters.values()]

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        @wraps(verb)
        def run(**given: Any) -> int:
            chosen = {option.name: given.pop(option.name) for option in options}
            return verb(**given, chosen=chosen)

        own = signature(verb, eval_str=True)
        parameters = [each for p in own.parameters.values() for each in (options if p.name == "chosen" else [p])]
        del run.__wrapped__  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name that the terminal's encoding lacks is no reason to stop
    try:
        code = app(list(arguments) if arguments is not None else None, prog_name="tinyweave", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except ir.CompileError as error:
        return _complain(str(error))
    except USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        return _complain(f"{error.format_message().rstrip('.')}; see {context.command_path if context else 'tinyweave'} --help")
    except (BrokenPipeError, SystemExit):
        # the reader of our output left early, as `head` does; typer turns that into SystemExit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        print("tinyweave: this is a mistake of tinyweave, not yours; please report it with the lines above", file=sys.stderr)
        return OUR_MISTAKE


def _complain(message: str) -> int:
    print(f"tinyweave: {text.clean(' '.join(message.split()), 2000)}", file=sys.stderr)
    return BAD_INPUT


@app.command()
@_with(_edge_options)
def inspect(model: ModelFile, *, chosen: Options, as_json: Json = False) -> int:
    """Show a model layer by layer.

    Shapes, MACs, and where the memory goes, before any planning. Of a model with ops that are not supported it shows what it
    can, and which they are and why, and exits with 2.

    Example: tinyweave inspect kws.tflite
    """
    with _told(model):
        loaded, reasons = api.look_at(model, chosen["io"], layout=chosen["layout"])
    found = record.record(loaded, unsupported=reasons)
    if as_json:
        _print_json(found)
    else:
        out = text.console()
        text.show_model(out, found)
        text.show_layers(out, found)
        text.show_unsupported(out, found)
    return BAD_INPUT if reasons else 0


@app.command()
@_with(*SHARED)
def plan(
    model: ModelFile,
    *,
    chosen: Options,
    tensor: Annotated[
        str | None,
        typer.Option("--explain", metavar="TENSOR", help="Say why this tensor, or output of a layer, lies there."),
    ] = None,
    pareto: Annotated[bool, typer.Option("--pareto", help="Show what more work, up to twice, saves of RAM.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="With --pareto: draw it, as .svg, or .png with cairosvg.")
    ] = None,
    count: Annotated[
        str,
        typer.Option("--count", metavar="live|fusion_paper|patch_paper", help="Show what a paper finds by its count, too."),
    ] = "live",
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the plan itself as JSON.")] = None,
    as_json: Json = False,
) -> int:
    """Plan the memory and draw it.

    Every buffer's place, size and lifetime, where the peak is, and what each technique of the planner saves; with --explain
    why one tensor lies where it lies; with --pareto the least RAM for each amount of work. Exits with 1 if the arena exceeds
    the RAM limit.

    Example: tinyweave plan kws.tflite --device stm32f412
    """
    if picture is not None:
        figure.check_figure(picture.name)
    of_one = {"--explain": tensor, "--count": count != "live", "--out": out, "--flash": chosen["flash"]}
    for option, value in of_one.items():
        if pareto and value:
            raise ir.CompileError(f"{option} is of one plan, not of --pareto", "leave out one of them")
    if picture is not None and not pareto:
        raise ir.CompileError("--figure draws what --pareto finds", "add --pareto, or leave out --figure")
    board, limits = _target(chosen)
    loaded = _load(model, chosen)
    chain = api.counted_chain(loaded, count)
    if pareto:
        return _show_front(loaded, board, limits, chosen, picture=picture, as_json=as_json)
    with _progress() as report:
        planned = _plan(loaded, board, limits, chosen, report)
    overhead = chosen["max_mac_overhead"] or 1.0
    ends = {"max_mac_overhead": overhead, "ram": limits.ram}
    compared = api.counted(loaded, planned, count, chain, **ends) if chain else None
    explained = None if tensor is None else api.explain(loaded, planned, tensor)
    saved = api.ablation(loaded, planned, chosen["schedule"]) if explained is None else None
    found = record.record(loaded, plan=planned, device=board, limits=limits, ablation=saved)
    found["explain"] = record.explanation_record(explained) if explained else None
    found["count"] = counts.count_record(compared) if compared else None
    if found["fits"] is False and not explained:
        found["advice"] = _advice("plan", model, loaded, planned, board=board, limits=limits, chosen=chosen)
    if out is not None:
        files.write_file(out, planning.to_json(planned))
    if as_json:
        _print_json(found)
    elif explained:
        text.show_explanation(text.console(), planned, explained)
    else:
        screen = text.console()
        text.show_plan(screen, planned, found)
        text.show_verdict(screen, found)
        text.show_advice(screen, found)
    if compared and not as_json:
        print()
        text.show_lines(text.console(), counts.count_lines(loaded.graph, compared, overhead, limits.ram))
    return DOES_NOT_FIT if found["fits"] is False else 0


def _show_front(
    model: results.Model,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    *,
    picture: Path | None,
    as_json: bool,
) -> int:
    """`plan --pareto`: the front as a table, a picture, or JSON."""
    if chosen["schedule"] != "best":
        raise ir.CompileError(f"--pareto is of schedule best, not of {chosen['schedule']}", "leave out --schedule")
    if chosen["optimize"] == "speed":
        raise ir.CompileError("--pareto finds the least RAM: it is of --optimize size, not of speed", "leave out --optimize")
    overhead = chosen["max_mac_overhead"]
    options = {name: chosen[name] for name in ("stream_inputs", "stream_outputs")}
    options |= {} if overhead is None else {"max_mac_overhead": overhead}
    plans = api.front(model, **options)
    found = record.front_record(model, plans, limits, board)
    if picture is not None:
        files.write_file(picture, figure.figure(found, picture.name))
    if as_json:
        _print_json(found)
    else:
        text.show_front(text.console(), found)
    return DOES_NOT_FIT if limits.ram is not None and not any(point["fits"] for point in found["points"]) else 0


@app.command(name="compile")
@_with(*SHARED)
def compile_model(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="A .tflite file, or several that share one folder and its kernels.")
    ],
    *,
    chosen: Options,
    name: Name = None,
    kernel_prefix: KernelPrefix = None,
    plan_file: PlanFile = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Write the C of a model, or of several.

    The folder holds <name>.h, <name>.c, <name>_weights.h of each and the kernels that they use, and no others. What an earlier
    run wrote there and is no longer part of it is removed, unless somebody has changed it.

    Example: tinyweave compile kws.tflite -o firmware/kws
    """
    if len(models) > 1 and name is not None:
        raise ir.CompileError("--name is of one model", "leave it out: the names come from the files")
    if len(models) > 1 and out is None:
        raise ir.CompileError("several models share one folder", "give it with -o")
    if plan_file is not None:
        _check_planned(models, chosen)
    board, limits = _target(chosen)
    loaded = [_load(path, chosen, name) for path in models]
    if plan_file is not None:
        plans = [api.read_plan(plan_file, loaded[0], board.core if board else None)]
    else:
        plans = [_plan(model, board, limits, chosen) for model in loaded]
    options = {"name": name, "kernel_prefix": kernel_prefix, "plan": plan_file}
    sources = [
        api.source(model, planned, _command("compile", [path], chosen, **options), board, kernel_prefix=kernel_prefix or "")
        for model, planned, path in zip(loaded, plans, models, strict=True)
    ]
    emitted, folder = api.together(sources), out or Path("out") / loaded[0].name
    with manifest.generated_folder(folder, _command("compile", models, chosen, **options), _origins(loaded)) as written:
        for source in sources:
            api.write(source, written.scratch)
    found = [
        record.record(model, plan=planned, device=board, limits=limits) for model, planned in zip(loaded, plans, strict=True)
    ]
    if as_json:
        _warn_of_kept(folder, written)
        paths = {"files": (*emitted, manifest.MANIFEST), "removed": written.removed}
        about = {key: [str(folder / name) for name in names] for key, names in paths.items()}
        return _print_json({"tinyweave": __version__, "models": found, **about} if len(found) > 1 else found[0] | about)
    screen = text.console()
    text.heading(screen, f"wrote {len(emitted) + 1} files to {folder}")
    for file, content in emitted.items():
        print(f"  {file}  {len(content):,} B")
    print(f"  {manifest.MANIFEST}  lists them")
    _say_removed(folder, written)
    if len(found) == 1:
        print(f"arena: {text.size(found[0]['ram']['arena'])}")
    else:
        for one in found:
            print(f"arena of {one['model']['name']}: {text.size(one['ram']['arena'])}")
        print("models that do not run at the same time can share one arena, as large as the largest")
    for one in found:
        if one["fits"] is False:
            text.show_verdict(screen, one)
    return 0


@app.command()
@_with(*SHARED)
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

    The C runs on this machine and on an emulated core, and is compared with LiteRT's reference. Exits with 1 if it differs.

    Example: tinyweave verify kws.tflite --device stm32f746 --samples 20
    """
    board, limits = _target(chosen)
    loaded = _load(model, chosen)
    planned = _plan(loaded, board, limits, chosen)
    given = read_inputs(inputs, loaded)
    with _progress() as report:
        result = api.verify(
            loaded, planned, inputs=given, count=samples, seed=seed, core=api.emulated_core(board), progress=report
        )
    found = record.record(loaded, plan=planned, verification=result, device=board, limits=limits)
    if as_json:
        _print_json(found)
    else:
        text.show_proof(text.console(), found)
    return 0 if result.ok else DIFFERS


@app.command()
@_with(*SHARED)
def profile(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    compare_with: CompareWith = None,
    trace_file: TraceFile = None,
    as_json: Json = False,
) -> int:
    """Measure one inference on an emulated core.

    Instructions by layer, with the kernel that took them, the cycles and milliseconds that they are estimated to take on the
    device, stack, and the sizes of code and data.

    Example: tinyweave profile kws.tflite --device stm32f746 --json > before.json
    """
    if compare_with and as_json:
        raise ir.CompileError("--compare shows what changed to people, not in --json", "leave out one of them")
    before = _read_record(compare_with) if compare_with else None
    board, limits = _target(chosen)
    loaded = _load(model, chosen)
    planned = _plan(loaded, board, limits, chosen)
    given = read_inputs(inputs, loaded)
    with _progress() as report:
        report("building and running on the emulated core", 0, 1)
        measured = api.profile(loaded, planned, api.emulated_core(board), given[0] if given else None, device=board)
    found = record.record(loaded, plan=planned, profile=measured, device=board, limits=limits)
    if trace_file:
        files.write_file(trace_file, json.dumps(trace.trace(found), indent=1) + "\n")
    if as_json:
        return _print_json(found)
    screen = text.console()
    text.show_profile(screen, found, before)
    text.show_memory(screen, found)
    text.show_instructions(screen, found)
    return 0


@app.command()
@_with(*SHARED)
def deploy(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    samples: Samples = SAMPLES,
    seed: Seed = SEED,
    name: Name = None,
    kernel_prefix: KernelPrefix = None,
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Do the whole job: C that is proved, measured and judged.

    Plans, writes C, builds it, runs it here and on an emulated core, compares every output byte, measures RAM, Flash and
    instructions, and leaves the C and a report. Exits with 1 if it does not fit or if a byte differs.

    Example: tinyweave deploy kws.tflite --device stm32f746 -o firmware/kws
    """
    board, limits = _target(chosen)
    loaded = _load(model, chosen, name)
    given = read_inputs(inputs, loaded)
    options = {"inputs": inputs, "samples": samples, "seed": seed, "name": name, "kernel_prefix": kernel_prefix}
    with _progress() as report:
        planned = _plan(loaded, board, limits, chosen, report)
    found = record.record(loaded, plan=planned, device=board, limits=limits)
    if found["fits"] is False:  # no build can change that
        found["advice"] = _advice(
            "deploy", model, loaded, planned, board=board, limits=limits, chosen=chosen, **options, out=out
        )
        if as_json:
            _print_json(found)
        else:
            text.show_misfit(text.console(), found)
        return DOES_NOT_FIT
    folder = out or Path("out") / loaded.name
    command = _command("deploy", [model], chosen, **options)
    with manifest.generated_folder(folder, command, _origins([loaded])) as written:
        with _progress() as report:
            done = api.deploy(
                loaded,
                written.scratch,
                device=board,
                limits=limits,
                **_scheduled(chosen),
                inputs=given,
                count=samples,
                seed=seed,
                command=command,
                kernel_prefix=kernel_prefix or "",
                planned=planned,
                progress=report,
            )
        found = record.record(
            loaded, plan=done.plan, profile=done.profile, verification=done.verification, device=board, limits=limits
        )
        (written.scratch / "report.md").write_text(markdown.markdown(found, text.picture(done.plan)), encoding="utf-8")
        (written.scratch / "report.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if as_json:
        _warn_of_kept(folder, written)
        _print_json(found)
    else:
        screen = text.console()
        text.show_target(screen, found)
        text.show_memory(screen, found)
        text.show_instructions(screen, found)
        text.show_proof(screen, found)
        text.show_verdict(screen, found)
        print(f"C and the report with every layer: {folder}")
        _say_removed(folder, written)
    return 0 if done.fits and done.verification.ok else DOES_NOT_FIT


@app.command()
def reorder(
    model: ModelFile,
    *,
    count: Annotated[
        str, typer.Option("--count", metavar="live|working_set", help="Views lie in their source, or each tensor by itself.")
    ] = "live",
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="The reordered .tflite to write.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write both orders as CSV.")] = None,
    picture: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw memory over time: .svg, or .png with cairosvg.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Put a model's ops in the order that needs the least memory.

    The new file computes the same; nothing in it changes but the order. Any runtime that frees tensors gains by it.

    Example: tinyweave reorder kws.tflite -o kws_reordered.tflite --figure kws.svg
    """
    if picture is not None:
        figure.check_figure(picture.name)
    with _told(model):
        loaded = api.read(model)
    done = api.reorder(loaded, count)
    found = record.reorder_record(done, out)
    drawn = figure.figure(found, picture.name) if picture else b""
    wanted = {out: done.file, table: tables.order_csv(found), picture: drawn}
    files.write_files({path: content for path, content in wanted.items() if path is not None})
    if as_json:
        return _print_json(found)
    text.show_reordering(text.console(), found)
    return 0


@app.command()
@_with(_schedule_options, _edge_options)
def compare(
    model: ModelFile,
    *,
    chosen: Options,
    inputs: Inputs = None,
    as_json: Json = False,
) -> int:
    """Hold a model against every known board.

    Plans, builds and runs it once per core, and says for each board how long it takes there (estimated), and what is left of
    its RAM and Flash, or what is missing. Exits with 1 if it fits none.

    Example: tinyweave compare kws.tflite
    """
    loaded = _load(model, chosen)
    given = read_inputs(inputs, loaded)
    with _progress() as report:
        boards = api.compare_boards(loaded, sample=given[0] if given else None, progress=report, **_scheduled(chosen))
    planned = next(board.plan for board in boards if board.device.core == api.DEFAULT_CORE)
    found = record.comparison_record(loaded, planned, boards)
    if as_json:
        _print_json(found)
    else:
        text.show_comparison(text.console(), found)
    return 0 if found["fits"] else DOES_NOT_FIT


@app.command(name="devices")
def list_devices(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One of them, with its memories and sources.")] = None,
    *,
    as_json: Json = False,
) -> int:
    """List the known boards, or show one.

    Example: tinyweave devices stm32h743
    """
    chosen = [devices.find(name)] if name else list(devices.all_devices())
    if as_json:
        return _print_json([record.device_record(device) for device in chosen])
    if name:
        text.show_device(text.console(), chosen[0])
    else:
        text.show_devices(text.console(), chosen)
    return 0


@app.command()
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything in it.")] = False,
    as_json: Json = False,
) -> int:
    """Show the folder of built programs and its size, or empty it.

    Example: tinyweave cache --clear
    """
    if clear:
        toolchain.clear_cache()
    folder, size, limit = toolchain.cache_folder(), toolchain.cache_bytes(), toolchain.BUILDS_BYTES + toolchain.ZIG_BYTES
    if as_json:
        return _print_json({"folder": str(folder), "bytes": size, "limit": limit})
    print(f"{text.clean(str(folder), 400)}: {size:,} B, kept below about {limit:,} B")
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tinyweave {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _load(path: Path, chosen: Options, name: str | None = None) -> results.Model:
    """Import a model and run the passes."""
    with _told(path):
        return api.load(path, chosen["io"], name, layout=chosen["layout"])


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever is wrong with a model is said with the file's name."""
    try:
        yield
    except ir.CompileError as error:
        if str(path) in str(error):
            raise
        raise ir.CompileError(f"{path}: {error}") from error


def _scheduled(chosen: Options) -> Options:
    """Return the options that `api.plan` takes; CompileError for one that the schedule would ignore."""
    kind, overhead = chosen["schedule"].split(":")[0], chosen["max_mac_overhead"]
    if kind in NOTHING_TWICE and overhead is not None and overhead > 1:
        raise ir.CompileError(
            f"--schedule {kind} computes nothing twice", "leave out --max-mac-overhead, or use --schedule best"
        )
    return {name: chosen[name] for name in signature(_schedule_options).parameters}


def _plan(
    model: results.Model,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    progress: api.Progress | None = None,
) -> planning.Plan:
    core = board.core if board else api.DEFAULT_CORE
    return api.plan(model, limits=limits, core=core, progress=progress, **_scheduled(chosen))


def _check_planned(models: Sequence[Path], chosen: Options) -> None:
    """Raise CompileError for options that a plan out of a file has no use for."""
    if len(models) > 1:
        raise ir.CompileError("--plan is of one model", "compile the models one by one, each with --kernel-prefix")
    given = [name for name in signature(_schedule_options).parameters if chosen[name] != DEFAULTS[name]]
    if given:
        raise ir.CompileError(f"--{given[0].replace('_', '-')} is for planning, and --plan is a plan", "leave out one of them")


def _advice(
    verb: str,
    path: Path,
    model: results.Model,
    plan: planning.Plan,
    *,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    **more: Any,
) -> list[dict[str, Any]]:
    """Return what to change about a plan that does not fit, as complete commands of the same verb, the best first."""
    options = {name: value for name, value in chosen.items() if name not in signature(_target_options).parameters}
    with _progress() as report:
        proposals = advice.advise(model, plan, board=board, limits=limits, options=options, progress=report)
    found = []
    for proposal in proposals:
        # limits that were given for one board say nothing of another
        changed = {**chosen, **({"ram": None, "flash": None} if "device" in proposal.changes else {}), **proposal.changes}
        words = ["tinyweave", verb, str(path), *_option_words(changed | more)]
        changes = (list(_option_words({name: value})) or [f"--{name}", str(value)] for name, value in proposal.changes.items())
        said = [word for words_of_one in changes for word in words_of_one]
        found.append(record.proposal_record(proposal, " ".join(map(_quoted, words)), said))
    return found


def _target(chosen: Options) -> tuple[devices.Device | None, results.Limits]:
    """Return the device and the limits: those of the options, else the device's."""
    board = devices.find(chosen["device"]) if chosen["device"] else None
    return board, api.limits_of(board, chosen["ram"], chosen["flash"])


def read_inputs(path: Path | None, model: results.Model) -> list[list[np.ndarray]]:
    """Samples from a file, each with one array per network input.

    .npy holds one input's values, with or without a leading axis of samples; .npz one such array per network input, in
    the file's order; any other file is raw bytes, all inputs of a sample after each other.
    """
    if path is None:
        return []
    import numpy as np

    wanted = [model.graph.tensors[name] for name in model.graph.inputs]
    raw = files.read_file(path, MAX_INPUTS, "give a .npy, .npz or .bin file, with fewer samples if it is too large")
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(BytesIO(raw)) as members:
                unpacked = sum(member.file_size for member in members.infolist())
            if unpacked > MAX_INPUTS:
                raise ValueError(f"unpacked it has {unpacked:,} bytes, at most {MAX_INPUTS:,} are supported")
            with np.load(BytesIO(raw), allow_pickle=False) as archive:
                arrays = [archive[key] for key in archive.files]
        elif path.suffix == ".npy":
            arrays = [np.load(BytesIO(raw), allow_pickle=False)]
        else:
            return _raw_samples(path, raw, wanted)
    except (OSError, ValueError, EOFError, MemoryError, KeyError, zipfile.BadZipFile) as error:
        raise ir.CompileError(f"'{path}' is not a NumPy file: {error}", "save it with numpy.save or numpy.savez") from error
    if len(arrays) != len(wanted):
        raise ir.CompileError(
            f"'{path}' holds {len(arrays)} arrays, the model has {len(wanted)} inputs", "give one array per input"
        )
    columns = [_split(path, array, tensor) for array, tensor in zip(arrays, wanted, strict=True)]
    if len({len(column) for column in columns}) != 1:
        raise ir.CompileError(f"'{path}' holds {[len(c) for c in columns]} samples of the inputs", "give equally many of each")
    return [list(sample) for sample in zip(*columns, strict=True)]


def _split(path: Path, array: np.ndarray, tensor: ir.Tensor) -> list[np.ndarray]:
    """The samples of one input: the array itself, or its slices along a leading axis."""
    if array.size == tensor.elements:
        return [array]
    if array.ndim and array.shape[0] and array.size == array.shape[0] * tensor.elements:
        return list(array)
    raise ir.CompileError(
        f"'{path}' holds {array.dtype}{list(array.shape)}, the input is {tensor.dtype}{list(tensor.shape)}",
        "give that shape, or several along a leading axis",
        tensor=tensor,
    )


def _raw_samples(path: Path, raw: bytes, wanted: Sequence[ir.Tensor]) -> list[list[np.ndarray]]:
    each = sum(tensor.bytes for tensor in wanted)
    if not raw or not each or len(raw) % each:
        raise ir.CompileError(f"'{path}' holds {len(raw):,} bytes, one sample has {each:,}", "give whole samples")
    import numpy as np

    samples = []
    for start in range(0, len(raw), each):
        sample, at = [], start
        for tensor in wanted:
            sample.append(np.frombuffer(raw, tensor.dtype, tensor.elements, at).reshape(tensor.shape))
            at += tensor.bytes
        samples.append(sample)
    return samples


def _read_record(path: Path) -> dict[str, Any]:
    """The record that `profile --json` printed into a file."""
    try:
        found = json.loads(files.read_file(path, MAX_RECORD, "give a file of 'profile --json'"))
    except (ValueError, RecursionError) as error:
        raise ir.CompileError(f"'{path}' is not JSON: {error}", "give a file of 'profile --json'") from error
    if not text.can_be_compared(found):
        raise ir.CompileError(f"'{path}' is no record of a profile", "give a file of 'profile --json'")
    return dict(found)


def _origins(models: Sequence[results.Model]) -> dict[str, tuple[str, str]]:
    """Return the file and its SHA-256 of each model, by the model's name in C."""
    return {model.name: (model.path.name, model.sha256) for model in models}


def _say_removed(folder: Path, written: manifest.Written) -> None:
    if written.removed:
        print(f"removed what an earlier run left there: {', '.join(written.removed)}")
    _warn_of_kept(folder, written)


def _warn_of_kept(folder: Path, written: manifest.Written) -> None:
    """Name the files that an earlier run wrote and that stay, on standard error."""
    for name in written.kept:
        path = text.clean(str(folder / name), 400)
        print(f"tinyweave: warning: '{path}' is of an earlier run, and was changed since: it stays", file=sys.stderr)


def _command(verb: str, models: Sequence[Path], chosen: Options, **more: Any) -> str:
    """Return the command that gives these bytes again, in a folder that holds the files that it names."""
    options = chosen | more
    named = {name: Path(options[name]).name for name in ("device", "inputs", "plan") if options.get(name)}
    return " ".join(map(_quoted, ["tinyweave", verb, *(model.name for model in models), *_option_words(options | named)]))


def _option_words(options: Options) -> Iterator[str]:
    """Yield options as they are typed, those left out that have their default."""
    for option, value in options.items():
        if value is not None and value != DEFAULTS.get(option):
            yield f"--{option.replace('_', '-')}"
            if value is not True:
                yield str(value)


def _quoted(word: str) -> str:
    """Return a word as the shell reads it, in printable ASCII on one line, as the comments of the C are."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    plain = (letter if letter.isascii() and letter.isprintable() and letter not in "'\\" else None for letter in word)
    return "$'" + "".join(p or f"\\U{ord(letter):08x}" for p, letter in zip(plain, word, strict=True)) + "'"


def _print_json(value: Any) -> int:
    print(json.dumps(value, indent=2))
    return 0


@contextmanager
def _progress() -> Iterator[api.Progress]:
    """A reporter (what, done, of how many) that draws a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=text.clean(what, 40), completed=done, total=total or None)
