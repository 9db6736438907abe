"""Edited plan files: each is refused in one line, or is accepted and gives the reference's bytes.

In: a plan. Out: texts of plan files that differ from it in one kernel, or in some numbers, names or the order of items, and the
result of reading such a file. The same seed gives the same edits.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cases.maps import segmentation
from cases.tiny import NETWORKS
from fuzz.random_plans import Trial, build, failure, network
from planning.stages import plan_in_stages

from tinyweave.ir import CompileError, Graph
from tinyweave.kernels.table import BY_NAME
from tinyweave.planning import Plan, Request, Tile, check, from_json, plan, to_json
from tinyweave.planning.memories import distribute

ODD = (0, 1, -1, 7, 255, 1 << 20, 1 << 40, 1.5, None, True, "", "sram", "a b", "x */ y", "a\nb", [], {})
STEPS = (1, -1, 4, -4, 8, 64)
LONGEST_LINE = 600  # characters of a refusal
Edit = tuple[str, str]  # what was changed, and the text of the file


def streams() -> tuple[Graph, Plan]:
    """Return a network with a tile, whose input and output are streamed."""
    graph, tiles = segmentation(), (Tile((3, 4), 5, 2),)
    ends = {"streamed_inputs": ("image",), "streamed_outputs": ("classes",)}
    return graph, plan_in_stages(graph, [(0, 1, 2, 3, 4)], tiles=tiles, **ends)


def enlarged() -> tuple[Graph, Plan]:
    """Return a network with a transposed convolution, all of which runs by rows."""
    graph = segmentation(2, "transpose_conv")
    return graph, plan_in_stages(graph, [(0, 1, 2, 3, 4)])


def drawn(seed: int, core: str) -> tuple[Graph, Plan]:
    """Return a random network, planned with the kernels of a core."""
    graph = network(seed)
    return graph, plan(graph, Request(core=core))


def memories() -> tuple[Graph, Plan]:
    """Return a network whose buffers are in two memories."""
    graph = NETWORKS["residual"]()
    return graph, check(distribute(plan(graph, Request("layer")), {"fast": 250, "slow": 1000}, overlap=False))


PLANS: dict[str, Callable[[], tuple[Graph, Plan]]] = {
    "streams": streams,
    "enlarged": enlarged,
    "memories": memories,
    "state": lambda: drawn(28, "cortex-m4"),
}


def swaps(made: Plan) -> Iterator[Edit]:
    """Yield a file for each op and each kernel of the table that it does not run, and for an op without code."""
    for index, op in enumerate(made.graph.ops):
        for name in sorted({"", *BY_NAME} - {made.variants[index]}):
            record = json.loads(to_json(made))
            record["variants"][index] = name
            yield f"{op.name} runs '{name}'", json.dumps(record)


def edits(made: Plan, count: int, seed: int) -> Iterator[Edit]:
    """Yield files with one to three random edits. In half of them, the arenas are made to fit the edited buffers."""
    text = to_json(made)
    same, rng = json.dumps(json.loads(text)), random.Random(seed)
    while count:
        record = json.loads(text)
        ways = rng.choices((_leaf, _items, _keys, _offset, _stages), (3, 1, 1, 1, 1), k=rng.choice((1, 1, 2, 3)))
        about = [way(record, rng) for way in ways]
        if rng.random() < 0.5:
            _fit(record)
        if (edited := json.dumps(record)) != same:
            count -= 1
            yield "; ".join(filter(None, about)), edited


def outcome(graph: Graph, text: str) -> Plan | str:
    """Return the plan of a file, or the line that refuses it; any error that is not a CompileError is raised."""
    try:
        return from_json(text, graph)
    except CompileError as error:
        line = str(error)
    assert line and "\n" not in line and len(line) <= LONGEST_LINE, line
    return line


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(each, (*path, key))


def _at(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


def _drawn(record: Any, rng: random.Random, kind: type) -> tuple[Any, ...] | None:
    """Return the path of a random value of a type; each top-level key is equally likely."""
    of_key = {key: [path for path in _paths(value, (key,)) if type(_at(record, path)) is kind] for key, value in record.items()}
    found = [paths for paths in of_key.values() if paths]
    return rng.choice(rng.choice(found)) if found else None


def _leaf(record: Any, rng: random.Random) -> str:
    """Change a number by little, or replace a value by one of the same type in the file, or by an odd one."""
    kind = rng.choice((int, int, int, str, bool))
    path = _drawn(record, rng, kind)
    if path is None:
        return ""
    value, other = _at(record, path), _drawn(record, rng, kind)
    odd, like = rng.choice(ODD), _at(record, other or path)
    changed = not value if kind is bool else like if kind is str else rng.choice((value + rng.choice(STEPS), like))
    _at(record, path[:-1])[path[-1]] = odd if rng.random() < 0.1 else changed
    return f"{path} from {value!r} to {_at(record, path)!r}"


def _items(record: Any, rng: random.Random) -> str:
    """Exchange, repeat or drop an item of a list, or reverse the list."""
    path = _drawn(record, rng, list)
    if path is None or not (items := _at(record, path)):
        return ""
    at, other, what = (
        rng.randrange(len(items)),
        rng.randrange(len(items)),
        rng.choice(("swap", "swap", "drop", "repeat", "reverse")),
    )
    if what == "swap":
        items[at], items[other] = items[other], items[at]
    elif what == "drop":
        del items[at]
    elif what == "repeat":
        items.insert(other, items[at])
    else:
        items.reverse()
    return f"{what} {at} {other} of {path}"


def _keys(record: Any, rng: random.Random) -> str:
    """Exchange the values of two keys, or drop, rename or add a key."""
    path = _drawn(record, rng, dict)
    if path is None or not (items := _at(record, path)):
        return ""
    key, other, what = rng.choice(list(items)), rng.choice(list(items)), rng.choice(("swap", "swap", "drop", "rename", "add"))
    if what == "swap":
        items[key], items[other] = items[other], items[key]
    elif what == "add":
        items[rng.choice(("more", "x */ y", "slow"))] = items[key]
    else:
        value = items.pop(key)
        items |= {f"{key}.": value} if what == "rename" else {}
    return f"{what} '{key}' and '{other}' of {path}"


def _offset(record: Any, rng: random.Random) -> str:
    """Move a buffer to the offset of another one, or near it, and let the arenas fit."""
    offsets = record.get("offsets")
    if not isinstance(offsets, dict) or not offsets or any(type(at) is not int for at in offsets.values()):
        return ""
    name, other = rng.choice(list(offsets)), rng.choice(list(offsets))
    offsets[name] = offsets[other] + rng.choice((0, 4, -4, 16, -16, 64, -64, 256))
    _fit(record)
    return f"'{name}' to {offsets[name]}"


def _stages(record: Any, rng: random.Random) -> str:
    """Exchange two stages, or move an op from one stage to another."""
    stages = record.get("stages")
    if not isinstance(stages, list) or len(stages) < 2 or not all(isinstance(stage, dict) for stage in stages):
        return ""
    at = rng.randrange(len(stages) - 1)
    if rng.random() < 0.5:
        stages[at], stages[at + 1] = stages[at + 1], stages[at]
        return f"stages {at} and {at + 1} exchanged"
    source, target = (stages[i].get("ops") for i in (at, at + 1))
    if not isinstance(source, list) or not isinstance(target, list) or not source:
        return ""
    target.insert(0, source.pop())
    return f"an op from stage {at} to {at + 1}"


def _fit(record: Any) -> None:
    """Set the size of each arena to the end of its highest buffer, if the record still has the right form."""
    try:
        ends = [(b["memory"], record["offsets"][b["name"]] + b["bytes"]) for b in record["buffers"]]
        record["arena"] = {memory: max((end for of, end in ends if of == memory), default=0) for memory in record["arena"]}
    except (KeyError, TypeError):
        return


def faults(accepted: Sequence[tuple[str, Plan]]) -> list[str]:
    """Emit and run the C of accepted plans in one memory; return a line for each plan that gives a wrong byte.

    The C runs between guard bytes in an arena of exactly the plan's size.
    """
    wanted = [Trial(number, f"plan_{number}", each) for number, (_, each) in enumerate(accepted)]
    if not wanted:
        return []
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        library = build(Path(folder), wanted)
        found = [failure(library, trial) for trial in wanted]
    return [f"{about}: {text}" for (about, _), text in zip(accepted, found, strict=True) if text]
