"""What the functions of tinyweave return: frozen values, which the report and the command line only read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .devices import Device
from .ir import Graph
from .kernels.layer_cycles import FlashReads
from .notebook import table
from .passes import TensorMap
from .passes.stream_time import TimeStream
from .planning import Plan
from .planning.memories import excess as memory_excess
from .planning.order.search import Order, live_owners
from .simulate.instruction_timing import Cycles, milliseconds

if TYPE_CHECKING:  # what `inspect` does not need
    from .quantize.blame import Blame
    from .quantize.calibrate import Calibration
    from .quantize.precision import Mixed
    from .quantize.prune import Need, PrunedLayer
    from .quantize.ptq import Fidelity
    from .quantize.samples import Preprocessing
    from .simulate.compare import Verification

ROUNDING = 1e-6  # cycles; of a product of milliseconds and a clock


@dataclass(frozen=True, eq=False)
class Model:
    """An imported file: the graph after the passes, and what leads back to the file.

    stream: where the network takes its window of frames hop by hop, how it does; the graph is then that of one call.
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
        edges = [[self.graph.tensors[name] for name in names] for names in (self.graph.inputs, self.graph.outputs)]
        inputs, outputs = (", ".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors) for tensors in edges)
        return f"<Model '{self.name}': {len(self.graph.ops)} ops, {inputs} -> {outputs}>"

    @property
    def whole(self) -> Model:
        """Return the model that takes its whole window at each call: itself, where it takes no frames."""
        return replace(self, graph=self.stream.window, stream=None) if self.stream else self

    @property
    def sha256(self) -> str:
        """Return the digest of the file, in hexadecimal."""
        return hashlib.sha256(self.file).hexdigest()


@dataclass(frozen=True, eq=False)
class Profile:
    """What one invoke on an emulated core took, all of it measured but cycles; ram and flash in bytes.

    per_layer: instructions by layer; of one in a stage that runs row by row those of its kernel's calls, where that is known.
    cycles: estimated, of the whole, per step and per layer; None or empty for a core whose timings are not known. waits: cycles
    that a read of the device's Flash waits, counted where its caches miss; None: not known, and none are counted. foreign:
    kernels of the device's core that ran as plain C, for want of its instructions on `core`; there are no cycles then.
    """

    core: str
    compiler: str
    foreign: tuple[str, ...]
    instructions: int
    per_step: tuple[int, ...]
    per_layer: Mapping[str, int]
    cycles: Cycles | None
    cycles_per_step: tuple[Cycles, ...]
    cycles_per_layer: Mapping[str, Cycles]
    waits: int | None
    arena: dict[str, int]
    static: int
    stack: int
    weights: int
    tables: int
    code: int

    def __repr__(self) -> str:
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
        """Return the milliseconds of the cycles on a device.

        None where they are not known, it has no clock, or another core stood for its own.
        """
        if self.cycles is None or device is None or device.clock_hz is None or device.core != self.core:
            return None
        return milliseconds(self.cycles.likely, device.clock_hz)

    @property
    def ram(self) -> int:
        """Return bytes of the arenas, static data and stack."""
        return sum(self.arena.values()) + self.static + self.stack

    @property
    def flash(self) -> int:
        """Return bytes of weights, tables and code."""
        return self.weights + self.tables + self.code


@dataclass(frozen=True)
class Limits:
    """Bytes that may be used; None where nothing limits them. maps: ways to use the RAM as memories (name -> bytes, the fastest
    first), to be tried in this order; none where there is one memory, of `ram` bytes. latency_ms: what one inference may take,
    at `clock_hz`. reads: how Flash is read; None: it answers at once."""

    ram: int | None
    flash: int | None
    maps: tuple[Mapping[str, int], ...] = ()
    latency_ms: float | None = None
    clock_hz: float | None = None
    reads: FlashReads | None = None

    @property
    def cycles(self) -> int | None:
        """Return the cycles that one inference may take."""
        if self.latency_ms is None or self.clock_hz is None:
            return None
        return int(self.latency_ms * self.clock_hz / 1e3 + ROUNDING)

    def latency_excess(self, cycles: int | None) -> float | None:
        """Return the milliseconds that so many cycles take too long, 0 if none; None where nothing limits them or they are not
        known."""
        if self.cycles is None or self.clock_hz is None or cycles is None:
            return None
        return max(0, cycles - self.cycles) / self.clock_hz * 1e3

    def memories(self, arena: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return the map in which these arenas were planned."""
        return min(self.maps, key=lambda memories: memory_excess(arena, memories), default=None)

    def less(self, rest: int, flash: int = 0) -> Limits:
        """Return the limits of arenas beside `rest` bytes, which take their room in the largest memory of each map, and of a
        model in Flash beside `flash` bytes."""
        maps = tuple({**sizes, (most := max(sizes, key=lambda name: sizes[name])): sizes[most] - rest} for sizes in self.maps)
        ram, left = (limit and max(0, limit - taken) for limit, taken in ((self.ram, rest), (self.flash, flash)))
        return replace(self, ram=ram, flash=left, maps=maps)

    def ram_excess(self, arena: Mapping[str, int], rest: int = 0) -> int | None:
        """Return bytes of the arenas that do not fit their memories, and of the rest that finds no room in any one of them."""
        memories = self.memories(arena)
        if memories is None:
            return None if self.ram is None else max(0, sum(arena.values()) + rest - self.ram)
        room = max(0, *(count - arena.get(name, 0) for name, count in memories.items()))
        return memory_excess(arena, memories) + max(0, rest - room)


class FlashNeed(NamedTuple):
    """Bytes of Flash of a plan before it is built: its constants, exact, and with code and parameters at least and at most."""

    constants: int
    lower_bound: int
    upper_bound: int

    def excess(self, limit: int | None) -> int | None:
        """Return the bytes over `limit` if the constants alone exceed it, 0 if all fits, None where only a build can tell."""
        if limit is None or self.constants <= limit < self.upper_bound:
            return None
        return max(0, self.constants - limit)


def verdict(over: Collection[float | None], *, is_open: bool) -> bool | None:
    """Return whether nothing that is known exceeds its limit; None when nothing could be compared, or a question is open."""
    known = [value for value in over if value is not None]
    if any(known):
        return False
    return True if known and not is_open else None


@dataclass(frozen=True, eq=False)
class Reordering:
    """The ops of a file in the file's order and in the best one; owner: who shares bytes with whom by this count."""

    model: Model
    count: str
    owner: dict[str, str]
    best: Order
    file: bytes

    def __repr__(self) -> str:
        return f"<Reordering of '{self.model.name}': at most {self.best.peak:,} B live>"

    def live(self, order: Sequence[int]) -> list[dict[str, int]]:
        """Return per step the tensors that are alive, and their bytes."""
        tensors = self.model.original.tensors
        return [{n: tensors[n].bytes for n in names} for names in live_owners(self.model.original, order, self.owner)]


@dataclass(frozen=True, eq=False)
class Deployment:
    """One model on one device: the plan, what was measured and proved, and the verdict.

    row_source: what brings the input, as it is typed, and takes `row_source_bytes` of RAM and `row_source_flash` of Flash.
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
        return f"<Deployment of '{self.model.name}': {_said(self.fits)}, {_proved(self.verification)}, {self.profile!r}>"

    def _repr_html_(self) -> str:
        rows = [("board", self.device.name if self.device else "none"), ("memory", _said(self.fits))]
        return table(["model", self.model.name], [*rows, ("bytes", _proved(self.verification))]) + self.profile._repr_html_()

    @property
    def fits(self) -> bool:
        """Return whether RAM, Flash and time, as measured, are within the limits."""
        return not any(self.excess.values())

    @property
    def excess(self) -> dict[str, float]:
        """Return bytes and milliseconds by which ram, flash and latency_ms exceed their limits, 0 where they fit."""
        return excess(self.profile, self.limits, self.row_source_bytes, self.row_source_flash)


@dataclass(frozen=True, eq=False)
class Fit:
    """One model on one board, as measured on the board's core or on the one that stands for it."""

    device: Device
    plan: Plan
    profile: Profile

    def __repr__(self) -> str:
        return f"<Fit on {self.device.name}: {_said(self.fits)}, RAM {self.profile.ram:,} B, Flash {self.profile.flash:,} B>"

    @property
    def limits(self) -> Limits:
        """Return the board's RAM and Flash."""
        return Limits(self.device.ram, self.device.flash)  # one arena for all boards

    @property
    def excess(self) -> dict[str, float]:
        """Return bytes by which ram and flash exceed what the board has, 0 where they fit or the board does not say."""
        return excess(self.profile, self.limits)

    @property
    def fits(self) -> bool:
        """Return whether RAM and Flash, as measured, are within what the board has."""
        return not any(self.excess.values())


def excess(profile: Profile, limits: Limits, beside: int = 0, beside_in_flash: int = 0) -> dict[str, float]:
    """Return bytes and milliseconds by which a profile exceeds each limit, 0 where it fits or nothing limits it.

    beside, beside_in_flash: bytes of RAM and of Flash that something else takes.
    """
    likely = profile.cycles.likely if limits.cycles is not None and profile.cycles else None
    return {
        "ram": limits.ram_excess(profile.arena, profile.static + profile.stack + beside) or 0,
        "flash": 0 if limits.flash is None else max(0, profile.flash + beside_in_flash - limits.flash),
        "latency_ms": limits.latency_excess(likely) or 0,
    }


def _said(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _proved(verification: Verification) -> str:
    return "every byte is right" if verification.ok else "it differs"


@dataclass(frozen=True, eq=False)
class Pruning:
    """A float model made a smaller int8 one: `model` is what plan, compile and verify take, `file` its .tflite file.

    layers: those that lost channels. needs: RAM and Flash of the whole network in int8 and of this one. macs: likewise.
    fidelities: to the float model, of the whole network in int8, pruned, and after the training. trained: on how many samples,
    in so many epochs; the fidelities are those of other samples where there are enough.
    """

    model: Model
    layers: tuple[PrunedLayer, ...]
    needs: tuple[Need, Need]
    macs: tuple[int, int]
    fidelities: tuple[Fidelity, Fidelity, Fidelity]
    trained: int
    epochs: int

    @property
    def file(self) -> bytes:
        """Return the int8 model as a .tflite file."""
        return self.model.file

    def __repr__(self) -> str:
        after = self.needs[1]
        return f"<Pruning of '{self.model.name}': {after.ram:,} B of RAM, {after.flash:,} B of Flash>"


@dataclass(frozen=True, eq=False)
class Quantisation:
    """A float model made int8: `model` is what plan, compile and verify take, `file` its .tflite file.

    real: the float graph that it was made from, simplified. calibration: the scales, and by which method each was chosen. used:
    which samples chose them. gains: what was tried to lose less -> dB that it gained at the outputs, left out where that is not
    above 0, nor where it is in `left_out`: a limit would have been missed. fidelity: how near it comes to the float model,
    on all samples. blame: the noise of each layer, where it was asked for. precision: which layers are not int8 throughout,
    where there were limits.
    """

    model: Model
    real: Graph
    calibration: Calibration
    preprocessing: Preprocessing
    used: tuple[int, ...]
    gains: Mapping[str, float]
    fidelity: Fidelity
    blame: Blame | None
    precision: Mixed | None
    float_bytes: int
    left_out: tuple[str, ...]

    @property
    def file(self) -> bytes:
        """Return the int8 model as a .tflite file."""
        return self.model.file

    def __repr__(self) -> str:
        near = f"{self.fidelity.sqnr_db:.1f} dB" + (
            "" if self.fidelity.agreement is None else f", {100 * self.fidelity.agreement:.1f} % the same class"
        )
        return f"<Quantisation of '{self.model.name}': {len(self.file):,} B, {near}>"
