"""Graphs of architectures with random weights: MACs and weight counts match the architecture, and no layer is constant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases.mobile import bottlenecks, fusion_chains, narrow_mobilenet, published

from tinynas.arch import blocks, layers, macs
from tinynas.network import to_graph
from tinynas.published.mobile import mcunet_320kb, mcunet_512kb, mnasnet_b1, proxyless_mobile
from tinynas.published.resnet import resnet
from tinyweave import ops
from tinyweave.ops import macs_original
from tinyweave.passes import run_passes
from tinyweave.planning.order.order_search import file_order, live_bytes, without_views


@pytest.mark.parametrize("seed", range(3))
def test_outputs_of_random_weights_differ_by_image_in_all_layers(seed: int) -> None:
    graph = to_graph("mobilenet", narrow_mobilenet(48), classes=10, seed=seed)
    image = np.random.default_rng(seed).integers(-128, 128, graph.tensors["image"].shape, np.int8)
    values = ops.run(graph, {"image": image}, keep=True)
    assert all(values[op.outputs[0]].std() > 5 for op in graph.ops)


def test_bottlenecks_recovers_the_blocks_from_their_layers() -> None:
    narrow = narrow_mobilenet(48)
    assert bottlenecks(layers(narrow)) == narrow
    assert sum(block.residual for block in narrow) == 10


def test_channels_of_mnasnet_are_multiples_of_8_near_the_width() -> None:
    assert [group.width for group in mnasnet_b1(width=0.9).groups] == [16, 24, 40, 72, 88, 176, 288]


@pytest.mark.shared
def test_mcunet_320kb_equals_a_chain_of_the_fusion_paper(shared: Path) -> None:
    """The chain has skips, which must be in RAM beside the input and output of each layer that they bypass."""
    arch = published(shared / "nets" / "mcunet" / "mcunet-320kb-1mb_imagenet.json")
    found = fusion_chains(shared / "nets" / "msf_models.json")["MN2-320K"]
    assert layers(blocks(arch)) == found and bottlenecks(found) == blocks(arch)
    assert sum(block.residual for block in blocks(arch)) == 11
    graph, _ = run_passes(to_graph("mcunet_320kb", blocks(arch), arch.classes), io="int8")
    assert macs_original(graph) == macs(arch) == 81_785_520
    assert max(live_bytes(graph, file_order(graph), without_views(graph))) == 309_760 + 44 * 44 * 16 == 340_736


@pytest.mark.shared
def test_published_architectures_equal_the_published_graphs(shared: Path) -> None:
    for name, made in (("320kb-1mb", mcunet_320kb()), ("512kb-2mb", mcunet_512kb())):
        assert made == published(shared / "nets" / "mcunet" / f"mcunet-{name}_imagenet.json")
    assert proxyless_mobile() == published(shared / "nets" / "mcunet" / "proxyless_mobile.json")


@pytest.mark.parametrize("depth", [18, 50])
def test_no_layer_of_a_resnet_is_constant(depth: int) -> None:
    graph = resnet(depth, 64, 0.25)
    image = np.random.default_rng(0).integers(-128, 128, graph.tensors["image"].shape, np.int8)
    values = ops.run(graph, {"image": image}, keep=True)
    assert all(values[op.outputs[0]].std() > 5 for op in graph.ops)
    assert graph.tensors[graph.outputs[0]].shape == (1, 1000)


@pytest.mark.shared
def test_graphs_of_published_networks_have_their_macs(shared: Path) -> None:
    paths = [p for p in sorted((shared / "nets" / "mcunet").glob("*.json")) if not p.stem.endswith(".layers")]
    assert len(paths) == 8
    for path in paths:
        arch = published(path)
        assert macs_original(to_graph(path.stem, blocks(arch), arch.classes)) == macs(arch)
