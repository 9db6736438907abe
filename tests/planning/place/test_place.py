"""Placement: buffers share bytes only by a rule, and the arena is not below the bound and minimal if reported as minimal."""

from __future__ import annotations

import random
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

import pytest

from tinyweave import planning
from tinyweave.planning.place import branch_and_bound as search
from tinyweave.planning.place import place as place_module
from tinyweave.planning.place.place import NO_RULES, SEARCH_ORDERS, Rules, arena_bytes, place, placement_problem
from tinyweave.planning.plan import Buffer
from tinyweave.support import toolchain

greedy = partial(place, tries=0)


def random_buffers(rng: random.Random, count: int = 40, steps: int = 30) -> list[Buffer]:
    buffers = []
    for index in range(rng.randint(1, count)):
        start = rng.randrange(steps)
        size = rng.choice([0, 1, 3, 4, 60, 1024, rng.randint(1, 5000)])
        buffers.append(Buffer(f"b{index}", size, start, start + rng.randint(1, 8), rng.choice([1, 4, 16])))
    return buffers


def tiny_buffers(rng: random.Random) -> list[Buffer]:
    """Return buffers that are few enough for brute force and similar enough to be difficult to place."""
    buffers = []
    for index in range(rng.randint(2, 5)):
        start = rng.randrange(5)
        align = rng.choice([1, 1, 2, 4])
        buffers.append(Buffer(f"b{index}", rng.randint(1, 7), start, start + rng.randint(1, 4), align))
    return buffers


def random_rules(rng: random.Random, buffers: list[Buffer]) -> Rules:
    """Return rules like those of a network: an output that starts in its input's last step may overlap it."""
    rules = {}
    for a, b in permutations(buffers, 2):
        if b.start < a.start == b.end - 1 and rng.random() < 0.7:
            distance = rng.choice([0, 0, 1, rng.randint(0, 12)])
            rules[a.name, b.name] = distance
            if rng.random() < 0.2:
                rules[b.name, a.name] = rng.randint(0, 9)
    return rules


def apart(buffers: list[Buffer], rules: Rules, offsets: dict[str, int]) -> bool:
    """Return whether all live buffers are disjoint or overlap as a rule allows, checked byte by byte."""
    for a, b in combinations(buffers, 2):
        if max(a.start, b.start) < min(a.end, b.end) and a.bytes and b.bytes:
            at = {a.name: offsets[a.name], b.name: offsets[b.name]}
            disjoint = at[a.name] + a.bytes <= at[b.name] or at[b.name] + b.bytes <= at[a.name]
            allowed = any({a, b} == set(at) and at[a] + distance <= at[b] for (a, b), distance in rules.items())
            if not disjoint and not allowed:
                return False
    return all(offsets[b.name] % b.align == 0 for b in buffers)


def smallest(buffers: list[Buffer], rules: Rules) -> int:
    """Return the smallest arena, found by trying all offsets of all buffers in arenas of increasing size."""

    def possible(capacity: int, offsets: dict[str, int]) -> bool:
        if len(offsets) == len(buffers):
            return True
        buffer = buffers[len(offsets)]
        known = buffers[: len(offsets) + 1]
        return any(
            apart(known, rules, {**offsets, buffer.name: offset}) and possible(capacity, {**offsets, buffer.name: offset})
            for offset in range(0, capacity - buffer.bytes + 1, buffer.align)
        )

    return next(capacity for capacity in range(max(b.bytes for b in buffers), 1000) if possible(capacity, {}))


@pytest.mark.parametrize("ruled", [False, True], ids=["apart", "rules"])
@pytest.mark.parametrize("seed", range(20))
def test_placements_are_valid_and_never_worse_than_greedy(seed: int, ruled: bool) -> None:
    rng = random.Random(seed)
    buffers = random_buffers(rng)
    rules = random_rules(rng, buffers) if ruled else NO_RULES
    simple = greedy(buffers, rules)
    found = place(buffers, rules, tries=2000)
    assert apart(buffers, rules, simple.offsets)
    assert apart(buffers, rules, found.offsets)
    assert arena_bytes(buffers, found.offsets) == found.bytes <= simple.bytes
    assert simple.lower_bound <= found.lower_bound <= found.bytes


@pytest.mark.parametrize("ruled", [False, True], ids=["apart", "rules"])
@pytest.mark.parametrize("seed", range(30))
def test_tiny_placements_are_the_smallest(seed: int, ruled: bool) -> None:
    rng = random.Random(seed)
    buffers = tiny_buffers(rng)
    rules = random_rules(rng, buffers) if ruled else NO_RULES
    found = place(buffers, rules)
    assert found.bytes == found.lower_bound == smallest(buffers, rules)
    assert greedy(buffers, rules).lower_bound <= found.bytes


def test_brute_force_sees_what_greedy_and_the_bound_miss() -> None:
    """The tests above contain instances for which the search, or its proof, is needed."""
    searched = proved = saved = 0
    for seed in range(400):
        rng = random.Random(seed)
        buffers = tiny_buffers(rng)
        rules = random_rules(rng, buffers)
        found = place(buffers, rules)
        searched += found.bytes < greedy(buffers, rules).bytes
        proved += greedy(buffers, rules).lower_bound < found.bytes
        saved += found.bytes < place(buffers).bytes
    assert min(searched, proved, saved) > 3, (searched, proved, saved)


def test_the_branch_and_bound_search_is_the_same_in_c_and_python() -> None:
    if toolchain.library(search.SOURCE) is None:
        pytest.skip("needs a C compiler")
    kinds = set()
    for seed in range(1500):
        rng = random.Random(seed)
        buffers = [*random_buffers(rng, count=14, steps=8), Buffer("a", 1, 0, 1)]
        rules = random_rules(rng, buffers)
        problem = placement_problem(buffers, rules)
        with_bytes = [x for x, buffer in enumerate(buffers) if buffer.bytes]  # empty buffers are not placed
        order = sorted(with_bytes, key=lambda x: SEARCH_ORDERS[seed % 2](buffers[x]))
        capacity = greedy(buffers, rules).lower_bound + rng.choice([-1, 0, 0, 0, 1, 30])
        tries = rng.choice([3, 30, 300])
        ours = search.search_in_python(problem, order, seed % 3 == 0, capacity, tries)
        in_c = search._search_in_c(problem)
        assert in_c is not None
        assert in_c(order, seed % 3 == 0, capacity, tries) == ours, seed
        kinds.add("found" if ours[0] else "impossible" if ours[1] else "gave up")
    assert kinds == {"found", "impossible", "gave up"}


PLANNER = Path(planning.__file__).parent
SOURCES = (*sorted(PLANNER.rglob("*.c")), PLANNER.parents[1] / "tinynas" / "ram" / "chain.c")


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_planner_in_c_compiles_without_a_warning(source: Path, tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    toolchain.compile_c(toolchain.host(), [*toolchain.LIBRARY_FLAGS, *strict, source, "-o", tmp_path / "planner.so"])


def test_without_a_compiler_the_placement_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = hard_buffers()
    expected = place(buffers, tries=3000)
    monkeypatch.setattr(toolchain, "library", lambda *sources: None)
    assert place(buffers, tries=3000) == expected


def test_an_arena_of_enough_bytes_ends_the_search() -> None:
    buffers = hard_buffers()
    best, simple = place(buffers), greedy(buffers).bytes
    between = (best.bytes + simple) // 2
    assert best.bytes <= place(buffers, enough=between).bytes <= between
    assert place(buffers, enough=simple).bytes == simple
    assert place(buffers, enough=1) == best


def test_the_gap_to_an_unreachable_bound_is_halved_within_the_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test replaces the search by one that succeeds above 700 bytes, and below spends its tries without a result."""
    buffers, spent = [Buffer("a", 100, 0, 2, align=1), Buffer("b", 100, 2, 4, align=1)], list[int]()

    def search_above_700(order: object, reorder: bool, capacity: int, tries: int) -> search.Result:
        if capacity > 700:
            return [capacity - 100, 0], 0, 0
        spent.append(tries)
        return None, 0, tries

    monkeypatch.setattr(place_module, "searcher", lambda problem: search_above_700)
    monkeypatch.setattr(place_module, "_greedy", lambda *_: [900, 0])
    for tries, error in ((4_000, 100), (49_600, 20)):
        spent.clear()
        found = place(buffers, tries=tries)
        assert found.lower_bound == 100 and 700 < found.bytes <= 700 + error
        assert sum(spent) == tries


def hard_buffers() -> list[Buffer]:
    """Return buffers for which no greedy order reaches the bound."""
    for seed in range(1000):
        buffers = [b for b in random_buffers(random.Random(seed), count=60) if b.bytes]
        if len(buffers) > 30 and greedy(buffers).bytes > 1.1 * greedy(buffers).lower_bound:
            return buffers
    raise AssertionError("no hard buffers")


@pytest.mark.shared
@pytest.mark.parametrize("name", ["F", "K"])
def test_hard_minimalloc_instances_are_solved(name: str, shared: Path) -> None:
    lines = (shared / "nets" / "minimalloc" / f"{name}.1048576.csv").read_text().split()[1:]
    rows = [tuple(map(int, line.split(","))) for line in lines]
    buffers = [Buffer(str(index), size, lower, upper, align=1) for index, lower, upper, size in rows]
    found = place(buffers, tries=1_000_000)
    assert apart(buffers, NO_RULES, found.offsets)
    assert found.bytes == found.lower_bound == 1_048_576 < greedy(buffers).bytes


def test_lower_bound_is_the_busiest_step() -> None:
    buffers = [Buffer("a", 100, 0, 2), Buffer("b", 50, 1, 3), Buffer("c", 70, 2, 4)]
    assert greedy(buffers).lower_bound == 150  # a and b in step 1; c reuses a's bytes in step 2


def test_lower_bound_includes_alignment_padding() -> None:
    assert greedy([Buffer("a", 10, 0, 2), Buffer("b", 9, 0, 2)]).lower_bound == 21  # b at 12
    assert greedy([Buffer("a", 10, 0, 2, align=1), Buffer("b", 9, 0, 2, align=2)]).lower_bound == 19


def test_in_place_and_trailing_outputs() -> None:
    chain = [Buffer("x", 400, 0, 2), Buffer("y", 400, 1, 3), Buffer("z", 300, 2, 4)]
    assert place(chain).bytes == 800
    assert place(chain, {("y", "x"): 0}).bytes == 700
    assert place(chain, {("y", "x"): 0, ("z", "y"): 0}).bytes == 400
    assert place(chain, {("y", "x"): 40, ("z", "y"): 0}).bytes == 440
    offsets = place(chain, {("y", "x"): 40, ("z", "y"): 0}).offsets
    assert offsets["y"] + 40 <= offsets["x"]


def test_a_distance_larger_than_the_buffer_allows_no_overlap() -> None:
    buffers = [Buffer("x", 40, 0, 2), Buffer("y", 8, 1, 3)]
    assert place(buffers, {("y", "x"): 100}).bytes == place(buffers).bytes == 48


def test_a_chain_reaches_the_lower_bound() -> None:
    chain = [Buffer(f"t{i}", size, max(0, i - 1), i + 1) for i, size in enumerate([400, 1600, 800, 800, 200, 12])]
    assert greedy(chain).bytes == greedy(chain).lower_bound == 2400


def test_no_buffers_need_no_memory() -> None:
    assert greedy([]).lower_bound == greedy([]).bytes == place([]).bytes == 0
