"""An architecture as a PyTorch module with the same layers as the graph of `network.to_graph`."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tinyweave.ops.window import ChainLayer

from ..arch import POOLINGS, Arch, Block, blocks, classifier_macs
from ..tasks.dataset import SCALE
from ..tasks.evaluation.baselines import logistic_regression, nearest_neighbours

OBJECT_BIAS = -4.0  # initial object score of a detector: few cells hold an object

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu6": nn.ReLU6, "hard_swish": nn.Hardswish}


class Excitation(nn.Module):
    """Squeeze and excitation: scale each channel of a map by a gate, computed by two layers from the channel means."""

    def __init__(self, channels: int, squeezed: int):
        """Create the two layers: 1x1 convolutions from `channels` to `squeezed` channels and back."""
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the map [n, c, h, w] with scaled channels."""
        return squeeze_excite(x, self.reduce.weight, self.reduce.bias, self.expand.weight, self.expand.bias)


def squeeze_excite(x: Tensor, down: Tensor, down_bias: Tensor | None, up: Tensor, up_bias: Tensor | None) -> Tensor:
    """Scale a map [n, c, h, w] by squeeze and excitation; `down` and `up` are weights [c_out, c_in, 1, 1] of its layers."""
    inner = functional.relu(functional.conv2d(x.mean((2, 3), keepdim=True), down, down_bias))
    return x * functional.hardsigmoid(functional.conv2d(inner, up, up_bias))


class Bottleneck(nn.Module):
    """A `Block` as a module: its layers in sequence, with its squeeze and excitation and its residual connection."""

    def __init__(self, block: Block):
        """Create the layers of a block with random weights."""
        super().__init__()
        last = len(block.layers) - 1
        units = [
            unit(layer, "" if block.linear and index == last else block.activation) for index, layer in enumerate(block.layers)
        ]
        self.layers, self.residual = nn.Sequential(*units), block.residual
        self.excitation = Excitation(block.layers[-1].c_in, block.squeezed) if block.squeezed else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the output map [n, c_out, rows, columns] of the block for an input map [n, c_in, rows, columns]."""
        output: Tensor = self.layers(x) if self.excitation is None else self.layers[-1](self.excitation(self.layers[:-1](x)))
        return x + output if self.residual else output


class Mean(nn.Module):
    """Global average pooling: the mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means [n, c] of a map [n, c, h, w]."""
        return x.mean((2, 3))


class Max(nn.Module):
    """Global max pooling: the maximum of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima [n, c] of a map [n, c, h, w]."""
        return functional.max_pool2d(x, x.shape[2:]).flatten(1)


class Both(nn.Module):
    """Global pooling: the mean of each channel, then the maximum of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means and the maxima [n, 2 * c] of a map [n, c, h, w]."""
        return torch.cat((Mean()(x), Max()(x)), 1)


class Flat(nn.Module):
    """No pooling: all values of a map as a vector, in the order in which the graph's map stores them (channels last)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the values [n, h * w * c] of a map [n, c, h, w]."""
        return x.permute(0, 2, 3, 1).flatten(1)


POOLING_MODULES: dict[str, type[nn.Module]] = dict(zip(POOLINGS, (Mean, Max, Both, Flat), strict=True))


class MaxOfClasses(nn.Module):
    """The end of a nearest-neighbour network: the maximum over the outputs of each class, and at least 0."""

    def __init__(self, classes: int):
        """Set the number of classes."""
        super().__init__()
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores [n, classes] for outputs [n, stored * classes]; the class of an output is its index % classes."""
        scores: Tensor = x.relu().reshape(len(x), -1, self.classes).amax(1)
        return scores


def unit(layer: ChainLayer, activation: str) -> nn.Sequential:
    """Return a layer as a module: a convolution, batch normalisation, and an activation unless `activation` is empty."""
    pads, groups = (layer.padding[0][0], layer.padding[1][0]), layer.c_in if layer.depthwise else 1
    conv = nn.Conv2d(layer.c_in, layer.c_out, layer.kernel, layer.stride, pads, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(layer.c_out), *([ACTIVATIONS[activation]()] if activation else []))


def load_fitted(module: nn.Sequential, arch: Arch, values: NDArray[np.int8], labels: NDArray[np.int64]) -> None:
    """Set the weights of a network of `module_of` from samples [n, rows, columns, channels] and their classes [n].

    A linear network becomes logistic regression, and a nearest-neighbour network stores the samples.
    """
    dense = module[1]
    assert isinstance(dense, nn.Linear)
    if arch.stored:
        weights, biases = nearest_neighbours(values, labels, arch.classes, arch.stored)
    else:
        weights, biases = logistic_regression(values, labels, arch.classes)
    with torch.no_grad():
        dense.weight.copy_(torch.from_numpy(weights / SCALE))
        dense.bias.copy_(torch.from_numpy(biases))


def module_of(arch: Arch, seed: int = 0) -> nn.Sequential:
    """Return a network with random weights: samples [batch, channels, rows, columns] -> scores [batch, classes].

    A detector gives the output of its head, [batch, channels, rows, columns]; without classes, the mean of each channel.
    """
    sequence = blocks(arch)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [Bottleneck(block) for block in (sequence[:-1] if arch.anchors else sequence)]
        head = None
        if arch.anchors:
            last = sequence[-1].layers[-1]
            head = nn.Conv2d(last.c_in, last.c_out, 1)
        ends: list[nn.Module] = [head or POOLING_MODULES[arch.pooling]()]
        if arch.classes and not arch.anchors:
            outputs = arch.classes * max(1, arch.stored)
            ends.append(nn.Linear(classifier_macs(arch) // outputs, outputs))
        if arch.stored:
            ends.append(MaxOfClasses(arch.classes))
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
        if head is not None and head.bias is not None:
            nn.init.normal_(head.weight, 0, 0.01)
            with torch.no_grad():
                head.bias.view(arch.anchors, -1)[:, 4] = OBJECT_BIAS
    return module
