"""The planning problem as integers: one order of the ops, their tensors and kernels, the rows they read, and possible tiles.

Ops and tensors are numbered from 0. Step i runs op i, so "step" and "op" mean the same number. A `Problem` needs neither the
model nor its weights: report a fault of the planner with `Problem.to_json`, reproduce it with `Problem.from_json` and `solve`
of pareto.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from ...ir import CompileError
from ...ops.window import Window

NEVER = 1 << 60
"""Infinity: a number of bytes, cycles or steps that no network reaches."""
FORMAT = 2  # of `Problem.to_json`
NUMBERS = ("arena_floor", "one_tile_per_stage", "budget", "has_cycles")


RowRead = tuple[int, Window]
"""An input of an op or a tile: the number of its tensor, and the window of its rows that each output row reads."""
Cycles = tuple[int, ...]
"""Cycles of an op, for each of its kernels that run by rows."""


class ProblemTensor(NamedTuple):
    """An activation tensor of a `Problem`. It is alive in the steps [born, dies)."""

    name: str
    bytes: int
    rows: int  # 1 if it is not a feature map
    row_bytes: int  # 0 if it is not a feature map
    born: int  # -1 if it exists before the first step
    dies: int  # 0 if it is a view of another tensor and owns no bytes
    is_persistent: bool  # whether it stays alive after the last step
    first_reader: int  # step; NEVER if no op reads it
    last_reader: int  # step; NEVER for a network output, -1 if nothing reads it
    is_streamed_input: bool
    is_streamed_output: bool
    cols: int  # 1 if it is not a feature map
    owner: int  # the number of the tensor that owns its memory; -1 if it needs none


class Kernel(NamedTuple):
    """A kernel that an op may use; sizes are in bytes. Cycles are 0 if they are unknown."""

    name: str  # "" for an op without code
    scratch: int
    constants: int  # in Flash
    code: int  # in Flash; kernels of several ops share it
    unfused_bytes: int  # RAM of the op's step if it runs unfused; NEVER if it must be fused
    cycles: int = 0  # if it runs unfused
    is_by_rows: bool = False  # whether it can be fused
    row_cycles: int = 0  # of a row if it is fused, outside tiles; for row-wise accumulation, of all rows


class ProblemOp(NamedTuple):
    """An op of a `Problem`, with one output: which rows it reads, and its kernels, the portable one first."""

    name: str
    op_index: int  # in the network
    output: int  # the number of its tensor
    rows: int  # output rows; for row-wise accumulation (as of a mean), input rows
    accumulator_bytes: int  # 0 without row-wise accumulation
    reads: tuple[RowRead, ...] | None  # None if it cannot be fused
    in_place: tuple[int, ...]  # tensors whose bytes it reads before it writes the byte at the same offset
    kernels: tuple[Kernel, ...]

    @property
    def unfused_bytes(self) -> int:
        """Return the RAM of its step if it runs unfused; NEVER if it cannot."""
        return min((kernel.unfused_bytes for kernel in self.kernels), default=NEVER)


class TileCandidate(NamedTuple):
    """Consecutive ops that may run together as a tile, a few rows of the last op's output at a time."""

    first: int  # step of its first op
    rows: int  # of the last op's output per iteration
    bytes: int  # of the tile's buffer
    recomputed_macs: int  # multiply-accumulates beyond computing each row once
    reads: tuple[RowRead, ...]  # of tensors from outside the tile, per iteration
    cols: int = 1  # of the last op's output at a time, at least
    is_cached: bool = True  # whether it keeps columns of inner tensors for the next columns of the output


TileCost = tuple[int, tuple[Cycles, ...]]
"""The bytes of a tile's buffer, and the cycles of each of its ops, for one width of the tile."""
CostKey = tuple[int, int, int]
"""The number of a tile candidate, its columns, and the output rows that it computes in all; -1 for all rows."""


@dataclass(frozen=True)
class Problem:
    """The input of the search for the fastest split of one order of the ops into unfused ops and fused stages, as integers."""

    tensors: tuple[ProblemTensor, ...]
    ops: tuple[ProblemOp, ...]
    tiles: tuple[tuple[TileCandidate, ...], ...]  # for each op, the tile candidates that end with it
    # lower bound in bytes on the arena of every plan. A stage that needs no more gets no tiles, except tiles that leave out
    # unread rows
    arena_floor: int
    one_tile_per_stage: bool  # whether each fused stage is a single tile, as the strategy `msf` demands
    budget: int  # multiply-accumulates that a solution may recompute
    has_cycles: bool  # whether the cycles of kernels are known; if not, all count as 0
    # of the only stages allowed, the step after the last of each; their tiles keep their width. None for any
    partition: tuple[int, ...] | None
    costs: dict[CostKey, TileCost]  # of tile candidates that the search may use, known so far
    # computes other costs from the graph; None if the problem was loaded, and so has all costs
    cost_of: Callable[[CostKey], TileCost] | None = field(default=None, compare=False, repr=False)

    def cost(self, number: int, cols: int, rows: int) -> TileCost:
        """Return the cost of a tile candidate for a number of columns, and of output rows to compute in all (-1 for all).

        If the cycles of kernels are unknown, it has none.
        """
        key = number, cols, rows
        if not self.has_cycles:
            return self.all_tiles[number].bytes, ()
        if key not in self.costs:
            if self.cost_of is None:
                raise CompileError(f"the saved problem lacks the cost of tile {number}", "save it again with Problem.to_json")
            self.costs[key] = self.cost_of(key)
        return self.costs[key]

    @cached_property
    def all_tiles(self) -> list[TileCandidate]:
        """Return the tile candidates of all ops in one list, in which each has its number."""
        return [tile for ending in self.tiles for tile in ending]

    @cached_property
    def tile_at(self) -> list[int]:
        """Return, for each op, the number of the first tile candidate that ends with it; last, the number of all candidates.

        Candidates are numbered through all of `tiles`.
        """
        return [0, *accumulate(map(len, self.tiles))]

    def to_json(self) -> str:
        """Return the fields as JSON lists; the costs of all tiles are there once a PathSearch of the problem was created."""
        fields = self.tensors, self.ops, self.tiles, *(getattr(self, name) for name in NUMBERS), self.partition
        return json.dumps([FORMAT, *fields, [[*key, *cost] for key, cost in self.costs.items()]])

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """Return the problem that `to_json` saved; raise CompileError for other text."""
        try:
            version, tensors, ops, tiles, floor, one_tile, budget, has_cycles, partition, costs = json.loads(text)
            if version != FORMAT:
                raise ValueError(f"format {version}, expected {FORMAT}")
            operations = ([*op[:5], None if op[5] is None else _reads(op[5]), tuple(op[6])] for op in ops)
            menus = (tuple(Kernel(*kernel) for kernel in op[7]) for op in ops)
            problem = cls(
                tuple(ProblemTensor(*tensor) for tensor in tensors),
                tuple(ProblemOp(*[*op, kernels]) for op, kernels in zip(operations, menus, strict=True)),
                tuple(tuple(TileCandidate(*[*tile[:4], _reads(tile[4]), *tile[5:]]) for tile in of) for of in tiles),
                *(floor, one_tile, budget, has_cycles),
                None if partition is None else tuple(partition),
                {(tile, cols, rows): (size, tuple(map(tuple, cycles))) for tile, cols, rows, size, cycles in costs},
            )
            _check(problem)
        except (ValueError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise CompileError(f"not a saved planning problem: {error}", "save one with Problem.to_json") from error
        return problem


def _reads(saved: Sequence[Any]) -> tuple[RowRead, ...]:
    return tuple((tensor, Window(*window)) for tensor, window in saved)


def _check(problem: Problem) -> None:
    """Raise ValueError if a number of a saved problem is out of range: the search in C would read beyond its arrays."""
    tensors, ops, candidates = range(len(problem.tensors)), range(len(problem.ops)), range(problem.tile_at[-1])
    tiles = [(step, tile) for step, ending in enumerate(problem.tiles) for tile in ending]
    reads = [*(read for op in problem.ops for read in op.reads or ()), *(read for _, tile in tiles for read in tile.reads)]
    named = [*(tensor[1:] for tensor in problem.tensors), *((*op[1:5], *op.in_place) for op in problem.ops)]
    kernels = [row[1:] for op in problem.ops for row in op.kernels]
    fields = named, kernels, reads, tiles, list(problem.costs.items()), [problem.budget, problem.arena_floor]
    if any(not isinstance(number, int) or abs(number) > NEVER for number in _numbers(fields)):
        raise ValueError(f"a number is no integer from -{NEVER} to {NEVER}")
    rules = {
        "a list of tiles is missing": len(problem.tiles) == len(problem.ops),
        "a tensor is unknown": all(tensor in tensors for tensor, _ in reads)
        and all(op.output in tensors for op in problem.ops)
        and all(tensor.owner in (-1, *tensors) for tensor in problem.tensors),
        "a window has no size": all(window.up > 0 and window.stride >= 0 for _, window in reads),
        "a kernel needs less than nothing": all(number >= 0 for kernel in kernels for number in kernel),
        "a tile has no size": all(0 <= tile.first <= step and min(tile.rows, tile.cols) > 0 for step, tile in tiles),
        "a tile is unknown": all(number in candidates for number, _, _ in problem.costs),
        "a stage has no op": all(end - 1 in ops for end in problem.partition or ()),
    }
    if broken := [rule for rule, holds in rules.items() if not holds]:
        raise ValueError(broken[0])


def _numbers(value: Any) -> Iterator[Any]:
    """Yield all entries of nested lists and tuples."""
    for each in value:
        yield from _numbers(each) if isinstance(each, (list, tuple)) else [each]
