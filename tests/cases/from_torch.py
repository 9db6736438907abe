"""Errors of imported PyTorch modules, in numpy and in LiteRT, relative to torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from cases.ops import NOT_IN_LITERT
from torch import nn

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.torch import from_module
from tinyweave.ir import Graph

torch.set_num_threads(1)
NOT_FLOAT_IN_LITERT = NOT_IN_LITERT - {"cos", "floor", "sign", "sin", "square"}  # LiteRT's reference kernels have these
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class Of(nn.Module):
    """A module that applies a function, which may use submodules given by name."""

    def __init__(self, function: Callable[..., Any], **parts: Any):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *x: Any) -> Any:
        return self.function(self, *x)


def of(function: Callable[..., Any], *shape: int, **parts: Any) -> tuple[nn.Module, tuple[int, ...]]:
    return Of(function, **parts), shape


def trained(module: nn.Module, seed: int = 0) -> nn.Module:
    """Return the module in evaluation mode with statistics and slopes as after training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, NORMS) and part.running_mean is not None:
                part.running_mean.normal_(0, 0.3, generator=generator)
                part.running_var.uniform_(0.5, 2, generator=generator)
                if part.affine:
                    part.weight.uniform_(0.5, 1.5, generator=generator)
                    part.bias.normal_(0, 0.3, generator=generator)
            elif isinstance(part, (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)) and part.weight is not None:
                part.weight.uniform_(0.5, 1.5, generator=generator)
                if getattr(part, "bias", None) is not None:
                    part.bias.normal_(0, 0.3, generator=generator)
            elif isinstance(part, nn.PReLU):
                part.weight.uniform_(-0.5, 1, generator=generator)
    return module.eval()


def channels_last(value: Any, shape: Sequence[int]) -> np.ndarray:
    """Return a torch value in the layout of a tensor: maps channels last; maps of one spatial axis get four axes."""
    array = value.detach().numpy()
    moved = np.moveaxis(array, 1, -1) if array.ndim > 2 else array
    if array.ndim == len(shape) and (array.ndim == 3 or moved.shape != tuple(shape)):
        moved = array
    assert [n for n in moved.shape if n > 1] == [n for n in shape if n > 1], (array.shape, shape)
    return np.ascontiguousarray(moved).reshape(shape)


def distances(
    module: nn.Module, example: Any, litert: ModuleType | None = None, *, transposes: bool | None = False
) -> tuple[Graph, float, float]:
    """Return the graph of a module, and the errors of numpy and LiteRT relative to torch, in ranges of the output.

    `transposes` says whether the graph must have transposes; None allows both.
    """
    inputs = example if isinstance(example, tuple) else (example,)
    graph = from_module(module, example)
    assert transposes is None or ("transpose" in {op.kind for op in graph.ops}) == transposes
    assert all(tensor.dtype in ("float32", "int32", "bool") for tensor in graph.tensors.values())
    with torch.no_grad():
        answer = module(*inputs)
    expected = answer if isinstance(answer, (tuple, list)) else (answer,)
    tensors = [graph.tensors[name] for name in graph.inputs]
    given = [channels_last(x, t.shape).astype(t.dtype) for x, t in zip(inputs, tensors, strict=True)]
    computed = list(ops.run(graph, dict(zip(graph.inputs, given, strict=True))).values())
    runs = litert is not None and not {op.kind for op in graph.ops} & NOT_FLOAT_IN_LITERT
    by_litert = litert.run(to_tflite(graph), [given])[0].outputs if runs else computed
    worst = [0.0, 0.0]
    for y, ours, theirs in zip(expected, computed, by_litert, strict=True):
        layouts = [channels_last(y, ours.shape)]
        if ours.ndim == 4 and tuple(y.shape) == ours.shape:  # a cube: its shape does not say whether channels are first or last
            layouts.append(y.detach().numpy())
        span = max(float(np.ptp(layouts[0])), 1e-3 * float(np.abs(layouts[0]).max()), 1e-6)
        for index, found in enumerate((ours, theirs)):
            worst[index] = max(worst[index], min(float(np.abs(found - wanted).max()) for wanted in layouts) / span)
    return graph, *worst
