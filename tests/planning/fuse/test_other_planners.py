"""The strategies of other planners: patches with residual blocks computed by hand; all strategies on random networks."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cases.graphs import Net
from cases.tiny import NETWORKS
from fuzz.generate import BY_ROW, random_network

from tinylesson.networks import graph_of
from tinynas.arch import blocks, layers, mobilenet_v2
from tinynas.costs import model_of
from tinynas.published.patches import bytes_by_patch, patched_bytes
from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.ops import macs
from tinyweave.planning import Plan, Request, Tile, check, from_json, plan, to_json
from tinyweave.planning.check import UnsoundPlanError
from tinyweave.planning.fuse.row_access import RowGraph, recomputed_macs, tile_buffer_bytes, tile_bytes, tile_sizes
from tinyweave.planning.fuse.row_schedule import plan_macs, row_graph_of

MODES = ("patch", "patch:3", "msf")
KIB = 1024


def bottleneck() -> tuple[Graph, tuple[str, ...]]:
    """Return a stem with stride 2 on 24 x 24, a residual bottleneck and a convolution with stride 2, and names of outputs."""
    row_graph = Net(24, 24, 3)
    stem = row_graph.conv("image", 8, 3, 2)
    wide = row_graph.conv(stem, 32)
    deep = row_graph.depthwise(wide, 3)
    thin = row_graph.conv(deep, 8)
    last = row_graph.conv(row_graph.add(stem, thin), 8, 3, 2)
    return row_graph.finish("bottleneck", last), (stem, wide, deep, thin)


def tiles_of(made: Plan) -> list[Tile]:
    return [tile for stage in made.stages for tile in stage.tiles or ()]


@pytest.mark.parametrize(("name", "streamed", "most"), [("chain", True, 4), ("residual", False, 8)])
def test_no_grid_of_patches_needs_less_ram_than_the_chosen_one(name: str, streamed: bool, most: int) -> None:
    """The input counts, too: if it is streamed, smaller patches read fewer of its rows at a time."""
    graph = NETWORKS[name]()
    ways = "patch", *(f"patch:{grid}" for grid in range(2, most + 1))
    chosen, *given = (plan(graph, Request(way, stream_inputs=streamed)).lower_bound for way in ways)
    assert chosen == min(given) < max(given)


def test_the_sizes_of_a_patch_computed_by_hand() -> None:
    """A 6 x 6 map has 2 x 2 patches. The last convolution reads rows 0 to 6 and 6 to 11 of the sum and of the residual block.

    The depthwise convolution reads rows 0 to 7 and 5 to 11. The same holds for columns.
    """
    graph, (stem, wide, deep, thin) = bottleneck()
    made = plan(graph, Request("patch:2:6"))
    (tile,) = tiles_of(made)
    assert tile == Tile((0, 1, 2, 3, 4, 5), 3, 3, cached=False)
    sizes = tile_sizes(row_graph_of(made), tile)
    assert sizes[stem] == sizes[wide] == (8, 8)
    assert sizes[deep] == sizes[thin] == (7, 7)
    again = recomputed_macs(RowGraph(graph, made.variants), tile)
    assert again[1] == (8 + 7) ** 2 * 8 * 32 - 12 * 12 * 8 * 32
    assert again[3] == (7 + 6) ** 2 * 32 * 8 - 12 * 12 * 32 * 8
    assert sum(plan_macs(made)) == macs(graph) + sum(again.values())


def test_a_patch_buffer_holds_input_output_and_skips_of_one_layer() -> None:
    """The peak is at the depthwise layer, which reads 8 x 8 x 32 and writes 7 x 7 x 32 while 8 x 8 x 8 is kept for the sum."""
    graph, (stem, wide, deep, thin) = bottleneck()
    made = plan(graph, Request("patch:2:6"))
    (tile,) = tiles_of(made)
    sizes = tile_bytes(row_graph_of(made), tile)
    peak = 8 * 8 * 32 + 7 * 7 * 32 + 8 * 8 * 8
    assert sizes[wide] + sizes[deep] + sizes[stem] == peak < sum(sizes.values())
    buffer = made.buffer(made.places[stem].buffer)
    assert buffer.bytes == tile_buffer_bytes(row_graph_of(made), tile) == peak
    begin = {name: made.places[name].offset for name in sizes}
    assert begin[thin] < begin[wide] + sizes[wide] and begin[wide] < begin[thin] + sizes[thin], "the one dies before the other"
    for name, other in ((wide, stem), (deep, stem), (thin, stem), (deep, wide), (thin, deep)):  # both are still needed
        places = {**made.places, name: replace(made.places[name], offset=begin[other])}
        with pytest.raises(UnsoundPlanError):
            check(replace(made, places=places))


def test_maps_of_a_cached_tile_share_no_bytes() -> None:
    """Columns of a cached tile are kept for the next block of columns, so each map needs its own bytes."""
    graph, _ = bottleneck()
    made = plan(graph, Request("msf"))
    for tile in tiles_of(made):
        sizes = tile_bytes(row_graph_of(made), tile)
        spans = sorted((made.places[name].offset, made.places[name].offset + size) for name, size in sizes.items())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_patches_of_mobilenet_v2_need_the_ram_of_the_thesis() -> None:
    """Table 5.7: 172 KB with 4 x 4 patches of the first five blocks (12 convolutions and a sum), without the image.

    The thesis runs depthwise layers in place. Here the output of one has its own bytes inside a patch, and overlaps its input
    at a distance of some rows elsewhere.
    """
    arch = mobilenet_v2()
    found, patched = layers(blocks(arch)), len(layers(blocks(arch)[:5]))
    model = model_of(graph_of("mobilenet_v2", 224, 1.0))
    made = api.plan(model, schedule="patch:4:13", optimize="size", device="rp2040")  # a core without kernels that take scratch
    (image,) = made.graph.inputs
    assert made.stages[0].ops == tuple(range(13)) and len(tiles_of(made)) == 1
    lives = [sum(buffer.bytes for buffer in made.alive(step)) for step in range(len(made.stages))]
    patches = lives[0] - made.graph.tensors[image].bytes
    apart = 35 * 35 * 96 + 17 * 17 * 96 + 28 * 28 * 32  # the second depthwise layer, and the map computed by patches
    assert patches == apart and bytes_by_patch(found[:patched], 7) < patches < patched_bytes(found, patched, 7) == 171.5 * KIB
    assert patched_bytes(found, patched, 7) <= max(made.live(step) for step in range(1, len(lives))) < 177.5 * KIB


@pytest.mark.parametrize("mode", ["patch:2:2", "patch"])
def test_a_streamed_image_with_a_shortcut_is_read_in_one_stage_or_refused(mode: str) -> None:
    """The fourth layer reads the image too, so a stage or patches of two layers would need the image twice."""
    net = Net(12, 12, 8)
    deep = net.conv(net.conv("image", 8, 3), 8, 3)
    graph = net.finish("shortcut", net.conv(net.add("image", deep), 8, 3))
    assert plan(graph, Request(mode)).arena
    try:
        made = plan(graph, Request(mode, stream_inputs=True))
    except CompileError as error:
        assert mode == "patch:2:2" and "the first 2 layers cannot run by patches" in str(error)
        return
    (stage,) = (stage.ops for stage in made.stages if 0 in stage.ops)
    assert {0, 2} <= set(stage) and mode != "patch:2:2"


def test_the_numbers_of_patches_and_layers_can_be_given() -> None:
    graph, _ = bottleneck()
    for schedule, rows, ops in (("patch:2:6", 3, 6), ("patch:3:5", 4, 5), ("patch:0:6", None, 6), ("patch:6", None, None)):
        (tile,) = tiles_of(plan(graph, Request(schedule)))
        assert rows in (None, tile.rows) and ops in (None, len(tile.ops)) and not tile.cached


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("patch:1", "from 2 on"),
        ("patch:2:3:4", "from 2 on"),
        ("patch:-2", "from 2 on"),
        ("msf:2", "from 2 on"),
        ("patch:2:4", "the first 4 layers cannot run by patches"),  # the residual is read by the next layer
        ("patch:2:99", "the first 99 layers cannot run by patches"),
    ],
)
def test_impossible_strategies_are_refused(schedule: str, said: str) -> None:
    with pytest.raises(CompileError, match=said):
        plan(bottleneck()[0], Request(schedule))


def test_the_macs_of_a_strategy_can_be_limited() -> None:
    graph, _ = bottleneck()
    for mode in ("patch", "msf"):
        free, bounded, none = (plan(graph, Request(mode, max_mac_overhead=overhead)) for overhead in (None, 1.3, 1.0))
        assert 1.3 * macs(graph) < sum(plan_macs(free))
        assert sum(plan_macs(bounded)) <= 1.3 * macs(graph)
        assert sum(plan_macs(none)) == macs(graph)
        assert free.lower_bound <= bounded.lower_bound <= none.lower_bound
    with pytest.raises(CompileError, match="max-mac-overhead"):
        plan(graph, Request("patch:6", max_mac_overhead=1.0))


def test_stages_of_msf_are_single_layers_or_one_tile_of_one_row() -> None:
    graph, _ = bottleneck()
    made = plan(graph, Request("msf"))
    fused = [stage for stage in made.stages if len(stage.ops) > 1]
    assert fused
    for stage in fused:
        assert stage.tiles is not None
        (tile,) = stage.tiles
        assert tile.ops == stage.ops and tile.rows == 1 and tile.cached


def test_a_plan_with_patches_survives_the_round_trip_through_json() -> None:
    graph, _ = bottleneck()
    made = plan(graph, Request("patch:2:6"))
    assert to_json(from_json(to_json(made), graph)) == to_json(made)
    assert json.loads(to_json(made))["stages"][0]["tiles"][0]["cached"] is False


@pytest.mark.litert
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_all_strategies_give_the_bytes_of_the_reference(seed: int, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "network.tflite"
    path.write_bytes(to_tflite(random_network(seed, 12, growers=BY_ROW, live=2)))
    model = api.load(path)
    try:
        made = api.plan(model, schedule=mode, optimize=("size", "speed")[seed % 2])
    except CompileError:
        assert mode == "patch:3", "all others can do without"
        return
    unfused = api.plan(model, schedule="unfused", optimize="size")
    assert ":" in mode or seed % 2 or made.lower_bound <= unfused.lower_bound
    result = api.verify_plan(model, made, api.ProofOptions(count=3, seed=seed), core="cortex-m4" if seed == 0 else None)
    assert result.ok, result.first_difference or dict(result.touched)
