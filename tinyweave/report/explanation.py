"""Explain in words why a tensor has its address, with the names of the plan's drawing and of the C."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.model import buffer_labels
from ..ir import shortened
from ..planning import Plan
from ..planning.explain import Explanation, Overlap, Touch
from ..planning.fuse.rematerialise import is_rematerialised

MOST_NAMES = 6


def explanation_lines(plan: Plan, explanation: Explanation) -> list[str]:
    """Return lines on a tensor: lifetime, kernel, buffers that share its bytes or must not, and what would save memory."""
    label = {name: shown.split("  (")[0] for name, shown in buffer_labels(plan).items()}
    tensor = plan.graph.tensors.get(explanation.tensor)
    what = f"{tensor.dtype} {'x'.join(map(str, tensor.shape))}" if tensor else "scratch of one layer"
    place = f"{explanation.offset:,} .. {explanation.offset + explanation.bytes:,} of {explanation.memory}"
    by_rows = explanation.tensor in (*plan.streamed_inputs, *plan.streamed_outputs)
    lines = [
        f"{label[explanation.buffer]}: {explanation.bytes:,} B at {place}",
        f"  tensor '{shortened(explanation.tensor, 60)}', {what}",
        f"  alive in {_steps(explanation.start, explanation.end)}",
        *(f"    {line}" for line in _life(explanation, by_rows=by_rows)),
    ]
    if tensor and explanation.bytes < tensor.bytes:
        rows = explanation.bytes * tensor.shape[1] // tensor.bytes
        lines.append(f"    {rows} of its {tensor.shape[1]} rows at a time, in a ring: its stage runs row by row")
    lines += [f"    {line}" for line in _twice(plan, explanation.tensor)]
    if explanation.kernels:
        lines.append(f"  computed by {explanation.kernels[-1][0]}")
        lines += [f"    {kernel}: {reason}" for kernel, reason in explanation.kernels]
    if explanation.views:
        lines.append(f"  the same bytes are also {_some([repr(shortened(name, 40)) for name in explanation.views])}")
    for overlap in sorted(explanation.overlaps, key=lambda overlap: not overlap.shared):
        how = f"shares {overlap.shared:,} B with" if overlap.shared else "lies apart from"
        why = f"{_rule(overlap)}; here it begins {_beside(overlap.distance)}" if overlap.shared else _apart(overlap, plan)
        lines += [f"  {how} {label[overlap.other]} while {overlap.op} runs", f"    {why}"]
    if explanation.at_other_times:
        lines.append(f"  at other times these bytes belong to {_some([label[name] for name in explanation.at_other_times])}")
    return lines + _less(plan, explanation)


def _twice(plan: Plan, name: str) -> list[str]:
    """Return a sentence, as a list, if the layer that computes this tensor runs twice (rematerialisation), else []."""
    maker = plan.graph.ops[plan.graph.producer[name]] if name in plan.graph.producer else None
    for op in filter(is_rematerialised, plan.graph.ops):
        if maker is op:
            return [
                f"computed a second time, after {op.attrs['again']}: to keep it until its mean is known would need more RAM"
            ]
        if maker is not None and maker.name == op.attrs["again"]:
            return [f"computed for its mean only, and by {op.name} a second time: to keep it until then would need more RAM"]
    return []


def _life(explanation: Explanation, *, by_rows: bool) -> list[str]:
    """Return lines on the lifetime of a tensor: first writer, last reader, and its role as network input, output or state."""
    begins = [f"written by {_touch(explanation.writers[0])}"] if explanation.writers else []
    ends = [f"read last by {_touch(explanation.readers[-1])}"] if explanation.readers else ["read by no layer"]
    roles = {
        "network input": f"a network input, {'brought by rows' if by_rows else 'written before the first step'}",
        "network output": f"a network output, {'handed out by rows' if by_rows else 'kept to the end for the caller'}",
        "state": "state, kept between calls: no other buffer may have its bytes",
    }
    return [", ".join(begins + ends), *(text for role, text in roles.items() if role in explanation.persistent)]


def _rule(overlap: Overlap) -> str:
    """Return a sentence on how far below its operand a kernel's output must begin to overwrite the operand safely."""
    if overlap.overlap_distance is not None and overlap.overlap_distance < 0:
        return f"{overlap.kernel} moves all bytes to another place, which may overlap the old one in any way"
    if overlap.overlap_distance == 0:
        return f"{overlap.kernel} reads each byte before it writes there: the output may begin where its operand does, or below"
    behind = f"{overlap.kernel} writes {overlap.overlap_distance:,} B behind its reads"
    return f"{behind}: the output may begin that far below its operand"


def _beside(distance: int) -> str:
    """Return how many bytes an output begins below its operand (above if `distance` is negative), as text."""
    return f"{distance:,} B below" if distance > 0 else f"{-distance:,} B above" if distance else "with it"


def _overlaps(plan: Plan) -> bool:
    return any(sum(b.bytes for b in plan.alive(step)) > plan.live(step) for step in range(len(plan.stages)))


def _apart(overlap: Overlap, plan: Plan) -> str:
    """Return a sentence on why the two buffers of `overlap` share no bytes."""
    if overlap.overlap_distance is None:
        return f"it must: {overlap.why}"
    if not overlap.possible:
        return f"{_rule(overlap)}, which is its whole size or more: nothing to share"
    unused = "but no arena is smaller for it" if _overlaps(plan) and not plan.gap else "which this plan does not use"
    return f"{_rule(overlap)}; they could share {overlap.possible:,} B, {unused}"


def _less(plan: Plan, explanation: Explanation) -> list[str]:
    """Return lines on how many bytes the peak would be smaller without the explained tensor, and what would free its bytes."""
    without, peak = explanation.without, explanation.peak
    if without >= peak:
        return [f"  it does not hold the peak of {peak:,} B: the network would need as much without it"]
    lines = [f"  it is part of the peak: without it the busiest step would need {without:,} B instead of {peak:,} B"]
    if {"state", "network output"} & set(explanation.persistent) or not explanation.readers:
        return lines
    step, op = explanation.readers[-1]
    if step > explanation.start + 1 and explanation.waits and explanation.waits[0] > explanation.start:
        lines.append(f"    it would be free earlier if {op} ran earlier, which waits for {_touch(explanation.waits)}")
    if any(overlap.overlap_distance is None and "after any write" in overlap.why for overlap in explanation.overlaps):
        lines.append("    a kernel whose writes trail its reads would let two of them share bytes")
    elif not _overlaps(plan) and any(overlap.possible for overlap in explanation.overlaps):
        lines.append("    --schedule best uses such overlaps where they make the arena smaller")
    return lines


def _touch(touch: Touch) -> str:
    step, op = touch
    return f"{op} in step {step + 1}"


def _steps(start: int, end: int) -> str:
    """Return the steps [start, end), counted from 0, as text that counts from 1."""
    return f"step {start + 1} alone" if end == start + 1 else f"steps {start + 1} to {end}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
