"""An architecture as a PyTorch module: what is trained is, layer by layer, what `network.to_graph` plans."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...papers.chain import ChainLayer
from ..arch import Arch, Block, blocks

FIRST = -4.0  # a detector's score of objects before any training: few cells have one


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu6": nn.ReLU6, "hard_swish": nn.Hardswish}


class Excitation(nn.Module):
    """Squeeze and excitation: a map scaled by channel with what two layers make of the channels' means."""

    def __init__(self, channels: int, squeezed: int):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return excited(x, self.reduce.weight, self.reduce.bias, self.expand.weight, self.expand.bias)


def excited(x: Tensor, down: Tensor, down_bias: Tensor | None, up: Tensor, up_bias: Tensor | None) -> Tensor:
    """Return a map [n, c, h, w] scaled by channel. down, up: weights of the two layers [c_out, c_in, 1, 1], and biases."""
    inner = functional.relu(functional.conv2d(x.mean((2, 3), keepdim=True), down, down_bias))
    return x * functional.hardsigmoid(functional.conv2d(inner, up, up_bias))


class Bottleneck(nn.Module):
    """Layers of a block one after the other, added to what went in where the block has a residual."""

    def __init__(self, block: Block):
        super().__init__()
        last = len(block.layers) - 1
        units = [
            unit(layer, "" if block.linear and index == last else block.activation) for index, layer in enumerate(block.layers)
        ]
        self.layers, self.residual = nn.Sequential(*units), block.residual
        self.excitation = Excitation(block.layers[-1].c_in, block.squeezed) if block.squeezed else None

    def forward(self, x: Tensor) -> Tensor:
        made = self.layers(x) if self.excitation is None else self.layers[-1](self.excitation(self.layers[:-1](x)))
        return x + made if self.residual else made


class Mean(nn.Module):
    """The mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def unit(layer: ChainLayer, activation: str) -> nn.Sequential:
    """Return a convolution, its norm, and its activation, if any."""
    pads, groups = (layer.padding[0][0], layer.padding[1][0]), layer.c_in if layer.depthwise else 1
    conv = nn.Conv2d(layer.c_in, layer.c_out, layer.kernel, layer.stride, pads, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(layer.c_out), *([ACTIVATIONS[activation]()] if activation else []))


def module_of(arch: Arch, seed: int = 0) -> nn.Sequential:
    """Return the network with random weights; input [batch, channels, rows, columns], output the classes' scores.

    A detector's output is its head, [batch, channels, rows, columns].
    """
    sequence = blocks(arch)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [Bottleneck(block) for block in (sequence[:-1] if arch.anchors else sequence)]
        (last,) = sequence[-1].layers[-1:]
        ends: list[nn.Module] = [nn.Conv2d(last.c_in, last.c_out, 1)] if arch.anchors else [Mean()]
        if arch.classes and not arch.anchors:
            ends.append(nn.Linear(sequence[-1].layers[-1].c_out, arch.classes))
        module = nn.Sequential(*layers, *ends)
        for part in module.modules():
            if isinstance(part, nn.Conv2d):
                fan_out = part.out_channels * math.prod(part.kernel_size) // part.groups
                nn.init.normal_(part.weight, 0, math.sqrt(2 / fan_out))
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
            elif isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, 0, 0.01)
                nn.init.zeros_(part.bias)
        if arch.anchors:
            nn.init.normal_(module[-1].weight, 0, 0.01)
            with torch.no_grad():
                module[-1].bias.view(arch.anchors, -1)[:, 4] = FIRST
    return module
