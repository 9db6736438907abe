"""Placement: an offset for every buffer, so that buffers alive in the same step never share a byte.

In: buffers of one memory. Out: offsets. The greedy rule places the buffers one after the other at the lowest offset
that fits between those already placed and alive at the same time (Pisarchyk and Lee, arXiv 2001.03288, algorithm 3);
several orders are tried, and the lowest arena wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .plan import Buffer

ORDERS: tuple[Callable[[Buffer], Any], ...] = (
    lambda b: (-b.bytes, b.start, b.name),
    lambda b: (-b.bytes * (b.end - b.start), b.start, b.name),
    lambda b: (b.start - b.end, -b.bytes, b.name),
    lambda b: (b.start, -b.bytes, b.name),
    lambda b: (-b.end, -b.bytes, b.name),
)


def lower_bound(buffers: Iterable[Buffer]) -> int:
    """The largest number of bytes alive in one step: no placement of these buffers needs less."""
    alive: dict[int, int] = {}
    for buffer in buffers:
        alive[buffer.start] = alive.get(buffer.start, 0) + buffer.bytes
        alive[buffer.end] = alive.get(buffer.end, 0) - buffer.bytes
    total = peak = 0
    for step in sorted(alive):
        total += alive[step]
        peak = max(peak, total)
    return peak


def arena_bytes(buffers: Iterable[Buffer], offsets: dict[str, int]) -> int:
    """One past the highest byte in use."""
    return max((offsets[b.name] + b.bytes for b in buffers), default=0)


def greedy(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Buffer name -> offset, the best of several greedy orders."""
    bound = lower_bound(buffers)
    best: dict[str, int] = {}
    best_bytes = -1
    for order in ORDERS:
        offsets = _first_fit(sorted(buffers, key=order))
        size = arena_bytes(buffers, offsets)
        if best_bytes < 0 or size < best_bytes:
            best, best_bytes = offsets, size
        if best_bytes == bound:
            break
    return best


def _first_fit(buffers: Iterable[Buffer]) -> dict[str, int]:
    placed: list[tuple[int, Buffer]] = []  # by offset
    offsets: dict[str, int] = {}
    for buffer in buffers:
        offset = 0
        for other_offset, other in placed:
            if other.start >= buffer.end or buffer.start >= other.end:
                continue
            if offset + buffer.bytes <= other_offset:
                break
            offset = max(offset, -(-(other_offset + other.bytes) // buffer.align) * buffer.align)
        offsets[buffer.name] = offset
        placed.append((offset, buffer))
        placed.sort(key=lambda item: item[0])
    return offsets
