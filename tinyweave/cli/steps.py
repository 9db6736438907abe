"""Do what several commands need: read a model, plan it, tell what to change about it, report progress, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .modules import (
    api,
    columns,
    devices,
    figure,
    files,
    front,
    front_figure,
    ir,
    manifest,
    planning,
    records,
    results,
    schema,
    text,
)
from .options import DOES_NOT_FIT, Options, option_words, quoted, scheduled, source_options, target_options

if TYPE_CHECKING:
    from rich.console import Console

    Show = Callable[[Console, dict[str, Any]], None]  # shows a part of a record


def load_model(path: Path, chosen: Options, name: str | None = None) -> results.Model:
    """Import a model and run the passes."""
    with told(path):
        model = api.load(path, chosen["io"], name, layout=chosen["layout"])
        return api.streamed(model, chosen.get("stream_time"))


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Say whatever is wrong with a model with the file's name."""
    try:
        yield
    except ir.CompileError as error:
        if str(path) in str(error):
            raise
        raise ir.CompileError(f"{path}: {error}") from error


def make_plan(
    model: results.Model,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    *,
    known: planning.KnownSpaces | None = None,
) -> planning.Plan:
    core = board.core if board else api.DEFAULT_CORE
    with progress_bar() as report:
        return api.plan(model, limits=limits, core=core, known=known, progress=report, **scheduled(chosen))


def keeps_state(plans: Sequence[planning.Plan]) -> bool:
    """Return whether a model must find in its arena what its last call left there."""
    return any(tensor.role == "state" for plan in plans for tensor in plan.graph.tensors.values())


def written_records(
    models: Sequence[results.Model],
    plans: Sequence[planning.Plan],
    *,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
) -> list[dict[str, Any]]:
    """Return the record of each model whose C was written."""
    about = {"device": board, "limits": limits, "row_source": chosen["source"]}
    return [records.record(model, plan=plan, **about) for model, plan in zip(models, plans, strict=True)]


def written_files(folder: Path, names: Sequence[str], written: manifest.Written) -> dict[str, list[str]]:
    """Return what --json says of the files in a folder; name those that stay on standard error."""
    say_removed(folder, written, as_json=True)
    return {key: [str(folder / name) for name in group] for key, group in (("files", names), ("removed", written.removed))}


def show_needs(entries: Sequence[dict[str, Any]]) -> None:
    """Show the RAM of what brings the models' inputs, where --source asked for it, and which of them do not fit."""
    for record in entries:
        if (size := record["ram"]["row_source"]) is not None:
            print(f"row source: {columns.size(size)} more, the struct of {record['model']['name']}_source.h")
    for record in entries:
        if record["fits"] is False:
            text.show_verdict(text.console(), record)


def advise(
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
    others = {name for group in (target_options, source_options) for name in signature(group).parameters}
    options = {name: value for name, value in chosen.items() if name not in others}
    with progress_bar() as report:
        proposals = api.advise(model, plan, board=board, limits=limits, options=options, progress=report)
    advice = []
    for proposal in proposals:
        # limits that were given for one board say nothing of another
        changed = {**chosen, **({"ram": None, "flash": None} if "device" in proposal.changes else {}), **proposal.changes}
        command = ["tinyweave", verb, str(path), *option_words(changed | more)]
        changes = (list(option_words({name: value})) or [f"--{name}", str(value)] for name, value in proposal.changes.items())
        said = [word for words_of_one in changes for word in words_of_one]
        advice.append(records.proposal_record(proposal, " ".join(map(quoted, command)), said))
    return advice


def target_of(chosen: Options) -> tuple[devices.Device | None, results.Limits]:
    """Return the device and the limits: those of the options, else the device's."""
    board = devices.find(chosen["device"]) if chosen["device"] is not None else None
    given = {name: chosen[name] for name in signature(target_options).parameters if name != "device"}
    return board, api.limits_of(board, **given)


def show_front(
    model: results.Model,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    *,
    picture: Path | None,
    as_json: bool,
) -> int:
    """Show the front of `plan --pareto` as a table, a picture, or JSON."""
    if chosen["schedule"] != "best":
        raise ir.CompileError(f"--pareto is of schedule best, not of {chosen['schedule']}", "leave out --schedule")
    record = front_of(model, board, limits, chosen, by_flash=True)
    if picture is not None:
        files.write_file(picture, figure.encoded(front_figure.front_svg(record), picture.name))
    show(record, lambda: [text.show_front], as_json=as_json)
    return DOES_NOT_FIT if all(point["fits"] is False for point in record["points"]) else 0


def front_of(
    model: results.Model,
    board: devices.Device | None,
    limits: results.Limits,
    chosen: Options,
    *,
    known: planning.KnownSpaces | None = None,
    by_flash: bool = False,
) -> dict[str, Any]:
    """Return the record of what RAM costs in time, with the plans of other schedules, and if asked of what Flash costs."""
    options = {name: value for name, value in scheduled(chosen).items() if name not in ("schedule", "optimize")}
    core = board.core if board else api.DEFAULT_CORE
    shared = {} if known is None else known
    with progress_bar() as report:
        plans = api.front(model, limits, core=core, known=shared, progress=report, **options)
        lighter = api.by_flash(model, limits, core=core, known=shared, progress=report, **options) if by_flash else []
        others = api.standing(model, limits, core=core, known=shared, progress=report, **options)
    return front.front_record(model, plans, limits, core, board, by_flash=lighter, standing=others)


def read_profile(path: Path) -> dict[str, Any]:
    """Return the record that `profile --json` printed into a file."""
    wanted = "a file of 'profile --json'"
    kind, record = schema.read(path, wanted)
    if kind != "record" or record["steps"] is None:
        raise ir.CompileError(f"'{path}' is no record of a profile", f"give {wanted}")
    return record


def origins(models: Sequence[results.Model]) -> dict[str, tuple[str, str]]:
    """Return the file and its SHA-256 of each model, by the model's name in C."""
    return {model.name: (model.path.name, model.sha256) for model in models}


def say_removed(folder: Path, written: manifest.Written, *, as_json: bool = False) -> None:
    """Name the files of an earlier run: those that were removed, and on standard error those that stay."""
    if written.removed and not as_json:
        print(f"removed what an earlier run left there: {', '.join(written.removed)}")
    for name in written.changed:
        path = columns.clean(str(folder / name), 400)
        print(f"tinyweave: warning: '{path}' is of an earlier run, and was changed since: it stays", file=sys.stderr)


def show(record: dict[str, Any], parts: Callable[[], Sequence[Show]], *, as_json: bool) -> None:
    """Show a record to people part by part, or to programs as JSON, for which nothing is loaded that draws."""
    if as_json:
        print_json(record)
    else:
        out = text.console()
        for part in parts():
            part(out, record)


def print_json(value: Any) -> int:
    print(json.dumps(value, indent=2))
    return 0


@contextmanager
def progress_bar() -> Iterator[planning.Progress]:
    """Yield a reporter (what, done, of how many) that draws a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=columns.clean(what, 40), completed=done, total=total or None
        )
