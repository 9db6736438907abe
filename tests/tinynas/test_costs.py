"""The RAM limit of the arena is the device's RAM minus the overhead that every network has; costs of built networks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from cases.archs import small_arch
from pages import measured_alike

from tinynas import costs as costs_module
from tinynas.costs import Overhead, Target, built_costs, costs, too_large, with_measured_overhead
from tinynas.ram.arena import arena_lower_bound
from tinynas.space import arch_of, plain, sensors
from tinyweave import api
from tinyweave.devices import find

BOARD = find("stm32f412")


@pytest.mark.parametrize("ram, beside, left", [(3000, 500, 2500), (3000, 3000, 0), (3000, 3001, 0), (None, 500, None)])
def test_the_overhead_is_subtracted_from_the_ram_limit_of_the_arena(ram: int | None, beside: int, left: int | None) -> None:
    target = Target(BOARD, api.limits_of(BOARD, ram=None if ram is None else str(ram)), overhead=Overhead(ram=beside))
    assert target.arena_limits.ram == (left if ram is not None else api.limits_of(BOARD).ram - beside)


@pytest.mark.parametrize("seed", range(5))
def test_a_network_is_too_large_if_arena_bound_and_overhead_exceed_the_ram_by_a_byte(seed: int) -> None:
    arch = small_arch(random.Random(seed))
    least = arena_lower_bound(arch)
    for spare, expected in ((0, False), (-1, True)):
        target = Target(None, api.limits_of(None, ram=str(least + 700 + spare)), overhead=Overhead(ram=700))
        assert too_large(arch, target) == expected


@pytest.mark.emulator
@pytest.mark.skipif(not measured_alike(), reason="the network's stack is known for one compiler")
def test_a_network_with_more_stack_than_estimated_is_planned_again_with_its_own() -> None:
    space = sensors(150, 1)
    blocks = (((9, 3), (9, 3)), ((7, 3), (5, 3)), ((3, 2), (7, 2)))
    arch = arch_of(space, plain(space, 0.5, 1)._replace(blocks=blocks), 2)
    board = find("nrf52840")
    target = with_measured_overhead(Target(board, api.limits_of(board, "3k", "60k", 20)), space, 2)
    known = target.overhead._replace(ram=target.overhead.ram - 100)  # as if the measured network took less stack
    target = replace(target, limits=api.limits_of(board, "2440", "60k", 20), overhead=known)
    assert costs(arch, target).fit and set(costs_module._built(arch, target)[0].excess) == {"ram"}
    assert built_costs(arch, target).fit
    tiny = replace(target, limits=api.limits_of(board, "1k"))
    assert built_costs(arch, tiny) == costs_module._built(arch, tiny)[0] and not built_costs(arch, tiny).fit
