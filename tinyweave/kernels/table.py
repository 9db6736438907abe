"""The kernels that exist: per variant its C files, the ops it can run, its scratch, and how far its writes trail its reads.

In: a graph and one of its ops. Out: the row of the kernel that runs it. Knows no plan; the planner picks among the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..ir import CompileError, Graph, Op

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Variant:
    """One C function.

    files: its sources, headers that they include left out. applies: whether it computes this op. scratch: bytes of working
    memory for one call. lag: bytes by which the output's start must lie below the input's when both overlap (the writes
    trail the reads by it), None when they must not overlap. cores: the cores it is for, empty = all. code_bytes: measured,
    per core; unknown is absent.
    """

    kind: str
    name: str
    files: tuple[str, ...]
    applies: Callable[[Graph, Op], bool]
    scratch: Callable[[Graph, Op], int] = lambda graph, op: 0
    lag: Callable[[Graph, Op], int | None] = lambda graph, op: None
    cores: tuple[str, ...] = ()
