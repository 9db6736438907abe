"""The least arena of a chain of ops on square maps, from its figures alone: for those who ask of many thousands of networks.

In: steps, an op each, with sums over skips among them. Out: the bytes that the busiest step of the best plan needs, as
`plan(graph, "best").lower_bound` of the graph has it, without a graph. chain.c works them out, with the planner's own C:
planning/fuse/stages.c grows the stages and their tiles, planning/trade/least_bytes.c searches the cuts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import toolchain
from ..ops.window import Window
from ..planning.fuse import stages as fuse
from ..planning.fuse.possible import longest_stage
from .steps import Step, distance_of, macs_of

Numbers = NDArray[np.int64]
SOURCE = Path(__file__).with_name("chain.c")
MACS = 11  # the column of a step's multiply-accumulates


@lru_cache(maxsize=1 << 16)
def numbers_of(steps: tuple[Step, ...]) -> Numbers:
    """Return [step, figure]: what chain.c is told of each step, `step_facts` there."""
    rows = []
    for step in steps:
        in_place = distance_of(step) == 0 and step.window == Window()
        by_rows = step.makes_map or step.sums > 0
        sizes = step.side, step.c_in, step.side_out, step.c_out, step.kernel, step.stride, step.pad, step.back, step.forth
        rows.append((by_rows, step.sums, *sizes, macs_of(step), distance_of(step), in_place, step.makes_map))
    return np.array(rows, np.int64)


def least_bytes(chain: Sequence[tuple[Step, ...]], *, streamed_inputs: bool, budget: int = 0) -> int | None:
    """Return the bytes that the busiest step of the best plan needs that does at most `budget` multiply-accumulates again;
    streamed_inputs: the network's input comes by rows. None where no compiler is found.

    chain: steps in groups, of which each is remembered. The first is a convolution; channels are whole numbers of words, but
    for those of the network's input and output.
    """
    library = toolchain.library(SOURCE)
    if library is None:
        return None
    facts = np.concatenate([numbers_of(steps) for steps in chain])
    limits = fuse.MOST_CHOICES, fuse.MOST_TICKS, longest_stage(len(facts)), fuse.LONGEST_TILE
    question = np.array([*limits, budget, streamed_inputs, *fuse.TILE_ROWS], np.int64)
    library.tw_chain_bytes.restype = ctypes.c_int64
    pointers = (ctypes.c_void_p(table.ctypes.data) for table in (question, facts))
    found: int = library.tw_chain_bytes(*pointers, ctypes.c_int64(len(facts)))
    if found < 0:
        raise MemoryError
    return found


def layer_by_layer(chain: Sequence[tuple[Step, ...]]) -> int:
    """Return what the busiest step needs where each runs by itself and no output overlaps an operand."""
    facts = np.concatenate([numbers_of(steps) for steps in chain])
    side, c_in, side_out, c_out = facts[:, 2:6].T
    back, forth = facts[:, 9:11].T
    needs = side**2 * c_in + side_out**2 * c_out * (1 + (back > 0))
    for index in np.flatnonzero(forth).tolist():
        needs[index + 1 : index + int(forth[index])] += side[index] ** 2 * c_in[index]
    return int(needs.max())


def macs(chain: Sequence[tuple[Step, ...]]) -> int:
    """Return multiply-accumulates of all steps, borders clipped."""
    return sum(int(numbers_of(steps)[:, MACS].sum()) for steps in chain)
