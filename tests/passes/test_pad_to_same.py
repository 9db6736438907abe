"""Pads that become the padding SAME of their readers: which ones do, and the same bytes from what is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.passes.layers import same_layers
from tests.passes.padded import KINDS, padded_layer, random_padded_layer
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import Graph, Op, verify
from tinyweave.ops import macs_original
from tinyweave.passes.fuse_pad import MOST_ZEROS, pad_to_same
from tinyweave.simulate import compare, litert

KERAS, PYTORCH = ((0, 1), (0, 1)), ((1, 1), (1, 1))


def folded(graph: Graph, most_zeros: int = 0) -> Graph:
    return pad_to_same(graph, graph.ops[0], most_zeros)


def test_random_pads_are_folded_with_the_same_bytes_and_only_into_same() -> None:
    counts = {(kind, extended): 0 for kind in KINDS for extended in (False, True)}
    for seed in range(600):
        before = random_padded_layer(seed)
        after = folded(before, MOST_ZEROS)
        if after is before:
            continue
        assert [op.kind for op in after.ops] == [before.ops[1].kind] and same_layers(before, after, {}, seed)
        again = from_tflite(to_tflite(after), "again")
        assert [op.attrs for op in again.ops] == [op.attrs for op in after.ops]
        extended = macs_original(after) > macs_original(before)
        assert extended == (folded(before) is before), "without zeros where none are needed"
        counts[before.ops[1].kind, extended] += 1
    assert counts.pop(("max_pool_2d", True)) == 0, "a maximum has no weights that could be 0"
    assert min(counts.values()) >= 10, counts


@pytest.mark.litert
@pytest.mark.parametrize("seed", range(12))
def test_litert_computes_the_same_without_the_pad(seed: int) -> None:
    before = random_padded_layer(seed)
    after = folded(before, MOST_ZEROS)
    inputs = compare.samples(before, 5, seed)
    for a, b in zip(litert.run(to_tflite(before), inputs), litert.run(to_tflite(after), inputs), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


@pytest.mark.parametrize("kind", KINDS[:2])
def test_padding_of_keras_needs_no_zeros_and_that_of_pytorch_one_row_and_column(kind: str) -> None:
    assert len(folded(padded_layer(kind, KERAS)).ops) == 1
    pytorch = padded_layer(kind, PYTORCH)
    assert folded(pytorch) is pytorch
    extended = folded(pytorch, MOST_ZEROS)
    weights = extended.input(extended.ops[0], 1)
    assert weights.data is not None and weights.shape[1:3] == (4, 4)
    assert not weights.data[:, 3].any() and not weights.data[:, :, 3].any()
    assert weights.quant == pytorch.tensors["weights"].quant


def test_a_pad_stays_if_same_would_start_elsewhere_or_have_another_number_of_windows() -> None:
    for amounts, size in ((KERAS, (7, 7)), (((1, 0), (1, 0)), (8, 8)), (((0, 3), (0, 3)), (8, 8)), (KERAS, (8, 7))):
        graph = padded_layer("conv_2d", amounts, size)
        assert folded(graph) is graph, (amounts, size)


def test_a_pad_stays_if_its_value_is_not_what_the_layer_pads_with_or_if_it_is_an_output() -> None:
    graph = padded_layer("max_pool_2d", KERAS)
    zero = replace(graph.tensors["x"].quant or pytest.fail(), zero_point=(3,))
    other = {name: replace(tensor, quant=zero) for name, tensor in graph.tensors.items() if name in ("x", "padded", "y")}
    assert folded(changed := replace(graph, tensors={**graph.tensors, **other})) is changed, "3 may be a maximum"
    shown = verify(replace(padded_layer("conv_2d", KERAS), outputs=("y", "padded")))
    assert folded(shown) is shown


def test_a_pad_with_two_readers_is_folded_into_both_or_stays() -> None:
    graph = padded_layer("conv_2d", KERAS)
    second = Op("layer_2", "conv_2d", graph.ops[1].inputs, ("z",), graph.ops[1].attrs)
    tensors = {**graph.tensors, "z": replace(graph.tensors["y"], name="z")}
    both = verify(replace(graph, tensors=tensors, ops=(*graph.ops, second), outputs=("y", "z")))
    assert [op.inputs[0] for op in folded(both).ops] == ["x", "x"] and same_layers(both, folded(both), {}, 1)
    dense = replace(second, attrs={**second.attrs, "stride": (1, 1)})
    one = verify(replace(both, tensors={**tensors, "z": replace(tensors["z"], shape=(1, 7, 7, 4))}, ops=(*graph.ops, dense)))
    assert folded(one) is one
