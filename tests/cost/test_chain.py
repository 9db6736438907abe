"""Chains of layers: out of graphs, and the networks that the papers' counts are tried on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.mobile import Block, bottlenecks, fusion_chains, layers, mobilenet_v2, published, to_graph
from cases.tiny import chain

from tinyweave import ops
from tinyweave.cost.chain import layers_of, macs
from tinyweave.cost.macs import macs_original
from tinyweave.ir import CompileError, Graph
from tinyweave.passes import run_passes
from tinyweave.plan.order import each_its_own, file_order, live_bytes


def passed(graph: Graph) -> Graph:
    return run_passes(graph, float_io=False)[0]


def test_chains_come_from_graphs_and_no_others_do() -> None:
    found = layers(mobilenet_v2(48, 0.35))
    graph = passed(to_graph("mobilenet", [Block((layer,)) for layer in found]))
    assert layers_of(graph) == found, "no pass takes anything from it"
    assert macs(found) == macs_original(graph)
    with pytest.raises(CompileError, match="is no convolution of what the op before it made"):
        layers_of(passed(to_graph("mobilenet", mobilenet_v2(48, 0.35))))  # with skips
    graph = chain()
    begin = replace(graph, ops=graph.ops[:2], outputs=graph.ops[1].outputs)
    assert [layer.padding for layer in layers_of(begin)] == [((0, 1), (0, 1)), ((1, 1), (1, 1))]


@pytest.mark.parametrize("seed", range(3))
def test_random_weights_leave_all_layers_something_to_do(seed: int) -> None:
    graph = to_graph("mobilenet", mobilenet_v2(48, 0.35), classes=10, seed=seed)
    image = np.random.default_rng(seed).integers(-128, 128, graph.tensors["image"].shape, np.int8)
    values = ops.run(graph, {"image": image}, keep=True)
    assert all(values[op.outputs[0]].std() > 5 for op in graph.ops)


def test_blocks_of_a_chain() -> None:
    blocks = mobilenet_v2(48, 0.35)
    assert bottlenecks(layers(blocks)) == blocks
    assert sum(block.residual for block in blocks) == 10


@pytest.mark.shared
def test_a_published_network(shared: Path) -> None:
    """MCUNet-320KB is one of the fusion paper's chains, with skips, which one layer's input and output must lie beside."""
    blocks = published(shared / "nets" / "mcunet" / "mcunet-320kb-1mb_imagenet.json")
    found = fusion_chains(shared / "nets" / "msf_models.json")["MN2-320K"]
    assert layers(blocks) == found and bottlenecks(found) == blocks
    assert sum(block.residual for block in blocks) == 11
    graph = passed(to_graph("mcunet_320kb", blocks, classes=1000))
    assert macs_original(graph) == macs(found) + 160 * 1000 == 81_785_520
    assert max(live_bytes(graph, file_order(graph), each_its_own(graph))) == 309_760 + 44 * 44 * 16 == 340_736


@pytest.mark.shared
def test_all_published_networks_become_graphs(shared: Path) -> None:
    paths = [p for p in sorted((shared / "nets" / "mcunet").glob("*.json")) if not p.stem.endswith(".layers")]
    assert len(paths) == 8
    for path in paths:
        blocks = published(path)
        graph = to_graph(path.stem, blocks, classes=1000)
        assert macs_original(graph) == macs(layers(blocks)) + blocks[-1].layers[-1].c_out * 1000
