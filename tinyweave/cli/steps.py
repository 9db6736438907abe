"""The steps that several commands share: load a model, plan it, show progress, print results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from .modules import api, columns, devices, front, ir, kernel_shares, manifest, planning, records, results, text
from .options import DOES_NOT_FIT, Options, plan_options, shapes_of

if TYPE_CHECKING:
    from rich.console import Console

    from ..api.options import PlanOptions

    Show = Callable[[Console, dict[str, Any]], None]  # shows a part of a record

LEAST_LEFT_S = 5  # seconds: a progress bar shows no shorter estimate of the time that is left


class Arguments(NamedTuple):
    """A model, its device, and the options of the planner: the first arguments of most functions of `api`."""

    model: results.Model
    device: devices.Device | None
    options: PlanOptions


def target_of(path: Path, chosen: Options) -> Arguments:
    """Import a model and run the passes, with the chosen options; a CompileError mentions the path."""
    return targets_of([path], chosen)[0]


def targets_of(paths: Sequence[Path], chosen: Options) -> list[Arguments]:
    """Import several models as `target_of` does; raise CompileError if there are several and --name is given."""
    if len(paths) > 1 and chosen.get("name") is not None:
        raise ir.CompileError(f"--name names one model, and {len(paths)} are given", "leave it out: files give the names")
    board = devices.find(chosen["device"]) if chosen.get("device") is not None else None
    options = plan_options(chosen)
    api.request_of(options, board)  # wrong options are reported before a model is read
    targets = []
    about = {key: chosen[key] for key in ("io", "layout", "stream_time", "name") if key in chosen}
    for path in paths:
        with errors_name(path):
            model = api.load(path, shapes=shapes_of(chosen["shape"]), retrainable=options.in_file, **about)
            targets.append(Arguments(model, board, options))
    return targets


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Within the `with` block, prefix the message of each CompileError with the path, unless it mentions the path already."""
    try:
        yield
    except ir.CompileError as error:
        if str(path) in str(error):
            raise
        raise ir.CompileError(f"{path}: {error}") from error


def record_of(target: Arguments, plan: planning.Plan, **measured: Any) -> dict[str, Any]:
    """Return the record of a planned model; `measured` are further arguments of `records.record`."""
    limits = api.request_of(target.options, target.device).limits
    return records.record(target.model, plan=plan, device=target.device, limits=limits, **measured)


def plan_records(targets: Sequence[Arguments], done: results.Emission, chosen: Options) -> list[dict[str, Any]]:
    """Return a record for each planned model."""
    return [
        record_of(target._replace(model=model), plan, row_source=chosen["source"])
        for target, model, plan in zip(targets, done.models, done.plans, strict=True)
    ]


def written_json(entries: Sequence[dict[str, Any]], folder: Path, done: results.Emission, **more: Any) -> int:
    """Print the records of models whose C was written as JSON, and return exit code 0; `more` are keys at the top level.

    Without `more`, the keys of a single record are at the top level, too; otherwise `models` is the list of records.
    """
    report_earlier_files(folder, done.written, as_json=True)
    paths = {"files": [str(Path(file)) for file in (*done.files, folder / manifest.MANIFEST)]}
    paths["removed"] = [str(folder / name) for name in done.written.removed]
    whole = entries[0] if len(entries) == 1 and not more else {"tinyweave": __version__, "models": entries}
    return print_json(whole | more | paths)


def show_needs(entries: Sequence[dict[str, Any]]) -> None:
    """Show the RAM of each row source (--source), MACs in portable C, and the verdict on each model that does not fit."""
    for record in entries:
        if (size := record["ram"]["row_source"]) is not None:
            print(f"row source: {columns.size(size)} more, the struct of {record['model']['name']}_source.h")
    for record in entries:
        if record["fast_macs"] != record["macs"]:
            text.show_lines(text.console(), kernel_shares.fast_share_lines(record)[:1])
        if record["fits"] is False:
            text.show_verdict(text.console(), record)


def show_front(target: Arguments, *, as_json: bool) -> int:
    """Show the Pareto front as a table or as JSON, and return the exit code of `plan --pareto`."""
    if target.options.schedule != "best":
        raise ir.CompileError(f"--pareto needs schedule best, not {target.options.schedule}", "leave out --schedule")
    with progress_bar() as report:
        record = front.front_of(
            target.model, target.device, api.request_of(target.options, target.device), by_flash=True, progress=report
        )
    show(record, lambda: [text.show_front], as_json=as_json)
    return DOES_NOT_FIT if all(point["fits"] is False for point in record["points"]) else 0


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
    """Print a record: as JSON, or as text by the functions of `parts()`, whose modules are only imported for text."""
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
