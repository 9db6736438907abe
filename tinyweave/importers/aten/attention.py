"""Import ATen's matrix products and attention, head by head if the head axis of two maps is not outermost in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np

from ..channels_last import Axes, Builder, Map, check_elements, view
from ..unsupported import Unsupported
from .axes import axes_by_memory, linear, mixed, permute, select, softmax, squeeze, sum_, transpose
from .elementwise import binary, stored_constant


def matmul(b: Builder, x: Any, y: Any) -> Map:
    """Import aten.matmul of a map and a constant, or of two maps with equal batch axes; by head if memory needs it."""
    if not isinstance(y, Map):
        return _by_constant(b, x, stored_constant(y, "second operand"))
    if not isinstance(x, Map):  # the transpose of y^T x^T
        weight = stored_constant(x, "first operand")
        if weight.ndim == 2 and len(y.axes) > 1:
            return mixed(b, y, -2, weight)
        if len(y.axes) == 1 or weight.ndim == 1:
            return _by_constant(b, y if len(y.axes) == 1 else transpose(b, y, -2, -1), weight.T)
        return transpose(b, _by_constant(b, transpose(b, y, -2, -1), weight.swapaxes(-2, -1)), -2, -1)
    if len(x.axes) != len(y.axes) or len(x.axes) < 2 or x.shape[:-2] != y.shape[:-2]:
        raise Unsupported(f"its maps {list(x.shape)} and {list(y.shape)} differ in their batch axes; make them equal")
    try:
        return _product(b, x, y)
    except Unsupported:
        heads = [axis for axis, extent in enumerate(x.shape[:-2]) if extent > 1]
        if len(heads) != 1:
            raise
        return _by_head(b, x, y, heads[0])


def sum_of_product(b: Builder, summand: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Map:
    """Import aten.addmm: beta * summand + alpha * x @ y. A constant vector as the summand is the bias of a dense layer."""
    is_layer = beta == alpha == 1 and np.ndim(summand) == 1 and np.ndim(y) == 2
    if is_layer and isinstance(summand, np.ndarray) and isinstance(y, np.ndarray) and isinstance(x, Map):
        return linear(b, x, y.T, summand)
    product = matmul(b, x, y)
    product = product if alpha == 1 else binary("mul")(b, product, alpha)
    return product if beta == 0 else binary("add")(b, product, summand, beta)


def _by_constant(b: Builder, x: Map, weight: Any) -> Map:
    """Multiply a map with a constant vector, a matrix, or one matrix per index of the batch axes."""
    if weight.ndim == 1:
        return squeeze(b, linear(b, x, weight[None]), -1)
    if weight.ndim == 2:
        return linear(b, x, weight.T)
    if weight.ndim != len(x.axes) or weight.shape[:-2] != x.shape[:-2]:
        raise Unsupported(f"its constant {list(weight.shape)} and the map {list(x.shape)} differ in their batch axes")
    axes = (*x.axes[:-1], b.new_axis(weight.shape[-1]))
    operands = (b.tensor(x, x.axes), b.constant(weight, "weight"))
    return b.map("batch_matmul", operands, axes, axes, {"adj_x": False, "adj_y": False})


def _product(b: Builder, x: Map, y: Map) -> Map:
    """Add a batch_matmul of two maps, whose last two axes may be swapped in memory; raise Unsupported if that is not enough."""
    names, transposed = [], []
    for m in (x, y):
        *lead, rows, columns = m.axes
        try:
            names.append(b.tensor(m, (*lead, rows, columns)))
            transposed.append(False)
        except Unsupported:
            names.append(b.tensor(m, (*lead, columns, rows)))
            transposed.append(True)
    axes = (*x.axes[:-1], b.new_axis(y.shape[-1]))  # a new axis: in self-attention rows and columns share an Axis
    return b.map("batch_matmul", names, axes, axes, {"adj_x": transposed[0], "adj_y": transposed[1]})


def _by_head(b: Builder, x: Map, y: Map, at: int) -> Map:
    """Multiply two maps by one batch_matmul per index of the axis `at` (the heads), and concatenate the products."""
    count, is_first = x.shape[at], x.order[: len(x.axes[at])] == x.axes[at]
    parts = [_product(b, _head(b, x, at, index), _head(b, y, at, index)) for index in range(count)]
    rows, columns = parts[0].axes[-2:]
    names = [b.tensor(part, ((), *part.axes[-2:])) for part in parts]
    head = b.new_axis(count)
    axes: list[Axes] = [() for _ in x.axes]
    axes[at], axes[-2], axes[-1] = head, rows, columns
    dims = ((), rows, (*head, *columns)) if is_first else (head, rows, columns)
    return b.map("concatenation", names, axes, dims, {"axis": 2 if is_first else 0, "activation": "none"}, suffix="heads")


def _head(b: Builder, x: Map, at: int, index: int) -> Map:
    """Return the map at `index` of the axis `at`, without this axis; sliced in memory order, so without a transpose."""
    first = axes_by_memory(x)
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
    """Import aten.scaled_dot_product_attention with a constant mask or none; dropout and grouped heads are refused."""
    if dropout_p or enable_gqa:
        raise Unsupported("it has dropout or grouped heads; call eval(), and repeat the heads before it")
    if isinstance(attn_mask, Map):
        raise Unsupported("its mask is computed by the network; only constant masks are supported")
    factor = np.float32(1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = matmul(b, binary("mul")(b, q, factor), transpose(b, k, -2, -1))
    mask = np.tri(*scores.shape[-2:], dtype=np.bool_) if is_causal else attn_mask
    if mask is not None:
        mask = np.where(mask, np.float32(0), np.float32(-np.inf)) if mask.dtype == bool else mask
        scores = binary("add")(b, scores, mask)
    return matmul(b, softmax(b, scores, -1), v)


def _einsum_terms(equation: str, ranks: Sequence[int]) -> list[str]:
    """Return the letters of each operand and of the output of an einsum; `ranks` replace `...` by letters."""
    left, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise Unsupported(f"its equation {equation} has {len(terms)} operands, but {len(ranks)} are given")
    free = "".join(letter for letter in ascii_letters if letter not in equation)
    lengths = [rank + len("...") - len(term) for term, rank in zip(terms, ranks, strict=True)]
    most = max((length for term, length in zip(terms, lengths, strict=True) if "..." in term), default=0)
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        wanted = "..." * ("..." in left) + "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    pairs = zip((*terms, wanted), (*lengths, most), strict=True)
    return [term.replace("...", free[most - length : most]) for term, length in pairs]


def einsum(b: Builder, equation: str, operands: Sequence[Any], **_: Any) -> Any:
    """Import aten.einsum of maps and constants by matrix products, from left to right; of constants only, return an array."""
    given, (*terms, wanted) = list(operands), _einsum_terms(equation, [len(x.shape) for x in operands])
    if any(len({*term}) < len(term) for term in (*terms, wanted)):
        raise Unsupported(f"its equation {equation} has a letter twice in one operand; take the diagonal outside the network")
    if not any(isinstance(x, Map) for x in given):
        lengths = {
            letter: extent for term, x in zip(terms, given, strict=True) for letter, extent in zip(term, x.shape, strict=True)
        }
        check_elements(*lengths.values())
        return np.einsum(",".join(terms) + "->" + wanted, *given)
    if len(terms) == 1:
        alone = [axis for axis, letter in enumerate(terms[0]) if letter not in wanted]
        kept = [letter for letter in terms[0] if letter in wanted]
        x = sum_(b, given[0], alone) if alone else given[0]
        return permute(b, x, [kept.index(letter) for letter in wanted])
    if len(terms) > 2:
        later = wanted + "".join(terms[2:])
        kept = [*dict.fromkeys(letter for letter in terms[0] + terms[1] if letter in later)]
        first = einsum(b, f"{terms[0]},{terms[1]}->{''.join(kept)}", given[:2])
        return einsum(b, f"{','.join((''.join(kept), *terms[2:]))}->{wanted}", [first, *given[2:]])
    for index, (term, other) in enumerate(zip(terms, terms[::-1], strict=True)):
        kept = [letter for letter in term if letter in other + wanted]
        alone = [axis for axis, letter in enumerate(term) if letter not in kept]
        if alone:
            given[index] = sum_(b, given[index], alone) if isinstance(given[index], Map) else given[index].sum(tuple(alone))
        terms[index] = "".join(kept)
    first, second = terms
    batch = [letter for letter in first if letter in second and letter in wanted]
    inner = [letter for letter in first if letter in second and letter not in wanted]
    rows, columns = ([letter for letter in term if letter not in other] for term, other in (terms, terms[::-1]))
    extents = dict(zip(first + second, (*given[0].shape, *given[1].shape), strict=True))

    def matrices(x: Any, term: str, *groups: Sequence[str]) -> Any:
        order = [term.index(letter) for letter in (*batch, *groups[0], *groups[1])]
        shape = (*(extents[letter] for letter in batch), *(prod(extents[letter] for letter in group) for group in groups))
        return view(b, permute(b, x, order), shape) if isinstance(x, Map) else x.transpose(order).reshape(shape)

    product = matmul(b, matrices(given[0], first, rows, inner), matrices(given[1], second, inner, columns))
    made = (*batch, *rows, *columns)
    whole = view(b, product, [extents[letter] for letter in made])
    return permute(b, whole, [made.index(letter) for letter in wanted])
