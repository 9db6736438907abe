"""Plans: of a model within limits, and what can be said of one without building it.

In: a Model, a device or its limits, options. Out: checked Plans, and explanations, counts and orders.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from .. import planning
from ..codegen import constant_bytes
from ..devices import Device, parse_size
from ..exporters import tflite as tflite_exporter
from ..files import read_file
from ..ir import CompileError, shortened
from ..kernels.layer_cycles import FlashReads, cost_model_core
from ..kernels.table import foreign
from ..ops import macs
from ..papers import counts
from ..papers.chain import Chain, chain_of
from ..planning import Aim, Plan, Progress
from ..planning.ablation import ablation as planning_ablation
from ..planning.alias.overlap import views
from ..planning.explain import Explanation
from ..planning.explain import explain as explain_tensor
from ..planning.kernels.cycles import CycleEstimate, cycles_per_op, plan_cycles
from ..planning.kernels.flash_budget import code_range
from ..planning.order.search import best_order, each_its_own
from ..results import FlashNeed, Limits, Model, Reordering
from ..simulate.instruction_timing import TIMINGS, milliseconds
from .models import check_kernels

DEFAULT_CORE = "cortex-m4"
OPTIMIZE: tuple[Aim, ...] = ("balanced", "speed", "size")
OTHER_SCHEDULES = ("layer", "patch", "msf", "stream2d")  # how others plan
TFLITE_MICRO_CODE = 26_752  # bytes, the least of eight networks with int8 kernels only, see bench/models.py
MAX_PLAN = 1 << 26  # bytes of a file
COUNTS = {"live": views, "working_set": each_its_own}
PLAN_COUNTS = ("live", *counts.COUNTS)
FORESEEN = tuple(core for core in TIMINGS if cost_model_core(core) == core)  # cores with cycles by the shapes of layers, too


def plan(
    model: Model,
    schedule: str = "best",
    limits: Limits | None = None,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    optimize: str | None = None,
    core: str = DEFAULT_CORE,
    other_flash: planning.OtherFlash | None = None,
    known: planning.KnownSpaces | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the checked memory plan of a model, in the memories of `limits` if there are several.

    With `stream_inputs` a callback brings its inputs row by row, with `stream_outputs` one takes those outputs row by row of
    which that can be done: Plan.streamed_outputs says which. It executes at most `max_mac_overhead` times the
    multiply-accumulates of the network after the passes: none twice if left out, but any with `patch` and `msf`.
    `optimize="size"` is the plan of least memory, with the kernels for all cores, which need no scratch and less code, unless
    time is limited. The others have the fast kernels of `core`: of the plans within the limits `"speed"` is the one with the
    fewest cycles, estimated, and `"balanced"` the one with the least product of bytes and cycles. Left out it is the fastest
    within a RAM limit that is given, else balanced. Where kernels save cycles by more constants, these may fill the Flash, but
    only at `"speed"` more of it than TFLite Micro needs with the model's file; other_flash: what lies there besides the
    constants of the layers, estimated if left out. known: as of `Choices`, for those who plan a model several times.
    """
    allowed = limits or Limits(None, None)
    made = choices(
        model,
        schedule,
        allowed,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        optimize=optimize,
        core=core,
        other_flash=other_flash,
        known=known,
    )
    return chosen(made, allowed, optimize, progress=progress)


def choices(
    model: Model,
    schedule: str,
    limits: Limits,
    *,
    stream_inputs: bool,
    stream_outputs: bool,
    max_mac_overhead: float | None,
    optimize: str | None,
    core: str,
    other_flash: planning.OtherFlash | None = None,
    known: planning.KnownSpaces | None = None,
) -> planning.Choices:
    """Return what `plan` chooses from with these options; of the limits it depends on that of Flash, how that is read, and
    whether time is limited."""
    check_kernels(model)
    aim = aim_of(optimize, limits)
    return planning.Choices(
        model.graph,
        schedule,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        core=core_with_kernels(aim, core, limits),
        flash=_flash(model, aim, limits),
        other_flash=other_flash,
        reads=limits.reads,
        known=known,
    )


def chosen(
    choices: planning.Choices,
    limits: Limits,
    optimize: str | None,
    *,
    checked: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan that `plan` chooses; not `checked`, it is to be judged and not to be used."""
    return choices.plan(
        aim_of(optimize, limits),
        maps=limits.maps,
        ram_limit=limits.ram,
        cycle_limit=limits.cycles,
        checked=checked,
        progress=progress,
    )


def front(
    model: Model,
    limits: Limits | None = None,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    core: str = DEFAULT_CORE,
    known: planning.KnownSpaces | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return the plans of which none needs as little RAM and as few cycles as another, the fewest cycles first.

    Options as for `plan`, which chooses one of them; those above the limits are there too.
    """
    made = choices(
        model,
        "best",
        limits or Limits(None, None),
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        optimize=None,
        core=core,
        known=known,
    )
    return [_in_memories(each, limits) for each in made.front(progress, checked=False)]


def by_flash(
    model: Model,
    limits: Limits | None = None,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    core: str = DEFAULT_CORE,
    known: planning.KnownSpaces | None = None,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return plans within the limits of RAM and Flash of which none needs as few constants and as few cycles as another, the
    fewest cycles first.

    Options as for `front`. They may fill more Flash than TFLite Micro needs.
    """
    allowed = limits or Limits(None, None)
    made = choices(
        model,
        "best",
        replace(allowed, flash=None),
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        optimize="speed",
        core=core,
        known=known,
    )
    plans = made.by_flash(allowed.ram, progress)
    return [_in_memories(each, limits) for each in plans if allowed.flash is None or constant_bytes(each) <= allowed.flash]


def standing(
    model: Model,
    limits: Limits | None = None,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    core: str = DEFAULT_CORE,
    known: planning.KnownSpaces | None = None,
    progress: Progress | None = None,
) -> dict[str, Plan | CompileError]:
    """Return the plan by each of the OTHER_SCHEDULES, whatever RAM and time it needs, or why there is none.

    Options as for `front`; one that a schedule has no use for is left out.
    """
    flash = Limits(None, limits.flash, reads=limits.reads) if limits else Limits(None, None)
    known = {} if known is None else known
    plans = dict[str, Plan | CompileError]()
    for number, schedule in enumerate(OTHER_SCHEDULES):
        if progress:
            progress(f"schedule {schedule}", number, len(OTHER_SCHEDULES))
        try:
            made = choices(
                model,
                schedule,
                flash,
                stream_inputs=stream_inputs,
                stream_outputs=stream_outputs,
                max_mac_overhead=max_mac_overhead if schedule in planning.RECOMPUTING else None,
                optimize=None,
                core=core,
                known=known,
            )
            plans[schedule] = _in_memories(chosen(made, flash, None, checked=False), limits, overlap=schedule != "layer")
        except CompileError as error:
            plans[schedule] = error
    return plans


def _in_memories(plan: Plan, limits: Limits | None, *, overlap: bool = True) -> Plan:
    """Return a plan divided among the memories of `limits`; as it is, in one, where they are not given or do not hold it. It is
    checked."""
    parts = planning.divided(plan, limits.maps, overlap=overlap, checked=False) if limits and limits.maps else plan
    return planning.check(parts if limits and not limits.ram_excess(parts.arena) else plan)


def aim_of(optimize: str | None, limits: Limits) -> Aim:
    """Return what a plan is chosen by; CompileError for an unknown name."""
    if optimize is None:
        return "speed" if limits.ram is not None and not limits.maps else "balanced"
    if optimize not in OPTIMIZE:
        raise CompileError(f"--optimize {optimize} is unknown", f"it is one of {', '.join(OPTIMIZE)}")
    return optimize


def core_with_kernels(aim: Aim, core: str, limits: Limits) -> str:
    """Return the core whose fast kernels a plan may have, "" for none."""
    return "" if aim == "size" and limits.cycles is None else core


def _flash(model: Model, aim: Aim, limits: Limits) -> int | None:
    """Return the bytes of Flash that kernels may fill with constants; None: any."""
    sizes = [limits.flash, len(model.file) + TFLITE_MICRO_CODE if aim != "speed" else None]
    return min((size for size in sizes if size is not None), default=None)


def limits_of(
    device: Device | None,
    ram: int | str | None = None,
    flash: int | str | None = None,
    latency_ms: float | None = None,
) -> Limits:
    """Return the limits that are given, in bytes or as text such as "64k", else those of the device, if there is one.

    Raise CompileError for a `latency_ms` where cycles or the clock are not known.
    """
    limits = device_limits(device) if device else Limits(None, None)
    if ram is not None:
        limits = replace(limits, ram=parse_size(ram), maps=())
    if flash is not None:
        limits = replace(limits, flash=parse_size(flash))
    return limits if latency_ms is None else replace(limits, latency_ms=latency_ms, clock_hz=_clock(device, latency_ms))


def _clock(device: Device | None, latency_ms: float) -> float:
    """Return the clock by which cycles are compared with a time limit."""
    if not 0 < latency_ms < math.inf:
        raise CompileError(f"--latency-ms {latency_ms:g} is no time", "give milliseconds above 0, for example 25")
    if device is None:
        raise CompileError("--latency-ms needs a clock", "name a board with --device")
    if device.core not in FORESEEN:
        of_a_run = f"cycles are not foreseen for a {device.core}, only those of a run are estimated"
        why = of_a_run if device.core in TIMINGS else f"the timings of a {device.core} are not known"
        raise CompileError(f"--latency-ms: {why}", f"leave it out; known are {', '.join(FORESEEN)}")
    if device.clock_hz is None:
        raise CompileError(f"--latency-ms: '{device.name}' has no clock", "name a board, or a TOML file with clock_hz")
    if not math.isfinite(latency_ms * device.clock_hz):
        raise CompileError(f"--latency-ms {latency_ms:g} is too long to count its cycles", "leave it out")
    return device.clock_hz


def device_limits(device: Device) -> Limits:
    """Return what a device has: nothing is limited where it is a core alone."""
    maps = device.memory_maps
    return Limits(sum(maps[0].values()) if maps else None, device.flash, maps, reads=flash_reads(device))


def flash_reads(device: Device) -> FlashReads | None:
    """Return how a device reads its Flash; None where its file does not say how long that waits, or lacks one of its caches."""
    caches = {cache.kind: cache for cache in device.caches}
    data, code = (caches.get(kind, caches.get("unified")) for kind in ("data", "code"))
    if not device.flash_waits or data is None or code is None:
        return None
    return FlashReads(device.flash_waits, data.line, data.bytes, code.line, code.bytes)


def cycles_needed(plan: Plan, device: Device | None) -> CycleEstimate | None:
    """Return the cycles that a plan takes on a device, by its layers' shapes; None for a core not in FORESEEN."""
    return plan_cycles(plan, device.core, flash_reads(device)) if device is not None and device.core in FORESEEN else None


def layer_cycles_needed(plan: Plan, device: Device | None) -> dict[str, int]:
    """Return layer -> the cycles that it takes on a device by its shapes, of those layers whose kernels have timings."""
    if device is None or device.core not in FORESEEN:
        return {}
    cycles = cycles_per_op(plan, device.core, flash_reads(device))
    return {plan.graph.ops[index].name: round(count) for index, count in cycles.items() if count is not None}


def latency_ms(plan: Plan, device: Device | None) -> float | None:
    """Return the milliseconds that a plan takes on a device by its layers' shapes, without kernels that have no timings."""
    needed = cycles_needed(plan, device)
    is_known = needed is not None and needed.at_least is not None and device.clock_hz is not None
    return milliseconds(needed.at_least, device.clock_hz) if is_known else None


def latency_excess(plan: Plan, device: Device | None, limits: Limits) -> float | None:
    """Return the milliseconds that a plan takes too long by its layers' shapes, 0 if none; None where that is not known."""
    needed = cycles_needed(plan, device)
    return needed and (limits.latency_excess(needed.at_least) or limits.latency_excess(needed.cycles))


def flash_need(plan: Plan, device: Device | None = None) -> FlashNeed:
    """Return what a plan needs of Flash, on the core of `device` or a Cortex-M4."""
    constants = constant_bytes(plan)
    lower_bound, upper_bound = code_range(plan, device.core if device else DEFAULT_CORE)
    return FlashNeed(constants, constants + lower_bound, constants + upper_bound)


def read_plan(path: str | Path, model: Model, core: str | None = None) -> Plan:
    """Return the plan of a file that `plan.to_json` wrote for this model, checked; nothing is proved of its size.

    Raise CompileError where it is damaged, made for another model, or, with a `core`, has kernels that this core cannot run.
    """
    file = read_file(Path(path), MAX_PLAN, "give a file of 'tinyweave plan MODEL -o FILE'")
    try:
        plan = replace(planning.from_json(file.decode("utf-8", "replace"), model.graph), lower_bound=0)
        check_plan(plan, model, core)
    except CompileError as error:
        raise CompileError(f"{path}: {error}") from error
    return plan


def check_plan(plan: Plan, model: Model, core: str | None = None) -> None:
    """Raise CompileError where a plan is another model's, or, with a `core`, has kernels that this core cannot run."""
    if core is not None and (others := foreign(plan.variants, core)):
        raise CompileError(f"the plan has kernels that a {core} cannot run, such as {others[0]}", "plan for this device")
    planning.from_json(planning.to_json(plan), model.graph)


def ablation(model: Model, plan: Plan, schedule: str) -> dict[str, int]:
    """Return technique of the planner -> bytes of the arena with it and all before it; `plan` is the model's, of `schedule`."""
    return planning_ablation(model.graph, plan, schedule)


def explain(model: Model, plan: Plan, name: str) -> Explanation:
    """Return why a tensor lies where it lies; `name` is the model's, or the one that the plan's picture and the C have."""
    graph = plan.graph
    known = {buffer.name: buffer.name for buffer in plan.buffers} | {tensor: tensor for tensor in plan.places}
    for position, tensor in enumerate(graph.inputs):
        known.setdefault("input" if len(graph.inputs) == 1 else f"input_{position}", tensor)
    for op in graph.ops:
        for position, tensor in enumerate(op.outputs):
            known.setdefault(f"{op.name}_{position}" if position else op.name, tensor)
    if name in known:
        return explain_tensor(plan, known[name])
    if name in graph.tensors:
        constant = f"is a constant of {graph.tensors[name].bytes:,} B, which lies in Flash"
        raise CompileError(constant, "explain an activation", tensor=name)
    if name in model.original.tensors:
        raise CompileError("is in the file, but not in the network after the passes", "see 'tinyweave inspect'", tensor=name)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:3]
    raise CompileError(f"no tensor '{shortened(name)}' in the plan", f"did you mean {', '.join(map(shortened, near))}?")


def counted_chain(model: Model, count: str) -> Chain | None:
    """Return what a paper's count is of in a model; None for `live`, which counts everything."""
    if count not in PLAN_COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(PLAN_COUNTS)}")
    if count == "live":
        return None
    with _counting(count):
        return chain_of(model.graph)


def counted(model: Model, plan: Plan, count: str, chain: Chain, *, max_mac_overhead: float, ram: int | None) -> counts.Counted:
    """Return what a paper finds for the same network within the same limits by its own count, and what the plan needs by it."""
    with _counting(count):
        return counts.counted(count, plan, chain, work=macs(model.graph), overhead=max_mac_overhead, ram=ram)


@contextmanager
def _counting(count: str) -> Iterator[None]:
    """Say what a count is not defined for with the count's name."""
    try:
        yield
    except CompileError as error:
        raise CompileError(f"--count {count}: {error}") from error


def reorder(model: Model, count: str = "live") -> Reordering:
    """Return the file of `model` with its ops in the order of the least peak; LiteRT computes the same from it.

    `count` says what is summed up: `live`, where views lie in their source, or `working_set`, where each tensor is its own.
    """
    if count not in COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(COUNTS)}")
    owner = COUNTS[count](model.original)
    best = best_order(model.original, owner)
    return Reordering(model, count, owner, best, tflite_exporter.reordered(model.file, best.ops))
