"""Plans of given stages, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tinyweave.ir import Graph
from tinyweave.planning import Plan, Tile, check
from tinyweave.planning.alias.overlap import shared_in
from tinyweave.planning.assemble import lay_out, place_layout
from tinyweave.planning.fuse.row_access import StreamedIO
from tinyweave.planning.kernel_choice import PORTABLE, KernelRule


def plan_in_stages(
    graph: Graph,
    stages: Sequence[tuple[int, ...]],
    *,
    streamed_inputs: tuple[str, ...] = (),
    tiles: tuple[Tile, ...] = (),
    streamed_outputs: tuple[str, ...] = (),
    kernels: KernelRule = PORTABLE,
) -> Plan:
    """Return the checked plan that runs the ops in these stages.

    Args:
        stages: indices of the ops of each stage, in order. A stage is fused if it has several ops or a streamed input or
            output.
    """
    shared = shared_in(graph, [index for ops in stages for index in ops], parts=False)
    streams = StreamedIO(streamed_inputs, streamed_outputs)
    return check(place_layout(lay_out(graph, stages, shared, streams=streams, tiles=tiles, kernels=kernels))[0])
