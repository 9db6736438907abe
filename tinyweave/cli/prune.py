"""The verb `prune`: a float model and limits in, a smaller int8 model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..lazy import lazy
from . import steps
from .commands import app
from .options import Flash, Json, ModelFile, Options, Ram, with_options
from .quantize import read_as, sample_options

if TYPE_CHECKING:
    from .. import api, files
    from ..report import quantisation, text
else:
    api, files, quantisation, text = map(lazy, ("api", "files", "report.quantisation", "report.text"))


@app.command()
@with_options(sample_options)
def prune(
    model: ModelFile,
    *,
    calibrate: Annotated[
        Path, typer.Option("--calibrate", metavar="PATH", help="Samples, as `quantize` takes them; hundreds are better here.")
    ],
    ram: Ram = None,
    flash: Flash = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="The .tflite to write; <model>_pruned.tflite if left out."),
    ] = None,
    chosen: Options,
    epochs: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=10_000, help="How often the training sees the samples; it needs torch; 0: no training."
        ),
    ] = 10,
    rate: Annotated[
        float, typer.Option(metavar="X", min=0.0, max=1.0, help="The rate of the training at its greatest.")
    ] = 1e-4,
    as_json: Json = False,
) -> int:
    """Make a float model int8, with fewer channels so that it fits.

    Whole channels go, those of least weights first, of the layers where they save most of what the planner finds too much. What
    is left is trained to give what the float model gives, as the int8 network that it is going to be.

    Example: tinyweave prune net.tflite --calibrate photos --scale 1/255 --ram 32k -o small.tflite
    """
    path = out or model.with_name(f"{model.stem}_pruned.tflite")
    with steps.told(model):
        loaded = api.read(model)
        with steps.progress_bar() as report:
            done = api.prune(
                loaded,
                calibrate,
                ram=ram,
                flash=flash,
                **read_as(chosen),
                epochs=epochs,
                rate=rate,
                path=path,
                progress=report,
            )
    files.write_file(path, done.file)
    record = quantisation.pruning_record(done, path)
    if as_json:
        return steps.print_json(record)
    quantisation.show_pruning(text.console(), record)
    return 0
