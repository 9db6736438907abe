"""Tensors inside other tensors: concatenations and slices need no code if their tensors can alias."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from cases.tiny import activation, constant, graph, ramp
from codegen.emitted import prove
from fuzz.generate import random_order

from tinyweave.codegen import Origin, emit
from tinyweave.ir import Graph, Op, Tensor
from tinyweave.planning import Place, Plan, plan, plan_in_order
from tinyweave.planning.alias.overlap import ANY_DISTANCE, views
from tinyweave.planning.alias.subtensors import with_parts
from tinyweave.planning.order.order_search import file_order

WINDOW = {"stride": (1, 1), "dilation": (1, 1), "activation": "none", "padding": ((1, 1), (1, 1))}
WIDTH = 6


class RowGraph:
    """A network under construction of int8 maps [1, rows, WIDTH, 4] that joins and cuts rows."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []

    def map(self, rows: int) -> str:
        self.tensors.append(activation(f"t{len(self.tensors)}", (1, rows, WIDTH, 4)))
        return self.tensors[-1].name

    def numbers(self, *values: int) -> str:
        self.tensors.append(constant(f"n{len(self.tensors)}", np.array(values, np.int32)))
        return self.tensors[-1].name

    def rows(self, name: str) -> int:
        return next(t.shape[1] for t in self.tensors if t.name == name)

    def op(self, kind: str, inputs: tuple[str, ...], rows: list[int], **attrs: object) -> list[str]:
        outputs = [self.map(count) for count in rows]
        self.ops.append(Op(f"{kind}_{len(self.ops)}", kind, inputs, tuple(outputs), attrs))
        return outputs

    def depthwise(self, x: str) -> str:
        weights = constant(f"n{len(self.tensors)}", ramp((1, 3, 3, 4), 5 + len(self.ops)), (0.004,))
        self.tensors.append(weights)
        op = Op(
            f"depthwise_conv_2d_{len(self.ops)}",
            "depthwise_conv_2d",
            (x, weights.name, None),
            (self.map(self.rows(x)),),
            WINDOW,
        )
        self.ops.append(op)
        return op.outputs[0]

    def add(self, x: str) -> str:
        return self.op("add", (x, x), [self.rows(x)], activation="none")[0]

    def join(self, *names: str) -> str:
        return self.op("concatenation", names, [sum(map(self.rows, names))], axis=1, activation="none")[0]

    def cut(self, x: str, begin: int, rows: int) -> str:
        """Add a slice or a strided_slice of some rows."""
        if begin % 2:
            return self.op("slice", (x, self.numbers(0, begin, 0, 0), self.numbers(1, rows, WIDTH, 4)), [rows])[0]
        masks = {f"{name}_mask": 0 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")} | {"offset": False}
        ends = (self.numbers(0, begin, 0, 0), self.numbers(1, begin + rows, WIDTH, 4), self.numbers(1, 1, 1, 1))
        return self.op("strided_slice", (x, *ends), [rows], **masks)[0]

    def split(self, x: str, parts: list[int]) -> list[str]:
        return self.op("split_v", (x, self.numbers(*parts), self.numbers(1)), parts)

    def graph(self, inputs: tuple[str, ...]) -> Graph:
        read = {name for op in self.ops for name in op.inputs}
        outputs = tuple(name for op in self.ops for name in op.outputs if name not in read)
        return graph("rows", self.tensors, self.ops, inputs, outputs)


def random_rows(seed: int) -> Graph:
    """Return a network of random joins, cuts, windows and sums; some tensors are read or joined several times."""
    rng, row_graph = random.Random(seed), RowGraph()
    inputs = tuple(row_graph.map(rng.randint(2, 6)) for _ in range(rng.choice([1, 1, 2])))
    live = list(inputs)
    for _ in range(rng.randint(5, 14)):
        x = rng.choice(live[-5:])
        match rng.randrange(6):
            case 0:
                live.append(row_graph.join(*(rng.choice(live[-5:]) for _ in range(rng.randint(2, 3)))))
            case 1:
                fresh = [row_graph.depthwise(rng.choice(live[-4:])) for _ in range(rng.randint(2, 3))]
                live += [*fresh, row_graph.join(*fresh)] if rng.random() < 0.5 else [row_graph.join(*fresh)]
            case 2:
                live.append(row_graph.depthwise(x))
            case 3:
                live.append(row_graph.add(x))
            case 4:
                begin = rng.randrange(row_graph.rows(x))
                live.append(row_graph.cut(x, begin, rng.randint(1, row_graph.rows(x) - begin)))
            case _:
                first = rng.randint(1, max(1, row_graph.rows(x) - 1))
                live += (
                    row_graph.split(x, [first, row_graph.rows(x) - first]) if first < row_graph.rows(x) else [row_graph.add(x)]
                )
        live = [name for name in live if row_graph.rows(name) <= 24] or list(inputs)
    return row_graph.graph(inputs)


def free_ops(made: Plan) -> list[Op]:
    return [op for op, variant in zip(made.graph.ops, made.variants, strict=True) if not variant]


@pytest.mark.parametrize("seed", range(8))
def test_random_joins_and_cuts_give_the_bytes_of_the_reference(seed: int, tmp_path: Path) -> None:
    original = random_rows(seed)
    order = random_order(original, random.Random(seed))
    made = plan_in_order(original, order, max_distance=ANY_DISTANCE, moves=True, parts=True)
    prove(made, tmp_path / "parts", seed=seed)
    if seed % 4 == 0:
        prove(plan(original), tmp_path / "best", seed=seed)


def test_random_joins_and_cuts_keep_every_operand_intact() -> None:
    """Every plan is checked. Most have aliased tensors, and `best` never needs more RAM than with copies."""
    free = 0
    for seed in range(12):
        original = random_rows(seed)
        order = random_order(original, random.Random(seed))
        free += len(free_ops(plan_in_order(original, order, max_distance=ANY_DISTANCE, moves=True, parts=True)))
        copied = plan_in_order(original, file_order(original), max_distance=ANY_DISTANCE, moves=True)
        assert plan(original).arena["sram"] <= copied.arena["sram"], seed
    assert free > 12


def joined() -> Graph:
    row_graph = RowGraph()
    x = row_graph.map(4)
    a, b = row_graph.depthwise(x), row_graph.depthwise(x)
    row_graph.depthwise(row_graph.join(a, b))
    row_graph.add(x)
    return row_graph.graph((x,))


def test_a_join_of_new_tensors_needs_no_code() -> None:
    made = plan(joined())
    assert [op.kind for op in free_ops(made)] == ["concatenation"]
    whole = made.graph.ops[2].outputs[0]
    a, b = made.graph.ops[2].inputs
    assert a is not None and b is not None
    assert (made.places[a], made.places[b]) == (Place(whole, 0), Place(whole, 4 * WIDTH * 4))
    text = emit(made, "m", Origin("m.tflite", "0" * 64)).files["m.c"]
    assert "tw_concatenation" not in text and "no code: input and output are the same bytes" in text


def test_a_cut_aliases_its_input() -> None:
    row_graph = RowGraph()
    x = row_graph.map(6)
    y = row_graph.depthwise(x)
    first, second = row_graph.split(y, [2, 4])
    row_graph.add(row_graph.cut(second, 1, 2))
    row_graph.depthwise(first)
    made = plan(row_graph.graph((x,)))
    assert [op.kind for op in free_ops(made)] == ["split_v", "slice"]
    row = WIDTH * 4
    cut = made.graph.ops[2].outputs[0]
    assert (made.places[first], made.places[second], made.places[cut]) == (Place(y, 0), Place(y, 2 * row), Place(y, 3 * row))


def join_that_is_copied(change: str) -> Graph:
    """Return a network with a join that must remain a copy."""
    row_graph = RowGraph()
    x = row_graph.map(4)
    a, b = row_graph.depthwise(x), row_graph.depthwise(x)
    match change:
        case "an input of the network":
            a = x
        case "one tensor twice":
            b = a
        case "a part of another":
            b = row_graph.cut(b, 1, 2)
        case "channels":
            whole = activation("whole", (1, 4, WIDTH, 8))
            row_graph.tensors.append(whole)
            row_graph.ops.append(Op("concatenation_9", "concatenation", (a, b), ("whole",), {"axis": 3, "activation": "none"}))
            return row_graph.graph((x,))
    row_graph.join(a, b)
    return row_graph.graph((x,))


@pytest.mark.parametrize("change", ["an input of the network", "one tensor twice", "a part of another", "channels"])
def test_tensors_that_cannot_alias_are_copied(change: str) -> None:
    original = join_that_is_copied(change)
    shared = with_parts(original, views(original), file_order(original))
    assert not [index for index in shared.free if original.ops[index].kind == "concatenation"]


def test_unaligned_subtensors_are_copied() -> None:
    x, a, b = activation("x", (1, 9, 1, 1)), activation("a", (1, 5, 1, 1)), activation("b", (1, 4, 1, 1))
    sizes, axis = constant("sizes", np.array([5, 4], np.int32)), constant("axis", np.array(1, np.int32))
    cut = graph(
        "odd", [x, a, b, sizes, axis], [Op("split_v_0", "split_v", ("x", "sizes", "axis"), ("a", "b"))], ("x",), ("a", "b")
    )
    assert not with_parts(cut, views(cut), (0,)).free
