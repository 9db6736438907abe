"""Random ONNX networks agree with ONNX Runtime in float, and within quantisation steps in int8; a sweep has every op.

Some are emitted as C and run on an emulated core. `--fuzz-seed N --fuzz-count M` compares others with ONNX Runtime.
"""

from __future__ import annotations

from collections import Counter

import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")

from cases.from_onnx import distance  # noqa: E402
from fuzz.onnx_networks import LEAST_SQNR_DB, loaded, network, run  # noqa: E402
from fuzz.onnx_quantised import is_quantised  # noqa: E402
from fuzz.seeds import parametrize  # noqa: E402
from fuzz.steps import steps_apart  # noqa: E402
from fuzz.whole_way import whole_way  # noqa: E402
from report.supported_ops import op_names  # noqa: E402

from tinyweave.importers.onnx import from_onnx  # noqa: E402

USUAL, IN_SWEEPS, BATCH, OF_EACH = 20, 500, 10, 3
CLOSE, STEPS = 1e-4, 8  # of the range of a float output; quantisation steps of the output of a quantised network

# ops that random networks lack; most are tested in tests/importers/test_onnx_forms.py. QLinearReduceMean is tested in
# test_quantised.py, SimplifiedLayerNormalization in test_onnx_node_tests.py. CastLike occurs in function bodies, and
# TransposeMatMul, which has no test of its own, runs the importer function of FusedMatMul.
ELSEWHERE = {
    *("BiasGelu", "CastLike", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "GatherElements", "GatherND"),
    *("LinearClassifier", "LinearRegressor", "NhwcMaxPool", "Normalizer", "QLinearReduceMean", "QuickGelu", "Scaler"),
    *("ScatterElements", "ScatterND", "SimplifiedLayerNormalization", "SkipLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "TransposeMatMul", "ZipMap"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seeds", USUAL, IN_SWEEPS, BATCH)


def compare(seed: int) -> None:
    """Assert that the imported network of a seed computes the same as ONNX Runtime."""
    file, example = network(seed)
    expected, graph = run(file, example), from_onnx(file, "net")
    assert expected is not None
    if is_quantised(seed):
        assert steps_apart(graph, example, expected).max() <= STEPS, seed
    else:
        assert distance(graph, [example], [expected]) < CLOSE, seed


def test_random_networks_compute_the_same_as_onnx_runtime(seeds: range) -> None:
    for seed in seeds:
        compare(seed)


@pytest.mark.sweep
def test_every_op_is_in_many_random_networks() -> None:
    seen: Counter[str] = Counter()
    for seed in range(IN_SWEEPS):
        seen.update(node.op_type for node in onnx.ModelProto.FromString(network(seed)[0]).graph.node)
    names = {name for row in op_names().values() for name in row["ONNX"]}
    assert not {op: seen[op] for op in names - ELSEWHERE if seen[op] < OF_EACH}


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("seed", [0, 3, 5, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1000, 1030))])
def test_a_random_network_is_quantised_and_verified_on_a_core(seed: int, emulator: None) -> None:
    assert whole_way(*loaded(seed), "cortex-m4", Counter(), LEAST_SQNR_DB) is None
