"""Kernels whose assembly follows the rows of a ring buffer or a tile, in a fused stage on the emulated core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cases.maps import block, segmentation
from codegen.emitted import prove
from planning.stages import plan_in_stages

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.planning import Tile
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.simulate import emulated

CORE = "cortex-m55"


@pytest.mark.emulator
@pytest.mark.parametrize("kind", ["max_pool_2d", "average_pool_2d"])
@pytest.mark.parametrize("channels", [5, 16, 37])
def test_windows_continue_at_the_first_slot_of_a_ring(kind: str, channels: int, tmp_path: Path) -> None:
    """The ring has fewer slots than the map has rows, so the rows of some windows lie in its last and first slots."""
    if reason := emulated.missing(CORE):
        pytest.skip(reason[0])
    shapes = {"x": (1, 13, 14, channels), "half": (1, 13, 7, channels), "y": (1, 11, 5, channels)}
    tensors = {name: Tensor(name, shape, "int8", Quant((0.05,), (-9,))) for name, shape in shapes.items()}
    plain = {"padding": ((0, 0), (0, 0)), "activation": "none"}
    first = Op("half_0", "max_pool_2d", ("x",), ("half",), plain | {"kernel": (1, 2), "stride": (1, 2)})
    last = Op("y_1", kind, ("half",), ("y",), plain | {"kernel": (3, 3), "stride": (1, 1)})
    graph = verify(Graph("ring", tensors, (first, last), ("x",), ("y",)))
    plan = plan_in_stages(graph, [(0, 1)], kernels=KernelRule(CORE))
    assert plan.variants[1] == f"tw_{kind}_s8_mve"
    prove(plan, tmp_path, [CORE])


@pytest.mark.emulator
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("network", [block, segmentation])
def test_a_depthwise_convolution_reads_tiles_that_begin_at_columns_above_0(
    network: Callable[[], Graph], cached: bool, tmp_path: Path
) -> None:
    if reason := emulated.missing(CORE):
        pytest.skip(reason[0])
    graph = network()
    every = tuple(range(len(graph.ops)))
    plan = plan_in_stages(graph, [every], tiles=(Tile(every, 5, 2, cached=cached),), kernels=KernelRule(CORE))
    assert plan.variants[1] == "tw_depthwise_conv_2d_s8_mve"
    prove(plan, tmp_path, [CORE])
