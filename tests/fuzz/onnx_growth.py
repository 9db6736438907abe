"""Random ONNX networks under construction: nodes and constants in a file that ONNX Runtime runs after each new layer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

IR_VERSION = 10
OPSET, NEWEST = 21, {"RMSNormalization": 23}  # op -> the opset that introduced it, if this is above OPSET
MOST_ELEMENTS = 4000
Layer = Callable[["Network"], str | None]


class Network:
    """A network under construction: its nodes, its constants, and its maps, which later layers may read."""

    def __init__(self, seed: int) -> None:
        self.rng, self.draw = random.Random(seed), np.random.default_rng(seed)
        spatial = (self.rng.randint(5, 12),) if seed % 4 == 3 else (self.rng.randint(5, 12), self.rng.randint(5, 12))
        self.shape: tuple[int, ...] = (1, self.rng.randint(1, 8), *spatial)
        self.example = self.floats(*self.shape)
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.maps = [("x", self.shape)]

    @property
    def x(self) -> str:
        """The name of the current map."""
        return self.maps[-1][0]

    def floats(self, *shape: int) -> np.ndarray:
        return self.draw.standard_normal(shape).astype(np.float32)

    def weights(self, *shape: int) -> str:
        """Add weights, whose products with an input of variance 1 have about this variance, too."""
        return self.constant(self.floats(*shape) / np.sqrt(max(np.prod(shape[1:]), 1)))

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or a list of names of several outputs."""
        made = [f"{op}{len(self.nodes)}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=made[0], **attributes))
        return made[0] if outputs == 1 else made

    def file(self, output: str, input_shape: Sequence[int]) -> bytes:
        """Return the file of the nodes that the output depends on."""
        needed, nodes = {output}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.insert(0, node)
        graph = helper.make_graph(
            nodes,
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, input_shape)],
            [helper.make_empty_tensor_value_info(output)],
            [numpy_helper.from_array(values, name) for name, values in self.constants.items() if name in needed],
        )
        opset = [helper.make_opsetid("", max(NEWEST.get(node.op_type, OPSET) for node in nodes))]
        return bytes(helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION).SerializeToString())

    def grow(self, layers: Sequence[Layer]) -> None:
        """Add a random layer that fits; none if twenty tries fail."""
        for _ in range(20):
            count, constants = len(self.nodes), dict(self.constants)
            output = self.rng.choice(layers)(self)
            value = None if output is None else run(self.file(output, self.shape), self.example)
            if value is not None and fits(value):
                self.maps.append((str(output), value.shape))
                return
            del self.nodes[count:]
            self.constants = constants


def run(file: bytes, x: np.ndarray) -> np.ndarray | None:
    """Return the output that ONNX Runtime computes; None if it refuses the network."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {"x": x})[0])
    except Exception:
        return None


def fits(value: np.ndarray) -> bool:
    """Return whether a map is neither too large, nor constant, nor far from 1."""
    if value.dtype != np.float32:
        return value.dtype == np.int64
    if not 0 < value.size <= MOST_ELEMENTS or not np.isfinite(value).all():
        return False
    most = np.abs(value).max()
    return bool(0.05 < most < 100 and np.ptp(value) > 0.1 * most)
