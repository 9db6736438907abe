"""A reordered file has its ops in the given order, the same tensors, options and metadata, and the same results in LiteRT."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import tflite
from fuzz.generate import random_network, random_order

from tinyweave import api
from tinyweave.exporters.tflite import reordered, to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import diff
from tinyweave.planning.order.order_search import best_order, live_bytes, without_views
from tinyweave.simulate import compare, litert


def without_names_of_ops(data: bytes) -> list[tuple]:
    return [(op.kind, op.inputs, op.outputs, sorted(op.attrs.items())) for op in from_tflite(data, "x").ops]


@pytest.mark.parametrize("seed", range(20))
def test_only_the_order_of_ops_changes_in_a_reordered_file(seed: int) -> None:
    file = to_tflite(random_network(seed))
    graph = from_tflite(file, "x")
    order = random_order(graph, random.Random(seed))
    changed = reordered(file, order)
    ops = without_names_of_ops(file)
    assert without_names_of_ops(changed) == [ops[index] for index in order]
    assert len(changed) == len(file)
    assert sum(a != b for a, b in zip(file, changed, strict=True)) <= 4 * len(order)
    back = [order.index(index) for index in range(len(order))]
    assert reordered(changed, back) == file
    assert diff(from_tflite(reordered(changed, back), "x"), graph) == []


@pytest.mark.litert
@pytest.mark.parametrize("seed", range(8))
def test_litert_computes_the_same_from_a_reordered_file(seed: int) -> None:
    file = to_tflite(random_network(seed, 12))
    graph = from_tflite(file, "x")
    inputs = compare.samples(graph, 3, seed)
    before = litert.run(file, inputs)
    after = litert.run(reordered(file, random_order(graph, random.Random(seed))), inputs)
    for a, b in zip(before, after, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


@pytest.mark.litert
@pytest.mark.shared
def test_a_reordered_real_model_needs_less_ram(shared: Path) -> None:
    model = api.load(shared / "models/SiliconLabs__mltk__keyword_spotting_on_off_v3.tflite")
    graph = model.original
    best = best_order(graph, without_views(graph))
    file = reordered(model.file, best.ops)
    assert best.peak == max(live_bytes(graph, best.ops, without_views(graph))) == 19_600 and file != model.file
    assert [op.kind for op in from_tflite(file, graph.name).ops] == [graph.ops[index].kind for index in best.ops]
    inputs = compare.samples(model.graph, 3, 0)
    for a, b in zip(litert.run(model.file, inputs), litert.run(file, inputs), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    old, new = (tflite.Model.GetRootAs(data, 0) for data in (model.file, file))
    assert new.MetadataLength() == old.MetadataLength() and new.SignatureDefsLength() == old.SignatureDefsLength()


@pytest.mark.shared
def test_a_float_model_can_be_reordered(shared: Path) -> None:
    """tinyweave compiles int8 only, but reorders any file that it can read."""
    done = api.reorder_model(api.read(shared / "models/derived__swiftnet_cell_ckpt75000_float.tflite"))
    before, after = (
        max(sum(step.values()) for step in done.live(order)) for order in (range(len(done.best.ops)), done.best.ops)
    )
    assert (before, after) == (1_304_576, 4 * 301_056)


def test_a_file_in_the_best_order_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "one.tflite"
    path.write_bytes(to_tflite(random_network(3, 1)))
    assert api.reorder_model(api.load(path)).file == path.read_bytes()
