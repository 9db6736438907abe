"""Which tensors may share memory: views, and outputs that overlap operands.

In: a Graph and the order of its ops. Out: the tensor that owns each activation's memory; how the output of each op may overlap
operands whose last use is that op. The overlap distance says by how many bytes the output must start below the operand, so that
the kernel overwrites only bytes that it has read (`kernels/access.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...ir import Graph, Op, is_constant
from ...kernels.access import overlap_distances
from ...ops import SPECS
from ..place.place import Rules
from ..place.relocation_ops import is_move
from ..plan import Buffer
from .subtensors import ALIGN, Aliases, with_parts

ANY_DISTANCE = 1 << 62
FORBIDDEN = ANY_DISTANCE // 2  # distances of at least this much mean that the two must not overlap


def is_view(op: Op) -> bool:
    """Return whether an op only reinterprets its first input, whose bytes stay unchanged, as a reshape does.

    False for unsupported ops and for relocations, which copy.
    """
    return op.kind in SPECS and SPECS[op.kind].view and not is_move(op)


def views(graph: Graph, order: tuple[int, ...] | None = None) -> dict[str, str]:
    """Return activation -> the tensor that owns its memory: itself, or the source of a chain of reshape-like ops.

    `order` are the indices of the ops in execution order; None for the file's order. It matters for state. The output of a
    read_variable is a view of the state if all uses of this output precede the next change of the state. A value that is
    assigned to a state is computed in the state's memory if no op reads the old state meanwhile. Otherwise the value is copied.
    """
    order = tuple(range(len(graph.ops))) if order is None else order
    owner = {name: name for name, tensor in graph.tensors.items() if not is_constant(tensor)}
    for step, index in enumerate(order):
        op = graph.ops[index]
        source = op.inputs[0] if is_view(op) else None
        if op.kind == "assign_variable":
            _write_early(graph, order, step, owner)
        elif source in owner and (graph.tensors[source].role != "state" or _used_before_change(graph, order, step)):
            owner[op.outputs[0]] = owner[source]
    return owner


def shared_in(graph: Graph, order: Sequence[int], *, parts: bool) -> Aliases:
    """Return which tensors of a graph share memory if its ops run in `order`.

    Views share the memory of their input. Rows of a streamed window are moved within their state, and new rows are computed
    there. With `parts`, outputs of splits and slices also lie inside their input, and inputs of concatenations inside their
    output.
    """
    return with_parts(graph, views(graph, tuple(order)), order, parts=parts)


def _touched(graph: Graph, order: tuple[int, ...], names: Iterable[str]) -> list[int]:
    """Return the steps that read or write one of these tensors; for a network output, also the step after the last."""
    wanted = set(names)
    steps = [step for step, i in enumerate(order) if wanted.intersection(graph.ops[i].inputs + graph.ops[i].outputs)]
    return steps + [len(order)] * bool(wanted.intersection(graph.outputs))


def _next_write(graph: Graph, order: tuple[int, ...], state: str, step: int) -> int:
    """Return the first step after `step` that writes a state, or a number above all steps if none does."""
    return next((s for s in range(step + 1, len(order)) if state in graph.ops[order[s]].outputs), len(order) + 1)


def _with_views(graph: Graph, order: tuple[int, ...], names: Iterable[str]) -> set[str]:
    """Return these tensors and all views of them."""
    viewed = set(names)
    for index in order:
        op = graph.ops[index]
        if is_view(op) and op.kind != "assign_variable" and op.inputs[0] in viewed:
            viewed.add(op.outputs[0])
    return viewed


def _used_before_change(graph: Graph, order: tuple[int, ...], step: int) -> bool:
    """Return whether the value that the op at `step` reads from a state is used only before the next write of the state.

    Uses of the value's views count too.
    """
    op = graph.ops[order[step]]
    uses = _touched(graph, order, _with_views(graph, order, op.outputs))
    return uses[-1] < _next_write(graph, order, graph.input(op).name, step)


def _write_early(graph: Graph, order: tuple[int, ...], step: int, owner: dict[str, str]) -> None:
    """Let an assigned value be computed directly in the memory of its state, by changing `owner`; do nothing if that is unsafe.

    The assign_variable at `step` stores the value. This is safe if no op reads the old state after the first write to the
    memory that the value uses, and if the value's last use precedes the next write of the state.
    """
    op = graph.ops[order[step]]
    value, state = op.inputs[0], op.outputs[0]
    if value not in owner or graph.tensors[owner[value]].role == "state" or owner[value] in graph.inputs:
        return
    same_bytes = [name for name, home in owner.items() if home == owner[value]]
    lives = _touched(graph, order, _with_views(graph, order, same_bytes))
    in_state = _touched(graph, order, [name for name, home in owner.items() if home == state])
    old_state_is_read = any(lives[0] <= s < step for s in in_state)
    if not old_state_is_read and lives[-1] < _next_write(graph, order, state, step):
        owner.update(dict.fromkeys(same_bytes, state))


def distances(
    graph: Graph,
    variants: Sequence[str],
    owner: Mapping[str, str],
    max_distance: int = ANY_DISTANCE,
    offset: Mapping[str, int] | None = None,
) -> list[dict[str, int]]:
    """Return, for each op, how its output may overlap its operands: owner of an operand's memory -> overlap distance in bytes.

    The output must start at least this distance below the owner. Owners that must not be overlapped are left out. An op with
    several outputs, not counting state, has an empty dict.
    """
    by_op = []
    for op, name in zip(graph.ops, variants, strict=True):
        all_of_op = _distances(graph, op, name, owner, offset or {}) if name else {}
        by_op.append(
            {other: distance for other, distance in all_of_op.items() if distance <= max_distance and distance < FORBIDDEN}
        )
    return by_op


def _distances(graph: Graph, op: Op, variant: str, owner: Mapping[str, str], offset: Mapping[str, int]) -> dict[str, int]:
    if sum(graph.tensors[name].role != "state" for name in op.outputs) != 1:
        return {}
    of_inputs, by_owner = overlap_distances(graph, op, variant), dict[str, int]()
    for index, name in enumerate(op.inputs):
        if name is not None and name in owner:
            inside = offset.get(op.outputs[0], 0) - offset.get(name, 0)
            by_owner[owner[name]] = max(of_inputs.get(index, ANY_DISTANCE) + inside, by_owner.get(owner[name], 0))
    return by_owner


def rules(
    graph: Graph,
    stages: Sequence[Sequence[int]],
    owner: Mapping[str, str],
    distances: Sequence[Mapping[str, int]],
    buffers: Iterable[Buffer],
) -> Rules:
    """Return the rules by which the output of each stage may overlap operands whose last use is that stage."""
    allowed = dict[tuple[str, str], int]()
    home = {buffer.name: buffer for buffer in buffers}
    state = {name for name, tensor in graph.tensors.items() if tensor.role == "state"}
    persistent = state.union(owner[name] for name in graph.outputs if name in owner)
    for step, ops in enumerate(stages):
        target = owner[graph.ops[ops[-1]].outputs[0]]
        for source, distance in distances[step].items() if target not in state and home[target].start == step else ():
            if source not in persistent and source != target and home[source].end == step + 1:
                allowed[target, source] = distance
                if is_move(graph.ops[ops[-1]]):  # a relocation may go up as well as down
                    allowed[source, target] = distance
    return allowed


def saved_bytes(
    graph: Graph, owner: Mapping[str, str], distance: Sequence[Mapping[str, int]], index: int, last_used: frozenset[str]
) -> int:
    """Return the RAM saved in the step of op `index` if its output overlaps operands whose last use is this step."""
    target = owner[graph.ops[index].outputs[0]]
    if target != graph.ops[index].outputs[0]:  # inside another tensor or state, whose bytes may be in use already
        return 0
    out = graph.tensors[target].bytes
    return shared_bytes(
        out, [(d, graph.tensors[name].bytes) for name, d in distance[index].items() if name in last_used - {target}]
    )


def shared_bytes(out: int, operands: Iterable[tuple[int, int]]) -> int:
    """Return the bytes saved if an output of `out` bytes overlaps some operands, each given as (overlap distance, bytes).

    The operands are stacked above the start of the output in the order of their distances, at multiples of ALIGN.
    """
    end = total = 0
    for distance, size in sorted(operands):
        end, total = max(end, min(-(-distance // ALIGN) * ALIGN, out)) + size, total + size
    return total + out - max(end, out)
