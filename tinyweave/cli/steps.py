"""The steps that several commands share: load a model, plan it, find advice, show progress, print results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..support.command_words import quoted
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
from .options import DOES_NOT_FIT, Options, option_words, plan_options, shapes_of, target_options

if TYPE_CHECKING:
    from rich.console import Console

    from ..api.advice import Remedy
    from ..api.code import CodeOptions

    Show = Callable[[Console, dict[str, Any]], None]  # shows a part of a record

SIDE, FEWEST_FEATURES = 16, 8  # least rows and columns of an image; least rows and features of a sound
MOST_SENSORS = 16  # channels of a window of sensor values
LEAST_LEFT_S = 5  # seconds: a progress bar shows no shorter estimate of the time that is left


def load_model(path: Path, chosen: Options, name: str | None = None) -> results.Model:
    """Import a model and run the passes, with the chosen options of inputs, outputs and streaming in time.

    A CompileError mentions the path. `name` is the prefix of the C names; None makes it from the file's name.
    """
    with errors_name(path):
        model = api.load(path, io=chosen["io"], layout=chosen["layout"], name=name, shapes=shapes_of(chosen["shape"]))
        return api.streamed(model, chosen.get("stream_time"))


def load_models(paths: Sequence[Path], chosen: Options, name: str | None) -> list[results.Model]:
    """Import several models as `load_model` does; raise CompileError if there are several and `name` is not None."""
    if len(paths) > 1 and name is not None:
        raise ir.CompileError(f"--name names one model, and {len(paths)} are given", "leave it out: files give the names")
    return [load_model(path, chosen, name) for path in paths]


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Within the `with` block, prefix the message of each CompileError with the path, unless it mentions the path already."""
    try:
        yield
    except ir.CompileError as error:
        if str(path) in str(error):
            raise
        raise ir.CompileError(f"{path}: {error}") from error


def make_plan(model: results.Model, request: planning.Request, *, known: planning.SpaceCache | None = None) -> planning.Plan:
    """Plan a model and show a progress bar; `known` is a cache of intermediate results, which similar calls share."""
    with progress_bar() as report:
        return api.make_plan(model, request, known=known, progress=report)


def code_options(chosen: Options, kernel_prefix: str | None) -> CodeOptions:
    """Return the options of the emitted C; the command for its comments is left out."""
    return api.CodeOptions(kernel_prefix=kernel_prefix or "", row_source=chosen["source"], pixels=chosen["pixels"])


def keeps_state(plans: Sequence[planning.Plan]) -> bool:
    """Return whether any planned model keeps state in its arena between calls, so that models cannot share one arena."""
    return any(tensor.role == "state" for plan in plans for tensor in plan.graph.tensors.values())


def plan_records(
    models: Sequence[results.Model],
    plans: Sequence[planning.Plan],
    board: devices.Device | None,
    request: planning.Request,
    chosen: Options,
) -> list[dict[str, Any]]:
    """Return a record for each planned model."""
    about: dict[str, Any] = {"device": board, "limits": request.limits, "row_source": chosen["source"]}
    return [records.record(model, plan=plan, **about) for model, plan in zip(models, plans, strict=True)]


def written_json(
    entries: Sequence[dict[str, Any]], folder: Path, names: Sequence[str], written: manifest.Written, **more: Any
) -> int:
    """Print the records of models whose C was written as JSON, and return exit code 0.

    Args:
        entries: record of each model. If there is one and no `more`, its keys are at the top level, else `models` is the list.
        folder: the folder that was written.
        names: names of the written files.
        written: files of an earlier run, removed or kept.
        more: further keys at the top level.
    """
    report_earlier_files(folder, written, as_json=True)
    paths = {key: [str(folder / name) for name in group] for key, group in (("files", names), ("removed", written.removed))}
    whole = entries[0] if len(entries) == 1 and not more else {"tinyweave": __version__, "models": entries}
    return print_json(whole | more | paths)


def show_needs(entries: Sequence[dict[str, Any]]) -> None:
    """Show the RAM of each row source (--source), and the verdict on each model that does not fit."""
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
    known: planning.SpaceCache | None = None,
) -> dict[str, Any]:
    """Search for changes with which a model fits, and return them as the keys `advice`, `remedies` and `least` of a record.

    `advice` has complete commands with changed options, the best first. `remedies` has changes of the network. `least` has the
    least RAM and Flash that were reached, if both are too small.

    Args:
        command: the name of the command and the path of the model.
        model: the model.
        plan: its plan, which does not fit.
        request: the planner's request for it.
        board: the device; None if there is none.
        options: values of all options of the command, by parameter name.
        flash: measured Flash of the plan in bytes; None before a build.
        known: a cache of intermediate results, as for `make_plan`.
    """
    with progress_bar() as report:
        proposals, remedies, least = api.advise(model, plan, request, board=board, flash=flash, known=known, progress=report)
    advice = []
    for proposal in proposals:
        # RAM and Flash limits of one board do not apply to another
        own_limits = {"ram": None, "flash": None} if "device" in proposal.changes else {}
        words = ["tinyweave", *map(str, command), *option_words({**options, **own_limits, **proposal.changes})]
        advice.append(records.proposal_record(proposal, " ".join(map(quoted, words)), _words(proposal.changes)))
    shape = model.graph.tensors[model.graph.inputs[0]].shape if model.graph.inputs else None
    changes = [
        records.remedy_record(
            remedy,
            _remedy_command(remedy, model, request.limits, options),
            _words(remedy.changes),
            shape if remedy.way == "input" else None,
        )
        for remedy in remedies
    ]
    return {"advice": advice, "remedies": changes, "least": least}


def _words(changes: Mapping[str, Any]) -> list[str]:
    """Return changed options as command-line words, including options that are changed back to their defaults."""
    words = (list(option_words({name: value})) or [f"--{name}", str(value)] for name, value in changes.items())
    return [word for each in words for word in each]


def _task_of(model: results.Model) -> str:
    """Return the task of `search` for networks with the inputs and outputs of a model, or "TASK" if they may be of several."""
    if len(model.graph.inputs) != 1:
        return "TASK"
    tensors, outputs = model.graph.tensors, len(model.graph.outputs)
    shape, boxes = tensors[model.graph.inputs[0]].shape, [name for name in model.graph.outputs if len(tensors[name].shape) > 2]
    if len(shape) == 4 and shape[3] == 3 and min(shape[1:3]) >= SIDE:
        return "images" if outputs == 1 else "detection" if boxes else "TASK"
    if outputs > 1 or shape[0] != 1:
        return "TASK"
    if (len(shape) == 3 or (len(shape) == 4 and 1 in shape[1:3])) and 1 < shape[-1] <= MOST_SENSORS < max(shape[1:-1]):
        return "sensors"
    is_map = len(shape) == 4 and shape[3] == 1 and min(shape[1:3]) >= FEWEST_FEATURES
    return "TASK" if not is_map else "images" if shape[1] == shape[2] else "keywords"


def _remedy_command(remedy: Remedy, model: results.Model, limits: planning.Limits, chosen: Options) -> str | None:
    """Return the command for a change of the network, with placeholders in capitals.

    None for a smaller input, because users must retrain the network themselves.
    """
    target = {name: chosen[name] for name in signature(target_options).parameters}
    sizes = {name: chosen[name] or getattr(limits, name) for name in ("ram", "flash")}
    words = {
        "quantize": ["FLOAT_MODEL", "--calibrate", "SAMPLES", *option_words({"flash": sizes["flash"]})],
        "prune": ["FLOAT_MODEL", "--calibrate", "SAMPLES", *option_words({name: sizes[name] for name in remedy.over})],
        "search": ["--task", _task_of(model), "--data", "FOLDER", *option_words(target), "-o", "found"],
    }
    return " ".join(map(quoted, ["tinyweave", remedy.way, *words[remedy.way]])) if remedy.way in words else None


def device_and_request(chosen: Options) -> tuple[devices.Device | None, planning.Request]:
    """Return the device (None without --device) and the planner's request for the chosen options."""
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
    """Show the Pareto front as a table or as JSON, and return the exit code of `plan --pareto`.

    `picture` is the path of a figure to draw; None for none.
    """
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
    """Return the record of the Pareto front in RAM and cycles, with the plans by strategies of other planners.

    `known` is a cache of intermediate results, which similar calls share. `by_flash` adds the Pareto front in Flash and cycles.
    """
    known = {} if known is None else known
    with progress_bar() as report:
        plans = api.front(model, request, known=known, progress=report)
        lighter = api.flash_front(model, request, known=known, progress=report) if by_flash else []
        others = api.baseline_plans(model, request, known=known, progress=report)
    return front.front_record(model, plans, request.limits, request.core, board, by_flash=lighter, standing=others)


def read_profile(path: Path) -> dict[str, Any]:
    """Read a record that `profile --json` printed into a file; raise CompileError for any other file."""
    expected = "a file of 'profile --json'"
    kind, record = schema.read(path, expected)
    if kind != "record" or record["steps"] is None:
        raise ir.CompileError(f"'{path}' is no record of a profile", f"give {expected}")
    return record


def report_earlier_files(folder: Path, written: manifest.Written, *, as_json: bool = False) -> None:
    """Print which files of an earlier run were removed, and warn on standard error about edited files, which were kept.

    With `as_json`, the removed files are not printed.
    """
    if written.removed and not as_json:
        print(f"removed files of an earlier run: {', '.join(written.removed)}")
    for name in written.changed:
        path = columns.clean(str(folder / name), 400)
        print(f"tinyweave: warning: kept '{path}' of an earlier run, because it was edited", file=sys.stderr)


def show(record: dict[str, Any], parts: Callable[[], Sequence[Show]], *, as_json: bool) -> None:
    """Print a record: as JSON, or as text by the functions that `parts` returns, each of which prints a part.

    `parts` is called only for text, so that JSON imports no modules for text.
    """
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
    """Yield a progress callback, which draws a bar on standard error if that is a terminal.

    For work of one step, or of an unknown number of steps, the bar moves to and fro and shows no count. Other work shows the
    estimated time that it still takes, once a step has ended since the first call. The clock counts the whole command.
    """
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = (TextColumn("{task.description}"), BarColumn(10), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        bar.add_task("", total=None, count="")
        (task,) = bar.tasks
        start = (0, 0, 0.0)  # of the work in progress: all its steps, the steps done when it was first seen, and the time then

        def report(what: str, done: int, total: int) -> None:
            nonlocal start
            now, known = bar.get_time(), total > 1
            if total != start[0] or done < start[1]:
                start = (total, done, now)
            left = (now - start[2]) * (total - done) / (done - start[1]) if done > start[1] else 0
            more = f", {timedelta(seconds=round(left))} more" if left >= LEAST_LEFT_S else ""
            bar.update(task.id, description=columns.clean(what, 40), count=f"{done:,}/{total:,}{more}" if known else "")
            # `update` would ignore a total of None, and stop the clock once all steps are done
            task.total, task.completed, task.finished_time = total if known else None, done if known else 0, None

        yield report
