"""The results of the functions of `import tinyweave as tw`: frozen values that reports and the command line read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..devices import Device
from ..ir import Graph
from ..notebook import table
from ..passes import TensorMap
from ..passes.stream_time import TimeStream
from ..planning import Limits, Plan
from ..planning.order.search import Order, live_owners
from ..simulate.instruction_timing import Cycles, milliseconds

if TYPE_CHECKING:  # what `inspect` does not need
    from ..quantize.blame import Blame
    from ..quantize.calibrate import Calibration
    from ..quantize.calibration_samples import Preprocessing
    from ..quantize.channel_pruning import Footprint, PrunedLayer
    from ..quantize.fidelity import Fidelity
    from ..quantize.mixed_precision import MixedPrecision
    from ..simulate.compare import Verification


@dataclass(frozen=True, eq=False)
class Model:
    """A network after the passes, with the file and graph that it was imported from.

    `stream` is set if the network takes its window of frames in hops; `graph` is then the graph of one call.
    """

    name: str
    graph: Graph
    original: Graph
    tensors: TensorMap
    path: Path
    file: bytes
    io: str
    layout: str = "model"
    stream: TimeStream | None = None

    def __repr__(self) -> str:
        """Return name, number of ops, inputs and outputs."""
        edges = [[self.graph.tensors[name] for name in names] for names in (self.graph.inputs, self.graph.outputs)]
        inputs, outputs = (", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors) for tensors in edges)
        return f"<Model '{self.name}': {len(self.graph.ops)} ops, {inputs} -> {outputs}>"

    @property
    def whole(self) -> Model:
        """Return the model that takes a whole window of frames per call; the model itself if it does not stream."""
        return replace(self, graph=self.stream.window, stream=None) if self.stream else self

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the file in hexadecimal."""
        return hashlib.sha256(self.file).hexdigest()


@dataclass(frozen=True, eq=False)
class Profile:
    """Measurements of one inference on an emulated core. Sizes are in bytes; cycles are estimates.

    Cycles are None or empty if the timings of the core are unknown, or if `foreign` is not empty.
    """

    core: str
    compiler: str
    foreign: tuple[str, ...]  # kernels of the device's core that ran as portable C
    instructions: int
    per_step: tuple[int, ...]
    per_layer: Mapping[str, int]  # instructions; in a fused stage only those of the kernel's calls, if known
    cycles: Cycles | None
    cycles_per_step: tuple[Cycles, ...]
    cycles_per_layer: Mapping[str, Cycles]
    waits: int | None  # wait cycles per Flash read that misses the caches; None if unknown
    arena: dict[str, int]
    static: int
    stack: int
    weights: int
    tables: int
    code: int

    def __repr__(self) -> str:
        """Return core, instructions, cycles, RAM and Flash."""
        cycles = "" if self.cycles is None else f", about {self.cycles.likely:,} cycles"
        return (
            f"<Profile on {self.core}: {self.instructions:,} instructions{cycles}, RAM {self.ram:,} B, Flash {self.flash:,} B>"
        )

    def _repr_html_(self) -> str:
        counts = [("instructions", self.instructions), ("RAM, B", self.ram), ("Flash, B", self.flash)]
        layers = [(name, f"{count:,}") for name, count in self.per_layer.items()]
        head = table(["emulated core", self.core], [(what, f"{count:,}") for what, count in counts])
        return head + table(["layer", "instructions"], layers)

    def latency_ms(self, device: Device | None) -> float | None:
        """Return the estimated latency on a device, or None if it is unknown.

        It is unknown without cycles, without a clock, or if the emulated core is not the device's.
        """
        if self.cycles is None or device is None or device.clock_hz is None or device.core != self.core:
            return None
        return milliseconds(self.cycles.likely, device.clock_hz)

    @property
    def ram(self) -> int:
        """Return the bytes of arenas, static data and stack."""
        return sum(self.arena.values()) + self.static + self.stack

    @property
    def flash(self) -> int:
        """Return the bytes of weights, tables and code."""
        return self.weights + self.tables + self.code


class FlashEstimate(NamedTuple):
    """Flash of a plan before it is built, in bytes: its constants, and bounds on constants plus code."""

    constants: int
    lower_bound: int
    upper_bound: int

    def excess(self, limit: int | None) -> int | None:
        """Return the bytes by which the constants exceed `limit`, 0 if the plan fits, or None if only a build can tell."""
        if limit is None or self.constants <= limit < self.upper_bound:
            return None
        return max(0, self.constants - limit)


def verdict(over: Collection[float | None], *, is_open: bool) -> bool | None:
    """Return False if any known excess is above 0; otherwise None if none is known or `is_open` is set, else True."""
    known = [value for value in over if value is not None]
    if any(known):
        return False
    return True if known and not is_open else None


@dataclass(frozen=True, eq=False)
class Reordering:
    """The order of ops with the least peak memory, and the file in that order.

    `owner` maps each tensor to the tensor whose memory it shares, by the way of counting `count`.
    """

    model: Model
    count: str
    owner: dict[str, str]
    best: Order
    file: bytes

    def __repr__(self) -> str:
        """Return the name and the peak of the best order."""
        return f"<Reordering of '{self.model.name}': at most {self.best.peak:,} B live>"

    def live(self, order: Sequence[int]) -> list[dict[str, int]]:
        """Return the live tensors of each step of an order, with their bytes."""
        tensors = self.model.original.tensors
        return [{n: tensors[n].bytes for n in names} for names in live_owners(self.model.original, order, self.owner)]


@dataclass(frozen=True, eq=False)
class Deployment:
    """A model deployed on a device: the plan, the measurements and the comparison with the reference.

    `row_source` is the option --source, whose C takes `row_source_bytes` of RAM and `row_source_flash` of Flash.
    """

    model: Model
    plan: Plan
    profile: Profile
    verification: Verification
    device: Device | None
    limits: Limits
    row_source: str | None = None
    row_source_bytes: int = 0
    row_source_flash: int = 0

    def __repr__(self) -> str:
        """Return the verdicts and the profile."""
        return (
            f"<Deployment of '{self.model.name}': {_fit_text(self.fits)}, {_proof_text(self.verification)}, {self.profile!r}>"
        )

    def _repr_html_(self) -> str:
        rows = [("board", self.device.name if self.device else "none"), ("memory", _fit_text(self.fits))]
        return (
            table(["model", self.model.name], [*rows, ("bytes", _proof_text(self.verification))]) + self.profile._repr_html_()
        )

    @property
    def fits(self) -> bool:
        """Return whether measured RAM, Flash and time are within the limits."""
        return not any(self.excess.values())

    @property
    def excess(self) -> dict[str, float]:
        """Return by how many bytes (`ram`, `flash`) and milliseconds (`latency_ms`) limits are exceeded, 0 if they are not."""
        return excess(self.profile, self.limits, self.row_source_bytes, self.row_source_flash)


@dataclass(frozen=True, eq=False)
class Fit:
    """A model on a board, measured on the board's core or on the nearest emulated core."""

    device: Device
    plan: Plan
    profile: Profile

    def __repr__(self) -> str:
        """Return board, verdict, RAM and Flash."""
        return (
            f"<Fit on {self.device.name}: {_fit_text(self.fits)}, RAM {self.profile.ram:,} B, Flash {self.profile.flash:,} B>"
        )

    @property
    def limits(self) -> Limits:
        """Return the board's RAM and Flash as limits."""
        return Limits(self.device.ram, self.device.flash)  # one arena for all boards

    @property
    def excess(self) -> dict[str, float]:
        """Return the bytes by which `ram` and `flash` exceed the board's, 0 if they fit or are unknown."""
        return excess(self.profile, self.limits)

    @property
    def fits(self) -> bool:
        """Return whether measured RAM and Flash are within the board's."""
        return not any(self.excess.values())


def excess(profile: Profile, limits: Limits, more_ram: int = 0, more_flash: int = 0) -> dict[str, float]:
    """Return the bytes and milliseconds by which a profile exceeds each limit, 0 if it fits or there is no limit.

    `more_ram` and `more_flash` are bytes of other code, such as the row source.
    """
    likely = profile.cycles.likely if limits.cycles is not None and profile.cycles else None
    return {
        "ram": limits.ram_excess(profile.arena, profile.static + profile.stack + more_ram) or 0,
        "flash": 0 if limits.flash is None else max(0, profile.flash + more_flash - limits.flash),
        "latency_ms": limits.latency_excess(likely) or 0,
    }


def _fit_text(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _proof_text(verification: Verification) -> str:
    return "every byte is right" if verification.ok else "a byte differs"


@dataclass(frozen=True, eq=False)
class Pruning:
    """A float model after pruning and quantisation to int8: `model` for `plan`, `compile` and `verify`, `file` as .tflite."""

    model: Model
    layers: tuple[PrunedLayer, ...]  # layers that lost channels
    needs: tuple[Footprint, Footprint]  # RAM and Flash of the unpruned int8 network, and of the pruned one
    macs: tuple[int, int]
    fidelities: tuple[Fidelity, Fidelity, Fidelity]  # to the float model: unpruned int8, pruned, trained
    trained: int  # number of training samples
    epochs: int

    @property
    def file(self) -> bytes:
        """Return the int8 model as a .tflite file."""
        return self.model.file

    def __repr__(self) -> str:
        """Return name, RAM and Flash."""
        after = self.needs[1]
        return f"<Pruning of '{self.model.name}': {after.ram:,} B of RAM, {after.flash:,} B of Flash>"


@dataclass(frozen=True, eq=False)
class Quantisation:
    """A float model quantised to int8: `model` for `plan`, `compile` and `verify`, `file` as .tflite."""

    model: Model
    real: Graph  # the float graph after simplification
    calibration: Calibration
    preprocessing: Preprocessing
    used: tuple[int, ...]  # indices of the samples that chose the ranges
    gains: Mapping[str, float]  # improvement -> dB of SQNR gained, above 0
    fidelity: Fidelity  # to the float model, on all samples
    blame: Blame | None  # error of each layer, if requested
    precision: MixedPrecision | None  # layers that are not int8 throughout, if there were limits
    float_bytes: int
    left_out: tuple[str, ...]  # improvements left out because a limit would have been missed

    @property
    def file(self) -> bytes:
        """Return the int8 model as a .tflite file."""
        return self.model.file

    def __repr__(self) -> str:
        """Return name, size and error of the int8 model."""
        near = f"{self.fidelity.sqnr_db:.1f} dB" + (
            "" if self.fidelity.agreement is None else f", {100 * self.fidelity.agreement:.1f} % the same class"
        )
        return f"<Quantisation of '{self.model.name}': {len(self.file):,} B, {near}>"
