"""The peak RAM computed from an architecture alone equals the peak RAM of the plan of its graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from cases.archs import any_arch, graph_of, of_space, small_arch

from tinynas.arch import ACTIVATIONS, Arch, Group, blocks, excitation_macs, mobilenet_v2
from tinynas.network import to_graph
from tinynas.ram import arena as arenas
from tinynas.ram import ram_model
from tinynas.ram.arena import arena, arena_lower_bound
from tinynas.ram.ram_model import cropped
from tinynas.stage_one import unfused_bytes
from tinyweave.ir import CompileError
from tinyweave.passes import run_passes
from tinyweave.planning import Request
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.planner import PlanSearch
from tinyweave.support import toolchain


def macs_without_padding(arch: Arch) -> int:
    sequence = blocks(arch)
    return ram_model.macs(arenas._chain(sequence, arch.classes)) + excitation_macs(sequence)


def equals_plan(arch: Arch, *, stream_inputs: bool, max_mac_overhead: float | None = None, schedule: str = "best") -> bool:
    """Return whether `arena` equals the peak RAM of the plan of the graph.

    If rows are recomputed, a plan may need less than its search counts, so the search's count is compared.
    """
    how = {"stream_inputs": stream_inputs, "max_mac_overhead": max_mac_overhead, "schedule": schedule}
    found, choices = (
        arena(arch, **how),
        PlanSearch(graph_of(arch), Request(schedule, stream_inputs=stream_inputs, max_mac_overhead=max_mac_overhead)),
    )
    if max_mac_overhead is not None:
        return found == choices.least_bytes
    made = choices.plan("size", checked=False)
    return (made.lower_bound, sum(plan_macs(made))) == (found, macs_without_padding(arch))


@pytest.mark.parametrize("streamed_inputs", [False, True], ids=["in_ram", "streamed"])
@pytest.mark.parametrize("batch", range(10))
def test_arena_of_small_networks_equals_their_plans(batch: int, streamed_inputs: bool) -> None:
    """Every third network may recompute rows."""
    for seed in range(10 * batch, 10 * batch + 10):
        overhead = (None, None, 1.0 + seed % 7 / 5)[seed % 3]
        assert equals_plan(_tiny(seed), stream_inputs=streamed_inputs, max_mac_overhead=overhead), seed


def _tiny(seed: int) -> Arch:
    return any_arch(random.Random(seed), (1, 24), 2)


def _tiny_v3(seed: int) -> Arch:
    """Return a small random architecture with hard-swish and squeeze-and-excitation in some groups."""
    arch, rng = _tiny(seed), random.Random(seed)
    groups = (
        replace(group, activation=rng.choice(ACTIVATIONS), squeeze=rng.choice((0, 2, 4)) if seed % 2 else 0)
        for group in arch.groups
    )
    return replace(arch, groups=tuple(groups), activation=rng.choice(ACTIVATIONS))


@pytest.mark.parametrize("batch", range(2))
def test_arena_of_networks_like_mobilenet_v3_equals_their_plans(batch: int) -> None:
    """The C search supports hard-swish. Squeeze-and-excitation is planned as a graph; the C search gives its lower bound."""
    bounded = 0
    for seed in range(12 * batch, 12 * batch + 12):
        arch, streamed = _tiny_v3(seed), seed % 4 > 1
        overhead = 1.0 + seed % 7 / 5 if seed % 6 == 2 else None
        assert equals_plan(arch, stream_inputs=streamed, max_mac_overhead=overhead), seed
        exact, least = arena(arch, stream_inputs=streamed), arena_lower_bound(arch, stream_inputs=streamed)
        has_squeeze = any(block.squeezed for block in blocks(arch))
        assert least <= exact if has_squeeze else least == exact, seed
        bounded += least < exact
        assert unfused_bytes(arch) >= exact, seed
    assert bounded > 0


@pytest.mark.parametrize("batch", range(2))
def test_the_lower_bound_holds_for_each_pooling(batch: int) -> None:
    """The peak is most often in the first layers, and then the bound is exact but for the sums of a mean."""
    near = 0
    for seed in range(15 * batch, 15 * batch + 15):
        arch, streamed = replace(_tiny(seed), pooling=("max", "both")[seed % 2]), seed % 4 > 1
        arch = replace(arch, classes=max(2, arch.classes))
        graph, _ = run_passes(to_graph("network", blocks(arch), arch.classes, pooling=arch.pooling), io="int8")
        exact, least = (
            PlanSearch(graph, Request(stream_inputs=streamed)).least_bytes,
            arena_lower_bound(arch, stream_inputs=streamed),
        )
        assert least <= exact, seed
        near += exact - least == 4 * blocks(arch)[-1].layers[-1].c_out
        with pytest.raises(CompileError, match=f"the network has pooling {arch.pooling}"):
            arena(arch)
    assert near > 5


@pytest.mark.parametrize("schedule", ["layer", "patch"])
def test_arena_with_other_strategies_equals_their_plans(schedule: str) -> None:
    overhead = 1.3 if schedule == "patch" else None
    assert all(equals_plan(_tiny(seed), stream_inputs=False, schedule=schedule, max_mac_overhead=overhead) for seed in range(6))


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [small_arch, any_arch, of_space])
@pytest.mark.parametrize("first", range(1000, 1012, 3))
def test_arena_of_more_networks_equals_their_plans(kind: Callable[[random.Random], Arch], first: int) -> None:
    for seed in range(first, first + 3):
        rng = random.Random(seed)
        overhead, streamed = rng.choice((None, 1.02, 1.1, 1.3, 2.0)), rng.random() < 0.5
        assert equals_plan(kind(rng), stream_inputs=streamed, max_mac_overhead=overhead), seed


def test_without_a_compiler_the_planner_gives_the_same_arenas(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(_tiny(seed), streamed, overhead) for seed in range(4) for streamed, overhead in ((False, None), (True, 1.2))]
    known = [arena(arch, stream_inputs=streamed, max_mac_overhead=overhead) for arch, streamed, overhead in cases]
    monkeypatch.setattr(toolchain, "library", lambda *sources: None)
    found = [arena(arch, stream_inputs=streamed, max_mac_overhead=overhead) for arch, streamed, overhead in cases]
    assert found == known


@pytest.mark.parametrize("seed", range(6))
def test_arena_of_random_networks_equals_their_plans(seed: int) -> None:
    arch = small_arch(random.Random(seed)) if seed % 2 else any_arch(random.Random(seed), most_groups=3)
    assert equals_plan(arch, stream_inputs=seed % 3 > 0)


def test_arena_counts_skip_rows_that_a_tile_reads_late() -> None:
    """If a tile has an add and the windows on its sum, the skip is kept one row longer than for an unfused add."""
    groups = (Group(16, 1, (7,), (4,)), Group(16, 1, (7, 3), (4, 1)), Group(8, 1, (3,), (1,)))
    for seed in (10218, 10219):
        assert equals_plan(small_arch(random.Random(seed)), stream_inputs=False)
    assert equals_plan(Arch((21, 21, 3), 8, groups), stream_inputs=True)


def test_arena_of_a_stem_and_a_mean_computed_by_hand() -> None:
    """The arena holds the image's ring of 3 rows, one row of the stem, the mean's 4-byte sums and the output; F is 1."""
    arch = Arch((32, 32, 3), 8, ())
    assert arena(arch, stream_inputs=True) == 3 * 32 * 3 + 16 * 8 + 4 * 8 + 8
    # all windows except in the first row and column read 3 x 3 pixels
    assert macs_without_padding(arch) == (16 * 3 - 1) ** 2 * 3 * 8
    # pixel (1, 15) writes up to byte 31 * 8 + 4 and reads from (1, 29) on, so the distance is 69 bytes, rounded up to words
    assert arena(arch) == 32 * 32 * 3 + 72


def test_a_streamed_image_needs_no_more_ram_than_a_whole_one() -> None:
    for seed in range(20):
        arch = of_space(random.Random(seed))
        assert arena(arch, stream_inputs=True) <= arena(arch), seed


def test_mobilenet_v2_with_a_streamed_image_needs_less_ram_than_whole_rows() -> None:
    """Also: multiplications with padding are not counted as MACs."""
    assert arena(mobilenet_v2(), stream_inputs=True) < 125_664 < arena(mobilenet_v2()), "what whole rows need at F = 1"
    assert macs_without_padding(mobilenet_v2()) < 300_774_272, "borders clipped"


def test_cropped_windows_keep_the_rows_that_read_the_map() -> None:
    assert cropped(8, 3, 1, 1) == (3, 1), "nothing to crop"
    assert cropped(1, 7, 1, 3) == (1, 0), "a pixel sees itself"
    assert cropped(2, 7, 1, 3) == (3, 1), "two see each other"
    assert cropped(2, 7, 2, 3) == (2, 0), "one output of two pixels"


def test_channels_that_are_no_multiple_of_4_are_refused() -> None:
    with pytest.raises(CompileError, match="a layer of 6 channels; give a multiple of 4"):
        arena(Arch((32, 32, 3), 8, (Group(6, 1, (3,), (2,)),)))
    three = Arch((32, 32, 3), 8, (), classes=3)
    assert arena(three) > 0, "the classes may be any number"


def test_an_image_that_is_not_square_is_refused() -> None:
    for arch in (Arch((49, 10, 1), 8, ()), Arch((1, 64, 4), 8, ()), Arch((32, 32, 3), 8, (), stem_stride=(1, 2))):
        with pytest.raises(CompileError, match="give a square one"):
            arena(arch)
