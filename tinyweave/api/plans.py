"""Plan a model within limits, and analyse plans without building them."""

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
from ..planning import Limits, Objective, Plan, Progress, Request
from ..planning.alias.overlap import views
from ..planning.explain import Explanation
from ..planning.explain import explain as explain_tensor
from ..planning.kernels.cycles import CycleEstimate, cycles_per_op, plan_cycles
from ..planning.kernels.flash_budget import code_range
from ..planning.order.search import best_order, without_views
from ..simulate.instruction_timing import TIMINGS, milliseconds
from .models import check_kernels
from .options import PlanOptions
from .results import FlashEstimate, Model, Reordering

DEFAULT_CORE = "cortex-m4"
SMALLEST = Request(objective="size", core=DEFAULT_CORE)  # the plan with the least RAM, and little code
OPTIMIZE: tuple[Objective, ...] = ("balanced", "speed", "size", "flash")
OTHER_SCHEDULES = ("layer", "patch", "msf", "stream2d")  # strategies of other planners
TFLITE_MICRO_CODE = 26_752  # bytes, the least of eight networks with int8 kernels only, see bench/models.py
MAX_PLAN = 1 << 26  # bytes of a file
COUNTS = {"live": views, "working_set": without_views}
PLAN_COUNTS = ("live", *counts.COUNTS)
COST_MODEL_CORES = tuple(core for core in TIMINGS if cost_model_core(core) == core)  # cores


def request_of(options: PlanOptions, device: Device | None = None) -> Request:
    """Return the planner's request for options and a device; limits that the options leave out are the device's."""
    if options.optimize is not None and options.optimize not in OPTIMIZE:
        raise CompileError(f"--optimize {options.optimize} is unknown", f"it is one of {', '.join(OPTIMIZE)}")
    return Request(
        options.schedule,
        options.optimize,
        limits_of(device, options.ram, options.flash, options.latency_ms),
        options.max_mac_overhead,
        options.stream_inputs,
        options.stream_outputs,
        device.core if device else DEFAULT_CORE,
    )


def with_defaults(model: Model, request: Request) -> Request:
    """Return a request with the defaults that depend on its limits and on the model.

    The default objective is `speed` if the RAM is limited, else `balanced`. Objective `size` uses portable kernels, which need
    no scratch and less code, unless the time is limited or the core's own kernels give a smaller arena. Other objectives may
    fill the Flash limit with constants; all but `speed` use at most the Flash that TFLite Micro needs for the model's file.
    `balanced` compares the RAM with the Flash of the device or of the user's limit.
    """
    limits = request.limits
    objective = request.objective or ("speed" if limits.ram is not None and not limits.maps else "balanced")
    sizes = [limits.flash, len(model.file) + TFLITE_MICRO_CODE if objective != "speed" else None]
    flash = min((size for size in sizes if size is not None), default=None)
    is_portable = objective == "size" and limits.cycles is None
    core, fallback = ("", request.core) if is_portable else (request.core, "")
    to_balance = request.flash_to_balance or limits.flash
    limits = replace(limits, flash=flash)
    return replace(request, objective=objective, limits=limits, core=core, fallback_core=fallback, flash_to_balance=to_balance)


def make_plan(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> Plan:
    """Return the checked plan of a model for a request, with the defaults of `with_defaults`; `known` caches plan spaces."""
    return choices(model, request, known).plan(progress=progress)


def choices(model: Model, request: Request, known: planning.SpaceCache | None = None) -> planning.PlanSearch:
    """Return the plans that `make_plan` chooses from; raise CompileError if an op has no kernel."""
    check_kernels(model)
    return planning.PlanSearch(model.graph, with_defaults(model, request), known)


def front(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> list[Plan]:
    """Return the Pareto-optimal plans in RAM and cycles, the fewest cycles first.

    Plans above the RAM and time limits are included. Strategy and objective of the request are ignored.
    """
    made = choices(model, replace(request, strategy="best", objective="speed"), known)
    return [_in_memories(each, request.limits) for each in made.front(progress, checked=False)]


def flash_front(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> list[Plan]:
    """Return the Pareto-optimal plans in constants and cycles within the RAM and Flash limits, the fewest cycles first.

    They may use more Flash than TFLite Micro. Strategy and objective of the request are ignored.
    """
    limits = request.limits
    unlimited = replace(request, strategy="best", objective="speed", limits=replace(limits, flash=None))
    plans = choices(model, unlimited, known).by_flash(limits.ram, progress)
    return [_in_memories(each, limits) for each in plans if limits.flash is None or constant_bytes(each) <= limits.flash]


def baseline_plans(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> dict[str, Plan | CompileError]:
    """Return the plan of each of OTHER_SCHEDULES without RAM and time limits, or the error if there is none.

    Options that a strategy cannot use are ignored.
    """
    known = {} if known is None else known
    limits = Limits(flash=request.limits.flash, reads=request.limits.reads)
    plans = dict[str, Plan | CompileError]()
    for number, strategy in enumerate(OTHER_SCHEDULES):
        if progress:
            progress(f"schedule {strategy}", number, len(OTHER_SCHEDULES))
        overhead = request.max_mac_overhead if strategy in planning.RECOMPUTING else None
        one = replace(request, strategy=strategy, objective=None, limits=limits, max_mac_overhead=overhead)
        try:
            plan = choices(model, one, known).plan(checked=False)
            plans[strategy] = _in_memories(plan, request.limits, overlap=strategy != "layer")
        except CompileError as error:
            plans[strategy] = error
    return plans


def _in_memories(plan: Plan, limits: Limits, *, overlap: bool = True) -> Plan:
    """Return the plan, checked; if there are memory maps and it fits one, it is divided among its memories."""
    parts = planning.distribute_over_maps(plan, limits.maps, overlap=overlap, checked=False) if limits.maps else plan
    return planning.check(plan if limits.ram_excess(parts.arena) else parts)


def limits_of(
    device: Device | None,
    ram: int | str | None = None,
    flash: int | str | None = None,
    latency_ms: float | None = None,
) -> Limits:
    """Return the given limits, in bytes or as text such as "64k"; limits that are None are the device's.

    Raise CompileError for a `latency_ms` if the cycles or the clock of the device are unknown.
    """
    limits = device_limits(device) if device else Limits()
    if ram is not None:
        limits = replace(limits, ram=parse_size(ram), maps=())
    if flash is not None:
        limits = replace(limits, flash=parse_size(flash))
    return limits if latency_ms is None else replace(limits, latency_ms=latency_ms, clock_hz=_clock(device, latency_ms))


def _clock(device: Device | None, latency_ms: float) -> float:
    """Return the device's clock in Hz; raise CompileError if a time limit cannot be compared with estimated cycles."""
    if not 0 < latency_ms < math.inf:
        raise CompileError(f"--latency-ms {latency_ms:g} is not a time", "give milliseconds above 0, for example 25")
    if device is None:
        raise CompileError("--latency-ms needs a clock", "name a board with --device")
    if device.core not in COST_MODEL_CORES:
        known = f"the cycles of a {device.core} are only estimated from a run, not from a plan"
        why = known if device.core in TIMINGS else f"the timings of a {device.core} are unknown"
        raise CompileError(f"--latency-ms: {why}", f"leave it out; cores with estimates are {', '.join(COST_MODEL_CORES)}")
    if device.clock_hz is None:
        raise CompileError(f"--latency-ms: '{device.name}' has no clock", "name a board, or a TOML file with clock_hz")
    if not math.isfinite(latency_ms * device.clock_hz):
        raise CompileError(f"--latency-ms {latency_ms:g} is too long to count its cycles", "leave it out")
    return device.clock_hz


def device_limits(device: Device) -> Limits:
    """Return the RAM, Flash and memory maps of a device as limits; no limits for a core without memories."""
    maps = device.memory_maps
    return Limits(sum(maps[0].values()) if maps else None, device.flash, maps, reads=flash_reads(device))


def flash_reads(device: Device) -> FlashReads | None:
    """Return how a device reads its Flash, or None if its wait cycles or one of its caches is unknown."""
    caches = {cache.kind: cache for cache in device.caches}
    data, code = (caches.get(kind, caches.get("unified")) for kind in ("data", "code"))
    if not device.flash_waits or data is None or code is None:
        return None
    return FlashReads(device.flash_waits, data.line, data.bytes, code.line, code.bytes)


def estimate_cycles(plan: Plan, device: Device | None) -> CycleEstimate | None:
    """Estimate the cycles of a plan on a device from its layers' shapes; None if its core has no cycle model."""
    return (
        plan_cycles(plan, device.core, flash_reads(device)) if device is not None and device.core in COST_MODEL_CORES else None
    )


def estimate_layer_cycles(plan: Plan, device: Device | None) -> dict[str, int]:
    """Estimate the cycles of each layer on a device; layers whose kernels have no timings are left out."""
    if device is None or device.core not in COST_MODEL_CORES:
        return {}
    cycles = cycles_per_op(plan, device.core, flash_reads(device))
    return {plan.graph.ops[index].name: round(count) for index, count in cycles.items() if count is not None}


def estimate_latency_ms(plan: Plan, device: Device | None) -> float | None:
    """Estimate the milliseconds of a plan on a device, without kernels that have no timings; None if unknown."""
    needed = estimate_cycles(plan, device)
    if needed is None or needed.at_least is None or device is None or device.clock_hz is None:
        return None
    return milliseconds(needed.at_least, device.clock_hz)


def latency_excess(plan: Plan, device: Device | None, limits: Limits) -> float | None:
    """Estimate the milliseconds by which a plan exceeds the time limit, 0 if it does not; None if unknown."""
    needed = estimate_cycles(plan, device)
    return needed and (limits.latency_excess(needed.at_least) or limits.latency_excess(needed.cycles))


def estimate_flash(plan: Plan, device: Device | None = None) -> FlashEstimate:
    """Estimate the Flash of a plan on the core of `device`, or on DEFAULT_CORE."""
    constants = constant_bytes(plan)
    lower_bound, upper_bound = code_range(plan, device.core if device else DEFAULT_CORE)
    return FlashEstimate(constants, constants + lower_bound, constants + upper_bound)


def read_plan(path: str | Path, model: Model, core: str | None = None) -> Plan:
    """Return the plan in a file that `plan.to_json` wrote for this model, checked, with a lower bound of 0.

    Raise CompileError if it is damaged, of another model, or has kernels that `core` cannot run.
    """
    file = read_file(Path(path), MAX_PLAN, "give a file of 'tinyweave plan MODEL -o FILE'")
    try:
        plan = replace(planning.from_json(file.decode("utf-8", "replace"), model.graph), lower_bound=0)
        check_plan(plan, model, core)
    except CompileError as error:
        raise CompileError(f"{path}: {error}") from error
    return plan


def check_plan(plan: Plan, model: Model, core: str | None = None) -> None:
    """Raise CompileError if a plan is of another model, or has kernels that `core` cannot run."""
    if core is not None and (others := foreign(plan.variants, core)):
        raise CompileError(f"the plan has kernels that a {core} cannot run, such as {others[0]}", "plan for this device")
    planning.from_json(planning.to_json(plan), model.graph)


def explain(model: Model, plan: Plan, name: str, core: str = "") -> Explanation:
    """Explain the address of a tensor and the choice of its kernel; without a core ("") only the address.

    `name` is the tensor's name in the model, in the drawing of the plan or in the C.
    """
    graph = plan.graph
    known = {buffer.name: buffer.name for buffer in plan.buffers} | {tensor: tensor for tensor in plan.places}
    for position, tensor in enumerate(graph.inputs):
        known.setdefault("input" if len(graph.inputs) == 1 else f"input_{position}", tensor)
    for op in graph.ops:
        for position, tensor in enumerate(op.outputs):
            known.setdefault(f"{op.name}_{position}" if position else op.name, tensor)
    if name in known:
        return explain_tensor(plan, known[name], core)
    if name in graph.tensors:
        constant = f"is a constant of {graph.tensors[name].bytes:,} B in Flash"
        raise CompileError(constant, "explain an activation", tensor=name)
    if name in model.original.tensors:
        raise CompileError("is in the file, but the passes removed it", "see 'tinyweave inspect'", tensor=name)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:3]
    raise CompileError(f"no tensor '{shortened(name)}' in the plan", f"did you mean {', '.join(map(shortened, near))}?")


def paper_chain(model: Model, count: str) -> Chain | None:
    """Return the chain of layers that a paper's way of counting applies to; None for `live`, which counts all tensors."""
    if count not in PLAN_COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(PLAN_COUNTS)}")
    if count == "live":
        return None
    with _counting(count):
        return chain_of(model.graph)


def paper_count(
    model: Model, plan: Plan, count: str, chain: Chain, *, max_mac_overhead: float, ram: int | None
) -> counts.Counted:
    """Return a paper's result for the same network and limits, and the plan's size by the paper's way of counting."""
    with _counting(count):
        return counts.counted(count, plan, chain, work=macs(model.graph), overhead=max_mac_overhead, ram=ram)


@contextmanager
def _counting(count: str) -> Iterator[None]:
    """Put the option --count before the message of a CompileError."""
    try:
        yield
    except CompileError as error:
        raise CompileError(f"--count {count}: {error}") from error


def reorder_model(model: Model, count: str = "live") -> Reordering:
    """Return the model's file with its ops in the order of least peak memory that a bounded search found.

    LiteRT computes the same results. The result's `best` has the peak and a lower bound on the peak of all orders: a better
    order may exist if they differ. `count` is `live`, where views share the memory of their source, or `working_set`, where
    each tensor has its own.
    """
    if count not in COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(COUNTS)}")
    owner = COUNTS[count](model.original)
    best = best_order(model.original, owner)
    return Reordering(model, count, owner, best, tflite_exporter.reordered(model.file, best.ops))
