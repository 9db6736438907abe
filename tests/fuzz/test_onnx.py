"""Random ONNX networks agree with ONNX Runtime in float, and within the quantisation noise in int8; a sweep has every op.

Some are emitted as C and run on an emulated core. `bench/fuzzing/torch_networks.py --onnx` runs any number.
"""

from __future__ import annotations

from collections import Counter

import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install '.[onnx]'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")

from cases.from_onnx import distance  # noqa: E402
from fuzz.onnx_networks import LEAST_SQNR_DB, loaded, network, run  # noqa: E402
from fuzz.whole_way import whole_way  # noqa: E402

from tinyweave.importers.onnx import from_onnx  # noqa: E402
from tinyweave.importers.onnx_ops import MAPPED  # noqa: E402

USUAL, IN_SWEEPS, OF_EACH = 20, 500, 3
CLOSE = 1e-4  # of the output's range


def ops_where_close(seed: int) -> Counter[str]:
    """Compare the float network of a seed with ONNX Runtime, and return the counts of its ops."""
    file, example = network(seed)
    expected = run(file, example)
    assert expected is not None and distance(from_onnx(file, "net"), [example], [expected]) < CLOSE, seed
    return Counter(node.op_type for node in onnx.ModelProto.FromString(file).graph.node)


@pytest.mark.parametrize("offset", range(USUAL))
def test_a_random_network_computes_the_same_as_onnx_runtime(offset: int, request: pytest.FixtureRequest) -> None:
    ops_where_close(request.config.getoption("--fuzz-seed") + offset)


@pytest.mark.sweep
def test_every_op_is_in_many_random_networks() -> None:
    seen: Counter[str] = Counter()
    for seed in range(IN_SWEEPS):
        seen += ops_where_close(seed)
    elsewhere = {"OneHot", "RMSNormalization"}  # tested in test_tokens; ONNX has the other from opset 23 on
    assert not {op: seen[op] for op in {*MAPPED} - elsewhere if seen[op] < OF_EACH}


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("seed", [0, 3, 5, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1000, 1030))])
def test_a_random_network_is_quantised_and_verified_on_a_core(seed: int, emulator: None) -> None:
    assert whole_way(*loaded(seed), "cortex-m4", Counter(), LEAST_SQNR_DB) is None
