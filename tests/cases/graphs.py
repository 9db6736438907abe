"""Networks with many branches for planning only: real shapes, int8, all weights zero and sharing their bytes.

NASNet-A, AmoebaNet-A and DARTS V2 cells from the genotypes of DARTS (arXiv 1806.09055), Inception v3 (arXiv 1512.00567),
RandWire stages from Watts-Strogatz graphs with 32 nodes, k = 4, p = 0.75 (arXiv 1904.01569).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops.window import same_padding

QUANT = Quant((0.05078125,), (0,))
Genotype = dict[str, tuple[Sequence[tuple[str, int]], Sequence[int]]]

# cell -> pairs of (op, input node), which are added; concatenated nodes. Nodes 0 and 1 are the two preceding cells
NASNET: Genotype = {
    "normal": (
        [
            ("sep_5", 1),
            ("sep_3", 0),
            ("sep_5", 0),
            ("sep_3", 0),
            ("avg", 1),
            ("skip", 0),
            ("avg", 0),
            ("avg", 0),
            ("sep_3", 1),
            ("skip", 1),
        ],
        (2, 3, 4, 5, 6),
    ),
    "reduce": (
        [
            ("sep_5", 1),
            ("sep_7", 0),
            ("max", 1),
            ("sep_7", 0),
            ("avg", 1),
            ("sep_5", 0),
            ("skip", 3),
            ("avg", 2),
            ("sep_3", 2),
            ("max", 1),
        ],
        (3, 4, 5, 6),
    ),
}
AMOEBANET: Genotype = {
    "normal": (
        [
            ("avg", 0),
            ("max", 1),
            ("sep_3", 0),
            ("sep_5", 2),
            ("sep_3", 0),
            ("avg", 3),
            ("sep_3", 1),
            ("skip", 1),
            ("skip", 0),
            ("avg", 1),
        ],
        (4, 5, 6),
    ),
    "reduce": (
        [
            ("avg", 0),
            ("sep_3", 1),
            ("max", 0),
            ("sep_7", 2),
            ("sep_7", 0),
            ("avg", 1),
            ("max", 0),
            ("max", 1),
            ("line_7", 0),
            ("sep_3", 5),
        ],
        (3, 4, 6),
    ),
}
DARTS: Genotype = {
    "normal": (
        [("sep_3", 0), ("sep_3", 1), ("sep_3", 0), ("sep_3", 1), ("sep_3", 1), ("skip", 0), ("skip", 0), ("dil_3", 2)],
        (2, 3, 4, 5),
    ),
    "reduce": (
        [("max", 0), ("max", 1), ("skip", 2), ("max", 1), ("max", 0), ("skip", 2), ("skip", 2), ("max", 1)],
        (2, 3, 4, 5),
    ),
}


class Net:
    """A graph under construction; methods that add layers take and return tensor names."""

    def __init__(self, h: int, w: int, c: int) -> None:
        self.tensors = {"image": Tensor("image", (1, h, w, c), "int8", QUANT)}
        self.ops: list[Op] = []

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def op(self, kind: str, inputs: Sequence[str], shape: tuple[int, ...], **attrs: object) -> str:
        name = f"{kind}_{len(self.ops)}"
        self.tensors[name] = Tensor(name, shape, "int8", QUANT)
        self.ops.append(Op(name, kind, (*inputs, None) if "conv" in kind else tuple(inputs), (name,), attrs))
        return name

    def zeros(self, *shape: int) -> str:
        name = f"weights_{len(self.ops)}"
        data = np.broadcast_to(np.int8(0), shape)
        self.tensors[name] = Tensor(name, shape, "int8", QUANT, data, "constant")
        return name

    def windowed(self, kind: str, x: str, c: int, *, kernel: tuple[int, int], stride: int, dilation: int = 1) -> str:
        h, w = self.shape(x)[1:3]
        padding = tuple(same_padding(n, k, stride, dilation) for n, k in zip((h, w), kernel, strict=True))
        filters = {"conv_2d": (c, *kernel, self.shape(x)[3]), "depthwise_conv_2d": (1, *kernel, c)}
        inputs = [x, self.zeros(*filters[kind])] if kind in filters else [x]
        more: dict[str, object] = {"dilation": (dilation, dilation)} if kind in filters else {"kernel": kernel}
        out = (1, -(-h // stride), -(-w // stride), c)
        return self.op(kind, inputs, out, stride=(stride, stride), padding=padding, activation="none", **more)

    def conv(self, x: str, c: int, kernel: int | tuple[int, int] = 1, stride: int = 1) -> str:
        return self.windowed("conv_2d", x, c, kernel=kernel if isinstance(kernel, tuple) else (kernel, kernel), stride=stride)

    def depthwise(self, x: str, kernel: int, stride: int = 1, dilation: int = 1) -> str:
        return self.windowed(
            "depthwise_conv_2d", x, self.shape(x)[3], kernel=(kernel, kernel), stride=stride, dilation=dilation
        )

    def separable(self, x: str, c: int, kernel: int, stride: int = 1, dilation: int = 1) -> str:
        return self.conv(self.depthwise(x, kernel, stride, dilation), c)

    def pool(self, kind: str, x: str, stride: int = 1) -> str:
        return self.windowed(kind, x, self.shape(x)[3], kernel=(3, 3), stride=stride)

    def add(self, a: str, b: str) -> str:
        return self.op("add", (a, b), self.shape(a), activation="none")

    def join(self, parts: Sequence[str]) -> str:
        if len(parts) == 1:
            return parts[0]
        shape = (*self.shape(parts[0])[:3], sum(self.shape(p)[3] for p in parts))
        return self.op("concatenation", parts, shape, axis=3, activation="none")

    def finish(self, name: str, last: str) -> Graph:
        h, w, c = self.shape(last)[1:]
        valid = {"padding": ((0, 0), (0, 0)), "stride": (1, 1), "activation": "none"}
        features = self.op("average_pool_2d", (last,), (1, 1, 1, c), kernel=(h, w), **valid)
        scores = self.conv(features, 10)
        return verify(Graph(name, self.tensors, tuple(self.ops), ("image",), (scores,)))


def _genotype_op(net: Net, op: str, x: str, c: int, stride: int) -> str:
    kind, _, size = op.partition("_")
    if kind == "sep":
        return net.separable(net.separable(x, c, int(size), stride), c, int(size))
    if kind == "dil":
        return net.separable(x, c, int(size), stride, 1 if stride > 1 else 2)
    if kind == "line":
        return net.conv(net.conv(x, c, (1, int(size)), stride), c, (int(size), 1))
    if kind == "skip":
        return x if stride == 1 else net.conv(x, c, 1, stride)
    return net.pool({"avg": "average_pool_2d", "max": "max_pool_2d"}[kind], x, stride)


def cells(name: str, genotype: Genotype, *, side: int, channels: int, normal: int, stem_stride: int = 1) -> Graph:
    """Return three groups of `normal` cells with reduction cells between them, as in NASNet, AmoebaNet and DARTS."""
    net = Net(side, side, 3)
    before = last = net.conv("image", 3 * channels, 3, stem_stride)
    for position in range(3 * normal + 2):
        reducing = position in (normal, 2 * normal + 1)
        channels *= 2 if reducing else 1
        blocks, joined = genotype["reduce" if reducing else "normal"]
        shrink = net.shape(before)[1] // net.shape(last)[1]
        nodes = [net.conv(before, channels, 1, shrink), net.conv(last, channels)]
        for (op_a, a), (op_b, b) in zip(blocks[::2], blocks[1::2], strict=True):
            sides = [
                _genotype_op(net, op, nodes[i], channels, 2 if reducing and i < 2 else 1) for op, i in ((op_a, a), (op_b, b))
            ]
            nodes.append(net.add(*sides))
        before, last = last, net.join([nodes[i] for i in joined])
    return net.finish(name, last)


def randwire(seed: int, side: int = 224, channels: int = 78, nodes: int = 32) -> Graph:
    """Return RandWire's small regime: two convolutions, then three stages, each a random graph of separable convolutions."""
    rng = random.Random(seed)
    net = Net(side, side, 3)
    x = net.separable(net.conv("image", channels // 2, 3, 2), channels, 3, 2)
    for stage in range(3):
        channels *= 2 if stage else 1
        edges = watts_strogatz(rng, nodes, 4, 0.75)
        made: list[str] = []
        for node in range(nodes):
            sources = [made[a] for a, b in edges if b == node]
            given = reduce(net.add, sources) if sources else x
            made.append(net.separable(given, channels, 3, 1 if sources else 2))
        sinks = [made[node] for node in range(nodes) if not any(a == node for a, _ in edges)]
        x = reduce(net.add, sinks)
    return net.finish(f"randwire_{seed}", net.conv(x, 1280))


def watts_strogatz(rng: random.Random, nodes: int, k: int, p: float) -> list[tuple[int, int]]:
    """Return edges from lower to higher nodes: a ring of `k` neighbours whose edges are rewired with probability `p`."""
    edges = {(node, (node + step) % nodes) for step in range(1, k // 2 + 1) for node in range(nodes)}
    for edge in sorted(edges):
        if rng.random() < p:
            a = edge[0]
            free = [b for b in range(nodes) if b != a and (a, b) not in edges and (b, a) not in edges]
            edges.remove(edge)
            edges.add((a, rng.choice(free)))
    return sorted({(min(a, b), max(a, b)) for a, b in edges})


def inception(a: int = 3, b: int = 4, c: int = 2, side: int = 299) -> Graph:
    """Return Inception v3 with `a`, `b` and `c` modules of its three kinds."""
    net = Net(side, side, 3)
    x = net.conv(net.conv(net.conv("image", 32, 3, 2), 32, 3), 64, 3)
    x = net.conv(net.conv(net.pool("max_pool_2d", x, 2), 80), 192, 3)
    x = net.pool("max_pool_2d", x, 2)
    for _ in range(a):
        pooled = net.conv(net.pool("average_pool_2d", x), 64)
        x = net.join(
            [net.conv(x, 64), net.conv(net.conv(x, 48), 64, 5), net.conv(net.conv(net.conv(x, 64), 96, 3), 96, 3), pooled]
        )
    x = net.join([net.conv(x, 384, 3, 2), net.conv(net.conv(net.conv(x, 64), 96, 3), 96, 3, 2), net.pool("max_pool_2d", x, 2)])
    for _ in range(b):
        line = reduce(lambda y, kernel: net.conv(y, 160, kernel), [1, (7, 1), (1, 7), (7, 1)], x)
        sides = [net.conv(x, 192), net.conv(net.conv(net.conv(x, 160), 160, (1, 7)), 192, (7, 1)), net.conv(line, 192, (1, 7))]
        x = net.join([*sides, net.conv(net.pool("average_pool_2d", x), 192)])
    for _ in range(c):
        wide, deep = net.conv(x, 384), net.conv(net.conv(x, 448), 384, 3)
        forks = [net.conv(y, 384, kernel) for y in (wide, deep) for kernel in ((1, 3), (3, 1))]
        x = net.join([net.conv(x, 320), *forks, net.conv(net.pool("average_pool_2d", x), 192)])
    return net.finish(f"inception_{a}_{b}_{c}", x)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "nasnet_mobile": partial(cells, "nasnet_mobile", NASNET, side=224, channels=44, normal=4, stem_stride=4),
    "nasnet_large": partial(cells, "nasnet_large", NASNET, side=332, channels=168, normal=6, stem_stride=4),
    "nasnet_1000": partial(cells, "nasnet_1000", NASNET, side=96, channels=16, normal=9),
    "amoebanet": partial(cells, "amoebanet", AMOEBANET, side=224, channels=50, normal=4, stem_stride=4),
    "amoebanet_1000": partial(cells, "amoebanet_1000", AMOEBANET, side=96, channels=16, normal=12),
    "darts_imagenet": partial(cells, "darts_imagenet", DARTS, side=224, channels=48, normal=4, stem_stride=8),
    "darts_cifar": partial(cells, "darts_cifar", DARTS, side=32, channels=36, normal=6),
    "darts_1000": partial(cells, "darts_1000", DARTS, side=32, channels=36, normal=13),
    **{f"randwire_{seed}": partial(randwire, seed) for seed in range(5)},
    "randwire_visual_wake": partial(randwire, 7, 96, 16),
    "inception_v3": inception,
    "inception_1000": partial(inception, 24, 32, 20, 96),
}
