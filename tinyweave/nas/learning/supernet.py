"""A supernet: weights that hold those of every network of a space. In: a SearchSpace. Out: them, trained; networks of them.

A network of the space takes the first channels of each layer, the centre of each kernel, the first blocks of each group.
Sources: once-for-all (arXiv 1908.09791); TinyNAS trains so, too (arXiv 2007.10319).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...papers.chain import ChainLayer
from ...progress import Progress, silent
from ...tasks.dataset import SCALE
from ..arch import Arch, Block, blocks
from ..logs import Log, unlogged
from ..space import SearchSpace, arch_of, largest, sampled
from .module import ACTIVATIONS, Excitation, excited, module_of
from .team import Team
from .train import Recipe, as_tensor, fit, mixed

PER_BATCH = 4  # networks whose gradients a step adds up
BATCHES, BATCH = 20, 64  # of training samples, from which a network's norms take their statistics
EPSILON = 1e-5  # of norms, as in torch.nn.BatchNorm2d


class ElasticUnit(nn.Module):
    """A convolution and its norm, as wide as any network needs them; `cut` takes what one layer has of its weights.

    sides: of the kernels that networks may have, where they differ. With `transformed` a smaller kernel is the centre of the
    next larger one times a matrix that is learned, at first the identity.
    """

    def __init__(self, layer: ChainLayer, sides: tuple[int, ...] = (), *, transformed: bool = False):
        super().__init__()
        groups = layer.c_in if layer.depthwise else 1
        self.weight = nn.Conv2d(layer.c_in, layer.c_out, layer.kernel, groups=groups, bias=False).weight
        self.scale, self.shift = nn.Parameter(torch.ones(layer.c_out)), nn.Parameter(torch.zeros(layer.c_out))
        self.sides = tuple(sorted(sides, reverse=True))
        taps = [(min(side, layer.kernel[0]), min(side, layer.kernel[1])) for side in self.sides[1:] if transformed]
        self.matrices = nn.ParameterList(torch.eye(rows * columns) for rows, columns in taps)

    def cut(self, layer: ChainLayer) -> Tensor:
        """Return the weights of a layer [c_out, c_in of a group, rows, columns]."""
        weight = self.weight[: layer.c_out] if layer.depthwise else self.weight[: layer.c_out, : layer.c_in]
        for side, matrix in zip(self.sides[1:], self.matrices, strict=False):
            if max(layer.kernel) > side:
                break
            weight = centre(weight, (side, side))
            weight = (weight.flatten(1) @ matrix).reshape(weight.shape)
        return centre(weight, layer.kernel)

    def forward(self, x: Tensor, layer: ChainLayer) -> Tensor:
        """Return what the layer makes of a batch, its norm with the batch's own statistics."""
        weight = self.cut(layer).to(memory_format=torch.channels_last)
        groups = layer.c_in if layer.depthwise else 1
        x = functional.conv2d(x, weight, None, layer.stride, (layer.padding[0][0], layer.padding[1][0]), groups=groups)
        norm = self.scale[: layer.c_out], self.shift[: layer.c_out]
        return functional.batch_norm(x, None, None, *norm, training=True, eps=EPSILON)


class ElasticExcitation(Excitation):
    """Squeeze and excitation as wide as any network needs it; a network takes the first channels of both layers."""

    def cut(self, channels: int, squeezed: int) -> dict[str, Tensor]:
        """Return the weights that an Excitation of a network has, by their names there."""
        return {
            "reduce.weight": self.reduce.weight[:squeezed, :channels],
            "reduce.bias": self.reduce.bias[:squeezed],
            "expand.weight": self.expand.weight[:channels, :squeezed],
            "expand.bias": self.expand.bias[:channels],
        }

    def sort(self, order: Tensor) -> None:
        """Put the channels of the map in this order, and those between the layers in that of their L1 norm."""
        inner = self.expand.weight.abs().sum((0, 2, 3)).argsort(descending=True, stable=True)
        self.expand.weight.copy_(self.expand.weight[order][:, inner])
        self.expand.bias.copy_(self.expand.bias[order])
        self.reduce.weight.copy_(self.reduce.weight[:, order][inner])
        self.reduce.bias.copy_(self.reduce.bias[inner])


class Supernet(nn.Module):
    """units: per block of the largest network, its layers by their part in it: expand, depthwise, project, the last of which a
    layer by itself is, too; excitations: by block. The order of channels between bottlenecks is not changed by `sort`."""

    def __init__(self, space: SearchSpace, classes: int, *, transformed: bool = False, seed: int = 0):
        super().__init__()
        self.space, self.classes = space, classes
        self.largest = arch_of(space, largest(space), classes)
        sides = [()] + [group.kernels for group in space.groups for _ in range(max(group.depths))] + [()]
        self.first = [1 + sum(max(group.depths) for group in space.groups[:index]) for index in range(len(space.groups) + 1)]
        sequence = blocks(self.largest)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.units = nn.ModuleList(
                nn.ModuleDict(
                    {
                        part: ElasticUnit(layer, sides[index] if layer.depthwise else (), transformed=transformed)
                        for part, layer in parts(block)
                    }
                )
                for index, block in enumerate(sequence)
            )
            self.excitations = nn.ModuleDict(
                {
                    str(index): ElasticExcitation(block.layers[-1].c_in, block.squeezed)
                    for index, block in enumerate(sequence)
                    if block.squeezed
                }
            )
            self.classifier = nn.Linear(sequence[-1].layers[-1].c_out, classes)
        self.load(module_of(self.largest, seed))

    def blocks(self, arch: Arch) -> Iterator[tuple[Block, list[tuple[ElasticUnit, ChainLayer]], dict[str, Tensor]]]:
        """Yield the blocks of a network of the space, of each its layers, with the units that hold their weights, and the
        weights of its squeeze and excitation, if it has one."""
        places = [0] + [
            self.first[number] + index for number, group in enumerate(arch.groups) for index in range(len(group.kernels))
        ]
        for place, block in zip([*places, self.first[-1]], blocks(arch), strict=False):
            layers = [(self.units[place][part], layer) for part, layer in parts(block)]  # type: ignore[index]
            excitation = self.excitations[str(place)] if block.squeezed else None
            yield block, layers, excitation.cut(block.layers[-1].c_in, block.squeezed) if excitation is not None else {}  # type: ignore[operator]

    def forward(self, x: Tensor, arch: Arch | None = None) -> Tensor:
        """Return the scores [batch, classes] of one network of the space, the largest if none is given."""
        for block, layers, excitation in self.blocks(arch or self.largest):
            skip, activate = x, ACTIVATIONS[block.activation]()
            for index, (unit, layer) in enumerate(layers):
                is_last = index == len(layers) - 1
                if is_last and excitation:
                    x = excited(x, *(value.contiguous() for value in excitation.values()))
                x = unit(x, layer)
                if not block.linear or not is_last:
                    x = activate(x)
            if block.residual:
                x = skip + x
        x = x.mean((2, 3))
        return functional.linear(x, self.classifier.weight[:, : x.shape[1]].contiguous(), self.classifier.bias)

    def shared(self, arch: Arch) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights of a network of the space by their names in its module; the largest one has all that are here."""
        for index, (_, layers, excitation) in enumerate(self.blocks(arch)):
            for number, (unit, layer) in enumerate(layers):
                yield f"{index}.layers.{number}.0.weight", unit.cut(layer)
                yield f"{index}.layers.{number}.1.weight", unit.scale[: layer.c_out]
                yield f"{index}.layers.{number}.1.bias", unit.shift[: layer.c_out]
            for name, value in excitation.items():
                yield f"{index}.excitation.{name}", value
        yield f"{index + 2}.weight", self.classifier.weight[:, : layer.c_out]  # behind the mean
        yield f"{index + 2}.bias", self.classifier.bias

    def extract(self, arch: Arch) -> nn.Sequential:
        """Return a network of the space by itself, with its weights; its norms have no statistics yet, see `recalibrate`."""
        module = module_of(arch)
        state = module.state_dict()
        with torch.no_grad():
            for name, value in self.shared(arch):
                state[name].copy_(value)
        return module

    def load(self, module: nn.Sequential) -> None:
        """Take the weights of the largest network, trained by itself."""
        state = module.state_dict()
        with torch.no_grad():
            for name, value in self.shared(self.largest):
                value.copy_(state[name])

    def sort(self) -> None:
        """Put the channels between the layers of each bottleneck in an order, those first whose weights in the projection have
        the largest L1 norm, and so those inside squeeze and excitation; the largest network computes what it did before. So the
        first channels are worth most."""
        with torch.no_grad():
            for index, units in enumerate(self.units):
                if "expand" in units:  # type: ignore[operator]
                    project = units["project"].weight  # type: ignore[index]
                    order = project.abs().sum((0, 2, 3)).argsort(descending=True, stable=True)
                    project.copy_(project[:, order])
                    for unit in (units[part] for part in ("expand", "depthwise") if part in units):  # type: ignore[index, operator]
                        for parameter in (unit.weight, unit.scale, unit.shift):
                            parameter.copy_(parameter[order])
                    if str(index) in self.excitations:
                        self.excitations[str(index)].sort(order)  # type: ignore[operator]


def parts(block: Block) -> list[tuple[str, ChainLayer]]:
    """Return the layers of a block and the part that each has in it."""
    last = len(block.layers) - 1
    names = (
        "depthwise" if layer.depthwise else "project" if index == last else "expand" for index, layer in enumerate(block.layers)
    )
    return list(zip(names, block.layers, strict=True))


def centre(weight: Tensor, kernel: tuple[int, int]) -> Tensor:
    """Return the middle of kernels [.., rows, columns]."""
    rows, columns = ((have - min(have, want)) // 2 for have, want in zip(weight.shape[2:], kernel, strict=True))
    return weight[:, :, rows : weight.shape[2] - rows, columns : weight.shape[3] - columns]


def fit_supernet(
    supernet: Supernet,
    values: NDArray[np.int8],
    labels: NDArray[np.int64],
    recipe: Recipe,
    seed: int = 0,
    *,
    per_batch: int = PER_BATCH,
    distilled: bool = False,
    checkpoint: Path | None = None,
    team: Team | None = None,
    log: Log = unlogged,
    progress: Progress = silent,
) -> Supernet:
    """Train all networks of the space in place: at each step `per_batch` of them, drawn at random, add up their gradients.

    distilled: the largest one is the first of them, and the others learn the scores that it gives in place of the labels.
    team: processes that share the networks of each step; all of them begin with the weights of the first one. log: as of `fit`.
    """
    if team is not None:
        supernet.load_state_dict(team.shared({name: value.cpu() for name, value in supernet.state_dict().items()}))

    def losses(samples: Tensor, targets: Tensor, step: int) -> Iterator[Tensor | None]:
        rng = random.Random(f"{seed} {step}")
        drawn = (arch_of(supernet.space, sampled(supernet.space, rng), supernet.classes) for _ in range(per_batch))
        learned = targets
        for index, arch in enumerate(drawn):
            is_teacher, is_ours = distilled and index == 0, team is None or team.has(index)
            if not is_ours and not is_teacher:
                yield None
                continue
            arch, smoothing = supernet.largest if is_teacher else arch, 0.0 if learned.ndim > 1 else recipe.smoothing
            with mixed(samples), torch.set_grad_enabled(is_ours):
                scores = supernet(resized(samples, arch), arch)
                loss = functional.cross_entropy(scores, learned, label_smoothing=smoothing)
            yield loss if is_ours else None
            if is_teacher:
                learned = scores.detach().float().softmax(1)

    fit(supernet, values, labels, recipe, seed, losses=losses, checkpoint=checkpoint, team=team, log=log, progress=progress)
    return supernet


def resized(samples: Tensor, arch: Arch) -> Tensor:
    """Return samples [n, channels, rows, columns] in the size that a network is for: means of the pixels that lie in each."""
    size = arch.image[:2]
    return samples if samples.shape[2:] == size else functional.interpolate(samples, size, mode="area")


def recalibrate(module: nn.Module, values: NDArray[np.int8], seed: int = 0) -> nn.Module:
    """Give the norms of a network the statistics of BATCHES batches of samples, the same for the same seed."""
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    order = np.random.default_rng(seed).permutation(len(values))
    count = min(BATCHES, max(1, len(values) // BATCH))
    module.train()
    where = next(module.parameters()).device
    with torch.no_grad():
        for number in range(count):
            chosen = values[np.sort(order[number * BATCH : (number + 1) * BATCH])]
            module((as_tensor(chosen).to(where).float() * SCALE).contiguous(memory_format=torch.channels_last))
    for norm in norms:
        norm.momentum = 0.1
    return module.eval()
