"""The options of the planner as one value; and how options are typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

LIMITS = ("ram", "flash", "latency_ms")
OF_MODEL = ("stream_time",)  # what the planner does not take: another network is planned


@dataclass(frozen=True)
class PlanOptions:
    """How to plan a network, and within which limits.

    schedule: `best`, `unfused`, `layer`, or as others plan: `patch`, `patch:N:K`, `msf`, `stream2d`.
    optimize: which plan of those within the limits: `size` the one with the least RAM, with portable kernels; `speed` the one
    with the fewest cycles; `balanced` the one with the least product of both. None: `speed` with a RAM limit, else `balanced`.
    stream_inputs: a callback brings the inputs by rows; they never lie in RAM as a whole. stream_outputs: a callback takes the
    outputs by rows that are maps.
    max_mac_overhead: multiply-accumulates at most so many times the network's, for less RAM; None: nothing is computed twice,
    but by `patch` and `msf`.
    stream_time: frames that a network over a window of frames takes at each call, or "auto"; it computes only what is new.
    None: the whole window.
    ram, flash: limits in bytes, or as text such as "64k" or "1m"; None: those of the device, if one is given.
    latency_ms: one inference takes at most so long, estimated; it needs a device whose core's timings are known.
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
        """Return those of the options that say what a plan must fit."""
        return {name: getattr(self, name) for name in LIMITS}

    @property
    def planning(self) -> dict[str, Any]:
        """Return those that the planner takes as they are."""
        return {name: value for name, value in asdict(self).items() if name not in (*LIMITS, *OF_MODEL)}


def typed(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield options as the command line takes them, those left out that have their default."""
    for option, value in options.items():
        if value is not None and value != defaults.get(option):
            yield f"--{option.replace('_', '-')}"
            if value is not True:
                yield str(value).removesuffix(".0") if isinstance(value, float) else str(value)
