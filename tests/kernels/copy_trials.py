"""Random trials of portable kernels that copy with vectors on a Cortex-M55: runs of up to a few vectors, and single bytes.

Each function returns a trial and the same trial again, since on_core.py compares pairs: the first runs on the host.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from kernels import ring_views
from kernels.ring_calls import Call, Rng, Trial, build

from tinyweave.kernels.copies import _runs

LONGEST = 70  # bytes of a run


def length(rng: Rng) -> int:
    """Return a random length of a run, often of one byte or of whole vectors."""
    return int(rng.choice([1, 2, 16, 32, rng.integers(1, LONGEST)]))


def twice(trial: Trial) -> tuple[Trial, Trial]:
    return trial, trial


def pad(rng: Rng) -> tuple[Trial, Trial]:
    return twice(ring_views.pad(rng, length(rng)))


def concatenation(rng: Rng) -> tuple[Trial, Trial]:
    """Return a trial along the channels, which the kernel's form for whole maps computes, too."""
    width, parts, calls, inputs = int(rng.integers(1, 30)), [length(rng) for _ in range(3)], [], []
    outer = (1, 1, width, sum(parts))
    for index, count in enumerate(parts):
        inner, before = (1, 1, width, count), (0, 0, 0, sum(parts[:index]))
        params = build("tw_concatenation", **{"in": inner, "out": outer, "before": before})
        calls.append(Call("tw_concatenation_s8", params, (index,)))
        inputs.append(ring_views.operand(rng, inner[1:], ring_views.inside(inner, outer, before)))
    return twice(Trial(calls, inputs, outer[1:]))


def resize_nearest(rng: Rng) -> tuple[Trial, Trial]:
    return twice(ring_views.resize_nearest(rng, length(rng)))


def strided(rng: Rng) -> tuple[Trial, Trial]:
    """Return a trial with axes in any order and direction, of which some have gaps, or of single bytes a long step apart."""
    size, run = rng.permutation([*rng.integers(1, 4, 2), *rng.integers(1, 20, 2)]), length(rng) if rng.integers(2) else 1
    dense = np.array([run, *run * np.cumprod(size[:-1])])[rng.permutation(4)]
    step = dense * rng.choice([1, 1, 1, 2], 4) * rng.choice([1, 1, 1, -1], 4)
    if rng.integers(8) == 0:  # seven steps are just below or above 65,535 bytes, the largest offset of a lane
        size, step, run = np.array([1, 1, 1, 9]), np.full(4, rng.choice([9_362, 9_363])), 1
    start = -int(np.minimum(step * (size - 1), 0).sum())
    strides = _runs(start, list(zip(size.tolist(), step.tolist(), strict=True)), run)
    assert strides is not None
    bytes_in = start + int(np.maximum(step * (size - 1), 0).sum()) + run
    source = ring_views.operand(rng, (1, 1, bytes_in))
    call = Call("tw_strided_copy", build("tw_strides", **strides._asdict()), (0,))
    return twice(Trial([call], [source], (1, 1, int(size.prod()) * run)))


def listed(rng: Rng) -> tuple[Trial, Trial]:
    """Return a trial whose tables name any offsets, and padding."""
    (count, rows, cols), run, step = rng.integers(1, 9, 3).tolist(), length(rng), int(rng.integers(100))
    row, col = (np.where(rng.integers(5, size=n) == 0, -1, rng.integers(500, size=n)).astype(np.int32) for n in (rows, cols))
    tables = {"count": count, "step": step, "rows": rows, "cols": cols, "row": row, "col": col, "run": run}
    params = build("tw_tables", **tables, value=int(rng.integers(-128, 128)))
    source = ring_views.operand(rng, (1, 1, count * step + 1000 + run))
    return twice(Trial([Call("tw_table_copy", params, (0,))], [source], (1, 1, count * rows * cols * run), (row, col)))


DRAWN: dict[str, Callable[[Rng], tuple[Trial, Trial]]] = {
    "tw_pad_s8": pad,
    "tw_concatenation_s8": concatenation,
    "tw_resize_nearest_neighbor_s8": resize_nearest,
    "tw_strided_copy": strided,
    "tw_table_copy": listed,
}
