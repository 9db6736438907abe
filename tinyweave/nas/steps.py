"""A network as a chain of steps, an op each on square maps: what each reads, makes and computes by itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from ..kernels import overlap_distance as distance
from ..ops.window import Window, all_taps_inside

Kind = Literal["conv_2d", "depthwise_conv_2d", "add", "hard_swish", "mean", "fully_connected"]


class Step(NamedTuple):
    """An op that reads what the step before it made, a map of side x side x c_in; all sizes in rows or columns.

    back: of an add, how many steps before it the one is that reads its other operand, the skip, first; forth: the same, seen
    from that step; 0: there is no skip.
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

    @property
    def window(self) -> Window:
        """Return what it reads along either axis."""
        return Window(self.kernel, self.stride, self.pad)

    @property
    def sums(self) -> int:
        """Return the bytes of the sums in which a mean collects rows as they come; 0 where it does not."""
        return 4 * self.c_in if self.kind == "mean" and self.side > 1 else 0

    @property
    def makes_map(self) -> bool:
        return self.kind not in ("mean", "fully_connected")


def cropped(side: int, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Return kernel and padding of a window without the rows that never see the map, as the pass `crop_windows` leaves it."""
    last = (side + 2 * pad - kernel) // stride * stride
    before, after = min(max(0, pad - last), pad), min(max(0, kernel - side - pad), pad)
    return kernel - before - after, pad - before


@lru_cache(maxsize=1 << 16)
def macs_of(step: Step) -> int:
    """Return the multiply-accumulates of a step, borders clipped."""
    if step.kind in ("add", "hard_swish", "mean"):
        return 0
    inside = all_taps_inside(step.side, step.side_out, kernel=step.kernel, stride=step.stride, before=step.pad)
    return inside * inside * step.c_out * (1 if step.kind == "depthwise_conv_2d" else step.c_in)


@lru_cache(maxsize=1 << 16)
def distance_of(step: Step) -> int:
    """Return how far below its input the output of a step by itself must begin."""
    if step.kind == "fully_connected":
        return distance.of_rows(1, step.c_in, step.c_out)
    if step.kind in ("add", "hard_swish", "mean"):
        return 0
    sides, windows = ((step.side,) * 2, (step.side_out,) * 2), (step.window,) * 2
    dense = {} if step.kind == "depthwise_conv_2d" else {"groups": 1, "at_once": 4}
    return distance.windowed(*sides, windows, (1, 1), depth=step.c_in, units=step.c_out, **dense)
