"""Chains of layers out of graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases.mobile import narrow_mobilenet
from cases.tiny import chain

from tinyweave.cost.chain import layers_of, macs
from tinyweave.cost.macs import macs_original
from tinyweave.ir import CompileError, Graph
from tinyweave.nas.arch import Block, layers
from tinyweave.nas.network import to_graph
from tinyweave.passes import run_passes


def passed(graph: Graph) -> Graph:
    return run_passes(graph, float_io=False)[0]


def test_chains_come_from_graphs_and_no_others_do() -> None:
    found = layers(narrow_mobilenet(48))
    graph = passed(to_graph("mobilenet", [Block((layer,)) for layer in found]))
    assert layers_of(graph) == found, "no pass takes anything from it"
    assert macs(found) == macs_original(graph)
    with pytest.raises(CompileError, match="is no convolution of what the op before it made"):
        layers_of(passed(to_graph("mobilenet", narrow_mobilenet(48))))  # with skips
    graph = chain()
    begin = replace(graph, ops=graph.ops[:2], outputs=graph.ops[1].outputs)
    assert [layer.padding for layer in layers_of(begin)] == [((0, 1), (0, 1)), ((1, 1), (1, 1))]
