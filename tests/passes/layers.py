"""Comparison of a rewritten graph with the original one, layer by layer on random inputs."""

from __future__ import annotations

import numpy as np

from tinyweave import ops
from tinyweave.ir import Graph, verify
from tinyweave.passes import TensorMap, source


def random_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype == "float32":
            inputs[name] = rng.uniform(-1, 1, tensor.shape).astype(np.float32)
        else:
            info = np.iinfo(tensor.dtype)
            inputs[name] = rng.integers(info.min, info.max + 1, tensor.shape).astype(tensor.dtype)
    return inputs


def same_layers(before: Graph, after: Graph, tensors: TensorMap, seed: int) -> bool:
    """Assert that every activation of `after` equals the channels of `before` that the TensorMap names."""
    inputs = random_inputs(before, seed)
    old, new = ops.run(before, inputs, keep=True), ops.run(ops.check(verify(after)), inputs, keep=True)
    for name, value in new.items():
        home, channels = source(tensors, name)
        want = old[home] if channels is None else old[home][..., list(channels)]
        assert value.tobytes() == want.tobytes(), name
    return True
