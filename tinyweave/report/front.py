"""Report the Pareto front of RAM and time for `plan --pareto`: its record, rows and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from .. import api
from ..api import results
from ..codegen import constant_bytes
from ..devices import Device
from ..ir import CompileError, Graph
from ..kernels.layer_cycles import cost_model_core
from ..ops import macs
from ..planning import Limits, Plan, Progress, Request, SpaceCache
from ..planning.fuse.row_schedule import plan_macs
from ..planning.kernels.cycles import cycles_to_compare
from .columns import clean, rounded
from .record import Record, foreseen, head, overhead
from .words import without_text

Standing = Mapping[str, Plan | CompileError]  # strategy -> its plan, or the reason why there is none


def front_of(
    model: results.Model,
    board: Device | None,
    request: Request,
    *,
    known: SpaceCache | None = None,
    by_flash: bool = False,
    progress: Progress | None = None,
) -> Record:
    """Return the record of the front in RAM and cycles, with plans of other planners; `known` is a cache of results."""
    known = {} if known is None else known
    plans = api.front(model, request, known=known, progress=progress)
    lighter = api.flash_front(model, request, known=known, progress=progress) if by_flash else []
    others = api.baseline_plans(model, request, known=known, progress=progress)
    return front_record(model, plans, request.limits, request.core, board, by_flash=lighter, standing=others)


def front_record(
    model: results.Model,
    plans: Sequence[Plan],
    limits: Limits,
    core: str,
    device: Device | None = None,
    *,
    by_flash: Sequence[Plan] = (),
    standing: Standing | None = None,
) -> Record:
    """Return the record of `plan --pareto`: RAM, cycles and MACs of each Pareto-optimal plan, the fastest first.

    `by_flash` are the Pareto-optimal plans in constants and cycles; `standing` maps the strategy of another planner to its
    plan, or the reason why there is none. Where cycles are unknown, MACs compare the plans.
    """
    like, network_macs = cost_model_core(core), macs(model.graph)
    cycles_of = partial(cycles_to_compare, core=like, reads=limits.reads)
    cycles = [cycles_of(plan) for plan in plans]
    by_work = not all(cycles)
    unit = min(map(_work, plans)) if by_work else min(cycles)
    kept = dict[tuple[Graph, tuple[str, ...]], int]()  # constants depend on the kernels, not on stages and addresses

    def point(plan: Plan, cycles: float) -> Record:
        kernels = plan.graph, plan.variants
        kept[kernels] = constants = kept[kernels] if kernels in kept else constant_bytes(plan)
        slowdown = round((_work(plan) if by_work else cycles) / unit, 4) if unit else 1.0
        return _point(plan, limits, device, constants=constants, slowdown=slowdown, network_macs=network_macs)

    points = list(map(point, plans, cycles))
    others = [
        {"schedule": name} | ({"reason": plan.why} if isinstance(plan, CompileError) else point(plan, cycles_of(plan)))
        for name, plan in (standing or {}).items()
    ]
    return head(model, io=model.io) | {
        "device": device.name if device else None,
        "core": core,
        "cycles_of": None if by_work else like,
        "streamed_inputs": list(plans[0].streamed_inputs),
        "streamed_outputs": list(plans[0].streamed_outputs),
        "limit": limits.ram,
        "limit_ms": limits.latency_ms,
        "limit_flash": limits.flash,
        "points": points,
        "by_flash": [each for each in map(point, by_flash, map(cycles_of, by_flash)) if each not in points],
        "schedules": others,
    }


def _point(plan: Plan, limits: Limits, device: Device | None, *, constants: int, slowdown: float, network_macs: int) -> Record:
    """Return the record of one plan of the front; `slowdown` is relative to the fastest plan."""
    executed, known = sum(plan_macs(plan)), foreseen(plan, device)
    over = [limits.ram_excess(plan.arena), limits.latency_excess(known["cycles_at_least"])]
    over += [] if limits.flash is None else [max(0, constants - limits.flash)]
    return {
        "macs": executed,
        "mac_overhead": overhead(executed, network_macs),
        "arena": sum(plan.arena.values()),
        "gap": plan.gap,
        "constants": constants,
        "copied": sum(plan.copy_bytes.values()),
        "slowdown": slowdown,
        **known,
        "fits": results.verdict(over, is_open=limits.latency_ms is not None and known["cycles"] is None),
        "layers": [
            {"step": step, "name": plan.graph.ops[index].name, "live": plan.live(step)}
            for step, stage in enumerate(plan.stages)
            for index in stage.ops
        ],
    }


def _work(plan: Plan) -> float:
    return float(sum(plan_macs(plan)))


def by_rows(record: Record) -> str:
    """Return a clause for the title that says which of inputs and outputs are streamed row by row, or "" if none are."""
    streamed = [end for end, names in (("inputs", record["streamed_inputs"]), ("outputs", record["streamed_outputs"])) if names]
    return f", {' and '.join(streamed)} by rows" if streamed else ""


def front_entries(record: Record) -> list[tuple[str, Record]]:
    """Return (label, plan record) of all plans in the record: "" is the front, "by Flash", or another planner's strategy."""
    others = [(each["schedule"], each) for each in record["schedules"] if "arena" in each]
    return [*(("", each) for each in record["points"]), *(("by Flash", each) for each in record["by_flash"]), *others]


def front_rows(record: Record) -> list[tuple[str, ...]]:
    """Return table cells, the header first, then a row per plan; columns without any value are left out."""
    ms = "at least ms" if _missing(record) else "ms"
    rows = [("", "arena, B", "copied, B", ms, "cycles x", "MACs", "MACs x", "constants, B", "gap, B")]
    rows += [
        (
            label,
            f"{entry['arena']:,}",
            f"{entry['copied']:,}" if entry["copied"] else "-",
            "-" if entry["latency_ms_at_least"] is None else rounded(entry["latency_ms_at_least"]),
            f"{entry['slowdown']:.2f}",
            f"{entry['macs']:,}",
            "-" if entry["mac_overhead"] is None else f"{entry['mac_overhead']:.3f}",
            f"{entry['constants']:,}",
            f"{entry['gap']:,}" if entry["gap"] and not label and not entry["copied"] else "-",
        )
        for label, entry in front_entries(record)
    ]
    is_empty = [all(row[column] in ("", "-") for row in rows[1:]) for column in range(len(rows[0]))]
    return [tuple(cell for cell, empty in zip(row, is_empty, strict=True) if not empty) for row in rows]


def front_lines(record: Record) -> list[str]:
    """Return sentences that explain the columns of `front_rows`, and what is proved about the plans."""
    missing, like = _missing(record), record["cycles_of"]
    other = "" if like == record["core"] else f" for a {like}, since those of a {record['core']} are not known"
    without = f", {without_text(missing)}" if missing else ""
    cost = f"as a multiple of the fastest plan's, estimated from the layers' shapes{other}{without}"
    if like is None:
        cost = "MACs as a multiple of the least, for no kernel's cycles are known"
    by_flash = ["by Flash: the fastest plans with fewer and fewer constants"] if record["by_flash"] else []
    others = [label for label, _ in front_entries(record) if label not in ("", "by Flash")]
    standing = [f"{', '.join(others)}: other strategies, those of `--schedule`"] if others else []
    copied = "copied: constants that init copies to RAM, part of the arena, those that save the most estimated cycles"
    by_flash = [copied] * _has_copies(record) + by_flash
    return [f"cycles x: {cost}", *by_flash, *standing, *proved_lines(record)]


def proved_lines(record: Record) -> list[str]:
    """Return sentences on what is proved about the Pareto front, and on why some strategies of other planners have no plan."""
    proved = "proved, without copies: of all plans" if _has_copies(record) else "proved: of all plans"
    proved += " with the orders, stages, tiles and kernels that the planner tries, none in as little RAM has"
    proved += " fewer estimated cycles (moves between steps not counted)"
    if any(point["gap"] and not point["copied"] for point in record["points"]):
        proved += "; with a gap: in that many bytes less, because the buffers need more than the busiest step does"
    if record["limit_flash"] is not None:
        proved += "; with a limit of Flash: of the kernels that fit it"
    left_out = {each["schedule"]: each["reason"] for each in record["schedules"] if "reason" in each}
    return [proved, *(f"{name}: {clean(reason, 200)}" for name, reason in left_out.items())]


def verdict_line(record: Record) -> str:
    """Return a sentence: the fastest plan that fits the limits, or how close the smallest plan comes; "" without limits."""
    points, ram, limit_ms, flash = record["points"], record["limit"], record["limit_ms"], record["limit_flash"]
    within = [f"in {ram:,} B of RAM"] if ram is not None else []
    within += [f"with {flash:,} B of Flash"] if flash is not None and any(p["constants"] > flash for p in points) else []
    within += [f"within {limit_ms:g} ms"] if limit_ms is not None else []
    if not within:
        return ""
    fitting, said = [point for point in points if point["fits"] is not False], " ".join(within)
    if fitting:
        least = fitting[0]
        return f"fits {said} with {least['arena']:,} B at {least['slowdown']:.2f} times the cycles (arena alone)"
    least, fastest = points[-1], points[0]["latency_ms_at_least"]
    time = f", the fastest takes {rounded(fastest)} ms" if limit_ms is not None and fastest is not None else ""
    return f"does not fit {said}: the least is {least['arena']:,} B{time}"


def _has_copies(record: Record) -> bool:
    return any(point["copied"] for point in record["points"])


def _missing(record: Record) -> list[str]:
    """Return the kinds of ops that have no cycle constants, so that the cycles of the Pareto-optimal plans leave them out."""
    return list(dict.fromkeys(kind for point in record["points"] for kind in point["cycles_missing"] or ()))
