"""resize_bilinear on values converted from uint8: LiteRT's float arithmetic, in numpy and in the emitted C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cases.ops import Case, cases
from codegen.emitted import emitted

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Quant
from tinyweave.planning import plan
from tinyweave.simulate import compare, emulated, host

CASES = list(cases("resize_bilinear"))[:21]


def on_uint8(case: Case) -> Graph:
    """Return the case's op on uint8 tensors."""
    q = Quant((0.5,), (128,))
    tensors = {n: replace(t, dtype="uint8", quant=q) if t.dtype == "int8" else t for n, t in case.graph.tensors.items()}
    return replace(case.graph, tensors=tensors)


def from_uint8(case: Case) -> Graph:
    """Return the case's op on int8 tensors converted from uint8: values and zero points minus 128."""
    tensors = {n: replace(t, quant=Quant((0.5,), (0,))) if t.dtype == "int8" else t for n, t in case.graph.tensors.items()}
    op = case.graph.ops[0]
    return ops.check(replace(case.graph, tensors=tensors, ops=(replace(op, attrs={**op.attrs, "unsigned": True}),)))


def values(case: Case) -> list[np.ndarray]:
    """Yield random int8 values, and the same with the ends of the range in every other pixel."""
    x = case.inputs[0][0].copy()
    x[:, ::2] = np.where(x[:, ::2] < 0, -128, 127)
    return [case.inputs[0][0], x]


@pytest.mark.litert
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reference_equals_litert_on_uint8(case: Case, litert: ModuleType) -> None:
    for x in values(case):
        (run,) = litert.run(to_tflite(on_uint8(case)), [[(x.astype(np.int16) + 128).astype(np.uint8)]])
        (computed,) = ops.run(from_uint8(case), {case.graph.inputs[0]: x}).values()
        assert (computed.astype(np.int16) + 128).astype(np.uint8).tobytes() == run.outputs[0].tobytes()


@pytest.mark.parametrize("case", CASES[:12], ids=lambda case: case.id)
def test_emitted_c_equals_the_reference(case: Case, tmp_path: Path) -> None:
    graph = from_uint8(case)
    made = plan(graph)
    assert made.variants == ("tw_resize_bilinear_s8_float",)
    emitted(made, tmp_path, graph.name)
    program = host.build(tmp_path, graph.name, sanitize=True)
    firmware = emulated.build(tmp_path, graph.name, "cortex-m4")
    for x in values(case):
        expected = [array.tobytes() for array in ops.run(graph, {graph.inputs[0]: x}).values()]
        arguments = (made.arena, compare.pack([x]), compare.output_bytes(graph))
        assert host.invoke(program, *arguments).outputs == expected
        assert emulated.invoke(firmware, *arguments).outputs == expected
