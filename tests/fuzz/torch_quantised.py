"""Random PyTorch networks that torchao's XNNPACK quantiser made int8 (PT2E), with folded or with float weights."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from cases.from_torch import trained
from fuzz.torch_growth import Layer, Network, grow
from torch import Tensor, nn
from torch.nn import functional

SAMPLES = 4  # random inputs that calibrate a network


def convolution(rng: random.Random, made: Network, shape: list[int]) -> Any:
    kernel, groups = rng.randint(1, 3), rng.choice([1, 1, shape[1]])
    outputs = groups * rng.randint(1, max(1, 12 // groups))
    layer = nn.Conv2d(shape[1], outputs, kernel, rng.randint(1, 2), kernel // 2, groups=groups, bias=rng.random() < 0.7)
    parts = [layer, *rng.choice([[], [nn.BatchNorm2d(outputs)]]), *rng.choice([[], [nn.ReLU()]])]
    return made.use(nn.Sequential(*parts))


def pool(rng: random.Random, made: Network, shape: list[int]) -> Any:
    return made.use(nn.MaxPool2d(2, rng.randint(1, 2))) if min(shape[2:]) > 1 else None


def earlier(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Combine the map with an earlier one of its size."""
    places = [i for i, other in enumerate(made.shapes[:-1]) if i and other[2:] == shape[2:]]
    if not places:
        return None
    place = rng.choice(places)
    if made.shapes[place] == shape:
        return rng.choice([lambda x: x + made.maps[place], lambda x: functional.relu(x * made.maps[place])])
    return lambda x: torch.cat([x, made.maps[place]], 1)


def head(rng: random.Random, made: Network, shape: list[int]) -> Any:
    linear = made.use(nn.Linear(shape[1], 5))
    return lambda x: linear(functional.adaptive_avg_pool2d(x, 1).flatten(1))


LAYERS: list[Layer] = [convolution, convolution, pool, earlier]


def is_quantised(seed: int) -> bool:
    """Return whether the network of a seed is quantised by torchao: one in twenty, all of them on images."""
    return seed % 20 == 12


def network(seed: int) -> tuple[nn.Module, Tensor]:
    """Return the int8 network of a seed as torchao leaves it, and an example input."""
    pytest.importorskip("torchao", reason="needs torchao: pip install torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    rng = random.Random(seed)
    torch.manual_seed(seed)
    made = Network([1, rng.randint(1, 6), rng.randint(5, 12), rng.randint(5, 12)])
    example = torch.randn(made.shapes[0])
    grow(rng, made, example, [convolution])
    for _ in range(rng.randint(1, 5)):
        grow(rng, made, example, LAYERS)
    grow(rng, made, example, [head])
    config = get_symmetric_quantization_config(is_per_channel=rng.random() < 0.5)
    exported = torch.export.export(trained(made, seed), (example,)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    for x in (example, *torch.randn(SAMPLES - 1, *example.shape)):
        prepared(x)
    return convert_pt2e(prepared, fold_quantize=rng.random() < 0.5), example
