"""Errors of imported PyTorch modules, in numpy and in LiteRT, relative to torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import torch
from cases.ops import NOT_IN_LITERT
from torch import nn

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.torch import from_module, from_program
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
    module: nn.Module, example: Any, litert: ModuleType | None = None, *, transposes: bool | None = False, core: bool = False
) -> tuple[Graph, float, float]:
    """Return the graph of a module, and the errors of numpy and LiteRT relative to torch, in ranges of the output.

    `transposes` says whether the graph must have transposes; None allows both. With `core`, the graph is of Core ATen.
    """
    inputs = example if isinstance(example, tuple) else (example,)
    graph = from_program(in_core_aten(module, inputs)) if core else from_module(module, example)
    assert transposes is None or ("transpose" in {op.kind for op in graph.ops}) == transposes
    assert all(tensor.dtype in ("float32", "int32", "bool") for tensor in graph.tensors.values())
    with torch.no_grad():
        answer = module(*inputs)
    expected = answer if isinstance(answer, (tuple, list)) else (answer,)
    tensors = [graph.tensors[name] for name in graph.inputs]
    runs = litert is not None and not {op.kind for op in graph.ops} & NOT_FLOAT_IN_LITERT
    found = list[tuple[float, float]]()
    for given in product(*(layouts(x, t.shape) for x, t in zip(inputs, tensors, strict=True))):
        values = [x.astype(t.dtype) for x, t in zip(given, tensors, strict=True)]
        computed = list(ops.run(graph, dict(zip(graph.inputs, values, strict=True))).values())
        by_litert = litert.run(to_tflite(graph), [values])[0].outputs if runs else computed
        found.append((furthest(expected, computed), furthest(expected, by_litert)))
    return graph, *min(found)


def in_core_aten(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Return the program of a module, decomposed to Core ATen."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch uses what it has deprecated
        return torch.export.export(module, inputs).run_decompositions()


def layouts(value: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """Return a torch value in each layout that a tensor may have: the shape of a cube does not say where its channels are."""
    as_it_is = [value.detach().numpy()] if value.ndim == 4 and tuple(value.shape) == tuple(shape) else []
    return [channels_last(value, shape), *as_it_is]


def furthest(expected: Sequence[Any], computed: Sequence[np.ndarray]) -> float:
    """Return the largest error of outputs relative to torch's, in ranges of the output."""
    worst = 0.0
    for y, ours in zip(expected, computed, strict=True):
        wanted = layouts(y, ours.shape)
        span = max(float(np.ptp(wanted[0])), 1e-3 * float(np.abs(wanted[0]).max()), 1e-6)
        worst = max(worst, min(float(np.abs(ours - each).max()) for each in wanted) / span)
    return worst
