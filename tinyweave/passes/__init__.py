"""Graph -> Graph rewrites, a module for each, run in the order of the list PASSES.

A pass never changes a graph. It returns a new graph, and a TensorMap that says which old tensor and channels each new tensor
holds, or an empty one if every tensor that is left has kept its values. Between passes the graph keeps the rules of
`ir.verify`. A pass knows no device.
"""

from __future__ import annotations

from collections.abc import Callable

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
from .strip_edges import strip_edges, strip_floats, strip_transposes
from .tensor_map import Source, TensorMap, compose, source
from .tolerate import tolerate


def check_ops(graph: Graph) -> tuple[Graph, TensorMap]:
    """Return the graph unchanged; raise CompileError for an unknown kind, a broken constraint or a wrong output shape."""
    return check(graph), {}


Pass = Callable[[Graph], tuple[Graph, TensorMap]]
PASSES: tuple[Pass, ...] = (
    fold_constants,
    read_integers,
    drop_unused,
    shift_uint8,
    check_ops,  # later passes rely on valid ops
    last_step,
    spread_operands,
    copies_to_views,
    strip_floats,  # if `io` is "auto"
    strip_edges,  # if `io` is "int8"
    strip_transposes,  # if `layout` is "nhwc"
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


def run_passes(graph: Graph, *, io: str, layout: str = "model", retrainable: bool = False) -> tuple[Graph, TensorMap]:
    """Run the passes, those that change inputs and outputs by `io` and `layout`; return the graph and its TensorMap.

    If `retrainable`, no channel is removed, since the same network, trained again, may have other constant channels.
    """
    tensors: TensorMap = {}
    chosen: dict[Pass, bool] = {strip_floats: io == "auto", strip_edges: io == "int8", strip_transposes: layout == "nhwc"}
    chosen[shrink_channels] = not retrainable
    for rewrite in PASSES:
        if not chosen.get(rewrite, True):
            continue
        graph, step = rewrite(graph)
        verify(graph)
        tensors = compose(tensors, step)
    return graph, tensors


def run_tolerantly(graph: Graph, problems: list[CompileError]) -> Graph:
    """Run the passes before `check_ops`; make ops that cannot be compiled UNSUPPORTED, and append the reasons to `problems`."""
    return tolerate(graph, PASSES[: PASSES.index(check_ops)], problems)
