"""Random attention networks, as importers write them: batch_matmul of maps [1, time, channels], one op per head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyweave.ir import Graph, Quant, Tensor, verify
from tinyweave.ops import check

from .growth import Growth

UNIT = Quant((1 / 64,), (0,))  # values of about 1 and -1 spread over the int8 range


@dataclass
class Builder:
    """A network under construction, in which maps have the shape (1, time, channels), or (1, time, 1, channels) if `flat`.

    Methods that add layers take and return names of tensors.
    """

    seed: int
    flat: bool = False
    band: tuple[int, int] | None = None  # rows before and after each row that masks do not hide; None: masks are causal
    g: Growth = field(init=False)

    def __post_init__(self) -> None:
        self.g = Growth(self.seed, damaged=False, usual=1)

    def input(self, time: int, channels: int) -> str:
        shape = (1, time, 1, channels) if self.flat else (1, time, channels)
        return self.g.network_input(Tensor(f"x{len(self.g.inputs)}", shape, "int8", UNIT))

    def shape(self, x: str) -> tuple[int, ...]:
        return self.g.tensors[x].shape

    def scale(self, x: str) -> float:
        return self.g.tensors[x].scale

    def near(self, scale: float) -> Quant:
        """Return a quantisation whose scale is about `scale`."""
        return Quant((float(np.float32(scale * self.g.rng.uniform(0.7, 1.4))),), (self.g.rng.randint(-20, 20),))

    def dense(self, x: str, units: int) -> str:
        depth = self.shape(x)[-1]
        weights, bias, quant = self.g.weights((units, depth), 0, depth, self.g.tensors[x])
        attrs = {"activation": "none", "keep_num_dims": True}
        return self.g.emit("fully_connected", [x, weights, bias], attrs, quant)

    def reshape(self, x: str, *shape: int) -> str:
        to = self.g.constant("shape", np.array(shape, np.int32))
        return self.g.emit("reshape", [x, to], {"new_shape": shape}, self.g.tensors[x].quant)

    def product(self, a: str, b: str, *, turned: bool, adj_x: bool = False) -> str:
        """Add the product of two maps; `turned` multiplies with the transpose of `b`."""
        depth = 4 if self.band else self.shape(a)[-1]  # with a band, no scale depends on the number of frames
        quant = self.near(self.scale(a) * self.scale(b) * 60 * depth**0.5)
        if self.flat and len(self.shape(b)) == 4 and self.shape(b)[2] == 1 != self.shape(b)[1]:
            b = self.reshape(b, 1, 1, self.shape(b)[1], self.shape(b)[3])
        return self.g.emit("batch_matmul", [a, b], {"adj_x": adj_x, "adj_y": turned}, quant)

    def transpose(self, x: str, *order: int) -> str:
        to = self.g.constant("perm", np.array(order, np.int32))
        return self.g.emit("transpose", [x, to], {}, self.g.tensors[x].quant)

    def join(self, parts: Sequence[str], axis: int) -> str:
        """Concatenate maps, after they are rescaled to the quantisation of the first one."""
        quant = self.g.tensors[parts[0]].quant
        alike = [parts[0], *(self.g.emit("quantize", [x], {}, quant) for x in parts[1:])]
        return self.g.emit("concatenation", list(alike), {"axis": axis, "activation": "none"}, quant)

    def scaled(self, x: str) -> str:
        """Multiply a map with a constant number."""
        factor = self.g.constant("factor", np.array([90], np.int8), Quant((1 / 128,), (0,)))
        return self.binary("mul", x, factor, self.scale(x))

    def softmax(self, x: str) -> str:
        """Add a softmax; a small beta keeps it from being one-hot, and within the scales that tinyweave supports."""
        beta = 1.0 if self.band else float(np.float32(min(1, 1 / 16 / self.scale(x))))
        return self.g.emit("softmax", [x], {"beta": beta}, Quant((1 / 256,), (-128,)))

    def slice(self, x: str, begin: Sequence[int], size: Sequence[int]) -> str:
        both = [self.g.constant(role, np.array(values, np.int32)) for role, values in (("begin", begin), ("size", size))]
        return self.g.emit("slice", [x, *both], {}, self.g.tensors[x].quant)

    def binary(self, kind: str, a: str, b: str, scale: float) -> str:
        return self.g.emit(kind, [a, b], {"activation": "none"}, self.near(scale))

    def masked(self, scores: str) -> str:
        """Add a causal mask: -127 steps above the diagonal; or a mask that hides all scores outside of the band."""
        rows, columns = self.shape(scores)[1 if self.flat else -2], self.shape(scores)[-1]
        if self.band:
            return self.banded(scores, rows, columns)
        mask = np.where(np.tri(rows, columns, dtype=bool), 0, -127).astype(np.int8)
        shaped = mask.reshape(1, rows, 1, columns) if self.flat else mask
        return self.binary(
            "add", scores, self.g.constant("mask", shaped, Quant((self.scale(scores),), (0,))), self.scale(scores)
        )

    def banded(self, scores: str, rows: int, columns: int) -> str:
        """Add a mask of about -300 or -100 outside of the band, and within it a bias for each distance of two rows."""
        distance = np.subtract.outer(np.arange(rows), np.arange(columns))
        before, ahead = self.band or (0, 0)
        slope, scale = self.g.rng.choice((0, 0, 1, 3)), self.g.rng.choice((1.125, 1.125, 1.125, 0.375))
        is_inside = (distance <= before) & (distance >= -ahead)
        mask = np.where(is_inside, 127 - slope * np.abs(distance), -128).astype(np.int8)
        mask = self.g.constant("mask", mask, Quant((scale,), (127,)))
        return self.g.emit(
            "add", [scores, mask], {"activation": "none"}, Quant((scale + 1 / 64,), (self.g.rng.randint(115, 125),))
        )

    def norm(self, x: str) -> str:
        """Add a layer norm over the channels, of the ops that the importer of PyTorch writes."""
        axes = self.g.constant("axes", np.array([len(self.shape(x)) - 1], np.int32))
        mean = self.g.emit("mean", [x, axes], {"keep_dims": True}, self.g.tensors[x].quant)
        centred = self.binary("sub", x, mean, self.scale(x))
        rows, depth = self.shape(x)[1], self.shape(x)[-1]
        row = centred if self.flat else self.reshape(centred, rows, 1, depth)
        quant = Quant((float(np.float32(self.scale(x) ** 2 * depth * 40)),), (-128,))
        squares = self.g.emit("batch_matmul", [row, row], {"adj_x": False, "adj_y": True}, quant)
        factor = self.g.emit("rsqrt", [squares], {}, Quant((float(np.float32(4 / 255 / depth**0.5)),), (-128,)))
        factor = factor if self.flat else self.reshape(factor, 1, rows, 1)
        scaled = self.binary("mul", centred, factor, 1 / 32)
        gain = self.g.constant("gain", self.g.numpy.integers(-128, 128, depth, dtype=np.int8), Quant((1 / 64,), (0,)))
        return self.binary("mul", scaled, gain, 1 / 32)

    def head(self, x: str, y: str, depth: int, *, causal: bool = False) -> str:
        """Add one attention head of `depth` channels: rows of x attend to rows of y."""
        query, key, value = self.dense(x, depth), self.dense(y, depth), self.dense(y, depth)
        scores = self.product(query, key, turned=True)
        return self.product(self.softmax(self.masked(scores) if causal else scores), value, turned=False)

    def mlp(self, x: str) -> str:
        """Add a dense layer of two to four times as many units, an activation and a dense layer, with a residual sum."""
        channels = self.shape(x)[-1]
        hidden = self.dense(x, self.g.rng.randint(2, 4) * channels)
        bent = self.g.emit(self.g.rng.choice(("relu", "hard_swish")), [hidden], {}, self.g.tensors[hidden].quant)
        return self.binary("add", x, self.dense(bent, channels), self.scale(x))

    def projected(self, x: str, count: int, channels: int) -> list[str]:
        """Return `count` maps of `channels` channels, each a dense layer of `x`, or slices of one dense layer."""
        if self.g.rng.random() < 0.5:
            return [self.dense(x, channels) for _ in range(count)]
        rows = self.shape(x)[1]
        whole = self.reshape(self.dense(x, count * channels), 1, rows, count, channels)
        parts = (self.slice(whole, (0, 0, at, 0), (1, rows, 1, channels)) for at in range(count))
        return [self.reshape(part, 1, rows, channels) for part in parts]

    def attention(self, x: str, y: str, heads: int, depth: int) -> str:
        """Add attention of the rows of x to the rows of y, with heads as slices, as axes, or joined before the softmax."""
        rng, channels, rows, keys = self.g.rng, heads * depth, self.shape(x)[1], self.shape(y)[1]
        if x == y:
            q, k, v = self.projected(x, 3, channels)
        else:
            (q,), (k, v) = self.projected(x, 1, channels), self.projected(y, 2, channels)
        q = self.scaled(q) if rng.random() < 0.5 else q
        is_masked, is_turned = rng.random() < 0.4 or self.band is not None, rng.random() < 0.5
        if rng.random() < 0.4:  # heads are an axis of the maps
            q, v = (self.transpose(self.reshape(m, 1, self.shape(m)[1], heads, depth), 0, 2, 1, 3) for m in (q, v))
            k = self.reshape(k, 1, keys, heads, depth)
            k = self.transpose(k, 0, 2, 1, 3) if is_turned else self.transpose(k, 0, 2, 3, 1)
            scores = self.product(q, k, turned=is_turned)
            scores = self.masked(scores) if is_masked else scores
            out = self.transpose(self.product(self.softmax(scores), v, turned=False), 0, 2, 1, 3)
            return self.dense(self.reshape(out, 1, rows, channels), channels)
        spans = [(0, 0, head * depth) for head in range(heads)]
        qs, ks, vs = ([self.slice(m, at, (1, self.shape(m)[1], depth)) for at in spans] for m in (q, k, v))
        ks = ks if is_turned else [self.transpose(each, 0, 2, 1) for each in ks]
        if not is_turned and rng.random() < 0.5:  # and the queries are stored transposed, too
            products = [
                self.product(self.transpose(a, 0, 2, 1), b, turned=False, adj_x=True) for a, b in zip(qs, ks, strict=True)
            ]
        else:
            products = [self.product(a, b, turned=is_turned) for a, b in zip(qs, ks, strict=True)]
        if rng.random() < 0.5:  # the softmax of all heads together
            joined = self.reshape(self.join(products, 0), 1, heads, rows, keys)
            whole = self.softmax(self.masked(joined) if is_masked else joined)
            parts = [self.slice(whole, (0, at, 0, 0), (1, 1, rows, keys)) for at in range(heads)]
            weights = [self.reshape(part, 1, rows, keys) for part in parts]
        else:
            weights = [self.softmax(self.masked(each) if is_masked else each) for each in products]
        outs = [self.product(a, b, turned=False) for a, b in zip(weights, vs, strict=True)]
        return self.dense(self.join(outs, 2), channels)

    def along_time(self, x: str) -> str:
        """Add a convolution along time, with as many filters as channels, and sometimes a stride of 2."""
        _, rows, channels = self.shape(x)
        size, stride = self.g.rng.randint(2, 3), self.g.rng.choice((1, 1, 2))
        wide = self.reshape(x, 1, rows, 1, channels)
        weights, bias, quant = self.g.weights((channels, size, 1, channels), 0, size * channels, self.g.tensors[x])
        attrs = {"stride": (stride, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "activation": "none"}
        out = self.g.emit("conv_2d", [wide, weights, bias], attrs, quant)
        return self.reshape(out, 1, self.shape(out)[1], channels)

    def finish(self, *outputs: str) -> Graph:
        g = self.g
        graph = Graph(f"attention_{self.seed}", g.tensors, tuple(g.ops), tuple(g.inputs), outputs)
        return check(verify(graph))


def random_attention(seed: int) -> Graph:
    """Return a network of one or two attention blocks, with or without norms, residual sums and MLPs."""
    b = Builder(seed)
    rng = b.g.rng
    heads, depth = rng.randint(1, 3), rng.randint(1, 6)
    x = b.input(rng.randint(2, 14), heads * depth)
    memory = b.input(rng.randint(2, 14), rng.randint(1, 9)) if rng.random() < 0.3 else ""
    for _ in range(rng.randint(1, 2)):
        inner = b.norm(x) if rng.random() < 0.5 else x
        out = b.attention(inner, memory or inner, heads, depth)
        x = b.binary("add", x, out, b.scale(x)) if rng.random() < 0.7 else out
        x = b.norm(x) if rng.random() < 0.3 else x
        x = b.mlp(x) if rng.random() < 0.5 else x
    if rng.random() < 0.3:
        axis = b.g.constant("axes", np.array([1], np.int32))
        x = b.dense(b.g.emit("mean", [x, axis], {"keep_dims": False}, b.g.tensors[x].quant), 4)
    return b.finish(x)


def random_stream(seed: int, frames: int | None = None) -> Graph:
    """Return a network of one to three blocks of attention with masks, whose input is a window of frames.

    Some networks begin with a convolution along time. The output is a map of rows, the last row, or a mean of the rows. The
    same seed gives the same weights for every number of frames; by default this number is random, too.
    """
    b = Builder(seed, band=(0, 0))
    rng, g = b.g.rng, b.g
    heads, depth = rng.randint(1, 3), rng.randint(1, 6)
    drawn = rng.randint(14, 24)
    x = b.input(frames or drawn, heads * depth)
    if rng.random() < 0.4:
        x = b.along_time(x)
    for _ in range(rng.randint(1, 3)):
        b.band = rng.randint(0, 5), rng.choice((0, 0, 0, 1))
        inner = b.norm(x) if rng.random() < 0.5 else x
        out = b.attention(inner, inner, heads, depth)
        x = b.binary("add", x, out, b.scale(x)) if rng.random() < 0.7 else out
        x = b.norm(x) if rng.random() < 0.3 else x
        x = b.mlp(x) if rng.random() < 0.5 else x
    match rng.choice(("rows", "rows", "last", "mean")):
        case "last":
            x = b.dense(b.slice(x, (0, b.shape(x)[1] - 1, 0), (1, 1, b.shape(x)[2])), 4)
        case "mean":
            axis = g.constant("axes", np.array([1], np.int32))
            x = b.dense(g.emit("mean", [x, axis], {"keep_dims": False}, g.tensors[x].quant), 4)
    return b.finish(x)
