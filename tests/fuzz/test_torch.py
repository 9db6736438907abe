"""Random PyTorch networks agree with torch in numpy, and every fourth in LiteRT; a sweep covers each op often.

Some are quantised, emitted as C, and run on an emulated core. `bench/fuzzing/torch_networks.py` runs any number.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import distances
from fuzz.steps import steps_apart
from fuzz.torch_networks import loaded, network
from fuzz.torch_quantised import is_quantised
from fuzz.whole_way import whole_way

from tinyweave.importers.op_names import op_names
from tinyweave.importers.torch import from_module, trace
from tinyweave.ops import SPECS

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # even kernels, for which torch pads by a copy
    pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]
USUAL, IN_SWEEPS, OF_EACH = 30, 2_000, 10
TIED = (1103, 1268, 1358, 1854)  # networks that choose by two numbers, or a sign, that are equal, or zero, but for rounding
CLOSE, STEPS = 1e-4, 8  # of the range of a float output; quantisation steps of the output of a quantised network


def ops_where_close(seed: int, litert: ModuleType | None) -> Counter[str]:
    """Compare the network of a seed with torch, and return the counts of its ATen ops."""
    module, example = network(seed)
    if is_quantised(seed):
        with torch.no_grad():
            expected = module(example).numpy()
        assert steps_apart(from_module(module, example), example.numpy(), expected).max() <= STEPS, seed
    else:
        graph, ours, by_litert = distances(module, example, litert, transposes=None)
        assert (ours < CLOSE and by_litert < CLOSE) or seed in TIED, seed
        chooses = any(op.kind == "sign" or SPECS[op.kind].family == "index" for op in graph.ops)
        assert seed not in TIED or chooses, "it has no op that jumps"
    return Counter({node.op.removesuffix("_") for node in trace(module, example).nodes})


@pytest.mark.parametrize("offset", range(USUAL))
def test_a_random_network_computes_the_same_as_torch(offset: int, request: pytest.FixtureRequest, litert: ModuleType) -> None:
    ops_where_close(request.config.getoption("--fuzz-seed") + offset, litert if offset % 4 == 0 else None)


@pytest.mark.sweep
def test_every_op_is_in_many_random_networks(litert: ModuleType) -> None:
    seen: Counter[str] = Counter()
    for seed in range(IN_SWEEPS):
        seen += ops_where_close(seed, litert if seed % 3 == 0 else None)
    names = {name for row in op_names().values() for name in row["PyTorch"]}
    elsewhere = {"softsign"}  # torch's is a division; tested as ONNX's
    elsewhere |= {
        "avg_pool3d",
        "embedding_bag",
        "fmod",
        "pairwise_distance",
        "remainder",
    }  # test_torch_composed, test_tokens
    rare = {op: seen[op] for op in names - elsewhere if seen[op] < OF_EACH}
    assert not rare


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("seed", [1, 4, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1000, 1030))])
def test_a_random_network_is_quantised_and_verified_on_a_core(seed: int, emulator: None) -> None:
    assert whole_way(*loaded(seed), "cortex-m4", Counter()) is None
