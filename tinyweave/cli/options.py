"""The options that verbs share: how they are written, and how a command is told again.

In: what was typed. Out: for each verb a dict of its shared options, `chosen`, by the names of the parameters.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import typed
from .modules import ir

# exit codes
DOES_NOT_FIT = 1
DIFFERS = 1
BAD_INPUT = 2
OUR_MISTAKE = 70
INTERRUPTED = 130

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite, .onnx or .pt2 file.")]
Ram = Annotated[str | None, typer.Option("--ram", metavar="SIZE", help="RAM limit: 65536, 64k or 1m. Overrides the device's.")]
Flash = Annotated[str | None, typer.Option("--flash", metavar="SIZE", help="Flash limit, likewise.")]
StreamInputs = Annotated[
    bool, typer.Option("--stream-inputs", help="A callback brings the inputs by rows; they never lie in RAM as a whole.")
]
Overhead = Annotated[
    float | None,
    typer.Option(
        "--max-mac-overhead",
        metavar="F",
        help="Multiply-accumulates at most F times the network's, for less RAM; 1.0 if not given, any with patch and msf.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON (keys in docs/JSON.md).")]
Inputs = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE", help="Real inputs: .npy, .npz (one array per input) or raw .bin.")
]
Samples = Annotated[
    int, typer.Option("--samples", metavar="N", min=1, max=100_000, help="How many inputs to compare, the given ones included.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random inputs.")]
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
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder to write; out/<name> if left out.")]
SAMPLES = 5
SEED = 0


def target_options(
    *,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="NAME", help="A family, part, board (see `tinyweave devices`) or core, or a TOML file."
        ),
    ] = None,
    ram: Ram = None,
    flash: Flash = None,
    latency_ms: Annotated[
        float | None,
        typer.Option(
            "--latency-ms",
            metavar="X",
            help="Time limit of one inference in milliseconds, estimated for the device and its clock.",
        ),
    ] = None,
) -> None:
    """List the options that say what the network must fit."""


def schedule_options(
    *,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule",
            metavar="NAME",
            help="best, unfused, layer (by layer), or as others do: patch, patch:N:K, msf, stream2d.",
        ),
    ] = "best",
    optimize: Annotated[
        str | None,
        typer.Option(
            "--optimize",
            metavar="balanced|speed|size",
            help="Choose the least RAM x cycles, the fewest cycles, or the least RAM; speed with --ram, else balanced.",
        ),
    ] = None,
    stream_inputs: StreamInputs = False,
    stream_outputs: Annotated[
        bool,
        typer.Option(
            "--stream-outputs",
            help="A callback takes the outputs by rows: those that are maps, computed by rows, and that no layer reads.",
        ),
    ] = False,
    max_mac_overhead: Overhead = None,
) -> None:
    """List the options that `api.plan` takes as they are."""


def edge_options(
    *,
    io: Annotated[
        str, typer.Option("--io", metavar="model|int8", help="Keep the model's input and output types, or strip to int8.")
    ] = "model",
    layout: Annotated[
        str,
        typer.Option(
            "--layout", metavar="model|nhwc", help="Keep the layout of inputs and outputs, or put channels last: no transposes."
        ),
    ] = "model",
) -> None:
    """List the options that say what the network's inputs and outputs look like."""


def stream_options(
    *,
    stream_time: Annotated[
        str | None,
        typer.Option(
            "--stream-time",
            metavar="H|auto",
            help="Take H new frames of the network's window at each call, and compute only what is new; see docs/STREAMING.md.",
        ),
    ] = None,
) -> None:
    """List the option that says how much of its input the network takes at a call."""


def source_options(
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="SPEC",
            help="Add C that brings the input: jpeg:640x480, rgb565:320x240, yuyv:320x240:240x240+40+0; see docs/CAMERA.md.",
        ),
    ] = None,
    pixels: Annotated[
        str | None,
        typer.Option("--pixels", metavar="LOW..HIGH", help="With --source: what black and white are to the network, as 0..1."),
    ] = None,
) -> None:
    """List the options that say where the network's input comes from."""


SHARED = (target_options, schedule_options, edge_options, stream_options)
DEFAULTS = {name: option.default for shared in SHARED for name, option in signature(shared).parameters.items()}
DEFAULTS |= dict.fromkeys(signature(source_options).parameters)
DEFAULTS |= {"samples": SAMPLES, "seed": SEED}
NOTHING_TWICE = ("layer", "unfused", "stream2d")  # schedules without work that --max-mac-overhead could allow


def with_options(*shared: Callable[..., None]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that gives a verb the options of these functions; the verb takes them as the dict `chosen`."""
    options = [option for each in shared for option in signature(each, eval_str=True).parameters.values()]

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        @wraps(verb)
        def run(**values: Any) -> int:
            chosen = {option.name: values.pop(option.name) for option in options}
            return verb(**values, chosen=chosen)

        own = signature(verb, eval_str=True)
        parameters = [each for p in own.parameters.values() for each in (options if p.name == "chosen" else [p])]
        del run.__wrapped__  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def scheduled(chosen: Options) -> Options:
    """Return the options that `api.plan` takes; CompileError for one that the schedule would ignore."""
    kind, overhead = chosen["schedule"].split(":")[0], chosen["max_mac_overhead"]
    if kind in NOTHING_TWICE and overhead is not None and overhead > 1:
        raise ir.CompileError(
            f"--schedule {kind} computes nothing twice", "leave out --max-mac-overhead, or use --schedule best"
        )
    return {name: chosen[name] for name in signature(schedule_options).parameters}


def check_planned(models: Sequence[Path], chosen: Options) -> None:
    """Raise CompileError for options that a plan out of a file has no use for."""
    if len(models) > 1:
        raise ir.CompileError("--plan is of one model", "compile the models one by one, each with --kernel-prefix")
    changed = [name for name in signature(schedule_options).parameters if chosen[name] != DEFAULTS[name]]
    if changed:
        raise ir.CompileError(
            f"--{changed[0].replace('_', '-')} is for planning, and --plan is a plan", "leave out one of them"
        )


def command_line(verb: str, models: Sequence[Path], chosen: Options, **more: Any) -> str:
    """Return the command that gives these bytes again, in a folder that holds the files that it names."""
    options = chosen | more
    named = {name: Path(options[name]).name for name in ("device", "inputs", "plan") if options.get(name)}
    return " ".join(map(quoted, ["tinyweave", verb, *(model.name for model in models), *option_words(options | named)]))


def option_words(options: Options) -> Iterator[str]:
    """Yield options as they are typed, those left out that have their default."""
    return typed(options, DEFAULTS)


def quoted(word: str) -> str:
    """Return a word as the shell reads it, in printable ASCII on one line, as the comments of the C are."""
    if word.isascii() and word.isprintable():
        return shlex.quote(word)
    plain = (letter if letter.isascii() and letter.isprintable() and letter not in "'\\" else None for letter in word)
    return "$'" + "".join(p or f"\\U{ord(letter):08x}" for p, letter in zip(plain, word, strict=True)) + "'"
