"""Which stages there can be. In: an order of a graph's ops, as rows. Out: the stages that need less than their steps one by
one, each with the tiles that save most in it, as arrays.

`stages` grows them; stages.c does the same in C.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import toolchain
from ...ops.window import Window
from ..liveness import Life
from ..plan import Tile
from .access import Access, RowGraph, row_bytes
from .stages import (
    MOST_CHOICES,
    MOST_GROWN,
    MOST_TICKS,
    NEVER,
    SHORT,
    StageMemory,
    TileCandidate,
    TileChoice,
    grow_block,
    grow_choices,
    growing,
    stage_memory,
)

Numbers = NDArray[np.int64]
SOURCE = Path(__file__).with_name("stages.c")
FEW = 6  # steps, for which Python is as quick
OUTSIDE = NEVER  # the step at which what leaves the network is read


class Stages(NamedTuple):
    """Possible stages: spans of steps, each with choices of tiles.

    Per span: begin, end, and total, most_shared as in StageMemory; entries [fewer_at[s], fewer_at[s + 1]) of fewer_step and
    fewer_rows say of which steps not all rows are needed, and how many are. Per choice: its span; saved, tile, again (macs) as
    in TileChoice; entries [tiles_at[c], tiles_at[c + 1]) of tiles are its tiles, as numbers of candidates.
    """

    begin: Numbers
    end: Numbers
    total: Numbers
    most_shared: Numbers
    fewer_at: Numbers
    fewer_step: Numbers
    fewer_rows: Numbers
    span: Numbers
    saved: Numbers
    tile: Numbers
    again: Numbers
    tiles_at: Numbers
    tiles: Numbers

    def fewer(self, span: int) -> dict[int, int]:
        """Return step -> rows that are needed, where these are not all."""
        entries = slice(int(self.fewer_at[span]), int(self.fewer_at[span + 1]))
        return dict(zip(self.fewer_step[entries].tolist(), self.fewer_rows[entries].tolist(), strict=True))

    def tiles_of(self, choice: int) -> list[int]:
        """Return the candidates that are the tiles of a choice."""
        tiles: list[int] = self.tiles[int(self.tiles_at[choice]) : int(self.tiles_at[choice + 1])].tolist()
        return tiles


class Question(NamedTuple):
    """What `possible_stages` is asked.

    alone: per step the bytes that it needs by itself; NEVER where it takes what comes by rows. candidates: per step the tiles
    that end with it. floor: bytes that every path needs, so that a stage that needs no more has no tiles but for those that
    leave out rows that nothing needs. blocks: each stage is one op or one tile.
    """

    row_graph: RowGraph
    order: Sequence[int]
    lives: Mapping[str, Life]
    alone: Sequence[int]
    candidates: Sequence[Sequence[TileCandidate]]
    floor: int
    blocks: bool = False

    @property
    def longest(self) -> int:
        return longest_stage(len(self.order))


def longest_stage(steps: int) -> int:
    """Return how many ops a stage may have in an order of so many."""
    return steps if steps * steps <= 2 * MOST_GROWN else max(SHORT, MOST_GROWN // steps)


def possible_stages(question: Question) -> Stages:
    """Return the stages that need less than the most of their steps does by itself, as far as is known before their output is
    laid over what dies."""
    found = stages_in_c(question) if len(question.order) > FEW else None
    return stages_in_python(question) if found is None else found


def stages_in_python(question: Question) -> Stages:
    """Do what `possible_stages` says; the C does the same."""
    row_graph, order, lives, alone, candidates, floor, blocks = question
    spans, reached = list[Span](), [True] + [False] * len(order)
    for begin in range(len(order)):
        if not reached[begin]:
            continue  # what comes by rows is taken by no stage up to here
        fronts, below = [[TileChoice(0, 0, 0)]], alone[begin]
        reached[begin + 1] |= alone[begin] < NEVER
        for end, is_stage, maps in growing(row_graph, order[: begin + question.longest], begin):
            below = max(below, alone[end - 1])
            if blocks:
                fronts.append(grow_block(row_graph, candidates[end - 1], maps, begin, is_op=end == begin + 1))
            else:
                fronts.append(grow_choices(row_graph, fronts, candidates[end - 1], maps, begin, choices=MOST_CHOICES))
            if not is_stage or (end == begin + 1 and alone[begin] < NEVER):
                continue
            memory = stage_memory(row_graph, order, lives, maps, (begin, end))
            if memory is None:
                continue
            least = memory.total - memory.most_shared
            chosen = [
                choice
                for choice in fronts[-1]
                if least - choice.saved + choice.tile < below
                and not (choice.tiles and choice.macs >= 0 and memory.total <= floor)
            ]
            if chosen:
                reached[end] = True
                spans.append(Span(begin, end, memory, chosen))
    return as_arrays(spans, order, [each.tile for ending in candidates for each in ending])


class Span(NamedTuple):
    """Steps that can be a stage, with choices of tiles."""

    begin: int
    end: int
    memory: StageMemory
    choices: Sequence[TileChoice]


def as_arrays(spans: Sequence[Span], order: Sequence[int], tiles: Sequence[Tile]) -> Stages:
    """Return these stages; `tiles` are numbered as they lie."""
    step_of, number = {index: step for step, index in enumerate(order)}, {tile: k for k, tile in enumerate(tiles)}
    fewer = [(step_of[index], rows) for span in spans for index, rows in span.memory.fewer.items()]
    choices = [choice for span in spans for choice in span.choices]
    columns: Sequence[Iterable[int]] = (
        [span.begin for span in spans],
        [span.end for span in spans],
        [span.memory.total for span in spans],
        [span.memory.most_shared for span in spans],
        [0, *accumulate(len(span.memory.fewer) for span in spans)],
        [step for step, _ in fewer],
        [rows for _, rows in fewer],
        [k for k, span in enumerate(spans) for _ in span.choices],
        [choice.saved for choice in choices],
        [choice.tile for choice in choices],
        [choice.macs for choice in choices],
        [0, *accumulate(len(choice.tiles) for choice in choices)],
        [number[tile] for choice in choices for tile in choice.tiles],
    )
    return Stages(*(np.array(column, np.int64) for column in columns))


class _List(ctypes.Structure):
    _fields_ = (("at", ctypes.POINTER(ctypes.c_int64)), ("count", ctypes.c_int64), ("room", ctypes.c_int64))


class _Stages(ctypes.Structure):
    _fields_ = (*((name, _List) for name in Stages._fields), ("failed", ctypes.c_int64))


def stages_in_c(question: Question) -> Stages | None:
    """Return the same from stages.c; None where nothing can build it."""
    library = toolchain.library(SOURCE)
    if library is None:
        return None
    out = _Stages()
    if not library.tw_stages(ctypes.byref(_tables(question)), ctypes.byref(out)):
        library.tw_free_stages(ctypes.byref(out))
        raise MemoryError
    columns = (getattr(out, name) for name in Stages._fields)
    empty = np.zeros(0, np.int64)
    stages = Stages(*(np.ctypeslib.as_array(x.at, (x.count,)).copy() if x.count else empty for x in columns))
    library.tw_free_stages(ctypes.byref(out))
    return stages


NUMBERS = ("steps", "tensors", "longest", "choices", "floor", "blocks", "most_ticks")
READS = ("tensor", *Window._fields)
ARRAYS = (
    *("height", "row_bytes", "bytes", "first_user", "last_user", "is_streamed", "is_handed_out"),
    *("life_begin", "life_end", "is_kept"),
    *("out", "sums", "rows", "alone", "is_by_rows", "read_at", *(f"read_{name}" for name in READS)),
    *("candidate_at", "candidate_begin", "candidate_rows", "candidate_bytes", "candidate_macs"),
    *("candidate_read_at", *(f"candidate_read_{name}" for name in READS)),
)


class _Tables(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in NUMBERS),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


def _tables(question: Question) -> _Tables:
    """Return the question as tables of numbers: tensors and steps are counted from 0."""
    row_graph, order, lives, alone, candidates, floor, blocks = question
    graph, step_of = row_graph.graph, {index: step for step, index in enumerate(order)}
    number = {name: k for k, name in enumerate(graph.tensors)}
    users = [[step_of.get(index, OUTSIDE) for index in row_graph.users[name]] for name in number]
    spans = [lives.get(name, Life(0, 0, False)) for name in number]
    maps = [tensor if name in row_graph.height else None for name, tensor in graph.tensors.items()]
    reads = [row_graph.accesses[index] for index in order]
    tiles = [candidate for ending in candidates for candidate in ending]
    tables: dict[str, Iterable[int]] = {
        "height": [1 if each is None else each.shape[1] for each in maps],
        "row_bytes": [0 if each is None else row_bytes(each) for each in maps],
        "bytes": [tensor.bytes for tensor in graph.tensors.values()],
        "first_user": [min(of, default=OUTSIDE) for of in users],
        "last_user": [max(of, default=-1) for of in users],
        "is_streamed": [name in row_graph.streamed_inputs for name in number],
        "is_handed_out": [name in row_graph.streamed_outputs for name in number],
        "life_begin": [life.begin for life in spans],
        "life_end": [life.end for life in spans],
        "is_kept": [life.persistent for life in spans],
        "out": [number[graph.ops[index].outputs[0]] for index in order],
        "sums": [row_graph.sums[index] for index in order],
        "rows": [row_graph.steps[index] for index in order],
        "alone": alone,
        "is_by_rows": [each is not None for each in reads],
        **_reads("read", [each or () for each in reads], number),
        "candidate_at": [0, *accumulate(map(len, candidates))],
        "candidate_begin": [each.begin for each in tiles],
        "candidate_rows": [each.tile.rows for each in tiles],
        "candidate_bytes": [each.bytes for each in tiles],
        "candidate_macs": [each.macs for each in tiles],
        **_reads("candidate_read", [each.reads for each in tiles], number),
    }
    arrays = {name: np.array(table, np.int64) for name, table in tables.items()}
    numbers = (len(order), len(number), question.longest, MOST_CHOICES, floor, blocks, MOST_TICKS)
    made = _Tables(*numbers, *(arrays[name].ctypes.data for name in ARRAYS))
    made.arrays = arrays  # they stay as long as the tables do
    return made


def _reads(name: str, reads: Sequence[Sequence[Access]], number: Mapping[str, int]) -> dict[str, list[int]]:
    flat = [(number[read.tensor], *read.window) for each in reads for read in each]
    columns = {f"{name}_{column}": [row[k] for row in flat] for k, column in enumerate(READS)}
    return {f"{name}_at": [0, *accumulate(map(len, reads))], **columns}
