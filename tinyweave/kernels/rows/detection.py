"""The kernel that finds detections among boxes and scores."""

from __future__ import annotations

from ...ir import Graph, Op
from ..variant import Variant

TABLE_BYTES = 256 * 8  # half sizes in double, of heights or widths
ANCHOR_BYTES = 4 * 4
FOUND_BYTES, HISTOGRAM_BYTES = 6, 2 * 257  # per detection, and once


def scratch_bytes(graph: Graph, op: Op) -> int:
    """Return the scratch bytes: detections, a histogram of scores, and per anchor an index and, without NMS, a score."""
    of_anchor = 2 if op.attrs["use_regular_nms"] else 3
    return FOUND_BYTES * int(op.attrs["max_detections"]) + HISTOGRAM_BYTES + of_anchor * graph.input(op).shape[1]


def flash_bytes(graph: Graph, op: Op) -> int:
    """Return the bytes of anchors as floats, and of tables of half sizes per int8 value, one if the scales are equal."""
    return TABLE_BYTES * len({op.attrs["h_scale"], op.attrs["w_scale"]}) + ANCHOR_BYTES * graph.input(op).shape[1]


ROWS: tuple[Variant, ...] = (
    Variant(
        "tw_detection_postprocess_s8",
        ("detection_postprocess",),
        "tw_detection",
        types=("int8", "float32"),
        has_part=False,
        scratch=scratch_bytes,
        flash=flash_bytes,
        computes_in_float=True,
    ),
)
