"""The least arena of a chain of ops on square maps, from its figures alone: for those who ask of many thousands of networks.

In: steps, an op each, with sums over skips among them. Out: the bytes that the busiest step of the best plan at F = 1 needs, as
`plan(graph, "best").lower_bound` of the graph has it, without a graph. What steps need by themselves and the few tiles that end
with each are remembered by their figures. What a stage of `fuse` needs without tiles is a sum over its steps; for what it needs
with them array operations give a bound, of all stages at once, and those on which the best cuts depend are worked out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ops.window import Spans, Window
from ..planning.alias.overlap import shared_bytes
from ..planning.alias.subtensors import ALIGN
from ..planning.fuse import stages as fuse
from ..planning.fuse.access import slid
from ..planning.plan import RowTiming
from .steps import Numbers, Step, facts_of, macs_of, taps_inside

GROUPS = 8  # of sizes of tiles, by which stages are compared before one looks closer


class _TileRun(NamedTuple):
    """The last `steps` of some steps, which may run together; as `fuse` has them.

    bytes: of the tile. saved: of rings; more, more_skip: what of that the rings of its input and of its skip need more where
    they are made in the same stage. odd: it reads other rows than its first step alone would. back: how many steps before its
    end the first one is that reads the skip of an add in it; 0: there is none.
    """

    steps: int
    bytes: int
    saved: int
    more: int
    more_skip: int
    odd: bool
    back: int


def _runs(steps: Sequence[Step], end: int) -> list[_TileRun]:
    """Return the runs that end before the step `end` and compute nothing again; where one cannot, no longer one does."""
    runs = list[_TileRun]()
    for begin in range(end - 2, max(end - fuse.LONGEST_TILE, 0) - 1, -1):
        if (run := _run(tuple(steps[begin:end]))) is None:
            break
        runs.append(run)
    return runs


def _by_row(run: Sequence[Step]) -> list[Spans]:
    """Return per step of a run but the last, the last first, the rows that it computes for each row of the run."""
    rows = np.arange(run[-1].side_out)
    spans, spans_by_step = (rows, rows + 1), list[Spans]()
    for step in reversed(run[1:]):
        spans = step.window.read(spans, step.side)
        spans_by_step.append(spans)
    return spans_by_step


def _columns(run: Sequence[Step]) -> list[int]:
    """Return likewise the most columns of each step's output that are there at a time."""
    begin = np.arange(0, run[-1].side_out, fuse.NARROWEST)
    spans, columns = (begin, np.minimum(begin + fuse.NARROWEST, run[-1].side_out)), list[int]()
    for step in reversed(run[1:]):
        spans, width = slid(step.window.read(spans, step.side))
        columns.append(width)
    return columns


def _recomputed_macs(run: Sequence[Step]) -> int:
    """Return multiply-accumulates that a run computes again."""
    total = 0
    for before, (begin, end) in zip(reversed(run[:-1]), _by_row(run), strict=True):
        upto = np.concatenate(([0], np.cumsum(taps_inside(before))))
        total += macs_of(before) * int((upto[end] - upto[begin]).sum()) // int(upto[-1]) - macs_of(before)
    return total


@lru_cache(maxsize=1 << 18)
def _run(run: tuple[Step, ...]) -> _TileRun | None:
    """Return the run of these steps; None where they cannot run together or would compute something again."""
    if run[-1].sums or run[1].forth or _recomputed_macs(run) > 0:
        return None
    rows = [int((end - begin).max()) for begin, end in _by_row(run)]
    sizes = [h * w * step.c_in for step, h, w in zip(reversed(run[1:]), rows, _columns(run), strict=True)]
    first, add = run[0], next((number for number, step in enumerate(run) if step.back), -1)
    inputs, *skip = _reads(run, 0, len(run) - 1)
    held = first.held if 0 < first.forth < len(run) else first.kernel
    return _TileRun(
        steps=len(run),
        bytes=sum(-(-size // ALIGN) * ALIGN for size in sizes),
        saved=sum(facts_of(step).ring for step in run[1:]),
        more=_grown(held, inputs.window.extent, first.side) * first.side * first.c_in,
        more_skip=sum(
            _grown(run[add].held, run[add].late + x.window.extent, run[add].side) * run[add].side * run[add].c_out for x in skip
        ),
        odd=any(step.kernel > 1 for step in run[1:]),
        back=len(run) - add + run[add].back if add >= 0 else 0,
    )


def _grown(have: int, wanted: int, side: int) -> int:
    """Return by how many rows a ring of a map of `side` rows grows."""
    return min(max(have, wanted), side) - min(have, side)


def least_bytes(steps: Sequence[Step], *, streamed_inputs: bool) -> int:
    """Return the bytes that the busiest step of the best plan needs; streamed_inputs: the network's input comes by rows.

    steps: the first is a convolution; channels are whole numbers of words, but for those of the network's input and output.
    """
    chain = _Chain(steps, streamed_inputs)
    return max(chain.worst(), *chain.step_bytes[chain.count :], 0)


_Tile = tuple[int, _TileRun]
"""The first step of a run, and the run."""


class _Choice(NamedTuple):
    """Tiles of a stage. saved: bytes of rings that they spare. tile: bytes of the largest."""

    saved: int
    tile: int
    tiles: tuple[_Tile, ...]


class _Chain:
    """The stages of a chain, those of its first `count` steps, which run row by row. Arrays are over the first and the last
    step of a stage; where the last comes before the first they hold nothing.

    step_bytes: bytes of each step by itself. runs: by their last step. total: bytes of all that is alive in a stage without
    tiles. apart: how far below what its first step reads its output must begin. odd: whether there may be odd runs in it that
    change what its output shares. low, high: what is known of its bytes with the best of its tiles.
    """

    def __init__(self, steps: Sequence[Step], streamed_inputs: bool) -> None:
        self.steps, self.streamed_inputs = steps, streamed_inputs
        self.facts = [facts_of(step) for step in steps]
        self.count = count = next((index for index, step in enumerate(steps) if not step.is_by_rows), len(steps))
        self.skips = [(index - step.back, index) for index, step in enumerate(steps) if step.back]
        self.step_bytes = self._step_bytes()
        self.runs = [_runs(steps, end) for end in range(1, count + 1)]
        read, written, ring, waits, _ = np.array(self.facts[:count], np.int64).T
        self.total = self._total(read, written, ring)
        self.apart = self._apart(read, written, waits)
        self.odd = self._odd()
        self.high = self.total - self._shared(read, written)
        self.least_total = np.where(self.odd, self.total - np.minimum(self._dying(read), written), self.high)
        single = np.arange(streamed_inputs, count)  # the step that takes the rows of the network's input is a fused stage
        self.high[single, single] = self.step_bytes[streamed_inputs:count]
        self.low = self.least_total - self._most_saved(_least_worst(self.high))
        self.low[single, single] = self.high[single, single]
        self.refined = set[int]()  # first steps

    def _step_bytes(self) -> list[int]:
        step_bytes = []
        for step, fact in zip(self.steps, self.facts, strict=True):
            dying = [] if step.forth else [(fact.distance, fact.read)]
            if step.back:
                dying.append((0, fact.written))
            step_bytes.append(fact.read + fact.written * (1 + bool(step.back)) - shared_bytes(fact.written, dying))
        for first, add in self.skips:
            for index in range(first + 1, add):
                step_bytes[index] += self.facts[first].read
        return step_bytes

    def _total(self, read: Numbers, written: Numbers, ring: Numbers) -> Numbers:
        """Return the bytes of input, rings between, output and sums of a mean; a skip that begins or ends elsewhere is
        whole."""
        rings = ring.cumsum()
        total: Numbers = (read - rings)[:, None] + rings + written
        total[:, -1] += self.steps[self.count - 1].sums
        if self.streamed_inputs:
            total[0] += ring[0] - read[0]
        for first, add in self.skips:
            total[:first, first:add] += read[first] - ring[first]
            total[first + 1 : add + 1] += read[first]
        return total

    def _apart(self, read: Numbers, written: Numbers, waits: Numbers) -> Numbers:
        """Return distances as `_distance` has them without tiles, in whole words; between a few iterations they grow or fall
        evenly."""
        steps = self.steps[: self.count]
        side, out, stride, pad = np.array([(step.side, step.side_out, step.stride, step.pad) for step in steps]).T
        timings = stride.cumprod()  # ticks for a row of each step's output
        ticks = np.append(0, (timings[:-1] * waits[1:]).cumsum())
        every = np.maximum(timings // timings[:, None], 1)
        done = (ticks - ticks[:, None]) // timings[
            :, None
        ] + 1  # rows of the first step that are there with the last one's first
        iterations = np.minimum(
            out - 1, (out[:, None] - 1 - done) // every
        )  # the last one after which the first step reads again
        kink = ((pad // stride)[:, None] - done) // every  # the last one after which all rows are needed
        row, row_out = (read // side)[:, None], written // out
        distance = np.zeros_like(iterations)
        for iteration in (np.zeros_like(iterations), kink, kink + 1, iterations):
            at = np.clip(iteration, 0, iterations)
            oldest = np.maximum((done + at * every) * stride[:, None] - pad[:, None], 0)
            distance = np.maximum(distance, (at + 1) * row_out - oldest * row)
        distance[iterations < 0] = 0
        if steps[-1].sums:  # it writes when all has been read
            distance[:, -1] = 0
        for first, add in self.skips:
            distance[first, add:] = np.maximum(distance[first, add:], distance[add, add:])
        words: Numbers = -(-distance // ALIGN) * ALIGN
        return words

    def _dying(self, read: Numbers) -> Numbers:
        """Return bytes from before each stage that nothing needs after it."""
        dying = np.repeat(read[:, None], self.count, axis=1)
        if self.streamed_inputs:
            dying[0] = 0
        for first, add in self.skips:
            dying[first, first:add] = 0
            dying[first + 1 : add + 1, add:] += read[first]
        return dying

    def _shared(self, read: Numbers, written: Numbers) -> Numbers:
        """Return bytes of each stage's output that lie over these, as `shared_bytes` has it."""
        distance = np.minimum(self.apart, written)
        shared = read[:, None] + written - np.maximum(distance + read[:, None], written)
        if self.streamed_inputs:
            shared[0] = 0
        for first, add in self.skips:
            shared[first, first:add] = 0
            skip, own = distance[add, add:], distance[first + 1 : add + 1, add:]
            size, sizes = read[first], read[first + 1 : add + 1, None]
            below, above = np.maximum(own + sizes, skip) + size, np.maximum(skip + size, own) + sizes
            end = np.maximum(np.where(own <= skip, below, above), written[add:])
            shared[first + 1 : add + 1, add:] = size + sizes + written[add:] - end
        return shared

    def _odd(self) -> NDArray[np.bool_]:
        ends = np.full(self.count, self.count)  # the last step of the first odd run that begins here or later
        for last, runs in reversed(list(enumerate(self.runs))):
            for run in runs:
                if run.odd:
                    ends[: last + 2 - run.steps] = last
        if self.streamed_inputs:  # nothing dies
            ends[0] = self.count
        odd: NDArray[np.bool_] = np.arange(self.count) >= ends[:, None]
        return odd

    def _most_saved(self, byte_limit: int) -> Numbers:
        """Return [first, last] what tiles below `byte_limit` bytes save at most, less the largest of them, in few groups."""
        bytes_ = sorted({run.bytes for runs in self.runs for run in runs if run.bytes < byte_limit})
        each = -(-len(bytes_) // GROUPS) or 1
        group = {size: 1 + at // each for at, size in enumerate(bytes_)}
        smallest = np.array([0, *bytes_[::each]])
        saved = np.zeros((self.count + 1, self.count, len(smallest)), np.int64)  # [end, first, group of the largest]
        bounds = np.zeros((self.count, self.count), np.int64)
        for last, runs in enumerate(self.runs):
            now = saved[last + 1]
            now[:] = saved[last]
            for run in runs:
                if (at := group.get(run.bytes)) is not None:
                    end = last + 2 - run.steps
                    np.maximum(now[:end, at:], saved[end - 1, :end, at:] + run.saved, out=now[:end, at:])
            bounds[:, last] = (now - smallest).max(axis=1)
        return bounds

    def worst(self) -> int:
        """Return what the worst stage of the best cuts needs; look closer at stages that could be among them until they are
        known."""
        while True:
            worst = _least_worst(self.low)
            costs = np.where(self.high <= worst, 0, np.where(self.low <= worst, 1, self.count + 1))
            unsure = [stage for stage in _cheapest(costs) if costs[stage]]
            if not unsure:
                return worst
            for first, last in unsure:
                if first in self.refined:
                    self.low[first, last] = self.high[first, last] = self._exact(first, last)
                else:
                    self._refine(first)
                    self.refined.add(first)

    def _gain(self, run: _TileRun, first: int, last: int) -> int:
        """Return bytes that a run which ends with the step `last` spares in a stage that begins with `first`."""
        reads_inside = first < last + 1 - run.steps or (self.streamed_inputs and first == 0)
        skip_inside = run.back > 0 and first < last + 1 - run.back
        return run.saved - (run.more if reads_inside else 0) - (run.more_skip if skip_inside else 0)

    def _reads_outside(self, run: _TileRun, first: int, last: int) -> bool:
        """Whether a run that ends a stage reads what was there before, so that its tiles need that longer."""
        return first + max(run.steps, run.back) > last and not (self.streamed_inputs and first == 0)

    def _refine(self, first: int) -> None:
        """Set lower bounds of the stages that begin with a step; exact ones where tiles do not change what is shared.

        `fuse` drops tiles that spare no more than others, even if they leave more to be shared: a stage may need more.
        """
        bytes_ = [0, *sorted({run.bytes for runs in self.runs[first:] for run in runs})]
        level, sizes = {size: at for at, size in enumerate(bytes_)}, np.array(bytes_)
        saved = [np.zeros(len(sizes), np.int64)] * (first + 1)  # [end]: what tiles spare, by the size of the largest
        for last in range(first, self.count):
            now, certain = saved[last].copy(), not self.odd[first, last]
            for run in self.runs[last]:
                begin = last + 1 - run.steps
                if begin >= first:
                    at = level[run.bytes]
                    np.maximum(now[at:], saved[begin][at:] + self._gain(run, first, last), out=now[at:])
                    certain = certain and not self._reads_outside(run, first, last)
            saved.append(now)
            if last > first:
                self.low[first, last] = self.least_total[first, last] + (sizes - now).min()
                if certain:
                    self.high[first, last] = self.low[first, last]

    def _exact(self, first: int, last: int) -> int:
        """Return what a stage needs with the best of the tiles that `fuse` follows, each with what it leaves to be shared."""
        fronts = [[_Choice(0, 0, ())]]
        for end in range(first, last + 1):
            options = list(fronts[-1])
            for run in self.runs[end]:
                begin, gain = end + 1 - run.steps, self._gain(run, first, end)
                if begin >= first and gain > 0:
                    for saved, tile, tiles in fronts[begin - first]:
                        options.append(_Choice(saved + gain, max(tile, run.bytes), (*tiles, (begin, run))))
            front: list[_Choice] = []
            for choice in sorted(options, key=lambda c: (c.tile - c.saved, c.tile, len(c.tiles))):
                if not any(c.saved >= choice.saved and c.tile <= choice.tile for c in front):
                    front.append(choice)
                if len(front) == fuse.MOST_CHOICES:
                    break
            fronts.append(front if any(not choice.tiles for choice in front) else [*front, _Choice(0, 0, ())])
        total = int(self.total[first, last])
        return min(total - c.saved + c.tile - self._shared_with(first, last, c.tiles) for c in fronts[-1])

    def _shared_with(self, first: int, last: int, tiles: Sequence[_Tile]) -> int:
        """Return bytes of a stage's output that lie over what dies in it, with these tiles: as `schedule.distances` has it."""
        if self.streamed_inputs and first == 0:
            return 0
        steps, runs, at = self.steps, dict(tiles), first
        timings = dict[int, RowTiming]()  # of ops and tiles by their last step
        outside = list[tuple[_Read, int]]()  # what was there before, and who reads it
        tiled = any(begin + run.steps > last for begin, run in tiles)
        while at <= last:
            node, begin = at + (runs[at].steps if at in runs else 1) - 1, 0
            for read in _reads(steps, at, node):
                if read.step <= first:
                    outside.append((read, node))
                else:
                    source = timings[read.step - 1]
                    begin = max(begin, source.first + source.every * read.window.reach)
            every = (timings[at - 1].every if at > first else 1) * prod(step.stride for step in steps[at : node + 1])
            timings[node] = RowTiming(begin, every, steps[node].side if steps[node].sums else steps[node].side_out)
            at = node + 1
        distances = dict[int, int]()
        for read, node in outside:
            if read.step < first or first + steps[first].forth <= last:
                ahead = None if node < last else 1 - tiled  # an add by itself has read the row that it writes
                distance_below = _distance(read, steps[read.step], timings[node], (steps[last], timings[last]), ahead)
                distances[read.step] = max(distances.get(read.step, 0), distance_below)
        return shared_bytes(self.facts[last].written, [(distance, self.facts[x].read) for x, distance in distances.items()])


class _Read(NamedTuple):
    """The window of an output on what the step before `step` made."""

    step: int
    window: Window


def _reads(steps: Sequence[Step], first: int, last: int) -> list[_Read]:
    """Return what a row of the last of some steps, which run together, reads of what others made."""
    run = steps[first : last + 1]
    reads = [_Read(first, _through(run))]
    for number, step in enumerate(run):
        if step.back:
            skip = _Read(first + number - step.back, _through(run[number + 1 :]))
            if skip.step < first:
                reads.append(skip)
            else:  # they read it anyway
                reads[0] = _Read(first, reads[0].window.joined(skip.window))
    return reads


def _through(run: Sequence[Step]) -> Window:
    """Return the window of a row of a run's output on its input."""
    return reduce(Window.compose, (step.window for step in reversed(run)), Window())


def _distance(read: _Read, source: Step, reader: RowTiming, last: tuple[Step, RowTiming], ahead: int | None) -> int:
    """Return how far below what a step or tile of a stage reads the output of the stage's last step, or tile, must begin.

    source: the step that reads it first. ahead: iterations by which the last one's reads are ahead of its writes, where it
    reads it.
    """
    out, timing = last
    iterations = np.arange(timing.iterations)
    written = (iterations + 1) * out.side_out * out.c_out
    if out.sums:  # written all at once, with the last row
        iterations, written = iterations[-1:], np.array([out.c_out])
    if ahead is not None:
        done = iterations + ahead
    else:
        done = np.clip((timing.first + iterations * timing.every - reader.first) // reader.every + 1, 0, reader.iterations)
    oldest = np.clip(done * read.window.stride - read.window.pad, 0, source.side)
    return int(np.where(done < reader.iterations, written - oldest * source.side * source.c_in, 0).max(initial=0))


def _least_worst(stages: Numbers) -> int:
    """Return the least bytes that the worst stage needs, of all ways to cut a chain into stages."""
    bytes_to = np.zeros(len(stages) + 1, np.int64)
    for last in range(len(stages)):
        bytes_to[last + 1] = np.maximum(bytes_to[: last + 1], stages[: last + 1, last]).min()
    return int(bytes_to[-1])


def _cheapest(costs: Numbers) -> list[tuple[int, int]]:
    """Return the (first, last) steps of the stages that cost least together, of all ways to cut a chain."""
    cost_to, begin = np.zeros(len(costs) + 1, np.int64), [0] * (len(costs) + 1)
    for last in range(len(costs)):
        total = cost_to[: last + 1] + costs[: last + 1, last]
        begin[last + 1] = at = int(total.argmin())
        cost_to[last + 1] = total[at]
    path, end = list[tuple[int, int]](), len(costs)
    while end:
        path.append((begin[end], end - 1))
        end = begin[end]
    return path


def forget() -> None:
    """Forget what is known of steps."""
    for function in (macs_of, facts_of, _run):
        function.cache_clear()
