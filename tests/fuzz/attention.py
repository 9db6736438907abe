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
        quant = self.near(self.scale(a) * self.scale(b) * 60 * self.shape(a)[-1] ** 0.5)
        if self.flat and len(self.shape(b)) == 4 and self.shape(b)[2] == 1 != self.shape(b)[1]:
            b = self.reshape(b, 1, 1, self.shape(b)[1], self.shape(b)[3])
        return self.g.emit("batch_matmul", [a, b], {"adj_x": adj_x, "adj_y": turned}, quant)

    def softmax(self, x: str) -> str:
        return self.g.emit("softmax", [x], {"beta": 1.0}, Quant((1 / 256,), (-128,)))

    def slice(self, x: str, begin: Sequence[int], size: Sequence[int]) -> str:
        both = [self.g.constant(role, np.array(values, np.int32)) for role, values in (("begin", begin), ("size", size))]
        return self.g.emit("slice", [x, *both], {}, self.g.tensors[x].quant)

    def binary(self, kind: str, a: str, b: str, scale: float) -> str:
        return self.g.emit(kind, [a, b], {"activation": "none"}, self.near(scale))

    def masked(self, scores: str) -> str:
        """Add a causal mask: -127 steps above the diagonal."""
        rows, columns = self.shape(scores)[1], self.shape(scores)[-1]
        mask = np.where(np.tri(rows, columns, dtype=bool), 0, -127).astype(np.int8)
        shaped = mask.reshape(1, rows, 1, columns) if self.flat else mask
        return self.binary(
            "add", scores, self.g.constant("mask", shaped, Quant((self.scale(scores),), (0,))), self.scale(scores)
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

    def head(self, x: str, y: str, depth: int, *, causal: bool = False, turned: bool = True) -> str:
        """Add one attention head of `depth` channels: rows of x attend to rows of y.

        Without `turned`, the keys are transposed by a product with adj_y unset, which needs keys of the shape (depth, time).
        """
        query, key, value = self.dense(x, depth), self.dense(y, depth), self.dense(y, depth)
        scores = self.product(query, key, turned=turned)
        return self.product(self.softmax(self.masked(scores) if causal else scores), value, turned=False)

    def finish(self, *outputs: str) -> Graph:
        g = self.g
        graph = Graph(f"attention_{self.seed}", g.tensors, tuple(g.ops), tuple(g.inputs), outputs)
        return check(verify(graph))
