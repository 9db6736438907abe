"""Chains of layers extracted from graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from cases.graphs import inception
from cases.mobile import narrow_mobilenet
from cases.tiny import chain, edges, stream

from tinylesson.papers.chain import chain_of
from tinynas.arch import Block, layers
from tinynas.network import to_graph
from tinynas.published.patches import macs
from tinyweave.ir import CompileError, Graph, verify
from tinyweave.ops import macs_original
from tinyweave.passes import run_passes


def after_passes(graph: Graph) -> Graph:
    return run_passes(graph, io="int8")[0]


def test_a_graph_of_convolutions_is_a_chain() -> None:
    found = layers(narrow_mobilenet(48))
    graph = after_passes(to_graph("mobilenet", [Block((layer,)) for layer in found]))
    assert chain_of(graph) == (tuple(found), ()), "no pass takes anything from it"
    assert macs(found) == macs_original(graph)
    begin = chain()
    assert [layer.padding for layer in chain_of(begin).layers[:2]] == [((0, 1), (0, 1)), ((1, 1), (1, 1))]


def test_a_chain_leaves_out_skips_and_the_classifier() -> None:
    """Skips, the mean and the classifier are left out, whether it is dense or a convolution of one pixel."""
    blocks = narrow_mobilenet(48)
    graph = after_passes(to_graph("mobilenet", blocks, classes=10))
    found = chain_of(graph)
    assert found.layers == tuple(layers(blocks))
    kinds = Counter(op.kind for op in graph.ops if op.name in found.left_out)
    assert kinds == {"add": 10, "mean": 1, "fully_connected": 1}
    *rest, mean, classifier = graph.ops
    pooled, weights, out = (graph.tensors[name] for name in (*classifier.inputs[:2], *classifier.outputs))
    wide = {
        pooled.name: replace(pooled, shape=(1, 1, 1, 448)),
        weights.name: replace(weights, shape=(10, 1, 1, 448), data=weights.data.reshape(10, 1, 1, 448)),
        out.name: replace(out, shape=(1, 1, 1, 10)),
    }
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0)), "activation": "none"}
    mean = replace(mean, attrs={**mean.attrs, "keep_dims": True})
    classifier = replace(classifier, kind="conv_2d", attrs=attrs)
    graph = verify(replace(graph, tensors={**graph.tensors, **wide}, ops=(*rest, mean, classifier)))
    assert chain_of(graph) == (found.layers, (*found.left_out[:-2], mean.name, classifier.name))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (inception, r"is a convolution that does not read the output of the op before it; this count covers chains of"),
        (stream, r"op read_variable_0 \(read_variable\): is a convolution that does not read the output of the op before it"),
        (edges, "no convolution reads the network's input"),
    ],
)
def test_graphs_that_are_not_a_chain_are_refused(graph: Callable[[], Graph], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        chain_of(graph())
