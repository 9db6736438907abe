"""Steps that several commands share: load a model, plan it, advise, show progress, print results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..command_words import quoted
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
from .options import DOES_NOT_FIT, Options, option_words, plan_options, target_options

if TYPE_CHECKING:
    from rich.console import Console

    from ..api.advice import Remedy
    from ..api.runs import CodeOptions

    Show = Callable[[Console, dict[str, Any]], None]  # shows a part of a record


def load_model(path: Path, chosen: Options, name: str | None = None) -> results.Model:
    """Import a model and run the passes."""
    with errors_name(path):
        model = api.load(path, io=chosen["io"], layout=chosen["layout"], name=name)
        return api.streamed(model, chosen.get("stream_time"))


def load_models(paths: Sequence[Path], chosen: Options, name: str | None) -> list[results.Model]:
    """Import models and run the passes; raise CompileError if several models are given a name."""
    if len(paths) > 1 and name is not None:
        raise ir.CompileError(f"--name names one model, and {len(paths)} are given", "leave it out: files give the names")
    return [load_model(path, chosen, name) for path in paths]


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Put the path before each CompileError that does not mention it."""
    try:
        yield
    except ir.CompileError as error:
        if str(path) in str(error):
            raise
        raise ir.CompileError(f"{path}: {error}") from error


def make_plan(model: results.Model, request: planning.Request, *, known: planning.SpaceCache | None = None) -> planning.Plan:
    """Plan a model and show a progress bar; `known` caches plan spaces between calls."""
    with progress_bar() as report:
        return api.make_plan(model, request, known=known, progress=report)


def code_options(chosen: Options, kernel_prefix: str | None) -> CodeOptions:
    """Return the options of the emitted C, without the command in its comments."""
    return api.CodeOptions(kernel_prefix=kernel_prefix or "", row_source=chosen["source"], pixels=chosen["pixels"])


def keeps_state(plans: Sequence[planning.Plan]) -> bool:
    """Return whether any model keeps state in its arena between calls."""
    return any(tensor.role == "state" for plan in plans for tensor in plan.graph.tensors.values())


def plan_records(
    models: Sequence[results.Model],
    plans: Sequence[planning.Plan],
    board: devices.Device | None,
    request: planning.Request,
    chosen: Options,
) -> list[dict[str, Any]]:
    """Return the record of each planned model."""
    about: dict[str, Any] = {"device": board, "limits": request.limits, "row_source": chosen["source"]}
    return [records.record(model, plan=plan, **about) for model, plan in zip(models, plans, strict=True)]


def written_json(
    entries: Sequence[dict[str, Any]], folder: Path, names: Sequence[str], written: manifest.Written, **more: Any
) -> int:
    """Print as JSON the records of models whose C was written, with the paths of written and removed files."""
    report_earlier_files(folder, written, as_json=True)
    paths = {key: [str(folder / name) for name in group] for key, group in (("files", names), ("removed", written.removed))}
    whole = entries[0] if len(entries) == 1 and not more else {"tinyweave": __version__, "models": entries}
    return print_json(whole | more | paths)


def show_needs(entries: Sequence[dict[str, Any]]) -> None:
    """Show the RAM of each --source, and the verdict on each model that does not fit."""
    for record in entries:
        if (size := record["ram"]["row_source"]) is not None:
            print(f"row source: {columns.size(size)} more, the struct of {record['model']['name']}_source.h")
    for record in entries:
        if record["fits"] is False:
            text.show_verdict(text.console(), record)


def advise(
    command: Sequence[str | Path],
    model: results.Model,
    plan: planning.Plan,
    request: planning.Request,
    *,
    board: devices.Device | None,
    options: Options,
    flash: int | None = None,
) -> dict[str, Any]:
    """Return the keys `advice` and `remedies` of the record of a plan that does not fit; `flash` is its measured Flash.

    `advice` has complete commands with changed options, the best first; `remedies` has changes of the network. `command` holds
    the command and the model's path, `options` all its options.
    """
    with progress_bar() as report:
        proposals, remedies = api.advise(model, plan, request, board=board, flash=flash, progress=report)
    advice = []
    for proposal in proposals:
        # limits that were given for one board do not hold for another
        own_limits = {"ram": None, "flash": None} if "device" in proposal.changes else {}
        words = ["tinyweave", *map(str, command), *option_words({**options, **own_limits, **proposal.changes})]
        advice.append(records.proposal_record(proposal, " ".join(map(quoted, words)), _words(proposal.changes)))
    shape = model.graph.tensors[model.graph.inputs[0]].shape if model.graph.inputs else None
    changes = [
        records.remedy_record(
            remedy,
            _remedy_command(remedy, request.limits, options),
            _words(remedy.changes),
            shape if remedy.way == "input" else None,
        )
        for remedy in remedies
    ]
    return {"advice": advice, "remedies": changes}


def _words(changes: Mapping[str, Any]) -> list[str]:
    """Return the command-line words of changed options, including those changed back to their defaults."""
    words = (list(option_words({name: value})) or [f"--{name}", str(value)] for name, value in changes.items())
    return [word for each in words for word in each]


def _remedy_command(remedy: Remedy, limits: planning.Limits, chosen: Options) -> str | None:
    """Return the command of a remedy, with placeholders in capitals; None if users retrain the network by themselves."""
    target = {name: chosen[name] for name in signature(target_options).parameters}
    sizes = {name: chosen[name] or getattr(limits, name) for name in ("ram", "flash")}
    words = {
        "quantize": ["FLOAT_MODEL", "--calibrate", "SAMPLES", *option_words({"flash": sizes["flash"]})],
        "prune": ["FLOAT_MODEL", "--calibrate", "SAMPLES", *option_words({name: sizes[name] for name in remedy.over})],
        "search": ["--task", "TASK", "--data", "FOLDER", *option_words(target), "-o", "found"],
    }
    return " ".join(map(quoted, ["tinyweave", remedy.way, *words[remedy.way]])) if remedy.way in words else None


def device_and_request(chosen: Options) -> tuple[devices.Device | None, planning.Request]:
    """Return the device and the planner's request of the chosen options."""
    board = devices.find(chosen["device"]) if chosen["device"] is not None else None
    return board, api.request_of(plan_options(chosen), board)


def show_front(
    model: results.Model,
    board: devices.Device | None,
    request: planning.Request,
    *,
    picture: Path | None,
    as_json: bool,
) -> int:
    """Show the Pareto front of `plan --pareto` as a table or JSON, and draw it into the file `picture`."""
    if request.strategy != "best":
        raise ir.CompileError(f"--pareto needs schedule best, not {request.strategy}", "leave out --schedule")
    record = front_of(model, board, request, by_flash=True)
    if picture is not None:
        files.write_file(picture, figure.encoded(front_figure.front_svg(record), picture.name))
    show(record, lambda: [text.show_front], as_json=as_json)
    return DOES_NOT_FIT if all(point["fits"] is False for point in record["points"]) else 0


def front_of(
    model: results.Model,
    board: devices.Device | None,
    request: planning.Request,
    *,
    known: planning.SpaceCache | None = None,
    by_flash: bool = False,
) -> dict[str, Any]:
    """Return the record of the Pareto front in RAM and cycles and of other planners' plans.

    `known` caches plan spaces; `by_flash` adds the front in Flash and cycles.
    """
    known = {} if known is None else known
    with progress_bar() as report:
        plans = api.front(model, request, known=known, progress=report)
        lighter = api.flash_front(model, request, known=known, progress=report) if by_flash else []
        others = api.baseline_plans(model, request, known=known, progress=report)
    return front.front_record(model, plans, request.limits, request.core, board, by_flash=lighter, standing=others)


def read_profile(path: Path) -> dict[str, Any]:
    """Return the record in a file that `profile --json` printed."""
    expected = "a file of 'profile --json'"
    kind, record = schema.read(path, expected)
    if kind != "record" or record["steps"] is None:
        raise ir.CompileError(f"'{path}' is no record of a profile", f"give {expected}")
    return record


def report_earlier_files(folder: Path, written: manifest.Written, *, as_json: bool = False) -> None:
    """Print the removed files of an earlier run, and on standard error those kept because they were edited."""
    if written.removed and not as_json:
        print(f"removed files of an earlier run: {', '.join(written.removed)}")
    for name in written.changed:
        path = columns.clean(str(folder / name), 400)
        print(f"tinyweave: warning: kept '{path}' of an earlier run, because it was edited", file=sys.stderr)


def show(record: dict[str, Any], parts: Callable[[], Sequence[Show]], *, as_json: bool) -> None:
    """Print a record as JSON, or part by part as text; modules that draw text are only imported for text."""
    if as_json:
        print_json(record)
    else:
        out = text.console()
        for part in parts():
            part(out, record)


def print_json(value: Any) -> int:
    """Print a value as JSON and return exit code 0."""
    print(json.dumps(value, indent=2))
    return 0


@contextmanager
def progress_bar() -> Iterator[planning.Progress]:
    """Yield a progress callback, which draws a bar on standard error if that is a terminal."""
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
