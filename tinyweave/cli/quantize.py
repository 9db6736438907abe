"""The command `quantize`, which makes a float model int8."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..api.options import METHOD
from . import steps
from .commands import app
from .modules import api, files, quantisation
from .options import Json, ModelFile, Offset, Options, Scale, Shape, numbers, option, shapes_of, with_options


def sample_options(
    *,
    scale: Scale = None,
    offset: Offset = "0",
    labels: Annotated[
        str | None,
        option(
            "--labels FILE|folders",
            "Class of each sample: text with a number per line, a .npy file, or `folders` if each class has a folder.",
        ),
    ] = None,
    shape: Shape = None,
) -> None:
    """Declare the options that say how samples and the model are read; see `with_options`."""


def quantise_options(
    *,
    method: Annotated[
        str,
        option(
            "--method auto|minmax|percentile|mse|entropy",
            "How the range of a tensor is chosen; auto takes for each tensor the method that changes the outputs least.",
        ),
    ] = METHOD,
    samples: Annotated[
        int,
        option("--samples N", "Choose ranges from at most N samples; int8 and float are compared on all.", min=1, max=100_000),
    ] = 200,
    blame: Annotated[
        bool,
        option(
            "--blame", "Show the layers with the largest errors, and what would reduce them; see `tinyweave docs quantize`."
        ),
    ] = False,
    flash: Annotated[
        str | None,
        option(
            "--flash SIZE", "Flash limit: layers get 4-bit weights, the least sensitive layers first, until the network fits."
        ),
    ] = None,
    min_sqnr: Annotated[
        float | None,
        option(
            "--min-sqnr DB",
            "Least SQNR of the outputs in dB: layers get 4-bit weights while it is met; if int8 misses it, maps get int16.",
        ),
    ] = None,
    max_accuracy_drop: Annotated[
        float | None,
        option("--max-accuracy-drop POINTS", "Like --min-sqnr, with a limit on the loss of accuracy; needs --labels."),
    ] = None,
) -> None:
    """Declare the options of `quantize` that `tw.quantize` takes, too; see `with_options`."""


@app.command()
@with_options(sample_options, quantise_options)
def quantize(
    model: ModelFile,
    *,
    inputs: Annotated[
        Path, option("--inputs PATH", "Samples: a folder of images, wav or .npy files, or one .npy or .npz file.")
    ],
    out: Annotated[Path | None, option("-o --out FILE", "File to write; by default <model>_int8.tflite.")] = None,
    chosen: Options,
    as_json: Json = False,
) -> int:
    """Make a float model int8.

    Chooses the ranges of tensors from samples, usually 100 to 200 of them. Then compares the int8 network with the float
    network on all samples. The file that it writes is the input of all other commands.

    Example: tinyweave quantize net.tflite --inputs photos --scale 1/255 -o net_int8.tflite
    """
    path = out or model.with_name(f"{model.stem}_int8.tflite")
    with steps.errors_name(model), steps.progress_bar() as report:
        done = api.quantize(model, inputs, **read_as(chosen), progress=report)
    files.write_file(path, done.file)
    record = quantisation.quantisation_record(done, path)
    steps.show(record, lambda: [quantisation.show_quantisation], as_json=as_json)
    return 0


def read_as(chosen: Options) -> Options:
    """Return the chosen options as arguments of `tw.quantize`; raise CompileError if a scale or offset is not a number."""
    scale = None if chosen["scale"] is None else numbers("--scale", chosen["scale"])
    shapes, offset = shapes_of(chosen.pop("shape")), numbers("--offset", chosen["offset"])
    return chosen | {"scale": scale, "offset": offset, "shapes": shapes}
