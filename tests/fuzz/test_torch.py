"""Random PyTorch networks agree with torch in numpy, and every fourth in LiteRT; a sweep covers each op often.

Some are quantised, emitted as C, and run on an emulated core. `--fuzz-seed N --fuzz-count M` compares others with torch.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

import torch
from cases.from_torch import distances
from fuzz.seeds import parametrize
from fuzz.steps import steps_apart
from fuzz.torch_networks import loaded, network
from fuzz.torch_quantised import is_quantised
from fuzz.whole_way import whole_way
from report.supported_ops import op_names
from torch.fx.experimental.proxy_tensor import make_fx

from tinyweave import ops
from tinyweave.importers.aten.core import CORE
from tinyweave.importers.torch import from_module
from tinyweave.ir import CompileError
from tinyweave.ops import SPECS

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # even kernels, for which torch pads by a copy
    pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]
USUAL, IN_SWEEPS, BATCH, OF_EACH = 30, 2_000, 10, 3
TIED = (1103, 1268, 1358, 1854)  # networks that choose by two numbers, or a sign, that are equal, or zero, but for rounding
CLOSE, STEPS = 1e-4, 8  # of the range of a float output; quantisation steps of the output of a quantised network
VIEWS: list[Callable[[torch.Tensor, random.Random], torch.Tensor]] = [
    lambda t, rng: t.select(rng.randrange(t.ndim), 0),
    lambda t, rng: t.select(-1, -1),
    lambda t, rng: t[1:] if t.shape[0] > 1 else t,
    lambda t, rng: t[..., ::2],
    lambda t, rng: t.transpose(0, -1),
    lambda t, rng: t.swapaxes(0, -1),
    lambda t, rng: t.movedim(0, -1),
    lambda t, rng: t.permute(*reversed(range(t.ndim))),
    lambda t, rng: t.T if t.ndim == 2 else t,
    lambda t, rng: t.unsqueeze(rng.randint(0, t.ndim)),
    lambda t, rng: t.squeeze(),
    lambda t, rng: t.squeeze().flatten(),
    lambda t, rng: t.chunk(2, 0)[0],
    lambda t, rng: t.split(1, -1)[-1],
    lambda t, rng: t.unbind(0)[-1],
    lambda t, rng: t.narrow(0, 0, 1),
    lambda t, rng: t.diagonal() if t.ndim == 2 else t,
    lambda t, rng: t.unflatten(0, (1, -1)),
    lambda t, rng: t.reshape(-1),
    lambda t, rng: t.expand(2, *t.shape),
    lambda t, rng: t.contiguous(),
    lambda t, rng: t.detach(),
    lambda t, rng: t.float(),
    # not views
    lambda t, rng: t.clone(),
    lambda t, rng: t.flip(0) + 1,
    lambda t, rng: t.relu(),
]
WRITES: list[Callable[[torch.Tensor], object]] = [
    lambda t: t.add_(1),
    lambda t: t.add_(t.clone()),
    lambda t: t.sub_(0.25),
    lambda t: t.mul_(3),
    lambda t: t.neg_(),
    lambda t: t.zero_(),
    lambda t: t.fill_(0.5),
    lambda t: t.clamp_(min=-0.3),
    lambda t: t.masked_fill_(t > 0.2, -1.0),
    lambda t: t.copy_(t.clone() * 2),
    lambda t: t.__setitem__(..., 0.7),
    lambda t: t.__setitem__(-1 if t.ndim else ..., 2.5),
    lambda t: t.__setitem__(slice(1) if t.ndim else ..., torch.tensor(1.5)),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, "seeds", USUAL, IN_SWEEPS, BATCH)


def compare(seed: int, litert: ModuleType | None) -> None:
    """Assert that the imported network of a seed computes the same as torch."""
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


def test_random_networks_compute_the_same_as_torch(seeds: range, litert: ModuleType) -> None:
    for seed in seeds:
        compare(seed, litert if seed % 4 == 0 else None)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(0, 400, 2))
def test_random_networks_in_core_aten_compute_the_same_as_torch(seed: int) -> None:
    """torch writes one_hot of computed indices as a comparison of integers, which is refused."""
    if not is_quantised(seed) and seed not in TIED and "one_hot" not in ops_of(seed):
        assert distances(*network(seed), transposes=None, core=True)[1] < CLOSE, seed


class Written(torch.nn.Module):
    """Views of constants, or of computed maps (`of_maps`), which are written; the parts and views are the output."""

    def __init__(self, seed: int, of_maps: bool) -> None:
        super().__init__()
        self.seed, self.of_maps = seed, of_maps
        self.register_buffer("buffer", torch.linspace(-1, 2, 12).reshape(3, 4))
        self.weight = torch.nn.Parameter(torch.linspace(2, -1, 6).reshape(2, 3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rng = random.Random(self.seed)
        constants = [self.buffer.clone(), torch.linspace(-2, 3, 12).reshape(3, 4), torch.zeros(2, 3), self.weight * 1]
        parts = [(x * 2).reshape(3, 4), x + 1] if self.of_maps else constants
        for _ in range(rng.randint(3, 8)):
            part = rng.choice(parts)
            if rng.random() < 0.6:
                parts.append(rng.choice(VIEWS if part.ndim else VIEWS[-5:])(part, rng))
            elif part.numel() and 0 not in part.stride():
                rng.choice(WRITES)(part)
        return torch.cat([x, *((part.reshape(1, -1) + x[:, :1]) * (place + 1) for place, part in enumerate(parts))], 1)


@pytest.mark.parametrize("of_maps", [False, True], ids=["constants", "maps"])
def test_random_writes_reach_all_that_reads_them(of_maps: bool, seeds: range) -> None:
    refused = 0
    for seed in seeds:
        module, x = Written(seed, of_maps).eval(), torch.linspace(-1, 2, 12).reshape(1, 12)
        with torch.no_grad():
            expected = module(x)
        try:
            graph = from_module(module, x)
        except CompileError:
            refused += 1
            continue
        (found,) = ops.run(graph, {graph.inputs[0]: x.numpy()}).values()
        assert np.allclose(found, expected.numpy(), 1e-4, 1e-4 * float(expected.abs().max())), seed
    assert refused <= len(seeds) * 0.7 if of_maps else not refused


def ops_of(seed: int) -> set[str]:
    """Return the names of the ATen ops of a network, in a quarter of the time of torch.export, which the importer calls."""
    module, example = network(seed)
    with torch.no_grad():
        nodes = make_fx(module, pre_dispatch=True)(example).graph.nodes
    names = {node.target._opname for node in nodes if isinstance(node.target, torch._ops.OpOverload)}
    return {name.strip("_") if name.startswith("__") else name.removesuffix("_") for name in names}


@pytest.mark.sweep
def test_every_op_is_in_many_random_networks() -> None:
    elsewhere = {"softsign"}  # torch's is a division; tested as ONNX's
    elsewhere |= {"avg_pool3d", "embedding_bag", "fmod", "pairwise_distance", "remainder"}  # test_torch_composed, test_tokens
    elsewhere |= {"col2im", "fill", "index_put", "reshape_as", "unfold", "view_as"}  # test_torch_composed
    elsewhere |= CORE.keys()
    missing = Counter({name: OF_EACH for row in op_names().values() for name in row["PyTorch"] if name not in elsewhere})
    for seed in range(IN_SWEEPS):
        if not is_quantised(seed) or any("quantize" in name for name in missing):  # torchao takes seconds for a network
            missing -= Counter(ops_of(seed))
        if not missing:
            break
    assert not missing


@pytest.mark.emulator
@pytest.mark.litert
@pytest.mark.parametrize("seed", [1, 4, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1000, 1030))])
def test_a_random_network_is_quantised_and_verified_on_a_core(seed: int, emulator: None) -> None:
    assert whole_way(*loaded(seed), "cortex-m4", Counter()) is None
