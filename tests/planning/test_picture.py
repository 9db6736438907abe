"""The memory map of a plan has one line per buffer by offset, with the steps in which it is alive."""

from __future__ import annotations

import pytest
from cases.tiny import NETWORKS

from tinyweave.planning import Request, plan
from tinyweave.planning.picture import memory_picture


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("max_columns", [64, 4, 3, 2, 1])
def test_a_column_is_marked_if_the_buffer_is_alive_in_one_of_its_steps(name: str, max_columns: int) -> None:
    made = plan(NETWORKS[name](), Request("layer"))
    steps = len(made.stages)
    lines = memory_picture(made, max_columns=max_columns)
    each = next(n for n in range(1, steps + 1) if n * max_columns >= steps)
    head = f"arena {made.arena['sram']:,} B (lower bound {made.lower_bound:,} B), {steps} steps"
    assert lines[0] == head + (f", {each} per column." if each > 1 else ".") and lines[1].split()[-1] == "tensor"
    drawn = {line.split()[-1]: line.split() for line in lines[2:]}
    offsets = [made.offsets[name] for name in drawn]
    assert sorted(drawn) == sorted(buffer.name for buffer in made.buffers) and offsets == sorted(offsets)
    for buffer in made.buffers:
        begin, _, end, size, columns, _ = drawn[buffer.name]
        assert [int(word.replace(",", "")) for word in (begin, end, size)] == [
            made.offsets[buffer.name],
            made.offsets[buffer.name] + buffer.bytes,
            buffer.bytes,
        ]
        alive = [buffer.start <= step < buffer.end for step in range(steps)]
        assert columns == "".join(".#"[any(alive[at : at + each])] for at in range(0, steps, each))
