"""Row-wise accumulation: a mean or a pool over a whole map sums rows as a fused stage computes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases.draw import integers
from cases.strict import c99
from cases.sweeps import rest_in_sweeps
from codegen.emitted import compile_strictly, emitted, prove
from planning.stages import plan_in_stages

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.table import BY_NAME
from tinyweave.ops import check
from tinyweave.planning import check as check_plan
from tinyweave.planning.kernel_choice import KernelRule
from tinyweave.simulate import compare, emulated
from tinyweave.support import toolchain

OVER_ROWS = "mean over rows"
SHAPES = [(*shape, core) for shape in ((4, 4), (13, 4), (6, 260), (3, 4), (5, 4)) for core in ("", "cortex-m4", "cortex-m55")]


def network(kind: str, channels: int, width: int = 4) -> Graph:
    """Return a pool of 1 x 2 windows followed by a mean or a pool over the whole map, or by a mean over its rows alone."""
    kind, axes, left = ("mean", (1,), width) if kind == OVER_ROWS else (kind, (1, 2), 1)
    x = Tensor("x", (1, 5, 2 * width, channels), "int8", Quant((0.05,), (-9,)))
    half = replace(x, name="half", shape=(1, 5, width, channels))
    out = Tensor("out", (1, 1, left, channels), "int8", Quant((0.03,), (4,)) if kind == "mean" else half.quant)
    window = {"padding": ((0, 0), (0, 0)), "activation": "none"}
    first = Op("half_0", "max_pool_2d", ("x",), ("half",), window | {"kernel": (1, 2), "stride": (1, 2)})
    tensors = [x, half, out]
    if kind == "mean":
        tensors.append(integers("axes", *axes))
        last = Op("last_1", "mean", ("half", "axes"), ("out",), {"keep_dims": True})
    else:
        last = Op("last_1", kind, ("half",), ("out",), window | {"kernel": (5, width), "stride": (1, 1)})
    return check(verify(Graph("sums", {t.name: t for t in tensors}, (first, last), ("x",), ("out",))))


@pytest.mark.emulator
@pytest.mark.parametrize(("channels", "width"), rest_in_sweeps([(37, 4), (22, 260), (4, 4), (16, 4)], 2))
@pytest.mark.parametrize("kind", ["mean", OVER_ROWS, "average_pool_2d"])
def test_row_wise_sums_on_the_emulated_core(kind: str, channels: int, width: int, tmp_path: Path) -> None:
    """The kernels for vectors of 16 channels add to sums in memory. The last vector may have fewer channels."""
    if reason := emulated.missing("cortex-m55"):
        pytest.skip(reason[0])
    graph = network(kind, channels, width)
    plan = plan_in_stages(graph, [(0, 1)], kernels=KernelRule("cortex-m55"))
    assert BY_NAME[plan.variants[1]].isa == "mve"
    emitted(plan, tmp_path, "sums")
    assert f"{plan.variants[1]}_rows(" in (tmp_path / "sums.c").read_text()
    result = compare.verify(plan, tmp_path, "sums", compare.samples(graph, 6, channels), cores=("cortex-m55",))
    assert result.ok, result.first_difference


@pytest.mark.parametrize(("channels", "width", "core"), rest_in_sweeps(SHAPES, 9))
@pytest.mark.parametrize("kind", ["mean", OVER_ROWS, "average_pool_2d"])
def test_row_wise_sums_equal_the_reference(kind: str, channels: int, width: int, core: str, tmp_path: Path) -> None:
    """Rows have up to 260 pixels, more than a 16-bit lane can sum."""
    graph = network(kind, channels, width)
    plan = plan_in_stages(graph, [(0, 1)], kernels=KernelRule(core))
    emitted(plan, tmp_path, "sums")
    assert f"{plan.variants[1]}_rows(" in (tmp_path / "sums.c").read_text()
    host = toolchain.host()
    compile_strictly(host, tmp_path / "sums.c", (*c99(host.name), "-DTW_PLAIN_C"))
    result = compare.verify(plan, tmp_path, "sums", compare.samples(graph, 6, channels), cores=())
    assert result.ok, result.first_difference


@pytest.mark.parametrize("kind", ["mean", "average_pool_2d"])
def test_row_wise_sums_write_the_output_at_the_last_row(kind: str, tmp_path: Path) -> None:
    """The output overlaps the last row of the input. Each row of the map, one pixel wide, is one element of the sum."""
    graph = network(kind, 4, width=1)
    made = plan_in_stages(graph, [(0, 1)])
    begin = -(-made.arena["sram"] // 8) * 8
    offsets = {**made.offsets, "x": begin, "out": begin + graph.tensors["x"].bytes - 2 * 4}
    plan = check_plan(replace(made, offsets=offsets, arena={"sram": begin + graph.tensors["x"].bytes}))
    prove(plan, tmp_path)
