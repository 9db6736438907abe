"""The text of `plan --explain`: each sentence is printed if it applies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases.graphs import Net
from cases.tiny import NETWORKS

from tinyweave.ir import Graph, verify
from tinyweave.planning import Plan, Request, plan
from tinyweave.planning.explain import explain
from tinyweave.report.explanation import explanation_lines


def words(made: Plan, tensor: str) -> str:
    return "\n".join(explanation_lines(made, explain(made, tensor)))


def test_the_explanation_of_a_skip_connection() -> None:
    layer, best = (plan(NETWORKS["residual"](), Request(schedule)) for schedule in ("layer", "best"))
    text = words(layer, "x")
    assert "a network input, written before the first step" in text
    assert "lies apart from conv_2d_0 while conv_2d_0 runs\n    it must: add_1 reads the operand later, in step 2" in text
    assert "they could share 120 B, which this plan does not use" in text
    assert "--schedule best uses such overlaps" in text
    text = words(best, "sum")
    assert "shares 120 B with" in text and "tw_add_s8 reads each byte before it writes there" in text
    assert "--schedule best" not in text
    assert "tensor 'flat'" in words(best, "flat") and "the same bytes are also 'both'" in words(best, "flat")
    assert "kept to the end for the caller" in words(best, "flat")


def test_the_explanation_of_a_skip_that_waits_for_the_other_branch() -> None:
    net = Net(8, 8, 4)
    x = net.conv("image", 4)
    last = net.add(x, net.conv(net.conv(x, 8), 4))
    made = plan(verify(Graph("skip", net.tensors, tuple(net.ops), ("image",), (last,))), Request("layer"))
    assert "it would be free earlier if add_3 ran earlier, which waits for conv_2d_2 in step 3" in words(made, x)


def test_the_explanation_says_whether_a_tensor_is_part_of_the_peak() -> None:
    made = plan(NETWORKS["residual"](), Request("layer"))
    assert "it is part of the peak: without it the busiest step would need 240 B instead of 360 B" in words(made, "branch")
    assert "it does not hold the peak of 360 B" in words(made, "largest")


def test_the_explanation_of_state_says_that_it_is_kept_between_calls() -> None:
    text = words(plan(NETWORKS["stream"]()), "past")
    assert "state, kept between calls: no other buffer may have its bytes" in text
    assert "it must: the operand is kept between calls" in text


@pytest.mark.parametrize(("distance", "said"), [(5, "5 B below"), (0, "with it"), (-5, "5 B above")])
def test_the_explanation_says_where_an_overlapping_output_begins(distance: int, said: str) -> None:
    made = plan(NETWORKS["residual"]())
    found = explain(made, "sum")
    overlaps = tuple(replace(o, shared=1, distance=distance) for o in found.overlaps if o.overlap_distance is not None)
    assert overlaps
    assert f"here it begins {said}" in "\n".join(explanation_lines(made, replace(found, overlaps=overlaps)))


def test_the_explanation_names_line_buffers_and_streamed_inputs() -> None:
    made = plan(NETWORKS["chain"](), Request(stream_inputs=True))
    lines = explanation_lines(made, explain(made, "image"))
    assert "    3 of its 8 rows at a time, in a ring: its stage runs row by row" in lines
    assert "    a network input, brought by rows" in lines
