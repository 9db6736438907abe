"""The fused stages of a planning problem as columns, computed by stage_growth.c, or by stage_growth.py without a C compiler.

A network has thousands of stages with up to 32 tilings (choices of tiles) each. As columns, NumPy compares all of them in few
calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ops.window import Window
from ...support import toolchain
from . import stage_growth
from .problem import Problem, ProblemTensor, RowRead
from .stage_growth import FusedStage, grow_stages_in_python, longest_stage

# The stages of the first small problems of a process grow in Python, since a compiler takes 0.75 s to build the C if it is not
# cached. The limit is of (ops that can be fused) * (these ops + tile candidates), in sum; each unit takes at most 35 us.
MOST_IN_PYTHON = 8_000
_grown_in_python = [0]
SOURCE = Path(__file__).with_name("stage_growth.c")

Numbers = NDArray[np.int64]


class Stages(NamedTuple):
    """Fused stages and their tilings (choices of tiles) as columns, that is as one array per field.

    - begin, end, bytes, most_overlap: an entry per stage, as in FusedStage.
    - fewer_at, fewer_step, fewer_rows: the `fewer_rows` of stage s are the entries [fewer_at[s], fewer_at[s + 1]) of fewer_step
      and fewer_rows.
    - stage, saved, tile_bytes, recomputed_macs: an entry per tiling: the number of its stage, then as in Tiling.
    - tiles_at, tiles: the tiles of tiling t are the entries [tiles_at[t], tiles_at[t + 1]) of tiles.
    """

    begin: Numbers
    end: Numbers
    bytes: Numbers
    most_overlap: Numbers
    fewer_at: Numbers
    fewer_step: Numbers
    fewer_rows: Numbers
    stage: Numbers
    saved: Numbers
    tile_bytes: Numbers
    recomputed_macs: Numbers
    tiles_at: Numbers
    tiles: Numbers

    def fewer(self, stage: int) -> dict[int, int]:
        """Return the `fewer_rows` of a stage: step -> rows to compute, for ops whose output is read only in part."""
        entries = slice(int(self.fewer_at[stage]), int(self.fewer_at[stage + 1]))
        return dict(zip(self.fewer_step[entries].tolist(), self.fewer_rows[entries].tolist(), strict=True))

    def tiles_of(self, tiling: int) -> list[int]:
        """Return the numbers of the tile candidates that a tiling (a choice of tiles, given by its number) uses."""
        tiles: list[int] = self.tiles[int(self.tiles_at[tiling]) : int(self.tiles_at[tiling + 1])].tolist()
        return tiles


def grow_stages(problem: Problem) -> Stages:
    """Return the fused stages of a problem that may need less RAM than the largest of their ops does unfused."""
    fused = sum(op.reads is not None for op in problem.ops)
    work = fused * (fused + problem.tile_at[-1])
    stages = grow_stages_in_c(problem) if _grown_in_python[0] + work > MOST_IN_PYTHON else None
    if stages is None:
        _grown_in_python[0] += work
        stages = as_columns(grow_stages_in_python(problem))
    return stages


def as_columns(stages: Sequence[FusedStage]) -> Stages:
    """Convert stages and their tilings to one array per field, the form in which stage_growth.c returns them."""
    fewer = [item for stage in stages for item in stage.fewer_rows.items()]
    tilings = [tiling for stage in stages for tiling in stage.tilings]
    columns: Sequence[Iterable[int]] = (
        [stage.begin for stage in stages],
        [stage.end for stage in stages],
        [stage.bytes for stage in stages],
        [stage.most_overlap for stage in stages],
        [0, *accumulate(len(stage.fewer_rows) for stage in stages)],
        [step for step, _ in fewer],
        [rows for _, rows in fewer],
        [number for number, stage in enumerate(stages) for _ in stage.tilings],
        [tiling.saved for tiling in tilings],
        [tiling.tile_bytes for tiling in tilings],
        [tiling.recomputed_macs for tiling in tilings],
        [0, *accumulate(len(tiling.tiles) for tiling in tilings)],
        [number for tiling in tilings for number in tiling.tiles],
    )
    return Stages(*(np.array(column, np.int64) for column in columns))


class _Vector(ctypes.Structure):
    """The struct `vector` of stage_growth.h, for ctypes: a growing array of `count` integers, with space for `room`."""

    _fields_ = (("at", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64), ("room", ctypes.c_int64))


NUMBERS = ("op_count", "tensor_count", "longest_stage", "most_tilings", "most_ticks", "arena_floor", "one_tile_per_stage")
READ_COLUMNS = ("at", "tensor", *Window._fields)
OF_TENSORS = ProblemTensor._fields[1:11]
OF_OPS = ("output", "rows", "accumulator_bytes", "unfused_bytes")
OF_TILES = ("first", "rows", "bytes", "recomputed_macs")
COLUMNS = (
    *(f"tensor_{name}" for name in OF_TENSORS),
    *(f"op_{name}" for name in OF_OPS),
    "op_is_by_rows",
    *(f"op_reads_{name}" for name in READ_COLUMNS),
    "tile_at",
    *(f"tile_{name}" for name in OF_TILES),
    *(f"tile_reads_{name}" for name in READ_COLUMNS),
)


class _Problem(ctypes.Structure):
    """The struct `problem` of stage_growth.h, for ctypes: a `Problem` as NUMBERS and one array per field (COLUMNS)."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in COLUMNS))


def grow_stages_in_c(problem: Problem) -> Stages | None:
    """Return the fused stages of a problem, computed by stage_growth.c; None if no C compiler is found."""
    library = toolchain.library(SOURCE)
    if library is None:
        return None
    out = (_Vector * (len(Stages._fields) + 1))()  # struct `stage_columns`: a vector per field, then room for `failed`
    if not library.tw_grow_stages(ctypes.byref(_in_c(problem)), ctypes.byref(out)):
        library.tw_free_stages(ctypes.byref(out))
        raise MemoryError
    empty = np.zeros(0, np.int64)
    stages = Stages(*(np.ctypeslib.as_array(x.at, (x.count,)).copy() if x.count else empty for x in out[:-1]))
    library.tw_free_stages(ctypes.byref(out))
    return stages


def _in_c(problem: Problem) -> _Problem:
    """Return the problem as a struct for stage_growth.c, with an array per field of tensors, ops and tiles."""
    tiles = problem.all_tiles
    lists: list[Iterable[int]] = [
        *([getattr(tensor, name) for tensor in problem.tensors] for name in OF_TENSORS),
        *([getattr(op, name) for op in problem.ops] for name in OF_OPS),
        [op.reads is not None for op in problem.ops],
        *_read_columns([op.reads or () for op in problem.ops]),
        problem.tile_at,
        *([getattr(tile, name) for tile in tiles] for name in OF_TILES),
        *_read_columns([tile.reads for tile in tiles]),
    ]
    columns = [np.array(column, np.int64) for column in lists]
    numbers = (len(problem.ops), len(problem.tensors), longest_stage(len(problem.ops)), stage_growth.MOST_TILINGS)
    limits = (stage_growth.MOST_TICKS, problem.arena_floor, problem.one_tile_per_stage)
    in_c = _Problem(*numbers, *limits, *(column.ctypes.data for column in columns))
    in_c.columns = columns  # the arrays live as long as the struct
    return in_c


def _read_columns(reads: Sequence[Sequence[RowRead]]) -> list[list[int]]:
    """Flatten the reads of each op (or tile) into READ_COLUMNS: op i has the entries [at[i], at[i + 1]) of the others."""
    flat = [(x, *window) for each in reads for x, window in each]
    return [[0, *accumulate(map(len, reads))], *([row[k] for row in flat] for k in range(len(READ_COLUMNS) - 1))]
