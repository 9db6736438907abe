"""The verb `report`: models, and what other verbs printed, in; one page to look at out."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import steps
from .commands import app
from .modules import api, files, ir, page, planning, records, schema, viewers
from .options import DEFAULTS, SHARED, Options, command_line, option_words, with_options

JOINING = ("front", "quantisation")  # kinds of records that join the plan of the same file


@app.command()
@with_options(*SHARED)
def report(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Models, which are planned, and records: what --json printed, or report.json."),
    ],
    *,
    chosen: Options,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page to write.")] = Path("report.html"),
    folder: Annotated[
        Path | None,
        typer.Option("--node-data", metavar="DIR", help="Also write bytes, MACs and cycles of one model for Model Explorer."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> int:
    """Write a page to look at: a plan, its memory, its layers.

    It needs no network. Several plans, models or versions stand side by side. Records of one model join: of `deploy`, what
    was measured; of `plan --pareto`, the front; of `quantize`, what each layer lost.

    Example: tinyweave report kws.tflite --device stm32f412 --open
    """
    models = [path for path in sources if path.suffix.lower() != ".json"]
    typed = list(option_words({name: value for name, value in chosen.items() if value != DEFAULTS.get(name)}))
    if typed and not models:
        raise ir.CompileError(f"{typed[0]} is for planning, and these are records", "leave it out, or give a model")
    read = {path: schema.read(path) for path in sources if path not in models}
    entries = entries_of([read[path] if path in read else _planned(path, chosen) for path in sources])
    if folder is not None and len(entries) != 1:
        raise ir.CompileError(f"--node-data takes one model, and {len(entries)} were given", "give one")
    nodes = {} if folder is None else {folder / name: text for name, text in viewers.node_data(entries[0].record).items()}
    files.write_files({out: page.page(entries), **nodes})
    if folder is not None:
        print(f"wrote {folder}: open the model in Model Explorer, then these files as its node data")
    print(f"wrote {out}: open it in a browser" if not show else f"wrote {out}")
    if show:
        webbrowser.open(out.resolve().as_uri())
    return 0


def _planned(path: Path, chosen: Options) -> page.Entry:
    """Return all that is known of a model without building it."""
    board, limits = steps.target_of(chosen)
    loaded = steps.load_model(path, chosen)
    known: planning.KnownSpaces = {}
    planned = steps.make_plan(loaded, board, limits, chosen, known=known)
    saved = api.ablation(loaded, planned, chosen["schedule"])
    record = records.record(loaded, plan=planned, device=board, limits=limits, ablation=saved)
    record["command"] = command_line("plan", [path], chosen)
    if record["fits"] is False:
        record["advice"] = steps.advise("plan", path, loaded, planned, board=board, limits=limits, chosen=chosen)
    is_best = chosen["schedule"] == "best"
    return page.Entry(record, steps.front_of(loaded, board, limits, chosen, known=known) if is_best else None)


def entries_of(found: Sequence[page.Entry | tuple[str, dict[str, Any]]]) -> list[page.Entry]:
    """Return the plans in their order, each with the records of the same model; CompileError for a record that joins none."""
    planned = [page.Entry(each[1]) if each[0] == "record" else each for each in found]
    entries, others = ([each for each in planned if isinstance(each, page.Entry) == wanted] for wanted in (True, False))
    for entry in entries:
        if entry.record["buffers"] is None:
            raise ir.CompileError(f"the record of '{entry.record['model']['name']}' has no plan", "give one of plan or deploy")
    for kind, value in others:
        if kind not in JOINING:
            raise ir.CompileError(f"a record of kind {kind} has no plan", "give one of plan or deploy")
        digest = value["model"]["sha256"]
        same = [index for index, entry in enumerate(entries) if entry.record["model"]["sha256"] == digest]
        if not same:
            raise ir.CompileError(
                f"there is no plan of '{value['model']['name']}' for its {kind} to join", "give a record of plan or deploy, too"
            )
        for index in same:
            entries[index] = entries[index]._replace(**{kind: value})
    return entries
