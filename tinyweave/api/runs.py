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
from ..codegen import Frames, Origin, Source, emit
from ..devices import Device, all_devices
from ..files import named, write_below
from ..ir import CompileError
from ..kernels.layer_cycles import cost_model_core
from ..kernels.table import foreign
from ..passes import source as tensor_source
from ..passes.edges import as_in_file, as_other_sign
from ..planning import Limits, Plan, Progress, Request
from ..simulate import compare, emulated, litert, target
from ..simulate.compare import Verification
from ..simulate.cores import CORES
from ..simulate.run import StepPart
from .options import SAMPLES, SEED
from .plans import DEFAULT_CORE, estimate_cycles, estimate_flash, make_plan, other_objectives, with_defaults
from .results import Deployment, Fit, Model, Profile, excess
from .row_sources import row_source_bytes, row_source_files

REBUILDS = 2  # most rebuilds with measured Flash, and most rebuilds with limits that a run exceeded
Count = TypeVar("Count")


@dataclass(frozen=True)
class CodeOptions:
    """Options of the emitted C.

    Attributes:
        command: the command that writes the C, for its header comments; "" for none.
        kernel_prefix: prefix of all kernel names.
        row_source: camera or JPEG format of the input, such as `jpeg:640x480`; C that converts it to the network's input is
            added (see docs/CAMERA.md). None adds no such C.
        pixels: input values of black and white pixels, such as `0..1`; only with a row source. None uses the ends of the
            input's range.
    """

    command: str = ""
    kernel_prefix: str = ""
    row_source: str | None = None
    pixels: str | None = None


@dataclass(frozen=True)
class ProofOptions:
    """The samples, and the emulators, with which the C of a model is compared with the reference.

    Attributes:
        inputs: samples to run first, all of them, each with one array per network input.
        count: number of samples in all; after `inputs` follow all minima, all maxima, all zero points, then random samples.
        seed: seed of the random samples.
        second_emulator: also run complete firmware on a board that QEMU emulates.
    """

    inputs: Sequence[Sequence[np.ndarray]] = ()
    count: int = SAMPLES
    seed: int = SEED
    second_emulator: bool = False

    def samples(self, model: Model) -> list[list[np.ndarray]]:
        """Return the samples for a model, each with one array per input; see the function `samples`."""
        return samples(model, self.count, self.seed, self.inputs)


@dataclass(frozen=True)
class EarlierPlan:
    """A plan made earlier for the same request, from which `deploy_model` starts.

    Attributes:
        plan: the plan; None to plan the model.
        known: a cache of intermediate results, as for `make_plan`; None for an empty cache.
        stays: whether to keep the plan if its build meets the Flash limit, even if another plan may be better.
    """

    plan: Plan | None = None
    known: planning.SpaceCache | None = None
    stays: bool = False


def emit_c(model: Model, plan: Plan, device: Device | None = None, code: CodeOptions = CodeOptions()) -> Source:
    """Return the C files of a plan, and if the options name a row source, its C files.

    A row source is C that converts a camera's picture or a JPEG file to the network's input, row by row.

    Raises:
        CompileError: the row source does not suit the model's input, or two files would have the same name.
    """
    stream = model.stream
    frames = Frames(stream.frames, stream.hop, stream.calls_until_full, stream.returns_new_rows) if stream else None
    named, core = (device.name, device.core) if device else ("", "")
    origin = Origin(model.path.name, model.sha256, code.command, named, frames, core)
    emitted = emit(plan, model.name, origin, code.kernel_prefix)
    beside = row_source_files(model, code.row_source, code.pixels) if code.row_source else {}
    if code.pixels and not code.row_source:
        raise CompileError("--pixels needs --source, whose pixels it describes", "add --source")
    own = tuple(name for name in beside if name.startswith(f"{model.name}_source."))
    if clash := sorted(set(beside) & set(emitted.files)):
        raise CompileError(f"two files would be called {clash[0]}", "rename the model")
    return Source(emitted.name, (*emitted.own, *own), {**emitted.files, **beside})


def merge_files(sources: Sequence[Source]) -> dict[str, str]:
    """Return the files of several models (name -> text) for one folder, with one copy of each shared kernel.

    Raises:
        CompileError: two models have a file of the same name that is not a shared kernel.
    """
    for index, one in enumerate(sources):
        for other in sources[:index]:
            if clash := sorted(set(one.own) & set(other.files) | set(other.own) & set(one.files)):
                both = f"the models '{other.name}' and '{one.name}' both have a file {clash[0]}"
                raise CompileError(both, "rename one of the files")
    return {file: text for source in sources for file, text in source.files.items()}


def write(source: Source, folder: Path) -> None:
    """Write the emitted C files of a model into an existing folder."""
    write_below(folder, source.files)


def samples(model: Model, count: int, seed: int, inputs: Sequence[Sequence[np.ndarray]] = ()) -> list[list[np.ndarray]]:
    """Return samples for a comparison, each with one array per network input.

    If the model streams in time, `count` is raised by the number of calls before the first with a full window of frames.

    Args:
        count: number of samples. If it is less than the number of `inputs`, all `inputs` are still returned.
        seed: seed of the random samples.
        inputs: the first samples. After them follow all minima, all maxima and all zero points, as far as `count` allows, and
            at least one random sample.

    Raises:
        CompileError: there would be no sample, the seed is negative, or an array does not fit its input.
    """
    if max(count, len(inputs)) < 1 or seed < 0:
        raise CompileError(
            f"cannot run {count} samples with the seed {seed}", "give at least 1 sample and a seed of at least 0"
        )
    for sample in inputs:
        if len(sample) != (count_of_inputs := len(model.graph.inputs)):
            raise CompileError(f"a sample has {len(sample)} arrays, the model {count_of_inputs} inputs", "give one for each")
    more = model.stream.calls_until_full - 1 if model.stream else 0
    return compare.samples(model.graph, count + more, seed, inputs)


def verify_plan(
    model: Model,
    plan: Plan,
    proof: ProofOptions = ProofOptions(),
    *,
    core: str | Sequence[str] | None = DEFAULT_CORE,
    progress: Progress | None = None,
) -> Verification:
    """Run the C of a plan on this machine and on emulated cores, and compare every output byte with the reference.

    The reference is LiteRT's reference kernels on the imported file, or the numpy reference if LiteRT cannot run it. For a
    model that streams in time, the reference computes the whole window at each call.

    Args:
        proof: the samples.
        core: name or names of the cores to emulate; None for this machine only.
        progress: called during the runs.
    """
    cases, cores = proof.samples(model), [core] if isinstance(core, str) else core or ()
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write(emit_c(model, plan), Path(folder))
        right = reference_outputs(model, cases, progress)
        return compare.verify(plan, Path(folder), model.name, cases, cores=cores, right=right, progress=progress)


def reference_outputs(
    model: Model, cases: Sequence[Sequence[np.ndarray]], progress: Progress | None = None, *, use_litert: bool = True
) -> compare.Truth:
    """Return the outputs of LiteRT on the imported file, or of the numpy reference if LiteRT cannot run it.

    If LiteRT runs, the result also says how far the numpy reference differs. A model that streams in time is run on the whole
    window of each call; from its outputs, only the rows that the call returns are kept. If `use_litert` is not set, only the
    numpy reference runs.
    """
    litert = _litert(model.whole) if use_litert else None
    right = compare.truth(model.whole.graph, network_inputs(model, cases), litert, progress)
    return replace(right, outputs=[model.stream.new_rows(each) for each in right.outputs]) if model.stream else right


def network_inputs(model: Model, cases: Sequence[Sequence[np.ndarray]]) -> Sequence[Sequence[np.ndarray]]:
    """Convert the inputs of a model's successive calls to inputs of the reference, which computes each call from scratch.

    For a model that streams in time (takes a few new frames per call), they are the whole window of frames at each call; for
    other models they are `cases` unchanged.
    """
    return model.stream.windows(cases) if model.stream else cases


def _litert(model: Model) -> compare.Reference:
    """Return a function that runs the imported file with LiteRT, and takes and returns arrays as the C of `model` does.

    The types and layout of inputs and outputs may differ between file and C, depending on the options `io` and `layout`.
    """

    def run(cases: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        litert.check_kernels(model.original)
        fed = [
            [_file_input(model, name, values) for name, values in zip(model.graph.inputs, case, strict=True)] for case in cases
        ]
        as_filed = model.io == "model" and model.layout == "model"
        runs = litert.run(model.file, fed, keep=not as_filed)
        if as_filed:
            return [run.outputs for run in runs]
        homes = [tensor_source(model.tensors, name)[0] for name in model.graph.outputs]
        if hidden := [home for home in homes if home not in runs[0].layers]:
            raise litert.CannotRunError(
                "LiteRT does not return this tensor of the file", "verify with --io model", tensor=hidden[0]
            )
        wanted = [(home, model.graph.tensors[name].dtype) for home, name in zip(homes, model.graph.outputs, strict=True)]
        return [[as_other_sign(run.layers[home], dtype) for home, dtype in wanted] for run in runs]

    return run


def _file_input(model: Model, name: str, values: np.ndarray) -> np.ndarray:
    """Convert int8 `values` of the network's input `name` to values of the file's input, whose type and layout may differ.

    Raises:
        CannotRunError: the file's input has no values that become the int8 `values`.
    """
    fed = as_in_file(model.original, model.tensors, name, values)
    if fed is None:
        raise litert.CannotRunError(
            "no input of the file corresponds to these int8 values", "verify with --io model", tensor=name
        )
    return fed


def run(
    model: Model, plan: Plan, folder: Path, inputs: Sequence[Sequence[np.ndarray]], core: str = DEFAULT_CORE
) -> list[list[np.ndarray]]:
    """Run samples in sequence on an emulated core and return the outputs of each, one array per network output.

    Args:
        folder: folder that holds the C of the plan.
        inputs: samples, each with one array per network input.
        core: the emulated core.
    """
    built = target.build(plan, folder, model.name, core)
    if not inputs:
        return []
    checked = samples(model, len(inputs), 0, inputs)[: len(inputs)]
    *earlier, last = (compare.pack(model.graph, sample) for sample in checked)
    return compare.unpack_all(model.graph, target.invoke(built, last, earlier=earlier))


def profile_plan(
    model: Model,
    plan: Plan,
    core: str = DEFAULT_CORE,
    sample: Sequence[np.ndarray] | None = None,
    *,
    device: Device | None = None,
    by_step: bool = True,
) -> Profile:
    """Measure one inference of a plan on an emulated core.

    Args:
        core: the emulated core.
        sample: one array per network input; None for a random sample.
        device: device whose Flash wait states and caches count in the estimated cycles, if `core` is the device's core.
        by_step: also measure each step and layer, which takes a second run.
    """
    cases = samples(model, 1, 0, [] if sample is None else [sample])[:1]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write(emit_c(model, plan), Path(folder))
        built = target.build(plan, Path(folder), model.name, core)
        return _profile(compare.run_samples(built, cases, caches=_caches(core, device)), device, by_step=by_step)


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
    that runs the same kernels. Boards with the same kernels and the same emulated core share one build and run.

    Args:
        request: the request; its core is replaced by each board's.
        devices: the boards; None for all.
        sample: as for `profile_plan`.
        progress: called before each build.
    """
    boards = all_devices() if devices is None else devices
    like = {device.core: cost_model_core(device.core) for device in boards}
    planned = {core: make_plan(model, replace(request, core=core)) for core in dict.fromkeys(like.values())}
    plans = {core: planned[other] for core, other in like.items()}
    runs = {device: (plans[device.core].variants, emulated_core(device)) for device in boards}
    profiles = dict[tuple[tuple[str, ...], str], Profile]()
    for device, run in runs.items():
        if run not in profiles:
            if progress:
                progress(f"building and running on the emulated {run[1]}", len(profiles), len(set(runs.values())))
            profiles[run] = profile_plan(model, plans[device.core], run[1], sample, by_step=False)
    return [Fit(device, plans[device.core], profiles[runs[device]]) for device in boards]


def _waits(core: str, device: Device | None) -> int | None:
    """Return the wait states of a Flash read of `device`, to be added to the estimated cycles.

    Return None if they are unknown, if `core` is not the device's core, or if its emulator counts no reads of Flash.
    """
    counted = core in CORES and CORES[core].emulator == "unicorn"
    return device.flash_waits if device and device.core == core and counted else None


def _caches(core: str, device: Device | None) -> dict[str, tuple[int, int, int]]:
    """Return the caches (kind -> bytes, bytes per line, ways) between `core` and the Flash of `device`.

    The result is empty if reads of this Flash have no wait states, or if `core` is not the device's core.
    """
    caches = device.caches if device and _waits(core, device) else ()
    return {cache.kind: (cache.bytes, cache.line, cache.ways) for cache in caches}


def _profile(run: target.Run, device: Device | None = None, *, by_step: bool = True) -> Profile:
    """Return the profile of a run on an emulated core.

    Totals come from the build that is shipped. If `by_step`, steps and layers come from a second build with a trace hook, whose
    calls take instructions too.
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
    """Return the count (instructions or cycles) of each layer, by name.

    A layer that runs unfused has the count of its step, a layer of a fused stage the count of its kernel calls.

    Args:
        parts: (step, layer) -> count; the layer is "" for the code of a step that belongs to no layer.
    """
    counts = {layer: count for (_, layer), count in parts.items() if layer}
    whole = [(stage, count) for stage, count in zip(plan.stages, steps, strict=False) if stage.schedule is None]
    return counts | {plan.graph.ops[stage.ops[0]].name: count for stage, count in whole}


def deploy_model(
    model: Model,
    folder: Path,
    request: Request,
    device: Device | None = None,
    *,
    code: CodeOptions = CodeOptions(),
    proof: ProofOptions = ProofOptions(),
    earlier: EarlierPlan = EarlierPlan(),
    progress: Progress | None = None,
) -> Deployment:
    """Plan a model, write its C into `folder`, build it, compare every output byte with the reference, and measure it.

    The C runs on the core of `device` or the nearest emulated core, or on DEFAULT_CORE without a device. If the program exceeds
    a limit, the model is planned again with the measured values, then by the other objectives, until a program meets all
    limits. The RAM and Flash of a row source are reserved within the request's limits.

    Args:
        folder: an existing folder.
        request: the request for the planner.
        device: the device; None for DEFAULT_CORE.
        code: options of the C.
        proof: samples of the comparison.
        earlier: a plan to start from.
        progress: called during runs.
    """
    source_of = code.row_source
    beside = row_source_bytes(model, source_of) if source_of else 0
    in_flash = compiled_bytes(row_source_files(model, source_of, code.pixels), device)["flash"] if source_of else 0
    allowed = request.limits.less(beside, in_flash)
    core, cases = emulated_core(device), proof.samples(model)
    report = progress or (lambda what, done, of: None)
    build = _builder(model, folder, device, code, report)
    run = partial(compare.run_samples, cases=cases, caches=_caches(core, device), progress=progress)
    measure = partial(compare.run_samples, cases=cases[:1], caches=_caches(core, device))
    whole = replace(request, limits=allowed, flash_to_balance=allowed.flash)
    known = {} if earlier.known is None else earlier.known  # shared by all plans below
    asked = _Asked(model, whole, device, replace(earlier, known=known), build, run)
    there = _fitted(asked)
    if any(_excess(there, allowed, device)) and (others := _by_other_objectives(replace(asked, run=measure), there)):
        best = min([there, *others], key=lambda each: _excess(each, allowed, device))
        there = run(build(best.build.plan))
    right = reference_outputs(model, cases, progress)
    report(f"building for {compare.place_of(target.HOST)}", 0, 1)
    here = run(target.build(there.build.plan, folder, model.name, target.HOST), caches=None)
    verification = compare.verdict(right, cases, [here, there], progress)
    if proof.second_emulator:
        from . import second_emulator as other

        board, compiler, text = other.second_emulator(model, there.build.plan, device, cases, right)
        difference = verification.first_difference or text
        verification = replace(verification, boards={board: compiler}, first_difference=difference)
    measured = _profile(there, device)
    return Deployment(model, there.build.plan, measured, verification, device, request.limits, source_of, beside, in_flash)


@dataclass(frozen=True)
class _Asked:
    """A request for a program of a model, and the functions that build a plan's program and run it."""

    model: Model
    request: Request
    device: Device | None
    earlier: EarlierPlan
    build: Callable[[Plan], target.Build]
    run: Callable[[target.Build], target.Run]

    def plan(self, limits: Limits, other_flash: planning.OtherFlash | None = None) -> Plan:
        """Return the plan of the request with other limits."""
        return make_plan(self.model, replace(self.request, limits=limits, other_flash=other_flash), known=self.earlier.known)


def _builder(
    model: Model, folder: Path, device: Device | None, code: CodeOptions, report: Progress
) -> Callable[[Plan], target.Build]:
    """Return a function that writes the C of a plan into `folder`, instead of that of its last call, and builds it."""
    core, emitted = emulated_core(device), list[str]()

    def build(planned: Plan) -> target.Build:
        for name in emitted:
            (folder / name).unlink()
        made = emit_c(model, planned, device, code)
        write(made, folder)
        emitted[:] = made.files
        report(f"building for {compare.place_of(core)}", 0, 1)
        return target.build(planned, folder, model.name, core)

    return build


def _fitted(asked: _Asked) -> target.Run:
    """Return the run of a plan for a request, planned again with measured values if build or run exceed a limit.

    Each measured value is used at most REBUILDS times.
    """
    allowed, earlier, build = asked.request.limits, asked.earlier, asked.build
    trades_flash = planning.trades_flash(asked.model.graph, with_defaults(asked.model, asked.request).core)
    first, other_flash, fitting = earlier.plan or asked.plan(allowed), None, None
    # The estimated code size may reject a plan that fits. So the plan without Flash limit is built, unless its constants
    # alone exceed the limit.
    if trades_flash and allowed.flash is not None and not earlier.stays:
        free = asked.plan(replace(allowed, flash=None))
        first = first if estimate_flash(free, asked.device).excess(allowed.flash) else free
    built = build(first)
    stays = earlier.stays and not _exceeds_flash(built, allowed)
    for _ in range(REBUILDS if (trades_flash or _exceeds_flash(built, allowed)) and not stays else 0):
        fitting = fitting if _exceeds_flash(built, allowed) else built.plan
        other_flash = _other_flash(built)
        replanned = asked.plan(allowed, other_flash)
        if replanned.variants == built.plan.variants:
            break
        built = build(replanned)
    if fitting is not None and _exceeds_flash(built, allowed):  # the code of newly chosen kernels is larger than estimated
        built = build(fitting)
    there = asked.run(built)
    for _ in range(REBUILDS):
        stricter = _stricter(allowed, there, asked.device)
        replanned = asked.plan(stricter, other_flash) if stricter else built.plan
        if (replanned.stages, replanned.variants) == (built.plan.stages, built.plan.variants):
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
        if taken is not None and foreseen is not None and foreseen.at_least and limits.latency_excess(taken.likely):
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
    return planning.OtherFlash(rest, frozenset(plan.variants) - {""})


def boards_that_fit(profile: Profile, more_ram: int = 0, more_flash: int = 0) -> list[Device]:
    """Return the known boards whose RAM and Flash hold the measured program.

    The size of the code is not measured again for each board's core, although it differs slightly. A board of unknown RAM or
    Flash is included if the known one suffices. `more_ram` and `more_flash` are bytes of other code in the program, such as the
    C that reads the input from a camera.
    """
    return [d for d in all_devices() if not any(excess(profile, Limits(d.ram, d.flash), more_ram, more_flash).values())]


def compiled_bytes(files: Mapping[str, str], device: Device | None) -> dict[str, int]:
    """Compile C files for a device's core and return their bytes of `flash` and `ram`, without the compiler's library."""
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder, named(folder):
        write_below(Path(folder), files)
        return emulated.compiled_bytes(Path(folder), emulated_core(device))


def emulated_core(device: Device | None) -> str:
    """Return the core that is emulated for a device: its own, or the nearest one; DEFAULT_CORE without a device."""
    if device is None:
        return DEFAULT_CORE
    return emulated.nearest(device.core, device.nearest, DEFAULT_CORE)
