"""The options that several commands share.

A function such as `target_options` declares a group of options by its parameters; `with_options` adds them to a command. The
command gets their values as one dict, `chosen`, keyed by parameter name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api.options import DEFAULTS, PlanOptions
from .modules import devices, ir

# exit codes
DOES_NOT_FIT = 1
DIFFERS = 1
BAD_INPUT = 2
OUR_MISTAKE = 70
INTERRUPTED = 130


def option(syntax: str, help: str, **more: Any) -> Any:
    """Return a typer option of flags and, unless it is a switch, the placeholder of its value: "-o --out FILE"."""
    flags = [word for word in syntax.split(" ") if word.startswith("-")]
    return typer.Option(*flags, metavar=" ".join(syntax.split(" ")[len(flags) :]) or None, help=help, **more)


def complete_device(start: str) -> list[str]:
    """Return the names of the known devices that begin with `start`, for completion in the shell."""
    return [device.name for device in devices.all_devices() if device.name.startswith(start.lower())]


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite, .onnx or .pt2 file.")]
Shape = Annotated[
    list[str] | None,
    option(
        "--shape NAME=1,3,160,160",
        "Shape of a network input with dynamic axes, in the order of the file. A dynamic batch becomes 1 without it.",
    ),
]
Ram = Annotated[str | None, option("--ram SIZE", "RAM limit in bytes, or as 64k; else the device's.")]
Flash = Annotated[str | None, option("--flash SIZE", "Flash limit in bytes, or as 1m; else the device's.")]
StreamInputs = Annotated[
    bool, option("--stream-inputs", "A callback delivers the inputs row by row, so that RAM never holds a whole input.")
]
Overhead = Annotated[
    float | None,
    option(
        "--max-mac-overhead F",
        "Allow recomputation to save RAM, up to F times the network's MACs in total: 1.1 allows 10 % more MACs. The "
        "default is 1.0 (no recomputation); the strategies patch and msf have no limit by default.",
    ),
]
Json = Annotated[bool, option("--json", "Print the result as JSON; see `tinyweave docs json`.")]
Inputs = Annotated[
    Path | None,
    option(
        "--inputs FILE", "Samples to run: .npy, .npz (one array per network input), .csv or raw .bin; floats are quantised."
    ),
]
Device = Annotated[
    str | None,
    option("--device NAME", "A name of `tinyweave devices`, or a TOML file.", autocompletion=complete_device),
]
Scale = Annotated[
    str | None,
    option(
        "--scale X",
        "Factor of the samples' values: 1/255, or one per channel, 0.02,0.02,0.03. To quantise with images it is necessary.",
    ),
]
Offset = Annotated[str, option("--offset X", "Number added to the scaled values, or one per channel.")]
Samples = Annotated[
    int, option("--samples N", "Number of samples to compare, including the samples of --inputs.", min=1, max=100_000)
]
Seed = Annotated[int, option("--seed N", "Seed of the random samples.", min=0)]
Options = dict[str, Any]  # values of shared options by parameter name
Out = Annotated[Path | None, option("-o --out DIR", "Folder for the files; by default out/<name>.")]


def target_options(
    *,
    device: Device = None,
    ram: Ram = None,
    flash: Flash = None,
    latency_ms: Annotated[
        float | None, option("--latency-ms X", "Time limit of one inference in ms, estimated from the device's core and clock.")
    ] = None,
) -> None:
    """Declare the options of the device and the limits; see `with_options`."""


def schedule_options(
    *,
    schedule: Annotated[
        str,
        option(
            "--schedule NAME",
            "Strategy of the planner: best; unfused or layer (no fused layers); patch, patch:N:K or msf (those of "
            "published planners; see `tinyweave docs ram`).",
        ),
    ] = "best",
    optimize: Annotated[
        str | None,
        option(
            "--optimize balanced|speed|size|flash",
            "Minimise RAM x cycles (balanced, the default), cycles (speed), RAM (size) or Flash (flash). "
            "If that plan exceeds a limit, the others are tried.",
        ),
    ] = None,
    stream_inputs: StreamInputs = False,
    stream_outputs: Annotated[
        bool,
        option(
            "--stream-outputs",
            "A callback receives the outputs row by row. This applies to output maps that no layer reads, if their layer can "
            "compute row by row.",
        ),
    ] = False,
    max_mac_overhead: Overhead = None,
    weights: Annotated[
        str,
        option(
            "--weights flash|auto|ram|file|fetch",
            "Read constants from Flash, or copy all of them (ram), or those that save the most time (auto), to RAM at init, or "
            "read them from a file that can be replaced (file), by a callback before each layer (fetch); see "
            "`tinyweave docs weights`.",
        ),
    ] = "flash",
) -> None:
    """Declare the options of the planner's strategy and objective; see `with_options`."""


def io_options(
    *,
    io: Annotated[
        str,
        option(
            "--io auto|model|int8",
            "Convert float inputs and outputs in write_input and read_output, outside of the arena (auto), or in the network "
            "(model), or make inputs and outputs int8 by removing all conversions.",
        ),
    ] = "auto",
    layout: Annotated[
        str, option("--layout model|nhwc", "Keep the order of axes of inputs and outputs (model), or put channels last (nhwc).")
    ] = "model",
    shape: Shape = None,
) -> None:
    """Declare the options for types and layout of network inputs and outputs; see `with_options`."""


def stream_options(
    *,
    stream_time: Annotated[
        str | None,
        option(
            "--stream-time H|auto",
            "For inputs that are a window of a stream: each call takes H new frames and reuses results of earlier calls; "
            "see `tinyweave docs streaming`.",
        ),
    ] = None,
) -> None:
    """Declare the option of streaming in time, a few new frames per call; see `with_options`."""


def code_options(
    *,
    source: Annotated[
        str | None,
        option(
            "--source SPEC",
            "Add C that delivers the input from a camera or a JPEG file: jpeg:640x480, rgb565:320x240, "
            "yuyv:320x240:240x240+40+0; see `tinyweave docs camera`.",
        ),
    ] = None,
    pixels: Annotated[
        str | None,
        option("--pixels LOW..HIGH", "With --source: values of black and white pixels in the network's input, such as 0..1."),
    ] = None,
    name: Annotated[str | None, option("--name ID", "Prefix of the C names; by default made from the file's name.")] = None,
    kernel_prefix: Annotated[
        str,
        option(
            "--kernel-prefix ID", "Prefix of the kernels' names, so that C from several folders can be linked into one program."
        ),
    ] = "",
) -> None:
    """Declare the options of the emitted C, and of C that gets the input from a camera or a JPEG file; see `with_options`."""


def of_code(chosen: Options) -> Options:
    """Return the options of `code_options` that functions of `api` take."""
    return {name: chosen[name] for name in ("kernel_prefix", "source", "pixels")}


SHARED = (target_options, schedule_options, io_options, stream_options)
WITHOUT_RECOMPUTATION = ("layer", "unfused")  # strategies that never recompute


def with_options(*shared: Callable[..., None]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds shared options to a command.

    The decorated command has the parameters of the functions in `shared` in place of its own parameter `chosen`. It passes
    their values to the original function as one dict, `chosen`.
    """
    options = [option for each in shared for option in signature(each, eval_str=True).parameters.values()]

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        @wraps(verb)
        def run(**values: Any) -> int:
            chosen = {option.name: values.pop(option.name) for option in options}
            return verb(**values, chosen=chosen)

        own = signature(verb, eval_str=True)
        parameters = [each for p in own.parameters.values() for each in (options if p.name == "chosen" else [p])]
        del run.__wrapped__
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
        return run

    return decorate


def shapes_of(texts: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Parse values of --shape, such as "images=1,3,160,160"; raise CompileError for a malformed one or a repeated name."""
    shapes = dict[str, tuple[int, ...]]()
    for text in texts or ():
        name, mark, extents = text.rpartition("=")
        parts = extents.split(",")
        if not mark or not name or len(parts) > 8 or not all(p.isascii() and p.isdecimal() and len(p) < 9 for p in parts):
            raise ir.CompileError(f"--shape {text[:60]} is not a name and its extents", "write --shape images=1,3,160,160")
        if name in shapes or not all(map(int, parts)):
            why = f"gives '{name}' twice" if name in shapes else f"{text[:60]} has the extent 0"
            raise ir.CompileError(f"--shape {why}", "give each input one shape of positive extents")
        shapes[name] = tuple(map(int, parts))
    return shapes


def plan_options(chosen: Options) -> PlanOptions:
    """Return the options of the planner, without `stream_time`, which applies to the model.

    Raise CompileError if --max-mac-overhead is above 1, but the strategy never recomputes.
    """
    kind, overhead = chosen["schedule"].split(":")[0], chosen["max_mac_overhead"]
    if kind in WITHOUT_RECOMPUTATION and overhead is not None and overhead > 1:
        raise ir.CompileError(f"--schedule {kind} never recomputes", "leave out --max-mac-overhead, or use --schedule best")
    names = set(PlanOptions.__dataclass_fields__) - {"stream_time"}
    return PlanOptions(**{name: chosen[name] for name in names if name in chosen})


def check_planned(chosen: Options) -> None:
    """Raise CompileError if an option of strategy or objective is set, which has no effect on a finished plan (--plan)."""
    if changed := [name for name in signature(schedule_options).parameters if chosen[name] != DEFAULTS[name]]:
        option_name = changed[0].replace("_", "-")
        raise ir.CompileError(f"--{option_name} has no effect on the finished plan of --plan", "leave out one of them")


def numbers(name: str, given: str) -> list[float]:
    """Parse numbers separated by commas, which may be fractions such as 1/255; error messages name the option `name`."""
    try:
        return [_number(part) for part in given.split(",")]
    except (ValueError, ZeroDivisionError) as error:
        raise ir.CompileError(f"{name} {given} is no number", "write 0.5 or 1/255, or several with commas") from error


def _number(part: str) -> float:
    """Parse a decimal number or a fraction; raise ValueError if it is malformed or too large."""
    above, _, below = part.partition("/")
    value = float(above) / float(below or 1)
    if not abs(value) < 1e30:
        raise ValueError(part)
    return value
