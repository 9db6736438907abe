"""Runs: the C of a plan, built and run, and what is read off the runs.

In: a Model and its Plan. Out: C files, a Verification, a Profile, a Deployment, or how the model does on each board.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import planning
from ..codegen import Frames, Origin, Source, emit
from ..devices import Device, all_devices
from ..ir import CompileError
from ..kernels.layer_cycles import cost_model_core
from ..kernels.table import foreign
from ..passes import source as tensor_source
from ..passes.edges import as_in_file, as_other_sign
from ..planning import Plan, Progress
from ..results import Deployment, Fit, Limits, Model, Profile, excess
from ..simulate import compare, emulated, litert, target
from ..simulate.compare import Verification
from ..simulate.run import StepPart
from .plans import DEFAULT_CORE, aim_of, core_with_kernels, cycles_needed, flash_need, limits_of, plan
from .row_sources import row_source_bytes, row_source_files

REBUILDS = 2  # of what is deployed: with what its Flash holds, then with all code measured; and for what it took too much of
Count = TypeVar("Count")


def source(
    model: Model,
    plan: Plan,
    command: str = "",
    device: Device | None = None,
    *,
    kernel_prefix: str = "",
    row_source: str | None = None,
    pixels: str | None = None,
) -> Source:
    """Return the C of a plan; with a prefix, the names of its kernels begin with that.

    row_source, pixels: what brings the input, see `row_source_files`, whose C lies beside the model then.
    """
    frames = Frames(model.stream.frames, model.stream.hop, model.stream.calls_until_full) if model.stream else None
    origin = Origin(model.path.name, model.sha256, command, device.name if device else "", frames)
    emitted = emit(plan, model.name, origin, kernel_prefix)
    beside = row_source_files(model, row_source, pixels) if row_source else {}
    if pixels and not row_source:
        raise CompileError("--pixels says what the pixels of a --source are", "give --source, too")
    own = tuple(name for name in beside if name.startswith(f"{model.name}_source."))
    if clash := sorted(set(beside) & set(emitted.files)):
        raise CompileError(f"two files would be called {clash[0]}", "rename the model")
    return Source(emitted.name, (*emitted.own, *own), {**emitted.files, **beside})


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


def samples(model: Model, count: int, seed: int, inputs: Sequence[Sequence[np.ndarray]] = ()) -> list[list[np.ndarray]]:
    """Return `count` inputs to verify with, never fewer than `inputs`: these, then edge values, then random ones.

    Where the model takes frames, there are as many more as fill its window before.
    """
    if max(count, len(inputs)) < 1 or seed < 0:
        raise CompileError(f"no inputs come of {count} samples with the seed {seed}", "give 1 sample or more, a seed from 0 on")
    for sample in inputs:
        if len(sample) != len(model.graph.inputs):
            raise CompileError(
                f"a sample has {len(sample)} arrays, the model {len(model.graph.inputs)} inputs", "give one for each"
            )
    more = model.stream.calls_until_full - 1 if model.stream else 0
    return compare.samples(model.graph, count + more, seed, inputs)


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
    """Run samples through the reference, the C on the host and on an emulated core, several or none; compare every byte.

    Of a model that takes frames the reference is that of the network on its whole window, at each call.
    """
    cases, cores = samples(model, count, seed, inputs), [core] if isinstance(core, str) else core or ()
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        write(source(model, plan), Path(folder))
        right = truth(model, cases, progress)
        return compare.verify(plan, Path(folder), model.name, cases, cores=cores, right=right, progress=progress)


def truth(model: Model, cases: Sequence[Sequence[np.ndarray]], progress: Progress | None = None) -> compare.Truth:
    """Return the right outputs: LiteRT's on the imported file; where the model takes frames, at each call on its window."""
    return compare.truth(model.whole.graph, windows(model, cases), _litert(model.whole), progress)


def windows(model: Model, cases: Sequence[Sequence[np.ndarray]]) -> Sequence[Sequence[np.ndarray]]:
    """Return what the network sees at each call: the inputs, or where the model takes frames the window that they fill."""
    return model.stream.windows(cases) if model.stream else cases


def _litert(model: Model) -> compare.Reference:
    """Return LiteRT's reference kernels on the imported file, fed and read at the edges that `model` has."""

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
    """Return the outputs of the C in `folder`, as `deploy` or `write` left it, on an emulated core, per sample, in sequence."""
    built = target.build(plan, folder, model.name, core)
    if not inputs:
        return []
    checked = samples(model, len(inputs), 0, inputs)[: len(inputs)]
    *earlier, last = (compare.pack(model.graph, sample) for sample in checked)
    return compare.unpack_all(model.graph, target.invoke(built, last, earlier=earlier))


def profile(
    model: Model,
    plan: Plan,
    core: str = DEFAULT_CORE,
    sample: Sequence[np.ndarray] | None = None,
    *,
    device: Device | None = None,
    by_step: bool = True,
) -> Profile:
    """Measure one invoke on an emulated core, of edge values if no sample is given; by_step: each step and layer of it, too.

    Its cycles are estimated, with the Flash of `device` if that has such a core.
    """
    cases = samples(model, 1, 0, [] if sample is None else [sample])[:1]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        write(source(model, plan), Path(folder))
        built = target.build(plan, Path(folder), model.name, core)
        return _profile(compare.run_samples(built, cases, caches=_caches(core, device)), device, by_step=by_step)


def compare_boards(
    model: Model,
    devices: Sequence[Device] | None = None,
    *,
    sample: Sequence[np.ndarray] | None = None,
    progress: Progress | None = None,
    **chosen: Any,
) -> list[Fit]:
    """Return the model on every known board, or on `devices`, with the options of `plan`.

    It is planned once for cores whose plans are compared by the same cycles, built and run where the kernels taken or the
    emulated core differ.
    """
    boards = all_devices() if devices is None else devices
    like = {device.core: cost_model_core(device.core) for device in boards}
    planned = {core: plan(model, core=core, **chosen) for core in dict.fromkeys(like.values())}
    plans = {core: planned[other] for core, other in like.items()}
    runs = {device: (plans[device.core].variants, emulated_core(device)) for device in boards}
    profiles = dict[tuple[tuple[str, ...], str], Profile]()
    for device, run in runs.items():
        if run not in profiles:
            if progress:
                progress(f"building and running on the emulated {run[1]}", len(profiles), len(set(runs.values())))
            profiles[run] = profile(model, plans[device.core], run[1], sample, by_step=False)
    return [Fit(device, plans[device.core], profiles[runs[device]]) for device in boards]


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
        fused = [(step, index) for step, stage in enumerate(plan.stages) if stage.schedule is not None for index in stage.ops]
        layers = {plan.graph.ops[index].name: step for step, index in fused}
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


def _by_layer(plan: Plan, steps: Sequence[Count], parts: Mapping[StepPart, Count]) -> dict[str, Count]:
    """Return the count of each layer: of the step that it is, or in a stage that runs row by row of its own part."""
    counts = {layer: count for (_, layer), count in parts.items() if layer}
    whole = [(stage, count) for stage, count in zip(plan.stages, steps, strict=False) if stage.schedule is None]
    return counts | {plan.graph.ops[stage.ops[0]].name: count for stage, count in whole}


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
    optimize: str | None = None,
    inputs: Sequence[Sequence[np.ndarray]] = (),
    count: int = 5,
    seed: int = 0,
    command: str = "",
    kernel_prefix: str = "",
    row_source: str | None = None,
    pixels: str | None = None,
    planned: Plan | None = None,
    known: planning.KnownSpaces | None = None,
    as_planned: bool = False,
    second_emulator: bool = False,
    progress: Progress | None = None,
) -> Deployment:
    """Plan, write the C into `folder`, build it, prove it, and measure it on the device's core; its limits are the default.

    `planned` is the plan with these options, where it was made before; known: as of `plan`; as_planned: it stays where it fits,
    although another one that fits may be better. row_source, pixels: as `source` takes them; the plan leaves the source its
    RAM and Flash. second_emulator: run it as firmware under QEMU as well.
    """
    wanted = limits or limits_of(device)
    beside = row_source_bytes(model, row_source) if row_source else 0
    in_flash = compiled_bytes(row_source_files(model, row_source, pixels), device)["flash"] if row_source else 0
    allowed = wanted.less(beside, in_flash)
    kernels = device.core if device else DEFAULT_CORE
    how = partial(
        plan,
        model,
        schedule,
        stream_inputs=stream_inputs,
        stream_outputs=stream_outputs,
        max_mac_overhead=max_mac_overhead,
        optimize=optimize,
        core=kernels,
        known={} if known is None else known,
    )
    core, cases, emitted = emulated_core(device), samples(model, count, seed, inputs), list[str]()

    def build(planned: Plan) -> target.Build:
        for name in emitted:
            (folder / name).unlink()
        made = source(model, planned, command, device, kernel_prefix=kernel_prefix, row_source=row_source, pixels=pixels)
        write(made, folder)
        emitted[:] = made.files
        return target.build(planned, folder, model.name, core)

    trades_flash = planning.trades_flash(model.graph, core_with_kernels(aim_of(optimize, allowed), kernels, allowed))
    first, other_flash, fitting = planned or how(limits=allowed), None, None
    # what is estimated of code may keep a plan away that fits
    if trades_flash and allowed.flash is not None and not as_planned:
        free = how(limits=replace(allowed, flash=None))
        first = first if flash_need(free, device).excess(allowed.flash) else free
    built = build(first)
    stays = as_planned and not _exceeds_flash(built, allowed)
    for _ in range(REBUILDS if trades_flash and not stays else 0):
        fitting = fitting if _exceeds_flash(built, allowed) else built.plan
        other_flash = _other_flash(built)
        replanned = how(limits=allowed, other_flash=other_flash)
        if replanned.variants == built.plan.variants:
            break
        built = build(replanned)
    if fitting is not None and _exceeds_flash(built, allowed):  # the code of kernels that came anew was larger than estimated
        built = build(fitting)
    run = partial(compare.run_samples, cases=cases, caches=_caches(core, device), progress=progress)
    there = run(built)
    for _ in range(REBUILDS):
        stricter = _stricter(allowed, there, device)
        replanned = how(limits=stricter, other_flash=other_flash) if stricter else built.plan
        if (replanned.stages, replanned.variants) == (built.plan.stages, built.plan.variants):
            break
        built = build(replanned)
        there = run(built)
    right = truth(model, cases, progress)
    here = run(target.build(built.plan, folder, model.name, target.HOST), caches=None)
    verification = compare.verdict(right, cases, [here, there], progress)
    if second_emulator:
        from . import second_emulator as other

        board, compiler, text = other.second_emulator(model, built.plan, device, cases, right)
        first = verification.first_difference or text
        verification = replace(verification, boards={board: compiler}, first_difference=first)
    measured = _profile(there, device)
    return Deployment(model, built.plan, measured, verification, device, wanted, row_source, beside, in_flash)


def _stricter(limits: Limits, run: target.Run, device: Device | None) -> Limits | None:
    """Return limits for another plan where a run exceeded these, None where it did not.

    They leave room for the stack and static data that were measured, and less time where the run took too long, by as much as
    it took longer than its plan was estimated to.
    """
    plan, stack, latency_ms = run.build.plan, run.first.stack, limits.latency_ms
    assert stack is not None, "it ran on an emulated core"
    if latency_ms is not None:
        taken, foreseen = _profile(run, device, by_step=False).cycles, cycles_needed(plan, device)
        if taken is not None and foreseen is not None and foreseen.at_least and limits.latency_excess(taken.likely):
            latency_ms *= foreseen.at_least / taken.likely
    rest = run.build.sizes["static"] + stack
    if latency_ms == limits.latency_ms and not limits.ram_excess(plan.arena, rest):
        return None
    return replace(limits.less(rest), latency_ms=latency_ms)


def _exceeds_flash(built: target.Build, limits: Limits) -> bool:
    return limits.flash is not None and _flash(built) > limits.flash


def _flash(built: target.Build) -> int:
    return sum(built.sizes[part] for part in ("weights", "tables", "code"))


def _other_flash(built: target.Build) -> planning.OtherFlash:
    """Return what was measured of Flash beside the constants of layers."""
    plan = built.plan
    rest = _flash(built) - planning.constant_bytes(plan.graph, plan.variants)
    return planning.OtherFlash(rest, frozenset(plan.variants) - {""})


def boards_that_fit(profile: Profile, beside: int = 0, beside_in_flash: int = 0) -> list[Device]:
    """Return the listed devices whose RAM and Flash hold what was measured (code size varies a little from core to core).

    beside, beside_in_flash: as of `excess`.
    """
    return [d for d in all_devices() if not any(excess(profile, Limits(d.ram, d.flash), beside, beside_in_flash).values())]


def compiled_bytes(files: Mapping[str, str], device: Device | None) -> dict[str, int]:
    """Return the bytes of `flash` and `ram` of C, files by name, compiled for a device's core; not those of the compiler's
    library."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        return emulated.compiled_bytes(Path(folder), emulated_core(device))


def emulated_core(device: Device | None) -> str:
    """Return the core that stands for a device's own in the emulator: its own, or the nearest that is emulated."""
    if device is None:
        return DEFAULT_CORE
    return emulated.nearest(device.core, device.nearest, DEFAULT_CORE)
