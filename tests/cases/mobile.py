"""Networks of inverted bottlenecks: as blocks of layers, for the papers' counts, and as int8 graphs of random weights, to run.

MobileNetV2 (arXiv 1801.04381, table 2), published TinyNAS results and the chains of the multi-stage fusion paper (JSON files).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinyweave.cost.chain import Layer, square
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.ops.window import same_padding

MOBILENET_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
SIX = Quant((float(np.float32(6 / 255)),), (-128,))  # of what relu6 leaves
RMS = 75  # of inputs and weights, about, as differences from their zero points


class Block(NamedTuple):
    """Layers one after the other, with the input added to the last one's output or not."""

    layers: tuple[Layer, ...]
    residual: bool = False


def layers(blocks: Iterable[Block]) -> list[Layer]:
    return list(chain.from_iterable(block.layers for block in blocks))


def bottleneck(side: int, channels: tuple[int, int, int], kernel: int, stride: int, *, expanded: bool = True) -> Block:
    """Expand, depthwise, project; with a residual where the shapes allow it. channels: in, in the middle, out."""
    c_in, c_mid, c_out = channels
    depthwise = square(side, c_mid, c_mid, kernel, stride, depthwise=True)
    project = square(depthwise.h_out, c_mid, c_out)
    expand = (square(side, c_in, c_mid),) if expanded else ()
    return Block((*expand, depthwise, project), stride == 1 and c_in == c_out)


def mobilenet_v2(side: int = 224, width: float = 1.0) -> list[Block]:
    """Without the classifier. Widths are cut to whole channels and the first block expands too where the width is not 1, as in
    the code of the fusion paper."""
    stem = square(side, 3, int(32 * width), 3, 2)
    found, c_in = [Block((stem,))], stem.c_out
    for expansion, c, repeats, stride in MOBILENET_V2:
        for index in range(repeats):
            last, c_out = found[-1].layers[-1], int(c * width)
            expanded = expansion > 1 or width != 1
            step = stride if index == 0 else 1
            found.append(bottleneck(last.h_out, (c_in, c_in * expansion, c_out), 3, step, expanded=expanded))
            c_in = c_out
    return [*found, Block((square(found[-1].layers[-1].h_out, c_in, int(1280 * width)),))]


def redistributed() -> list[Block]:
    """MobileNetV2 with a smaller receptive field in its first blocks, as in the MCUNet thesis, which names no layers.

    Of the first blocks the depthwise layer without stride and the second block of 24 channels are gone; there is a block of 32
    channels and one of 160 more.
    """
    stem, first, down, _, *rest = mobilenet_v2()
    for c in (32, 160):
        at = next(index for index, block in enumerate(rest) if block.residual and block.layers[0].c_in == c)
        rest.insert(at, rest[at])
    return [stem, Block(first.layers[1:]), down, *rest]


def published(path: Path) -> list[Block]:
    """A TinyNAS result without its classifier."""
    net = json.loads(path.read_text())
    stem = square(net["resolution"], 3, net["first_conv"]["out_channels"], 3, 2)
    found = [Block((stem,))]
    for entry in net["blocks"]:
        conv, last = entry["mobile_inverted_conv"], found[-1].layers[-1]
        if conv["name"] == "ZeroLayer":  # the search took the block out
            continue
        c_mid = conv.get("mid_channels") or round(conv["in_channels"] * conv["expand_ratio"])
        channels, expanded = (conv["in_channels"], c_mid, conv["out_channels"]), conv["expand_ratio"] != 1
        block = bottleneck(last.h_out, channels, conv["kernel_size"], conv["stride"], expanded=expanded)
        found.append(block._replace(residual=entry["shortcut"] is not None))
    last, mix = found[-1].layers[-1], net["feature_mix_layer"]
    return found if mix is None else [*found, Block((square(last.h_out, last.c_out, mix["out_channels"]),))]


def fusion_chains(path: Path) -> dict[str, list[Layer]]:
    """The chains of the multi-stage fusion paper by name."""
    return {name: [_from_record(record) for record in net["layers"]] for name, net in json.loads(path.read_text()).items()}


def _from_record(record: dict[str, Any]) -> Layer:
    pad = record["p"], record["p"]
    shape = record["h"], record["w"], record["c"], record["co"]
    return Layer(*shape, (record["k"],) * 2, (record["s"],) * 2, (pad, pad), record["op"] == "dwconv")


def bottlenecks(found: Sequence[Layer]) -> list[Block]:
    """The blocks of a chain of layers: a depthwise one with the 1x1 ones around it is a bottleneck, all others stand alone."""
    blocks, at = list[Block](), 0
    while at < len(found):
        expanded = found[at].kernel == (1, 1) and not found[at].depthwise
        run = tuple(found[at : at + 2 + expanded])
        if [layer.depthwise for layer in run] != [False] * expanded + [True, False]:
            run = run[:1]
        same = (run[0].h, run[0].w, run[0].c_in) == (run[-1].h_out, run[-1].w_out, run[-1].c_out)
        blocks.append(Block(run, same and len(run) > 1))
        at += len(run)
    return blocks


class Growth:
    """A graph under construction; sums are rescaled so that outputs spread over the int8 range."""

    def __init__(self, image: tuple[int, ...], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors = {"image": Tensor("image", image, "int8", Quant((0.03125,), (-3,)))}
        self.ops: list[Op] = []

    def quant(self) -> Quant:
        return Quant((float(np.float32(self.rng.uniform(0.03, 0.06))),), (int(self.rng.integers(-20, 21)),))

    def constant(self, name: str, data: np.ndarray, quant: Quant | None = None) -> str:
        self.tensors[name] = Tensor(name, data.shape, str(data.dtype), quant, data, "constant")
        return name

    def op(self, kind: str, inputs: Sequence[str], shape: tuple[int, ...], quant: Quant | None, **attrs: Any) -> str:
        name = f"{kind}_{len(self.ops)}"
        self.tensors[name] = Tensor(name, shape, "int8", quant)
        self.ops.append(Op(name, kind, tuple(inputs), (name,), attrs))
        return name

    def filtered(self, kind: str, x: str, filters: tuple[int, ...], shape: tuple[int, ...], quant: Quant, **attrs: Any) -> str:
        """An op with filters per channel and a bias; none of its outputs is the same for all inputs, if these are not."""
        axis = 3 if kind == "depthwise_conv_2d" else 0
        taps, c_out = int(np.prod(filters)) // filters[axis], filters[axis]
        scales = quant.scale[0] / self.tensors[x].scale / RMS / taps**0.5 * self.rng.uniform(0.5, 1.2, c_out)
        weights = Quant(tuple(float(np.float32(scale)) for scale in scales), (0,) * c_out, axis)
        bias = Quant(tuple(float(np.float32(self.tensors[x].scale * scale)) for scale in scales), (0,) * c_out, 0)
        most = round(RMS * RMS * taps**0.5 / 2)
        data = self.rng.integers(-127, 128, filters, np.int8)
        total = data.sum(axis=tuple(a for a in range(len(filters)) if a != axis), keepdims=True, dtype=np.int32)
        data = np.where(total < 0, -data, data)  # or relu6 may leave nothing of a sum of few
        inputs = [
            x,
            self.constant(f"weights_{len(self.ops)}", data, weights),
            self.constant(f"bias_{len(self.ops)}", self.rng.integers(-most, most, c_out, np.int32), bias),
        ]
        return self.op(kind, inputs, shape, quant, **attrs)

    def layer(self, x: str, layer: Layer, activation: str) -> str:
        kind = "depthwise_conv_2d" if layer.depthwise else "conv_2d"
        filters = (1, *layer.kernel, layer.c_out) if layer.depthwise else (layer.c_out, *layer.kernel, layer.c_in)
        shape, quant = (1, layer.h_out, layer.w_out, layer.c_out), SIX if activation == "relu6" else self.quant()
        sides = zip((layer.h, layer.w), layer.kernel, layer.stride, strict=True)
        padding = layer.padding
        if padding != tuple(same_padding(*side) for side in sides):  # .tflite has SAME and VALID only
            amounts = np.array([(0, 0), *padding, (0, 0)], np.int32)
            whole = (1, layer.h + sum(padding[0]), layer.w + sum(padding[1]), layer.c_in)
            x = self.op("pad", (x, self.constant(f"paddings_{len(self.ops)}", amounts)), whole, self.tensors[x].quant)
            padding = ((0, 0), (0, 0))
        attrs = {"stride": layer.stride, "dilation": (1, 1), "padding": padding, "activation": activation}
        return self.filtered(kind, x, filters, shape, quant, **attrs)


def to_graph(name: str, blocks: Sequence[Block], classes: int | None = None, seed: int = 0) -> Graph:
    """An int8 graph with random weights and relu6 after all but projections.

    With `classes` it ends with the mean of each channel and, for more than 0 of them, a classifier.
    """
    first, last = blocks[0].layers[0], blocks[-1].layers[-1]
    g = Growth((1, first.h, first.w, first.c_in), seed)
    x = "image"
    for block in blocks:
        skip = x
        for layer in block.layers:
            x = g.layer(x, layer, "none" if layer is block.layers[-1] and len(block.layers) > 1 else "relu6")
        if block.residual:
            x = g.op("add", (skip, x), g.tensors[x].shape, g.quant(), activation="none")
    if classes is not None:
        axes = g.constant("axes", np.array([1, 2], np.int32))
        x = g.op("mean", (x, axes), (1, last.c_out), g.tensors[x].quant, keep_dims=False)
    if classes:
        attrs = {"activation": "none", "keep_num_dims": False}
        x = g.filtered("fully_connected", x, (classes, last.c_out), (1, classes), g.quant(), **attrs)
    return verify(Graph(name, g.tensors, tuple(g.ops), ("image",), (x,)))
