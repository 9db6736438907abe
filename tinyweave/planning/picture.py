"""The memory map of a plan as plain text: one line per buffer, for terminals and for the comment in the emitted C."""

from __future__ import annotations

from collections.abc import Collection

from .plan import Plan

MAX_COLUMNS = 64


def memory_picture(
    plan: Plan, labels: dict[str, str] | None = None, max_columns: int = MAX_COLUMNS, only: Collection[str] | None = None
) -> list[str]:
    """Return a table per memory as lines of text: the offset of each buffer, and a # in each step in which it is alive.

    `labels` replace names of buffers. If there are more steps than `max_columns`, a column stands for several. Only the buffers
    `only` are shown, None for all.
    """
    labels = labels or {}
    steps = max(1, len(plan.stages))
    per_column = -(-steps // max_columns)
    columns = -(-steps // per_column)
    shown = [buffer for buffer in plan.buffers if only is None or buffer.name in only]
    lines = []
    for memory, size in plan.arena.items():
        bound = (
            f"(lower bound {plan.lower_bound:,} B)"
            if plan.lower_bound or not size
            else "(lower bound unknown: the plan is from a file)"
        )
        which = f"in {memory}" if len(plan.arena) > 1 else bound
        each = f", {per_column} per column" if per_column > 1 else ""
        lines.append(f"arena {size:,} B {which}, {steps} steps{each}.")
        buffers = sorted((b for b in shown if b.memory == memory), key=lambda b: (plan.offsets[b.name], b.start))
        digits = max(6, len(f"{size:,}"))
        title = f"{'steps':<{columns}}"
        lines.append(f"{'offset':>{digits}} .. {'end':>{digits}} {'size':>{digits}}  {title}  tensor")
        for buffer in buffers:
            offset = plan.offsets[buffer.name]
            begins = range(0, columns * per_column, per_column)
            alive = "".join("#" if buffer.start < at + per_column and at < buffer.end else "." for at in begins)
            where = f"{offset:>{digits},} .. {offset + buffer.bytes:>{digits},} {buffer.bytes:>{digits},}"
            lines.append(f"{where}  {alive:<{len(title)}}  {labels.get(buffer.name, buffer.name)}")
    return lines
