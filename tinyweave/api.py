"""The public functions: from a model file to C that is proved right, one function per verb.

In: a path, a device. Out: frozen results. Everything here only joins the rooms; the work is done in them.
"""

from __future__ import annotations

import difflib
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import planning
from .codegen import Origin, Source, constant_bytes, emit, identifier
from .devices import Device, all_devices, parse_size
from .exporters import tflite as tflite_exporter
from .files import read_file
from .importers import tflite
from .ir import CompileError, shortened
from .kernels.table import foreign, own_kernels, without_kernel
from .ops import macs
from .papers import counts
from .papers.chain import Chain, chain_of
from .passes import run_passes, run_tolerantly
from .passes import source as tensor_source
from .passes.edges import as_in_file, as_other_sign
from .planning import Plan
from .planning.ablation import ablation as planning_ablation
from .planning.alias.overlap import views
from .planning.explain import Explanation
from .planning.explain import explain as explain_tensor
from .planning.kernels.flash_budget import code_range
from .planning.order.search import best_order, each_its_own
from .results import Deployment, Fit, FlashNeed, Limits, Model, Profile, Reordering, excess
from .simulate import compare, emulated, litert, target
from .simulate.compare import Verification
from .simulate.run import Part

DEFAULT_CORE = "cortex-m4"
IO = ("model", "int8")
LAYOUTS = ("model", "nhwc")
OPTIMIZE = {"balanced": 1.2, "speed": 1.05, "size": 1.0}  # times the fewest cycles that a plan may take, to save memory
REBUILDS = 2  # of what is deployed: with what its Flash holds, then with all code measured
TFLITE_MICRO_CODE = 26_752  # bytes, the least of eight networks with int8 kernels only, see bench/models.py
MAX_PLAN = 1 << 26  # bytes of a file
COUNTS = {"live": views, "working_set": each_its_own}
PLAN_COUNTS = ("live", *counts.COUNTS)
Count = TypeVar("Count")
Progress = Callable[[str, int, int], None]  # what, done, of how many


def load(path: str | Path, io: str = "model", name: str | None = None, *, layout: str = "model") -> Model:
    """Import a .tflite file and run the passes; `io="int8"` strips float and uint8 edges, `layout="nhwc"` transposes there."""
    _check_edges(io, layout)
    path = Path(path)
    file = read_file(path, tflite.MAX_FILE, "give a readable .tflite file")
    try:
        return with_edges(_imported(path, file, name), io, layout)
    except CompileError as error:
        reasons = _tolerated(path, file, error)[1]
        raise (_cannot_compile(path, reasons) if reasons else error) from error


def look_at(path: str | Path, io: str = "model", *, layout: str = "model") -> tuple[Model, list[CompileError]]:
    """Import a .tflite file as far as that can be done, to be inspected; and per op that cannot be compiled the reason.

    Where there are reasons other than missing kernels, such ops are of the kind `ir.UNSUPPORTED`, and the graph is as the file
    has it but for what the first passes do.
    """
    _check_edges(io, layout)
    path = Path(path)
    file = read_file(path, tflite.MAX_FILE, "give a readable .tflite file")
    try:
        model = with_edges(_imported(path, file, None), io, layout)
    except CompileError as error:
        model, reasons = _tolerated(path, file, error)
        if not reasons:
            raise
        return model, reasons
    return model, without_kernel(model.graph)


def _check_edges(io: str, layout: str) -> None:
    if io not in IO:
        raise CompileError(f"--io {io} is unknown", f"it is one of {', '.join(IO)}")
    if layout not in LAYOUTS:
        raise CompileError(f"--layout {layout} is unknown", f"it is one of {', '.join(LAYOUTS)}")


def with_edges(model: Model, io: str, layout: str) -> Model:
    """Return an imported model after the passes that give it these edges, see `load`."""
    graph, tensors = run_passes(model.original, float_io=io == "model", own_layout=layout == "model")
    return replace(model, graph=graph, tensors=tensors, io=io, layout=layout)


def _tolerated(path: Path, file: bytes, error: CompileError) -> tuple[Model, list[CompileError]]:
    """Return the model as far as it can be read, and the reasons that ops give; raise `error` where it is damaged."""
    reasons: list[CompileError] = []
    try:
        graph = run_tolerantly(tflite.from_tflite(file, path.stem, reasons), reasons)
    except CompileError:
        raise error from None
    # what has no kernel for its shape may get one by the other passes; a type stays
    reasons += [reason for reason in without_kernel(graph) if "on float32" in reason.why]
    return Model(identifier(path.stem), graph, graph, {}, path, file, "model"), reasons


def _cannot_compile(path: Path, reasons: Sequence[CompileError]) -> CompileError:
    """The one line for a model with ops that are not supported."""
    kinds = Counter(error.op.kind for error in reasons if error.op)
    counts = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())
    count = sum(kinds.values())
    why = f"{count} op{'s' if count > 1 else ''} cannot be compiled: {counts}; {reasons[0]}"
    return CompileError(why, f"'tinyweave inspect {shlex.quote(str(path))}' lists all")


def _check_kernels(model: Model) -> None:
    """Raise CompileError where an op of the model has no kernel."""
    if reasons := without_kernel(model.graph):
        raise _cannot_compile(model.path, reasons)


def read(path: str | Path, name: str | None = None) -> Model:
    """Import a .tflite file as it is, also one that cannot be compiled: what `reorder` needs."""
    path = Path(path)
    return _imported(path, read_file(path, tflite.MAX_FILE, "give a readable .tflite file"), name)


def _imported(path: Path, file: bytes, name: str | None) -> Model:
    graph = tflite.from_tflite(file, path.stem)
    return Model(identifier(name or path.stem), graph, graph, {}, path, file, "model")


def plan(
    model: Model,
    schedule: str = "best",
    limits: Limits | None = None,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    optimize: str = "balanced",
    core: str = DEFAULT_CORE,
    other_flash: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """The checked memory plan of a model, in the memories of `limits` if there are several.

    With `stream_inputs` a callback brings its inputs row by row, with `stream_outputs` one takes those outputs row by row of
    which that can be done: Plan.handed says which. It executes at most `max_mac_overhead` times the
    multiply-accumulates of the network after the passes: none twice if left out, but any with `patch` and `msf`.
    `optimize="size"` is the plan of least memory, with the kernels for all cores, which need no scratch and less code. The
    others have the fast kernels of `core`: of the plans within the RAM limit that take at most 5 % more cycles, estimated, than
    the fastest of them `"speed"` is the one with the least product of bytes and cycles; `"balanced"` allows 20 %. Where kernels
    save cycles by more constants, these may fill the Flash, at `"balanced"` no more of it than TFLite Micro needs with the
    model's file; other_flash: what lies there besides the constants of the layers, estimated if left out.
    """
    _check_kernels(model)
    allowed = limits or Limits(None, None)
    sizes = [allowed.flash, len(model.file) + TFLITE_MICRO_CODE if optimize == "balanced" else None]
    return planning.plan(
        model.graph,
        schedule,
        maps=allowed.maps,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        core=_kernels(optimize, core),
        ram_limit=allowed.ram,
        flash=min((size for size in sizes if size is not None), default=None),
        other_flash=other_flash,
        max_slowdown=OPTIMIZE[optimize],
        progress=progress,
    )


def front(
    model: Model,
    *,
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float = planning.MOST_OVERHEAD,
    progress: Progress | None = None,
) -> list[Plan]:
    """Return the plans of `optimize="size"` of which none needs less RAM with as few multiply-accumulates, the fewest first.

    Other options as for `plan`; all in one memory.
    """
    _check_kernels(model)
    return planning.front(
        model.graph,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        progress=progress,
    )


def _kernels(optimize: str, core: str) -> str:
    if optimize not in OPTIMIZE:
        raise CompileError(f"--optimize {optimize} is unknown", f"it is one of {', '.join(OPTIMIZE)}")
    return "" if optimize == "size" else core


def limits_of(device: Device | None, ram: int | str | None = None, flash: int | str | None = None) -> Limits:
    """Return the limits that are given, in bytes or as text such as "64k", else those of the device, if there is one."""
    limits = device_limits(device) if device else Limits(None, None)
    if ram is not None:
        limits = replace(limits, ram=_bytes(ram), maps=())
    return limits if flash is None else replace(limits, flash=_bytes(flash))


def _bytes(size: int | str) -> int:
    return parse_size(size) if isinstance(size, str) else size


def device_limits(device: Device) -> Limits:
    """Return what a device has: nothing is limited where it is a core alone."""
    maps = device.memory_maps
    return Limits(sum(maps[0].values()) if maps else None, device.flash, maps)


def flash_need(plan: Plan, device: Device | None = None) -> FlashNeed:
    """Return what a plan needs of Flash, on the core of `device` or a Cortex-M4."""
    constants = constant_bytes(plan)
    least, most = code_range(plan, device.core if device else DEFAULT_CORE)
    return FlashNeed(constants, constants + least, constants + most)


def read_plan(path: str | Path, model: Model, core: str | None = None) -> Plan:
    """Return the plan of a file that `plan.to_json` wrote for this model, checked; nothing is proved of its size.

    Raise CompileError where it is damaged, made for another model, or, with a `core`, has kernels that this core cannot run.
    """
    file = read_file(Path(path), MAX_PLAN, "give a file of 'tinyweave plan MODEL -o FILE'")
    try:
        made = replace(planning.from_json(file.decode(), model.graph), lower_bound=0)
        if core is not None and (others := foreign(made.variants, core)):
            raise CompileError(f"the plan has kernels that a {core} cannot run, such as {others[0]}", "plan for this device")
    except (CompileError, UnicodeDecodeError) as error:
        raise CompileError(f"{path}: {error}") from error
    return made


def ablation(model: Model, made: Plan, schedule: str) -> dict[str, int]:
    """Technique of the planner -> bytes of the arena with it and all before it; `made` is the model's plan of `schedule`."""
    return planning_ablation(model.graph, made, schedule)


def explain(model: Model, made: Plan, name: str) -> Explanation:
    """Why a tensor of a plan lies where it lies; `name` is the model's, or the one that the plan's picture and the C have."""
    graph = made.graph
    known = {buffer.name: buffer.name for buffer in made.buffers} | {tensor: tensor for tensor in made.places}
    for position, tensor in enumerate(graph.inputs):
        known.setdefault("input" if len(graph.inputs) == 1 else f"input_{position}", tensor)
    for op in graph.ops:
        for position, tensor in enumerate(op.outputs):
            known.setdefault(f"{op.name}_{position}" if position else op.name, tensor)
    if name in known:
        return explain_tensor(made, known[name])
    if name in graph.tensors:
        size = graph.tensors[name].bytes
        raise CompileError(f"is a constant of {size:,} B, which lies in Flash", "explain an activation", tensor=name)
    if name in model.original.tensors:
        raise CompileError("is in the file, but not in the network after the passes", "see 'tinyweave inspect'", tensor=name)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or list(known)[:3]
    raise CompileError(f"no tensor '{shortened(name)}' in the plan", f"did you mean {', '.join(map(shortened, near))}?")


def counted_chain(model: Model, count: str) -> Chain | None:
    """What a paper's count is of in a model; None for `live`, which counts everything."""
    if count not in PLAN_COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(PLAN_COUNTS)}")
    if count == "live":
        return None
    with _counting(count):
        return chain_of(model.graph)


def counted(model: Model, made: Plan, count: str, chain: Chain, *, max_mac_overhead: float, ram: int | None) -> counts.Counted:
    """What a paper finds for the same network, within the same limits, by its own count, beside what the plan needs by it."""
    with _counting(count):
        return counts.counted(count, made, chain, work=macs(model.graph), overhead=max_mac_overhead, ram=ram)


@contextmanager
def _counting(count: str) -> Iterator[None]:
    """What a count is not defined for is said with its name."""
    try:
        yield
    except CompileError as error:
        raise CompileError(f"--count {count}: {error}") from error


def reorder(model: Model, count: str = "live") -> Reordering:
    """The file of `model` with its ops in the order of the least peak; LiteRT computes the same from it.

    `count` says what is summed up: `live`, where views lie in their source, or `working_set`, where each tensor is its own.
    """
    if count not in COUNTS:
        raise CompileError(f"--count {count} is unknown", f"it is one of {', '.join(COUNTS)}")
    owner = COUNTS[count](model.original)
    best = best_order(model.original, owner)
    return Reordering(model, count, owner, best, tflite_exporter.reordered(model.file, best.ops))


def source(model: Model, plan: Plan, command: str = "", device: Device | None = None, *, kernel_prefix: str = "") -> Source:
    """The C of a plan; with a prefix, the names of its kernels begin with that."""
    origin = Origin(model.path.name, model.sha256, command, device.name if device else "")
    return emit(plan, model.name, origin, kernel_prefix)


def together(sources: Sequence[Source]) -> dict[str, str]:
    """Return the files of models that are to lie in one folder, in which a kernel that several use lies once.

    Raise CompileError where two models have a file of the same name.
    """
    for index, one in enumerate(sources):
        for other in sources[:index]:
            if clash := sorted(set(one.own) & set(other.files) | set(other.own) & set(one.files)):
                raise CompileError(
                    f"the models '{other.name}' and '{one.name}' both have a file {clash[0]}", "rename one of the files"
                )
    return {file: text for source in sources for file, text in source.files.items()}


def write(source: Source, folder: Path) -> None:
    """Write the emitted files into `folder`, which exists."""
    for name, text in source.files.items():
        (folder / name).write_text(text, encoding="ascii", newline="\n")


def samples(model: Model, count: int, seed: int, given: Sequence[Sequence[np.ndarray]] = ()) -> list[list[np.ndarray]]:
    """Inputs to verify with: the given ones, then edge values, then random ones, `count` in all but never fewer than given."""
    return compare.samples(model.graph, count, seed, given)


def verify(
    model: Model,
    plan: Plan,
    *,
    inputs: Sequence[Sequence[np.ndarray]] = (),
    count: int = 5,
    seed: int = 0,
    core: str | Sequence[str] | None = DEFAULT_CORE,
    progress: Progress | None = None,
) -> Verification:
    """Run samples through the reference, the C on the host and on an emulated core, several or none; compare every byte."""
    cases, cores = samples(model, count, seed, inputs), [core] if isinstance(core, str) else core or ()
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        write(source(model, plan), Path(folder))
        return compare.verify(plan, Path(folder), model.name, cases, cores=cores, reference=_litert(model), progress=progress)


def _litert(model: Model) -> compare.Reference:
    """LiteRT's reference kernels on the imported file, fed and read at the edges that `model` has."""

    def run(cases: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        fed = [[_fed(model, name, values) for name, values in zip(model.graph.inputs, case, strict=True)] for case in cases]
        as_filed = model.io == "model" and model.layout == "model"
        runs = litert.run(model.file, fed, keep=not as_filed)
        if as_filed:
            return [run.outputs for run in runs]
        homes = [tensor_source(model.tensors, name)[0] for name in model.graph.outputs]
        ops = [model.original.producer[home] for home in homes]
        places = [model.original.ops[op].outputs.index(home) for op, home in zip(ops, homes, strict=True)]
        dtypes = [model.graph.tensors[name].dtype for name in model.graph.outputs]
        wanted = list(zip(ops, places, dtypes, strict=True))
        return [[as_other_sign(run.layers[op][place], dtype) for op, place, dtype in wanted] for run in runs]

    return run


def _fed(model: Model, name: str, values: np.ndarray) -> np.ndarray:
    """Return what the file's input must hold so that the network's input `name` holds these values."""
    fed = as_in_file(model.original, model.tensors, name, values)
    if fed is None:
        raise litert.CannotRunError("no input of the file gives these int8 values", "verify with --io model", tensor=name)
    return fed


def run(
    model: Model, plan: Plan, folder: Path, inputs: Sequence[Sequence[np.ndarray]], core: str = DEFAULT_CORE
) -> list[list[np.ndarray]]:
    """The outputs of the C in `folder`, as `deploy` or `write` left it, on an emulated core, per sample, in sequence."""
    built = target.build(plan, folder, model.name, core)
    if not inputs:
        return []
    *earlier, last = (compare.pack(model.graph, sample) for sample in inputs)
    return compare.unpack_all(model.graph, target.invoke(built, last, earlier=earlier))


def profile(
    model: Model,
    plan: Plan,
    core: str = DEFAULT_CORE,
    sample: Sequence[np.ndarray] | None = None,
    *,
    device: Device | None = None,
) -> Profile:
    """Measure one invoke on an emulated core; its cycles are estimated, with the Flash of `device` if that has such a core."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        write(source(model, plan), Path(folder))
        built = target.build(plan, Path(folder), model.name, core)
        return _profile(_measured(model, built, sample, device), device)


def compare_boards(
    model: Model,
    devices: Sequence[Device] | None = None,
    *,
    sample: Sequence[np.ndarray] | None = None,
    progress: Progress | None = None,
    **chosen: Any,
) -> list[Fit]:
    """The model on every known board, or on `devices`, with the options of `plan`: planned once for cores that have the same
    kernels, built and run where the kernels taken or the emulated core differ."""
    boards = all_devices() if devices is None else devices
    with_kernels = {own_kernels(device.core): device.core for device in boards}
    made = {kernels: plan(model, core=core, **chosen) for kernels, core in with_kernels.items()}
    plans = {device.core: made[own_kernels(device.core)] for device in boards}
    runs = {device: (plans[device.core].variants, emulated_core(device)) for device in boards}
    profiles: dict[tuple[tuple[str, ...], str], Profile] = {}
    for device, run in runs.items():
        if run in profiles:
            continue
        if progress:
            progress(f"building and running on the emulated {run[1]}", len(profiles), len(set(runs.values())))
        with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
            write(source(model, plans[device.core]), Path(folder))
            built = target.build(plans[device.core], Path(folder), model.name, run[1])
            profiles[run] = _profile(_measured(model, built, sample), by_step=False)
    return [Fit(device, plans[device.core], profiles[runs[device]]) for device in boards]


def _measured(
    model: Model, built: target.Build, sample: Sequence[np.ndarray] | None, device: Device | None = None
) -> target.Run:
    """Run a build for a core on one sample, edge values if left out."""
    cases = [sample if sample is not None else samples(model, 1, 0)[0]]
    return compare.run_samples(built, cases, caches=_caches(built.target, device))


def _waits(core: str, device: Device | None) -> int | None:
    """Return the cycles that a read of the Flash of `device` waits, if it has this core and they are known."""
    return device.flash_waits if device and device.core == core else None


def _caches(core: str, device: Device | None) -> dict[str, tuple[int, int, int]]:
    """Return the caches between this core and the Flash of `device` where what they miss takes time."""
    caches = device.caches if device and _waits(core, device) else ()
    return {cache.kind: (cache.bytes, cache.line, cache.ways) for cache in caches}


def _profile(run: target.Run, device: Device | None = None, *, by_step: bool = True) -> Profile:
    """Read a profile off a run on a core, whose first inference `_caches` watched.

    The totals come from the build that ships. The split by step and layer takes another build and run, with the trace hook,
    whose calls are instructions too.
    """
    built, whole = run.build, run.first
    plan, core, waits = built.plan, built.target, _waits(built.target, device)
    traced = whole
    if by_step:
        fused = [(step, stage) for step, stage in enumerate(plan.stages) if stage.schedule is not None]
        layers = {plan.graph.ops[index].name: step for step, stage in fused for index in stage.ops}
        traced = target.invoke(target.with_trace(built), run.sample, caches=_caches(core, device), layers=layers)
    others = foreign(plan.variants, core)
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
        waits=waits,
        arena=dict(plan.arena),
        stack=whole.stack,
        **built.sizes,
    )


def _by_layer(plan: Plan, steps: Sequence[Count], parts: Mapping[Part, Count]) -> dict[str, Count]:
    """Return the count of each layer: of the step that it is, or in a stage that runs row by row of its own part."""
    found = {layer: count for (_, layer), count in parts.items() if layer}
    alone = [(stage, count) for stage, count in zip(plan.stages, steps, strict=False) if stage.schedule is None]
    return found | {plan.graph.ops[stage.ops[0]].name: count for stage, count in alone}


def deploy(
    model: Model,
    folder: Path,
    *,
    device: Device | None = None,
    limits: Limits | None = None,
    schedule: str = "best",
    stream_inputs: bool = False,
    stream_outputs: bool = False,
    max_mac_overhead: float | None = None,
    optimize: str = "balanced",
    inputs: Sequence[Sequence[np.ndarray]] = (),
    count: int = 5,
    seed: int = 0,
    command: str = "",
    kernel_prefix: str = "",
    planned: Plan | None = None,
    progress: Progress | None = None,
) -> Deployment:
    """Plan, write the C into `folder`, build it, prove it, and measure it on the device's core; its limits are the default.

    `planned` is the plan with these options, where it was made before.
    """
    allowed = limits or (device_limits(device) if device else Limits(None, None))
    kernels = device.core if device else DEFAULT_CORE
    how = partial(
        plan,
        model,
        schedule,
        allowed,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        optimize=optimize,
        core=kernels,
    )
    made, core, cases = planned or how(), emulated_core(device), samples(model, count, seed, inputs)
    emitted = source(model, made, command, device, kernel_prefix=kernel_prefix)
    write(emitted, folder)
    built = target.build(made, folder, model.name, core)
    for _ in range(REBUILDS if planning.trades_flash(model.graph, _kernels(optimize, kernels)) else 0):
        again = how(other_flash=_other_flash(built, kernels))
        if again.variants == made.variants:
            break
        made = again
        for name in emitted.files:
            (folder / name).unlink()
        emitted = source(model, made, command, device, kernel_prefix=kernel_prefix)
        write(emitted, folder)
        built = target.build(made, folder, model.name, core)
    right = compare.truth(model.graph, cases, _litert(model), progress)
    here = compare.run_samples(target.build(made, folder, model.name, target.HOST), cases, progress=progress)
    there = compare.run_samples(built, cases, caches=_caches(core, device), progress=progress)
    verification = compare.verdict(right, cases, [here, there], progress)
    return Deployment(model, made, _profile(there, device), verification, device, allowed)


def _other_flash(built: target.Build, kernels: str) -> int:
    """Return the bytes of Flash beside the constants of layers: measured, for what was built, and the code that may be added
    for kernels of the core `kernels`, estimated."""
    plan, sizes = built.plan, built.sizes
    constants = planning.constant_bytes(plan.graph, plan.variants)
    return sizes["weights"] + sizes["tables"] + sizes["code"] - constants + planning.code_to_add(plan, kernels)


def boards_that_fit(profile: Profile) -> list[Device]:
    """The listed devices whose RAM and Flash hold what was measured (code size varies a little from core to core)."""
    return [d for d in all_devices() if not any(excess(profile, Limits(d.ram, d.flash)).values())]


def emulated_core(device: Device | None) -> str:
    """The core that stands for a device's own in the emulator: its own, or the nearest that is emulated."""
    if device is None:
        return DEFAULT_CORE
    return emulated.nearest(device.core, device.nearest, DEFAULT_CORE)
