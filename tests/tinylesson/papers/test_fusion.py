"""The fusion paper's count gives the paper's table exactly; both problems are solved as by brute force over all cuts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from cases.mobile import fusion_chains, narrow_mobilenet

from tinylesson.papers.chain import square
from tinylesson.papers.fusion import FusionCut, block, exact_macs, least_macs, least_ram, plan_ram, unfused
from tinynas.arch import Block as Bottleneck
from tinynas.arch import layers
from tinynas.network import to_graph
from tinynas.published.patches import macs
from tinyweave.ops.window import ChainLayer
from tinyweave.passes import run_passes
from tinyweave.planning import Request, plan

# per chain: bytes and MACs without fusion; F limit -> bytes, F; kB -> F
TABLE = {
    "MBV2-w0.35": (
        (194_400, 18_909_490),
        {1.1: (67_905, 1.10), 1.3: (21_288, 1.30), 1.5: (15_340, 1.38), None: (7_887, 1.68)},
        {16: 1.38, 32: 1.25, 64: 1.23, 128: 1.02, 256: 1.0},
    ),
    "MN2-vww5": (
        (96_000, 11_578_496),
        {1.1: (32_792, 1.04), 1.3: (17_760, 1.30), 1.5: (13_376, 1.35), None: (12_000, 1.96)},
        {16: 1.35, 32: 1.11, 64: 1.02, 128: 1.0, 256: 1.0},
    ),
    "MN2-320K": (
        (309_760, 81_625_520),
        {1.1: (190_096, 1.04), 1.3: (186_032, 1.25), 1.5: (94_184, 1.45), None: (42_643, 2.69)},
        {16: None, 32: None, 64: 2.02, 128: 1.45, 256: 1.0},
    ),
}
# F by the paper's count -> exact F of the same cut
EXACT = {
    "MBV2-w0.35": {1.68: 1.88},
    "MN2-vww5": {1.0: 1.21, 1.11: 1.34, 1.35: 1.62, 1.96: 2.44},
    "MN2-320K": {2.69: 3.47},
}


def assert_figures_of_the_paper(name: str, found: Sequence[ChainLayer]) -> None:
    vanilla, by_overhead, by_ram = TABLE[name]
    assert (unfused(found).ram, unfused(found).macs) == vanilla == (unfused(found).ram, macs(found))
    cuts = {f"F <= {limit}": least_ram(found, limit) for limit in by_overhead}
    cuts |= {f"{ram} kB": least_macs(found, ram * 1000) for ram in by_ram}
    factor = {at: round(cut.macs / macs(found), 2) if cut else None for at, cut in cuts.items()}
    for limit, (ram, overhead) in by_overhead.items():
        cut = cuts[f"F <= {limit}"]
        assert cut is not None and (cut.ram, factor[f"F <= {limit}"]) == (ram, overhead)
    assert {ram: factor[f"{ram} kB"] for ram in by_ram} == by_ram
    exact = {factor[at]: round(exact_macs(found, cut) / macs(found), 2) for at, cut in cuts.items() if cut}
    assert {overhead: exact[overhead] for overhead in EXACT[name]} == EXACT[name]


def test_the_count_gives_the_paper_s_table_for_mobilenet() -> None:
    assert_figures_of_the_paper("MBV2-w0.35", layers(narrow_mobilenet(144)))


@pytest.mark.shared
@pytest.mark.parametrize("name", TABLE)
def test_the_count_gives_the_paper_s_table(name: str, shared: Path) -> None:
    chains = fusion_chains(shared / "nets" / "msf_models.json")
    assert chains["MBV2-w0.35"] == layers(narrow_mobilenet(144))
    assert_figures_of_the_paper(name, chains[name])


def test_the_count_of_a_block_computed_by_hand() -> None:
    """8x8x2 -> 3x3 -> 8x8x4 -> depthwise 3x3 -> 8x8x4 -> 1x1 -> 8x8x3, the first two fused."""
    found = [square(8, 2, 4, 3), square(8, 4, 4, 3, depthwise=True), square(8, 4, 3)]
    fused = block(found, 0, 2)
    assert fused is not None
    # the output, then 3 columns of 5 and of 3 rows; in the paper's code the last of 4 tiles is inside the first map
    assert fused.ram == 8 * 8 * 4 + 3 * 5 * 2 + 3 * (3 + 1) * 4
    # rows: the first layer's 8 + 2 - 5 + 1 = 6 steps of 3, the second one's 8 of 1
    assert fused.macs == 6 * 3 * 8 * (9 * 2 * 4) + 8 * 8 * (9 * 4)
    # of 8 steps of 3 rows, the first and the last have a row less
    cut = FusionCut((fused, *unfused(found).blocks[2:]))
    assert exact_macs(found, cut) == 22 * 8 * (9 * 2 * 4) + 8 * 8 * (9 * 4) + 8 * 8 * 12
    assert block([square(4, 1, 1, 3)] * 2, 0, 2) is None, "a tile of 5 rows in a map of 4"


def random_chain(rng: random.Random, length: int, padded: bool) -> list[ChainLayer]:
    found, side, c = list[ChainLayer](), rng.randint(20, 30), rng.randint(1, 8)
    for _ in range(length):
        kernel, depthwise = rng.choice((1, 1, 3, 3, 5)), rng.random() < 0.4
        c_out, stride = c if depthwise else rng.randint(1, 8), rng.choice((1, 1, 2))
        pad = (kernel // 2, kernel // 2) if padded else (0, 0)
        if side + sum(pad) < kernel:
            break
        layer = ChainLayer(side, side, c, c_out, (kernel, kernel), (stride, stride), (pad, pad), depthwise)
        found.append(layer)
        side, c = layer.h_out, c_out
    return found


def all_cuts(found: Sequence[ChainLayer]) -> list[FusionCut]:
    cuts = []
    for count in range(len(found)):
        for inner in itertools.combinations(range(1, len(found)), count):
            blocks = [block(found, a, b) for a, b in itertools.pairwise((0, *inner, len(found)))]
            if None not in blocks:
                cuts.append(FusionCut(tuple(filter(None, blocks))))
    return cuts


@pytest.mark.parametrize("seed", range(20))
def test_least_ram_and_least_macs_equal_brute_force_over_all_cuts(seed: int) -> None:
    rng = random.Random(seed)
    found = random_chain(rng, 8, padded=True)
    cuts, limit = all_cuts(found), rng.uniform(1.0, 1.5)
    best = least_ram(found, limit)
    allowed = [cut.ram for cut in cuts if cut.macs <= limit * macs(found)]
    assert (best.ram if best else None) == min(allowed, default=None)
    ram = rng.choice([cut.ram for cut in cuts]) - rng.randint(0, 1)
    cheapest = least_macs(found, ram)
    within = [(cut.macs, cut.ram) for cut in cuts if cut.ram <= ram]
    assert ((cheapest.macs, cheapest.ram) if cheapest else None) == min(within, default=None)


@pytest.mark.parametrize("seed", range(20))
def test_without_padding_the_paper_counts_all_macs(seed: int) -> None:
    found = random_chain(random.Random(seed), 6, padded=False)
    assert all(cut.macs == exact_macs(found, cut) for cut in all_cuts(found))


def test_plan_ram_follows_the_rules_of_the_paper() -> None:
    """A layer-by-layer plan needs as much RAM as the paper's vanilla run; a fused plan needs less."""
    found = layers(narrow_mobilenet(96))
    graph, _ = run_passes(to_graph("mobilenet", [Bottleneck((layer,)) for layer in found]), io="int8")
    assert plan_ram(plan(graph, Request("layer"))) == unfused(found).ram
    streamed_inputs = plan(graph, Request(stream_inputs=True))
    assert plan_ram(streamed_inputs) <= sum(streamed_inputs.arena.values()) < unfused(found).ram
    best = least_ram(found, 1.0)
    assert best is not None and plan_ram(streamed_inputs) < best.ram
