"""Every lag of the table is safe, and as small as it claims to be.

Each generated case runs with its output `lag` bytes below its input, in one arena that holds only the two, and gives the
bytes of a run apart. One byte less, and cases differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.ops import Case, cases
from codegen.test_kinds import union

from tinyweave import ops
from tinyweave.codegen import Origin, emit
from tinyweave.kernels.table import variant_for
from tinyweave.plan import Buffer, Place, Plan, Stage
from tinyweave.simulate import compare, host

WINDOWED = ("conv_2d", "depthwise_conv_2d", "average_pool_2d", "max_pool_2d", "fully_connected")
CASES, SAMPLES = 60, 40


def lag_of(case: Case) -> int | None:
    return variant_for(case.graph, case.graph.ops[0]).lag(case.graph, case.graph.ops[0])


def dense(case: Case) -> bool:
    """Whether the lag claims to be the smallest: for grouped convolutions it is that of dense ones."""
    op = case.graph.ops[0]
    return op.kind != "conv_2d" or case.graph.input(op).shape[3] == case.graph.input(op, 1).shape[3]


def overlapped(chosen: Sequence[Case], less: int) -> Plan:
    """A plan of all cases side by side, each output `lag - less` bytes below its input; nobody checks it."""
    graph = union("overlapped", chosen)
    buffers, offsets, begin = [], {}, 0
    for case, op in zip(chosen, graph.ops, strict=True):
        lag = lag_of(case)
        assert lag is not None
        x, out = graph.input(op), graph.output(op)
        offsets |= {out.name: begin + less, x.name: begin + lag}
        buffers += [Buffer(t.name, t.bytes, 0, len(graph.ops), 1) for t in (x, out)]
        begin += max(lag + x.bytes, out.bytes + less) + 64
    return Plan(
        graph=graph,
        stages=tuple(Stage((index,)) for index in range(len(graph.ops))),
        variants=tuple(variant_for(graph, op).name for op in graph.ops),
        buffers=tuple(buffers),
        places={buffer.name: Place(buffer.name) for buffer in buffers},
        offsets=offsets,
        arena={"sram": begin},
        scratch=0,
        lower_bound=0,
    )


def built(plan: Plan, folder: Path) -> host.Program:
    folder.mkdir()
    for file, text in emit(plan, "overlapped", Origin("cases.tflite", "0" * 64)).files.items():
        (folder / file).write_text(text)
    return host.build(folder, "overlapped")


@pytest.mark.parametrize("kind", WINDOWED)
def test_lag_is_safe_and_tight(kind: str, tmp_path: Path) -> None:
    usable = (case for case in cases(kind) if len(case.graph.inputs) == 1 and lag_of(case) is not None)
    chosen = list(itertools.islice(usable, CASES))
    assert len(chosen) >= 20
    plans = [overlapped(chosen, 0), overlapped(chosen, 1)]
    programs = [built(plan, tmp_path / name) for plan, name in zip(plans, ("at", "below"), strict=True)]
    rng, found_tight = np.random.default_rng(0), set()
    for _ in range(SAMPLES):
        inputs = [rng.integers(-128, 128, case.inputs[0][0].shape).astype(np.int8) for case in chosen]
        expected = [
            ops.run(case.graph, {case.graph.inputs[0]: x})[case.graph.outputs[0]].tobytes()
            for case, x in zip(chosen, inputs, strict=True)
        ]
        at, below = (
            host.invoke(program, plan.arena, compare.pack(inputs), compare.output_bytes(plan.graph)).outputs
            for program, plan in zip(programs, plans, strict=True)
        )
        for case, want, have in zip(chosen, expected, at, strict=True):
            assert want == have, f"{case.id}, lag {lag_of(case)}"
        found_tight |= {case.id for case, want, have in zip(chosen, expected, below, strict=True) if want != have}
    # a byte that is overwritten too early shows only where its weight and its new value matter
    claimed = [case for case in chosen if lag_of(case) and dense(case) and responsive(case)]
    loose = [(case.id, lag_of(case)) for case in claimed if case.id not in found_tight]
    assert len(claimed) >= 5
    assert len(loose) <= len(claimed) // 5, f"not shown to be tight: {loose}"


def responsive(case: Case) -> bool:
    """Whether every output channel takes many values: one that saturates does not show what it was computed from."""
    rng, name = np.random.default_rng(1), case.graph.inputs[0]
    shape = case.inputs[0][0].shape
    seen = [
        ops.run(case.graph, {name: rng.integers(-128, 128, shape).astype(np.int8)})[case.graph.outputs[0]] for _ in range(8)
    ]
    channels = np.stack(seen).reshape(-1, seen[0].shape[-1]).T
    return all(len(np.unique(channel)) >= 5 for channel in channels)


def test_oldest_pixels_by_brute_force() -> None:
    """Against the definition: the first pixel that this or any later window holds."""
    from tinyweave.kernels.lag import oldest_pixels
    from tinyweave.ops.spec import Window

    rng = np.random.default_rng(3)
    for _ in range(200):
        size = tuple(int(n) for n in rng.integers(1, 9, 2))
        extent = tuple(int(rng.integers(1, 6)) for _ in size)
        stride = tuple(int(n) for n in rng.integers(1, 4, 2))
        pad = tuple(int(rng.integers(0, e)) for e in extent)
        out = tuple((size[a] + pad[a] + int(rng.integers(0, extent[a])) - extent[a]) // stride[a] + 1 for a in (0, 1))
        if min(out) < 1:
            continue
        first = []
        for y, x in itertools.product(range(out[0]), range(out[1])):
            taps = [
                (y * stride[0] - pad[0] + i) * size[1] + x * stride[1] - pad[1] + j
                for i, j in itertools.product(range(extent[0]), range(extent[1]))
                if 0 <= y * stride[0] - pad[0] + i < size[0] and 0 <= x * stride[1] - pad[1] + j < size[1]
            ]
            first.append(min(taps, default=size[0] * size[1]))
        needed = np.minimum.accumulate(first[::-1])[::-1]
        found = oldest_pixels(size, out, Window(extent, stride, pad))
        assert (found <= needed).all()
        inside = np.array(first) < size[0] * size[1]
        assert (found == needed)[inside].all(), (size, extent, stride, pad, out)


def test_a_batch_of_several_maps_has_no_lag() -> None:
    case = next(case for case in cases("max_pool_2d"))
    x = case.graph.tensors[case.graph.inputs[0]]
    several = {**case.graph.tensors, x.name: replace(x, shape=(2, *x.shape[1:]))}
    graph = replace(case.graph, tensors=several)
    assert variant_for(case.graph, case.graph.ops[0]).lag(graph, graph.ops[0]) is None
