"""svdf with an int8 memory equals TFLite Micro (tflite-micro 0.dev20261023182759 of PyPI); LiteRT does not support it.

With the memory's zero point of 120 products wrap around. The emitted C is compared with the numpy reference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases.draw import constant, single_op
from codegen.emitted import emitted

from tinyweave import ops
from tinyweave.ir import Graph, Quant, Tensor
from tinyweave.planning import Request, plan
from tinyweave.simulate import compare, emulated, host

INPUTS = np.random.RandomState(3).randint(-128, 128, (6, 1, 5)).astype(np.int8)
MICRO = [[79, 10, 5], [-58, -128, -90], [103, 127, 115], [48, 30, 40], [127, 49, 127], [127, 42, 119]]


def network(memory: Quant = Quant((4.0,), (120,))) -> Graph:  # noqa: B008 - a frozen value
    """Return a network of three units of rank 2 over four steps."""
    weights = np.random.RandomState(1).randint(-127, 128, (6, 5)).astype(np.int8)
    time = np.random.RandomState(2).randint(-127, 128, (6, 4)).astype(np.int8)
    operands: list[Tensor | None] = [
        Tensor("input", (1, 5), "int8", Quant((0.5,), (-3,))),
        constant("weights", weights, Quant((0.0625,), (0,))),
        constant("time", time, Quant((0.0078125,), (0,))),
        constant("bias", np.array([100, -2000, 3000], np.int32), Quant((0.03125,), (0,))),
        Tensor("state", (1, 24), "int8", memory, role="state"),
    ]
    return single_op("svdf", operands, Tensor("output", (), "int8", Quant((6.0,), (7,))), {"rank": 2, "activation": "relu"})


def computed(graph: Graph) -> list[list[int]]:
    state = ops.initial_state(graph)
    return [ops.run(graph, {"input": x}, state=state)["output"].ravel().tolist() for x in INPUTS]


def test_svdf_with_an_int8_memory_equals_tflite_micro() -> None:
    assert computed(network()) == MICRO


@pytest.mark.emulator
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("memory", [Quant((4.0,), (120,)), Quant((0.25,), (0,))], ids=["wraps", "saturates"])
def test_emitted_c_of_svdf_with_an_int8_memory_equals_the_reference(memory: Quant, core: str, tmp_path: Path) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    graph = network(memory)
    made = plan(graph, Request(core=core))
    emitted(made, tmp_path, "svdf")
    rounds = [[x.tobytes()] for x in INPUTS]
    for simulate, built in (
        (host, host.build(tmp_path, "svdf", sanitize=True)),
        (emulated, emulated.build(tmp_path, "svdf", core)),
    ):
        run = simulate.invoke(built, dict(made.arena), rounds[-1], [3], earlier=rounds[:-1])
        assert [outputs[0].ravel().tolist() for outputs in compare.unpack_all(graph, run)] == computed(graph)
