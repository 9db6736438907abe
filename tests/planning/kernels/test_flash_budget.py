"""Kernels that keep more constants get the Flash that there is and no more, where it saves most."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases.graphs import Net
from cases.tiny import ramp

from tinyweave import api, results
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, verify
from tinyweave.kernels.layer_cycles import FlashReads
from tinyweave.kernels.table import BY_NAME, CODE_BYTES, FILES
from tinyweave.planning import Plan, constant_bytes, plan
from tinyweave.planning.kernel_choice import Kernels
from tinyweave.planning.kernels.flash_budget import kernels_within_flash, one_by_one

CORE = "cortex-m4"
SPARE = 2_000  # what is estimated of code before it is built is too much by less
ROOMY = "tw_conv_2d_s8_winograd_dsp"


def network() -> Graph:
    """Three convolutions that Winograd's kernel can run, the first on the largest map and with the fewest weights."""
    net = Net(16, 16, 8)
    wide = net.conv(net.conv("image", 8, 3), 16, 3, stride=2)
    graph = net.finish("convolutions", net.conv(net.conv(wide, 16, 3), 32, 3))
    filled = {
        name: replace(tensor, data=np.ascontiguousarray(ramp(tensor.shape) // 8)) if tensor.data is not None else tensor
        for name, tensor in graph.tensors.items()
    }
    return verify(replace(graph, tensors=filled))


def flash_heavy(made: Plan) -> list[str]:
    return [op.name for op, name in zip(made.graph.ops, made.variants, strict=True) if name == ROOMY]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return network()


def test_flash_goes_where_it_saves_most(graph: Graph):
    alone = [op.name for op in graph.ops if op.kind == "conv_2d" and op.attrs["stride"] == (1, 1)][:3]
    found = [
        flash_heavy(plan(graph, "unfused", core=CORE, aim="speed", flash=flash, other_flash=0))
        for flash in range(0, 60_000, 2_000)
    ]
    assert found[0] == [] and found[-1] == alone and [alone[0]] in found
    assert all(set(less) <= set(more) or len(less) == len(more) for less, more in pairwise(found))


@pytest.mark.parametrize("flash", [8_000, 12_000, 20_000, 60_000])
def test_constants_fit(graph: Graph, flash: int):
    least = constant_bytes(graph, plan(graph, "unfused").variants)
    made = plan(graph, core=CORE, flash=flash, other_flash=0)
    assert constant_bytes(made.graph, made.variants) <= max(flash, least)


def test_an_estimate_takes_no_kernel_away(graph: Graph):
    made = plan(graph, "unfused", core=CORE, flash=0)
    fastest = plan(graph, "unfused", core=CORE, flash=constant_bytes(graph, made.variants), other_flash=0)
    assert made.variants == fastest.variants and any(BY_NAME[name].cores for name in made.variants if name)


def test_the_code_of_every_kernel_was_measured():
    assert set(json.loads(CODE_BYTES.read_text())) == {name for name, path in FILES.items() if path.suffix == ".c"}


@pytest.mark.emulator
def test_what_is_deployed_fills_the_flash_that_there_is(graph: Graph, tmp_path: Path, emulator):
    path = tmp_path / "convolutions.tflite"
    path.write_bytes(to_tflite(graph))
    model = api.load(path)
    counts = []
    for flash in (None, 0):
        folder = tmp_path / str(flash)
        folder.mkdir()
        counts.append(api.deploy(model, folder, limits=results.Limits(None, flash), optimize="speed", count=1))
    most, least = (done.profile.flash for done in counts)
    assert flash_heavy(counts[0].plan) and not flash_heavy(counts[1].plan) and not counts[1].fits
    for flash in (most + SPARE, most - 1, (most + least) // 2):
        folder = tmp_path / str(flash)
        folder.mkdir()
        done = api.deploy(model, folder, limits=results.Limits(None, flash), optimize="speed", count=1)
        assert done.fits and done.verification.ok
        assert (done.plan.variants == counts[0].plan.variants) == (flash > most)
        assert (folder / f"{ROOMY}.c").exists() == bool(flash_heavy(done.plan))


def lean_names(graph: Graph, core: str, flash: int) -> set[str]:
    """The ops that may do without scratch where so many bytes are left for constants."""
    return {name for kernels in kernels_within_flash(graph, Kernels(core), flash) for name in kernels.lean}


def test_lean_kernels_need_room_for_all_constants_and_for_their_code(graph: Graph):
    everywhere = frozenset(op.name for op in graph.ops)
    heavy, lean, plain = (Kernels(CORE, **{which: everywhere} if which else {}) for which in ("flash_heavy", "lean", ""))
    of_each = [
        [BY_NAME[name].flash(graph, op) if name else 0 for op, name in zip(graph.ops, one_by_one(graph, kernels), strict=True)]
        for kernels in (heavy, lean, plain)
    ]
    code = json.loads(CODE_BYTES.read_text())["tw_conv_2d_s8_lean_dsp.c"]
    needed = sum(max(each) for each in zip(*of_each, strict=True)) + code
    convolutions = {op.name for op in graph.ops if op.kind == "conv_2d"}
    assert lean_names(graph, CORE, needed) == convolutions
    assert lean_names(graph, CORE, needed - 1) == set()


def test_constants_that_no_cache_holds_are_weighed_by_what_flash_waits(graph: Graph):
    usual = one_by_one(graph, Kernels(CORE))
    held, largest = max((BY_NAME[name].flash(graph, op), op.name) for op, name in zip(graph.ops, usual, strict=True) if name)
    slow = FlashReads(waits=1000, line=16, cache=held, code_line=16, code_cache=1 << 20)
    heavy = [
        {name for kernels in kernels_within_flash(graph, Kernels(CORE, reads=reads), 1 << 20) for name in kernels.flash_heavy}
        for reads in (None, slow)
    ]
    assert largest in heavy[0] and largest not in heavy[1]


def test_there_are_no_lean_kernels_where_their_cycles_are_not_known(graph: Graph):
    assert not lean_names(graph, "cortex-m55", 1 << 40) and lean_names(graph, "cortex-m33", 1 << 40)


def test_no_cortex_without_dsp_has_lean_kernels(graph: Graph):
    assert not lean_names(graph, "cortex-m3", 1 << 40)
