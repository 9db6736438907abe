"""The planning problem as integers: the ops in order, their tensors, which rows they read, and the tiles that stages may have.

Ops and tensors are numbered from 0. Step i runs op i, so "step" and "op" mean the same number. A `Problem` needs neither the
model nor its weights: report a fault of the planner with `Problem.to_json`, reproduce it with `Problem.from_json` and
`grow_stages` of stages.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from ...ir import CompileError
from ...ops.window import Window
from ..fuse.row_access import Access, RowGraph, row_bytes
from ..liveness import Life

NEVER = 1 << 60
"""Infinity: a number of bytes, cycles or steps that no network reaches."""
FORMAT = 1  # of `Problem.to_json`


RowRead = tuple[int, Window]
"""An input of an op or a tile: the number of its tensor, and the window of its rows that each output row reads."""


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


class ProblemOp(NamedTuple):
    """An op of a `Problem`, with one output: which rows it reads, and its RAM if it runs unfused."""

    name: str
    output: int  # the number of its tensor
    rows: int  # output rows; for row-wise accumulation (as of a mean), input rows
    accumulator_bytes: int  # 0 without row-wise accumulation
    unfused_bytes: int  # RAM of its step if it runs unfused; NEVER if it cannot
    reads: tuple[RowRead, ...] | None  # None if it cannot be fused


class TileCandidate(NamedTuple):
    """Consecutive ops that may run together as a tile, a few rows of the last op's output at a time."""

    first: int  # step of its first op
    rows: int  # of the last op's output per iteration
    bytes: int  # of the tile's buffer
    recomputed_macs: int  # multiply-accumulates beyond computing each row once
    reads: tuple[RowRead, ...]  # of tensors from outside the tile, per iteration


@dataclass(frozen=True)
class Problem:
    """The input of the search for fused stages and tiles that save RAM: one order of a network's ops, as integers.

    Attributes:
        tensors: the activations, by number.
        ops: the ops, by step.
        tiles: for each op, the tile candidates that end with it.
        arena_floor: lower bound in bytes on the arena of every plan. A stage that needs no more gets no tiles, except tiles
            that leave out unread rows.
        one_tile_per_stage: whether each fused stage is a single tile, as the strategy `msf` demands.
    """

    tensors: tuple[ProblemTensor, ...]
    ops: tuple[ProblemOp, ...]
    tiles: tuple[tuple[TileCandidate, ...], ...]
    arena_floor: int
    one_tile_per_stage: bool = False

    @cached_property
    def tile_at(self) -> list[int]:
        """Return, for each op, the number of the first tile candidate that ends with it; last, the number of all candidates.

        Candidates are numbered through all of `tiles`.
        """
        return [0, *accumulate(map(len, self.tiles))]

    def to_json(self) -> str:
        """Return the problem as JSON text."""
        record = {
            "format": FORMAT,
            "arena_floor": self.arena_floor,
            "one_tile_per_stage": self.one_tile_per_stage,
            "tensors": [tensor._asdict() for tensor in self.tensors],
            "ops": [op._asdict() for op in self.ops],
            "tiles": [[tile._asdict() for tile in ending] for ending in self.tiles],
        }
        return json.dumps(record, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """Return the problem that `to_json` saved; raise CompileError for other text."""
        try:
            record = json.loads(text)
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']}, expected {FORMAT}")
            return cls(
                tuple(ProblemTensor(**tensor) for tensor in record["tensors"]),
                tuple(ProblemOp(**{**op, "reads": _reads(op["reads"])}) for op in record["ops"]),
                tuple(
                    tuple(TileCandidate(**{**tile, "reads": _reads(tile["reads"]) or ()}) for tile in ending)
                    for ending in record["tiles"]
                ),
                record["arena_floor"],
                record["one_tile_per_stage"],
            )
        except (ValueError, TypeError, KeyError) as error:
            raise CompileError(f"not a saved planning problem: {error}", "save one with Problem.to_json") from error


def _reads(saved: Sequence[Any] | None) -> tuple[RowRead, ...] | None:
    return None if saved is None else tuple((tensor, Window(*window)) for tensor, window in saved)


def tensor_numbers(row_graph: RowGraph) -> dict[str, int]:
    """Return a mapping from the name of each activation to its number in a `Problem`."""
    names = (name for name, tensor in row_graph.graph.tensors.items() if tensor.data is None)
    return {name: number for number, name in enumerate(names)}


def numbered(reads: Sequence[Access], numbers: Mapping[str, int]) -> tuple[RowRead, ...]:
    """Return row accesses as (number of the tensor, window of rows), for a `Problem`; `numbers` is tensor name -> number."""
    return tuple((numbers[read.tensor], read.window) for read in reads)


def problem_of(
    row_graph: RowGraph,
    order: Sequence[int],
    lives: Mapping[str, Life],
    unfused_bytes: Sequence[int],
    tiles: Sequence[Sequence[TileCandidate]],
    *,
    arena_floor: int = -1,
    one_tile_per_stage: bool = False,
) -> Problem:
    """Return the problem of a graph whose ops run in `order`.

    Args:
        row_graph: the network, with the rows that each op reads.
        order: indices of the ops.
        lives: tensor -> steps in which it is alive; views are absent.
        unfused_bytes: RAM of each step if its op runs unfused; NEVER if it cannot.
        tiles: for each step, the tile candidates that end with it.
        arena_floor: lower bound in bytes on the arena of every plan; stages that need no more get no tiles that recompute.
        one_tile_per_stage: whether each fused stage is a single tile, as the strategy `msf` demands.
    """
    graph, numbers = row_graph.graph, tensor_numbers(row_graph)
    step_of = {index: step for step, index in enumerate(order)}
    tensors, ops = list[ProblemTensor](), list[ProblemOp]()
    for name in numbers:
        tensor, life = graph.tensors[name], lives.get(name, Life(0, 0, False))
        readers, is_map = [step_of.get(index, NEVER) for index in row_graph.readers[name]], name in row_graph.height
        tensors.append(
            ProblemTensor(
                name,
                tensor.bytes,
                tensor.shape[1] if is_map else 1,
                row_bytes(tensor) if is_map else 0,
                life.begin,
                life.end,
                life.persistent,
                min(readers, default=NEVER),
                max(readers, default=-1),
                name in row_graph.streamed_inputs,
                name in row_graph.streamed_outputs,
            )
        )
    for index, alone in zip(order, unfused_bytes, strict=True):
        op, reads = graph.ops[index], row_graph.accesses[index]
        by_rows = None if reads is None else numbered(reads, numbers)
        ops.append(
            ProblemOp(
                op.name, numbers[op.outputs[0]], row_graph.rows[index], row_graph.accumulator_bytes[index], alone, by_rows
            )
        )
    return Problem(tuple(tensors), tuple(ops), tuple(map(tuple, tiles)), arena_floor, one_tile_per_stage)
