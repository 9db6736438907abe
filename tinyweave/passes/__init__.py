"""Graph -> Graph rewrites, one file per family, run in the order of one list.

A pass takes a graph and returns the new one with a TensorMap, which tells for each new tensor the old tensor and channels
that it holds. Between passes the graph must keep the rules of `ir.verify`. A pass knows no device.
"""

from __future__ import annotations

from ..ir import Graph, verify
from .check_ops import check_ops
from .copies_to_views import copies_to_views
from .crop_windows import crop_windows
from .drop_unused import drop_unused
from .fold_constants import fold_constants
from .fuse_pad import fuse_pad
from .merge_moves import merge_moves
from .merge_rescales import merge_rescales
from .share_constants import share_constants
from .shrink_channels import shrink_channels
from .strip_edges import strip_edges
from .tensor_map import Source, TensorMap, compose, source

__all__ = ["PASSES", "Source", "TensorMap", "compose", "run_passes", "source"]

PASSES = (
    fold_constants,
    drop_unused,
    check_ops,  # what follows may rely on it
    copies_to_views,
    strip_edges,  # not when the edges stay as the file has them
    merge_moves,
    fuse_pad,
    merge_rescales,
    shrink_channels,
    crop_windows,
    merge_moves,  # a concatenation may be left with one operand
    share_constants,
    drop_unused,
)


def run_passes(graph: Graph, *, float_io: bool) -> tuple[Graph, TensorMap]:
    """All passes in order; `float_io` leaves the inputs and outputs as they are, else conversions at the edges go."""
    tensors: TensorMap = {}
    for rewrite in PASSES:
        if rewrite is strip_edges and float_io:
            continue
        graph, step = rewrite(graph)
        verify(graph)
        tensors = compose(tensors, step)
    return graph, tensors
