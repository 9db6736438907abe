"""What an architecture costs on a device, as it would be deployed. In: an Arch, a Target. Out: Costs; of the arena exact.

The network is planned as a graph of random weights, by the same function and with the same limits as the trained one later.
What costs little to know is asked first: weights alone may exceed Flash, and of square images the least arena is known.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .. import api
from ..devices import Device, all_devices
from ..exporters.tflite import to_tflite
from ..ir import CompileError, Graph
from ..passes import run_passes
from ..planning import OtherFlash, Plan, likely_code
from ..planning.schedules import RECOMPUTING
from ..results import Limits, Model, Profile
from .arch import Arch, PlanGene, blocks, macs, weights
from .arena import least_arena
from .network import to_graph

NAME = "network"


class Beside(NamedTuple):
    """What a network takes besides its arena and its constants, as it was measured on one.

    ram: bytes of stack and static data. code: bytes of Flash; estimated: what they were estimated to be; rate: bytes for each
    that is estimated more. kernels: in the code.
    """

    ram: int = 0
    code: int = 0
    estimated: int = 0
    rate: float = 1.0
    kernels: tuple[str, ...] = ()


NOTHING = Beside()


@dataclass(frozen=True)
class Target:
    """A device, what a network may take of it, and how it is planned.

    beside: what any network takes, see `searching.measured`. energy_mj: what one inference may take from the supply, where the
    device's current is known: CompileError where it is not. A network that carries its own plan is planned as that says.
    """

    device: Device | None
    limits: Limits
    stream_inputs: bool = False
    max_mac_overhead: float | None = None
    beside: Beside = NOTHING
    energy_mj: float | None = None
    schedule: str = "best"

    def __post_init__(self) -> None:
        if self.energy_mj is None:
            return
        if not 0 < self.energy_mj < math.inf:
            raise CompileError(f"--energy-mj {self.energy_mj:g} is no energy", "give millijoules above 0, for example 5")
        if self.device is None or self.device.energy_mj(1.0) is None:
            known = ", ".join(sorted(each.name for each in all_devices() if each.energy_mj(1.0) is not None))
            name = self.device.name if self.device else "a core alone"
            raise CompileError(f"--energy-mj: the current of {name} is not known", f"leave it out, or take one of {known}")
        try:
            api.limits_of(self.device, latency_ms=self._ms)
        except CompileError as error:
            raise CompileError(error.why.replace("--latency-ms", "--energy-mj"), error.what_to_do) from error

    @property
    def _ms(self) -> float:
        """Return the time in which the device takes the energy."""
        per_ms = self.device.energy_mj(1.0) if self.device else None
        return self.energy_mj / per_ms if self.energy_mj and per_ms else math.inf

    @property
    def all_limits(self) -> Limits:
        """Return the limits, an energy as the time in which the device takes it."""
        if self.energy_mj is None or self.device is None:
            return self.limits
        latency_ms = self._ms if self.limits.latency_ms is None else min(self._ms, self.limits.latency_ms)
        return replace(self.limits, latency_ms=latency_ms, clock_hz=self.device.clock_hz)

    @property
    def core(self) -> str:
        return self.device.core if self.device else api.DEFAULT_CORE

    @property
    def planning(self) -> dict[str, Any]:
        """Return the options of the planner."""
        return {"stream_inputs": self.stream_inputs, "max_mac_overhead": self.max_mac_overhead, "schedule": self.schedule}

    def planned_as(self, plan: PlanGene | None) -> Target:
        """Return the target with a network's own plan, if it has one."""
        return replace(self, **plan._asdict()) if plan else self

    @property
    def arena_limits(self) -> Limits:
        """Return the limits with RAM for what is not in the arena taken off."""
        ram = self.limits.ram
        return replace(self.all_limits, ram=None if ram is None else max(0, ram - self.beside.ram))

    def plan(self, model: Model) -> Plan:
        """Return a network's plan, whether it fits or not: the one without a limit of Flash where it is within that."""
        how = partial(api.plan, model, core=self.core, **self.planning)
        free = how(limits=replace(self.arena_limits, flash=None))
        if self.limits.flash is None or self.flash(free) <= self.limits.flash:
            return free
        measured = OtherFlash(self.beside.code, frozenset(self.beside.kernels)) if self.beside.kernels else None
        return how(limits=self.arena_limits, other_flash=measured)

    def flash(self, plan: Plan) -> int:
        """Return the bytes of Flash of a plan: its constants and its code, that measured and what is estimated more or less."""
        of, need = self.beside, api.flash_need(plan, self.device)
        more = likely_code(plan) - of.estimated if of.kernels else 0
        return need.constants + max(0, of.code + round(of.rate * more))

    def measured(self, plan: Plan, profile: Profile) -> Target:
        """Return the target with what a network was measured to take besides its arena and constants."""
        code = profile.flash - api.flash_need(plan, self.device).constants
        return replace(self, beside=beside(plan, profile.static + profile.stack, code))


def beside(plan: Plan, ram: int, code: int) -> Beside:
    """Return what the network of a plan takes besides, of which these bytes are known."""
    return Beside(ram, code, likely_code(plan), kernels=tuple(sorted({*plan.variants} - {""})))


def between(small: Beside, large: Beside) -> Beside:
    """Return what networks take whose code lies between two that were measured, or near them."""
    more = large.estimated - small.estimated
    rate = (large.code - small.code) / more if more else small.rate
    return small._replace(ram=max(small.ram, large.ram), rate=rate)


@dataclass(frozen=True)
class Costs:
    """ram: bytes of arena, stack and static data. flash: bytes of constants and code. ms, mj: estimated; None: not known.

    excess: which of them are above the limits, and by how much.
    """

    ram: int
    flash: int
    macs: int
    ms: float | None
    excess: dict[str, float]
    mj: float | None = None

    @property
    def fit(self) -> bool:
        return not self.excess

    def record(self) -> dict[str, Any]:
        return asdict(self)


def model_of(graph: Graph) -> Model:
    """Return a graph as an imported model, int8 at its edges."""
    passed, tensors = run_passes(graph, float_io=False)
    return Model(NAME, passed, graph, tensors, Path(f"{NAME}.tflite"), to_tflite(graph), "int8")


def too_large(arch: Arch, target: Target) -> bool:
    """Return whether the network cannot fit, as far as that is known without planning it."""
    limits, target = target.arena_limits, target.planned_as(arch.plan)
    if limits.flash is not None and weights(arch) > limits.flash:
        return True
    if limits.ram is None or target.max_mac_overhead is not None or limits.maps or target.schedule in RECOMPUTING:
        return False
    try:
        return least_arena(arch, stream_inputs=target.stream_inputs) > limits.ram
    except CompileError:  # the least arena is known of square images of whole words of channels
        return False


def planned(arch: Arch, target: Target) -> tuple[Model, Plan]:
    """Return the network with random weights, and its plan, whether it fits or not."""
    target = target.planned_as(arch.plan)
    model = model_of(to_graph(NAME, blocks(arch), None if arch.anchors else arch.classes))
    return model, target.plan(model)


def costs(arch: Arch, target: Target) -> Costs:
    """Return what the network costs as it would be deployed."""
    plan = planned(arch, target)[1]
    return _costs(arch, target, plan, api.latency_ms(plan, target.device))


def built_costs(arch: Arch, target: Target) -> Costs:
    """Return what the network costs with the code, stack, static data and time that it has itself, built with random weights.

    Where nothing can be built and run here, they are those of the target.
    """
    model, plan = planned(arch, target)
    ms = api.latency_ms(plan, target.device)
    with suppress(CompileError):
        profile = api.profile(model, plan, api.emulated_core(target.device), device=target.device)
        target, ms = target.measured(plan, profile), profile.latency_ms(target.device) or ms
    return _costs(arch, target, plan, ms)


def _costs(arch: Arch, target: Target, plan: Plan, ms: float | None) -> Costs:
    limits, flash = target.limits, target.flash(plan)
    mj = target.device.energy_mj(ms) if target.device else None
    limited = {
        "ram": (limits.ram_excess(plan.arena, target.beside.ram), 0),
        "flash": (flash, limits.flash),
        "latency_ms": (ms, limits.latency_ms),
        "energy_mj": (mj, target.energy_mj),
    }
    over = {name: has - most for name, (has, most) in limited.items() if has is not None and most is not None and has > most}
    return Costs(sum(plan.arena.values()) + target.beside.ram, flash, macs(arch), ms, over, mj)
