"""Plans as JSON files.

In: a Plan, or the text of a file and its graph. Out: the text, or the Plan.

Of the graph, the file holds only the fingerprint, `pieces`, `channels_once`, and, if tensors are relocated, the order of ops
and relocations. A file is untrusted: this module checks its types and ranges, and `check` checks its claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from ..ir import CompileError, Graph, fingerprint
from .check import UnsoundPlanError, check
from .fuse.rematerialise import with_channels_once, with_pieces
from .place.relocation_ops import is_move, with_moves
from .plan import Buffer, Place, Plan, RowSchedule, RowTiming, Stage, Tile, copy_name, scratch_name, tiles_name

VERSION = 10
MAX_ARENA = 1 << 26  # bytes of a memory; the check tracks each of them
MAX_TICKS = 1 << 20  # of a stage; the check runs each of them
Value = TypeVar("Value")


def to_json(plan: Plan) -> str:
    """Return the plan as JSON text, from which `from_json` restores it with the same graph."""
    record = {name: getattr(plan, name) for name in ("variants", "offsets", "arena", "scratch", "lower_bound")}
    record |= {"streamed_inputs": list(plan.streamed_inputs), "streamed_outputs": list(plan.streamed_outputs)}
    record |= {name: dict(getattr(plan, name)) for name in ("channels_once", "pieces", "copies")}
    record["weights_file"] = plan.weights_file
    record["stages"] = [_stage_record(stage) for stage in plan.stages]
    record["buffers"] = [asdict(buffer) for buffer in plan.buffers]
    steps = [{"move": op.attrs["moves"]} if is_move(op) else op.name for op in plan.graph.ops]
    record["moves"] = steps if any(map(is_move, plan.graph.ops)) else []
    record["places"] = {name: asdict(place) for name, place in plan.places.items()}
    return json.dumps({"version": VERSION, "graph": fingerprint(plan.graph)} | record, indent=1)


def from_json(text: str, graph: Graph, *, retrained: bool = False) -> Plan:
    """Return the checked plan of a JSON text. Its `lower_bound` is only the file's claim, which nothing proves.

    Args:
        graph: the network as it was before the planner added relocations and recomputation.
        retrained: whether the plan may be of a network with other constants and quantisation, but the same names and shapes.

    Raises:
        CompileError: the text is no plan, is damaged, or is a plan of another graph.
    """
    try:
        record = _mapping(lambda value: value)(json.loads(text))
        if record["version"] != VERSION:
            raise CompileError(
                f"the plan has version {record['version']}", f"this tinyweave reads version {VERSION}; plan again"
            )
        return check(_plan(record, graph, retrained=retrained))
    except UnsoundPlanError as error:
        if retrained:
            raise CompileError(f"the plan does not suit this network: {error}", "compile it, and build it again") from error
        raise CompileError(f"the plan is damaged: {error}", "plan again") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, StopIteration) as error:
        why = str(error) if isinstance(error, ValueError) else repr(error)
        raise CompileError(f"not a plan: {why[:160]}", "make one with 'tinyweave plan MODEL -o FILE'") from error


def _plan(record: Mapping[str, Any], graph: Graph, *, retrained: bool) -> Plan:
    channels_once, pieces = (_mapping(_count)(record[name]) for name in ("channels_once", "pieces"))
    graph = with_channels_once(with_pieces(graph, pieces), channels_once)
    number = {op.name: index for index, op in enumerate(graph.ops)}
    steps = [_word(step["move"]) if isinstance(step, dict) else number.get(_word(step), -1) for step in record["moves"]]
    if -1 in steps:
        raise _other_graph()
    if steps:
        if sorted(step for step in steps if isinstance(step, int)) != list(range(len(graph.ops))):
            raise CompileError("the plan is damaged: its steps do not list every op exactly once", "plan again")
        graph = with_moves(graph, steps)[0]
    if record["graph"] != fingerprint(graph) and not retrained:
        raise _other_graph()
    plan = Plan(
        graph=graph,
        stages=tuple(map(_stage, record["stages"])),
        variants=tuple(map(_word, record["variants"])),
        buffers=tuple(map(_buffer, record["buffers"])),
        places=_mapping(lambda place: Place(_word(place["buffer"]), _count(place["offset"])))(record["places"]),
        offsets=_mapping(_bytes)(record["offsets"]),
        arena=_mapping(_bytes)(record["arena"]),
        scratch=_bytes(record["scratch"]),
        lower_bound=_bytes(record["lower_bound"]),
        streamed_inputs=tuple(map(_word, record["streamed_inputs"])),
        streamed_outputs=tuple(map(_word, record["streamed_outputs"])),
        channels_once=channels_once,
        pieces=pieces,
        copies=_mapping(lambda ops: tuple(map(_word, ops)))(record["copies"]),
        weights_file=_flag(record["weights_file"]),
    )
    _check_names(plan)
    return plan


def _check_names(plan: Plan) -> None:
    """Raise ValueError unless buffers and places have names of the graph, and memories names of C, which has them all."""
    ops, names = plan.graph.ops, [buffer.name for buffer in plan.buffers]
    tensors = {name for op in ops for name in (*op.inputs, *op.outputs) if name is not None}.union(plan.graph.inputs)
    tensors = {name for name in tensors if plan.graph.tensors[name].data is None}
    known = tensors.union(*((scratch_name(op.name), tiles_name(op.name)) for op in ops), map(copy_name, plan.copies))
    if wrong := set(plan.places) - tensors:
        raise ValueError(f"the place of {min(wrong)!r:.60}, which is no activation of the graph")
    if wrong := set(names) - known:
        raise ValueError(f"the buffer {min(wrong)!r:.60}, which is no activation, no scratch and no copy of constants")
    if wrong := {name for name in plan.arena if not re.fullmatch(r"[A-Za-z]\w{0,30}", name, re.ASCII)}:
        raise ValueError(f"the memory {min(wrong)!r:.60}, which is no C name of at most 31 characters")
    if len({name.lower() for name in plan.arena}) < len(plan.arena):
        raise ValueError("two memories have the same name in capitals")
    if sorted(names) != sorted(plan.offsets):
        raise ValueError("the names of the buffers are not those of the offsets")


def _other_graph() -> CompileError:
    return CompileError(
        "the plan was made for another graph", "plan this graph again, or use the same --io and --layout as then"
    )


def _stage_record(stage: Stage) -> dict[str, Any]:
    record: dict[str, Any] = {"ops": stage.ops, "tiles": None, "schedule": None}
    if stage.tiles is not None:
        record["tiles"] = [asdict(tile) for tile in stage.tiles]
    if (rows := stage.schedule) is not None:
        timings = [{"node": node} | timing._asdict() for node, timing in rows.timings.items()]
        record["schedule"] = {"timings": timings, "rings": dict(rows.line_buffers), "tiles": dict(rows.tiles)}
    return record


def _stage(record: Mapping[str, Any]) -> Stage:
    tiles, rows = record["tiles"], record["schedule"]
    return Stage(
        ops=tuple(map(_count, record["ops"])),
        tiles=None if tiles is None else tuple(map(_tile, tiles)),
        schedule=None if rows is None else _schedule(rows),
    )


def _tile(record: Mapping[str, Any]) -> Tile:
    return Tile(tuple(map(_count, record["ops"])), _count(record["cols"]), _count(record["rows"]), _flag(record["cached"]))


def _schedule(record: Mapping[str, Any]) -> RowSchedule:
    timings: dict[int | str, RowTiming] = {}
    for timing in record["timings"]:
        node = timing["node"] if isinstance(timing["node"], str) else _count(timing["node"])
        timings[node] = RowTiming(*(_count(timing[name]) for name in RowTiming._fields))
    tiles = _mapping(lambda size: (_count(size[0]), _count(size[1])))(record["tiles"])
    schedule = RowSchedule(timings, _mapping(_count)(record["rings"]), tiles)
    if any(min(timing.every, timing.rows_per_iteration) < 1 for timing in timings.values()) or schedule.ticks > MAX_TICKS:
        raise ValueError(f"a stage takes no ticks, or more than {MAX_TICKS:,}")
    return schedule


def _buffer(record: Mapping[str, Any]) -> Buffer:
    buffer = Buffer(
        _word(record["name"]),
        _bytes(record["bytes"]),
        _count(record["start"]),
        _count(record["end"]),
        _count(record["align"]),
        _word(record["memory"]),
    )
    if buffer.align < 1:
        raise ValueError(f"a buffer has the alignment {buffer.align}")
    return buffer


def _mapping(read: Callable[[Any], Value]) -> Callable[[Any], dict[str, Value]]:
    def mapping(value: Any) -> dict[str, Value]:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.40} is not an object")
        return {name: read(each) for name, each in value.items()}

    return mapping


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r:.40} is not true or false")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not a string")
    return value


def _count(value: Any) -> int:
    """Return `value` if it is an integer of 0 to 2**31 - 1; raise ValueError otherwise."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(f"{value!r:.40} is not a count")
    return value


def _bytes(value: Any) -> int:
    if _count(value) > MAX_ARENA:
        raise ValueError(f"{value:,} bytes exceed the supported maximum of {MAX_ARENA:,}")
    return int(value)
