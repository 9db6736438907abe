"""A supernet: one set of weights that all networks of a search space share.

A network uses a slice of the weights: the first channels of each layer, the centre of each kernel, and the first blocks of each
group. Sources: once-for-all (arXiv 1908.09791); TinyNAS (arXiv 2007.10319).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tinyweave.ops.window import ChainLayer

from ..arch import Arch, Block, blocks, classifier_macs
from ..space import SearchSpace, arch_of, largest, sample
from ..tasks.dataset import SCALE
from ..training_run import UNSAVED, TrainingRun
from .module import ACTIVATIONS, POOLING_MODULES, Excitation, module_of, squeeze_excite
from .train import GPU_BATCH, Recipe, as_tensor, fit, mixed, on_cpu

NETWORKS_PER_STEP = 4  # sampled networks of one training step, whose gradients are added up
CALIBRATION_BATCHES, CALIBRATION_BATCH = 20, 64  # for batch normalisation statistics: number of batches, samples per batch
EPSILON = 1e-5  # as in torch.nn.BatchNorm2d


class ElasticUnit(nn.Module):
    """A convolution with batch normalisation that holds the largest network's weights, of which others use a slice."""

    def __init__(self, layer: ChainLayer):
        """Allocate the weights of `layer`, the layer of the largest network."""
        super().__init__()
        groups = layer.c_in if layer.depthwise else 1
        self.weight = nn.Conv2d(layer.c_in, layer.c_out, layer.kernel, groups=groups, bias=False).weight
        self.scale, self.shift = nn.Parameter(torch.ones(layer.c_out)), nn.Parameter(torch.zeros(layer.c_out))

    def sliced(self, layer: ChainLayer) -> Tensor:
        """Return the slice of the weights that a layer of a smaller network uses: [c_out, c_in per group, rows, columns]."""
        weight = self.weight[: layer.c_out] if layer.depthwise else self.weight[: layer.c_out, : layer.c_in]
        return centre(weight, layer.kernel)

    def forward(self, x: Tensor, layer: ChainLayer) -> Tensor:
        """Compute a layer of any network of the space for the batch `x`, normalised with the statistics of this batch."""
        weight = self.sliced(layer).to(memory_format=torch.channels_last)
        groups = layer.c_in if layer.depthwise else 1
        x = functional.conv2d(x, weight, None, layer.stride, (layer.padding[0][0], layer.padding[1][0]), groups=groups)
        norm = self.scale[: layer.c_out], self.shift[: layer.c_out]
        return functional.batch_norm(x, None, None, *norm, training=True, eps=EPSILON)


def excitation_slice(excitation: Excitation, channels: int, squeezed: int) -> dict[str, Tensor]:
    """Return a slice of squeeze and excitation as a state dictionary, for a map's `channels`, with `squeezed` inside."""
    return {
        "reduce.weight": excitation.reduce.weight[:squeezed, :channels],
        "reduce.bias": bias_of(excitation.reduce)[:squeezed],
        "expand.weight": excitation.expand.weight[:channels, :squeezed],
        "expand.bias": bias_of(excitation.expand)[:channels],
    }


def sort_excitation(excitation: Excitation, order: Tensor) -> None:
    """Reorder the map's channels of squeeze and excitation by `order`, and those between by falling L1 norm, in place."""
    reduce, expand = excitation.reduce, excitation.expand
    inner = expand.weight.abs().sum((0, 2, 3)).argsort(descending=True, stable=True)
    expand.weight.copy_(expand.weight[order][:, inner])
    bias_of(expand).copy_(bias_of(expand)[order])
    reduce.weight.copy_(reduce.weight[:, order][inner])
    bias_of(reduce).copy_(bias_of(reduce)[inner])


class Supernet(nn.Module):
    """A supernet: the shared weights of all networks of a search space.

    `units` has the layers of each block by role (`layer_roles`), `excitations` those by index of the block as text, and `first`
    the index of each group's first block, and of the block after the groups.
    """

    def __init__(self, space: SearchSpace, classes: int, *, seed: int = 0):
        """Allocate the weights, and initialise them like a random module of the largest network."""
        super().__init__()
        self.space, self.classes = space, classes
        self.largest = arch_of(space, largest(space), classes)
        self.first = [1 + sum(max(group.depths) for group in space.groups[:index]) for index in range(len(space.groups) + 1)]
        sequence = blocks(self.largest)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.units = nn.ModuleList(
                nn.ModuleDict({part: ElasticUnit(layer) for part, layer in layer_roles(block)}) for block in sequence
            )
            self.excitations = nn.ModuleDict(
                {
                    str(index): Excitation(block.layers[-1].c_in, block.squeezed)
                    for index, block in enumerate(sequence)
                    if block.squeezed
                }
            )
            self.classifier = nn.Linear(classifier_macs(self.largest) // classes, classes)
        self.load(module_of(self.largest, seed))

    def blocks(self, arch: Arch) -> Iterator[tuple[Block, list[tuple[ElasticUnit, ChainLayer]], dict[str, Tensor]]]:
        """Yield (block, [(shared ElasticUnit, own layer)], weights of squeeze and excitation by name) of a network's blocks."""
        places = [0] + [
            self.first[number] + index for number, group in enumerate(arch.groups) for index in range(len(group.kernels))
        ]
        for place, block in zip([*places, self.first[-1]], blocks(arch), strict=False):
            layers = [(self.units[place][part], layer) for part, layer in layer_roles(block)]  # type: ignore[index]
            excitation = self.excitations[str(place)] if block.squeezed else None
            yield (
                block,
                layers,
                excitation_slice(excitation, block.layers[-1].c_in, block.squeezed) if excitation is not None else {},  # type: ignore[arg-type]
            )

    def forward(self, x: Tensor, arch: Arch | None = None) -> Tensor:
        """Return the scores [batch, classes] of `arch` (None: the largest); normalisation uses the batch's statistics."""
        for block, layers, excitation in self.blocks(arch or self.largest):
            skip, activate = x, ACTIVATIONS[block.activation]()
            for index, (unit, layer) in enumerate(layers):
                is_last = index == len(layers) - 1
                if is_last and excitation:
                    x = squeeze_excite(x, *(value.contiguous() for value in excitation.values()))
                x = unit(x, layer)
                if not block.linear or not is_last:
                    x = activate(x)
            if block.residual:
                x = skip + x
        pooling, channels = (arch or self.largest).pooling, x.shape[1]
        weight = self.classifier_weight(pooling, channels).contiguous()
        return functional.linear(POOLING_MODULES[pooling]()(x), weight, self.classifier.bias)

    def classifier_weight(self, pooling: str, channels: int) -> Tensor:
        """Return the weights [classes, inputs] of a network's classifier: of means, maxima, or both, in this order."""
        weight, half = self.classifier.weight, self.classifier.in_features // 2
        if self.largest.pooling != "both":
            return weight[:, :channels]
        means, maxima = weight[:, :channels], weight[:, half : half + channels]
        if pooling == "both":
            return weight if channels == half else torch.cat((means, maxima), 1)
        return means if pooling == "mean" else maxima

    def weights_of(self, arch: Arch) -> Iterator[tuple[str, Tensor]]:
        """Yield (name in `module_of`'s state dictionary, weights) of a network; those of the largest network are views."""
        for index, (_, layers, excitation) in enumerate(self.blocks(arch)):
            for number, (unit, layer) in enumerate(layers):
                yield f"{index}.layers.{number}.0.weight", unit.sliced(layer)
                yield f"{index}.layers.{number}.1.weight", unit.scale[: layer.c_out]
                yield f"{index}.layers.{number}.1.bias", unit.shift[: layer.c_out]
            for name, value in excitation.items():
                yield f"{index}.excitation.{name}", value
        yield f"{index + 2}.weight", self.classifier_weight(arch.pooling, layer.c_out)  # after the pooling
        yield f"{index + 2}.bias", self.classifier.bias

    def extract(self, arch: Arch) -> nn.Sequential:
        """Return `arch` as a module with a copy of the supernet's weights, to be passed to `recalibrate`."""
        module = module_of(arch)
        state = module.state_dict()
        with torch.no_grad():
            for name, value in self.weights_of(arch):
                state[name].copy_(value)
        return module

    def load(self, module: nn.Sequential) -> None:
        """Copy the weights of `module`, a module of the largest network, into the supernet."""
        state = module.state_dict()
        with torch.no_grad():
            for name, value in self.weights_of(self.largest):
                value.copy_(state[name])

    def sort(self) -> None:
        """Sort the channels inside each block by falling L1 norm of their weights in the projection, for smaller networks.

        The largest network computes the same function as before.
        """
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
                        sort_excitation(self.excitations[str(index)], order)  # type: ignore[arg-type]


def bias_of(layer: nn.Conv2d) -> Tensor:
    """Return the bias of a layer, which must have one."""
    assert layer.bias is not None
    return layer.bias


def layer_roles(block: Block) -> list[tuple[str, ChainLayer]]:
    """Return (role, layer) of a block's layers: "expand", "depthwise", and "project" for the last, even if alone."""
    last = len(block.layers) - 1
    names = (
        "depthwise" if layer.depthwise else "project" if index == last else "expand" for index, layer in enumerate(block.layers)
    )
    return list(zip(names, block.layers, strict=True))


def centre(weight: Tensor, kernel: tuple[int, int]) -> Tensor:
    """Crop kernels [c_out, c_in, rows, columns] to their centre of at most `kernel` (rows, columns)."""
    rows, columns = ((have - min(have, want)) // 2 for have, want in zip(weight.shape[2:], kernel, strict=True))
    return weight[:, :, rows : weight.shape[2] - rows, columns : weight.shape[3] - columns]


def fit_supernet(
    supernet: Supernet,
    values: NDArray[np.int8],
    labels: NDArray[np.int64],
    recipe: Recipe,
    run: TrainingRun = UNSAVED,
    *,
    networks_per_step: int = NETWORKS_PER_STEP,
) -> Supernet:
    """Train a supernet in place and return it. Each step adds up the gradients of several randomly sampled networks.

    The processes of the run's team share the networks of each step, and start from the weights of the first. `values` are
    samples [n, rows, columns, channels], `labels` class indices [n].
    """
    team = run.team
    if team is not None:
        supernet.load_state_dict(team.broadcast(on_cpu(supernet)))

    def losses(samples: Tensor, targets: Tensor, step: int) -> Iterator[Tensor | None]:
        rng = random.Random(f"{run.seed} {step}")
        for index in range(networks_per_step):
            arch = arch_of(supernet.space, sample(supernet.space, rng), supernet.classes)
            if team is not None and not team.evaluates(index):
                yield None
                continue
            with mixed(samples):
                scores = supernet(resized(samples, arch), arch)
                loss = functional.cross_entropy(scores, targets, label_smoothing=recipe.smoothing)
            yield loss

    fit(supernet, values, labels, recipe, run, losses=losses)
    return supernet


def resized(samples: Tensor, arch: Arch) -> Tensor:
    """Scale samples [n, channels, rows, columns] to the image size of `arch` by averaging pixels."""
    size = arch.image[:2]
    return samples if samples.shape[2:] == size else functional.interpolate(samples, size, mode="area")


def recalibrate(module: nn.Module, values: NDArray[np.int8], seed: int = 0, *, batch: int | None = None) -> nn.Module:
    """Recompute the statistics of batch normalisation in place, and return the module in evaluation mode.

    They are averages over random batches of `values` [n, rows, columns, channels], of at most CALIBRATION_BATCHES *
    CALIBRATION_BATCH samples; by default `batch` is GPU_BATCH on a GPU, CALIBRATION_BATCH elsewhere.
    """
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    order = np.random.default_rng(seed).permutation(len(values))
    module.train()
    where = next(module.parameters()).device
    batch = batch or (GPU_BATCH if where.type == "cuda" else CALIBRATION_BATCH)
    count = max(1, min(CALIBRATION_BATCHES * CALIBRATION_BATCH, len(values)) // batch)
    with torch.no_grad():
        for number in range(count):
            chosen = values[np.sort(order[number * batch : (number + 1) * batch])]
            module((as_tensor(chosen).to(where).float() * SCALE).contiguous(memory_format=torch.channels_last))
    for norm in norms:
        norm.momentum = 0.1
    return module.eval()
