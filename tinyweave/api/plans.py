"""Plan a model within limits, and estimate and explain plans without building them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .. import planning
from ..codegen import constant_bytes, constants_of
from ..devices import Device, parse_size
from ..exporters import tflite as tflite_exporter
from ..ir import CompileError, Graph, shortened
from ..kernels.layer_cycles import EXECUTED, FlashReads, cost_model_core
from ..kernels.table import foreign
from ..ops import spec_of
from ..planning import Limits, Objective, Plan, Progress, Request
from ..planning.alias.overlap import views
from ..planning.explain import Explanation
from ..planning.explain import explain as explain_tensor
from ..planning.kernels.cycles import CycleEstimate, cycles_per_op, cycles_to_compare, plan_cycles
from ..planning.kernels.flash_budget import code_range
from ..planning.kernels.stack import stack_bytes
from ..planning.layouts import MOST_POINTS
from ..planning.order.order_search import best_order
from ..planning.request import reading_ms
from ..planning.search.pareto import COSTS, Candidate, most_distinct
from ..planning.search.path_search import pareto_front
from ..simulate.instruction_timing import TIMINGS, Cycles, milliseconds
from ..support.files import read_file
from .models import check_kernels
from .options import PlanOptions
from .results import FileReads, FlashEstimate, FlashTraffic, Model, Reordering

DEFAULT_CORE = "cortex-m4"
# the plan with the least arena, whatever its stack, since no plan is within 0 bytes; its code is small
SMALLEST = Request(objective="size", limits=Limits(0), core=DEFAULT_CORE)
OPTIMIZE: tuple[Objective, ...] = ("balanced", "speed", "size", "flash")
WEIGHTS = ("flash", "auto", "ram", "file", "fetch")  # where constants are while the network runs
MORE_STACK = 256  # bytes of RAM that copies of constants leave beside the estimated stack
PARTS = 16  # limits of the RAM for copies that a front has, as parts of the bytes of all constants
OTHER_SCHEDULES = ("layer", "patch", "msf")  # strategies of other planners
# bytes of TFLite Micro's code: the smallest of eight networks with int8 kernels only, see bench/models.py
TFLITE_MICRO_CODE = 26_752
MAX_PLAN = 1 << 26  # bytes of a plan's file
COST_MODEL_CORES = tuple(core for core in TIMINGS if cost_model_core(core) == core)  # cores with cycle constants of their own


def request_of(options: PlanOptions, device: Device | None = None) -> Request:
    """Return the planner's request for options and a device.

    Limits that the options leave out are the device's. Without a device, the core is DEFAULT_CORE. Raise CompileError if
    `optimize` is unknown, a size is malformed, or a time limit needs a clock or a cycle model.
    """
    if options.optimize is not None and options.optimize not in OPTIMIZE:
        raise CompileError(f"--optimize {options.optimize} is unknown", f"it is one of {', '.join(OPTIMIZE)}")
    if options.weights not in WEIGHTS:
        raise CompileError(f"--weights {options.weights} is unknown", f"it is one of {', '.join(WEIGHTS)}")
    return Request(
        options.schedule,
        options.optimize,
        limits_of(device, options.ram, options.flash, options.latency_ms),
        options.max_mac_overhead,
        options.stream_inputs,
        options.stream_outputs,
        device.core if device else DEFAULT_CORE,
        weights=options.weights,
    )


def with_defaults(model: Model, request: Request) -> Request:
    """Return a request with its missing objective and Flash limit filled in.

    Objective: if missing, `balanced`.

    Flash limit: for all objectives but `speed`, at most what TFLite Micro needs for the model's file. To decide whether Flash
    or RAM is scarcer, `balanced` still uses the Flash limit of the request.
    """
    limits = request.limits
    objective = request.objective or "balanced"
    is_outside = request.weights == "fetch"  # the constants take no Flash, with which the planner compares them
    sizes = [limits.flash, len(model.file) + TFLITE_MICRO_CODE if objective != "speed" else None] if not is_outside else []
    flash = min((size for size in sizes if size is not None), default=None)
    to_balance = None if is_outside else request.flash_to_balance or limits.flash
    return replace(request, objective=objective, limits=replace(limits, flash=flash), flash_to_balance=to_balance)


def make_plan(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> Plan:
    """Plan a model for a request, whose missing fields `with_defaults` fills in, and return the checked plan.

    Args:
        known: a cache of intermediate results, which is filled: pass the same dict to plan faster for similar requests.
    """
    return planning.check(unchecked_plan(model, request, {} if known is None else known, progress))


def unchecked_plan(model: Model, request: Request, known: planning.SpaceCache, progress: Progress | None = None) -> Plan:
    """Return the plan of `make_plan`, not verified.

    If the plan by the request's objective exceeds a limit, plans by the other objectives follow until one meets all limits. If
    none does, the result is the plan that exceeds RAM, Flash and time by the least, in this order.
    """
    search, plan = _searched(model, request, known, progress)
    over = limits_excess(plan, request)
    limits, plans = request.limits, [(over, plan)]
    hopeless = (over[0] and search.least_bytes > (limits.bytes or 0)) or (
        over[1] and weight_bytes(model.graph) > (limits.flash or 0) and not plan.fetches
    )
    others = [] if request.fast or hopeless or not any(over) else other_objectives(plan.objective, over)
    if plan.fetches and over[2] and others:  # reads take a part of the time, and about the same in each plan
        request = replace(request, limits=limits.beside_reads(planning.read_sizes(plan)))
        others = [request.objective or "balanced", *others]
    for objective in others:
        try:
            search, plan = _searched(model, replace(request, objective=objective), known, progress)
        except CompileError:
            continue  # it executes too many multiply-accumulates
        over = limits_excess(plan, replace(request, limits=limits))
        plans.append((over, plan))
        if not any(over):
            break
    return min(plans, key=lambda each: each[0])[1]


def _searched(
    model: Model, request: Request, known: planning.SpaceCache, progress: Progress | None
) -> tuple[planning.PlanSearch, Plan]:
    """Return the search of a request's plans, and its plan by the request's objective.

    If a callback reads constants that exceed the RAM limit, it reads them in pieces. Reads begin early where RAM is free.
    """
    search, limits = choices(model, request, known), request.limits
    plan = with_weights(search.plan(checked=False, progress=progress), request)
    if plan.fetches and limits_excess(plan, request)[0] and (bytes_ := limits.bytes) is not None:
        room = bytes_ - stack_bytes(plan, request.core) - MORE_STACK
        pieces = planning.channels_at_once(plan, model.graph, room)
        cut = replace(model, graph=planning.with_pieces(model.graph, pieces))
        made = with_weights(choices(cut, request).plan(checked=False, progress=progress), request) if pieces else plan
        plan = replace(made, pieces=pieces) if sum(made.arena.values()) < sum(plan.arena.values()) else plan
    return search, planning.with_early_fetches(plan) if plan.fetches else plan


def with_weights(plan: Plan, request: Request) -> Plan:
    """Return an unchecked plan with the copies of constants that `request.weights` asks for, or with reads of a file.

    For `speed`, all reads begin early if that is within the RAM limit.
    """
    if request.weights in ("flash", "file"):
        return replace(plan, weights_file=request.weights == "file")
    plan = replace(plan, weights_file=request.weights == "fetch")
    constants, (memory, free) = constants_of(plan), _roomiest(plan, request.limits)
    room = None if free is None else free - stack_bytes(plan, request.core) - MORE_STACK
    if plan.weights_file:
        made = planning.with_fetches(plan, constants, memory, early=request.objective == "speed" and room is not None)
        is_within = room is None or made.arena[memory] - plan.arena.get(memory, 0) <= room
        return made if is_within else planning.with_fetches(plan, constants, memory)
    if request.weights == "auto":
        core = cost_model_core(request.core)
        constants = planning.worth_copying(plan, constants, room, core, request.limits.reads)
    return planning.with_copies(plan, constants, memory) if constants else plan


def _roomiest(plan: Plan, limits: Limits) -> tuple[str, int | None]:
    """Return the memory with the most free bytes, external only if there is no other, and these bytes, None if unknown."""
    memories = limits.memories(plan.arena)
    if memories is None:
        memory = max(plan.arena, key=lambda name: plan.arena[name], default=planning.ONE_MEMORY)
        return memory, None if limits.ram is None else limits.ram - sum(plan.arena.values())
    left = {name: size - plan.arena.get(name, 0) for name, size in memories.items()}
    internal = {name: left[name] for name in left if name in limits.maps[0]} or left
    memory = max(internal, key=lambda name: internal[name])
    return memory, internal[memory]


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of the weights of convolutions and dense layers: a lower bound on the constants of every plan."""
    names = {op.inputs[1] for op in graph.ops if spec_of(op).takes_int4_weights}
    return sum(graph.tensors[name].bytes for name in names if name is not None and graph.tensors[name].data is not None)


def other_objectives(tried: str, over: Sequence[float]) -> list[Objective]:
    """Return the objectives besides `tried`; those that need the least of an exceeded limit (RAM, Flash, time) come first."""
    aims: tuple[Objective, ...] = ("size", "flash", "speed")
    first = [objective for objective, excess in zip(aims, over, strict=True) if excess]
    return [objective for objective in dict.fromkeys((*first, *OPTIMIZE)) if objective != tried]


def limits_excess(plan: Plan, request: Request) -> tuple[int, int, float]:
    """Return by how much a plan exceeds the request's limits of RAM and Flash in bytes, and of time in ms.

    Only excesses that are certain before a build count; others are 0. Of the Flash, the constants count, and the other bytes
    if they were measured.
    """
    limits, core = request.limits, request.core
    ram, flash = limits.ram_excess(plan.arena) or 0, 0
    if limits.flash is not None:
        measured, fused = request.other_flash, planning.fused_layers(plan)
        is_known = measured and not plan.fetches
        need = planning.flash_bytes(plan.graph, plan.variants, measured, fused) if is_known else constant_bytes(plan)
        flash = max(0, need - limits.flash)
    if limits.cycles is None or core not in COST_MODEL_CORES:
        return ram, flash, 0
    layers = limits.beside_reads(planning.read_sizes(plan))
    return ram, flash, layers.latency_excess(plan_cycles(plan, core, limits.reads).at_least) or 0


def choices(model: Model, request: Request, known: planning.SpaceCache | None = None) -> planning.PlanSearch:
    """Return an object that searches all plans of a model for the best plan, the Pareto front, or the least RAM.

    Raise CompileError if an op has no kernel, or the strategy is unknown or cannot stream.
    """
    check_kernels(model)
    return planning.PlanSearch(model.graph, with_defaults(model, request), known)


def front(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> list[Plan]:
    """Return the Pareto-optimal plans in RAM and estimated cycles, the fastest first.

    The result includes plans above the RAM and time limits. The strategy and the objective of the request are ignored. `known`
    is a cache of intermediate results, as for `make_plan`. With weights `auto`, they also have the copies of constants that
    save the most cycles within PARTS limits of their bytes; with `ram`, all constants are copied.
    """
    made = choices(model, replace(request, strategy="best", objective="speed"), known)
    plans = [_in_memories(each, request.limits) for each in made.front(progress, checked=False)]
    return _with_copies(plans, request) if request.weights in ("auto", "ram") else plans


def _with_copies(plans: Sequence[Plan], request: Request) -> list[Plan]:
    core, reads, found = cost_model_core(request.core), request.limits.reads, list[Candidate]()
    for plan in plans:
        constants, (memory, _) = constants_of(plan), _roomiest(plan, request.limits)
        whole = sum(each.bytes for each in constants)
        rooms = [*(whole * part // PARTS for part in range(PARTS)), None]
        chosen = [planning.worth_copying(plan, constants, room, core, reads) for room in rooms]
        for copied in chosen if request.weights == "auto" else [constants]:
            made = planning.with_copies(plan, copied, memory) if copied else plan
            found.append(Candidate(made, sum(made.arena.values()), round(cycles_to_compare(made, core, reads))))
    return [planning.check(each.plan) for each in most_distinct(pareto_front(found, COSTS["speed"]), MOST_POINTS)]


def flash_front(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> list[Plan]:
    """Return the Pareto-optimal plans in constants (bytes of Flash) and estimated cycles, the fastest first.

    All of them are within the request's RAM limit, and their constants within its Flash limit. Unlike for `make_plan`, the
    Flash that TFLite Micro needs is no limit. The strategy and the objective of the request are ignored. `known` is a cache of
    intermediate results, as for `make_plan`.
    """
    limits = request.limits
    unlimited = replace(request, strategy="best", objective="speed", limits=replace(limits, flash=None))
    plans = choices(model, unlimited, known).by_flash(limits.ram, progress)
    return [_in_memories(each, limits) for each in plans if limits.flash is None or constant_bytes(each) <= limits.flash]


def baseline_plans(
    model: Model, request: Request, *, known: planning.SpaceCache | None = None, progress: Progress | None = None
) -> dict[str, Plan | CompileError]:
    """Plan a model by each strategy of OTHER_SCHEDULES (planners of papers, and layer by layer), to compare with `best`.

    RAM and time limits do not apply, and `max_mac_overhead` only to strategies that recompute. `known` is a cache of
    intermediate results, as for `make_plan`.

    Returns:
        strategy -> its plan, or the error that prevents a plan.
    """
    known = {} if known is None else known
    limits = Limits(flash=request.limits.flash, reads=request.limits.reads)
    plans = dict[str, Plan | CompileError]()
    for number, strategy in enumerate(OTHER_SCHEDULES):
        if progress:
            progress(f"planning with schedule {strategy}", number, len(OTHER_SCHEDULES))
        overhead = request.max_mac_overhead if strategy in planning.RECOMPUTING else None
        one = replace(request, strategy=strategy, objective=None, limits=limits, max_mac_overhead=overhead)
        try:
            plan = choices(model, one, known).plan(checked=False)
            plans[strategy] = _in_memories(plan, request.limits, overlap=strategy != "layer")
        except CompileError as error:
            plans[strategy] = error
    return plans


def _in_memories(plan: Plan, limits: Limits, *, overlap: bool = True) -> Plan:
    """Return a checked plan, with its buffers distributed over the device's memories if they fit there.

    `overlap` says whether an output may overlap an operand. Without memory maps, or if the plan fits no map, it stays in one
    memory.
    """
    parts = planning.distribute_over_maps(plan, limits.maps, overlap=overlap) if limits.maps else plan
    return planning.check(plan if limits.ram_excess(parts.arena) else parts)


def limits_of(
    device: Device | None, ram: int | str | None = None, flash: int | str | None = None, latency_ms: float | None = None
) -> Limits:
    """Return limits of RAM, Flash and time for the planner.

    Args:
        device: the device, whose limits apply if `ram` or `flash` is None; None for no device.
        ram: RAM limit in bytes, or text such as "64k"; it replaces the device's memory maps by one memory. None takes the
            device's.
        flash: Flash limit, likewise; None takes the device's.
        latency_ms: time limit of one inference; None is no limit.

    Raises:
        CompileError: a size is malformed, or with `latency_ms` the device's clock or the cycles of its core are unknown.
    """
    limits = device_limits(device) if device else Limits()
    if ram is not None:
        limits = replace(limits, ram=parse_size(ram), maps=())
    if flash is not None:
        limits = replace(limits, flash=parse_size(flash))
    return limits if latency_ms is None else replace(limits, latency_ms=latency_ms, clock_hz=_clock(device, latency_ms))


def _clock(device: Device | None, latency_ms: float) -> float:
    """Return the device's clock in Hz, to convert a time limit to cycles.

    Raises:
        CompileError: `latency_ms` is not a time, there is no device, or its clock or the cycle model of its core is unknown.
    """
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
    """Return a device's RAM, Flash, memory maps and Flash wait states as limits; a core without a board has no limits."""
    maps = device.memory_maps
    return Limits(sum(maps[0].values()) if maps else None, device.flash, maps, reads=flash_reads(device))


def flash_reads(device: Device, case: int = 1) -> FlashReads | None:
    """Return a device's Flash wait states and caches, or None if there are none, or if they or a cache are unknown.

    `case` selects the fewest (0), the likely (1) or the most (2) cycles of a Flash beside the chip.
    """
    data, code = device.cache("data"), device.cache("code")
    if data is None or code is None:
        return None
    if device.bus and device.clock_hz:
        following, apart, cold = (
            device.bus.cycles(line, device.clock_hz, follows=follows)[case]
            for line, follows in ((data.line, True), (data.line, False), (code.line, True))
        )
    elif device.flash_waits:
        following, apart, cold = device.flash_waits, 0, 0
    else:
        return None
    executed = EXECUTED[case] if data.kind == "unified" else 0
    return FlashReads(following, data.line, data.bytes, code.line, code.bytes, apart, cold, data.ways, executed)


def estimate_cycles(plan: Plan, device: Device | None) -> CycleEstimate | None:
    """Estimate the cycles of one inference from the layers' shapes; None without a device or a cycle model of its core."""
    return (
        plan_cycles(plan, device.core, flash_reads(device)) if device is not None and device.core in COST_MODEL_CORES else None
    )


def estimate_reading(plan: Plan, device: Device | None) -> FlashTraffic | None:
    """Estimate what one inference reads from Flash beside the chip; None without such Flash, or if its timing is unknown."""
    if device is None or device.bus is None or device.core not in COST_MODEL_CORES or (reads := flash_reads(device)) is None:
        return None

    without = plan_cycles(plan, device.core).at_least or 0

    def added(each: FlashReads | None) -> int:
        return (plan_cycles(plan, device.core, each).at_least or 0) - without

    as_bytes = reads._replace(waits=reads.line, apart=reads.line, cold=0)  # a cycle per byte
    constants = added(as_bytes)
    code = added(as_bytes._replace(cold=reads.code_line)) - constants
    fewest, likely, most = (added(flash_reads(device, case)) for case in range(3))
    return FlashTraffic(Cycles(fewest, likely, most), constants, code)


def estimate_layer_cycles(plan: Plan, device: Device | None) -> dict[str, int]:
    """Estimate the cycles of each layer, by name; layers whose kernels have no cycle constants are left out.

    The result is empty without a device or a cycle model of its core.
    """
    if device is None or device.core not in COST_MODEL_CORES:
        return {}
    cycles = cycles_per_op(plan, device.core, flash_reads(device))
    return {plan.graph.ops[index].name: round(count) for index, count in cycles.items() if count is not None}


def estimate_latency_ms(plan: Plan, device: Device | None) -> float | None:
    """Estimate the milliseconds of one inference; None without a device, its clock, or a cycle model of its core.

    Layers whose kernels have no cycle constants count as 0.
    """
    needed = estimate_cycles(plan, device)
    if needed is None or needed.at_least is None or device is None or device.clock_hz is None:
        return None
    return milliseconds(needed.at_least, device.clock_hz)


def file_reads(
    plan: Plan, device: Device | None, by_layer: Mapping[str, int], counted: Sequence[int] | None = None
) -> FileReads | None:
    """Return a plan's reads of a file of weights, or those `counted` (bytes of each) in a run; None if there are none.

    `by_layer` are the cycles of `estimate_layer_cycles`, behind which reads that begin early hide.
    """
    sizes, clock_hz = planning.read_sizes(plan) if counted is None else counted, device.clock_hz if device else None
    if not sizes:
        return None
    models = [flash_reads(device, case) if device else None for case in range(3)]
    is_known = bool(clock_hz and models[1] and models[1].apart)  # the Flash is beside the chip

    def took(sizes: Sequence[int], case: int) -> float:
        return reading_ms(sizes, models[case] if is_known else None, clock_hz or 0, slowest=case > 0)

    hidden = None
    if clock_hz and by_layer:
        steps = [sum(by_layer.get(plan.graph.ops[index].name, 0) for index in stage.ops) for stage in plan.stages]
        hidden = [0.0, 0.0]
        for step, reads in planning.fetches(plan).items():
            windows = [milliseconds(sum(steps[read.start : step]), clock_hz) if read.start < step else 0 for read in reads]
            for side, case in enumerate((0, 2)):
                each = sum(min(took([read.bytes], case), ms) for read, ms in zip(reads, windows, strict=True))
                hidden[side] += min(each, max(windows))  # the reads of a step share the time of the same layers
    fewest, likely, most = (round(took(sizes, case), 3) for case in range(3))
    times = likely if is_known else None, [fewest, most], hidden and [round(ms, 3) for ms in hidden]
    return FileReads(sum(sizes), len(sizes), *times)


def latency_excess(plan: Plan, device: Device | None, limits: Limits, taken: int | None = None) -> float | None:
    """Estimate the milliseconds by which a plan, with its reads of a file of weights, exceeds the time limit, 0 if not at all.

    Return None if there is no time limit or no estimate, or if the layers that have cycle constants are within the limit, but
    not certainly all layers, or the reads only from a fast memory. `taken` are the cycles of a run, if there was one.
    """
    needed = estimate_cycles(plan, device) if taken is None else CycleEstimate(taken, ())
    if needed is None:
        return None
    layers = [limits.beside_reads(planning.read_sizes(plan), slowest=slowest) for slowest in (False, True)]
    over = layers[0].latency_excess(needed.at_least), layers[1].latency_excess(needed.cycles)
    return over[0] or (None if over[1] else over[1])


def estimate_flash(plan: Plan, device: Device | None = None) -> FlashEstimate:
    """Estimate the Flash of a plan, built for the core of `device`, or for DEFAULT_CORE without a device."""
    constants = constant_bytes(plan)
    lower_bound, upper_bound = code_range(plan, device.core if device else DEFAULT_CORE)
    return FlashEstimate(constants, constants + lower_bound, constants + upper_bound)


def has_weights_file(path: str | Path) -> bool:
    """Return whether the plan of a file has its constants in a file of weights; False if it is no plan."""
    return b'"weights_file": true' in read_file(Path(path), MAX_PLAN, "give a file of 'tinyweave plan MODEL -o FILE'")


def read_plan(path: str | Path, model: Model, core: str | None = None, *, retrained: bool = False) -> Plan:
    """Read a plan that `plan.to_json` wrote for this model, or for it before it was `retrained`, and check it.

    Its `lower_bound` is set to 0, because the value in the file cannot be checked. Raise CompileError if the file is damaged,
    or the plan is of another model or has kernels that `core` cannot run.
    """
    file = read_file(Path(path), MAX_PLAN, "give a file of 'tinyweave plan MODEL -o FILE'")
    try:
        plan = planning.from_json(file.decode("utf-8", "replace"), model.graph, retrained=retrained)
        plan = replace(plan, lower_bound=0)
        check_plan(plan, model, core)
    except CompileError as error:
        raise CompileError(f"{path}: {error}") from error
    return plan


def check_plan(plan: Plan, model: Model, core: str | None = None) -> None:
    """Raise CompileError if a plan is of another model, is not valid, or has kernels that `core` (None for any) cannot run."""
    if core is not None and (others := foreign(plan.variants, core)):
        raise CompileError(f"the plan has kernels that a {core} cannot run, such as {others[0]}", "plan for this device")
    planning.from_json(planning.to_json(plan), model.graph)  # checks the plan


def explain(model: Model, plan: Plan, name: str, core: str = "") -> Explanation:
    """Explain why a tensor has its address, and why its op has its kernel; with `core` "" only the address is explained.

    Raise CompileError if `name` is not the name of an activation in the model, in the drawing of the plan, or in the C.
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


def reorder_model(model: Model) -> Reordering:
    """Find the op order with the least peak memory by a bounded search, and rewrite the model's file in this order.

    LiteRT computes the same results from the new file. The result's `best` has the peak, and a lower bound on the peak of every
    order; if they differ, a better order may exist. `model` is from `read`.
    """
    owner = views(model.original)
    best = best_order(model.original, owner)
    return Reordering(model, "live", owner, best, tflite_exporter.reordered(model.file, best.ops), model.original)
