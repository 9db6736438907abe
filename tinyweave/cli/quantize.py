"""The verb `quantize`: a float model and samples in, an int8 model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..lazy import lazy
from . import steps
from .commands import app
from .options import Json, ModelFile, Options, with_options

if TYPE_CHECKING:
    from .. import api, files, ir
    from ..report import quantisation, text
else:
    api, files, ir = map(lazy, ("api", "files", "ir"))
    quantisation, text = map(lazy, ("report.quantisation", "report.text"))


def sample_options(
    *,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="X", help="Factor of the samples' values, as 1/255, or one per channel, as 0.02,0.02,0.02; images need it."
        ),
    ] = None,
    offset: Annotated[str, typer.Option(metavar="X", help="What is added to them then: one number, or one per channel.")] = "0",
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|folders",
            help="A class per sample, for the accuracy or to train for: a number per line, .npy, or each image's folder.",
        ),
    ] = None,
) -> None:
    """List the options that say how samples are read."""


@app.command()
@with_options(sample_options)
def quantize(
    model: ModelFile,
    *,
    calibrate: Annotated[
        Path,
        typer.Option(
            "--calibrate", metavar="PATH", help="Samples: a folder of images, wav or .npy files, or one .npy or .npz file."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The .tflite to write; <model>_int8.tflite if left out.")
    ] = None,
    chosen: Options,
    method: Annotated[
        str,
        typer.Option(
            metavar="auto|minmax|percentile|mse|entropy",
            help="How ranges are chosen; auto tries all, and takes for each tensor what changes the outputs least.",
        ),
    ] = "auto",
    samples: Annotated[
        int,
        typer.Option(
            "--samples", metavar="N", min=1, max=100_000, help="How many choose the ranges, at most; all are compared."
        ),
    ] = 200,
    equalize: Annotated[
        bool, typer.Option("--equalize", help="Rescale the channels between layers to like ranges, if that gains.")
    ] = False,
    correct_bias: Annotated[
        bool, typer.Option("--correct-bias", help="Bring the means of layers to where they are in float, if that gains.")
    ] = False,
    adaptive_rounding: Annotated[
        bool, typer.Option("--adaptive-rounding", help="Round weights up or down by what their layers give, if that gains.")
    ] = False,
    blame: Annotated[
        bool, typer.Option("--blame", help="Show which layers lose most, alone and added up, and what would help.")
    ] = False,
    flash: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Give layers weights of 4 bits, those that lose least first, until it fits."),
    ] = None,
    min_sqnr: Annotated[
        float | None,
        typer.Option(metavar="DB", help="Keep so much signal to noise: the fewest bytes by 4-bit weights, or int16 maps."),
    ] = None,
    max_accuracy_drop: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Lose at most so many points of accuracy, likewise; needs --labels.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a float model int8.

    Ranges come from samples of what the network is going to see; a hundred or two are usual. The int8 network is compared with
    the float one on all of them. Its file is what every other verb takes.

    Example: tinyweave quantize net.tflite --calibrate photos --scale 1/255 -o net_int8.tflite
    """
    path = out or model.with_name(f"{model.stem}_int8.tflite")
    with steps.told(model):
        loaded = api.read(model)
        with steps.progress_bar() as report:
            done = api.quantize(
                loaded,
                calibrate,
                **read_as(chosen),
                method=method,
                count=samples,
                equalize=equalize,
                correct_bias=correct_bias,
                adaptive_rounding=adaptive_rounding,
                blamed=blame,
                flash=flash,
                min_sqnr=min_sqnr,
                max_accuracy_drop=max_accuracy_drop,
                path=path,
                progress=report,
            )
    files.write_file(path, done.file)
    record = quantisation.quantisation_record(done, path)
    if as_json:
        return steps.print_json(record)
    quantisation.show_quantisation(text.console(), record)
    return 0


def read_as(chosen: Options) -> Options:
    """Return `sample_options` as `api` takes them."""
    scale = None if chosen["scale"] is None else _numbers("--scale", chosen["scale"])
    return {"scale": scale, "offset": _numbers("--offset", chosen["offset"]), "labels": chosen["labels"]}


def _numbers(option: str, given: str) -> list[float]:
    """Return the numbers of an option: decimals or fractions, with commas between them."""
    try:
        return [_number(part) for part in given.split(",")]
    except (ValueError, ZeroDivisionError) as error:
        raise ir.CompileError(f"{option} {given} is no number", "give one as 0.5 or 1/255, or several with commas") from error


def _number(part: str) -> float:
    above, _, below = part.partition("/")
    value = float(above) / float(below or 1)
    if not abs(value) < 1e30:
        raise ValueError(part)
    return value
