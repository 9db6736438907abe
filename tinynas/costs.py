"""Costs of an architecture on a device: RAM, Flash, time, energy. In: an Arch, a Target (device and limits). Out: Costs.

A network is planned with random weights as the trained one will be, so its arena is exact. Lower bounds on the bytes of weights
and, for square images, on the arena first exclude networks that cannot fit.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tinyweave import api
from tinyweave.api.results import Model, Profile
from tinyweave.devices import Device, all_devices
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError, Graph
from tinyweave.passes import run_passes
from tinyweave.planning import Limits, OtherFlash, Plan, Request, fused_layers, likely_code
from tinyweave.planning.strategies import RECOMPUTING

from .arch import Arch, PlanGene, blocks, macs, weights
from .network import to_graph
from .ram.arena import arena_lower_bound
from .space import Choice, SearchSpace, arch_of, smallest

NAME = "network"
REST = 1024  # bytes of stack and static data that are assumed if they cannot be measured


class Overhead(NamedTuple):
    """RAM beside the arena and Flash beside the constants, measured on one network of a space to estimate others."""

    ram: int = 0  # bytes of stack and static data
    code: int = 0  # bytes of code in Flash
    estimated: int = 0  # estimate of `code` for the same network
    rate: float = 1.0  # measured bytes of code per estimated byte, to correct the estimates of other networks
    kernels: tuple[str, ...] = ()  # names of the kernels in the code
    fused: int = 0  # layers of the network in fused stages


NO_OVERHEAD = Overhead()


@dataclass(frozen=True)
class Target:
    """A device, the limits of a search on it, and the planner options, unless a network has its own (`Arch.plan`)."""

    device: Device | None  # None for a core without a board
    limits: Limits
    stream_inputs: bool = False
    max_mac_overhead: float | None = None
    overhead: Overhead = NO_OVERHEAD  # see `with_measured_overhead`
    energy_mj: float | None = None  # limit per inference, for devices whose current is known
    schedule: str = "best"

    def __post_init__(self) -> None:
        """Raise CompileError if the energy limit is out of range, or the device's current is not known."""
        if self.energy_mj is None:
            return
        if not 0 < self.energy_mj < math.inf:
            raise CompileError(f"--energy-mj {self.energy_mj:g} is out of range", "give millijoules above 0, for example 5")
        if self.device is None or self.device.energy_mj(1.0) is None:
            known = ", ".join(sorted(each.name for each in all_devices() if each.energy_mj(1.0) is not None))
            name = self.device.name if self.device else "a core alone"
            raise CompileError(f"--energy-mj: the current of {name} is not known", f"leave it out, or give one of {known}")
        try:
            api.limits_of(self.device, latency_ms=self._ms)
        except CompileError as error:
            raise CompileError(error.why.replace("--latency-ms", "--energy-mj"), error.what_to_do) from error

    @property
    def _ms(self) -> float:
        """Return the milliseconds in which the device consumes the energy limit; infinite if there is no limit."""
        per_ms = self.device.energy_mj(1.0) if self.device else None
        return self.energy_mj / per_ms if self.energy_mj and per_ms else math.inf

    @property
    def all_limits(self) -> Limits:
        """Return the limits, with the energy limit converted to a time limit; the tighter of two time limits counts."""
        if self.energy_mj is None or self.device is None:
            return self.limits
        latency_ms = self._ms if self.limits.latency_ms is None else min(self._ms, self.limits.latency_ms)
        return replace(self.limits, latency_ms=latency_ms, clock_hz=self.device.clock_hz)

    @property
    def core(self) -> str:
        """Return the name of the core to compile for: the device's, or the default core if there is no device."""
        return self.device.core if self.device else api.DEFAULT_CORE

    @property
    def request(self) -> Request:
        """Return the planner's request: core, limits and options of the target."""
        return Request(
            self.schedule,
            limits=self.all_limits,
            max_mac_overhead=self.max_mac_overhead,
            stream_inputs=self.stream_inputs,
            core=self.core,
        )

    def limits_by_name(self) -> dict[str, float | None]:
        """Return the limits on RAM, Flash (bytes), time (ms), energy (mJ), or None, by the keys of `Costs.excess`."""
        limits = self.limits
        return {"ram": limits.ram, "flash": limits.flash, "latency_ms": limits.latency_ms, "energy_mj": self.energy_mj}

    def with_plan(self, plan: PlanGene | None) -> Target:
        """Return the target with the planner options of `plan`, a network's PlanGene; unchanged if it is None."""
        return replace(self, **plan._asdict()) if plan else self

    @property
    def arena_limits(self) -> Limits:
        """Return the limits, with stack and static data subtracted from the RAM limit, so that it applies to the arena."""
        ram = self.limits.ram
        return replace(self.all_limits, ram=None if ram is None else max(0, ram - self.overhead.ram))

    def plan(self, model: Model) -> Plan:
        """Plan without the Flash limit, and again with it if that plan exceeds it; the result may miss limits."""
        request = replace(self.request, limits=self.arena_limits)
        free = api.make_plan(model, replace(request, limits=replace(self.arena_limits, flash=None)))
        if self.limits.flash is None or self.flash(free) <= self.limits.flash:
            return free
        of = self.overhead
        measured = (OtherFlash(of.code, frozenset(of.kernels), of.fused),) if of.kernels else ()
        return api.make_plan(model, replace(request, other_flash=measured))

    def flash(self, plan: Plan) -> int:
        """Estimate the Flash bytes of a plan: constants, and the measured code of `overhead` with the estimated difference."""
        of, need = self.overhead, api.estimate_flash(plan, self.device)
        more = likely_code(plan) - of.estimated if of.kernels else 0
        return need.constants + max(0, of.code + round(of.rate * more))

    def measured(self, plan: Plan, profile: Profile) -> Target:
        """Return the target with the overhead that a network's profile measured; `plan` is the plan of the same network."""
        code = profile.flash - api.estimate_flash(plan, self.device).constants
        return replace(self, overhead=overhead_of(plan, profile.static + profile.stack, code))


def overhead_of(plan: Plan, ram: int, code: int) -> Overhead:
    """Return the Overhead of a planned network: `ram` bytes of stack and static data, and `code` bytes, both measured."""
    return Overhead(ram, code, likely_code(plan), kernels=tuple(sorted({*plan.variants} - {""})), fused=fused_layers(plan))


def overhead_between(small: Overhead, large: Overhead) -> Overhead:
    """Return `small` with the larger RAM and the `rate`, the measured per estimated difference in code of two builds."""
    more = large.estimated - small.estimated
    rate = (large.code - small.code) / more if more else small.rate
    return small._replace(ram=max(small.ram, large.ram), rate=rate)


@dataclass(frozen=True)
class Costs:
    """The costs of a network on a target, and the limits that it exceeds."""

    ram: int  # bytes of arena, stack and static data
    flash: int  # bytes of constants and code
    macs: int
    ms: float | None  # milliseconds per inference; None if unknown
    excess: dict[str, float]  # by name of each exceeded limit, the amount above it; empty if the network fits
    mj: float | None = None  # millijoules per inference; None if unknown

    @property
    def fit(self) -> bool:
        """Return whether the network fits all limits."""
        return not self.excess

    @property
    def product(self) -> float:
        """Return RAM x Flash x time (MACs if the time is unknown), by which equally accurate networks are ordered."""
        return self.ram * self.flash * (self.macs if self.ms is None else self.ms)

    def record(self) -> dict[str, Any]:
        """Return the costs as a dict of JSON values; `Costs(**record)` restores them."""
        return asdict(self)

    def needs(self) -> str:
        """Return RAM, Flash and time as text for messages."""
        return f"{self.ram:,} B of RAM, {self.flash:,} B of Flash" + ("" if self.ms is None else f", {self.ms:.3g} ms")


def model_of(graph: Graph) -> Model:
    """Return a graph as a Model with int8 inputs and outputs, as if it had been imported from a file; passes are applied."""
    passed, tensors = run_passes(graph, io="int8")
    return Model(NAME, passed, graph, tensors, Path(f"{NAME}.tflite"), to_tflite(graph), "int8")


def too_large(arch: Arch, target: Target) -> bool:
    """Return whether cheap lower bounds, without planning, show that a network cannot fit."""
    limits, target = target.arena_limits, target.with_plan(arch.plan)
    if limits.flash is not None and weights(arch) > limits.flash:
        return True
    if limits.ram is None or target.max_mac_overhead is not None or limits.maps or target.schedule in RECOMPUTING:
        return False
    try:
        return arena_lower_bound(arch, stream_inputs=target.stream_inputs) > limits.ram
    except CompileError:  # the bound exists for square images, channels in multiples of 4, and with a pooling
        return False


def plan_untrained(arch: Arch, target: Target) -> tuple[Model, Plan]:
    """Create a network with random weights and plan it; return (model, plan), even if the plan does not fit."""
    target = target.with_plan(arch.plan)
    classes = None if arch.anchors else arch.classes
    model = model_of(to_graph(NAME, blocks(arch), classes, pooling=arch.pooling, image=arch.image, stored=arch.stored))
    return model, target.plan(model)


def costs(arch: Arch, target: Target) -> Costs:
    """Return the costs of a network, estimated from its plan without building it."""
    plan = plan_untrained(arch, target)[1]
    return _costs(arch, target, plan, api.estimate_latency_ms(plan, target.device))


def quick_costs(target: Target, arch: Arch) -> Costs | None:
    """Return the costs of a network, or None without planning it if cheap lower bounds show that it cannot fit."""
    return None if too_large(arch, target) else costs(arch, target)


def built_costs(arch: Arch, target: Target) -> Costs:
    """Build a network with random weights, and return its costs with measured code, stack, static data and time.

    If it exceeds a limit, it is planned and built once more with its own overhead, as `deploy` does; if that exceeds one, too,
    the first counts. Without an emulated core, the target's overhead and an estimated time are used.
    """
    first, own = _built(arch, target)
    again = first if first.fit or own == target else _built(arch, own)[0]
    return again if again.fit else first


def _built(arch: Arch, target: Target) -> tuple[Costs, Target]:
    """Plan and build a network; return its costs, and the target with the measured overhead. See `built_costs`."""
    model, plan = plan_untrained(arch, target)
    ms = api.estimate_latency_ms(plan, target.device)
    with suppress(CompileError):
        profile = api.profile_plan(model, plan, api.emulated_core(target.device), device=target.device)
        target, ms = target.measured(plan, profile), profile.latency_ms(target.device) or ms
    return _costs(arch, target, plan, ms), target


def _costs(arch: Arch, target: Target, plan: Plan, ms: float | None) -> Costs:
    flash, mj = target.flash(plan), target.device.energy_mj(ms) if target.device else None
    limits = target.limits_by_name() | {"ram": 0}
    needs: dict[str, float | None] = {
        "ram": target.limits.ram_excess(plan.arena, target.overhead.ram),
        "flash": flash,
        "latency_ms": ms,
        "energy_mj": mj,
    }
    over = {
        name: need - limit
        for name, need in needs.items()
        if need is not None and (limit := limits[name]) is not None and need > limit
    }
    return Costs(sum(plan.arena.values()) + target.overhead.ram, flash, macs(arch), ms, over, mj)


def with_measured_overhead(target: Target, space: SearchSpace, classes: int) -> Target:
    """Return the target with the overhead (code, stack, static data) of a search space, measured on an emulated core.

    One network is built with a Flash limit of 0 (smallest kernels), whose code counts, and without; stack and static data are
    the larger of both, and the difference corrects estimates of other networks' code. Without an emulated core it is an
    estimate.
    """
    arch = arch_of(space, _varied(space), classes)
    plans = [plan_untrained(arch, replace(target, limits=replace(target.limits, flash=flash))) for flash in (0, None)]
    try:
        small, large = (
            target.measured(plan, api.profile_plan(model, plan, api.emulated_core(target.device))) for model, plan in plans
        )
    except CompileError:
        plan = plans[0][1]
        need = api.estimate_flash(plan, target.device)
        return replace(target, overhead=overhead_of(plan, REST, need.upper_bound - need.constants))
    return replace(target, overhead=overhead_between(small.overhead, large.overhead))


def with_estimated_overhead(target: Target, space: SearchSpace, classes: int) -> Target:
    """Return the target with an estimated overhead of a search space, for the smallest kernels, without a build."""
    least = replace(target, limits=replace(target.limits, flash=0))
    plan = plan_untrained(arch_of(space, _varied(space), classes), least)[1]
    return replace(target, overhead=overhead_of(plan, REST, likely_code(plan)))


def _varied(space: SearchSpace) -> Choice:
    """Return a small network with all kernel sizes of a space, so that it contains nearly all code that the space needs."""
    blocks = tuple(
        tuple((group.kernels[i % len(group.kernels)], group.expansions[-1]) for i in range(max(group.depths)))
        for group in space.groups
    )
    return smallest(space)._replace(blocks=blocks)
