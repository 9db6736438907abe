"""Float32 graphs survive the round trip through .tflite, and LiteRT computes the same outputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cases.as_float import float_case
from cases.ops import GENERATORS, Case, cases

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.ir import diff, fingerprint

INTEGERS = (
    "batch_matmul",
    "cast",
    "dequantize",
    "detection_postprocess",
    "lookup",
    "quantize",
    "svdf",
)  # conversions, and kinds without a float32 form
VARIABLES = ("assign_variable", "read_variable")  # imported under the names of their initial values
FLOAT = sorted(set(GENERATORS) - {*INTEGERS, *VARIABLES})
MODELS = (
    "derived__swiftnet_cell_ckpt75000_float",
    "mit-han-lab__VWW__model_fp32",
    "mlcommons__tiny__ad01_fp32",
    "mlcommons__tiny__kws_ref_model_float32",
    "mlcommons__tiny__pretrainedResnet",
    "mlcommons__tiny__vww_96_float",
)
HYBRID = ("mlcommons__tiny__kws_ref_model_float32",)  # its weights are int8, and LiteRT rounds its maps to int8 for them


def float_cases(kind: str) -> Iterator[Case]:
    """Yield the cases of a kind converted to float32, without those of former uint8 models."""
    made = (case for case in cases(kind) if not case.graph.ops[-1].attrs.get("unsigned"))
    return islice(map(float_case, made), 8)


@pytest.mark.parametrize("kind", FLOAT)
def test_a_float_graph_survives_the_round_trip_through_tflite(kind: str) -> None:
    for case in float_cases(kind):
        again = from_tflite(to_tflite(case.graph), case.graph.name)
        assert diff(case.graph, again) == [], case.id
        for arrays in case.inputs[:1]:
            given = dict(zip(case.graph.inputs, arrays, strict=True))
            expected, computed = (list(ops.run(graph, given).values()) for graph in (case.graph, again))
            assert [a.tobytes() for a in computed] == [a.tobytes() for a in expected], case.id


@pytest.mark.shared
@pytest.mark.litert
@pytest.mark.parametrize("model", MODELS)
def test_a_rewritten_float_model_computes_the_same_in_litert(model: str, shared: Path, litert: ModuleType) -> None:
    file = (shared / "models" / f"{model}.tflite").read_bytes()
    graph = from_tflite(file, model)
    assert all(graph.tensors[name].dtype == "float32" for name in graph.inputs)
    written = to_tflite(graph)
    assert fingerprint(from_tflite(written, model)) == fingerprint(graph)
    rng = np.random.default_rng(17)
    inputs = [[rng.normal(size=graph.tensors[name].shape).astype(np.float32) for name in graph.inputs] for _ in range(2)]
    rounding = 0.03 if model in HYBRID else 0
    for before, after in zip(litert.run(file, inputs), litert.run(written, inputs), strict=True):
        for a, b in zip(before.outputs, after.outputs, strict=True):
            assert a.tobytes() == b.tobytes() or np.abs(a - b).max() < rounding * np.abs(a).max()
