"""Products of two maps, and attention as softmax(q k^T) v; heads that lie beside each other are multiplied one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..channels_last import Axes, Builder, Map, Unsupported
from .axes import as_they_lie, linear, permute, select, softmax, transpose
from .elementwise import binary, with_steps


def matmul(b: Builder, x: Any, y: Any) -> Map:
    """Return x y, of a map and a constant matrix or of two maps; no map is transposed."""
    if not isinstance(x, Map) or not isinstance(y, Map):
        weight = with_steps(y if isinstance(x, Map) else x, "second operand")
        if not isinstance(x, Map) or weight.ndim != 2:
            raise Unsupported("only a map times a constant matrix, or a product of two maps, is supported")
        return linear(b, x, weight.T)
    if len(x.axes) != len(y.axes) or len(x.axes) < 2 or x.shape[:-2] != y.shape[:-2]:
        raise Unsupported(f"its maps {list(x.shape)} and {list(y.shape)} differ before their last two axes")
    try:
        return _product(b, x, y)
    except Unsupported:
        heads = [axis for axis, extent in enumerate(x.shape[:-2]) if extent > 1]
        if len(heads) != 1:
            raise
        return _by_head(b, x, y, heads[0])


def _product(b: Builder, x: Map, y: Map) -> Map:
    names, turned = [], []
    for m in (x, y):
        *lead, rows, columns = m.axes
        try:
            names.append(b.tensor(m, (*lead, rows, columns)))
            turned.append(False)
        except Unsupported:
            names.append(b.tensor(m, (*lead, columns, rows)))
            turned.append(True)
    axes = (*x.axes[:-1], b.fresh(y.shape[-1]))  # of one's own: in self-attention rows and columns are the same steps
    return b.map("batch_matmul", names, axes, axes, {"adj_x": turned[0], "adj_y": turned[1]})


def _by_head(b: Builder, x: Map, y: Map, at: int) -> Map:
    """Return the products of maps whose heads, axis `at`, do not come first: scores head by head, other maps as x @ v lies."""
    count, is_first = x.shape[at], x.order[: len(x.axes[at])] == x.axes[at]
    parts = [_product(b, _head(b, x, at, index), _head(b, y, at, index)) for index in range(count)]
    rows, columns = parts[0].axes[-2:]
    names = [b.tensor(part, ((), *part.axes[-2:])) for part in parts]
    head = b.fresh(count)
    axes: list[Axes] = [() for _ in x.axes]
    axes[at], axes[-2], axes[-1] = head, rows, columns
    dims = ((), rows, (*head, *columns)) if is_first else (head, rows, columns)
    return b.map("concatenation", names, axes, dims, {"axis": 2 if is_first else 0, "activation": "none"}, suffix="heads")


def _head(b: Builder, x: Map, at: int, index: int) -> Map:
    """Return one head of a map, whichever of its axes lies first in memory."""
    first = as_they_lie(x)
    one = select(b, permute(b, x, first), first.index(at), index)
    left = [axis for axis in first if axis != at]
    return permute(b, one, [left.index(axis) for axis in range(len(first)) if axis != at])


def dot_product_attention(
    b: Builder,
    q: Map,
    k: Map,
    v: Map,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Map:
    if attn_mask is not None or is_causal or dropout_p or enable_gqa:
        raise Unsupported("only attention without mask, dropout and groups of heads is supported")
    factor = np.float32(1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = matmul(b, binary("mul")(b, q, factor), transpose(b, k, -2, -1))
    return matmul(b, softmax(b, scores, -1), v)
