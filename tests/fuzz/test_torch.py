"""Random PyTorch networks agree with torch in numpy, and every fourth in LiteRT; a sweep covers each op often.

Some are quantised, emitted as C, and run on an emulated core. `bench/fuzzing/torch_networks.py` runs any number.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import distances, trained
from fuzz.torch_networks import loaded, network
from fuzz.whole_way import whole_way

from tinyweave.importers.aten import OPS
from tinyweave.importers.aten.quantised import QUANTISED
from tinyweave.importers.torch import trace

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # even kernels, for which torch pads by a copy
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]
USUAL, IN_SWEEPS, OF_EACH = 30, 1_400, 10
CLOSE = 1e-4  # of the output's range


def ops_where_close(seed: int, litert: ModuleType | None) -> Counter[str]:
    """Compare the network of a seed with torch, and return the counts of its ATen ops."""
    module, example = network(seed)
    _, ours, by_litert = distances(trained(module, seed), example, litert, transposes=None)
    assert ours < CLOSE and by_litert < CLOSE, seed
    return Counter({node.op.removesuffix("_") for node in trace(module, example).nodes})


@pytest.mark.parametrize("offset", range(USUAL))
def test_a_random_network_computes_the_same_as_torch(offset: int, request: pytest.FixtureRequest, litert: ModuleType) -> None:
    ops_where_close(request.config.getoption("--fuzz-seed") + offset, litert if offset % 4 == 0 else None)


@pytest.mark.sweep
def test_every_op_is_in_many_random_networks(litert: ModuleType) -> None:
    seen: Counter[str] = Counter()
    for seed in range(IN_SWEEPS):
        seen += ops_where_close(seed, litert if seed % 3 == 0 else None)
    # tested in test_quantised, test_tokens, test_torch and test_torch_composed; softsign is a division in torch
    elsewhere = {*QUANTISED, "addmm", "dot", "mm", "mv", "one_hot", "real", "rsqrt", "softsign", "topk", "unflatten"}
    elsewhere |= {"eq", "ne", "or", "bitwise_and", "bitwise_or", "logical_and", "logical_not", "logical_or", "view_as_real"}
    elsewhere |= {"gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"}
    rare = {op: seen[op] for op in OPS if op not in elsewhere and seen[op] < OF_EACH}
    assert not rare


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("seed", [1, 4, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1000, 1030))])
def test_a_random_network_is_quantised_and_verified_on_a_core(seed: int, emulator: None) -> None:
    assert whole_way(*loaded(seed), "cortex-m4", Counter()) is None
