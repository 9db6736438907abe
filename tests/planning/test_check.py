"""The independent check accepts every plan of the planner; test_damaged_plans.py has plans that it refuses."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from cases.maps import SAME
from cases.tiny import NETWORKS, activation, constant, ramp
from cases.tiny import graph as tiny
from fuzz.generate import BY_ROW, random_network
from planning.stages import plan_in_stages

from tinyweave.ir import Op
from tinyweave.kernels.access import overlap_distances
from tinyweave.planning import Plan, Request, Tile, check, plan
from tinyweave.planning.check import Touched, UnsoundPlanError
from tinyweave.planning.plan import Place


def test_state_is_read_and_written_in_its_buffer() -> None:
    """Only the count, an output that is read after the call, is a copy."""
    made = plan(NETWORKS["stream"](), Request("layer"))
    assert made.places["before"].buffer == made.places["kept"].buffer == "past"
    assert [made.variants[i] for i in (0, 3)] == ["", ""]
    assert [b.name for b in made.buffers if (b.start, b.end) == (0, 8)] == ["past", "calls"]


def operand_pairs(made: Plan) -> list[tuple[str, str]]:
    """Return (operand, output) of every op, without constants."""
    pairs = [(x, y) for op in made.graph.ops for x in op.inputs if x is not None for y in op.outputs]
    return [(x, y) for x, y in pairs if x in made.places and y in made.places]


@pytest.mark.parametrize("seed", range(16))
def test_best_is_never_larger_and_its_overlap_distances_are_minimal(seed: int) -> None:
    """The check refuses an output one word closer to its operand than the overlap distance."""
    graph = random_network(seed, steps=10)
    made, best = plan(graph, Request("layer")), plan(graph, Request("unfused"))
    assert best.arena["sram"] <= made.arena["sram"]
    for x, y in operand_pairs(best):
        begin, end = best.offset(x), best.offset(x) + best.graph.tensors[x].bytes
        at = best.offset(y)
        index = best.graph.producer[y]
        op, variant = best.graph.ops[index], best.variants[index]
        distances = overlap_distances(best.graph, op, variant)
        distance = distances.get(op.inputs.index(x)) if x in op.inputs else None
        apart = at + best.graph.tensors[y].bytes <= begin or end <= at or best.places[x].buffer == best.places[y].buffer
        assert apart or variant == "tw_move" or (distance is not None and at + distance <= begin), (x, y, at, begin, distance)


def test_padding_rows_do_not_wait_for_the_padded_pixel() -> None:
    """The rows above the pixel are padding and may be streamed before it is computed."""
    tensors = [activation(name, (1, 1, 1, 4)) for name in ("image", "pixel")] + [activation("padded", (1, 4, 2, 4))]
    tensors.append(constant("paddings", np.array([[0, 0], [2, 1], [1, 0], [0, 0]], np.int32)))
    ops = [Op("relu_0", "relu", ("image",), ("pixel",)), Op("pad_1", "pad", ("pixel", "paddings"), ("padded",))]
    graph = tiny("padded", tensors, ops, ("image",), ("padded",))
    made = plan_in_stages(graph, [(0, 1)], streamed_outputs=("padded",))
    schedule = made.stages[0].schedule
    assert schedule is not None and schedule.timings[0].first == 2 * schedule.timings[1].every


def test_a_value_computed_in_the_state_overlaps_no_input() -> None:
    x, y = (activation(name, (1, 8)) for name in "xy")
    start, past = constant("start", np.zeros((1, 8), np.int8), (0.05,)), replace(activation("past", (1, 8)), role="state")
    double = Op("add_0", "add", ("x", "x"), ("y",), {"activation": "none"})
    keep = Op("assign_variable_1", "assign_variable", ("y",), ("past",))
    first = Op("assign_variable_2", "assign_variable", ("start",), ("past",))
    made = plan(tiny("kept", [x, y, start, past], [double, keep], ("x",), ("y",), init=(first,)))
    assert made.places["y"].buffer == "past" and made.arena["sram"] == 16


def test_a_tile_without_rows_of_a_map_passes() -> None:
    """A window of stride 3 skips the map and reads only padding."""
    made = plan(random_network(859, random.Random(859).randint(4, 14), growers=BY_ROW, live=2, usual=0))
    assert any(0 in size for stage in made.stages if stage.schedule for size in stage.schedule.tiles.values())


def test_a_block_that_needs_no_new_column_keeps_the_columns_of_its_tile() -> None:
    """At the right edge, the first layers of a tile have no column left to compute, and each column is computed once."""
    count, height, width = 6, 4, 8
    tensors = [activation(f"x{i}", (1, height, width, 4)) for i in range(count + 1)]
    tensors += [constant(f"w{i}", ramp((1, 3, 3, 4)), (0.01,)) for i in range(count)]
    ops = [Op(f"window_{i}", "depthwise_conv_2d", (f"x{i}", f"w{i}", None), (f"x{i + 1}",), SAME) for i in range(count)]
    graph, seen = tiny("windows", tensors, ops, ("x0",), (f"x{count}",)), list[Touched]()
    check(plan_in_stages(graph, [range(count)], tiles=(Tile(tuple(range(count)), 1, height),)), seen.append)
    for name in (f"x{i + 1}" for i in range(count)):
        columns = [col for each in seen if each.writes and (each.tensor, each.row) == (name, 0) for col in each.cols]
        assert columns == list(range(width)), name


def test_each_operand_of_a_concatenation_without_code_is_in_place() -> None:
    """The last operand has one element, which is the last of the output."""
    tensors = [activation(name, (1, channels)) for name, channels in (("x", 4), ("z", 1), ("a", 4), ("b", 1), ("y", 5))]
    ops = [Op(f"make_{out}", "relu", (x,), (out,), {}) for x, out in (("x", "a"), ("z", "b"))]
    join = Op("join", "concatenation", ("a", "b"), ("y",), {"axis": 1, "activation": "none"})
    made = plan(tiny("joined", tensors, [*ops, join], ("x", "z"), ("y",)), Request("layer"))
    whole = replace(made.buffer("y"), bytes=12, start=0)
    places = {**made.places, "a": Place("y", 0), "b": Place("y", 4)}
    buffers, at = (made.buffer("x"), made.buffer("z"), whole), {"x": 0, "z": 4, "y": 8}
    nested = replace(made, variants=(*made.variants[:2], ""), buffers=buffers, places=places, offsets=at, arena={"sram": 20})
    check(nested)
    with pytest.raises(UnsoundPlanError, match="join moves its view"):
        check(replace(nested, places={**places, "b": Place("y", 8)}))


def test_a_constant_output_needs_no_memory() -> None:
    graph = NETWORKS["chain"]()
    made = plan(replace(graph, outputs=(*graph.outputs, "fc.weights")))
    assert "fc.weights" not in made.places
    assert made.arena == plan(graph).arena
