"""A network under construction: its tensors, ops and random numbers, from a seed."""

from __future__ import annotations

import random

import numpy as np

from tinyweave.ir import Graph, Op, Quant, Tensor
from tinyweave.ops import SPECS


class Growth:
    """A graph under construction."""

    def __init__(self, seed: int, damaged: bool, usual: float) -> None:
        self.damaged, self.usual = damaged, usual
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.init: list[Op] = []
        self.live: list[str] = []
        self.inputs: list[str] = []

    def add_tensor(self, tensor: Tensor) -> str:
        self.tensors[tensor.name] = tensor
        return tensor.name

    def quant(self) -> Quant:
        return Quant(
            (float(np.float32(self.rng.uniform(0.004, 0.3))),), (self.rng.choice([-128, 0, self.rng.randint(-128, 127)]),)
        )

    def input(self) -> str:
        shape = (1, self.rng.randint(1, 12), self.rng.randint(1, 12), self.rng.randint(1, 9))
        name = self.network_input(Tensor(f"input_{len(self.tensors)}", shape, "int8", self.quant()))
        self.live.append(name)
        return name

    def network_input(self, tensor: Tensor) -> str:
        self.inputs.append(tensor.name)
        return self.add_tensor(tensor)

    def constant(self, suffix: str, data: np.ndarray, quant: Quant | None = None) -> str:
        return self.add_tensor(Tensor(f"{suffix}_{len(self.tensors)}", data.shape, str(data.dtype), quant, data, "constant"))

    def emit(
        self,
        kind: str,
        inputs: list[str | None],
        attrs: dict | None = None,
        quant: Quant | None = None,
        *,
        dtype: str = "int8",
        count: int = 1,
    ) -> str:
        """Append an op; the output shapes are inferred, their quantisation is random by default."""
        name = f"{kind}_{len(self.ops)}"
        state = tuple(n for n in inputs if n is not None and self.tensors[n].role == "state" and kind != "read_variable")
        names = (f"{name}_out", *(f"{name}_out_{i}" for i in range(1, count)))
        op = Op(name, kind, tuple(inputs), (*names, *state), attrs or {})
        quant = quant or self.quant()
        draft = Graph("draft", {**self.tensors, **{n: Tensor(n, (), dtype, quant) for n in names}}, (op,), (), ())
        for output, shape in zip(names, SPECS[kind].infer(draft, op), strict=False):
            self.add_tensor(Tensor(output, shape, dtype, quant))
            self.live.append(output)
        self.ops.append(op)
        return op.outputs[0]

    def state(self, shape: tuple[int, ...], quant: Quant, dtype: str = "int8", first: np.ndarray | None = None) -> str:
        """Add a variable; its first value is by default its zero point."""
        name = self.add_tensor(Tensor(f"state_{len(self.tensors)}", shape, dtype, quant, role="state"))
        value = np.full(shape, quant.zero_point[0], dtype) if first is None else first
        self.add_tensor(Tensor(f"{name}.initial", shape, dtype, quant, value, "constant"))
        self.init.append(Op(f"init_{name}", "assign_variable", (f"{name}.initial",), (name,)))
        return name

    def assign(self, value: str, state: str) -> None:
        self.ops.append(Op(f"assign_variable_{len(self.ops)}", "assign_variable", (value,), (state,)))

    def damage(self, data: np.ndarray, biases: np.ndarray, axis: int) -> None:
        """Make some channels constant, by all-zero filters with or without bias, and by biases that saturate the output."""
        for channel in range(data.shape[axis]):
            fate = self.rng.choice(("sound", "sound", "zero", "zero point", "saturated"))
            if fate in ("zero", "zero point"):
                data[(slice(None),) * axis + (channel,)] = 0
            if fate == "zero point":
                biases[channel] = 0
            if fate == "saturated":
                biases[channel] = self.rng.choice((-1, 1)) << 28

    def weights(
        self, shape: tuple[int, ...], axis: int, taps: int, source: Tensor, biased: bool = True
    ) -> tuple[str, str | None, Quant]:
        """Add random filters and bias, and return an output quantisation for which most results are within the int8 range."""
        per_channel = self.rng.random() < 0.7
        channels = shape[axis]
        spread = self.numpy.uniform(0.002, 0.02, channels if per_channel else 1).astype(np.float32)
        data = self.numpy.integers(-127, 128, shape, dtype=np.int8)
        scales = tuple(float(s) for s in spread)
        weights = self.constant("weights", data, Quant(scales, (0,) * len(scales), axis if per_channel else None))
        bias = None
        if biased:
            biases = self.numpy.integers(-20000, 20000, channels, dtype=np.int32)
            quant = Quant(
                tuple(float(np.float32(source.scale * s)) for s in scales), (0,) * len(scales), 0 if per_channel else None
            )
            if self.damaged:
                self.damage(data, biases, axis)
            bias = self.constant("bias", biases, quant)
        reach = source.scale * float(spread.mean()) * 73 * 73 * max(1.0, taps**0.5)
        scale = float(np.float32(reach / 60 * self.rng.uniform(0.5, 2.0)))
        return weights, bias, Quant((scale,), (self.rng.randint(-128, 127),))
