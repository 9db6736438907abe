"""The input of the planner besides the network, as one frozen value: the strategy, the objective, the limits and the core."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ..kernels.layer_cycles import FlashReads, cycles_to_copy
from .kernels.flash_budget import OtherFlash
from .memories import excess
from .search.pareto import PathObjective

Objective = Literal[PathObjective, "flash"]
# of a callback that reads weights from an unknown memory: an SD card on SPI, and SPI Flash with four lines at 80 MHz
CALLBACK_BYTES_PER_S = 1_000_000, 40_000_000
ROUNDING = 1e-6  # cycles; milliseconds times a clock frequency is rarely a whole number


@dataclass(frozen=True)
class Limits:
    """RAM, Flash and time that a network may use; None means no limit."""

    ram: int | None = None  # bytes
    flash: int | None = None  # bytes
    maps: tuple[Mapping[str, int], ...] = ()  # memory maps (name -> bytes, fastest first) to try in order; empty for one memory
    latency_ms: float | None = None  # per inference, at `clock_hz`
    clock_hz: float | None = None
    reads: FlashReads | None = None  # wait states and cache lines of Flash; None for zero wait states

    def beside_reads(self, sizes: Collection[int], *, slowest: bool = False) -> Limits:
        """Return the limits of the layers: the time less that in which a callback reads a file of weights (`reading_ms`)."""
        if self.latency_ms is None or self.clock_hz is None:
            return self
        return replace(self, latency_ms=self.latency_ms - reading_ms(sizes, self.reads, self.clock_hz, slowest=slowest))

    @property
    def bytes(self) -> int | None:
        """Return the RAM limit in bytes: the size of the largest memory map, or `ram` if there are no maps."""
        return max((sum(memories.values()) for memories in self.maps), default=self.ram)

    @property
    def cycles(self) -> int | None:
        """Return the most cycles that one inference may take; None without a time limit or a clock frequency."""
        if self.latency_ms is None or self.clock_hz is None:
            return None
        return int(self.latency_ms * self.clock_hz / 1e3 + ROUNDING)

    def latency_excess(self, cycles: int | None) -> float | None:
        """Return by how many milliseconds `cycles` exceed the time limit, at least 0; None if cycles or limit is unknown."""
        if self.cycles is None or self.clock_hz is None or cycles is None:
            return None
        return max(0, cycles - self.cycles) / self.clock_hz * 1e3

    def memories(self, arena: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return the memory map that `arena` (memory -> bytes used) exceeds by the fewest bytes; None if there are no maps."""
        return min(self.maps, key=lambda memories: excess(arena, memories), default=None)

    def less(self, rest: int, flash: int = 0) -> Limits:
        """Return smaller limits, with `rest` bytes of RAM and `flash` bytes of Flash set aside for other uses.

        In each memory map, the RAM is set aside in the largest memory.
        """
        maps = tuple({**sizes, (most := max(sizes, key=lambda name: sizes[name])): sizes[most] - rest} for sizes in self.maps)
        ram, left = (limit and max(0, limit - taken) for limit, taken in ((self.ram, rest), (self.flash, flash)))
        return replace(self, ram=ram, flash=left, maps=maps)

    def ram_excess(self, arena: Mapping[str, int], rest: int = 0) -> int | None:
        """Return by how many bytes a program exceeds the RAM limit, 0 if it fits; None if there is no limit.

        Args:
            arena: memory -> bytes that the plan uses.
            rest: more bytes of RAM that the program needs, all in one memory.
        """
        memories = self.memories(arena)
        if memories is None:
            return None if self.ram is None else max(0, sum(arena.values()) + rest - self.ram)
        free = max(0, *(count - arena.get(name, 0) for name, count in memories.items()))
        return excess(arena, memories) + max(0, rest - free)


def reading_ms(sizes: Collection[int], reads: FlashReads | None, clock_hz: float, *, slowest: bool = False) -> float:
    """Return the milliseconds in which a callback reads a file of weights, by the bytes of each read.

    If the Flash is beside the chip, it is assumed to copy from there; otherwise from the fastest or `slowest` memory.
    """
    if reads and reads.apart:
        return round(cycles_to_copy(sizes, reads)) / clock_hz * 1e3
    return sum(sizes) / CALLBACK_BYTES_PER_S[not slowest] * 1e3


@dataclass(frozen=True)
class Request:
    """The input of the planner besides the network: a strategy, an objective, limits and a core.

    Objective `size` minimises RAM (arena plus estimated stack, within 2 %), `speed` cycles, `balanced` the product of arena and
    cycles, and `flash` constants and code, within the limits. If Flash is tighter than RAM, `balanced` uses the kernel set with
    the least product of Flash and cycles, provided that the product of RAM, Flash and cycles falls by more than 5 %. If no plan
    is within the limits, the planner returns the fastest plan within the RAM, else the smallest. Options, command line and JSON
    call the strategy `schedule`, and the objective `optimize`. Use dataclasses.replace for variants.
    """

    strategy: str = "best"  # one of strategies.STRATEGIES, or patch:N:K
    objective: Objective | None = None  # None for `balanced` if there is a core, else `size`
    limits: Limits = field(default_factory=Limits)
    # upper bound on the MACs, as a multiple of the network's MACs; None for no recomputation, but for any in `patch` and `msf`
    max_mac_overhead: float | None = None
    stream_inputs: bool = False  # a callback delivers the inputs row by row
    stream_outputs: bool = False  # a callback receives row by row each output that is computed by rows and read by no op
    core: str = ""  # the core whose fast kernels the plan may use; "" for portable kernels only
    flash_to_balance: int | None = None  # bytes that `balanced` compares the Flash of a plan with; None for the Flash limit
    other_flash: tuple[OtherFlash, ...] = ()  # measured Flash besides the constants of kernels; empty to estimate it
    # where constants are: flash; ram: all are copied; auto: copied where that saves the most cycles; file: in one beside the C;
    # fetch: in this file, which a callback reads before each layer
    weights: str = "flash"
    fast: bool = False  # a short search for thousands of networks: few orders, greedy placement, no fused stages
