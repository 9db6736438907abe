"""Peak RAM of a chain of ops on square maps, computed in C without a graph. In: Steps, one per op. Out: bytes.

`least_bytes` equals `plan(graph, "best").lower_bound` of the same network. chain.c builds the planning problem that
planning/search/of_graph.py builds from a graph, and the planner's own C searches it: stage_growth.c and least_bytes.c.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tinyweave.ir import Graph, Op, Tensor
from tinyweave.kernels.access import overlap_distances
from tinyweave.ops import SPECS
from tinyweave.ops.window import Window, all_taps_inside
from tinyweave.planning.search import of_graph, stage_growth
from tinyweave.planning.search.stage_growth import longest_stage
from tinyweave.support import toolchain

Numbers = NDArray[np.int64]
SEARCH = Path(stage_growth.__file__).parent
SOURCES = (
    Path(__file__).with_name("chain.c"),
    *(SEARCH / name for name in ("least_bytes.c", "stage_overlap.c", "stage_growth.c")),
)
MACS = 11  # the column of a step's multiply-accumulates


class Step(NamedTuple):
    """An op of a chain, for the RAM model in C, on the previous step's output of `side` x `side` x `c_in`."""

    kind: str
    side: int
    c_in: int
    c_out: int
    side_out: int = 1
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    back: int = 0  # of an addition: the step this many steps earlier reads the same skip connection; 0 for none
    forth: int = 0  # of a step whose input is a skip connection: the addition is this many steps later; 0 for none

    @property
    def window(self) -> Window:
        """Return the op's sliding window, which is the same along rows and columns."""
        return Window(self.kernel, self.stride, self.pad)

    @property
    def sums(self) -> int:
        """Return the bytes of the int32 sums in which a mean accumulates the rows of its input; 0 for other ops."""
        return 4 * self.c_in if self.kind == "mean" and self.side > 1 else 0

    @property
    def makes_map(self) -> bool:
        """Return whether the output is a map; the output of a mean or of a classifier is a vector."""
        return SPECS[self.kind].family not in ("reduction", "dense")


def cropped(side: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Return (kernel rows, padding before) without rows that only read padding, as the pass `crop_windows` removes them."""
    last = (side + 2 * pad - kernel) // stride * stride
    before, after = min(max(0, pad - last), pad), min(max(0, kernel - side - pad), pad)
    return kernel - before - after, pad - before


@lru_cache(maxsize=1 << 16)
def macs_of(step: Step) -> int:
    """Return the multiply-accumulates of an op; taps on padding do not count."""
    if SPECS[step.kind].weights is None:
        return 0
    inside = all_taps_inside(step.side, step.side_out, kernel=step.kernel, stride=step.stride, before=step.pad)
    return inside * inside * step.c_out * (1 if step.kind == "depthwise_conv_2d" else step.c_in)


@lru_cache(maxsize=1 << 16)
def distance_of(step: Step) -> int:
    """Return the overlap distance of an op that runs unfused, in bytes."""
    if SPECS[step.kind].weights is None:
        return 0
    taps, dense = (step.kernel,) * 2, step.kind == "fully_connected"
    filters = (1, *taps, step.c_out) if step.kind == "depthwise_conv_2d" else (step.c_out, *taps, step.c_in)
    shapes = {
        "x": (1, step.c_in) if dense else (1, step.side, step.side, step.c_in),
        "w": (step.c_out, step.c_in) if dense else filters,
        "y": (1, step.c_out) if dense else (1, step.side_out, step.side_out, step.c_out),
    }
    attrs = {"stride": (step.stride,) * 2, "dilation": (1, 1), "padding": ((step.pad, step.pad),) * 2}
    op = Op("op", step.kind, ("x", "w"), ("y",), attrs)
    graph = Graph("step", {name: Tensor(name, shape, "int8") for name, shape in shapes.items()}, (op,), ("x",), ("y",))
    return overlap_distances(graph, op, f"tw_{step.kind}_s8")[0]  # the portable kernel


@lru_cache(maxsize=1 << 16)
def numbers_of(steps: tuple[Step, ...]) -> Numbers:
    """Return the steps as an int64 array [step, field], in which the fields are those of `chain_step` in chain.c."""
    rows = []
    for step in steps:
        in_place = distance_of(step) == 0 and step.window == Window()
        by_rows = step.makes_map or step.sums > 0
        sizes = step.side, step.c_in, step.side_out, step.c_out, step.kernel, step.stride, step.pad, step.back, step.forth
        rows.append((by_rows, step.sums, *sizes, macs_of(step), distance_of(step), in_place, step.makes_map))
    return np.array(rows, np.int64)


def least_bytes(chain: Sequence[tuple[Step, ...]], *, streamed_inputs: bool, budget: int = 0) -> int | None:
    """Return the peak RAM, in bytes, of the plan with the least RAM; None without a C compiler.

    The `chain` has the steps of each block, a convolution first; all but the network's input and output channels must be
    multiples of 4. At most `budget` MACs are recomputed.
    """
    library = toolchain.library(*SOURCES)
    if library is None:
        return None
    table = np.concatenate([numbers_of(steps) for steps in chain])
    limits = stage_growth.MOST_TILINGS, stage_growth.MOST_TICKS, longest_stage(len(table)), of_graph.LONGEST_TILE
    request = np.array([*limits, budget, streamed_inputs, *of_graph.TILE_ROWS], np.int64)
    library.tw_chain_bytes.restype = ctypes.c_int64
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (request, table))
    peak: int = library.tw_chain_bytes(*pointers, ctypes.c_int64(len(table)))
    if peak < 0:
        raise MemoryError
    return peak


def layer_by_layer(chain: Sequence[tuple[Step, ...]]) -> int:
    """Return the peak RAM in bytes if each op runs unfused and no output overlaps an input; skip connections stay in RAM."""
    table = np.concatenate([numbers_of(steps) for steps in chain])
    side, c_in, side_out, c_out = table[:, 2:6].T
    back, forth = table[:, 9:11].T
    needs = side**2 * c_in + side_out**2 * c_out * (1 + (back > 0))
    for index in np.flatnonzero(forth).tolist():
        needs[index + 1 : index + int(forth[index])] += side[index] ** 2 * c_in[index]
    return int(needs.max())


def macs(chain: Sequence[tuple[Step, ...]]) -> int:
    """Return the multiply-accumulates of all steps of all blocks; taps on padding do not count."""
    return sum(int(numbers_of(steps)[:, MACS].sum()) for steps in chain)
