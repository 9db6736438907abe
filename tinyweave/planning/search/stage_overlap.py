"""Bytes of a fused stage's output that may reuse the memory of tensors whose last use is in the stage."""

from __future__ import annotations

from collections.abc import Mapping

from ..alias.overlap import shared_bytes
from ..fuse.row_schedule import StageRows, distances_to, output_bytes, row_timings
from .problem import Problem, TileCandidate
from .stage_growth import is_internal


def overlap_in_stage(problem: Problem, begin: int, end: int, tiles: Mapping[int, TileCandidate]) -> int:
    """Return how many bytes of the output of a stage may reuse the memory of tensors whose last use is in the stage."""
    tensors, last = problem.tensors, problem.ops[end - 1]
    dying = {
        number: tensor.bytes
        for number, tensor in enumerate(tensors)
        if tensor.born < begin < tensor.dies <= end and not tensor.is_persistent and not tensor.is_streamed_input
    }
    if not dying or tensors[last.output].owner != last.output:  # an output inside state overlaps nothing else
        return 0
    stage = _stage_rows(problem, begin, end, tiles)
    timings = row_timings(stage)
    if timings is None:
        return 0
    by_name = {tensor.name: number for number, tensor in enumerate(tensors)}
    outside = {by_name[x] for reads in stage.reads.values() for x, _ in reads}
    outside -= {op.output for op in problem.ops[begin:end]}
    in_place = last.in_place if end - 1 not in tiles else ()
    operands = {
        tensor.name: (tensors[tensor.owner].name, tensor.rows, tensor.row_bytes, number in in_place)
        for number, tensor in ((number, tensors[number]) for number in outside)
        if tensor.owner in dying and not tensor.is_streamed_input
    }
    below = distances_to(stage, timings, operands).items()
    return shared_bytes(output_bytes(stage, timings[end - 1]), [(distance, dying[by_name[x]]) for x, distance in below])


def _stage_rows(problem: Problem, begin: int, end: int, tiles: Mapping[int, TileCandidate]) -> StageRows:
    tensors, ops, last = problem.tensors, problem.ops, problem.ops[end - 1]
    out = tensors[last.output]
    inside = {step for last, tile in tiles.items() for step in range(tile.first, last)}
    numbered = {
        step: tiles[step].reads if step in tiles else ops[step].reads or () for step in range(begin, end) if step not in inside
    }
    streamed = dict.fromkeys(x for reads in numbered.values() for x, _ in reads if tensors[x].is_streamed_input)
    made = {step: ops[step].output for step in numbered}
    inner = {x for x in (*streamed, *made.values()) if is_internal(tensors[x], begin, end) and x != last.output}
    return StageRows(
        {step: [(tensors[x].name, window) for x, window in reads] for step, reads in numbered.items()},
        {step: tensors[x].name for step, x in made.items()},
        {step: tile.rows for step, tile in tiles.items()},
        [tensors[x].name for x in streamed],
        {tensors[x].name for x in inner},
        {tensors[x].name: tensors[x].rows for x in (*streamed, *made.values())},
        last.rows,
        out.bytes,
        out.row_bytes,
        out.is_streamed_output,
        last.accumulator_bytes > 0,
    )
