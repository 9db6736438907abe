"""Emit the C of a plan, build and run it, compare its outputs with the reference, and measure it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from .. import planning
from ..devices import Device, all_devices
from ..kernels.layer_cycles import cost_model_core
from ..kernels.table import foreign
from ..kernels.variant import CORES_WITH
from ..planning import Limits, Plan, Progress, Request
from ..simulate import compare, emulated, target
from ..simulate.compare import Verification
from ..simulate.cores import CORES
from ..simulate.instruction_timing import Cycles, FlashWaits, LineWaits
from ..simulate.run import StepPart
from ..support.files import named
from .code import PLAIN, CodeOptions, compiled_bytes, emit_c, emulated_core, write
from .plans import DEFAULT_CORE, estimate_cycles, estimate_flash, make_plan, other_objectives, with_defaults
from .preparation import preparation_of
from .references import USUAL, ProofOptions, reference_outputs, samples
from .results import Deployment, Fit, FlashTraffic, Model, Profile, excess
from .row_sources import row_source_bytes, row_source_files
from .running import Outputs

LINE_WORDS = 4  # bus transfers per line of a cache before Flash on the chip: 4 words of 16 bytes, or 4 double words of 32
FLASH_REBUILDS, REBUILDS = 5, 2  # most rebuilds with measured Flash, and most with limits that a run exceeded
Count = TypeVar("Count")


@dataclass(frozen=True)
class EarlierPlan:
    """A plan made earlier for the same request, from which `deploy_model` starts."""

    plan: Plan | None = None  # None to plan the model
    known: planning.SpaceCache | None = None  # as for `make_plan`; None for an empty cache
    stays: bool = False  # whether to keep the plan if its build meets the Flash limit, even if another plan may be better


def verify_plan(
    model: Model,
    plan: Plan,
    proof: ProofOptions = USUAL,
    *,
    core: str | Sequence[str] | None = DEFAULT_CORE,
    progress: Progress | None = None,
) -> Verification:
    """Run the C of a plan on this machine and on emulated cores, and compare every output byte with the reference.

    The reference is LiteRT's reference kernels on the imported file, or the numpy reference if LiteRT cannot run it. For a
    model that streams in time, the reference computes the whole window at each call.
    `core` is one core or several, None for this machine only.
    """
    cases, cores = proof.samples(model), [core] if isinstance(core, str) else core or ()
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write(emit_c(model, plan), Path(folder))
        right = reference_outputs(model, cases, progress)
        return compare.verify(
            plan, Path(folder), model.name, cases, cores=cores, outside=model.outside, right=right, progress=progress
        )


def run_plan(
    model: Model, plan: Plan, folder: Path, inputs: Sequence[Sequence[np.ndarray]], core: str = DEFAULT_CORE
) -> list[list[np.ndarray]]:
    """Run samples in sequence on an emulated core and return the outputs of each, one array per network output."""
    built = target.build(plan, folder, model.name, core, outside=model.outside)
    if not inputs:
        return []
    checked = samples(model, len(inputs), 0, inputs)[: len(inputs)]
    *earlier, last = (compare.pack(sample) for sample in checked)
    return compare.unpack_all(model.outside, target.invoke(built, last, earlier=earlier))


def profile_plan(
    model: Model,
    plan: Plan,
    core: str = DEFAULT_CORE,
    sample: Sequence[np.ndarray] | None = None,
    *,
    device: Device | None = None,
    by_step: bool = True,
) -> Profile:
    """Measure one inference of a plan on an emulated core, as `verbs.profile` does.

    `by_step` also measures each step and layer, which takes a second run.
    """
    cases = samples(model, 1, 0, [] if sample is None else [sample])[:1]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write(emit_c(model, plan), Path(folder))
        built = target.build(plan, Path(folder), model.name, core, outside=model.outside)
        return _profile(compare.run_samples(built, cases, caches=flash_caches(core, device)), device, by_step=by_step)


def compare_boards(
    model: Model,
    request: Request,
    devices: Sequence[Device] | None = None,
    *,
    sample: Sequence[np.ndarray] | None = None,
    progress: Progress | None = None,
) -> list[Fit]:
    """Measure a model for every known board, or for `devices`, and return one result per board.

    The model is planned once per core that has cycle constants of its own. A core without them takes the plan of a similar core
    that runs the same kernels. Boards with the same kernels and the same emulated core share one build and run, except boards
    whose Flash is beside the chip, for which the reads of Flash are counted.
    The request's core is replaced by each board's.
    """
    boards = all_devices() if devices is None else devices
    like = {device.core: _planned_like(device.core) for device in boards}
    planned = {core: make_plan(model, replace(request, core=core)) for core in dict.fromkeys(like.values())}
    plans = {core: planned[other] for core, other in like.items()}
    runs = {
        device: (plans[device.core].variants, emulated_core(device), device if device.bus and device.core in CORES else None)
        for device in boards
    }
    profiles = dict[tuple[tuple[str, ...], str, Device | None], Profile]()
    for device, run in runs.items():
        if run not in profiles:
            if progress:
                progress(f"building and running on the emulated {run[1]}", len(profiles), len(set(runs.values())))
            profiles[run] = profile_plan(model, plans[device.core], run[1], sample, device=run[2], by_step=False)
    return [Fit(device, plans[device.core], profiles[runs[device]]) for device in boards]


def _planned_like(core: str) -> str:
    """Return the core whose constants estimate cycles on `core` if it runs the same kernels, else `core` itself."""
    other = cost_model_core(core)
    return other if all((core in cores) == (other in cores) for cores in CORES_WITH.values()) else core


def flash_waits(core: str, device: Device | None) -> FlashWaits | None:
    """Return the cycles for which the core of `device` waits for its Flash, to be added to the estimated cycles.

    Return None if they are unknown, if `core` is not the device's core, or if its emulator counts no reads of Flash.
    """
    if device is None or device.core != core or core not in CORES or CORES[core].emulator != "unicorn":
        return None
    if (bus := device.bus) and (clock_hz := device.clock_hz):
        fills = [[Cycles(*bus.cycles(line, clock_hz, follows=follows)) for follows in (False, True)] for line in _lines(device)]
        return FlashWaits(LineWaits(*fills[0]), LineWaits(*fills[1]), bus.prefetch)
    if (waits := device.flash_waits) is None:
        return None
    # at most a clock of the bus for each transfer; request, access and answer each last a clock of a slower bus, not the core's
    slow = max(memory.bus_cycles for memory in device.memories)
    data = Cycles(waits, waits, waits + LINE_WORDS * slow + 3 * (slow - 1))
    # at best all code is prefetched in time, if it has a cache of its own
    code = data if any(cache.kind == "unified" for cache in device.caches) else data._replace(fewest=0)
    return FlashWaits(LineWaits(code, code), LineWaits(data, data))


def _lines(device: Device) -> list[int]:
    """Return the bytes of a line of the caches for code and for data; a device whose bus is known has both."""
    return [cache.line for cache in (device.cache("code"), device.cache("data")) if cache]


def flash_caches(core: str, device: Device | None) -> dict[str, tuple[int, int, int]]:
    """Return the caches (kind -> bytes, bytes per line, ways) between `core` and the Flash of `device`.

    The result is empty if reads of this Flash have no wait states, or if `core` is not the device's core.
    """
    caches = device.caches if device and (device.bus or device.flash_waits) and flash_waits(core, device) else ()
    return {cache.kind: (cache.bytes, cache.line, cache.ways) for cache in caches}


def _profile(run: target.Run, device: Device | None = None, *, by_step: bool = True) -> Profile:
    """Return the profile of a run on an emulated core.

    Totals come from the build that is shipped. If `by_step`, steps and layers come from a second build with a trace hook, whose
    calls take instructions too.
    """
    built, whole = run.build, run.first
    plan, core, waits = built.plan, built.target, flash_waits(built.target, device)
    traced = whole
    if by_step:
        # parameters that point to RAM are on the stack, where calls are not recognised by them: such stages are counted whole
        whole_ones = range(len(plan.variants)) if plan.weights_file else plan.copied
        split = [step for step, stage in enumerate(plan.stages) if stage.schedule and not {*whole_ones} & {*stage.ops}]
        layers = {plan.graph.ops[index].name: step for step in split for index in plan.stages[step].ops}
        traced = target.invoke(target.with_trace(built), run.sample, caches=flash_caches(core, device), layers=layers)
    others = foreign(plan.variants, core)
    reading = _reading(run, waits, device) if device and device.bus and waits and not others else None
    in_all, parts = ({} if others else emulated.cycles(core, ran, waits) for ran in (whole, traced))
    steps = emulated.by_step(parts)
    assert whole.instructions is not None and whole.stack is not None
    return Profile(
        core=core,
        compiler=built.compiler,
        foreign=tuple(others),
        instructions=whole.instructions,
        per_step=tuple(traced.per_step),
        per_layer=_by_layer(plan, traced.per_step, traced.per_part),
        cycles=next(iter(in_all.values()), None),
        cycles_per_step=tuple(steps),
        cycles_per_layer=_by_layer(plan, steps, parts),
        waits=waits.data.alone.likely if waits else None,
        reading=reading,
        reads=tuple(whole.reads),
        arena=dict(plan.arena),
        stack=whole.stack,
        **built.sizes,
    )


def _reading(run: target.Run, waits: FlashWaits, device: Device) -> FlashTraffic:
    """Return what a run read from the Flash beside the chip."""
    (missed,) = run.first.misses.values()  # of a build without a trace
    code, constants = (missed[what][0] * line for what, line in zip(("code", "data"), _lines(device), strict=True))
    return FlashTraffic(waits.of(missed), constants, code)


def _by_layer(plan: Plan, steps: Sequence[Count], parts: Mapping[StepPart, Count]) -> dict[str, Count]:
    """Return the count (instructions or cycles) of each layer: of its step or, in a fused stage, of its kernel calls."""
    counts = {layer: count for (_, layer), count in parts.items() if layer}
    whole = [(stage, count) for stage, count in zip(plan.stages, steps, strict=False) if stage.schedule is None]
    return counts | {plan.graph.ops[stage.ops[0]].name: count for stage, count in whole}


def deploy_model(
    model: Model,
    folder: Path,
    request: Request,
    device: Device | None = None,
    *,
    code: CodeOptions = PLAIN,
    proof: ProofOptions = USUAL,
    earlier: EarlierPlan = EarlierPlan(),
    progress: Progress | None = None,
) -> Deployment:
    """Plan a model, write its C into `folder`, build it, compare every output byte with the reference, and measure it.

    The C runs on the core of `device` or the nearest emulated core, or on DEFAULT_CORE without a device. If the program exceeds
    a limit, the model is planned again with the measured values, then by the other objectives, until a program meets all
    limits. The RAM and Flash of a row source are reserved within the request's limits.
    """
    source_of = code.row_source
    beside = row_source_bytes(model, source_of) if source_of else 0
    in_flash = compiled_bytes(row_source_files(model, source_of, code.pixels), device)["flash"] if source_of else 0
    allowed = request.limits.less(beside, in_flash)
    core, cases = emulated_core(device), proof.samples(model)
    report = progress or (lambda what, done, of: None)
    build = _builder(model, folder, device, code, report)
    run = partial(compare.run_samples, cases=cases, caches=flash_caches(core, device), progress=progress)
    measure = partial(compare.run_samples, cases=cases[:1], caches=flash_caches(core, device))
    whole = replace(request, limits=allowed, flash_to_balance=allowed.flash)
    known = {} if earlier.known is None else earlier.known  # shared by all plans below
    asked = _Asked(model, whole, device, replace(earlier, known=known), build, run)
    asked = replace(asked, earlier=replace(asked.earlier, plan=earlier.plan or asked.plan(allowed)))
    hopeless = _too_large(asked)
    there = run(build(hopeless)) if hopeless else _fitted(asked)
    is_over = not hopeless and any(_excess(there, allowed, device))
    if is_over and (others := _by_other_objectives(replace(asked, run=measure), there)):
        best = min([there, *others], key=lambda each: _excess(each, allowed, device))
        there = run(build(best.build.plan))
    right = reference_outputs(model, cases, progress)
    report(f"building for {compare.place_of(target.HOST)}", 0, 1)
    here = run(target.build(there.build.plan, folder, model.name, target.HOST, outside=model.outside), caches=None)
    verification = compare.verdict(right, cases, [here, there], progress)
    planned, measured = there.build.plan, _profile(there, device)
    own = [tuple(compare.unpack(there.build.outside, raw)) for raw in there.outputs[: len(proof.inputs)]]
    names, place = tuple(f"sample {number}" for number in range(len(own))), f"C on {compare.place_of(core)}"
    outputs = Outputs(model, place, names, tuple(own), preparation_of(model)[0]) if own else None
    about = planned, measured, verification, device, request.limits, source_of, beside, in_flash
    return Deployment(model, *about, outputs=outputs)


@dataclass(frozen=True)
class _Asked:
    """A request for a program of a model, and the functions that build a plan's program and run it."""

    model: Model
    request: Request
    device: Device | None
    earlier: EarlierPlan
    build: Callable[[Plan], target.Build]
    run: Callable[[target.Build], target.Run]

    def plan(self, limits: Limits, other_flash: tuple[planning.OtherFlash, ...] = ()) -> Plan:
        """Return the plan of the request with other limits."""
        return make_plan(self.model, replace(self.request, limits=limits, other_flash=other_flash), known=self.earlier.known)


def _builder(
    model: Model, folder: Path, device: Device | None, code: CodeOptions, report: Progress
) -> Callable[[Plan], target.Build]:
    """Return a function that writes the C of a plan into `folder`, replaces the files of its last call, and builds it."""
    core, emitted = emulated_core(device), list[str]()

    def build(planned: Plan) -> target.Build:
        for name in emitted:
            (folder / name).unlink()
        made = emit_c(model, planned, device, code)
        write(made, folder)
        emitted[:] = made.all
        report(f"building for {compare.place_of(core)}", 0, 1)
        return target.build(planned, folder, model.name, core, outside=model.outside)

    return build


def _too_large(asked: _Asked) -> Plan | None:
    """Return the plan with the least Flash if the lower bound on the Flash of each plan exceeds the limit, else None."""
    limits, first = asked.request.limits, asked.earlier.plan
    if limits.flash is None or first is None or estimate_flash(first, asked.device).lower_bound <= limits.flash:
        return None
    smallest = replace(asked, request=replace(asked.request, objective="flash")).plan(limits)
    return smallest if estimate_flash(smallest, asked.device).lower_bound > limits.flash else None


def _fitted(asked: _Asked) -> target.Run:
    """Return the run of a plan for a request, planned again with measured values if build or run exceed a limit.

    Each is done at most FLASH_REBUILDS or REBUILDS times.
    """
    allowed, earlier, build = asked.request.limits, asked.earlier, asked.build
    trades_flash = planning.trades_flash(asked.model.graph, with_defaults(asked.model, asked.request).core)
    first, fitting = earlier.plan or asked.plan(allowed), None
    other_flash: tuple[planning.OtherFlash, ...] = ()
    # The estimated code size may reject a plan that fits. So the plan without Flash limit is built, unless its constants
    # alone exceed the limit.
    if trades_flash and allowed.flash is not None and not earlier.stays:
        free = asked.plan(replace(allowed, flash=None))
        first = first if estimate_flash(free, asked.device).excess(allowed.flash) else free
    built = build(first)
    stays = earlier.stays and not _exceeds_flash(built, allowed)
    for _ in range(FLASH_REBUILDS if (trades_flash or _exceeds_flash(built, allowed)) and not stays else 0):
        fitting = fitting if _exceeds_flash(built, allowed) else built.plan
        other_flash += (_other_flash(built),)
        replanned = asked.plan(allowed, other_flash)
        if _has_same_code(replanned, built.plan):
            break
        built = build(replanned)
    if fitting is not None and _exceeds_flash(built, allowed):  # the code of newly chosen kernels is larger than estimated
        built = build(fitting)
    there = asked.run(built)
    for _ in range(REBUILDS):
        stricter = _stricter(allowed, there, asked.device)
        replanned = asked.plan(stricter, other_flash) if stricter else built.plan
        if _has_same_code(replanned, built.plan):
            break
        built = build(replanned)
        there = asked.run(built)
    return there


def _by_other_objectives(asked: _Asked, there: target.Run) -> list[target.Run]:
    """Return runs of plans by the other objectives, up to the first that meets all limits, for a run that exceeds a limit.

    Plans that equal an earlier one, or whose arena alone exceeds the RAM, are not built.
    """
    allowed, device, runs, seen = asked.request.limits, asked.device, list[target.Run](), [there.build.plan]
    for objective in other_objectives(there.build.plan.objective, _excess(there, allowed, device)):
        other = replace(asked, request=replace(asked.request, objective=objective))
        for limits in (allowed, _stricter(allowed, there, device) or allowed):
            plan = other.plan(limits)
            if allowed.ram_excess(plan.arena) or any(_is_same(plan, earlier) for earlier in seen):
                continue
            runs.append(_fitted(replace(other, earlier=replace(asked.earlier, plan=plan, stays=False))))
            seen += [plan, runs[-1].build.plan]
            if not any(_excess(runs[-1], allowed, device)):
                return runs
    return runs


def _has_same_code(plan: Plan, other: Plan) -> bool:
    return (plan.stages, plan.variants, plan.copies) == (other.stages, other.variants, other.copies)


def _is_same(plan: Plan, other: Plan) -> bool:
    return (plan.stages, plan.variants, plan.offsets) == (other.stages, other.variants, other.offsets)


def _excess(run: target.Run, limits: Limits, device: Device | None) -> tuple[float, float, float]:
    """Return by how much a run exceeds the limits of RAM and Flash (bytes) and of time (ms)."""
    over = excess(_profile(run, device, by_step=False), limits)
    return over["ram"], over["flash"], over["latency_ms"]


def _stricter(limits: Limits, run: target.Run, device: Device | None) -> Limits | None:
    """Return tighter limits with which to plan again after a run that exceeded `limits`, or None if it met them.

    The RAM limit is lowered by the measured stack and static data. If the run was too slow, the time limit is multiplied by the
    ratio of estimated to measured cycles.
    """
    plan, stack, latency_ms = run.build.plan, run.first.stack, limits.latency_ms
    assert stack is not None, "it ran on an emulated core"
    if latency_ms is not None:
        taken, foreseen = _profile(run, device, by_step=False).cycles, estimate_cycles(plan, device)
        layers = limits.beside_reads(planning.read_sizes(plan))
        if taken is not None and foreseen is not None and foreseen.at_least and layers.latency_excess(taken.likely):
            latency_ms *= foreseen.at_least / taken.likely
    rest = run.build.sizes["static"] + stack
    if latency_ms == limits.latency_ms and not limits.ram_excess(plan.arena, rest):
        return None
    return replace(limits.less(rest), latency_ms=latency_ms)


def _exceeds_flash(built: target.Build, limits: Limits) -> bool:
    """Return whether a build needs more Flash than the limit."""
    return limits.flash is not None and _flash(built) > limits.flash


def _flash(built: target.Build) -> int:
    """Return the Flash of a build in bytes: weights, tables and code."""
    return sum(built.sizes[part] for part in ("weights", "tables", "code"))


def _other_flash(built: target.Build) -> planning.OtherFlash:
    """Return the measured Flash of a build besides the constants of its kernels, and the names of these kernels.

    When the model is planned again, the planner adds the constants of each plan that it considers.
    """
    plan = built.plan
    rest = _flash(built) - planning.constant_bytes(plan.graph, plan.variants)
    return planning.OtherFlash(rest, frozenset(plan.variants) - {""}, planning.fused_layers(plan))


def boards_that_fit(profile: Profile, more_ram: int = 0, more_flash: int = 0) -> list[Device]:
    """Return the known boards whose RAM and Flash hold the measured program.

    The size of the code is not measured again for each board's core, although it differs slightly. A board of unknown RAM or
    Flash is included if the known one suffices. `more_ram` and `more_flash` are bytes of other code in the program, such as the
    C that reads the input from a camera.
    """
    return [d for d in all_devices() if not any(excess(profile, Limits(d.ram, d.flash), more_ram, more_flash).values())]
