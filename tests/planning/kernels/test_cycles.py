"""Cycles predicted from shapes, compared with estimates of an emulated run, for a network not used to fit the constants."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from planning.stages import plan_in_stages

from tinyweave import api
from tinyweave.api import results
from tinyweave.devices import find
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.kernels.layer_cycles import BYTES_PER_CYCLE, CONSTANTS, EXECUTED, RUN_BYTES, FlashReads, cut, layer_cycles
from tinyweave.kernels.table import BY_NAME, variant_for
from tinyweave.planning import Request, Tile, plan
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.kernels.cycles import cycles_per_op, plan_cycles

DIGITS = Path(__file__).parents[3] / "examples" / "keywords" / "digits.tflite"


@pytest.fixture(scope="module")
def model() -> results.Model:
    return api.load(DIGITS)


@pytest.mark.emulator
@pytest.mark.parametrize("schedule", rest_in_sweeps(["best", "unfused"], 1))
@pytest.mark.parametrize("core", api.COST_MODEL_CORES)
def test_cycles_of_an_unfitted_network_are_predicted_within_15_percent(
    model: results.Model, core: str, schedule: str, emulator
):
    plan = api.plan(model, core, schedule=schedule, optimize="speed")
    found = api.profile_plan(model, plan, core).cycles
    foreseen = plan_cycles(plan, core).cycles
    assert found is not None and foreseen is not None
    assert foreseen == pytest.approx(found.likely, rel=0.15)


def pooled_floats(dtype: str) -> Graph:
    """Return a network that quantises a float map, pools it and dequantises it."""
    quant, attrs = Quant((2.0**-5,), (3 if dtype == "int8" else 130,)), {"kernel": (2, 2), "stride": (2, 2)}
    attrs |= {"padding": ((0, 0), (0, 0)), "activation": "none"}
    tensors = (
        Tensor("x", (1, 20, 20, 3), "float32", None),
        Tensor("whole", (1, 20, 20, 3), dtype, quant),
        Tensor("pooled", (1, 10, 10, 3), dtype, quant),
        Tensor("y", (1, 10, 10, 3), "float32", None),
    )
    ops = (
        Op("quantize_0", "quantize", ("x",), ("whole",), {}),
        Op("pool_1", "max_pool_2d", ("whole",), ("pooled",), attrs),
        Op("dequantize_2", "dequantize", ("pooled",), ("y",), {}),
    )
    return verify(Graph("edges", {tensor.name: tensor for tensor in tensors}, ops, ("x",), ("y",)))


@pytest.mark.emulator
@pytest.mark.parametrize("core", api.COST_MODEL_CORES)
def test_cycles_of_quantize_and_dequantize_are_predicted(core: str, emulator, tmp_path: Path):
    path = tmp_path / "edges.tflite"
    path.write_bytes(to_tflite(pooled_floats("int8")))
    edges = api.load(path, io="model")
    plan = api.plan(edges, core)
    measured, foreseen = api.profile_plan(edges, plan, core), cycles_per_op(plan, core)
    assert plan_cycles(plan, core).missing == ()
    bound = 0.05 if "gcc" in measured.compiler else 0.35  # the constants were fitted to GCC's code
    for index in (0, 2):  # the time of pooling depends on the values
        assert foreseen[index] == pytest.approx(measured.cycles_per_layer[plan.graph.ops[index].name].likely, rel=bound)


@pytest.mark.parametrize("core", json.loads(CONSTANTS.read_text()))
def test_ops_at_the_edges_and_heads_of_public_models_have_cycle_constants(core: str):
    """These are conversions of uint8 or float images, enlarged maps, prelu, and argmax."""
    names = [f"tw_{way}" for way in ("quantize_f32_s8", "quantize_f32_u8", "dequantize_s8_f32", "dequantize_u8_f32")]
    names += [f"tw_requantize_{before}_{after}" for before in ("s8", "u8") for after in ("s8", "u8")]
    names += ["tw_prelu_s8", "tw_resize_bilinear_s8", "tw_resize_nearest_neighbor_s8", "tw_arg_max_s8_s32", "tw_arg_max_s8_s64"]
    names += ["tw_extremum_s8", "tw_reduce_extremum_s8", "tw_pad_s8", "tw_quantize_f32_s16", "tw_dequantize_s16_f32"]
    known = json.loads(CONSTANTS.read_text())[core]
    assert [name for name in names if not any(known.get(name, ()))] == []


@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m7", "cortex-m33"])
def test_a_small_dense_layer_with_a_zero_point_of_its_weights_has_a_dsp_kernel(core: str) -> None:
    """A kernel of unknown cycles would seem to be the fastest one."""
    weights = np.full((2, 640), 127, np.int8)
    tensors = (
        Tensor("x", (1, 640), "int8", Quant((0.02,), (3,))),
        Tensor("w", weights.shape, "int8", Quant((0.01,), (-5,)), weights, "constant"),
        Tensor("y", (1, 2), "int8", Quant((0.5,), (0,))),
    )
    op = Op("dense_0", "fully_connected", ("x", "w"), ("y",), {"activation": "none", "keep_num_dims": False})
    graph = verify(Graph("dense", {tensor.name: tensor for tensor in tensors}, (op,), ("x",), ("y",)))
    assert plan(graph, Request(objective="speed", core=core)).variants == ("tw_fully_connected_s8_few_dsp",)


@pytest.mark.emulator
@pytest.mark.parametrize("schedule", ["unfused", "best"])
@pytest.mark.parametrize("name", ["stm32l4r5", "stm32l476"])
def test_flash_wait_cycles_of_a_board_are_predicted(model: results.Model, name: str, schedule: str, emulator):
    board = find(name)
    limits, took = replace(api.limits_of(board), ram=None, maps=()), {}
    for reads in (None, limits.reads):
        plan = api.make_plan(
            model, api.Request(schedule, objective="speed", limits=replace(limits, reads=reads), core=board.core)
        )
        found = api.profile_plan(model, plan, board.core, device=board).cycles
        foreseen, at_once = api.estimate_cycles(plan, board), plan_cycles(plan, board.core).cycles
        assert found is not None and foreseen is not None and foreseen.cycles is not None and at_once is not None
        assert at_once < found.likely
        assert foreseen.cycles == pytest.approx(found.likely, rel=0.15)
        assert any(BY_NAME[name].copying for name in plan.variants if name) == (reads is not None)
        took[reads] = found.likely, at_once
    assert took[None][1] < 0.9 * took[None][0], "on these boards Flash weighs"
    assert took[limits.reads][0] < 0.95 * took[None][0], "and less where it is read once"


def test_a_cache_smaller_than_the_data_misses_each_line_on_each_pass():
    reads = FlashReads(waits=5, line=16, cache=256, code_line=8, code_cache=1024)
    assert reads.of_constants(256, 10, alone=True) == 256 / 16 * 5
    assert reads.of_constants(256, 10, alone=False) == 0, "from the call before"
    assert reads.of_constants(512, 10, alone=False) == 10 * 512 / 16 * 5
    assert reads.of_code(1e6, 3) == 3 * RUN_BYTES / 8 * 5
    assert reads._replace(code_cache=2048).of_code(1e6, 3) == 0
    assert reads._replace(code_cache=64).of_code(1e6, 3) == 1e6 * BYTES_PER_CYCLE / 8 * 5
    assert reads.of_code(1e6, 3, 1600) == 1e6 * BYTES_PER_CYCLE / 8 * 5, "its loop does not fit"
    assert reads._replace(code_cache=2048).of_code(1e6, 3, 1600) == 0


@pytest.mark.parametrize(("ways", "sets"), [(1, 12), (2, 6), (4, 3)])
def test_the_share_of_evicted_lines_is_that_of_a_simulated_cache(ways: int, sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants and code are used in turns; the share is the mean over all distances between them."""

    def missed(constants: int, code: int, distance: int) -> int:
        lines = [*range(constants), *range(distance, distance + code)]
        held = [list[int]() for _ in range(sets)]  # per set, the least recently used line first
        misses = 0
        for line in lines * 3:
            at = held[line % sets]
            if line in at:
                at.remove(line)
            else:
                misses += 1
            at.append(line)
            del at[:-ways]
        return (misses - len(lines)) // 2

    for code in (0, 1, 5, 8, 14):
        monkeypatch.setattr("tinyweave.kernels.layer_cycles._code", lambda variants, code=code: 8 * code * len(variants))
        for constants in (*range(1, 30), 40):
            reads = FlashReads(5, 8, 8 * ways * sets, 8, 8 * ways * sets, 9, 5, ways, 0.5)
            mean = sum(missed(constants, code, sets * 99 + distance) for distance in range(sets)) / sets / (constants + code)
            assert reads.evicted(8 * constants, ["a", "b"]) == pytest.approx(mean, abs=1e-9)
            own_cache = missed(constants, 0, 0) / constants
            assert reads._replace(executed=0).evicted(8 * constants, ["a", "b"]) == pytest.approx(own_cache, abs=1e-9)
            again = reads.evicted(8 * constants, ["a"])
            assert reads.of_constants(8 * constants, 3, alone=0, variant="a") == pytest.approx(3 * again * constants * 5)
            assert reads.of_constants(8 * constants, 3, alone=1, variant="a") == pytest.approx((1 + 2 * again) * constants * 5)


def test_flash_waits_scale_with_the_passes_over_the_weights(model: results.Model):
    op = next(op for op in model.graph.ops if op.kind == "conv_2d")
    row, (_, height, width, _) = variant_for(model.graph, op, "cortex-m4"), model.graph.output(op).shape
    passes = -(-height * width // 2)  # two pixels at a time
    large = FlashReads(waits=5, line=16, cache=1 << 20, code_line=16, code_cache=1 << 20)
    small = large._replace(cache=1, code_cache=1024)

    def waited(reads: FlashReads, part: tuple[int, int] | None = None) -> float:
        with_waits, without = (layer_cycles(model.graph, op, row.name, "cortex-m4", part, reads=r) for r in (reads, None))
        assert with_waits is not None and without is not None
        return with_waits - without

    once, code = row.flash(model.graph, op) / 16 * 5, RUN_BYTES / 16 * 5
    assert row.isa == "dsp" and waited(large) == pytest.approx(once) and waited(large, (1, width)) == 0
    assert waited(small) == pytest.approx(passes * once + (1 + passes) * code)
    portable = variant_for(model.graph, op)
    assert portable.stream is None
    with_waits, without = (layer_cycles(model.graph, op, portable.name, "cortex-m4", reads=r) for r in (small, None))
    assert with_waits - without == pytest.approx(height * width * portable.flash(model.graph, op) / 16 * 5 + code)


def test_plans_are_compared_by_cycles_including_flash_waits(model: results.Model):
    board = find("stm32l4r5")
    free = replace(api.limits_of(board), ram=None, maps=())
    slow = replace(free, reads=FlashReads(waits=100, line=16, cache=0, code_line=16, code_cache=1 << 20))
    plans = [
        api.make_plan(model, api.Request("unfused", objective="speed", limits=limits, core=board.core))
        for limits in (free, slow)
    ]
    at_once, waiting = ([plan_cycles(plan, board.core, reads).cycles for plan in plans] for reads in (None, slow.reads))
    assert waiting[1] < waiting[0] and at_once[1] > at_once[0], "it has other kernels, which read fewer constants"
    assert api.estimate_cycles(plans[0], board) == plan_cycles(plans[0], board.core, api.flash_reads(board))
    by_layer, whole = api.estimate_layer_cycles(plans[0], board), api.estimate_cycles(plans[0], board)
    assert whole is not None and sum(by_layer.values()) == pytest.approx(whole.cycles, abs=len(by_layer))
    assert api.flash_reads(find("nrf52840")) is None, "its file says nothing of waits"
    unified = find("stm32u575")
    (cache,) = unified.caches
    sizes = cache.line, cache.bytes, cache.line, cache.bytes
    assert api.flash_reads(unified) == (unified.flash_waits, *sizes, 0, 0, cache.ways, EXECUTED[1])
    assert [reads and reads.executed for reads in (api.flash_reads(find("rp2350"), case) for case in range(3))] == [*EXECUTED]
    own = api.flash_reads(find("imxrt1062"))
    assert own is not None and own.executed == 0 and own.ways == 4


@pytest.mark.emulator
@pytest.mark.parametrize("cols", [2, 8])
def test_cycles_of_tiles_include_recomputation_and_calls(model: results.Model, cols: int, emulator):
    ops = range(len(model.graph.ops))
    stages = [*((index,) for index in ops[:2]), (2, 3, 4), *((index,) for index in ops[5:])]
    alone, tiled = (plan_in_stages(model.graph, stages, tiles=tiles) for tiles in ((), (Tile((2, 3, 4), cols),)))
    counts = [plan_cycles(plan, "cortex-m4").cycles for plan in (alone, tiled)]
    first = layer_cycles(model.graph, model.graph.ops[2], alone.variants[2], "cortex-m4")
    again = plan_macs(tiled)[2] / plan_macs(alone)[2] - 1
    assert counts[0] is not None and counts[1] is not None and first is not None
    assert again > 0.4 and counts[1] - counts[0] > first * again
    found = api.profile_plan(model, tiled, "cortex-m4").cycles
    assert found is not None and counts[1] == pytest.approx(found.likely, rel=0.15)


def test_layers_without_cycle_constants_are_named_and_others_counted(model: results.Model):
    plan = api.plan(model, schedule="unfused", optimize="size")
    whole = plan_cycles(plan, "cortex-m4")
    assert whole == (whole.cycles, ()) and whole.cycles is not None
    nothing = plan_cycles(plan, "xtensa-lx7")
    assert nothing.cycles is nothing.at_least is None
    assert set(nothing.missing) == {op.kind for op in model.graph.ops}
    last = len(plan.variants) - 1
    without = plan_cycles(replace(plan, variants=(*plan.variants[:last], "tw_cast")), "cortex-m4")
    assert without.cycles is None and without.missing == (model.graph.ops[last].kind,)
    alone = layer_cycles(model.graph, model.graph.ops[last], plan.variants[last], "cortex-m4")
    assert alone is not None and whole.cycles - without.at_least in (int(alone), int(alone) + 1), "sums are rounded"
    assert layer_cycles(model.graph, model.graph.ops[0], "", "cortex-m4") == 0.0


def test_a_part_of_an_op_is_an_op_on_a_smaller_map_without_cut_padding() -> None:
    net = Net(12, 10, 3)
    graph = net.finish("part", net.depthwise("image", 3))
    smaller, op = cut(graph, graph.ops[0], (1, 10))
    assert smaller.input(op).shape == (1, 3, 10, 3) and smaller.output(op).shape == (1, 1, 10, 3)
    assert op.attrs["padding"] == ((0, 0), (1, 1))
    assert cut(graph, graph.ops[0], (12, 10)) == cut(graph, graph.ops[0], None) == (graph, graph.ops[0])
