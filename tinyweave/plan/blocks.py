"""The least arena of a chain of ops on square maps, from its figures alone: for those who ask of many thousands of networks.

In: steps, an op each, with sums over skips among them. Out: the bytes that the busiest step of the best plan at F = 1 needs, as
`plan(graph, "best").lower_bound` of the graph has it, without a graph. The idea: what the fused stage over steps [begin, end)
needs is a sum over them, less what tiles spare, of which there are few that begin and end somewhere; so all stages are looked
at together, as arrays over (begin, size of the largest tile), one end after the other. The cuts are those of `fuse`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import lag
from ..ops.spec import Window
from ..ops.window import positions
from . import fuse
from .overlap import shared_bytes
from .parts import ALIGN
from .rows import Axis, columns_held, rows_held, times_computed

Numbers = NDArray[np.int64]
Kind = Literal["conv_2d", "depthwise_conv_2d", "add", "mean", "fully_connected"]


BUCKETS = 8


class Step(NamedTuple):
    """An op that reads what the step before it made, a map of side x side x c_in; all sizes in rows or columns.

    back: of an add, how many steps before it the one is that reads its other operand, the skip, first; forth: the same, seen
    from that step; 0: there is no skip. held: rows that the skip's ring keeps where both read it.
    """

    kind: Kind
    side: int
    c_in: int
    c_out: int
    side_out: int = 1
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    back: int = 0
    forth: int = 0
    held: int = 0

    @property
    def sums(self) -> int:
        """Bytes of the sums in which a mean collects rows as they come; 0: it does not."""
        return 4 * self.c_in if self.kind == "mean" and self.side > 1 else 0

    @property
    def is_by_rows(self) -> bool:
        return self.sums > 0 or self.kind not in ("mean", "fully_connected")


def cropped(side: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Kernel and padding of a window without the rows that never see the map, as the pass `crop_windows` leaves it."""
    last = (side + 2 * pad - kernel) // stride * stride
    before, after = min(max(0, pad - last), pad), min(max(0, kernel - side - pad), pad)
    return kernel - before - after, pad - before


def macs(steps: Sequence[Step]) -> int:
    """Multiply-accumulates that a plan at F = 1 executes, borders clipped."""
    return sum(map(_macs, steps))


@lru_cache(maxsize=1 << 16)
def _macs(step: Step) -> int:
    if step.kind in ("add", "mean"):
        return 0
    inside = int(_taps(step).sum())
    return inside * inside * step.c_out * (1 if step.kind == "depthwise_conv_2d" else step.c_in)


def _taps(step: Step) -> Numbers:
    """[rows of the output]: rows of the window that lie inside the map."""
    inside = positions(step.side, step.side_out, kernel=step.kernel, stride=step.stride, before=step.pad)
    return inside.sum(axis=1, dtype=np.int64)


class _Facts(NamedTuple):
    """Of a step by itself. read, made: bytes of its input and output. ring: bytes of its input's ring, as long as the skip
    needs it. waits: rows of the input for which its first row waits. lag: how far below its input its output must begin."""

    read: int
    made: int
    ring: int
    waits: int
    lag: int


@lru_cache(maxsize=1 << 16)
def _facts(step: Step) -> _Facts:
    row, made = step.side * step.c_in, step.side_out**2 * step.c_out
    held = max(step.kernel, step.held if step.forth else 0)
    return _Facts(step.side * row, made, min(held, step.side) * row, step.kernel - 1 - step.pad, _lag(step))


def _lag(step: Step) -> int:
    if step.kind == "fully_connected":
        return lag.of_rows(1, step.c_in, step.c_out)
    if step.kind in ("add", "mean"):
        return 0
    sides, window = ((step.side,) * 2, (step.side_out,) * 2), Window((step.kernel,) * 2, (step.stride,) * 2, (step.pad,) * 2)
    dense = {} if step.kind == "depthwise_conv_2d" else {"groups": 1, "at_once": 4}
    return lag.windowed(*sides, window, (1, 1), depth=step.c_in, units=step.c_out, **dense)


class _Run(NamedTuple):
    """The last `steps` of some steps, which may run together, `rows` rows in a turn; as `fuse` has them.

    bytes: of the tile. saved: of rings; more, more_skip: what of that the rings of its input and of its skip need more where
    they are made in the same stage. odd: it reads other rows than its first step alone would. back: how many steps before its end the first one is that reads the skip of an add in it; 0: there is none.
    """

    steps: int
    rows: int
    bytes: int
    saved: int
    more: int
    more_skip: int
    odd: bool
    back: int


@lru_cache(maxsize=1 << 16)
def _runs(window: tuple[Step, ...]) -> tuple[_Run, ...]:
    """The runs that end with the last of some steps and compute nothing again."""
    found = []
    for count in range(2, len(window) + 1):
        run = window[-count:]
        if run[-1].sums or not run[-1].is_by_rows or run[1].forth:
            break
        least = None
        for rows in fuse.TURNS:
            again = _again(run, rows)
            if least is not None and again >= least:
                break
            least = again
            if again <= 0:
                found.append(_run(run, rows))
    return tuple(found)


def _inner(run: Sequence[Step]) -> list[Axis]:
    """What the steps of a run read of what those before them made, the last first."""
    return [Axis(step.stride, step.kernel, step.pad, step.side) for step in reversed(run[1:])]


def _again(run: Sequence[Step], at_once: int) -> int:
    """Multiply-accumulates that a run computes again."""
    total = 0
    for before, (begin, end) in zip(reversed(run[:-1]), rows_held(_inner(run), run[-1].side_out, at_once), strict=True):
        inside, times = _taps(before), times_computed(begin, end, before.side_out) - 1
        total += _macs(before) * int((inside * times).sum()) // int(inside.sum())
    return total


def _run(run: Sequence[Step], at_once: int) -> _Run:
    rows = [int((end - begin).max()) for begin, end in rows_held(_inner(run), run[-1].side_out, at_once)]
    cols = columns_held(_inner(run), run[-1].side_out, fuse.NARROWEST)
    sizes = [h * w * step.c_in for step, h, w in zip(reversed(run[1:]), rows, cols, strict=True)]
    out = run[-1].side_out * run[-1].c_out
    saved = sum(_facts(step).ring for step in run[1:]) - _grown(1, at_once, run[-1].side_out) * out
    first, add = run[0], next((number for number, step in enumerate(run) if step.back), -1)
    (_, _, extent, _), *skip = _reads(run, 0, len(run) - 1, at_once)
    back = len(run) - add + run[add].back if add >= 0 else 0
    more = _grown(first.held if 0 < first.forth < len(run) else first.kernel, extent, first.side) * first.side * first.c_in
    more_skip = sum(_grown(run[add].held, read[2], run[add].side) * run[add].side * run[add].c_out for read in skip)
    odd = at_once > 1 or any(step.kernel > 1 for step in run[1:])
    return _Run(len(run), at_once, sum(map(_whole, sizes)), saved, more, more_skip, odd, back)


def _through(run: Sequence[Step], rows: int) -> tuple[int, int, int]:
    """The window of so many rows of a run's output on its input: stride, extent, rows above the map."""
    stride, extent, pad = rows, rows, 0
    for step in reversed(run):
        stride, extent, pad = stride * step.stride, (extent - 1) * step.stride + step.kernel, pad * step.stride + step.pad
    return stride, extent, pad


def _grown(have: int, wanted: int, most: int) -> int:
    """By how many rows a ring of no more than `most` grows."""
    return min(max(have, wanted), most) - min(have, most)


def _whole(count: int) -> int:
    """In words."""
    return -(-count // ALIGN) * ALIGN


def least_bytes(steps: Sequence[Step], *, streamed: bool) -> int:
    """What the busiest step of the best plan needs; streamed: the network's input comes by rows, and is never whole."""
    chain = _Chain(steps, streamed)
    return max(chain.worst() if chain.count else 0, *chain.alone[chain.count :], 0)


_Tile = tuple[int, _Run]
"""The first step of a run, and the run."""


class _Choice(NamedTuple):
    """Tiles of a stage. saved: bytes of rings that they spare. tile: bytes of the largest."""

    saved: int
    tile: int
    tiles: tuple[_Tile, ...]


class _Chain:
    """The stages of a chain, those of its first `count` steps that run row by row. Arrays are over the first and the last step of
    a stage: total, bytes of all that is alive in it; apart, how far below what its first step reads its output must begin.

    low, high: what is known of the bytes that each stage needs with the best of its tiles. They meet where `_refine` was.
    """

    def __init__(self, steps: Sequence[Step], streamed: bool) -> None:
        self.steps, self.streamed = steps, streamed
        self.facts = [_facts(step) for step in steps]
        self.count = count = next((index for index, step in enumerate(steps) if not step.is_by_rows), len(steps))
        self.skips = [(index - step.back, index) for index, step in enumerate(steps) if step.back]
        self.alone = self._alone()
        read, made, ring, waits, _ = np.array(self.facts[:count], np.int64).reshape(count, -1).T
        self.total = self._total(read, made, ring)
        self.apart = self._apart(read, made, waits)
        self.plain = self.total - self._shared(read, made)
        windows = (tuple(steps[max(0, end - fuse.LONGEST_TILE) : end]) for end in range(1, count + 1))
        self.runs = [_runs(window) for window in windows]
        self.most_shared = self._most_shared(read, made)
        self.high = self.plain.copy()
        np.fill_diagonal(self.high, self.alone[:count])
        if self.streamed:
            self.high[0, 0] = self.plain[0, 0]
        self.low = np.minimum(self.high, self.most_shared - self._most_saved(_least_worst(self.high)))
        if not self.streamed: self.low[0,0]=self.high[0,0]
        for x in range(1,count): self.low[x,x]=self.high[x,x]
        self.refined = set[int]()

    def _alone(self) -> list[int]:
        """Bytes of each step by itself."""
        found = []
        for step, fact in zip(self.steps, self.facts, strict=True):
            dying = [] if step.forth else [(fact.lag, fact.read)]
            if step.back:
                dying.append((0, fact.made))
            found.append(fact.read + fact.made * (1 + bool(step.back)) - shared_bytes(fact.made, dying))
        for first, add in self.skips:
            for index in range(first + 1, add):
                found[index] += self.facts[first].read
        return found

    def _total(self, read: Numbers, made: Numbers, ring: Numbers) -> Numbers:
        rings = ring.cumsum()
        total = (read - rings)[:, None] + rings + made
        total[:, -1] += self.steps[self.count - 1].sums
        if self.streamed:
            total[0] += ring[0] - read[0]
        for first, add in self.skips:
            total[:first, first:add] += read[first] - ring[first]  # whole, for a stage after this one
            total[first + 1 : add + 1] += read[first]
        return total

    def _apart(self, read: Numbers, made: Numbers, waits: Numbers) -> Numbers:
        steps = self.steps[: self.count]
        side, out, stride, pad = np.array([(step.side, step.side_out, step.stride, step.pad) for step in steps]).T
        paces = stride.cumprod()  # ticks for a row of each step's output
        ticks = np.append(0, (paces[:-1] * waits[1:]).cumsum())
        every = np.maximum(paces // paces[:, None], 1)
        begin = (ticks - ticks[:, None]) // paces[:, None] + 1  # rows of the first step that are there with the last one's first
        turns = np.minimum(out - 1, (out[:, None] - 1 - begin) // every)  # the last one after which the first step reads again
        row, row_out = (read // side)[:, None], made // out
        kink = ((pad // stride)[:, None] - begin) // every  # the last turn for which all rows are needed
        found = np.zeros_like(turns)
        for turn in (np.int64(0), kink, kink + 1, turns):  # between these both grow evenly
            at = np.clip(turn, 0, turns)
            oldest = np.maximum((begin + at * every) * stride[:, None] - pad[:, None], 0)
            found = np.maximum(found, (at + 1) * row_out - oldest * row)
        found[turns < 0] = 0
        if steps[-1].sums:
            found[:, -1] = 0
        for first, add in self.skips:
            found[first, add:] = np.maximum(found[first, add:], found[add, add:])
        return -(-found // ALIGN) * ALIGN

    def _shared(self, read: Numbers, made: Numbers) -> Numbers:
        """Bytes of each stage's output that lie over what dies in it."""
        lag = np.minimum(self.apart, made)
        found = read[:, None] + made - np.maximum(lag + read[:, None], made)
        if self.streamed:
            found[0] = 0
        for first, add in self.skips:
            found[first, first:add] = 0
            skip, own = lag[add, add:], lag[first + 1 : add + 1, add:]
            size, sizes = read[first], read[first + 1 : add + 1, None]
            below, above = np.maximum(own + sizes, skip) + size, np.maximum(skip + size, own) + sizes
            end = np.maximum(np.where(own <= skip, below, above), made[add:])
            found[first + 1 : add + 1, add:] = size + sizes + made[add:] - end
        return found

    def _most_shared(self, read: Numbers, made: Numbers) -> Numbers:
        """What stages need without tiles, or, if all that dies is shared, those in which there may be odd ones."""
        dying = np.repeat(read[:, None], self.count, axis=1)
        for first, add in self.skips:
            dying[first, first:add] = 0
            dying[first + 1 : add + 1, add:] += read[first]
        ends = np.full(self.count, self.count)  # of the first odd run that begins here or later
        for last, runs in reversed(list(enumerate(self.runs))):
            for run in runs:
                if run.odd:
                    ends[: last + 2 - run.steps] = last
        if self.streamed:
            ends[0] = self.count  # nothing dies
        odd = np.arange(self.count) >= ends[:, None]
        return np.where(odd, self.total - np.minimum(dying, made), self.plain)

    def _most_saved(self, most: int) -> Numbers:
        """What no tiles of a stage save more than, less the largest tile."""
        bytes_ = sorted({run.bytes for runs in self.runs for run in runs if run.bytes < most})
        step = -(-len(bytes_) // BUCKETS) or 1
        lows = np.array([0, *bytes_[::step]])  # of the largest tile
        level = {size: 1 + at // step for at, size in enumerate(bytes_)}
        saved = np.zeros((self.count + 1, self.count, len(lows)), np.int64)
        found = np.zeros((self.count, self.count), np.int64)
        for last, runs in enumerate(self.runs):
            now = saved[last + 1]
            now[:] = saved[last]
            for run in runs:
                at = level.get(run.bytes)
                if at is not None:
                    first = last + 1 - run.steps
                    gain = run.saved
                    end = first + 1
                    np.maximum(now[:end, at:], saved[first, :end, at:] + gain, out=now[:end, at:])
            found[:, last] = (now - lows).max(axis=1)
        return found

    def worst(self) -> int:
        """What the worst stage of the best cuts needs: looks closer at stages that could be among them until they are known."""
        while True:
            worst = _least_worst(self.low)
            path = _fewest(np.where(self.high <= worst, 0, np.where(self.low <= worst, 1, len(self.low) + 1)))
            unsure = [stage for stage in path if self.high[stage] > worst]
            if not unsure:
                return worst
            for first, last in unsure:
                if first in self.refined:
                    self.low[first, last] = self.high[first, last] = self._exact(first, last)
                else:
                    self._refine(first)
                    self.refined.add(first)

    def _gain(self, run: _Run, first: int, last: int) -> int:
        """Bytes that a run which ends with the step `last` spares in a stage that begins with `first`."""
        begin, skip = last + 1 - run.steps, last + 1 - run.back
        made = first < begin or (self.streamed and first == 0)
        return run.saved - (run.more if made else 0) - (run.more_skip if run.back and first < skip else 0)

    def _refine(self, first: int) -> None:
        """What the stages need that begin with a step; at least, where tiles change what may be shared.

        Tiles that spare no more than others, but leave more to be shared, are not followed by `fuse`, which may cost something.
        """
        bytes_ = [0, *sorted({run.bytes for runs in self.runs[first:] for run in runs})]
        level, sizes = {size: at for at, size in enumerate(bytes_)}, np.array(bytes_)
        saved = [np.zeros(len(sizes), np.int64)] * (first + 1)  # [end]: what tiles spare, by the size of the largest
        for last in range(first, self.count):
            now, outside = saved[last].copy(), list[tuple[_Run, int, Numbers]]()
            for run in self.runs[last]:
                begin = last + 1 - run.steps
                if begin >= first:
                    at = level[run.bytes]
                    spared = saved[begin][at:] + self._gain(run, first, last)
                    if self._reads_outside(run, first, last):
                        outside.append((run, at, spared))
                    else:
                        np.maximum(now[at:], spared, out=now[at:])
            least = int((sizes - now).min())
            for run, at, spared in outside:  # at most as much is shared as without it
                least = min(least, int((sizes[at:] - spared).min()))
                np.maximum(now[at:], spared, out=now[at:])
            saved.append(now)
            if last > first:
                self.low[first, last] = self.most_shared[first, last] + least
                if not outside and self.most_shared[first, last] == self.plain[first, last]:
                    self.high[first, last] = self.low[first, last]

    def _reads_outside(self, run: _Run, first: int, last: int) -> bool:
        """Whether a run that ends a stage reads something that was there before, and dies in it."""
        if self.streamed and first == 0:
            return False
        return last + 1 - run.steps == first or last + 1 - run.back <= first

    def _exact(self, first: int, last: int) -> int:
        """What a stage needs with the best of the tiles that `fuse` follows, each with what it leaves to be shared."""
        fronts = [[_Choice(0, 0, ())]]
        for end in range(first, last + 1):
            found = list(fronts[-1])
            for run in self.runs[end]:
                begin, gain = end + 1 - run.steps, self._gain(run, first, end)
                if begin >= first and gain > 0:
                    for saved, tile, tiles in fronts[begin - first]:
                        found.append(_Choice(saved + gain, max(tile, run.bytes), (*tiles, (begin, run))))
            kept = list[_Choice]()
            for choice in sorted(found, key=lambda c: (c.tile - c.saved, c.tile, len(c.tiles))):
                if not any(c.saved >= choice.saved and c.tile <= choice.tile for c in kept):
                    kept.append(choice)
                if len(kept) == fuse.MOST_CHOICES:
                    break
            fronts.append(kept if any(not choice.tiles for choice in kept) else [*kept, _Choice(0, 0, ())])
        total = int(self.total[first, last])
        return min(total - c.saved + c.tile - self._shared_with(first, last, c.tiles) for c in fronts[-1])

    def _distance(
        self,
        x: int,
        ends: tuple[int, int],
        paces: tuple[tuple[int, int, int], tuple[int, int, int]],
        window: tuple[int, int],
        *,
        tiled: bool,
    ) -> int:
        """How far below what the step `x` reads a stage's output must begin. ends: last steps of a reader and of the stage."""
        (reader, last), (tick, ticks, rows), (tick_out, ticks_out, rows_out) = ends, *paces
        out = self.steps[last]
        height = out.side if out.sums else out.side_out
        turns = np.arange(-(-height // rows_out))
        written = np.minimum((turns + 1) * rows_out, height) * out.side_out * out.c_out
        of_reader = -(-self.steps[reader].side_out // rows)
        if out.sums:  # written all at once, with the last row
            turns, written = turns[-1:], np.array([self.facts[last].made])
        if reader == last:
            done = turns + (not tiled)
        else:
            done = np.clip((tick_out + turns * ticks_out * rows_out - tick) // (ticks * rows) + 1, 0, of_reader)
        stride, pad = window
        oldest = np.clip(done * stride - pad, 0, self.steps[x].side)
        row = self.steps[x].side * self.steps[x].c_in
        return max(0, int(np.where(done < of_reader, written - oldest * row, 0).max()))

    def _shared_with(self, first: int, last: int, tiles: Sequence[_Tile]) -> int:
        """Bytes of a stage's output that lie over what dies in it, with these tiles: as `streaming.lags` has it."""
        if self.streamed and first == 0:
            return 0
        steps, runs, at = self.steps, dict(tiles), first
        tiled = {begin + run.steps - 1 for begin, run in tiles}
        paces = dict[int, tuple[int, int, int]]()  # last step of an op or a tile -> tick of its first row, ticks per row, rows
        outside = list[tuple[int, int, int, int]]()  # (step that reads it first, last step of a reader, stride, pad)
        while at <= last:
            count, rows = (runs[at].steps, runs[at].rows) if at in runs else (1, 1)
            end, begin = at + count - 1, 0
            for x, stride, extent, pad in _reads(steps, at, end, rows):
                if x <= first:
                    outside.append((x, end, stride, pad))
                else:
                    tick, ticks, at_once = paces[x - 1]
                    row = extent - 1 - pad
                    begin = max(begin, tick + ticks * (row - row % gcd(stride, at_once)))
            strides = prod(step.stride for step in steps[at : end + 1])
            paces[end] = begin, paces[at - 1][1] * strides if at > first else 1, rows
            at = end + 1
        far = dict[int, int]()
        for x, reader, stride, pad in outside:
            if x < first or first + steps[first].forth <= last:
                far[x] = max(far.get(x, 0), self._distance(x, (reader, last), (paces[reader], paces[last]), (stride, pad), tiled=last in tiled))
        return shared_bytes(self.facts[last].made, [(distance, self.facts[x].read) for x, distance in far.items()])


def _reads(steps: Sequence[Step], first: int, last: int, rows: int) -> list[tuple[int, int, int, int]]:
    """(step that reads it first, stride, extent, pad) of what so many rows of the last of some steps read of what others made."""
    run = steps[first : last + 1]
    found = [(first, *_through(run, rows))]
    for number, step in enumerate(run):
        if step.back:
            skip, read = first + number - step.back, _through(run[number + 1 :], rows)
            if skip < first:
                found.append((skip, *read))
            else:  # the skip is what they read
                (_, stride, extent, pad), (_, other, above) = found[0], read
                found[0] = first, stride, max(pad, above) + max(extent - pad, other - above), max(pad, above)
    return found


def _least_worst(stages: Numbers) -> int:
    """Of all ways to cut a chain into stages the least that the worst stage needs."""
    least = np.zeros(len(stages) + 1, np.int64)
    for last in range(len(stages)):
        least[last + 1] = np.maximum(least[: last + 1], stages[: last + 1, last]).min()
    return int(least[-1])


def _fewest(costs: Numbers) -> list[tuple[int, int]]:
    """The cuts that cost least, all stages together: (first, last) of each."""
    least, begin = np.zeros(len(costs) + 1, np.int64), [0] * (len(costs) + 1)
    for last in range(len(costs)):
        total = least[: last + 1] + costs[: last + 1, last]
        begin[last + 1] = at = int(total.argmin())
        least[last + 1] = total[at]
    path, end = list[tuple[int, int]](), len(costs)
    while end:
        path.append((begin[end], end - 1))
        end = begin[end]
    return path
