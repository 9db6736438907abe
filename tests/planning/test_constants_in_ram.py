"""Which constants are worth their RAM, by the model of Flash, and where their copies are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest
from cases.maps import block
from cases.tiny import NETWORKS

from tinyweave import api
from tinyweave.api.plans import with_weights
from tinyweave.codegen import constants_of
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.kernels.layer_cycles import COPIED_WORD, FlashReads, cycles_to_copy
from tinyweave.planning import (
    Buffer,
    Constant,
    Limits,
    Plan,
    Request,
    check,
    constants_in_ram,
    copy_name,
    fetches,
    from_json,
    plan,
    to_json,
    with_copies,
    with_early_fetches,
    with_fetches,
    without_copies,
    worth_copying,
)
from tinyweave.planning.kernels.cycles import plan_cycles
from tinyweave.planning.memories import distribute

CORE = "cortex-m33"
DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(block(), Request("unfused", core=CORE))


def cycles(made: Plan, chosen: Sequence[Constant], reads: FlashReads) -> int:
    return plan_cycles(with_copies(made, chosen, "sram"), CORE, reads).at_least or 0


@pytest.mark.parametrize("cache", [0, 200, 16_384])
def test_the_copies_are_the_best_of_all_subsets(made: Plan, cache: int) -> None:
    """If the cache is small, constants count once per pass, or not if the others of their op are in RAM."""
    reads = FlashReads(16, 8, cache, 8, 16_384, 26, 16)
    arrays = [each for each in constants_of(made) if len(each.ops) == 1]
    for number, op in enumerate(made.graph.ops):
        own = [each for each in arrays if each.ops == (op.name,)]
        others = [each for each in arrays if each not in own][: 7 - len(own)]
        candidates = own + others
        align = max(4, *(each.align for each in candidates))
        subsets = [s for size in range(len(candidates) + 1) for s in combinations(candidates, size)]
        costs = {s: (sum(-(-each.bytes // align) * align for each in s), cycles(made, s, reads)) for s in subsets}
        for room in (0, 8, 40, 100, 250 + 50 * number, 700, 5_000):
            found = worth_copying(made, candidates, room + align, CORE, reads)
            assert sum(-(-each.bytes // align) * align for each in found) <= room
            best = min(after for size, after in costs.values() if size <= room)
            assert cycles(made, found, reads) <= best + len(found), (op.name, room)


def test_more_room_never_takes_longer_and_all_of_it_leaves_no_reads(made: Plan) -> None:
    reads = api.flash_reads(find("rp2350"))
    assert reads is not None
    arrays, before = constants_of(made), None
    for room in (*range(0, 2_000, 100), None):
        took = cycles(made, worth_copying(made, arrays, room, CORE, reads), reads)
        assert before is None or took <= before
        before = took
    assert (
        before
        == cycles(made, arrays, reads)
        == pytest.approx(plan_cycles(made, CORE, reads._replace(waits=0, apart=1)).at_least, rel=0.05)
    )
    assert cycles(made, (), reads) > before


def test_all_constants_of_a_slow_flash_are_copied_if_they_fit(made: Plan) -> None:
    """The model has no reads of tables that the cache holds, but code evicts them."""
    slow, arrays = FlashReads(58, 8, 16_384, 8, 16_384, 118, 58), constants_of(made)
    padded = sum(-(-each.bytes // 8) * 8 for each in arrays) + 8
    assert worth_copying(made, arrays, padded, CORE, slow) == arrays
    assert worth_copying(made, arrays, padded - 8, CORE, slow) != arrays, "the arena before them may end anywhere"
    assert worth_copying(made, arrays, padded, CORE, slow._replace(apart=0, waits=0)) == []


def test_flash_without_wait_states_needs_no_copies(made: Plan) -> None:
    assert worth_copying(made, constants_of(made), None, CORE, None) == []


def test_arrays_of_several_ops_follow_if_there_is_room(made: Plan) -> None:
    reads = FlashReads(16, 8, 0, 8, 16_384, 26, 16)
    first, second, third, *_ = (op.name for op in made.graph.ops)
    arrays = [Constant("own", 64, 4, (first,)), Constant("both", 16, 4, (first, second))]
    assert worth_copying(made, arrays, 68, CORE, reads) == arrays[:1]
    assert worth_copying(made, arrays, 84, CORE, reads) == arrays
    assert worth_copying(made, arrays, 20, CORE, reads) == arrays[1:]
    most = Constant("most", 16, 4, (first, second, third))
    assert worth_copying(made, [*arrays, most], 84, CORE, reads) == [arrays[0], most]


def test_the_unit_of_a_large_knapsack_is_rounded_up(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, arrays = FlashReads(16, 8, 0, 8, 16_384, 26, 16), constants_of(made)
    fine = worth_copying(made, arrays, 600, CORE, reads)
    monkeypatch.setattr(constants_in_ram, "MOST_COLUMNS", 20)
    coarse = worth_copying(made, arrays, 600, CORE, reads)
    assert sum(each.bytes for each in coarse) <= 600 and coarse
    assert cycles(made, fine, reads) <= cycles(made, coarse, reads) < cycles(made, (), reads)


def test_copies_are_above_all_other_buffers_and_alive_in_all_steps(made: Plan) -> None:
    there = check(with_copies(made, constants_of(made), "sram"))
    names = set(map(copy_name, there.copies))
    assert names and len(there.buffers) == len(made.buffers) + len(names)
    for buffer in there.buffers:
        if buffer.name in names:
            assert there.offsets[buffer.name] >= made.arena["sram"] and (buffer.start, buffer.end) == (0, len(made.stages))
            assert there.kind(buffer) == "state"
    arrays = sum(each.bytes for each in constants_of(made))
    assert 0 <= there.arena["sram"] - made.arena["sram"] - arrays < 4 * len(names) + 8 and there.gap < 8 * len(names)
    few = [Constant("odd", 17, 4, ("a",)), Constant("even", 16, 4, ("a",))]
    assert with_copies(made, few, "sram").arena["sram"] - -(-made.arena["sram"] // 8) * 8 == 33, "a gap only at the end"
    assert with_copies(made, few[:1], "sram").lower_bound == made.lower_bound + 16, "a byte may fit into a gap"
    back = without_copies(there)
    assert (back.arena, back.offsets, back.buffers, back.copies) == (made.arena, made.offsets, made.buffers, {})
    assert without_copies(made) is made
    reads = FlashReads(16, 8, 0, 8, 16_384, 26, 16)
    assert cycles_to_copy(there.copy_bytes.values(), reads) == pytest.approx(arrays / 8 * 16 + COPIED_WORD * arrays / 4)
    assert cycles_to_copy(there.copy_bytes.values(), None) == pytest.approx(COPIED_WORD * arrays / 4)


def test_the_bytes_that_an_op_reads_from_ram_include_shared_arrays(made: Plan) -> None:
    there = with_copies(made, constants_of(made), "sram")
    read = Counter[str]()
    for each in constants_of(made):
        read.update(dict.fromkeys(each.ops, each.bytes))
    assert there.copied == {index: read[op.name] for index, op in enumerate(made.graph.ops) if op.name in read}


def test_a_file_of_a_plan_keeps_its_copies(made: Plan) -> None:
    there = check(with_copies(made, constants_of(made), "sram"))
    back = from_json(to_json(there), block())
    assert (back.copies, back.buffers, back.arena, back.offsets) == (there.copies, there.buffers, there.arena, there.offsets)
    record = json.loads(to_json(there))
    for value in ({"nothing": ["conv_2d_0"]}, {}, {"a": 1}, []):
        with pytest.raises(CompileError):
            from_json(json.dumps(record | {"copies": value}), block())


@pytest.mark.parametrize("board", ["rp2350", "rp2040", "stm32f746", "imxrt1062"])
def test_auto_stays_within_the_limits_with_the_stack(board: str) -> None:
    device, model = find(board), api.load(DIGITS)
    for ram in (None, "6k", "24k"):
        options = api.PlanOptions(ram=ram, weights="auto")
        request = api.request_of(options, device)
        bare, there = (api.make_plan(model, replace(request, weights=weights)) for weights in ("flash", "auto"))
        assert not request.limits.ram_excess(there.arena, 600) or not there.copies
        assert without_copies(there).arena == {**dict.fromkeys(there.arena, 0), **bare.arena}
        before, after = (api.estimate_latency_ms(each, device) for each in (bare, there))
        assert before is not None and after is not None and (after < before if there.copies else after == before)
        assert there.copies or ram == "6k"


def test_auto_copies_nothing_on_a_board_whose_flash_does_not_wait() -> None:
    for board in (find("nrf52840"), find("cortex-m4")):
        assert api.flash_reads(board) is None
        made = api.make_plan(api.load(DIGITS), api.request_of(api.PlanOptions(weights="auto"), board))
        assert not made.copies


def test_copies_are_in_the_memory_with_the_most_free_bytes() -> None:
    board, model = find("stm32f746"), api.load(DIGITS)
    made = api.make_plan(model, api.request_of(api.PlanOptions(weights="ram"), board))
    homes = {made.buffer(copy_name(name)).memory for name in made.copies}
    assert homes == {max(board.memory_maps[0], key=lambda name: board.memory_maps[0][name])}
    spread = check(distribute(plan(block(), Request("layer")), {"fast": 1_000, "outside": 100_000}, overlap=False))
    assert set(spread.arena) == {"fast", "outside"}
    limits = Limits(maps=({"fast": 1_000}, {"fast": 1_000, "outside": 100_000}))
    there = with_weights(spread, Request(weights="ram", limits=limits))
    assert {there.buffer(copy_name(name)).memory for name in there.copies} == {"fast"}, "the first map has no external RAM"


def test_a_word_for_the_place_of_weights_is_checked() -> None:
    with pytest.raises(CompileError, match="--weights rom is unknown; it is one of flash, auto, ram"):
        api.request_of(api.PlanOptions(weights="rom"))


def test_weights_in_ram_make_the_anomalies_network_five_times_as_fast(shared: Path) -> None:
    model, board = api.load(shared / "models" / "mlcommons__tiny__ad01_int8.tflite"), find("rp2350")
    times = []
    for options in ({}, {"weights": "auto", "ram": "64k"}, {"weights": "auto"}):
        made = api.make_plan(model, api.request_of(api.PlanOptions(**options), board))
        times.append(api.estimate_latency_ms(made, board))
    in_flash, between, in_ram = times
    assert in_flash > 5 * in_ram and in_ram < 0.9 * between < 0.9 * 0.9 * in_flash


@pytest.mark.parametrize("name", NETWORKS)
def test_reads_begin_as_early_as_their_place_is_free(name: str) -> None:
    """Each read takes the lowest place of the earliest step, also if the arena has more bytes, which only one step uses."""
    bare = replace(plan(NETWORKS[name](), Request("unfused", core=CORE)), weights_file=True)
    late, starts = with_fetches(bare, constants_of(bare), "sram"), set[tuple[int, ...]]()
    for more, step in product(range(0, 200, 4), (0, len(late.stages) - 1)):
        end = -(-late.arena["sram"] // 4) * 4 + more
        used = Buffer("used", 4, step, step + 1)
        made = replace(late, buffers=(*late.buffers, used), offsets={**late.offsets, "used": end}, arena={"sram": end + 4})
        starts.add(_starts_by_brute_force(check(made)))
    assert len(starts) > 1


def _starts_by_brute_force(late: Plan) -> tuple[int, ...]:
    """Compare `with_early_fetches` with all places of each read, in order; return the steps in which the reads begin."""
    made, before = check(with_early_fetches(late)), 0
    assert made.arena["sram"] <= late.arena["sram"] and made.copies == late.copies
    for step, reads in fetches(late).items():
        assert [read[:3] for read in fetches(made)[step]] == [read[:3] for read in reads]
        for read in reads:
            names = [copy_name(array) for array in read.arrays]
            found = {read.start: late.offsets[names[0]]}
            for start in range(before, step):
                if any(made.variants[index] for stage in made.stages[start:step] for index in stage.ops):
                    found[start] = _lowest(late, names, start, step, read.bytes)
            start = min(start for start, at in found.items() if at is not None)
            assert (made.buffer(names[0]).start, made.offsets[names[0]]) == (start, found[start]), read
            buffers = tuple(made.buffer(b.name) if b.name in names else b for b in late.buffers)
            late = replace(late, offsets={**late.offsets, **{name: made.offsets[name] for name in names}}, buffers=buffers)
        before = max(0, step)
    assert (made.offsets, made.buffers) == (late.offsets, late.buffers)
    return tuple(made.buffer(copy_name(array)).start for array in made.copies)


def _lowest(made: Plan, names: Sequence[str], start: int, last: int, size: int) -> int | None:
    """Return the lowest place of `size` bytes that no buffer but `names` uses in steps from `start` to `last`, or None."""
    align, first = max(made.buffer(name).align for name in names), made.offsets[names[0]]
    alive = [b for b in made.buffers if b.name not in names and b.start <= last and start < b.end]
    taken = {made.offsets[b.name] + byte for b in alive for byte in range(b.bytes)}
    places = range(first % align, made.arena["sram"] - size + 1, align)
    return next((at for at in places if taken.isdisjoint(range(at, at + size))), None)


@pytest.mark.parametrize("name", NETWORKS)
def test_all_reads_begin_in_the_step_of_the_read_before(name: str) -> None:
    bare = replace(plan(NETWORKS[name](), Request("unfused", core=CORE)), weights_file=True)
    late, made = (check(with_fetches(bare, constants_of(bare), "sram", early=early)) for early in (False, True))
    steps = [step for step in fetches(made) if step >= 0]
    assert [read.start for step in steps for read in fetches(made)[step]] == [0, *steps][: len(steps)]
    assert made.lower_bound >= late.lower_bound and made.arena["sram"] >= late.arena["sram"]
    assert with_early_fetches(made).offsets == made.offsets
