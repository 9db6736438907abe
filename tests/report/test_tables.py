"""Rows per layer and MACs equal those computed by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cases import tiny
from fuzz.generate import random_network

from tinyweave import api, planning
from tinyweave.ir import CompileError, Graph, Op
from tinyweave.ops import macs, macs_original, macs_per_op
from tinyweave.planning import Request
from tinyweave.report.tables import graph_layers, peak, plan_layers


def five_convolutions() -> Graph:
    """Return the lecture's network: 96x96x1, 3x3 convolutions to 16 (stride 2), 32, 64 (stride 2), 64, 128 (stride 2)."""
    tensors, ops = [tiny.activation("image", (1, 96, 96, 1))], []
    source, extent, channels = "image", 96, 1
    for index, (outputs, stride) in enumerate([(16, 2), (32, 1), (64, 2), (64, 1), (128, 2)]):
        before = (stride == 1) + 0
        extent //= stride
        tensors += [
            tiny.constant(f"w{index}", np.ones((outputs, 3, 3, channels), np.int8), (0.01,)),
            tiny.activation(f"t{index}", (1, extent, extent, outputs)),
        ]
        attrs = {
            "stride": (stride, stride),
            "dilation": (1, 1),
            "padding": ((before, 1), (before, 1)),
            "activation": "none",
        }
        ops.append(Op(f"conv_2d_{index}", "conv_2d", (source, f"w{index}", None), (f"t{index}",), attrs))
        source, channels = f"t{index}", outputs
    return tiny.graph("five", tensors, ops, ("image",), (source,))


def test_live_bytes_of_the_five_layer_net():
    layers = graph_layers(five_convolutions())
    assert [layer.live for layer in layers] == [46_080, 110_592, 110_592, 73_728, 55_296]
    assert peak(layers) == layers[1]
    assert layers[0].window == "3x3/2" and layers[0].output == "48x48x16"


def test_macs_with_and_without_the_padding():
    graph = five_convolutions()
    # stride 2 pads one row below and one column right: 48 outputs read 3 * 48 - 1 = 143 of 144 taps per axis
    assert macs_per_op(graph, clipped=False)[0] == 9 * 48 * 48 * 16
    assert macs_per_op(graph, clipped=True)[0] == 143 * 143 * 16
    # stride 1 pads on both sides: 3 * 48 - 2 taps per axis
    assert macs_per_op(graph, clipped=True)[1] == 142 * 142 * 16 * 32
    assert macs(graph) == sum(macs_per_op(graph, clipped=True)) < macs_original(graph)


def test_live_bytes_exclude_views_and_keep_outputs_to_the_end():
    layers = graph_layers(tiny.residual())
    # x, branch 120 B each, sum 120 B; the pools 24 B each, both 48 B; `flat` is a view of `both`; `average` is an output
    assert [layer.live for layer in layers] == [240, 360, 144, 168, 96, 72]
    assert [(layer.bytes_in, layer.bytes_out) for layer in layers[:2]] == [(120, 120), (240, 120)]


def test_constants_count_for_the_layer_that_reads_them():
    layers = graph_layers(tiny.chain())
    assert [layer.constants for layer in layers] == [36 + 16, 36, 8, 12 + 12, 0]


def test_rows_of_a_plan_have_scratch_kernels_and_instructions():
    model = tiny.chain()
    plan = planning.plan(model, Request("layer"))
    names = [op.name for op in model.ops]
    counts = [dict(zip(names, range(first, 60, 10), strict=True)) for first in (10, 11)]
    rows = plan_layers(plan, "cortex-m4", *counts)
    assert [row.instructions for row in rows] == [10, 20, 30, 40, 50]
    assert [row.cycles for row in rows] == [11, 21, 31, 41, 51]
    assert [row.kernel for row in rows] == list(plan.variants)
    assert rows[0].why and "tw_conv_2d_s8_dsp is faster" in rows[0].why
    assert rows[4].why and rows[4].why.startswith("tw_softmax_s8_table_dsp requires that the map has at least 1,024 elements")
    assert [row.fast for row in rows] == [name.endswith("_dsp") for name in plan.variants]
    assert all(row.why is None and row.fast is None and row.cycles is None for row in plan_layers(plan))
    live = [sum(b.bytes for b in plan.buffers if b.start <= step < b.end) for step in range(5)]
    assert [row.live for row in rows] == live
    assert max(live) == plan.lower_bound


@pytest.mark.parametrize("seed", range(20))
def test_live_bytes_of_a_plan_count_shared_bytes_once(seed: int):
    graph = random_network(seed, 12)
    for schedule in planning.STRATEGIES:
        plan = planning.plan(graph, Request(schedule))
        for layer in plan_layers(plan):
            alive = [b for b in plan.buffers if b.start <= layer.step < b.end]
            covered = set().union(*(range(plan.offsets[b.name], plan.offsets[b.name] + b.bytes) for b in alive))
            assert layer.live == len(covered)
            assert {b.name for b in plan.alive(layer.step)} == {b.name for b in alive}


@pytest.mark.sweep
@pytest.mark.shared
def test_live_bytes_of_real_models_equal_an_independent_count(shared):
    """The independent count is stored beside the models."""
    checked = 0
    for entry in json.loads((shared / "models" / "index.json").read_text()):
        if entry["subgraphs"] != 1 or entry["bytes"] > 600_000 or entry["dynamic_shape"]:
            continue
        try:
            model = api.load(shared / "models" / entry["file"])
        except CompileError:
            continue
        summit = peak(graph_layers(model.original))
        assert summit is not None
        if model.original.init:
            continue  # the other count leaves out state
        # the other count counts a view as a tensor
        fewer = "RESHAPE" in entry["ops"] and summit.live < entry["peak_default"]
        assert summit.live == entry["peak_default"] or fewer, entry["file"]
        checked += 1
    assert checked >= 10
