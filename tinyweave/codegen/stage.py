"""A fused stage as C: the views of its maps, the pace of each of its ops, and one loop over ticks.

In: a Plan and one of its stages, with the call of each op on the row that is due. Out: lines of C.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import itemsize
from ..plan import Plan, Stage
from ..plan.fuse import Node, Streaming, row_bytes, streaming_of
from .layer import Code, shape_text


def map_names(plan: Plan, stage: Stage, labels: Mapping[str, str]) -> dict[str, str]:
    """Activation that a fused stage reads or writes -> the C name of its view."""
    names = [name for index in stage.ops for name in (*plan.graph.ops[index].inputs, *plan.graph.ops[index].outputs)]
    return {name: f"{labels[name]}_map" for name in dict.fromkeys(names) if name is not None and name in plan.places}


def stage_lines(
    plan: Plan, stage: Stage, at: Mapping[str, str], maps: Mapping[str, str], codes: Mapping[int, Code | None]
) -> list[str]:
    """The block that runs a fused stage."""
    stream = streaming_of(plan, stage)
    lines = ["{", "    /* address, bytes of a row, rows that are kept */"]
    lines += [f"    {_view(plan, stream, name, at[name], label)}" for name, label in maps.items()]
    lines.append("    /* tick of the next row, ticks from a row to the next, rows done, rows */")
    for node, pace in stream.paces.items():
        start = f"{{{pace.first}, {pace.every}, 0, {pace.rows}}}"
        lines.append(f"    tw_pace {_pace(plan, maps, node)} = {start};")
    lines += ["", f"    for (int32_t tick = 0; tick < {stream.ticks}; ++tick) {{"]
    for node in stream.paces:
        if isinstance(node, str):
            lines += [f"        {line}" for line in _bring(plan, maps[node], node)]
            continue
        op, code = plan.graph.ops[node], codes[node]
        assert code is not None
        lines.append(f"        if (tw_is_due(&{op.name}_pace, tick, &{maps[op.outputs[0]]})) {{")
        lines += [f"            {line}" for line in code.call.rstrip().split("\n")]
        lines.append("        }")
    return [*lines, "    }", "}"]


def _pace(plan: Plan, maps: Mapping[str, str], node: Node) -> str:
    return f"{maps[node].removesuffix('_map') if isinstance(node, str) else plan.graph.ops[node].name}_pace"


def _bring(plan: Plan, label: str, name: str) -> list[str]:
    """Ask the caller for the row of a streamed input that is due."""
    pace, tensor = _pace(plan, {name: label}, name), plan.graph.tensors[name]
    pixel = tensor.shape[3] * itemsize(tensor.dtype)
    row = f"{pace}.row - 1"
    return [
        f"if (tw_is_due(&{pace}, tick, &{label})) {{",
        f"    void *const row = tw_pixel(&{label}, {row}, 0, {pixel});",
        f"    const int error = io->read_rows(io->user, {plan.graph.inputs.index(name)}, {row}, 1, row);",
        "    if (error != 0) {",
        "        return error;",
        "    }",
        "}",
    ]


def stage_note(plan: Plan, stage: Stage) -> str:
    """One line on what a fused stage is."""
    graph, ops = plan.graph, [plan.graph.ops[index] for index in stage.ops]
    title = f"{ops[0].name} to {ops[-1].name}" if len(ops) > 1 else ops[0].name
    made = {op.outputs[0] for op in ops}
    names = dict.fromkeys(name for op in ops for name in op.inputs if name in plan.places and name not in made)
    sources = " + ".join(shape_text(graph.tensors[name].shape) for name in names)
    return f"{title}, row by row: {sources} -> {shape_text(graph.output(ops[-1]).shape)}"


def ring_note(plan: Plan, stage: Stage, index: int) -> str:
    """What a layer's line says of the ring that its output lies in."""
    rows = streaming_of(plan, stage).rings.get(plan.graph.ops[index].outputs[0])
    return "" if rows is None else f", into a ring of {rows} row{'s' if rows > 1 else ''}"


def _view(plan: Plan, stream: Streaming, name: str, at: str, label: str) -> str:
    tensor = plan.graph.tensors[name]
    rows = stream.rings.get(name, tensor.shape[1] if len(tensor.shape) == 4 else 1)
    is_written = name in stream.paces or any(plan.graph.ops[i].outputs[0] == name for i in stream.paces if isinstance(i, int))
    const = "" if is_written else "const "
    return f"{const}tw_view {label} = {{{at}, {tensor.bytes if len(tensor.shape) != 4 else row_bytes(tensor)}, {rows}, 0, 0}};"
