"""Explanations agree with the plan that they explain, byte by byte and rule by rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from fuzz.generate import random_network

from tinyweave.planning import Plan, Request, plan
from tinyweave.planning.explain import explain


def cells(made: Plan, name: str) -> set[int]:
    begin = made.offsets[name]
    return set(range(begin, begin + made.buffer(name).bytes))


@pytest.mark.parametrize("schedule", ["layer", "best"])
@pytest.mark.parametrize("seed", rest_in_sweeps(range(30), 10))
def test_every_shared_byte_is_explained(seed: int, schedule: str) -> None:
    made = plan(random_network(seed, 14), Request(schedule))
    for buffer in made.buffers:
        found = explain(made, buffer.name)
        assert (found.offset, found.bytes, found.start, found.end) == (
            made.offsets[buffer.name],
            buffer.bytes,
            buffer.start,
            buffer.end,
        )
        sharing = {b.name for b in made.buffers if b is not buffer and cells(made, b.name) & cells(made, buffer.name)}
        meeting = {b.name for b in made.buffers if max(b.start, buffer.start) < min(b.end, buffer.end)}
        assert {overlap.other for overlap in found.overlaps if overlap.shared} == sharing & meeting
        assert set(found.at_other_times) == sharing - meeting
        for overlap in found.overlaps:
            assert (overlap.overlap_distance is None) == bool(overlap.why)
            assert overlap.shared == len(cells(made, buffer.name) & cells(made, overlap.other))
            if overlap.shared:
                assert overlap.overlap_distance is not None and overlap.distance >= overlap.overlap_distance
                assert overlap.shared <= overlap.possible or not overlap.possible
        assert found.without <= found.peak <= made.arena["sram"]
        for step, _ in (*found.writers, *found.readers):
            assert buffer.start <= step < buffer.end


def test_explanation_of_a_skip_connection() -> None:
    """x is read by the convolution and again by the add, so only the sum may overlap it."""
    made = plan(NETWORKS["residual"](), Request("unfused"))
    found = explain(made, "x")
    assert found.persistent == ("network input",) and found.writers == ()
    assert found.readers == ((0, "conv_2d_0"), (1, "add_1")) and found.waits == (0, "conv_2d_0")
    by_conv, by_add = found.overlaps
    assert (by_conv.other, by_conv.overlap_distance, by_conv.why) == (
        "branch",
        None,
        "add_1 reads the operand later, in step 2",
    )
    assert (by_add.other, by_add.overlap_distance, by_add.possible, by_add.output) == ("sum", 0, 120, False)
    assert (found.peak, found.without) == (240, 168)  # two inputs of the add; sum and both pools
    flat = explain(made, "flat")
    assert flat.buffer == "both" and flat.views == ("both",) and flat.persistent == ("network output",)
    (joined,) = [overlap for overlap in flat.overlaps if overlap.other == "largest"]
    assert (joined.overlap_distance, joined.possible, joined.output) == (
        16,
        24,
        True,
    )  # pixel 4 is written 4 * 4 bytes after its old address


def test_explanation_of_state() -> None:
    made = plan(NETWORKS["stream"]())
    past = explain(made, "past")
    assert past.persistent == ("state",) and past.end - past.start == len(made.stages) and not past.at_other_times
    reasons = {overlap.op: overlap.why for overlap in past.overlaps}
    assert reasons["concatenation_1"] == "the operand is kept between calls"
    with pytest.raises(KeyError):
        explain(made, "weights")


def test_subtensors_and_scratch_have_the_offsets_of_the_plan() -> None:
    made = plan(NETWORKS["residual"](), Request(core="cortex-m4"))
    inner = replace(made, places={**made.places, "sum": replace(made.places["sum"], offset=8)})
    assert explain(inner, "sum").offset == explain(made, "sum").offset + 8 == made.offset("sum") + 8
    assert explain(made, "conv_2d_0.scratch").offset == made.offsets["conv_2d_0.scratch"]


@pytest.mark.parametrize("schedule", ["layer", "best"])
def test_the_last_explained_kernel_is_that_of_the_plan(schedule: str) -> None:
    made = plan(NETWORKS["residual"](), Request(schedule, core="cortex-m4"))
    for name, index in made.graph.producer.items():
        kernels = explain(made, name, "cortex-m4").kernels
        assert [kernel for kernel, _ in kernels][-1:] == [kernel for kernel in (made.variants[index],) if kernel]
        assert len({kernel for kernel, _ in kernels}) == len(kernels)
        assert explain(made, name).kernels == ()
