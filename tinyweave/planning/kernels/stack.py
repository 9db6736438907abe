"""Stack: how many bytes a plan needs, estimated from the stack of each kernel and from the fused stages.

The stack is the frame of the function `invoke`, which calls the kernels, plus the largest stack of a kernel. The C of a fused
stage keeps the state of its loop in this frame. bench/planning/stack_bytes.py wrote the bytes, kernels/stack_bytes.json.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Graph
from ...kernels.layer_cycles import cost_model_core
from ...kernels.table import stack_of_kernels
from ..kernel_choice import KernelRule
from ..plan import Plan
from .flash_budget import unfused_kernels

FRAME = "invoke"  # key of the constants of the frame


def stack_bytes(plan: Plan, core: str) -> int:
    """Estimate the bytes of stack of one inference on a core; 0 without a core."""
    if not core:
        return 0
    known = stack_of_kernels(cost_model_core(core))
    used = (known.get(plan.variants[op], (0, 0))[stage.schedule is not None] for stage in plan.stages for op in stage.ops)
    frame = sum(a * b for a, b in zip(known[FRAME], frame_features(plan), strict=True))
    return round(frame + max(used, default=0))


def frame_features(plan: Plan) -> tuple[int, int, int, int]:
    """Return the factors of a frame's constants: 1, whether a stage is fused, the ops of the longest one, and of others."""
    fused = [len(stage.ops) for stage in plan.stages if stage.schedule is not None]
    longest = max(fused, default=0)
    return 1, int(bool(fused)), longest, sum(fused) - longest


def least_stack(graph: Graph, kernel_set: Sequence[KernelRule], core: str) -> int:
    """Return an estimate that no plan with kernels of this set falls below; 0 without a core."""
    if not core:
        return 0
    known, least = stack_of_kernels(cost_model_core(core)), 0.0
    for names in zip(*(unfused_kernels(graph, rule) for rule in kernel_set), strict=True):
        least = max(least, min(min(filter(None, known.get(name, ())), default=0) for name in names))
    return round(known[FRAME][0] + least)
