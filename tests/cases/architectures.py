"""Networks of papers in plain PyTorch, small enough for a microcontroller: 96 x 96 pixels or less.

NETWORKS: name -> (module, shape of its input). The random weights are seeded by the name's index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

Layer = Callable[[], nn.Module]
CLASSES = 10


def of_eight(channels: float) -> int:
    """Return the nearest multiple of 8 that is at most 10 % below."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, groups: int = 1, act: Layer | None = nn.ReLU
) -> nn.Sequential:
    """Return a convolution with batch norm and activation; the padding is symmetric, as in torch."""
    parts = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, *([act()] if act else []))


def classifier(channels: int, classes: int = CLASSES) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(channels, classes))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, inner: int, gate: Layer = nn.Hardsigmoid):
        super().__init__()
        self.down, self.up, self.gate = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1), gate()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, optional squeeze-and-excitation, projection; added to the input if shapes match."""

    def __init__(self, inputs: int, outputs: int, expanded: int, *, kernel: int, stride: int, act: Layer, excite: int = 0):
        super().__init__()
        parts = [conv(inputs, expanded, 1, act=act)] if expanded != inputs else []
        parts += [conv(expanded, expanded, kernel, stride, groups=expanded, act=act)]
        parts += [SqueezeExcite(expanded, excite)] if excite else []
        self.layers = nn.Sequential(*parts, conv(expanded, outputs, 1, act=None))
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


def mobilenet_v1(width: float = 0.25) -> nn.Module:
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    channels = of_eight(32 * width)
    layers = [conv(3, channels, 3, 2)]
    for base, stride in plan:
        outputs = of_eight(base * width)
        layers += [conv(channels, channels, 3, stride, groups=channels), conv(channels, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, classifier(channels))


# per stage: expansion, channels, blocks, stride, kernel
# fmt: off
V2 = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
]
LITE0 = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
]
MNAS = [
    (1, 16, 1, 1, 3), (3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
]
PROXYLESS = [
    (1, 16, 1, 1, 3), (3, 32, 1, 2, 5), (3, 32, 1, 1, 3), (3, 40, 1, 2, 7), (3, 40, 1, 1, 3), (3, 40, 2, 1, 5),
    (6, 80, 1, 2, 7),
    (3, 80, 3, 1, 5), (6, 96, 1, 1, 5), (3, 96, 3, 1, 5), (6, 192, 1, 2, 7), (6, 192, 1, 1, 7), (3, 192, 2, 1, 7),
    (6, 320, 1, 1, 7),
]
# fmt: on


def staged(stages: Sequence[tuple[int, int, int, int, int]], width: float, last: int, act: Layer) -> nn.Module:
    """Return a network of inverted residual blocks."""
    channels = of_eight(32 * width)
    layers: list[nn.Module] = [conv(3, channels, 3, 2, act=act)]
    for expansion, base, blocks, stride, kernel in stages:
        for block in range(blocks):
            outputs = of_eight(base * width)
            step = stride if block == 0 else 1
            layers.append(InvertedResidual(channels, outputs, expansion * channels, kernel=kernel, stride=step, act=act))
            channels = outputs
    return nn.Sequential(*layers, conv(channels, last, 1, act=act), classifier(last))


def mobilenet_v3_small(width: float = 0.5) -> nn.Module:
    hard, soft = nn.Hardswish, nn.ReLU
    plan = [
        (3, 16, 16, True, soft, 2), (3, 72, 24, False, soft, 2), (3, 88, 24, False, soft, 1), (5, 96, 40, True, hard, 2),
        (5, 240, 40, True, hard, 1), (5, 240, 40, True, hard, 1), (5, 120, 48, True, hard, 1), (5, 144, 48, True, hard, 1),
        (5, 288, 96, True, hard, 2), (5, 576, 96, True, hard, 1), (5, 576, 96, True, hard, 1),
    ]  # fmt: skip
    channels = of_eight(16 * width)
    layers: list[nn.Module] = [conv(3, channels, 3, 2, act=hard)]
    for kernel, expanded, base, excite, act, stride in plan:
        inner, outputs = of_eight(expanded * width), of_eight(base * width)
        squeezed = of_eight(inner / 4) if excite else 0
        block = InvertedResidual(channels, outputs, inner, kernel=kernel, stride=stride, act=act, excite=squeezed)
        layers.append(block)
        channels = outputs
    wide = of_eight(576 * width)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 128), nn.Hardswish(inplace=True), nn.Dropout(0.2)]
    return nn.Sequential(*layers, conv(channels, wide, 1, act=hard), *head, nn.Linear(128, CLASSES))


def ds_cnn(channels: int = 64) -> nn.Module:
    """Return the keyword spotting network on 49 x 10 MFCCs of MLPerf Tiny."""
    first = nn.Sequential(nn.Conv2d(1, channels, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(channels), nn.ReLU())
    blocks = [conv(channels, channels, k, groups=g) for _ in range(4) for k, g in ((3, channels), (1, 1))]
    return nn.Sequential(first, *blocks, classifier(channels, 12), nn.Softmax(-1))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.layers = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3, act=None))
        is_same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if is_same else conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.layers(x) + self.shortcut(x))


def resnet8() -> nn.Module:
    """Return the CIFAR-10 network on 32 x 32 of MLPerf Tiny."""
    return nn.Sequential(conv(3, 16), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2), classifier(64))


def resnet18(width: int = 16) -> nn.Module:
    layers: list[nn.Module] = [conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage in range(4):
        for block in range(2):
            layers.append(Residual(channels, width << stage, 2 if stage and not block else 1))
            channels = width << stage
    return nn.Sequential(*layers, classifier(channels))


class Fire(nn.Module):
    def __init__(self, inputs: int, squeezed: int, expanded: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.point, self.square = nn.Conv2d(squeezed, expanded, 1), nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.squeeze(x))
        return torch.cat([self.act(self.point(x)), self.act(self.square(x))], 1)


def squeezenet() -> nn.Module:
    """Return SqueezeNet 1.1 at half its width."""
    pool = nn.MaxPool2d(3, 2)
    first = [nn.Conv2d(3, 32, 3, 2), nn.ReLU(inplace=True), pool, Fire(32, 8, 32), Fire(64, 8, 32), pool]
    more = [
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        pool,
        Fire(128, 24, 96),
        Fire(192, 24, 96),
        Fire(192, 32, 128),
        Fire(256, 32, 128),
    ]
    head = [nn.Dropout(), nn.Conv2d(256, CLASSES, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()]
    return nn.Sequential(*first, *more, *head)


def shuffle(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.size()
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)


class ShuffleUnit(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.stride, branch = stride, outputs // 2
        source = inputs if stride == 2 else branch
        self.left = (
            nn.Sequential(conv(source, source, 3, 2, groups=source, act=None), conv(source, branch, 1)) if stride == 2 else None
        )
        parts = conv(source, branch, 1), conv(branch, branch, 3, stride, groups=branch, act=None), conv(branch, branch, 1)
        self.right = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        if self.left is not None:
            return shuffle(torch.cat((self.left(x), self.right(x)), dim=1), 2)
        kept, changed = x.chunk(2, dim=1)
        return shuffle(torch.cat((kept, self.right(changed)), dim=1), 2)


def shufflenet_v2() -> nn.Module:
    """Return ShuffleNetV2 x0.5."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 24
    for outputs, repeats in ((48, 4), (96, 8), (192, 4)):
        for unit in range(repeats):
            layers.append(ShuffleUnit(channels, outputs, 1 if unit else 2))
            channels = outputs
    return nn.Sequential(*layers, conv(channels, 256, 1), classifier(256))


class UNet(nn.Module):
    def __init__(self, width: int = 8, classes: int = 3):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(self.block(i, o) for i, o in zip([3, *sizes], sizes, strict=False))
        self.middle = self.block(sizes[-1], 2 * sizes[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, 2) for size in sizes[::-1])
        self.join = nn.ModuleList(self.block(2 * size, size) for size in sizes[::-1])
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(conv(inputs, outputs), conv(outputs, outputs))

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for block in self.down:
            seen.append(block(x))
            x = functional.max_pool2d(seen[-1], 2)
        x = self.middle(x)
        for up, join, skipped in zip(self.up, self.join, seen[::-1], strict=True):
            x = join(torch.cat([skipped, up(x)], dim=1))
        return self.head(x)


class Keywords(nn.Module):
    """A recurrent layer over 49 steps of 10 MFCCs, and a linear layer on its last output."""

    def __init__(self, layer: type[nn.RNNBase], cells: int = 64):
        super().__init__()
        self.recurrent, self.head = layer(10, cells, batch_first=True), nn.Linear(cells, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


IMAGE = (1, 3, 96, 96)
BUILDERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet_v1": (mobilenet_v1, IMAGE),
    "mobilenet_v2": (lambda: staged(V2, 0.35, 1280, nn.ReLU6), IMAGE),
    "mobilenet_v3_small": (mobilenet_v3_small, IMAGE),
    "efficientnet_lite0": (lambda: staged(LITE0, 0.5, 640, nn.ReLU6), IMAGE),
    "proxylessnas": (lambda: staged(PROXYLESS, 0.35, 640, nn.ReLU6), IMAGE),
    "mnasnet": (lambda: staged(MNAS, 0.35, 640, nn.ReLU), IMAGE),
    "ds_cnn": (ds_cnn, (1, 1, 49, 10)),
    "resnet8": (resnet8, (1, 3, 32, 32)),
    "resnet18": (resnet18, IMAGE),
    "squeezenet": (squeezenet, IMAGE),
    "shufflenet_v2": (shufflenet_v2, IMAGE),
    "unet": (UNet, (1, 3, 48, 48)),
    "lstm": (lambda: Keywords(nn.LSTM), (1, 49, 10)),
    "gru": (lambda: Keywords(nn.GRU), (1, 49, 10)),
}


def network(name: str) -> tuple[nn.Module, Tensor]:
    """Return a network with fixed random weights in evaluation mode, and an example input."""
    build, shape = BUILDERS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(list(BUILDERS).index(name))
        return build().eval(), torch.randn(shape)
