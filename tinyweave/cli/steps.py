"""The steps that several commands share: load a model, plan it, show progress, print results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
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
    proposals,
    records,
    results,
    schema,
    text,
)
from .options import DOES_NOT_FIT, Options, plan_options, shapes_of

if TYPE_CHECKING:
    from rich.console import Console

    from ..api.code import CodeOptions

    Show = Callable[[Console, dict[str, Any]], None]  # shows a part of a record

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


def plan_record(
    model: results.Model,
    plan: planning.Plan,
    request: planning.Request,
    *,
    board: devices.Device | None,
    chosen: Options,
    known: planning.SpaceCache,
) -> dict[str, Any]:
    """Return the record of `plan`, with the bytes that each technique saves, and with advice if the plan does not fit."""
    saved = api.ablation(model.graph, plan, chosen["schedule"])
    record = records.record(model, plan=plan, device=board, limits=request.limits)
    record["plan"]["ablation"] = saved
    if record["fits"] is False:
        with progress_bar() as report:
            found = api.advise(model, plan, request, board=board, known=known, progress=report)
        record |= proposals.advice_record("plan", model, request.limits, chosen, found)
    return record


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
    with progress_bar() as report:
        record = front.front_of(model, board, request, by_flash=True, progress=report)
    if picture is not None:
        files.write_file(picture, figure.encoded(front_figure.front_svg(record), picture.name))
    show(record, lambda: [text.show_front], as_json=as_json)
    return DOES_NOT_FIT if all(point["fits"] is False for point in record["points"]) else 0


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
