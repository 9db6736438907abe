"""Several memories: each buffer is in one memory within its capacity, hot buffers are in fast ones, outputs are the same."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from cases.tiny import NETWORKS
from codegen.emitted import emitted
from fuzz.generate import random_network

from tinyweave import api
from tinyweave.codegen import Origin, emit
from tinyweave.devices import find
from tinyweave.ir import Graph, verify
from tinyweave.planning import Limits, Objective, Plan, Request, check, from_json, plan, planner, to_json
from tinyweave.planning.memories import excess, traffic
from tinyweave.simulate import compare
from tinyweave.support import toolchain

NAMES = ("fast", "slow")


def two(graph: Graph, *shares: float, schedule: str = "best", objective: Objective = "balanced") -> tuple[Plan, dict[str, int]]:
    """Return a plan in two memories whose sizes are these fractions of the bytes in one memory."""
    whole = sum(plan(graph, Request(schedule, objective)).arena.values())
    memories = {name: int(whole * share) for name, share in zip(NAMES, shares, strict=True)}
    return plan(graph, Request(schedule, objective, limits=Limits(maps=(memories,)))), memories


@pytest.mark.parametrize("schedule", ["layer", "best"])
@pytest.mark.parametrize("seed", rest_in_sweeps(range(12), 4))
def test_plans_of_random_networks_in_two_memories_are_sound(seed: int, schedule: str) -> None:
    graph = random_network(seed, 16)
    made, memories = two(graph, 0.45, 1.0, schedule=schedule)
    check(made)
    assert set(made.arena) <= set(memories) and {b.memory for b in made.buffers} == set(made.arena)
    assert excess(made.arena, memories) == 0  # everything fits the slow one
    small = [b for b in made.buffers if b.bytes and b.bytes <= memories["fast"]]
    assert not small or any(b.memory == "fast" for b in made.buffers)
    assert to_json(made) == to_json(from_json(to_json(made), graph))
    if seed < 3:
        assert to_json(two(graph, 0.45, 1.0, schedule=schedule)[0]) == to_json(made)


@pytest.mark.parametrize("seed", rest_in_sweeps(range(12), 4))
def test_the_objective_size_divides_buffers_only_if_that_takes_no_more_bytes(seed: int) -> None:
    graph = random_network(seed, 16)
    whole = sum(plan(graph, Request(objective="size")).arena.values())
    assert sum(two(graph, 0.45, 1.0, objective="size")[0].arena.values()) <= whole
    divided, memories = two(graph, 0.8, 0.7, objective="size")
    other, _ = two(graph, 0.8, 0.7)
    assert excess(divided.arena, memories) <= excess(other.arena, memories)


def test_a_plan_within_the_largest_memory_is_the_last_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here no plan above the largest memory can be divided: each exceeds the memories by a byte."""
    net, x = Net(32, 16, 3), "image"
    for channels, stride in ((10, 1), (9, 1), (8, 2), (7, 1), (6, 2), (5, 1)):
        x = net.conv(x, channels, 3, stride=stride)
    graph = net.finish("deep", x)
    request = Request(objective="speed", core="cortex-m4")
    sizes = [sum(made.arena.values()) for made in planner.PlanSearch(graph, request).front(checked=False)]
    assert len(sizes) > 4

    def distributed(made: Plan, *_: object, **__: object) -> Plan:
        return replace(made, arena={"slow": min(sum(made.arena.values()), sizes[-1] + 1)})

    monkeypatch.setattr(planner, "distribute_over_maps", distributed)
    limits = Limits(maps=({"fast": sizes[-1], "slow": sizes[-1]},))
    made = planner.PlanSearch(graph, replace(request, limits=limits)).plan(checked=False)
    assert sum(made.arena.values()) == sizes[-1]


def test_a_plan_that_cannot_be_divided_gives_way_to_a_smaller_one() -> None:
    """The unfused plan fits into both memories together, but its largest map into neither; fused, the map is a few rows."""
    net = Net(32, 32, 3)
    graph = net.finish("wide", net.conv(net.conv("image", 10, 3), 8, 3, stride=2))
    memories = {"fast": 9000, "slow": 9000}
    whole = plan(graph, Request(objective="flash", core="cortex-m4", limits=Limits(sum(memories.values()))))
    assert max(buffer.bytes for buffer in whole.buffers) > max(memories.values())
    made = plan(graph, Request(objective="flash", core="cortex-m4", limits=Limits(maps=(memories,))))
    assert excess(made.arena, memories) == 0


@pytest.mark.parametrize("seed", rest_in_sweeps(range(12), 4))
def test_a_plan_that_fits_nowhere_has_the_least_excess(seed: int) -> None:
    graph = random_network(seed, 16)
    made, memories = two(graph, 0.2, 0.3)
    over = excess(made.arena, memories)
    missing = sum(plan(graph).arena.values()) - sum(memories.values())
    assert over > 0 and over > missing - 8  # alignment may cost some bytes in one memory
    limits = api.Limits(sum(memories.values()), None, (memories,))
    assert limits.ram_excess(made.arena) == over
    assert limits.ram_excess(made.arena, 100) == over + 100 - min(
        100, max(0, *(size - made.arena.get(name, 0) for name, size in memories.items()))
    )


@pytest.mark.parametrize("seed", range(5))
def test_all_buffers_are_in_the_fastest_memory_if_it_holds_them(seed: int) -> None:
    graph = random_network(seed, 16)
    one = plan(graph)
    made, _ = two(graph, 1.0, 5.0)
    assert (made.offsets, dict(made.arena)) == (one.offsets, {"fast": one.arena["sram"]})


def halves() -> Graph:
    """Return a network in which `cold` is kept while two convolutions use `hot` and `warm`, 3,072 bytes each."""
    net = Net(16, 16, 3)
    cold = net.conv("image", 12)
    hot = net.conv("image", 12)
    warm = net.conv(hot, 12, 5)
    last = net.add(cold, net.conv(warm, 12, 5))
    return verify(Graph("halves", net.tensors, tuple(net.ops), ("image",), (last,)))


def test_hot_buffers_are_in_the_fast_memory() -> None:
    graph = halves()
    made = plan(graph, Request("layer", limits=Limits(maps=({"fast": 6200, "slow": 6200},))))
    heat = traffic(made)
    cold, hot, warm = (graph.ops[index].outputs[0] for index in (0, 1, 2))
    macs = 16 * 16 * 12 * 12 * 25
    assert heat[hot] == 3072 + (macs - clipped(16, 5) * 12 * 12) and heat[cold] == 2 * 3072
    assert (made.memory(hot), made.memory(warm), made.memory(cold)) == ("fast", "fast", "slow")


def clipped(size: int, kernel: int) -> int:
    """Return the number of taps of all windows inside the padding."""
    inside = sum(min(i + kernel // 2, size - 1) - max(i - kernel // 2, 0) + 1 for i in range(size))
    return (size * kernel) ** 2 - inside**2


def test_memory_maps_are_tried_in_order() -> None:
    graph = NETWORKS["residual"]()
    whole = plan(graph).arena["sram"]
    maps = ({"a": whole // 4, "b": whole // 4}, {"c": whole}, {"d": whole})
    assert set(plan(graph, Request(limits=Limits(maps=maps))).arena) == {"c"}
    assert set(plan(graph, Request(limits=Limits(maps=(maps[0], {"c": whole - 1})))).arena) == {"c"}  # exceeded by one byte


def test_arenas_of_boards_use_fast_adjoining_and_several_memories() -> None:
    """A plan uses the tightly coupled memory alone, then several memories, then adjoining ones as one memory.

    If none of these fits, the excess is reported.
    """
    f746, h743 = (api.device_limits(find(name)) for name in ("stm32f746", "stm32h743"))
    kib = 1024

    def arena(limits: api.Limits, *channels: int) -> dict[str, int]:
        net = Net(64, 64, 1)
        outputs = tuple(net.conv("image", c) for c in channels)
        return dict(
            plan(
                verify(Graph("board", net.tensors, tuple(net.ops), ("image",), outputs)),
                Request("layer", limits=Limits(maps=limits.maps)),
            ).arena
        )

    assert set(arena(f746, 4)) == {"dtcm"}
    assert f746.maps == ({"dtcm": 64 * kib, "sram": 256 * kib}, {"sram": 320 * kib})
    divided = arena(f746, 30, 15)
    assert set(divided) == {"dtcm", "sram"} and f746.ram_excess(divided) == 0
    joined = arena(f746, 75)
    assert joined == {"sram": 76 * 4 * kib} and f746.ram_excess(joined) == 0
    assert f746.ram_excess(joined, 17 * kib) == kib
    assert set(arena(h743, 30)) == {"dtcm"}
    far = arena(h743, 100, 70)
    assert {"axi", "sram"} <= set(far) <= {"dtcm", "axi", "sram", "sram4"} and not h743.ram_excess(far)
    assert h743.ram_excess(arena(h743, 100, 129)) == (129 * 4 - 288) * kib  # 400 KiB in axi, the rest in sram


@pytest.mark.parametrize("name", [*NETWORKS, *range(6)])
def test_plans_in_two_memories_give_the_bytes_of_the_reference(name: str | int, tmp_path: Path) -> None:
    """The C runs on the host and on an emulated core, and touches exactly the claimed bytes of each memory."""
    graph = random_network(name, 12) if isinstance(name, int) else NETWORKS[name]()
    made, _ = two(graph, 0.5, 1.0)
    emitted(made, tmp_path, "model")
    found = compare.verify(made, tmp_path, "model", compare.samples(graph, 3, 0), cores=["cortex-m4"])
    assert found.ok and found.touched == {"host": dict(made.arena), "cortex-m4": dict(made.arena)}


def test_the_memory_header_puts_arrays_into_named_sections(tmp_path: Path) -> None:
    made, _ = two(NETWORKS["residual"](), 0.6, 1.0)
    assert set(made.arena) == set(NAMES)
    files = emit(made, "net", Origin("net.tflite", "0" * 64)).files
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "main.c").write_text('#include "net_memory.h"\nint main(void) { return net_init(&net_memories); }\n')
    (tmp_path / "bss.c").write_text((tmp_path / "main.c").read_text())
    own = '#define NET_FAST_SECTION __attribute__((section(".tcm")))\n'
    (tmp_path / "main.c").write_text(f"{own}#define TW_PLACE_SLOW\n{(tmp_path / 'main.c').read_text()}")
    for compiler in {toolchain.host(), toolchain.arm()}:
        for main, wanted in (("main", (".tcm", ".tw_slow.net")), ("bss", ())):
            command = [*compiler.command, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-c", f"{main}.c", "-o", f"{main}.o"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and not done.stderr, done.stderr
            # the name of a section may be stored as the end of the name of its relocations
            names = (tmp_path / f"{main}.o").read_bytes()
            assert tuple(s for s in (".tcm", ".tw_fast.net", ".tw_slow.net") if s.encode() + b"\0" in names) == wanted
    one = plan(NETWORKS["residual"]())
    assert "net_memory.h" not in emit(one, "net", Origin("net.tflite", "0" * 64)).files


def test_reserved_bytes_are_taken_from_the_largest_memory() -> None:
    limits = api.Limits(300, 10, ({"fast": 100, "slow": 200}, {"sram": 300}))
    assert limits.less(40) == api.Limits(260, 10, ({"fast": 100, "slow": 160}, {"sram": 260}))
    assert limits.less(0) == limits and api.Limits(None, None).less(40) == api.Limits(None, None)
    assert api.Limits(30, None).less(40).ram == 0
