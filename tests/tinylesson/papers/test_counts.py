"""Counts of papers for a planned network give the papers' printed figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases.mobile import narrow_mobilenet

from tinylesson.papers.chain import chain_of, plan_bytes
from tinylesson.papers.counts import COUNTS, counted
from tinynas.arch import Arch, Group, blocks
from tinynas.network import to_graph
from tinynas.published.patches import macs
from tinyweave.ir import CompileError, Graph
from tinyweave.ops import macs as macs_of_graph
from tinyweave.ops.window import ChainLayer
from tinyweave.passes import run_passes
from tinyweave.planning import Plan, Request, plan


@pytest.fixture(scope="module")
def network() -> tuple[Graph, Plan]:
    """Return MBV2-w0.35 of the fusion paper with skips and a classifier, and its plan."""
    graph, _ = run_passes(to_graph("mobilenet", narrow_mobilenet(144), classes=10), io="int8")
    return graph, plan(graph, Request("layer"))


def test_the_fusion_paper_s_count_gives_its_printed_figures(network: tuple[Graph, Plan]) -> None:
    graph, made = network
    work = macs_of_graph(graph)
    found = counted("fusion_paper", made, chain_of(graph), work=work, overhead=1.3, ram=16_000).rows
    printed = {name: row and (row.ram, row.overhead and round(row.overhead, 2)) for name, row in found.items()}
    assert printed["layer_by_layer"] == (194_400, 1)
    assert printed["least_ram"] == (21_288, 1.3) and printed["least_ram_any_work"] == (7_887, 1.68)
    assert printed["least_work"] == (15_340, 1.38)
    assert printed["plan"] == (194_400, None), "a plan layer by layer needs what the paper's does: no skip is at its peak"
    assert found["plan"] is not None and found["plan"].exact == 1
    assert counted("fusion_paper", made, chain_of(graph), work=work, overhead=1, ram=4_000).rows["least_work"] is None
    assert "least_work" not in counted("fusion_paper", made, chain_of(graph), work=work, overhead=1, ram=None).rows


def test_the_patch_count_finds_plans_within_its_limits(network: tuple[Graph, Plan]) -> None:
    graph, made = network
    chain = chain_of(graph)
    found = counted("patch_paper", made, chain, work=macs_of_graph(graph), overhead=1.2, ram=200_000).rows
    whole, least, within = found["layer_by_layer"], found["least_ram"], found["least_work"]
    assert whole is not None and least is not None and within is not None
    assert whole == (72 * 72 * (5 + 30), 1, 1, "no patches"), "depthwise in place"
    assert least.ram < whole.ram and 1 < least.exact <= (least.overhead or 0) <= 1.2
    assert within.ram <= 200_000 and within.overhead == 1, "layer by layer it fits"
    assert found["plan"] is not None and found["plan"].ram == sum(made.arena.values()), "the plan has no scratch"


def test_networks_without_a_count_are_refused(network: tuple[Graph, Plan]) -> None:
    graph, made = network
    for name in COUNTS:
        wide = replace_layer(chain_of(graph).layers)
        with pytest.raises(CompileError, match="not square"):
            counted(name, made, chain_of(graph)._replace(layers=wide), work=1, overhead=1, ram=None)
        with pytest.raises(CompileError, match="the plan uses several memories, dtcm and axi; this count covers one memory"):
            counted(name, replace(made, arena={"dtcm": 1, "axi": 2}), chain_of(graph), work=1, overhead=1, ram=None)
    assert plan_bytes(made, set()) == sum(made.arena.values())


def replace_layer(layers: tuple[ChainLayer, ...]) -> tuple[ChainLayer, ...]:
    return (layers[0]._replace(kernel=(3, 5)), *layers[1:])


def test_counts_of_a_small_network_by_hand() -> None:
    """16x16x3 -> 3x3/2 -> 8x8x4 -> depthwise 3x3 -> 8x8x4 -> 1x1 -> 8x8x6."""
    graph, _ = run_passes(to_graph("small", blocks(Arch((16, 16, 3), 4, (Group(6, 1, (3,), (1,)),)))), io="int8")
    chain, made = chain_of(graph), plan(graph, Request("layer"))
    assert macs(chain.layers) == 64 * (27 * 4 + 9 * 4 + 4 * 6) and chain.left_out == ()
    found = counted("patch_paper", made, chain, work=macs_of_graph(graph), overhead=2, ram=None).rows
    whole, any_work = found["layer_by_layer"], found["least_ram_any_work"]
    assert whole is not None and whole.ram == 16 * 16 * 3 + 8 * 8 * 4
    # with patches of one pixel: 7x7x3 of the image, 3x3x4 of the next map, and the whole output
    assert any_work is not None and any_work.ram == 7 * 7 * 3 + 3 * 3 * 4 + 8 * 8 * 6
    assert any_work.overhead == (64 * (9 * 27 * 4 + 9 * 4 + 4 * 6)) / macs(chain.layers)
