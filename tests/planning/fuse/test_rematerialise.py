"""Rematerialised maps of squeeze-and-excitation blocks: one block computed by hand, and random networks byte for byte."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cases.draw import integers, single_op
from cases.graphs import Net
from cases.sweeps import rest_in_sweeps
from codegen.emitted import emitted

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph, Op, Quant, Tensor, fingerprint, verify
from tinyweave.kernels.table import variant_for
from tinyweave.ops import macs
from tinyweave.ops.window import Window, same_padding
from tinyweave.planning import Limits, Plan, Request, check, from_json, front, plan, to_json
from tinyweave.planning.explain import explain
from tinyweave.planning.fuse.rematerialise import _is_channelwise, candidates, is_rematerialised, with_channels_once
from tinyweave.planning.fuse.row_access import RowGraph
from tinyweave.planning.fuse.row_schedule import plan_macs
from tinyweave.planning.search.channels_once import best_channels_once
from tinyweave.report.explanation import explanation_lines
from tinyweave.report.words import twice_lines
from tinyweave.simulate import compare

SEEDS = range(8)
NOTHING_GAINED = (2, 3)  # seeds of networks whose maps are not larger than the rows kept instead
ONE = ((0, 0), (0, 0))


class Blocks:
    """A network under construction of inverted bottlenecks with squeeze-and-excitation, with random scales."""

    def __init__(self, seed: int, side: int, channels: int) -> None:
        self.rng, self.draw = np.random.default_rng(seed), random.Random(seed)
        self.ops: list[Op] = []
        self.tensors = {"image": self.activation("image", (1, side, side, channels))}

    def activation(self, name: str, shape: tuple[int, ...]) -> Tensor:
        scale = float(np.float32(self.rng.uniform(0.02, 0.06)))
        return Tensor(name, shape, "int8", Quant((scale,), (int(self.rng.integers(-40, 40)),)))

    def constant(self, shape: tuple[int, ...], dtype: str, scales: tuple[float, ...] = (), axis: int | None = None) -> str:
        name, most = f"constant_{len(self.tensors)}", 127 if dtype == "int8" else 400
        data = self.rng.integers(-most, most + 1, shape).astype(dtype)
        quant = Quant(tuple(float(np.float32(s)) for s in scales), (0,) * len(scales), axis) if scales else None
        self.tensors[name] = Tensor(name, shape, dtype, quant, data, "constant")
        return name

    def op(self, kind: str, inputs: tuple[str | None, ...], shape: tuple[int, ...], **attrs: object) -> str:
        name = f"{kind}_{len(self.ops)}"
        self.tensors[name] = self.activation(name, shape)
        if kind in ("mean", "average_pool_2d", "concatenation"):  # these keep the scale
            self.tensors[name] = Tensor(name, shape, "int8", self.tensors[inputs[0] or ""].quant)
        self.ops.append(Op(name, kind, inputs, (name,), attrs))
        return name

    def conv(
        self, x: str, c: int, kernel: int = 1, stride: int = 1, activation: str = "none", *, depthwise: bool = False
    ) -> str:
        _, h, w, depth = self.tensors[x].shape
        scales = tuple(float(s) for s in self.rng.uniform(0.002, 0.006, c))
        shape, axis = ((1, kernel, kernel, c), 3) if depthwise else ((c, kernel, kernel, depth), 0)
        weights = self.constant(shape, "int8", scales, axis)
        source = self.tensors[x].scale
        bias = self.constant((c,), "int32", tuple(source * s for s in scales), 0)
        pad = tuple(same_padding(n, kernel, stride) for n in (h, w))
        kind, out = "depthwise_conv_2d" if depthwise else "conv_2d", (1, -(-h // stride), -(-w // stride), c)
        common = {"stride": (stride, stride), "dilation": (1, 1), "padding": pad, "activation": activation}
        return self.op(kind, (x, weights, bias), out, **common)

    def pooled(self, x: str, how: str) -> str:
        _, h, w, c = self.tensors[x].shape
        if how == "average":
            return self.op("average_pool_2d", (x,), (1, 1, 1, c), kernel=(h, w), stride=(1, 1), padding=ONE, activation="none")
        for axes in ((1, 2),) if how == "mean" else ((2,), (1,)):
            name = f"axes_{len(self.tensors)}"
            self.tensors[name] = Tensor(name, (len(axes),), "int32", None, np.array(axes, np.int32), "constant")
            shape = tuple(1 if axis in axes else n for axis, n in enumerate(self.tensors[x].shape))
            x = self.op("mean", (x, name), shape, keep_dims=True)
        return x

    def block(self, x: str, c: int, wide: int, kernel: int, stride: int = 1) -> str:
        """Add an expansion, depthwise, a nonlinearity, squeeze-and-excitation, a projection, and a skip if possible."""
        act = self.draw.choice(("none", "relu6", "relu"))
        y = self.conv(self.conv(x, wide, activation=act), wide, kernel, stride, act, depthwise=True)
        shape = self.tensors[y].shape
        if self.draw.random() < 0.4:
            y = self.op("hard_swish", (y,), shape)
        gate = self.conv(self.pooled(y, self.draw.choice(("mean", "average", "rows"))), 3, activation="relu")
        gate = self.conv(gate, wide)
        if self.draw.random() < 0.5:
            gate = self.op("logistic", (gate,), self.tensors[gate].shape)
            self.tensors[gate] = Tensor(gate, self.tensors[gate].shape, "int8", Quant((1 / 256,), (-128,)))
        scaled = self.op("mul", (y, gate) if self.draw.random() < 0.7 else (gate, y), shape, activation="none")
        last = self.conv(scaled, c)
        return self.op("add", (x, last), (*shape[:3], c), activation="none") if self.same(x, last) else last

    def same(self, a: str, b: str) -> bool:
        return self.tensors[a].shape == self.tensors[b].shape

    def finish(self, last: str) -> Graph:
        scores = self.conv(self.pooled(last, "mean"), 5)
        return verify(Graph("blocks", self.tensors, tuple(self.ops), ("image",), (scores,)))


def network(seed: int) -> Graph:
    draw = random.Random(seed)
    made = Blocks(seed, draw.randint(7, 14), 4)
    x = made.conv("image", 8, 3)
    for _ in range(draw.randint(1, 3)):
        x = made.block(x, draw.choice((8, 12)), draw.choice((24, 32, 42)), draw.choice((3, 5)), draw.choice((1, 1, 2)))
    return made.finish(x)


def one_block() -> Graph:
    """Return a block on 10 x 10 pixels: 8 -> 32 channels, depthwise 3x3, a gate, 32 -> 8."""
    made = Blocks(3, 10, 4)
    stem = made.conv("image", 8, 3)
    wide = made.conv(made.conv(stem, 32), 32, 3, depthwise=True)
    gate = made.conv(made.conv(made.pooled(wide, "rows"), 4), 32)
    scaled = made.op("mul", (wide, gate), (1, 10, 10, 32), activation="none")
    return made.finish(made.op("add", (stem, made.conv(scaled, 8)), (1, 10, 10, 8), activation="none"))


def run(made: Plan, graph: Graph, folder: Path, seed: int, cores: tuple[str, ...] = ()) -> None:
    """Check that the C of a plan equals the numpy reference of the planned graph and touches exactly its arena."""
    folder.mkdir(exist_ok=True)
    emitted(made, folder, "m")
    samples = compare.samples(graph, 3, seed)

    def reference(cases: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        return [list(ops.run(graph, dict(zip(graph.inputs, case, strict=True))).values()) for case in cases]

    right = compare.truth(made.graph, samples, reference)
    result = compare.verify(made, folder, "m", samples, cores=cores, right=right)
    assert result.ok, f"seed {seed}: {result.first_difference or dict(result.touched)}"
    assert all(touched == dict(made.arena) for touched in result.touched.values())


def test_candidates_for_rematerialisation_in_one_block() -> None:
    graph = one_block()
    ((name, twice),) = candidates(graph).items()
    assert name == "depthwise_conv_2d_2" and twice.makers == (1, 2) and twice.summing == (3, 4)
    assert twice.sums == ("mean_4",) and graph.ops[twice.reader].kind == "mul"


@pytest.mark.parametrize(("axes", "keeps_channels"), [((1, 2), True), ((1,), True), ((3,), False), ((1, 3), False)])
def test_a_mean_over_channels_mixes_them(axes: tuple[int, ...], keeps_channels: bool) -> None:
    """It mixes them even if the remaining last axis has as many columns as there were channels."""
    x = Tensor("x", (1, 8, 8, 8), "int8", Quant((0.1,), (0,)))
    mean = single_op("mean", [x, integers("axes", *axes)], Tensor("out", (), "int8", x.quant), {"keep_dims": False})
    assert _is_channelwise(mean, mean.ops[0]) == keeps_channels


def test_ops_of_a_partly_rematerialised_map_listed_by_hand() -> None:
    """12 of 32 channels are kept; the other 20 are computed for the mean and again for the product."""
    graph = one_block()
    twice = verify(with_channels_once(graph, {"depthwise_conv_2d_2": 12}))
    names = [op.name for op in twice.ops]
    both = ["conv_2d_1", "depthwise_conv_2d_2", "mean_3", "mean_4"]
    assert names[1:10] == [*(f"{name}_kept" for name in both), *(f"{name}_first" for name in both), "mean_4_joined"]
    assert names[10:15] == [
        "conv_2d_5",
        "conv_2d_6",
        "conv_2d_1_again",
        "depthwise_conv_2d_2_again",
        "depthwise_conv_2d_2_joined",
    ]
    assert [op.attrs["again"] for op in twice.ops if is_rematerialised(op)] == ["conv_2d_1_first", "depthwise_conv_2d_2_first"]
    assert twice.tensors["depthwise_conv_2d_2:kept"].shape == (1, 10, 10, 12)
    assert twice.tensors["depthwise_conv_2d_2:again"].shape == (1, 10, 10, 20)
    expand, taps = 10 * 10 * 8 * 20, (10 + 9 + 9) ** 2 * 20  # of 3 rows and columns one is outside at each border
    assert macs(twice) - macs(graph) == expand + taps
    whole = with_channels_once(graph, {"depthwise_conv_2d_2": 0})
    assert [op.name for op in whole.ops][1:5] == ["conv_2d_1_first", "depthwise_conv_2d_2_first", "mean_3", "mean_4"]
    assert macs(whole) - macs(graph) == (expand + taps) * 32 // 20
    assert set(graph.tensors) <= set(whole.tensors), "no constant is there twice"


def test_the_arena_of_one_rematerialised_block_computed_by_hand(tmp_path: Path) -> None:
    """If the map of 3,200 B is kept, the arena also holds the stem of 800 B and 3 rows of 320 B.

    If it is rematerialised, the arena holds the stem, 3 rows of 320 B, 2 sums of 128 B, and parts of rows.
    """
    graph = one_block()
    name = "depthwise_conv_2d_2"
    executed = macs(with_channels_once(graph, {name: 0}))
    without, made = plan(graph), plan(graph, Request(max_mac_overhead=executed / macs(graph) + 1e-9))
    assert without.arena["sram"] >= 3200 + 800 and not without.channels_once
    assert made.channels_once == {name: 0} and made.arena["sram"] < 800 + 3 * 320 + 2 * 320 + 256
    assert sum(plan_macs(made)) == executed, "nothing is left for tiles that do anything again"
    run(made, graph, tmp_path, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_graph_with_rematerialised_maps_computes_the_same(seed: int) -> None:
    graph, draw = network(seed), random.Random(seed)
    kept = {name: draw.choice((0, 4, 7, 20)) for name in candidates(graph)}
    assert kept
    twice = verify(with_channels_once(graph, kept))
    fed = dict(zip(graph.inputs, compare.samples(graph, 3, seed)[2], strict=True))
    first, second = (ops.run(which, fed, keep=True) for which in (graph, twice))
    assert all(np.array_equal(first[name], second[name]) for name in first.keys() & second.keys())
    assert {*graph.outputs, *kept} <= first.keys() & second.keys()


@pytest.mark.parametrize("seed", rest_in_sweeps([0, 2, 1, *SEEDS[3:]], 2))
@pytest.mark.parametrize("brought", [False, True], ids=["whole", "streamed"])
def test_plans_with_rematerialised_maps_keep_the_mac_limit(seed: int, brought: bool, tmp_path: Path) -> None:
    graph = network(seed)
    most = macs(graph)
    arenas, found = [plan(graph, Request(stream_inputs=brought)).arena["sram"]], []
    for overhead in (1.1, 1.4, 2.0):
        made = plan(graph, Request(stream_inputs=brought, max_mac_overhead=overhead))
        assert sum(plan_macs(made)) <= overhead * most
        again = from_json(to_json(made), graph)
        assert again.channels_once == made.channels_once and fingerprint(check(again).graph) == fingerprint(made.graph)
        arenas.append(made.arena["sram"])
        if made.channels_once:
            found.append(made)
    assert all(arena <= arenas[0] for arena in arenas)
    assert bool(found) != (seed in NOTHING_GAINED)
    for number, made in enumerate(found):
        run(made, graph, tmp_path / str(number), seed)


@pytest.mark.emulator
def test_rematerialised_maps_run_with_the_kernels_of_a_core(tmp_path: Path) -> None:
    graph = network(0)
    least = plan(graph, Request(max_mac_overhead=1.4)).arena["sram"]
    made = plan(graph, Request(limits=Limits(ram=least * 3 // 2), max_mac_overhead=1.4, core="cortex-m4"))
    assert made.channels_once and any("_dsp" in name for name in made.variants)
    run(made, graph, tmp_path, 0, ("cortex-m4",))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_rematerialised_without_a_mac_overhead(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network(seed)
    made = plan(graph)
    assert not made.channels_once and not any(map(is_rematerialised, made.graph.ops)) and sum(plan_macs(made)) <= macs(graph)
    monkeypatch.setattr("tinyweave.planning.strategies.best_channels_once", lambda *_: [{}])
    assert to_json(plan(graph)) == to_json(made)


def test_a_streamed_image_is_not_read_twice_by_a_rematerialised_map() -> None:
    """The expansion of the first block reads the image."""
    made = Blocks(5, 10, 4)
    graph = made.finish(made.block("image", 4, 32, 3))
    assert candidates(graph) and best_channels_once(graph, graph.inputs, [macs(graph)]) == [{}]
    assert plan(graph, Request(stream_inputs=False, max_mac_overhead=2.0)).channels_once


def test_a_map_with_other_readers_is_not_rematerialised() -> None:
    row_graph = Net(8, 8, 4)
    wide = row_graph.conv("image", 16)
    deep = row_graph.depthwise(wide, 3)
    pixel = row_graph.op(
        "average_pool_2d", (deep,), (1, 1, 1, 16), kernel=(8, 8), stride=(1, 1), padding=ONE, activation="none"
    )
    scaled = partial(row_graph.op, "mul", (deep, pixel), (1, 8, 8, 16), activation="none")
    assert set(candidates(row_graph.finish("alone", scaled()))) == {deep}
    row_graph.ops = row_graph.ops[:3]
    assert not candidates(row_graph.finish("read_elsewhere", row_graph.add(scaled(), wide)))


def test_every_row_reads_the_pixel_of_a_gate() -> None:
    graph = one_block()
    op = next(index for index, op in enumerate(graph.ops) if op.kind == "mul")
    reads = RowGraph(graph, [variant_for(graph, op).name for op in graph.ops]).accesses[op]
    assert reads is not None and dict(reads) == {"depthwise_conv_2d_2": Window(1, 1, 0), "conv_2d_6": Window(1, 0, 0)}


def test_a_padded_pixel_is_accessed_like_a_map() -> None:
    quant, extents = Quant((0.5,), (0,)), np.array([[0, 0], [0, 1], [0, 1], [0, 0]], np.int32)
    tensors = [
        Tensor("pixel", (1, 1, 1, 4), "int8", quant),
        Tensor("extents", (4, 2), "int32", None, extents, "constant"),
        Tensor("padded", (1, 2, 2, 4), "int8", quant),
    ]
    op = Op("pad_0", "pad", ("pixel", "extents"), ("padded",), {})
    graph = verify(Graph("padded", {t.name: t for t in tensors}, (op,), ("pixel",), ("padded",)))
    assert RowGraph(graph, [variant_for(graph, op).name]).accesses == [(("pixel", Window(1, 1, 0)),)]


def test_the_front_contains_plans_with_rematerialised_maps() -> None:
    graph = one_block()
    found = front(graph, Request(max_mac_overhead=2.0))
    assert found[-1].channels_once and not found[0].channels_once
    assert found[-1].arena["sram"] == plan(graph, Request(max_mac_overhead=2.0)).arena["sram"]


def test_the_report_names_rematerialised_channels() -> None:
    graph = one_block()
    made = plan(graph, Request(max_mac_overhead=1.25))
    ((name, kept),) = made.channels_once.items()
    assert 0 < kept < 32
    why, what = twice_lines(made)
    assert "computed twice" in why and "less RAM" in why
    assert what.strip() == f"{name}: {32 - kept} of 32 channels, and the layers before it"
    (text,) = [line for line in explanation_lines(made, explain(made, f"{name}:first")) if "its mean only" in line]
    assert f"by {name}_again a second time" in text
    (text,) = [line for line in explanation_lines(made, explain(made, f"{name}:again")) if "a second time" in line]
    assert f"after {name}_first" in text
    emitted = emit(made, "m", Origin("m.tflite", "0" * 64)).files
    assert emitted["m.c"].count("MAC, recomputed") == 2
    assert f"{name}_first_weights" in emitted["m_weights.h"] and "_again_" not in emitted["m_weights.h"]
    assert not twice_lines(plan(graph))
