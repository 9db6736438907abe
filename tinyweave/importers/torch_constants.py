"""Compute ATen ops on constants, at import, by torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import CompileError
from ..support.installing import install
from . import aten
from .program import ILL_FORMED


def import_torch() -> Any:
    """Return the module torch, or raise CompileError if it is not installed."""
    try:
        import torch
    except ImportError as error:
        raise CompileError("torch is not installed", install("torch")) from error
    return torch


def aten_op(op: str) -> Any:
    """Return torch's op `op`, such as `linspace`, or `or`, which torch calls `__or__`; None if there is none."""
    known = import_torch().ops.aten
    return getattr(known, op, None) or getattr(known, f"__{op}__", None)


# ATen ops that are computed on constants, beside aten.OPS: they are functions of their arguments only, and change none
PURE = frozenset(
    """_weight_norm arange atan2 argsort baddbmm bartlett_window bitwise_xor blackman_window broadcast_tensors
    broadcast_to cartesian_prod cumprod diag diag_embed diagonal diff eye fill floor_divide fmod full gather
    hamming_window hann_window heaviside hypot isfinite isinf isnan kaiser_window kron lift_fresh_copy linspace
    logical_xor logspace meshgrid nan_to_num narrow new_full new_ones new_zeros norm numpy_T ones outer remainder
    rot90 scalar_tensor scatter sort std_mean swapaxes t take take_along_dim tensor_split tile trace tril
    tril_indices triu triu_indices type_as vstack hstack xor zeros""".split()
)
NOT_FOLDED = frozenset(("dropout", "feature_dropout", *aten.quantised.QUANTISED, *aten.recurrent.RECURRENT))


def is_foldable(op: str) -> bool:
    """Return whether `computed` computes the ATen op `op`, or its in-place form."""
    name = op.removesuffix("_")
    return name in PURE or (name in aten.OPS and name not in NOT_FOLDED)


def computed(op: str, args: Any, kwargs: Mapping[str, Any], most: int) -> Any:
    """Compute an ATen op, such as "linspace", on constants; return an array or a list of arrays, of at most `most` elements.

    An in-place op, such as "fill_", changes its first argument. Views share memory. Arguments are numbers, arrays, types such
    as "torch.int64", and lists of these.
    """
    try:
        torch = import_torch()
    except CompileError as error:
        raise CompileError(f"torch computes {op} on constants, and is not installed", error.what_to_do) from error
    from torch._subclasses.fake_tensor import FakeTensorMode

    def from_array(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("torch."):
            return getattr(torch, value.removeprefix("torch."))
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value if min(value.strides, default=0) >= 0 else value.copy())
        return value

    def to_array(value: Any) -> Any:
        return np.asarray((value.float() if value.dtype.is_floating_point else value).numpy())

    tree = torch.utils._pytree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of read-only arrays, such as an expanded one; none is written
        function, (args, kwargs) = aten_op(op), tree.tree_map(from_array, (args, dict(kwargs)))
    try:
        with torch.no_grad(), FakeTensorMode() as fake:  # a damaged file may ask for any size, so shapes are computed first
            fakes = tree.tree_map_only(torch.Tensor, fake.from_tensor, (args, kwargs))
            shapes = function(*fakes[0], **fakes[1])
        if (count := sum(part.numel() for part in tree.tree_leaves(shapes))) > most:
            raise CompileError(f"{op} computes a constant of {count:,} elements", f"at most {most:,} are supported")
        with torch.no_grad():
            made = function(*args, **kwargs)
    except (RuntimeError, NotImplementedError, *ILL_FORMED) as error:
        raise CompileError(f"torch cannot compute {op} on these constants", "compute it before the export") from error
    return list(map(to_array, made)) if isinstance(made, (list, tuple)) else to_array(made)
