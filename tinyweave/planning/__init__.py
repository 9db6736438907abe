"""Planning: decide which ops are fused, in which order and with which kernels they run, and where every byte lies.

A graph and a Request (options and limits) become Problems. The search returns a Solution of one of them, which becomes a Plan
and is verified by `check`.

Problem: ops in one order, tensors, kernels, row accesses and tiles as integers; it can be saved, reloaded and solved.
Step: the time in which one op or one fused stage runs.
Stage: one op, or several consecutive ops that are fused. Fused ops run row by row; the tensors between them are line buffers.
Line buffer: a ring buffer of the last few rows of a tensor ("rings" in plan files).
Tile: ops of a stage that run a few columns at a time, so that their line buffers shrink too. Tiling: the tiles of a stage.
Owner: the tensor whose memory another tensor uses, for example the input of a reshape for the reshape's output, a view.
Relocation: the copy of a tensor to another offset between two steps.
Rematerialisation: channels of a tensor are computed twice instead of being kept in RAM.
Recomputation: multiply-accumulates beyond those of the graph, because tiles overlap or a tensor is rematerialised.
Unfused bytes: RAM of an op's step if it runs on whole tensors.
Strategy: which plan spaces are searched: best, unfused, layer, patch, msf ("schedule" in options and plan files).
Objective: size, balanced, speed or flash ("optimize" in options).
Kernel rule: gives each op one kernel. Kernel set: several rules; an op may use its kernel by any of them. Each set has all
kernels of the next smaller one; the smallest has the portable ones.
Solution: a split of all ops into stages. Its bytes are those of its largest stage, its cycles those of all stages.
Plan space: all solutions of one op order with one kernel set.
Pareto front: solutions that no other beats in both bytes and cycles.
Layout: the buffers of a solution, to be placed. Plan: order, stages, kernels and buffers with their offsets.
Candidate: a plan with its bytes and cycles, to be compared with others.
"""

from ..support.progress import Progress
from .assemble import plan_in_order
from .check import check
from .constants_in_ram import (
    FILE_HEAD,
    Constant,
    Fetch,
    channels_at_once,
    fetches,
    file_offsets,
    read_sizes,
    with_copies,
    with_early_fetches,
    with_fetches,
    without_copies,
    worth_copying,
)
from .fuse.rematerialise import with_pieces
from .kernels.flash_budget import OtherFlash, constant_bytes, flash_bytes, fused_layers, likely_code, trades_flash
from .memories import distribute_over_maps
from .plan import ONE_MEMORY, Buffer, Place, Plan, Stage, Tile, copy_name, scratch_name
from .planner import PlanSearch, SpaceCache, front, plan
from .request import Limits, Objective, Request
from .search.pareto import Query, solve
from .search.problem import Problem
from .serialize import from_json, to_json
from .strategies import RECOMPUTING, STRATEGIES
