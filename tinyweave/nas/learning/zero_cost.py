"""Proxies that look at a network before any training: at gradients, activations, scale. In: a module. Out: a number.

A module is one of `module_of`, with random weights; samples are float [n, channels, rows, columns], classes int64 [n]. None of
these functions changes its module. Sources are beside each function; `bench/training/proxies.py`: how well they rank networks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from .module import ACTIVATIONS, Bottleneck, Excitation, Mean

PARTS = 4  # of a batch, whose gradients zico compares
MIXED = 0.01  # of noise in zen's second batch
SMALL = 1e-12  # what is as good as 0


def synflow(module: nn.Module, samples: Tensor) -> float:
    """Return the logarithm of the synaptic flow: of the sum of |w * dR/dw|, R what |w| make of ones, without norms.

    Source: Tanaka et al., arXiv 2006.05467, equation 2 and algorithm 1; for a network's score Abdelfattah et al., arXiv
    2101.08134, section 3.1. Activations and gates pass on what is above 0, as nothing is below.
    """
    linear = _without(module, (nn.BatchNorm2d, Excitation, *ACTIVATIONS.values())).double().train()
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.abs_()
    flow = linear(torch.ones_like(samples[:1], dtype=torch.float64)).sum()
    parameters = list(linear.parameters())
    gradients = torch.autograd.grad(flow, parameters)
    total = sum(float((p.detach() * g).abs().sum()) for p, g in zip(parameters, gradients, strict=True))
    return math.log(max(total, SMALL))


def naswot(module: nn.Module, samples: Tensor) -> float:
    """Return the logarithm of |det K|, where K[i, j] is how many activations are above 0, or are not, for both samples i and j.

    Source: Mellor et al., arXiv 2006.04647, equation 2 and the score below it. Hard-swish counts as what goes into it.
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
    """Return the sum of the Euclidean norms of all parameters' gradients of one batch.

    Source: Abdelfattah et al., arXiv 2101.08134, section 3.1.
    """
    return sum(float(gradient.norm()) for gradient in _gradients(copy.deepcopy(module), samples, classes))


def zico(module: nn.Module, samples: Tensor, classes: Tensor) -> float:
    """Return the sum over layers of the logarithm of the sum over weights of the mean of |gradient| over its deviation.

    Both are over PARTS parts of the batch. Weights whose gradient is always the same are left out. Source: Li et al., arXiv
    2301.11300, the definition of ZiCo in section 3.3; layers are convolutions and the classifier.
    """
    own = copy.deepcopy(module)
    layers = [part.weight for part in own.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    parts = zip(samples.chunk(PARTS), classes.chunk(PARTS), strict=True)
    by_part = [list(_gradients(own, *part, layers)) for part in parts]
    total = 0.0
    for gradients in zip(*by_part, strict=True):
        sizes = torch.stack([gradient.double().abs() for gradient in gradients])
        deviation = sizes.std(0, correction=0)
        varied = deviation > SMALL
        ratios = float((sizes.mean(0)[varied] / deviation[varied]).sum())
        total += math.log(ratios) if ratios > 0 else 0.0
    return total


def zen(module: nn.Module, samples: Tensor, *, seed: int = 0) -> float:
    """Return the Zen-score: how far a little noise moves the last map, on a logarithmic scale, and what its norms took away.

    Inputs and weights are normal noise; residuals are left out. Source: Lin et al., arXiv 2102.01063, algorithm 1.
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
        body = nn.Sequential(*(part for part in own if not isinstance(part, Mean | nn.Linear)))  # type: ignore[attr-defined]
        first = torch.randn_like(samples)
        made = body(first)
        scale = sum(math.log(max(math.sqrt(variance), SMALL)) for variance in variances)
        moved = body(first + MIXED * torch.randn_like(samples))
    return math.log(max(float((made - moved).abs().sum((1, 2, 3)).mean()), SMALL)) + scale


def _gradients(
    module: nn.Module, samples: Tensor, classes: Tensor, parameters: list[nn.Parameter] | None = None
) -> Iterator[Tensor]:
    """Yield the gradients of a batch's loss by parameters, all of them if none are given; norms have the batch's statistics."""
    module.train()
    loss = functional.cross_entropy(module(samples), classes)
    yield from torch.autograd.grad(loss, list(module.parameters()) if parameters is None else parameters)


def _without(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> nn.Module:
    """Return a copy in which modules of some kinds pass on what they get."""
    own = copy.deepcopy(module)
    for part in list(own.modules()):
        for name, inner in list(part.named_children()):
            if isinstance(inner, kinds):
                setattr(part, name, nn.Identity())
    return own
