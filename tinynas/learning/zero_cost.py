"""Zero-cost proxies: scores of an untrained network from gradients and activations. In: a module, samples. Out: a number.

A higher score predicts a higher accuracy after training. Modules come from `module_of`, with random weights, and are not
changed. Samples are float [n, channels, rows, columns], classes int64 [n]. `bench/tinynas/proxies.py` prints the rank
correlation of each proxy with accuracy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .module import ACTIVATIONS, POOLING_MODULES, Bottleneck, Excitation

PARTS = 4  # number of parts into which zico splits a batch, to compare their gradients
NOISE = 0.01  # factor on the noise that zen adds
EPSILON = 1e-12  # lower bound of the arguments of logarithms


def synflow(module: nn.Module, samples: Tensor) -> float:
    """Return the logarithm of the synaptic flow: the sum over all weights w of |w * dR/dw|.

    R is the sum of the network's outputs if all weights are replaced by their absolute values and all inputs are 1. Batch
    normalisation, activations, and squeeze and excitation are left out of the network. Of `samples`, only the shape matters.
    Sources: Tanaka et al., arXiv 2006.05467, equation 2 and algorithm 1; Abdelfattah et al., arXiv 2101.08134, section 3.1,
    for the score of a network.
    """
    linear = _without(module, (nn.BatchNorm2d, Excitation, *ACTIVATIONS.values())).double().train()
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.abs_()
    flow = linear(torch.ones_like(samples[:1], dtype=torch.float64)).sum()
    parameters = list(linear.parameters())
    gradients = torch.autograd.grad(flow, parameters)
    total = sum(float((p.detach() * g).abs().sum()) for p, g in zip(parameters, gradients, strict=True))
    return math.log(max(total, EPSILON))


def naswot(module: nn.Module, samples: Tensor) -> float:
    """Return log |det K|, where K[i, j] counts the inputs of activations that have the same sign for samples i and j.

    Source: Mellor et al., arXiv 2006.04647, equation 2 and the score below it.
    """
    kernel = torch.zeros(len(samples), len(samples), dtype=torch.float64)

    def count(_: nn.Module, inputs: tuple[Tensor]) -> None:
        codes = (inputs[0].flatten(1) > 0).double()
        kernel.add_(codes @ codes.T + (1 - codes) @ (1 - codes).T)

    own = copy.deepcopy(module).train()
    for part in own.modules():
        if isinstance(part, tuple(ACTIVATIONS.values())):
            part.register_forward_pre_hook(count)
    with torch.no_grad():
        own(samples)
    return float(torch.linalg.slogdet(kernel).logabsdet)


def gradient_norm(module: nn.Module, samples: Tensor, classes: Tensor) -> float:
    """Return the sum, over all parameter tensors, of the Euclidean norm of the gradient of the cross-entropy of one batch.

    Source: Abdelfattah et al., arXiv 2101.08134, section 3.1.
    """
    return sum(float(gradient.norm()) for gradient in _gradients(copy.deepcopy(module), samples, classes))


def zico(module: nn.Module, samples: Tensor, classes: Tensor) -> float:
    """Return the ZiCo score: the sum over layers of log(sum over weights of mean |gradient| / deviation of |gradient|).

    Mean and standard deviation are taken over PARTS parts of the batch. Weights with a constant gradient are left out. Layers
    are convolutions and the classifier. Source: Li et al., arXiv 2301.11300, section 3.3.
    """
    own = copy.deepcopy(module)
    layers = [part.weight for part in own.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    parts = zip(samples.chunk(PARTS), classes.chunk(PARTS), strict=True)
    by_part = [list(_gradients(own, *part, layers)) for part in parts]
    total = 0.0
    for gradients in zip(*by_part, strict=True):
        sizes = torch.stack([gradient.double().abs() for gradient in gradients])
        deviation = sizes.std(0, correction=0)
        varied = deviation > EPSILON
        ratios = float((sizes.mean(0)[varied] / deviation[varied]).sum())
        total += math.log(ratios) if ratios > 0 else 0.0
    return total


def zen(module: nn.Module, samples: Tensor, *, seed: int = 0) -> float:
    """Return the Zen-score, the sum of two terms.

    The first is the logarithm of the change of the last map if small noise is added to the input. The second is the sum of the
    logarithms of the standard deviations of the inputs of all batch normalisations. Inputs and weights are Gaussian, and
    residual connections are left out. Of `samples`, only the shape matters. Source: Lin et al., arXiv 2102.01063, algorithm 1.
    """
    own = copy.deepcopy(module).train()
    variances = list[float]()

    def measure(norm: nn.Module, inputs: tuple[Tensor]) -> None:
        variances.append(float(inputs[0].double().var((0, 2, 3), correction=0).mean()))

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for part in own.modules():
            if isinstance(part, nn.Conv2d):
                part.weight.normal_()
            if isinstance(part, Bottleneck):
                part.residual = False
            if isinstance(part, nn.BatchNorm2d):
                part.register_forward_pre_hook(measure)
        ends = *POOLING_MODULES.values(), nn.Linear
        body = nn.Sequential(*(part for part in own if not isinstance(part, ends)))  # type: ignore[attr-defined]
        first = torch.randn_like(samples)
        output = body(first)
        scale = sum(math.log(max(math.sqrt(variance), EPSILON)) for variance in variances)
        moved = body(first + NOISE * torch.randn_like(samples))
    return math.log(max(float((output - moved).abs().sum((1, 2, 3)).mean()), EPSILON)) + scale


def _gradients(
    module: nn.Module, samples: Tensor, classes: Tensor, parameters: Sequence[Tensor] | None = None
) -> Iterator[Tensor]:
    """Yield the gradient of the cross-entropy of a batch for each of `parameters`; None means all parameters of the module."""
    module.train()
    loss = functional.cross_entropy(module(samples), classes)
    yield from torch.autograd.grad(loss, list(module.parameters()) if parameters is None else parameters)


def _without(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> nn.Module:
    """Return a copy of a module in which submodules of the given types are replaced by the identity."""
    own = copy.deepcopy(module)
    for part in list(own.modules()):
        for name, inner in list(part.named_children()):
            if isinstance(inner, kinds):
                setattr(part, name, nn.Identity())
    return own
