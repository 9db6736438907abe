"""The pass that folds functions of one int8 element that follow each other into one table of 256 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cases.elementwise import DOMAINS, numbers
from tests.cases.tiny import activation, constant, graph
from tests.passes.layers import same_layers
from tinyweave import ops
from tinyweave.ir import Graph, Op, Tensor, verify
from tinyweave.ops.functions import FUNCTIONS
from tinyweave.passes import run_passes
from tinyweave.passes.merge_rescales import fold_tables

KINDS = [spec.kind for spec in FUNCTIONS if spec.kind not in DOMAINS]


def int8(name: str, *shape: int, scale: float = 0.03, zero: int = 3, dtype: str = "int8") -> Tensor:
    return activation(name, shape, scale, zero, dtype)


def row(*steps: Op, tensors: tuple[Tensor, ...] = (), outputs: tuple[str, ...] = ()) -> Graph:
    """Return a network of ops on maps of [1, 4, 5, 3] whose outputs are t0, t1, ...; the first one reads x."""
    named = {t.name: t for t in tensors}
    maps = [named.get(name, int8(name, 1, 4, 5, 3)) for name in ("x", *(step.outputs[0] for step in steps))]
    own = [t for t in tensors if t.name not in {each.name for each in maps}]
    return verify(graph("net", [*maps, *own], list(steps), ("x",), outputs or steps[-1].outputs))


def op(number: int, kind: str, *constants: str, **attrs: object) -> Op:
    """Return an op that reads the output of op `number` - 1, which is x for the first op, and constants."""
    return Op(f"op{number}", kind, (f"t{number - 1}" if number else "x", *constants), (f"t{number}",), attrs)


def folded(before: Graph) -> list[str]:
    """Return the kinds of the ops after the pass, which must keep all bytes."""
    before = ops.check(before)
    after, tensors = fold_tables(before)
    assert tensors == {} and verify(after).outputs == before.outputs
    assert same_layers(before, after, tensors, 0)
    return [each.kind for each in after.ops]


def test_a_chain_of_functions_is_one_table_with_the_same_bytes() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        kinds = rng.choice(KINDS, size=int(rng.integers(2, 6)))
        steps = [op(number, str(kind), **numbers(kind, rng)) for number, kind in enumerate(kinds)]
        scales = {"tanh": (1 / 128, 0)}
        maps = [
            int8(step.outputs[0], 1, 4, 5, 3, **dict(zip(("scale", "zero"), scales[step.kind], strict=True)))
            if step.kind in scales
            else int8(step.outputs[0], 1, 4, 5, 3, scale=rng.uniform(0.005, 0.1), zero=int(rng.integers(-128, 128)))
            for step in steps
        ]
        assert folded(row(*steps, tensors=tuple(maps))) == ["lookup"], kinds


NUMBER = constant("number", np.array([[50]], np.int8), (0.03,))
ALPHA = constant("alpha", np.array([[[20]]], np.int8), (0.03,))


@pytest.mark.parametrize(
    "steps",
    [
        [op(0, "mul", "number", activation="relu"), op(1, "hard_swish")],
        [op(0, "exp"), op(1, "sub", "number", activation="none")],
        [op(0, "relu6"), op(1, "sin"), op(2, "quantize"), op(3, "maximum", "number"), op(4, "leaky_relu", alpha=0.2)],
        [op(0, "prelu", "alpha"), op(1, "div", "number", activation="none"), op(2, "gelu", approximate=False)],
        [op(0, "quantize"), op(1, "quantize"), op(2, "abs")],
    ],
)
def test_ops_with_a_constant_of_one_element_are_folded_with_tables(steps: list[Op]) -> None:
    quant = int8("", scale=0.03, zero=0)
    like = [int8(name, 1, 4, 5, 3, scale=0.03, zero=0) for name in ("x", "t0", "t1", "t2", "t3", "t4")[: len(steps) + 1]]
    used = [t for t in (NUMBER, ALPHA) if any(t.name in step.inputs for step in steps)]
    assert quant.scale == NUMBER.scale
    assert folded(row(*steps, tensors=(*like, *used))) == ["lookup"]


def test_a_comparison_that_selects_constants_is_folded_with_a_table() -> None:
    mask = Tensor("t1", (1, 4, 5, 3), "bool")
    zero = constant("zero", np.zeros((1,), np.int8), (0.03,))
    select = Op("op2", "select_v2", ("t1", "number", "zero"), ("t2",))
    like = [int8(name, 1, 4, 5, 3, scale=0.03, zero=0) for name in ("x", "t0", "t2")]
    before = row(op(0, "sin"), op(1, "greater", "zero"), select, tensors=(*like, mask, zero, NUMBER))
    assert folded(before) == ["lookup"]


def test_no_table_is_made_of_ops_that_need_none() -> None:
    """Two rescalings have less code and fewer constants than a table."""
    assert folded(row(op(0, "quantize"), op(1, "relu"), tensors=(int8("t0", 1, 4, 5, 3, scale=0.07),))) == ["quantize", "relu"]


def test_a_tensor_that_another_op_or_the_caller_reads_is_kept() -> None:
    read_twice = row(op(0, "sin"), op(1, "exp"), Op("sum", "add", ("t0", "t1"), ("t2",), {"activation": "none"}))
    assert folded(read_twice) == ["sin", "exp", "add"]
    assert folded(row(op(0, "sin"), op(1, "exp"), outputs=("t0", "t1"))) == ["sin", "exp"]


def test_ops_with_other_operands_are_not_folded() -> None:
    channels = constant("channels", np.array([1, 2, 3], np.int8), (0.03,))
    several = row(op(0, "sin"), op(1, "mul", "channels", activation="none"), tensors=(channels,))
    assert folded(several) == ["sin", "mul"]
    both = row(op(0, "sin"), Op("op1", "add", ("t0", "x"), ("t1",), {"activation": "none"}))
    assert folded(both) == ["sin", "add"]
    larger = constant("larger", np.full((1, 1, 1, 1, 1), 9, np.int8), (0.03,))
    raised = row(op(0, "sin"), op(1, "mul", "larger", activation="none"), tensors=(larger, int8("t1", 1, 1, 4, 5, 3)))
    assert folded(raised) == ["sin", "mul"]


def test_int16_is_not_folded() -> None:
    wide = [activation(name, (1, 4, 5, 3), 2.0**-exponent, 0, "int16") for name, exponent in (("t0", 13), ("t1", 15))]
    assert folded(row(op(0, "quantize"), op(1, "tanh"), tensors=tuple(wide))) == ["quantize", "tanh"]
    assert folded(row(op(0, "quantize"), op(1, "tanh"), op(2, "quantize"), tensors=tuple(wide))) == ["lookup"]


def test_the_passes_fold_what_earlier_passes_leave() -> None:
    """A relu is fused into the sum before it as today; the functions after it become one table."""
    total = Op("sum", "add", ("x", "x"), ("t0",), {"activation": "none"})
    like = int8("t0", 1, 4, 5, 3), int8("t1", 1, 4, 5, 3)
    before = row(total, op(1, "relu"), op(2, "sin"), op(3, "sqrt"), tensors=like)
    after, _ = run_passes(before, io="int8")
    assert [(each.kind, each.attrs.get("activation")) for each in after.ops] == [("add", "relu"), ("lookup", None)]
