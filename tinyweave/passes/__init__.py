"""Graph -> Graph rewrites, one file per family, run in the order of one list.

A pass takes a graph and returns the new one with a TensorMap, which tells for each new tensor the old tensor and channels
that it holds. Between passes the graph must keep the rules of `ir.verify`. A pass knows no device.
"""

from __future__ import annotations

from ..ir import CompileError, Graph, verify
from .check_ops import check_ops
from .copies_to_views import copies_to_views
from .crop_windows import crop_windows
from .drop_unused import drop_unused
from .fold_constants import fold_constants
from .fuse_pad import fuse_pad
from .merge_moves import merge_moves
from .merge_rescales import merge_rescales
from .share_constants import share_constants
from .shift_uint8 import shift_uint8
from .shrink_channels import shrink_channels
from .strip_edges import strip_edges
from .strip_transposes import strip_transposes
from .tensor_map import Source, TensorMap, compose, source
from .tolerate import tolerate

__all__ = ["PASSES", "Source", "TensorMap", "compose", "run_passes", "run_tolerantly", "source"]

PASSES = (
    fold_constants,
    drop_unused,
    shift_uint8,
    check_ops,  # what follows may rely on it
    copies_to_views,
    strip_edges,  # not when the edges keep the types that the file has
    strip_transposes,  # not when they keep the layout
    merge_moves,
    fuse_pad,
    merge_rescales,
    shrink_channels,
    crop_windows,
    merge_moves,  # a concatenation may be left with one operand
    share_constants,
    drop_unused,
)


def run_passes(graph: Graph, *, float_io: bool, own_layout: bool = True) -> tuple[Graph, TensorMap]:
    """All passes in order; `float_io` keeps conversions at the edges of the network, `own_layout` transposes there."""
    tensors: TensorMap = {}
    for rewrite in PASSES:
        if (rewrite is strip_edges and float_io) or (rewrite is strip_transposes and own_layout):
            continue
        graph, step = rewrite(graph)
        verify(graph)
        tensors = compose(tensors, step)
    return graph, tensors


def run_tolerantly(graph: Graph, problems: list[CompileError]) -> Graph:
    """Return the graph after the passes before `check_ops`; what cannot be compiled is opaque, the reasons go to `problems`."""
    return tolerate(graph, PASSES[: PASSES.index(check_ops)], problems)
