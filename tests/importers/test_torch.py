"""PyTorch modules become graphs without transposes that compute what torch does; unsupported ops are refused by name."""

from __future__ import annotations

import io
import math
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import Of, distances, of, trained  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tinyweave.importers.pt2 import from_pt2  # noqa: E402
from tinyweave.importers.torch import from_module, from_program  # noqa: E402
from tinyweave.ir import CompileError, Graph  # noqa: E402

CLOSE = 1e-5  # of the output's range


def shuffled(m: Any, x: Any) -> Any:
    n, c, h, w = x.size()
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)


def excited(m: Any, x: Any) -> Any:
    return x * m.gate(m.up(functional.relu(m.down(functional.adaptive_avg_pool2d(x, 1)))))


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "conv": (nn.Conv2d(3, 8, 3), (1, 3, 9, 7)),
    "conv-same-padding": (nn.Conv2d(3, 8, 3, padding=1), (1, 3, 9, 7)),
    "conv-stride-odd": (nn.Conv2d(3, 8, 3, stride=2, padding=1), (1, 3, 9, 7)),
    "conv-stride-even": (nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), (1, 3, 8, 8)),
    "conv-even-kernel": (nn.Conv2d(3, 8, (4, 2), padding="same"), (1, 3, 9, 7)),
    "conv-valid": (nn.Conv2d(3, 8, 3, padding="valid"), (1, 3, 9, 7)),
    "conv-dilated": (nn.Conv2d(3, 8, 3, dilation=2, padding=2), (1, 3, 9, 7)),
    "conv-large-padding": (nn.Conv2d(3, 8, 3, padding=(3, 2)), (1, 3, 9, 7)),
    "conv-groups": (nn.Conv2d(4, 8, 3, groups=2), (1, 4, 9, 7)),
    "conv-depthwise": (nn.Conv2d(4, 4, 3, groups=4, stride=2, padding=1), (1, 4, 8, 7)),
    "conv-depth-multiplier": (nn.Conv2d(4, 8, 3, groups=4, padding=1), (1, 4, 8, 7)),
    "conv-reflect": (nn.Conv2d(4, 8, 3, padding=1, padding_mode="reflect"), (1, 4, 8, 7)),
    "conv1d": (nn.Conv1d(10, 8, 3, stride=2, padding=1), (1, 10, 17)),
    "conv1d-depthwise": (nn.Conv1d(10, 10, 5, groups=10, padding=2), (1, 10, 16)),
    "transposed-double": (nn.ConvTranspose2d(4, 6, 2, 2), (1, 4, 5, 6)),
    "transposed-same": (nn.ConvTranspose2d(4, 6, 4, 2, 1), (1, 4, 5, 6)),
    "transposed-cropped": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (1, 4, 5, 6)),
    "transposed-uneven": (nn.ConvTranspose2d(4, 6, (3, 2), (3, 1), (0, 1), (2, 0), bias=False), (1, 4, 5, 6)),
    "transposed-1d": (nn.ConvTranspose1d(4, 6, 3, 2, 1, 1), (1, 4, 9)),
    "transposed-depthwise": (nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=4), (1, 4, 5, 6)),
    "transposed-groups": (nn.ConvTranspose2d(4, 6, (3, 1), (2, 3), (1, 0), (1, 2), groups=2), (1, 4, 5, 6)),
    "transposed-dilated": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, dilation=2), (1, 4, 5, 6)),
    "transposed-dilated-1d": (nn.ConvTranspose1d(4, 6, 3, 1, 2, dilation=3, bias=False), (1, 4, 9)),
    "norm-after-conv": (nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU6(True)), (1, 3, 9, 7)),
    "norm-after-depthwise": (nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8), nn.ReLU()), (1, 4, 9, 7)),
    "norm-after-transposed": (nn.Sequential(nn.ConvTranspose2d(4, 6, 2, 2), nn.BatchNorm2d(6)), (1, 4, 5, 6)),
    "norm-after-linear": (nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.ReLU()), (1, 7)),
    "norm-alone": (nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3), nn.ReLU()), (1, 3, 9, 7)),
    "norm-without-slope": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False)), (1, 3, 9, 7)),
    "norm1d": (nn.Sequential(nn.Conv1d(10, 8, 3), nn.BatchNorm1d(8), nn.Hardtanh(0, 6)), (1, 10, 16)),
    "conv-read-twice": of(lambda m, x: m.norm(y := m.conv(x)) + y, 1, 3, 9, 7, conv=nn.Conv2d(3, 8, 3), norm=nn.BatchNorm2d(8)),
    "conv-given-out": of(lambda m, x: (y := m.conv(x), torch.relu(y)), 1, 3, 9, 7, conv=nn.Conv2d(3, 8, 3)),
    "conv-minus": of(lambda m, x: m.conv(x) - 0.5, 1, 3, 9, 7, conv=nn.Conv2d(3, 8, 3)),
    "conv-by-columns": of(lambda m, x: m.conv(x) * torch.arange(5.0), 1, 3, 7, 7, conv=nn.Conv2d(3, 5, 3)),
    "conv-by-rows": of(lambda m, x: m.conv(x) * torch.arange(5.0).view(5, 1), 1, 3, 7, 7, conv=nn.Conv2d(3, 5, 3)),
    "layer-norm": (nn.LayerNorm(7), (1, 4, 7)),
    "layer-norm-list": (nn.LayerNorm(7), (1, 7)),
    "layer-norm-rows": (nn.LayerNorm((4, 7), eps=0.5), (1, 4, 7)),
    "layer-norm-maps": of(lambda m, x: m.norm(m.conv(x)), 1, 3, 5, 6, conv=nn.Conv2d(3, 4, 1), norm=nn.LayerNorm((4, 5, 6))),
    "layer-norm-channels": of(
        lambda m, x: m.norm(m.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
        1,
        3,
        5,
        6,
        conv=nn.Conv2d(3, 4, 1),
        norm=nn.LayerNorm(4),
    ),
    "layer-norm-plain": (nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5, elementwise_affine=False)), (1, 4, 7)),
    "rms-norm": (nn.RMSNorm(7), (1, 4, 7)),
    "rms-norm-small": of(lambda m, x: m.norm(0.001 * x), 1, 4, 7, norm=nn.RMSNorm(7)),
    "rms-norm-eps": (nn.RMSNorm(7, eps=0.5), (1, 4, 7)),
    **{
        f"{name}-of-abs": (Of(lambda m, x, name=name: getattr(torch, name)(x.abs() + 0.1)), (1, 3, 9, 7))
        for name in ("log", "log10", "log2", "rsqrt", "reciprocal", "sqrt")
    },
    "softplus": (nn.Softplus(), (1, 3, 9, 7)),
    "softplus-beta": (nn.Softplus(2, 1), (1, 3, 9, 7)),
    "softsign": (nn.Softsign(), (1, 3, 9, 7)),
    "mish": (nn.Mish(), (1, 3, 9, 7)),
    "selu": (nn.SELU(), (1, 3, 9, 7)),
    "celu": (nn.CELU(0.7), (1, 3, 9, 7)),
    "elu-alpha": (nn.ELU(0.7), (1, 3, 9, 7)),
    "log-sigmoid": (nn.LogSigmoid(), (1, 3, 9, 7)),
    "hardshrink": (nn.Hardshrink(0.7), (1, 3, 9, 7)),
    "softshrink": (nn.Softshrink(0.7), (1, 3, 9, 7)),
    "threshold": (nn.Threshold(0.1, -2), (1, 3, 9, 7)),
    **{
        name: (Of(lambda m, x, name=name: getattr(torch, name)(x)), (1, 3, 9, 7))
        for name in "asinh atan cosh erf erfc exp2 expm1 fix frac sinc sinh tan trunc".split()
    },
    **{
        f"{name}-within": (Of(lambda m, x, name=name: getattr(torch, name)(0.9 * torch.sin(x))), (1, 3, 9, 7))
        for name in "acos arcsin asin atanh log1p".split()
    },
    "acosh": of(lambda m, x: torch.acosh(x.abs() + 1.1), 1, 3, 9, 7),
    "tanhshrink": (nn.Tanhshrink(), (1, 3, 9, 7)),
    "logit": of(lambda m, x: torch.logit(torch.sigmoid(x)), 1, 3, 9, 7),
    "logit-eps": of(lambda m, x: torch.logit(torch.sigmoid(x), 0.3), 1, 3, 9, 7),
    "sin-cos": of(lambda m, x: torch.sin(x) + torch.cos(x), 1, 3, 9, 7),
    "ceil": of(lambda m, x: torch.ceil(3 * x) + torch.sign(x), 1, 3, 9, 7),
    "floor": of(lambda m, x: torch.floor(3 * x) + torch.round(2 * x), 1, 3, 9, 7),
    "powers": of(lambda m, x: x**3 + (x.abs() + 1) ** 0.3 + (x.abs() + 1) ** -0.5 + 1.5**x, 1, 3, 9, 7),
    "dividend": of(lambda m, x: 2 / (x * x + 1), 1, 3, 9, 7),
    "divided": of(lambda m, x: x / (x.mean() ** 2 + 1), 1, 3, 9, 7),
    "rsqrt": of(lambda m, x: torch.rsqrt(x * x + 0.5), 1, 3, 9, 7),
    "unflatten": of(lambda m, x: m.linear(x).unflatten(-1, (3, -1)).mean(1), 1, 7, linear=nn.Linear(7, 36)),
    "select-between": of(
        lambda m, x: m.linear(x).unflatten(-1, (3, 5)).transpose(1, 2)[:, 1], 1, 4, 7, linear=nn.Linear(7, 15)
    ),
    "relu": (nn.ReLU(), (1, 3, 9, 7)),
    "relu-n1-to-1": (nn.Hardtanh(), (1, 3, 9, 7)),
    "hardtanh-other": (nn.Hardtanh(-0.5, 2), (1, 3, 9, 7)),
    "hardswish": (nn.Hardswish(), (1, 3, 9, 7)),
    "hardsigmoid": (nn.Hardsigmoid(), (1, 3, 9, 7)),
    "silu": (nn.SiLU(), (1, 3, 9, 7)),
    "gelu": (nn.GELU(), (1, 3, 9, 7)),
    "gelu-tanh": (nn.GELU("tanh"), (1, 3, 9, 7)),
    "sigmoid": (nn.Sigmoid(), (1, 5)),
    "outer-sum-read-both-ways": of(
        lambda m, x: (m.linear((y := x.unsqueeze(2) + 2 * x.unsqueeze(1)).flatten(1)), m.linear(y.transpose(1, 2).flatten(1))),
        1,
        5,
        linear=nn.Linear(25, 3),
    ),
    "class-token": of(
        lambda m, x: torch.cat([m.token.expand(1, 2, -1), m.conv(x).flatten(2).transpose(1, 2)], 1),
        1,
        3,
        8,
        8,
        conv=nn.Conv2d(3, 6, 4, 4),
        token=nn.Parameter(torch.arange(6.0).view(1, 1, 6)),
    ),
    "constant-rows": of(
        lambda m, x: torch.cat([m.conv(x), torch.arange(24.0).view(1, 4, 2, 3)], 2), 1, 3, 5, 3, conv=nn.Conv2d(3, 4, 1)
    ),
    "linear-without-batch": of(lambda m, x: m.linear(x.flatten()), 1, 7, linear=nn.Linear(7, 5)),
    "constant-in-parts": of(lambda m, x: x * m.linear.bias.chunk(2)[1], 1, 5, linear=nn.Linear(3, 10)),
    "constant-in-place": of(lambda m, x: torch.zeros(1, 5).add_(m.linear(x)) * 2, 1, 7, linear=nn.Linear(7, 5)),
    "tanh": (nn.Tanh(), (1, 5)),
    "leaky-relu": (nn.LeakyReLU(0.2), (1, 3, 9, 7)),
    "prelu": (nn.PReLU(3), (1, 3, 9, 7)),
    "prelu-one": (nn.PReLU(), (1, 3, 9, 7)),
    "clamp": of(lambda m, x: x.clamp(-0.3, 0.7) + x.clamp(min=0.1) + x.clamp_max(0.2), 1, 3, 9, 7),
    "softmax-channels": (nn.Softmax(1), (1, 3, 9, 7)),
    "softmax-list": (nn.Softmax(-1), (1, 7)),
    "log-softmax": (nn.LogSoftmax(-1), (1, 7)),
    "dropout": (nn.Sequential(nn.Dropout(), nn.Dropout2d(), nn.ReLU()), (1, 3, 9, 7)),
    "arithmetic": of(lambda m, x: (1 - 2 * x) * (x - 3) / 4 + torch.sub(x, x * x, alpha=3) - x**2 + -x, 1, 3, 9, 7),
    "constant-map": of(lambda m, x: x * torch.arange(63.0).view(9, 7) + torch.ones(3, 1, 1), 1, 3, 9, 7),
    "extremes": of(lambda m, x: torch.maximum(x, 0.5 * x) + torch.minimum(x, x * x), 1, 3, 9, 7),
    "in-place": of(lambda m, x: (m.conv(x).add_(1).mul_(2) + x).relu_(), 1, 3, 9, 7, conv=nn.Conv2d(3, 3, 1)),
    "in-place-residual": of(lambda m, x: (y := x * 1) + functional.relu(y, inplace=True), 1, 3, 9, 7),
    "in-place-read-again": of(
        lambda m, x: torch.relu_(m.drop(y := m.conv(x))) * y, 1, 3, 9, 7, conv=nn.Conv2d(3, 3, 1), drop=nn.Dropout()
    ),
    "max-pool": (nn.MaxPool2d(2), (1, 3, 9, 7)),
    "max-pool-same": (nn.MaxPool2d(3, 1, 1), (1, 3, 9, 7)),
    "max-pool-padded": (nn.MaxPool2d(3, 2, 1), (1, 3, 8, 8)),
    "max-pool-below-0": of(lambda m, x: functional.max_pool2d(x - 9, (4, 3), 2, (2, 1)), 1, 3, 8, 8),
    "max-pool-ceil": (nn.MaxPool2d(3, 2, ceil_mode=True), (1, 3, 8, 6)),
    "max-pool-ceil-of-one-column": (nn.MaxPool2d(3, 3, 1, ceil_mode=True), (1, 3, 9, 7)),
    "max-pool-dilated": (nn.MaxPool2d((3, 2), 1, 1, dilation=(2, 3)), (1, 3, 9, 7)),
    "max-pool-dilated-1d": (nn.MaxPool1d(3, 2, dilation=2, ceil_mode=True), (1, 3, 12)),
    "max-pool1d": (nn.Sequential(nn.Conv1d(10, 8, 3), nn.MaxPool1d(3, 2, 1)), (1, 10, 16)),
    "avg-pool": (nn.AvgPool2d(2), (1, 3, 9, 7)),
    "avg-pool-padded": (nn.AvgPool2d(3, 2, 1), (1, 3, 8, 8)),
    "avg-pool-same": (nn.AvgPool2d(3, 1, 1, count_include_pad=False), (1, 3, 8, 8)),
    "avg-pool-counted": (nn.AvgPool2d(3, 1, 1), (1, 3, 8, 8)),
    "avg-pool-excluded": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 3, 8, 8)),
    "avg-pool-ceil": (nn.AvgPool2d((3, 2), 2, 1, ceil_mode=True), (1, 3, 8, 7)),
    "avg-pool-ceil-excluded": (nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (1, 3, 8, 7)),
    "avg-pool-divisor": (nn.AvgPool2d(3, 2, 1, divisor_override=5), (1, 3, 9, 7)),
    "avg-pool-1d-excluded": (nn.AvgPool1d(3, 2, 1, count_include_pad=False), (1, 3, 8)),
    "avg-pool1d": (nn.Sequential(nn.Conv1d(10, 8, 3), nn.AvgPool1d(2)), (1, 10, 16)),
    "adaptive-1": (nn.AdaptiveAvgPool2d(1), (1, 3, 9, 7)),
    "adaptive-divisible": (nn.AdaptiveAvgPool2d((3, 7)), (1, 3, 9, 7)),
    "adaptive-none": (nn.AdaptiveAvgPool2d((None, 1)), (1, 3, 9, 7)),
    "adaptive-1d": (nn.Sequential(nn.Conv1d(10, 8, 3), nn.AdaptiveAvgPool1d(1)), (1, 10, 16)),
    "adaptive-uneven": (nn.AdaptiveAvgPool2d((2, 5)), (1, 3, 9, 10)),
    "adaptive-larger": (nn.AdaptiveAvgPool2d(6), (1, 3, 4, 9)),
    "adaptive-uneven-1d": (nn.AdaptiveAvgPool1d(3), (1, 3, 8)),
    "adaptive-max-uneven": (nn.AdaptiveMaxPool2d((2, 4)), (1, 3, 9, 6)),
    "adaptive-max-uneven-1d": (nn.AdaptiveMaxPool1d(3), (1, 3, 8)),
    "adaptive-max": (nn.AdaptiveMaxPool2d(3), (1, 3, 9, 6)),
    "mean": of(lambda m, x: x.mean((2, 3)), 1, 3, 9, 7),
    "mean-keep": of(lambda m, x: x.mean(1, keepdim=True) + x.mean(3, keepdim=True), 1, 3, 9, 7),
    "mean-all": of(lambda m, x: x * x.mean(), 1, 3, 9, 7),
    "extreme-channel": of(lambda m, x: x.amax((2, 3)) + x.amin((2, 3)), 1, 3, 9, 7),
    "flatten-linear": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(140, 5)), (1, 3, 9, 7)),
    "flatten-norm-linear": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.BatchNorm1d(140), nn.ReLU(), nn.Linear(140, 5)),
        (1, 3, 9, 7),
    ),
    "flatten-out": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), (1, 3, 9, 7)),
    "flatten-sum": of(lambda m, x: m.linear(x.flatten(1) + (2 * x).flatten(1)), 1, 3, 3, 2, linear=nn.Linear(18, 4)),
    "flatten-product": of(lambda m, x: x.flatten(1) * m.linear(x.flatten(1)), 1, 3, 3, 2, linear=nn.Linear(18, 18)),
    "view-size": of(
        lambda m, x: m.linear(m.conv(x).view(x.size(0), -1)), 1, 3, 5, 6, conv=nn.Conv2d(3, 2, 1), linear=nn.Linear(60, 4)
    ),
    "view-scaled": of(
        lambda m, x: (m.linear(x).view(1, 4, 9) * torch.arange(4.0).view(4, 1)).flatten(1), 1, 7, linear=nn.Linear(7, 36)
    ),
    "view-twice": of(lambda m, x: m.linear(x).view(1, 4, 9).mul(2).view(1, 6, 6).mean(1), 1, 7, linear=nn.Linear(7, 36)),
    "linear-rows": (nn.Linear(7, 5, bias=False), (1, 4, 7)),
    "linear-channels": of(
        lambda m, x: m.linear(m.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
        1,
        3,
        5,
        6,
        conv=nn.Conv2d(3, 4, 1),
        linear=nn.Linear(4, 7),
    ),
    "cat-channels": of(lambda m, x: torch.cat([x, m.conv(x), x], 1), 1, 3, 9, 7, conv=nn.Conv2d(3, 4, 1)),
    "cat-rows": of(lambda m, x: torch.cat([x, -x], 2), 1, 3, 9, 7),
    "chunk": of(lambda m, x: x.chunk(2, 1)[0] * 2 + x.chunk(2, 1)[1], 1, 4, 9, 7),
    "chunk-uneven": of(lambda m, x: x.chunk(2, 1)[1], 1, 5, 9, 7),
    "split": of(lambda m, x: x.split([1, 3, 2], dim=1)[1], 1, 6, 9, 7),
    "shuffle": of(shuffled, 1, 6, 9, 7),
    "shuffle-twice": of(
        lambda m, x: m.conv(m.four(m.two(x))),
        1,
        12,
        5,
        5,
        conv=nn.Conv2d(12, 4, 1),
        two=nn.ChannelShuffle(2),
        four=nn.ChannelShuffle(4),
    ),
    "softmax-shuffled": of(lambda m, x: shuffled(m, x).softmax(1), 1, 12, 5, 5),
    "shuffle-module": (nn.Sequential(nn.Conv2d(3, 6, 1), nn.ChannelShuffle(3), nn.Conv2d(6, 4, 3)), (1, 3, 9, 7)),
    "shuffle-chunk": of(lambda m, x: m.conv(shuffled(m, x).chunk(2, 1)[1]), 1, 8, 5, 5, conv=nn.Conv2d(4, 4, 1)),
    "slice": of(lambda m, x: x[:, 1:, 2:-1, ::2], 1, 3, 9, 7),
    "select": of(lambda m, x: x[:, 1] * x[:, 0], 1, 3, 9, 7),
    "squeeze": of(
        lambda m, x: m.linear(x.mean((2, 3), keepdim=True).squeeze(3).squeeze(2)), 1, 3, 9, 7, linear=nn.Linear(3, 4)
    ),
    "pad": of(lambda m, x: functional.pad(x, (1, 2, 0, 3)), 1, 3, 9, 7),
    "pad-value": of(lambda m, x: functional.pad(x, (1, 2, 0, 3), value=-1.5), 1, 3, 9, 7),
    "pad-reflect": (nn.ReflectionPad2d((1, 2, 3, 0)), (1, 3, 9, 7)),
    "pad-replicate": (nn.ReplicationPad2d(1), (1, 3, 9, 7)),
    "pad-replicate-far": (nn.ReplicationPad2d((3, 0, 2, 4)), (1, 3, 9, 7)),
    "pad-circular": (nn.Conv2d(3, 4, 3, padding=(1, 2), padding_mode="circular"), (1, 3, 9, 7)),
    "pad-crop": of(lambda m, x: functional.pad(x, (-1, 2, 1, -3)), 1, 3, 9, 7),
    "pad-crop-only": of(lambda m, x: functional.pad(x, (-1, 0, 0, -3)), 1, 3, 9, 7),
    "flip": of(lambda m, x: x.flip(3) - x.flip((1, 2)), 1, 3, 9, 7),
    "roll": of(lambda m, x: x.roll((2, -1), (2, 1)), 1, 3, 9, 7),
    "roll-all": of(lambda m, x: x.roll(5), 1, 4, 7),
    "repeat": of(lambda m, x: x.repeat(1, 2, 1, 3), 1, 3, 5, 4),
    "repeat-more-axes": of(lambda m, x: x.repeat(2, 1, 2).sum(0), 1, 7),
    "repeat-interleave": of(lambda m, x: x.repeat_interleave(2, 1), 1, 3, 5, 4),
    "repeat-interleave-all": of(lambda m, x: x.repeat_interleave(2), 1, 3, 5),
    "expand": of(lambda m, x: x.mean((2, 3), keepdim=True).expand(-1, -1, 5, 4) + x, 1, 3, 5, 4),
    "expand-as": of(lambda m, x: torch.cat((x, x[:, :1].expand_as(x)), 1), 1, 3, 5, 4),
    "index-select": of(lambda m, x: x.index_select(1, torch.tensor([2, 0, 0])), 1, 3, 5, 4),
    "index": of(lambda m, x: x[:, [2, 0]] + x[:, :, [1]][:, :2], 1, 3, 5, 4),
    "index-table": of(lambda m, x: x[:, torch.tensor([[0, 2], [3, 1]])].sum(2), 1, 4, 5),
    "pixel-shuffle": (nn.PixelShuffle(2), (1, 12, 3, 4)),
    "pixel-unshuffle": (nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 5, 1)), (1, 3, 6, 4)),
    "pad-channels": of(lambda m, x: functional.pad(x, (0, 0, 0, 0, 1, 2)), 1, 3, 9, 7),
    "nearest": (nn.Upsample(scale_factor=2), (1, 3, 5, 6)),
    "nearest-size": (nn.Upsample(size=(7, 9)), (1, 3, 5, 6)),
    "nearest-factor": (nn.Upsample(scale_factor=(1.5, 2.3)), (1, 3, 5, 6)),
    "nearest-exact": (nn.Upsample(size=(7, 3), mode="nearest-exact"), (1, 3, 5, 6)),
    "nearest-steps": (nn.Upsample(scale_factor=2), (1, 3, 5)),
    "linear-steps": (nn.Upsample(scale_factor=2.5, mode="linear"), (1, 3, 5)),
    "bilinear-factor": (nn.Upsample(scale_factor=(1.5, 2.3), mode="bilinear"), (1, 3, 5, 6)),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), (1, 3, 5, 6)),
    "bicubic-corners": (nn.Upsample(size=(9, 4), mode="bicubic", align_corners=True), (1, 3, 5, 6)),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 3, 5, 6)),
    "bilinear-corners": (nn.Upsample(size=(9, 11), mode="bilinear", align_corners=True), (1, 3, 5, 6)),
    "excite": of(excited, 1, 8, 5, 6, down=nn.Conv2d(8, 4, 1), up=nn.Conv2d(4, 8, 1), gate=nn.Hardsigmoid()),
    "excite-linear": of(
        lambda m, x: x * torch.sigmoid(m.up(torch.relu(m.down(x.mean((2, 3)))))).view(1, 8, 1, 1),
        1,
        8,
        5,
        6,
        down=nn.Linear(8, 4),
        up=nn.Linear(4, 8),
    ),
    "sequence-to-conv1d": of(lambda m, x: m.conv(x.transpose(1, 2)).transpose(1, 2), 1, 12, 5, conv=nn.Conv1d(5, 4, 3)),
    "rows-to-image": of(lambda m, x: m.conv(x.unsqueeze(1)), 1, 12, 5, conv=nn.Conv2d(1, 4, 3)),
    "gru-cell": of(lambda m, x: m.cell(x[:, :5], x[:, 5:]), 1, 9, cell=nn.GRUCell(5, 4)),
    "gru-cell-plain": of(lambda m, x: m.cell(x[:, :5], x[:, 5:]), 1, 9, cell=nn.GRUCell(5, 4, bias=False)),
    "gru-cell-steps": of(lambda m, x: m.cell(x[:, 2], m.cell(x[:, 1], m.cell(x[:, 0]))), 1, 3, 5, cell=nn.GRUCell(5, 4)),
    "lstm-last": of(lambda m, x: m.lstm(x)[0][:, -1], 1, 6, 5, lstm=nn.LSTM(5, 4, batch_first=True)),
    "lstm-all": of(lambda m, x: m.lstm(x)[0], 1, 6, 5, lstm=nn.LSTM(5, 4, batch_first=True)),
    "lstm-time-major": of(lambda m, x: m.lstm(x)[0][-1], 6, 1, 5, lstm=nn.LSTM(5, 4, bias=False)),
    "lstm-hidden": of(
        lambda m, x: m.linear(m.lstm(x)[1][0][-1]), 1, 6, 5, lstm=nn.LSTM(5, 4, batch_first=True), linear=nn.Linear(4, 3)
    ),
    "lstm-layers": of(lambda m, x: m.lstm(x)[0], 1, 6, 5, lstm=nn.LSTM(5, 4, 2, batch_first=True, dropout=0.5)),
    "conv1d-lstm": of(
        lambda m, x: m.lstm(m.conv(x).transpose(1, 2))[0],
        1,
        5,
        9,
        conv=nn.Conv1d(5, 4, 3),
        lstm=nn.LSTM(4, 3, batch_first=True),
    ),
    "gru-all": of(lambda m, x: m.gru(x)[0], 1, 6, 5, gru=nn.GRU(5, 4, batch_first=True)),
    "gru-layers": of(lambda m, x: m.gru(x)[0], 1, 6, 5, gru=nn.GRU(5, 4, 2, batch_first=True, dropout=0.5, bidirectional=True)),
    "gru-layers-hidden": of(lambda m, x: m.gru(x)[1], 6, 1, 5, gru=nn.GRU(5, 4, 2, bidirectional=True)),
    "gru-without-batch": of(lambda m, x: m.gru(x[0])[1] + m.gru(x[0])[0][-1], 1, 6, 5, gru=nn.GRU(5, 4)),
    "gru-state": of(lambda m, x: sum(m.gru(x[:, 1:], x[:, :1] * 0.5)), 1, 6, 5, gru=nn.GRU(5, 5, batch_first=True)),
    "gru-constant-state": of(
        lambda m, x: m.gru(x, m.first)[0], 1, 6, 5, gru=nn.GRU(5, 4, batch_first=True), first=nn.Parameter(torch.randn(1, 1, 4))
    ),
    "gru-one-step": of(lambda m, x: m.gru(x)[1], 1, 1, 5, gru=nn.GRU(5, 4)),
    "rnn": of(lambda m, x: m.rnn(x)[0], 1, 6, 5, rnn=nn.RNN(5, 4, batch_first=True)),
    "rnn-layers": of(lambda m, x: m.rnn(x)[1][-1], 6, 1, 5, rnn=nn.RNN(5, 4, 3, bias=False, bidirectional=True)),
    "rnn-relu": of(lambda m, x: m.rnn(x)[0][:, -1], 1, 6, 5, rnn=nn.RNN(5, 4, nonlinearity="relu", batch_first=True)),
    "rnn-cell-steps": of(lambda m, x: m.cell(x[:, 1], m.cell(x[:, 0])), 1, 3, 5, cell=nn.RNNCell(5, 4, nonlinearity="relu")),
    "gru-cell-without-batch": of(lambda m, x: m.cell(x[0, 1], m.cell(x[0, 0])), 1, 3, 5, cell=nn.GRUCell(5, 4)),
    "lstm-both-ways": of(lambda m, x: m.lstm(x)[0], 1, 6, 5, lstm=nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True)),
    "lstm-both-ways-states": of(lambda m, x: sum(m.lstm(x)[1]), 6, 1, 5, lstm=nn.LSTM(5, 4, 2, bidirectional=True)),
    "lstm-layers-hidden": of(lambda m, x: m.lstm(x)[1][0], 6, 1, 5, lstm=nn.LSTM(5, 4, 3)),
    "lstm-states": of(
        lambda m, x: torch.cat((m.lstm(x[:, 1:], (x[:, :1], 2 * x[:, :1]))[0], *m.lstm(x, (x[:, :1], x[:, 1:2]))[1]), 1),
        1,
        6,
        5,
        lstm=nn.LSTM(5, 5, batch_first=True),
    ),
    "any": of(lambda m, x: torch.where((x > 0.5).any(1, True), x, -x), 1, 3, 4, 5),
    "all": of(lambda m, x: torch.where((x > 0).all(2, True), x, -x), 1, 3, 2, 5),
    "addmm": of(lambda m, x: torch.addmm(torch.ones(3), x, torch.arange(12.0).view(4, 3)), 1, 4),
    "addmm-factors": of(lambda m, x: torch.addmm(x[:, :1], x, torch.arange(12.0).view(4, 3), beta=0.5, alpha=2), 1, 4),
    "variance-and-mean": of(lambda m, x: sum(torch.var_mean(x, 1, keepdim=True)), 1, 5, 4, 3),
    "lstm-projection": of(lambda m, x: m.lstm(x)[0], 1, 6, 5, lstm=nn.LSTM(5, 4, 2, batch_first=True, proj_size=3)),
    "lstm-projection-states": of(lambda m, x: m.lstm(x)[1][0], 6, 1, 5, lstm=nn.LSTM(5, 4, proj_size=2, bidirectional=True)),
    "lstm-cell-steps": of(lambda m, x: m.cell(x[:, 1], m.cell(x[:, 0]))[1], 1, 3, 5, cell=nn.LSTMCell(5, 4)),
    "lstm-cell-without-batch": of(lambda m, x: m.cell(x[0, 1], m.cell(x[0, 0]))[0], 1, 3, 5, cell=nn.LSTMCell(5, 4)),
    "gru-hidden": of(lambda m, x: m.gru(x)[1][0], 1, 6, 5, gru=nn.GRU(5, 4, bias=False, batch_first=True)),
    "sum": of(lambda m, x: x.sum(1) + x.square().sum(1), 1, 5, 7),
    "sum-of-a-map": of(lambda m, x: m.conv(x).sum((2, 3), keepdim=True), 1, 3, 5, 6, conv=nn.Conv2d(3, 4, 1)),
    "sum-of-all": of(lambda m, x: x + x.relu().sum(), 1, 5, 6),
    "max-dim": of(lambda m, x: x.max(1)[0] - x.min(1, keepdim=True)[0][:, 0], 1, 5, 7),
    "max-of-channels": of(
        lambda m, x: torch.cat((m.conv(x).max(1, keepdim=True)[0], x.mean(1, True)), 1), 1, 3, 5, 6, conv=nn.Conv2d(3, 4, 1)
    ),
    "max-other": of(lambda m, x: torch.max(m.conv(x), x) + torch.min(x, m.conv(x)), 1, 3, 5, 6, conv=nn.Conv2d(3, 3, 1)),
    "mean-of-all-scaled": of(lambda m, x: x + (x.mean() * 2 - 0.5), 1, 5, 6),
    "max-of-all": of(lambda m, x: (x.max() - x.min()).reshape(1, 1), 1, 5, 6),
    "stack": of(lambda m, x: torch.stack((x, x.relu(), x * 2), -1).flatten(2), 1, 5, 7),
    "stack-first": of(lambda m, x: torch.stack((x[0], m.token), 0), 1, 5, 7, token=nn.Parameter(torch.randn(5, 7))),
    "unbind": of(lambda m, x: sum(part * weight for weight, part in enumerate(x.unbind(1))), 1, 5, 7),
    "to": of(
        lambda m, x: x.float().relu().to("cpu").to(torch.float32, copy=True) + x.to(memory_format=torch.channels_last),
        1,
        3,
        5,
        6,
    ),
}


TRANSPOSING: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "softmax-columns": (nn.Sequential(nn.Softmax(3), nn.Conv2d(3, 4, 1)), (1, 3, 9, 7)),
    "log-softmax-rows": (nn.LogSoftmax(2), (1, 3, 9, 7)),
    "softmax-steps": of(lambda m, x: m.linear(x).softmax(1), 1, 5, 6, linear=nn.Linear(6, 4)),
    "rows-and-columns": of(lambda m, x: m.conv(m.conv(x).transpose(2, 3)) + m.conv(x), 1, 3, 8, 8, conv=nn.Conv2d(3, 3, 1)),
    "layer-norm-columns": of(lambda m, x: m.norm(m.conv(x)), 1, 3, 8, 8, conv=nn.Conv2d(3, 3, 1), norm=nn.LayerNorm(8)),
    "windows": of(lambda m, x: m.linear(x.unfold(1, 8, 4)), 1, 30, 3, linear=nn.Linear(8, 5)),
    "unfold": of(lambda m, x: m.linear(functional.unfold(x.relu(), 3, 2, 1, 2)), 1, 2, 9, 8, linear=nn.Linear(12, 4)),
    "view-of-a-map": of(lambda m, x: m.conv(x).reshape(1, 6, 20).softmax(-1), 1, 3, 6, 5, conv=nn.Conv2d(3, 4, 1)),
}


def written(x: Any) -> Any:
    whole = x * 1
    whole[:, 1:2].relu_()
    return whole


def cleared(x: Any) -> Any:
    whole = x * 1
    whole[:, 1:2] = 0.5
    whole[whole < 0] = 0.25
    return whole


def written_constant(x: Any) -> Any:
    whole = torch.zeros(1, 4)
    half = whole[:, :2]
    whole.add_(x)
    return half * 2 + x[:, :2]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (written, (1, 3, 4, 5)),
        (cleared, (1, 3, 4, 5)),
        (written_constant, (1, 4)),
        (lambda x: torch.baddbmm(x[:, :4, :4], x, x.transpose(1, 2))[:, 0], (1, 4, 6)),
        (lambda x: torch.addcdiv(x, x, x.abs() + 1), (1, 4)),
        (lambda x: torch.logit(x.sigmoid(), 0.01), (1, 4)),
    ],
)
def test_torch_decomposes_ops_that_are_not_known(function: Any, shape: tuple[int, ...]) -> None:
    """A file of the same network, which is read without torch, is refused."""
    example = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    module = Of(lambda m, x: function(x))
    assert distances(module, example)[1] < CLOSE
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, (example,)), file)
    with pytest.raises(CompileError):
        from_pt2(file.getvalue(), "net")


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("case", [*CASES, *TRANSPOSING])
def test_a_module_computes_what_torch_does(case: str, litert: ModuleType) -> None:
    module, shape = (CASES | TRANSPOSING)[case]
    torch.manual_seed(17)
    _, ours, by_litert = distances(trained(module), 2 * torch.randn(shape), litert, transposes=case in TRANSPOSING)
    assert ours < CLOSE and by_litert < CLOSE


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nn.ELU(), "elu"),
        (nn.ELU(0.5), "scaled_elu"),
        (nn.Softsign(), "softsign"),
        (nn.Softplus(), "softplus"),
        (Of(lambda m, x: x**0.5), "sqrt"),
        (Of(lambda m, x: x**-1), "reciprocal"),
    ],
)
def test_functions_become_one_op(module: nn.Module, kind: str) -> None:
    assert kinds(module, 1, 4) == [kind]


def kinds(module: nn.Module, *shape: int) -> list[str]:
    return [op.kind for op in from_module(module.eval(), torch.randn(shape)).ops]


def test_norms_and_activations_are_part_of_the_layer_before_them() -> None:
    for case in ("norm-after-conv", "norm-after-depthwise", "norm-after-transposed", "norm-after-linear"):
        module, shape = CASES[case]
        assert len(kinds(module, *shape)) == 1
    module, shape = CASES["norm1d"]
    assert kinds(module, *shape) == ["conv_2d"]
    assert kinds(nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3), nn.ReLU()), 1, 3, 9, 7) == ["relu", "mul", "add"]


def test_only_padding_that_is_not_same_becomes_an_op() -> None:
    assert kinds(nn.Conv2d(3, 8, 3, 2, 1), 1, 3, 9, 9) == ["conv_2d"]
    assert kinds(nn.Conv2d(3, 8, 3, 2, 1), 1, 3, 8, 8) == ["pad", "conv_2d"]
    assert kinds(nn.MaxPool2d(3, 2, 1), 1, 3, 9, 9) == ["max_pool_2d"]
    graph = from_module(nn.Conv2d(3, 8, 3, 2, 1), torch.randn(1, 3, 8, 8))
    assert graph.output(graph.ops[0]).shape == (1, 9, 9, 3)  # no window reaches a second row of padding


def test_a_convolution_of_one_channel_is_not_depthwise() -> None:
    assert kinds(nn.Conv2d(1, 8, 3), 1, 1, 8, 8) == ["conv_2d"]


def test_a_shuffle_becomes_a_gather_and_a_flattening_a_reshape() -> None:
    assert kinds(CASES["shuffle-chunk"][0], 1, 8, 5, 5) == ["gather", "split", "conv_2d"]
    assert kinds(CASES["flatten-linear"][0], 1, 3, 9, 7) == ["conv_2d", "reshape", "fully_connected"]
    assert kinds(CASES["sequence-to-conv1d"][0], 1, 12, 5) == ["reshape", "conv_2d", "reshape"]


def test_infinite_limits_of_a_clamp_are_ignored() -> None:
    assert kinds(Of(lambda m, x: x.clamp(0, math.inf)), 1, 4) == ["relu"]
    assert kinds(Of(lambda m, x: x.clamp(-math.inf, 2)), 1, 4) == ["minimum"]


def test_the_import_restores_the_mode_of_the_module() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout())
    module[2].eval()
    from_module(module, torch.randn(1, 3, 4, 4))
    assert [part.training for part in module.modules()] == [True, True, True, False]


def test_an_exported_program_gives_the_same_graph_as_its_module() -> None:
    module, example = nn.Conv2d(3, 4, 1).eval(), (torch.randn(1, 3, 4, 4),)
    assert isinstance(from_program(torch.export.export(module, example)), Graph)
