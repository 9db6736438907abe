"""Random PyTorch networks on images, sequences or tokens that grow layer by layer and end in a head.

Each layer is drawn among those that fit the current map. Shapes stay small; the network depends on its seed only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from cases.from_torch import trained
from fuzz import torch_quantised
from fuzz.torch_growth import Layer, Network, grow
from fuzz.torch_heads import classifier, linear_of_steps, recurrent, stepped
from fuzz.whole_way import SAMPLES
from torch import Tensor, nn
from torch.nn import functional

import tinyweave as tw

MOST_CHANNELS, MOST_ROWS = 24, 20
WORDS = 30
LEAST_SQNR_DB = -math.inf  # the ranges of some networks are too wide for int8


def network(seed: int) -> tuple[nn.Module, Tensor]:
    """Return the network of a seed in evaluation mode, and an example input. Some networks are int8 (`torch_quantised`)."""
    if torch_quantised.is_quantised(seed):
        return torch_quantised.network(seed)
    rng = random.Random(seed)
    torch.manual_seed(seed)
    is_sequence, has_tokens = seed % 5 == 4, seed % 20 == 19
    shape = (
        [1, rng.randint(2, 8), rng.randint(6, 16)]
        if is_sequence
        else [2 if seed % 10 == 3 else 1, rng.randint(1, 8), rng.randint(5, 14), rng.randint(5, 14)]
    )
    made = Network(shape).eval()
    example = torch.randint(0, WORDS, (1, shape[2])) if has_tokens else torch.randn(shape)
    if has_tokens:
        made.first = nn.Embedding(WORDS, shape[1])
    for _ in range(rng.randint(3, 9)):
        grow(rng, made, example, LAYERS[len(shape)])
    grow(rng, made, example, HEADS[len(shape)])
    return trained(made, seed), example


def loaded(seed: int) -> tuple[tw.Model, np.ndarray]:
    """Return the network of a seed as a float or int8 model, and samples for its calibration."""
    module, example = network(seed)
    rng, shape = np.random.default_rng(seed), (SAMPLES, *example.shape)
    is_float = example.is_floating_point()
    samples = rng.standard_normal(shape).astype(np.float32) if is_float else rng.integers(0, WORDS, shape)
    return tw.load(module, example, name=f"network_{seed}"), samples


def size(rng: random.Random, shape: list[int], most: int = 5) -> tuple[int, int]:
    return rng.randint(1, min(most, shape[2])), rng.randint(1, min(most, shape[3]))


def convolution(rng: random.Random, made: Network, shape: list[int]) -> Any:
    inputs, kernel = shape[1], size(rng, shape)
    groups = rng.choice([d for d in range(1, inputs + 1) if inputs % d == 0])
    outputs = groups * rng.randint(1, max(1, MOST_CHANNELS // groups))
    stride, dilation = rng.choice([1, 1, 2, (2, 1)]), rng.choice([1, 1, 1, 2])
    if max(kernel) > 2 and dilation == 2:
        kernel = (2, 2)
    padding = rng.choice(["valid", 0, 1, tuple(k // 2 for k in kernel), *(["same"] if stride == 1 else [])])
    if min(shape[2:]) < 5:
        padding = tuple(kernel)
    mode = rng.choice(["zeros", "zeros", "reflect"]) if padding == 1 and min(shape[2:]) > 2 else "zeros"
    bias = rng.random() < 0.5
    return made.use(nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias, mode))


def transposed(rng: random.Random, made: Network, shape: list[int]) -> Any:
    if max(shape[2:]) > MOST_ROWS // 2:
        return None
    stride, kernel = rng.randint(1, 3), rng.randint(1, 4)
    padding, more = rng.randint(0, (kernel - 1) // 2), rng.randint(0, stride - 1)
    groups = rng.choice([1, 1, shape[1]])
    outputs, dilation = groups * rng.randint(1, max(1, 12 // groups)), rng.choice([1, 1, 2])
    kind = nn.ConvTranspose2d if len(shape) == 4 else nn.ConvTranspose1d
    return made.use(kind(shape[1], outputs, kernel, stride, padding, more, groups, rng.random() < 0.5, dilation))


def norm(rng: random.Random, made: Network, shape: list[int]) -> Any:
    return made.use((nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1], affine=rng.random() < 0.8))


def activation(rng: random.Random, made: Network, shape: list[int]) -> Any:
    names = [nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.PReLU, nn.Dropout]
    if (
        made.steps
        and isinstance(made.steps[-1], (nn.Conv1d, nn.Conv2d, nn.modules.batchnorm._BatchNorm))
        and rng.random() < 0.5
    ):
        return made.use(nn.ReLU(inplace=True))  # otherwise another layer may read the overwritten map
    others = [nn.Hardtanh(-0.5, 2), nn.GELU(("none", "tanh")[shape[1] % 2]), nn.LeakyReLU(rng.random()), nn.PReLU(shape[1])]
    low, beta = rng.random(), rng.uniform(0.5, 2)
    others += [nn.Softplus(beta), nn.Softsign(), nn.Mish(), nn.SELU(), nn.LogSigmoid(), nn.Hardshrink(low), nn.Softshrink(low)]
    others += [nn.CELU(beta), nn.ELU(rng.choice([1, 0.5])), nn.Threshold(low, -1)]
    last = 1 if len(shape) > 2 else -1
    others += [nn.Softmax(last), nn.LogSoftmax(last), *([nn.Dropout2d()] if len(shape) == 4 else [])]
    return made.use(rng.choice([*(name() for name in names), *others]))


def function(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Apply two functions of one element."""
    low = rng.uniform(-1, 0.5)
    functions = [
        lambda x: x.clamp(low, low + 1), lambda x: x + x.ceil(), lambda x: x - x.floor(), lambda x: x.sign() + x.sin(),
        lambda x: (3 * x).round() - x,
        lambda x: x.clamp_min(low), lambda x: x.clamp_max(low + 1), lambda x: x.clamp(0, 6),
        functional.relu6, lambda x: 1 - x,
        lambda x: x - low, lambda x: -x, lambda x: x / 3, lambda x: 2 * x + low, lambda x: x * x,
        lambda x: x**2, lambda x: x.clone().relu_(), lambda x: (x + 1).mul_(0.5), lambda x: torch.maximum(x, low * x),
        lambda x: torch.minimum(x, x * x), lambda x: torch.sub(x, x * x, alpha=0.5), lambda x: x.detach().contiguous(),
        lambda x: functional.relu(x) * torch.sigmoid(x) + torch.tanh(x), lambda x: x.square().to(torch.float32),
        lambda x: torch.max(x, low * x), lambda x: torch.min(x, x * x), lambda x: torch.exp(x.clamp_max(low)),
        lambda x: torch.exp(-x.abs()),
        torch.abs, torch.erf, torch.sin, torch.cos, lambda x: torch.log(x.abs() + 0.2), lambda x: (x.square() + 0.1).sqrt(),
        lambda x: (x.abs() + 0.3).sqrt().reciprocal(), lambda x: (x.abs() + 0.1) ** 1.5, torch.atan,
        torch.asinh, torch.expm1, torch.frac, torch.trunc, torch.sinc, torch.erfc, functional.hardsigmoid,
        functional.tanhshrink, lambda x: torch.log1p(x.abs()), lambda x: torch.log2(x.abs() + low + 1.2),
        lambda x: torch.exp2(x.clamp_max(low)), lambda x: torch.asin(0.9 * torch.sin(x)),
        lambda x: torch.atanh(0.9 * torch.cos(x)),
        lambda x: (x.square() + 0.3).rsqrt(),
        lambda x: torch.acosh(x.abs() + 1.1), lambda x: torch.tan(x.clamp(-1, low)), lambda x: torch.sinh(x.clamp(-1, 1)),
        lambda x: torch.cosh(x.clamp(-1, 1)), lambda x: torch.log10(x.square() + 0.3), lambda x: torch.acos(torch.tanh(x)),
        lambda x: torch.where(x > low, x, low * x), lambda x: x.masked_fill(x <= low, low), lambda x: x * (x < low).float(),
        lambda x: torch.where((x > low) & ~(x >= low + 1), x, -x), lambda x: x.cumsum(-1) / x.shape[-1],
    ]  # fmt: skip
    first, second = rng.choices(functions, k=2)
    return lambda x: second(first(x))


def selection(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Select elements by two comparisons."""
    low = rng.uniform(-1, 0.5)
    first = rng.choice([torch.gt, torch.le, torch.lt])
    second = rng.choice([lambda x: x.clamp_min(low) == x, lambda x: x.clamp_max(low + 0.5) != x])
    both = rng.choice([
        lambda a, b: a & b, lambda a, b: a | b, torch.bitwise_and, torch.bitwise_or, torch.logical_and, torch.logical_or,
        lambda a, b: torch.logical_not(a) & b,
    ])  # fmt: skip
    return lambda x: torch.where(both(first(x, low), second(x)), x, low * x)


def by_index(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Look up the index of the largest or smallest element of an axis in a table, or make a one-hot vector of it."""
    axis = rng.randrange(1, len(shape))
    depth = shape[axis]
    table = torch.randn(depth, shape[-1])
    return rng.choice([
        lambda x: functional.one_hot(x.argmax(axis), depth).float() * table.mean(1),
        lambda x: x * torch.movedim(functional.one_hot(x.argmin(axis), depth).float() + 0.5, -1, axis),
        lambda x: functional.embedding(x.argmax(axis), table),
    ])  # fmt: skip


def pool(rng: random.Random, made: Network, shape: list[int]) -> Any:
    if min(shape[2:]) < 2:
        return None
    kernel, stride = rng.randint(2, min(4, *shape[2:])), rng.randint(1, 3)
    padding = rng.randint(0, kernel // 2)
    ceil = rng.random() < 0.3
    if rng.random() < 0.5:
        dilation = min(rng.choice([1, 1, 2]), (min(shape[2:]) - 1) // (kernel - 1))  # the window fits the map
        return made.use(nn.MaxPool2d(kernel, stride, padding, dilation, ceil_mode=ceil))
    return made.use(nn.AvgPool2d(kernel, stride, padding, ceil, rng.random() < 0.5, rng.choice([None, None, 3])))


def adaptive(rng: random.Random, made: Network, shape: list[int]) -> Any:
    uneven = rng.random() < 0.3
    out = [rng.choice([d for d in range(1, extent + 1) if uneven or extent % d == 0]) for extent in shape[2:]]
    kinds = [nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d] if len(shape) == 4 else [nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d]
    return made.use(rng.choice(kinds)(tuple(out) if len(out) == 2 else out[0]))


def excite(rng: random.Random, made: Network, shape: list[int]) -> Any:
    inner, gate = rng.randint(1, 6), made.use(rng.choice([nn.Sigmoid, nn.Hardsigmoid])())
    if rng.random() < 0.5:
        down, up = made.use(nn.Linear(shape[1], inner)), made.use(nn.Linear(inner, shape[1]))
        return lambda x: x * gate(up(functional.relu(down(x.mean((2, 3)))))).unsqueeze(2).unsqueeze(3)
    down, up = made.use(nn.Conv2d(shape[1], inner, 1)), made.use(nn.Conv2d(inner, shape[1], 1))
    return lambda x: x * gate(up(functional.silu(down(functional.adaptive_avg_pool2d(x, 1)))))


def earlier(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Join an earlier map."""
    places = [i for i, other in enumerate(made.shapes[:-1]) if len(other) == len(shape) and other[2:] == shape[2:]]
    if not places:
        return None
    place = rng.choice(places)
    if made.shapes[place] == shape:
        return rng.choice([lambda x: x + made.maps[place], lambda x: made.maps[place] - x, lambda x: x * made.maps[place]])
    if made.shapes[place][1] + shape[1] > 2 * MOST_CHANNELS:
        return None
    return lambda x: torch.cat([x, made.maps[place]], 1)


def parts(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Split along an axis and join again, or keep a part."""
    axis = rng.randrange(1, len(shape))
    if shape[axis] < 2:
        return None
    at = rng.randint(1, shape[axis] - 1)
    return rng.choice([
        lambda x: torch.cat(x.chunk(2, axis)[::-1], axis),
        lambda x: torch.cat(x.split([at, shape[axis] - at], axis)[::-1], axis),
        lambda x: x.split(at, axis)[0], lambda x: x.chunk(2, axis)[0], lambda x: x[:, :, ::2],
        lambda x: x[..., 1:], lambda x: torch.cat([x, x], axis) if shape[axis] < 10 else x[:, -1:],
    ])  # fmt: skip


def reduced(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Reduce an axis, and combine the result with the map."""
    axis = rng.randrange(1, len(shape))
    at = rng.randrange(shape[axis])
    return rng.choice([
        lambda x: x.select(axis, at).unsqueeze(axis) * x, lambda x: x * x.mean(axis, keepdim=True), lambda x: x * x.mean(),
        lambda x: x - x.amax(axis, keepdim=True), lambda x: x + x.amin(axis, keepdim=True),
        lambda x: x - x.max(axis, keepdim=True)[0], lambda x: x - x.min(axis, keepdim=True).values,
        lambda x: x * x.sum(axis, keepdim=True) / shape[axis], lambda x: torch.stack(x.unbind(1)[::-1], 1),
    ])  # fmt: skip


def shuffle(rng: random.Random, made: Network, shape: list[int]) -> Any:
    divisors = [d for d in range(2, shape[1]) if shape[1] % d == 0]
    if not divisors:
        return None
    groups, (n, c, h, w) = rng.choice(divisors), shape
    if rng.random() < 0.5:
        return made.use(nn.ChannelShuffle(groups))
    if rng.random() < 0.5:
        return lambda x: x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)
    return lambda x: x.reshape(n, groups, c // groups, h, w).permute(0, 2, 1, 3, 4).reshape(n, c, h, w)


def selected(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Permute or repeat elements."""
    axis, (c, h, w) = rng.randrange(1, 4), shape[1:]
    at = torch.tensor([rng.randrange(shape[axis]) for _ in range(min(shape[axis], 9))])
    few = [lambda x: x.repeat(1, 1, 2, 1), lambda x: x.repeat_interleave(2, axis), lambda x: x[:, :1].expand(-1, 3, -1, -1)]
    few += [lambda x: x.mean(axis, keepdim=True).expand_as(x) - x, lambda x: x[:, [c - 1, 0]]]
    few += [lambda x: functional.unfold(x, (2, 1), padding=1)[:, :, : h * w].reshape(x.size(0), -1, h, w)] if c < 9 else []
    few += [nn.PixelShuffle(2)] * 6 if c % 4 == 0 else []
    few += [nn.PixelUnshuffle(2)] * 6 if h % 2 == w % 2 == 0 else []
    if max(h, w) < 12 and rng.random() < 0.7:
        return rng.choice(few)
    return rng.choice([
        lambda x: x.flip(axis), lambda x: x.flip((1, axis)) if axis > 1 else x.flip(1), lambda x: x.roll(2, axis),
        lambda x: x.roll(3), lambda x: x.index_select(axis, at), lambda x: x[:, :, at % h],
    ])  # fmt: skip


def composed(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Add a function that becomes several ops."""
    axis, c, value = rng.randrange(1, len(shape)), shape[1], rng.uniform(-1, 1)
    groups = rng.choice([d for d in range(1, c + 1) if c % d == 0])
    count, real_or_imaginary = math.prod(shape), rng.randint(0, 1)
    vector = torch.randn(count)
    linear = made.use(nn.Linear(shape[-1], shape[-1]))
    matrix, mixing, shape_of_rows = linear.weight.detach(), torch.randn(shape[-2], shape[-2]) / shape[-2], shape[-1:]
    return rng.choice([
        made.use(nn.GroupNorm(groups, c, eps=0.1)),
        lambda x: functional.instance_norm(x, eps=0.1) if math.prod(shape[2:]) > 1 else x.tanh(),
        lambda x: x - x.var(axis, unbiased=False, keepdim=True), lambda x: x * (x.std(axis, correction=0, keepdim=True) + 0.5),
        lambda x: x + torch.linalg.vector_norm(x, 1 + c % 2, axis, keepdim=True), lambda x: x - x.norm(2, axis, True),
        lambda x: x * functional.cosine_similarity(x, x + value, axis, 0.1).unsqueeze(axis),
        lambda x: x - x.logsumexp(axis, keepdim=True), lambda x: torch.lerp(x, x.relu(), value),
        lambda x: torch.addcmul(x, x.tanh(), x.sigmoid(), value=value), lambda x: torch.matmul(x, matrix[0]).unsqueeze(-1) + x,
        lambda x: x.softmax(axis),
        lambda x: functional.glu(x if shape[axis] % 2 == 0 else torch.cat((x, x.tanh()), axis), axis),
        lambda x: torch.matmul(mixing, x), lambda x: torch.einsum("...l,ml->...m", x, matrix),
        lambda x: functional.normalize(x, dim=axis), lambda x: torch.select_scatter(x, x.select(axis, 0) * value, axis, -1),
        made.use(nn.LayerNorm(shape_of_rows, eps=0.1)), lambda x: functional.rms_norm(x, shape_of_rows, eps=0.1),
        lambda x: x * (x > value).any(axis, True).float(), lambda x: x.where((x > -3).all(axis, True), torch.zeros_like(x)),
        lambda x: x[:, :2].prod(1, keepdim=True) + x, lambda x: torch.slice_scatter(x, x[:, :1] * value, 1, c - 1),
        lambda x: x - torch.var_mean(x, axis, False, True)[1], lambda x: (x.abs() + 0.5) / (x.square() + 1),
        lambda x: x + torch.full_like(x[:, :1], value) + torch.ones_like(x[:, :1]),
        lambda x: torch.view_as_real(torch.fft.rfft(x, dim=axis, norm="ortho"))[..., real_or_imaginary],
        lambda x: x - torch.real(torch.fft.rfft(x, dim=axis, norm="ortho")).mean(axis, keepdim=True),
        lambda x: x * (torch.dot(x.flatten(), vector) / count**0.5),
        lambda x: x.unflatten(1, (groups, c // groups)).mean(2), lambda x: x - x.topk(1, axis, largest=value < 0)[0],
        lambda x: x.topk(min(3, shape[axis]), axis, largest=value < 0)[0],
        lambda x: torch.cat([part(torch.fft.rfft(x, dim=axis, norm="ortho")) for part in (torch.abs, torch.imag)], axis),
    ])  # fmt: skip


def attention(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Attention between the steps of a sequence, or a product of maps."""
    width = rng.randint(1, 4)
    query, key, value = (made.use(nn.Linear(shape[1], n)) for n in (width, width, shape[1]))
    mask = torch.zeros(shape[2], shape[2]).masked_fill(torch.rand(shape[2], shape[2]) < 0.3, -math.inf).fill_diagonal_(0)
    how = rng.choice([{}, {"is_causal": True}, {"attn_mask": mask}])

    def attended(x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        return functional.scaled_dot_product_attention(query(y), key(y), value(y), **how).transpose(1, 2)

    scale = 1 / shape[2]
    return rng.choice([attended, attended, lambda x: torch.bmm(torch.bmm(x, x.transpose(1, 2)) * scale, x)])


class Kept(nn.Module):
    """Put the last steps of the map in the previous call before the map."""

    def __init__(self, shape: Sequence[int], count: int):
        super().__init__()
        self.register_buffer("kept", torch.zeros(*shape[:2], count, *shape[3:]))

    def forward(self, x: Tensor) -> Tensor:
        together = torch.cat([self.kept, x], 2)
        self.kept.copy_(together[:, :, -self.kept.shape[2] :])
        return together


def kept(rng: random.Random, made: Network, shape: list[int]) -> Any:
    return made.use(Kept(shape, rng.randint(1, 2))) if rng.random() < 0.4 else None


def pad(rng: random.Random, made: Network, shape: list[int]) -> Any:
    if max(shape[2:]) > MOST_ROWS:
        return None
    amounts = [rng.randint(0, 2) for _ in range(4)]
    if rng.random() < 0.5 and min(shape[2:]) > 2:
        kinds = [
            nn.ReflectionPad2d(amounts),
            nn.ReplicationPad2d(amounts),
            nn.CircularPad2d(amounts),
            nn.ZeroPad2d((-1, *amounts[1:])),
        ]
        return made.use(rng.choice(kinds))
    if rng.random() < 0.3:
        return lambda x: torch.constant_pad_nd(x, [*amounts, 1, 0])
    value = rng.choice([None, 0.0, 1.5])
    return lambda x: functional.pad(x, amounts, value=value)


def resized(rng: random.Random, made: Network, shape: list[int]) -> Any:
    if max(shape[2:]) > MOST_ROWS // 2:
        return None
    out = tuple(extent + rng.randint(0, extent) for extent in shape[2:])
    return made.use(rng.choice([
        nn.Upsample(scale_factor=2), nn.Upsample(size=out), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(size=out, mode="bilinear"), nn.Upsample(size=out, mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=1.3, mode="bilinear"), nn.Upsample(size=out, mode="bicubic"), nn.Upsample(scale_factor=1.7),
        nn.Upsample(size=out, mode="nearest-exact"), nn.Upsample(scale_factor=2, mode="bicubic"),
    ]))  # fmt: skip


def rows(rng: random.Random, made: Network, shape: list[int]) -> Any:
    """Add a linear layer on the channels of each pixel."""
    linear = made.use(nn.Linear(shape[1], rng.randint(1, 12)))
    return lambda x: linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convolution_of_steps(rng: random.Random, made: Network, shape: list[int]) -> Any:
    inputs, kernel = shape[1], rng.randint(1, min(4, shape[2]))
    groups = rng.choice([1, inputs])
    return made.use(nn.Conv1d(inputs, groups * rng.randint(1, 3), kernel, rng.choice([1, 1, 2]), kernel // 2, groups=groups))


def resized_steps(rng: random.Random, made: Network, shape: list[int]) -> Any:
    if shape[2] > MOST_ROWS:
        return None
    return made.use(nn.Upsample(scale_factor=rng.choice([1.5, 2]), mode=rng.choice(["nearest", "linear", "nearest-exact"])))


def pool_of_steps(rng: random.Random, made: Network, shape: list[int]) -> Any:
    return made.use(rng.choice([nn.MaxPool1d, nn.AvgPool1d])(2, rng.choice([1, 2]), 1)) if shape[2] > 2 else None


SHARED = [norm, activation, activation, *[function] * 5, earlier, *[composed] * 5, selection, by_index, kept]
LAYERS: dict[int, list[Layer]] = {
    4: [
        *SHARED,
        convolution,
        convolution,
        transposed,
        pool,
        adaptive,
        excite,
        parts,
        reduced,
        reduced,
        shuffle,
        shuffle,
        pad,
        *[resized] * 3,
        rows,
        *[selected] * 4,
    ],
    3: [
        *SHARED,
        convolution_of_steps,
        convolution_of_steps,
        pool_of_steps,
        adaptive,
        parts,
        transposed,
        resized_steps,
        attention,
    ],
}
HEADS: dict[int, list[Layer]] = {
    4: [classifier, classifier, activation],
    3: [recurrent, recurrent, recurrent, stepped, stepped, linear_of_steps, adaptive],
}
