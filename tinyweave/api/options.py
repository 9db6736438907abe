"""The options of the planner, and the defaults that Python and the command line share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SAMPLES, SEED = 5, 0  # samples that verify the C, and the seed of the random samples
PACKAGE_VERSION = "1.0.0"
METHOD = "auto"  # of choosing quantisation ranges
EPOCHS, RATE = 10, 1e-4  # fine-tuning of a pruned network
LIMITS = ("ram", "flash", "latency_ms")


@dataclass(frozen=True)
class PlanOptions:
    """Options of the planner, with the limits.

    Attributes:
        schedule: strategy: `best`, `unfused`, `layer`, or another planner's: `patch`, `patch:N:K`, `msf`, `stream2d`.
        optimize: objective within the limits: `size` takes the least RAM, with portable kernels; `speed` the fewest cycles;
            `balanced` the least product of both; `flash` the least constants and code. None is `speed` with a RAM limit, else
            `balanced`.
        stream_inputs: a callback delivers the inputs row by row, so that no whole input lies in RAM.
        stream_outputs: a callback receives row by row each output map that is computed by rows and read by no op.
        max_mac_overhead: upper bound on the MACs, as a multiple of the network's. None allows no recomputation, except in
            `patch` and `msf`.
        stream_time: number of new frames per call of a network over a window of frames, or "auto"; only what is new is
            computed. None computes the whole window.
        ram: RAM limit in bytes, or text such as "64k" or "1m"; by default the device's.
        flash: Flash limit, likewise.
        latency_ms: time limit of one inference; it needs a device with a clock and a cycle model of its core.
    """

    schedule: str = "best"
    optimize: str | None = None
    stream_inputs: bool = False
    stream_outputs: bool = False
    max_mac_overhead: float | None = None
    stream_time: int | str | None = None
    ram: int | str | None = None
    flash: int | str | None = None
    latency_ms: float | None = None

    @property
    def limits(self) -> dict[str, Any]:
        """Return the limits of RAM, Flash and time by name."""
        return {name: getattr(self, name) for name in LIMITS}
