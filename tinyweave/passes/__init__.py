"""Graph -> Graph rewrites, a module for each, run in the order of the list PASSES.

A pass never changes a graph. It returns a new graph, and a TensorMap that says which old tensor and channels each new tensor
holds. Between passes the graph must keep the rules of `ir.verify`. A pass knows no device.
"""

from __future__ import annotations

from ..ir import CompileError, Graph, verify
from ..ops import check
from .attention.attention_rows import attention_rows
from .copies_to_views import copies_to_views
from .crop_windows import crop_windows
from .depthwise_to_conv import depthwise_to_conv
from .drop_unused import drop_unused
from .fold_constants import fold_constants
from .fuse_pad import fuse_pad
from .last_step import last_step
from .merge_moves import flatten_in_dense, merge_moves
from .merge_rescales import fold_tables, merge_rescales, read_integers
from .share_constants import share_constants
from .shift_uint8 import shift_uint8
from .shrink_channels import shrink_channels
from .spread_operands import spread_operands
from .strip_edges import strip_edges, strip_transposes
from .tensor_map import Source, TensorMap, compose, source
from .tolerate import tolerate

__all__ = ["PASSES", "Source", "TensorMap", "compose", "run_passes", "run_tolerantly", "source"]


def check_ops(graph: Graph) -> tuple[Graph, TensorMap]:
    """Return the graph unchanged, and an empty TensorMap, if all ops are valid.

    Raise CompileError for an unknown op kind, a broken constraint or a wrong output shape.
    """
    return check(graph), {}


PASSES = (
    fold_constants,
    read_integers,
    drop_unused,
    shift_uint8,
    check_ops,  # later passes rely on valid ops
    last_step,
    spread_operands,
    copies_to_views,
    strip_edges,  # skipped if inputs and outputs keep the types of the file
    strip_transposes,  # skipped if inputs and outputs keep the layout of the file
    merge_moves,
    fuse_pad,
    depthwise_to_conv,
    merge_rescales,
    shrink_channels,
    crop_windows,
    attention_rows,
    merge_moves,  # a concatenation may be left with one operand
    flatten_in_dense,
    fold_tables,
    share_constants,
    drop_unused,
)


def run_passes(graph: Graph, *, float_io: bool, own_layout: bool = True) -> tuple[Graph, TensorMap]:
    """Run all passes in order; return the final graph and a TensorMap from its tensors to the tensors of `graph`.

    If `float_io` is set, quantize and dequantize ops at the inputs and outputs of the network stay; if `own_layout` is set,
    transposes there stay.
    """
    tensors: TensorMap = {}
    for rewrite in PASSES:
        if (rewrite is strip_edges and float_io) or (rewrite is strip_transposes and own_layout):
            continue
        graph, step = rewrite(graph)
        verify(graph)
        tensors = compose(tensors, step)
    return graph, tensors


def run_tolerantly(graph: Graph, problems: list[CompileError]) -> Graph:
    """Run the passes before `check_ops` on a graph that may not compile, and return the resulting graph.

    Ops that cannot be compiled become ops of the kind UNSUPPORTED, and the reasons are appended to `problems`.
    """
    return tolerate(graph, PASSES[: PASSES.index(check_ops)], problems)
