"""Placement: never two live buffers on one byte, never below the bound, and the bound where it can be had."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from tinyweave.plan.place import arena_bytes, greedy, lower_bound
from tinyweave.plan.plan import Buffer


def random_buffers(rng: random.Random) -> list[Buffer]:
    buffers = []
    for index in range(rng.randint(1, 40)):
        start = rng.randrange(30)
        size = rng.choice([1, 3, 4, 60, 1024, rng.randint(1, 5000)])
        buffers.append(Buffer(f"b{index}", size, start, start + rng.randint(1, 8), rng.choice([1, 4, 16])))
    return buffers


@pytest.mark.parametrize("seed", range(50))
def test_live_buffers_never_share_a_byte(seed: int) -> None:
    buffers = random_buffers(random.Random(seed))
    offsets = greedy(buffers)
    for a, b in combinations(buffers, 2):
        if a.start < b.end and b.start < a.end:
            assert offsets[a.name] + a.bytes <= offsets[b.name] or offsets[b.name] + b.bytes <= offsets[a.name]
    assert all(offsets[b.name] % b.align == 0 for b in buffers)
    assert arena_bytes(buffers, offsets) >= lower_bound(buffers)


def test_lower_bound_is_the_busiest_step() -> None:
    buffers = [Buffer("a", 100, 0, 2), Buffer("b", 50, 1, 3), Buffer("c", 70, 2, 4)]
    assert lower_bound(buffers) == 150  # a and b in step 1; c takes over a's bytes in step 2


def test_a_chain_reaches_the_lower_bound() -> None:
    chain = [Buffer(f"t{i}", size, max(0, i - 1), i + 1) for i, size in enumerate([400, 1600, 800, 800, 200, 12])]
    assert arena_bytes(chain, greedy(chain)) == lower_bound(chain) == 2400


def test_no_buffers_need_no_memory() -> None:
    assert lower_bound([]) == arena_bytes([], greedy([])) == 0
