"""A module has the layers and the RAM of the planned architecture, also after quantisation."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import tinyweave as tw  # noqa: E402
from tinynas.arch import POOLINGS, Arch, blocks, macs, weights  # noqa: E402
from tinynas.learning.module import module_of  # noqa: E402
from tinynas.network import to_graph  # noqa: E402
from tinynas.space import Family, SearchSpace, arch_of, keywords, mobilenet_v3, plain, sample, sensors, small_images  # noqa: E402
from tinyweave import api  # noqa: E402
from tinyweave.ops import macs_original  # noqa: E402
from tinyweave.passes import run_passes  # noqa: E402
from tinyweave.planning import Request, plan  # noqa: E402

V3 = mobilenet_v3(((64, 64),), by_group=True)
V3 = replace(V3, groups=tuple(replace(group, depths=(1,)) for group in V3.groups))
FULL = 99  # in place of a seed: a network of full convolutions with the largest kernels
SPACES = (small_images(), keywords(), keywords((49, 40)), sensors(128, 3))


def trained_looking(arch: Arch, seed: int) -> torch.nn.Module:
    """Return a module whose norms are not the identity, as after training."""
    module, rng = module_of(arch, seed), torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.copy_(0.3 * torch.randn(part.num_features, generator=rng))
            part.running_var.copy_(0.5 + torch.rand(part.num_features, generator=rng))
            part.weight.data.copy_(0.6 + torch.rand(part.num_features, generator=rng))
            part.bias.data.copy_(0.5 + torch.rand(part.num_features, generator=rng))
    return module.eval()


@pytest.mark.parametrize(
    ("space", "seed", "pooling"),
    [
        *product(SPACES, (0,), ("mean",)),
        *product((SPACES[0], SPACES[3]), (0,), POOLINGS[1:]),
        (V3, 0, "mean"),
        *((space, FULL, "both") for space in SPACES),
        *(pytest.param(space, 1, pooling, marks=pytest.mark.sweep) for space in SPACES for pooling in POOLINGS),
    ],
    ids=lambda each: f"{each.name}-{each.sizes[0][1]}" if isinstance(each, SearchSpace) else None,
)
def test_a_quantised_module_has_the_arena_of_its_architecture(space: SearchSpace, seed: int, pooling: str) -> None:
    arch = arch_of(space, sample(space, random.Random(seed), width=min(space.widths)), 5)
    if seed == FULL:
        arch = arch_of(space, plain(space, min(space.widths), 2, Family(True, "long")), 5)
    arch = replace(arch, pooling=pooling)
    rows, columns, channels = arch.image
    module = trained_looking(arch, seed)
    loaded = tw.load(module, torch.zeros(1, channels, rows, columns))
    samples = np.random.default_rng(seed).uniform(-1, 1, (40, rows, columns, channels)).astype(np.float32)
    deployed = api.with_io(tw.quantize(loaded, samples, method="minmax").model, "int8", "nhwc").graph
    drawn, _ = run_passes(to_graph("drawn", blocks(arch), arch.classes, pooling=pooling), io="int8")
    assert [op.kind for op in deployed.ops] == [op.kind for op in drawn.ops]
    shapes = [[graph.tensors[op.outputs[0]].shape for op in graph.ops] for graph in (deployed, drawn)]
    assert shapes[0] == shapes[1]
    assert macs_original(to_graph("whole", blocks(arch), arch.classes, pooling=pooling)) == macs(arch)
    for streamed in (True, False):
        arenas = [plan(graph, Request(stream_inputs=streamed, core="cortex-m4")).arena for graph in (deployed, drawn)]
        assert arenas[0] == arenas[1]
    parameters = sum(p.numel() for p in module.parameters() if p.ndim > 1)
    assert parameters == weights(arch)


def test_weights_follow_from_the_seed() -> None:
    arch = arch_of(small_images(), sample(small_images(), random.Random(1)), 3)
    first, again, other = (torch.cat([p.flatten() for p in module_of(arch, seed).parameters()]) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
