"""The public functions of `import tinyweave as tw`; most have a command of the same name.

Functions take a model or the path of its file, a device or its name, and planner options as a PlanOptions, as keyword
arguments (`ram="64k"`), or both. They return frozen results that notebooks show as tables. Bad input raises CompileError, whose
message says what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import api  # its functions are imported when they are first used
from ..ir import CompileError
from ..support.command_words import quoted
from ..support.files import write_below, write_file
from ..support.manifest import generated_folder
from ..support.progress import Progress, silent
from .options import (
    CONFIG,
    METHOD,
    PACKAGE_VERSION,
    SAMPLES,
    SEED,
    CodeChanges,
    ExportChanges,
    PlanChanges,
    PlanOptions,
    command_line,
    option_words,
)
from .results import Emission, Fit, Inspection, Model, Profile, Quantisation, Reordering

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..devices import Device
    from ..importers.shapes import Shapes
    from ..planning import Plan
    from ..simulate.compare import Verification
    from .code import CodeOptions, NewWeights
    from .guarding import GuardResult
    from .quantisation import SampleOptions
    from .running import Outputs
    from .sample_files import Sample

AnyModel = Model | Quantisation | str | Path  # the result of `quantize` has a model
DEFAULTS = PlanOptions()


def load(
    model: str | Path | Any,
    example: Any = None,
    *,
    io: str = "auto",
    layout: str = "model",
    name: str | None = None,
    shapes: Shapes | None = None,
    stream_time: int | str | None = None,
    retrainable: bool = False,
) -> Model:
    """Read a model file, or import a PyTorch module, and simplify its graph.

    Args:
        model: path of a .tflite, .onnx or .pt2 file, a PyTorch module, or an ExportedProgram.
        example: example input of a PyTorch module: a torch.Tensor with a batch of 1, or a tuple with a tensor per input. None
            for files and for an ExportedProgram.
        io: "auto" converts float32 inputs and outputs outside of the arena, in the functions write_input and read_output of the
            C. "model" converts them in the network, in the arena. "int8" removes conversions from and to float32 and uint8, so
            that the C takes and returns int8.
        layout: "model" keeps the order of the axes of inputs and outputs. "nhwc" removes transposes there, so that the channels
            are last.
        name: prefix of the C names, a lower-case C identifier; None makes it from the name of the file or module.
        shapes: input name -> shape, for inputs with dynamic axes, such as {"images": (1, 3, 160, 160)}; a dynamic batch is 1
            without it. For a module without an example: the shape of each argument of `forward`.
        stream_time: number of new frames per call, as in PlanOptions.
        retrainable: keep channels that are constant, as the verbs do with the weights "file" and "fetch".

    Returns:
        The model, for the other functions of this package.

    Raises:
        CompileError: the file is damaged, the module cannot be traced, or an op is not supported.
    """
    if isinstance(model, (str, Path)):
        loaded = api.load_file(model, io, name, layout=layout, shapes=shapes)
    else:
        loaded = api.load_module(model, example, io, name, layout=layout, shapes=shapes)
    loaded = api.streamed(loaded, stream_time)
    return api.for_file(loaded) if retrainable else loaded


def plan(
    model: AnyModel,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    progress: Progress | None = None,
    **changes: Unpack[PlanChanges],
) -> Plan:
    """Plan the memory of a model: op order, fused stages, kernels, and the address of every tensor.

    The plan minimises the objective `optimize` within the limits. If no plan meets the RAM and time limits, the result is the
    fastest plan within the RAM limit, or else the smallest plan.

    Args:
        model: a model, or the path of its file.
        device: a device or its name, for its limits and the kernels of its core. None plans for a Cortex-M4, with no limits but
            those in the options.
        progress: called with the work, the number of its steps done, and of all.
        changes: fields of PlanOptions, as keyword arguments, that replace those of `options`.

    Returns:
        The checked plan; `plan.arena` maps each memory to the bytes that the plan uses.
    """
    return _planned(model, device, options, changes, progress=progress)[2]


def pareto(
    model: AnyModel, device: Device | str | None = None, options: PlanOptions = DEFAULTS, **changes: Unpack[PlanChanges]
) -> list[Plan]:
    """Return the Pareto-optimal plans in RAM and estimated cycles, the fastest first.

    The RAM and time limits do not filter the plans; the Flash limit restricts their kernels.

    Args:
        model: a model, or the path of its file.
        device: a device or its name, as for `plan`.
        options: options of the planner; `schedule` and `optimize` must have their defaults.
        changes: fields of PlanOptions, as for `plan`.
    """
    chosen, target = changed(options, changes), device_of(device)
    if chosen.schedule != "best":
        raise CompileError(f"pareto needs schedule best, not {chosen.schedule}", "leave out the schedule")
    if chosen.optimize is not None:
        raise CompileError("optimize picks one plan, and pareto returns many", "leave it out, or use plan")
    if chosen.in_file:
        raise CompileError("pareto returns plans without a file of weights", "choose other weights, or use plan")
    return api.front(model_of(model, chosen), api.request_of(chosen, target))


def compile(
    models: AnyModel | Sequence[AnyModel],
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    out: str | Path,
    planned: Plan | str | Path | None = None,
    **changes: Unpack[CodeChanges],
) -> Emission:
    """Write the C of a model, or of several, into a folder.

    Files that an earlier call wrote and that are no longer needed are removed; other files in the folder stay.

    Args:
        models: a model, the path of its file, or a sequence of models and paths.
        device: a device or its name, as for `plan`.
        options: options of the planner, used only if `planned` is None; but `stream_time` always applies.
        planned: the plan to emit, or the path of its file, for one model; None plans the models first.
        changes: fields of CodeChanges and PlanOptions.

    Returns:
        The written files, models and plans.

    Raises:
        CompileError: the plan is of another model or core, an op has no kernel, or an option is wrong.
    """
    several, written_to, target = _several(models), output_folder(out), device_of(device)
    code, typed, progress, more = divided(changes)
    if planned is not None and len(several) > 1:
        raise CompileError("--plan holds the plan of one model", "compile the models individually, each with --kernel-prefix")
    ready = [_planned(model, target, options, more, planned=planned, progress=progress) for model in several]
    loaded, plans = tuple(model for model, _, _ in ready), tuple(plan for _, _, plan in ready)
    sources = []
    for model, plan in zip(loaded, plans, strict=True):
        command = command_line("compile", [model.path], typed) if typed else ""
        sources.append(api.emit_c(model, plan, target, replace(code, command=command)))
    emitted: dict[str, str | bytes] = {**api.merge_files(sources)}
    emitted |= {name: content for source in sources for name, content in source.data.items()}
    command = command_line("compile", [model.path for model in loaded], typed) if typed else ""
    with generated_folder(written_to, command, api.origins(loaded)) as written:
        write_below(written.scratch, emitted)
    marks = tuple(f"{model.name}{mark}" for model in loaded for mark in "._")  # kernels' files have other names
    own = tuple(written_to / name for name in emitted if name.startswith(marks))
    return Emission(loaded, plans, written_to, tuple(written_to / name for name in emitted), own, written)


def export(
    models: AnyModel | Sequence[AnyModel],
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    out: str | Path | None,
    format: str,
    package: str | None = None,
    package_version: str = PACKAGE_VERSION,
    inputs: Sequence[Sample] = (),
    **changes: Unpack[ExportChanges],
) -> Emission:
    """Write models as a project or library of another build system.

    Args:
        models: as for `compile`.
        device: a device or its name, as for `plan`.
        options: options of the planner, for all models.
        out: the folder, created if necessary; None is out/PACKAGE_FORMAT.
        format: "cmake", "arduino", "platformio", "esp-idf", "zephyr", "cmsis-pack", "stm32cube", "riot", "tflm" or
            "web".
        package: name of the package; None takes the model's name. Several models need it.
        package_version: version of the package, three numbers.
        inputs: samples of the first model that the package's example program runs, at most 10. Without them, and for the other
            models, a random sample is run.
        changes: as for `compile`, and `array` of ExportChanges.

    Returns:
        The written files, models and plans.

    Raises:
        CompileError: the format is unknown, a name is not valid, an op has no kernel, or an option is wrong.
    """
    api.check_format(format)
    arrays = [given] if isinstance(given := changes.pop("array", ()), str) else given
    target, (code, typed, progress, more) = device_of(device), divided(changes)
    written_to = None if out is None else output_folder(out)
    several = [model_of(model, options) for model in _several(models)]
    if format == "tflm":  # whose firmware writes and reads floats in the arena
        several = [api.with_io(model, "model", model.layout) if model.io == "auto" else model for model in several]
    ready = [_planned(model, target, options, more, progress=progress) for model in several]
    loaded, plans = tuple(model for model, _, _ in ready), tuple(plan for _, _, plan in ready)
    command, each = "tinyweave.export", list[str]()
    words = {"device": device if isinstance(device, str) else device and device.name, **asdict(changed(options, more))}
    if typed is not None:
        command = command_line("export", [model.path for model in loaded], typed)
        one = {name: typed[name] for name in typed if name not in ("array", "format", "inputs", "package", "package_version")}
        each = [command_line("compile", [model.path], one) for model in loaded]
        words = {name: one[name] for name in one if name not in ("source", "pixels", "name", "kernel_prefix")}
        words["device"] = words["device"] and Path(words["device"]).name
    planned_with = " ".join(map(quoted, option_words(words)))
    about = api.PackageOptions(package, package_version, command, planned_with, each, list(map(api.arrays_of, inputs)), arrays)
    made = api.package(loaded, plans, target, about, code)
    files = api.export_files(made, format)
    written_to = written_to or Path("out") / f"{made.name}_{format.replace('-', '_')}"
    with generated_folder(written_to, command if typed else "", api.origins(loaded), is_nested=True) as written:
        write_below(written.scratch, files)
    own = tuple(written_to / name for name in files if name.rpartition("/")[2] not in made.files and "/tensorflow/" not in name)
    return Emission(loaded, plans, written_to, tuple(written_to / name for name in files), own, written, made)


def verify(
    model: AnyModel,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    inputs: Sequence[Sample] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress | None = None,
    **changes: Unpack[PlanChanges],
) -> Verification:
    """Run a model's C on this machine and on an emulated core and compare every output byte with the reference.

    The reference is LiteRT's reference kernels, or a numpy implementation if LiteRT cannot run the model.

    Args:
        model: a model, or the path of its file.
        device: a device or its name, whose core is emulated, or the nearest core that can be. None emulates a Cortex-M4.
        options: options of the planner, used only if `planned` is None; but `stream_time` always applies.
        planned: the plan to verify; None plans the model first.
        inputs: samples to run first: an array per sample, or a sequence of arrays if the network has several inputs. An array
            has the type of the network's input, or floats, which are quantised. It has the shape of the input, also with
            channels first. All samples are run, even if there are more than `samples`.
        samples: number of samples in all. After `inputs` follow samples of all minima, all maxima and all zero points, then
            random samples.
        seed: seed of the random samples.
        changes: fields of PlanOptions, as for `plan`.

    Returns:
        The comparison; `.ok` is True if every byte is right and each arena is used exactly up to its planned size.

    Raises:
        CompileError: the plan is of another model, a sample does not fit the inputs, a compiler or emulator is missing, or an
            option is wrong.
    """
    loaded, target, planned = _planned(model, device, options, changes, planned=planned, progress=progress)
    proof = api.ProofOptions(list(map(api.arrays_of, inputs)), samples, seed)
    return api.verify_plan(loaded, planned, proof, core=api.emulated_core(target), progress=progress)


def run(
    model: AnyModel,
    inputs: Any,
    device: Device | str | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    classes: Sequence[str] = (),
    shapes: Shapes | None = None,
    progress: Progress | None = None,
) -> Outputs:
    """Run a model on samples, one after the other, and return the outputs that the C computes; a float model runs in numpy.

    Args:
        model: a model, or the path of its file, which may be float.
        inputs: a folder of images, wav or .npy files, or one file, also .npz, .csv or raw .bin; an array [samples, *shape] or
            of one sample; a mapping of such arrays by input name; or a sequence of samples. An array has the type of the
            network's input, or floats, which are quantised.
        device: a device or its name, whose core is emulated. None runs the C on this machine, or numpy without a C compiler.
        scale: factor from values of images and recordings to inputs, one or per channel. None takes the factor that `quantize`
            recorded in the file; without it, 0 to 255 of a pixel become all values of an 8-bit input.
        offset: number that is added to the scaled values, or one per channel.
        classes: names of the classes; if empty, those of a JSON file beside the model, or of the file's metadata.
        shapes: shapes of inputs with dynamic axes, as for `load`.

    Raises:
        CompileError: an op is not supported, or the samples do not fit the inputs.
    """
    if isinstance(model, (str, Path)):
        loaded, reasons = api.inspect_file(model, shapes=shapes)
    else:
        loaded = model_of(model, DEFAULTS)
        reasons = api.without_kernel(loaded.graph)
    for reason in reasons:
        if not api.is_float_model([reason]):
            raise reason
    is_float, how = bool(reasons), _read_as(scale, offset, None)
    return api.run_model(
        loaded, inputs, device_of(device), how, is_float=is_float, classes=classes, progress=progress or silent
    )


def profile(
    model: AnyModel,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    sample: Sample | None = None,
    progress: Progress | None = None,
    **changes: Unpack[PlanChanges],
) -> Profile:
    """Run one inference on an emulated core: count instructions, measure RAM and Flash, and estimate cycles.

    Args:
        model: a model, or the path of its file.
        device: a device or its name, as for `verify`. Its Flash wait states and caches count in the cycles if its own core is
            emulated.
        options: options of the planner, used only if `planned` is None; but `stream_time` always applies.
        planned: the plan to measure; None plans the model first.
        sample: the input, as for `verify`; None is a random input with a fixed seed.
        changes: fields of PlanOptions, as for `plan`.

    Returns:
        Instructions and cycles, in all and per layer, and the bytes of RAM and Flash.
    """
    loaded, target, planned = _planned(model, device, options, changes, planned=planned, progress=progress)
    if progress:
        progress("building and running on the emulated core", 0, 1)
    arrays = None if sample is None else api.arrays_of(sample)
    return api.profile_plan(loaded, planned, api.emulated_core(target), arrays, device=target)


def inspect(model: str | Path, *, io: str = "auto", layout: str = "model", shapes: Shapes | None = None) -> Inspection:
    """Import a file even if some of its ops are not supported.

    Args:
        model: path of a .tflite, .onnx or .pt2 file.
        io: as for `load`.
        layout: as for `load`.
        shapes: as for `load`.

    Returns:
        The model, which notebooks show layer by layer, and an error for each op that cannot be compiled. For a float model also
        its int8 form with ranges of one random sample, to estimate its RAM with `plan`; its outputs mean nothing.
    """
    found, reasons = api.inspect_file(model, io, layout=layout, shapes=shapes)
    int8, missing = None, None
    if api.is_float_model(reasons):
        try:
            int8 = api.int8_form(model, shapes)
        except CompileError as error:
            missing = error
    return Inspection(found, tuple(reasons), int8, missing)


def compare(
    model: AnyModel,
    options: PlanOptions = DEFAULTS,
    *,
    sample: Sample | None = None,
    progress: Progress | None = None,
    **changes: Unpack[PlanChanges],
) -> list[Fit]:
    """Plan, build and measure a model for every known board, and return a result per board.

    Boards that run the same kernels on the same emulated core share one measurement.

    Args:
        model: a model, or the path of its file.
        options: options of the planner without `ram`, `flash` and `latency_ms`, since each board has its own memory.
        sample: the input of the inference, as for `profile`.
        changes: fields of PlanOptions, as for `plan`.
    """
    arrays = None if sample is None else api.arrays_of(sample)
    chosen = changed(options, changes)
    if given := [name for name, limit in chosen.limits.items() if limit is not None]:
        raise CompileError(f"{given[0]} has no effect: compare takes the limits of each board", "leave it out")
    if chosen.weights in ("auto", "ram"):
        raise CompileError("compare has one plan for many boards, and copies of weights depend on their RAM", "use plan")
    return api.compare_boards(model_of(model, chosen), api.request_of(chosen), sample=arrays, progress=progress)


def reorder(
    model: AnyModel,
    *,
    engine: str | None = None,
    max_mac_overhead: float | None = None,
    io: str = "model",
    shapes: Shapes | None = None,
    progress: Progress = silent,
) -> Reordering:
    """Find the op order of a .tflite, .onnx or .pt2 model with the least peak memory; rewrite it for another engine.

    Models that cannot be compiled, such as float models, are allowed.

    Args:
        model: a model, or the path of its file.
        engine: `tflm` (TFLite Micro), `litert`, or `vela`, also `vela:ethos-u55-128`, to rewrite the model for less RAM there.
            The file stays as it is if this engine would need no less. None to change only the order of the ops.
        max_mac_overhead: upper bound on the MACs for `engine`, as a multiple of the model's, and on Vela's cycles; 1 if None.
            Above 1 kernels may get zeros, and the first layers may run patch by patch.
        io: `int8` to remove conversions at inputs and outputs for `engine`; `model` to keep them.
        shapes: as for `load`, if `model` is a path.

    Returns:
        The order, its peak in bytes (`.best.peak`), and the model as a .tflite file with its ops in this order (`.file`).
    """
    alone = "--max-mac-overhead" if max_mac_overhead is not None else f"--io {io}" if io != "model" else ""
    if engine is None and alone:
        raise CompileError(f"{alone} has no effect without --engine", "give an engine, such as tflm")
    read = _read(model, shapes)
    if engine is None:
        return api.reorder_model(read)
    most_macs = 1.0 if max_mac_overhead is None else max_mac_overhead
    return api.rewrite_for(read, engine, most_macs, io=io, progress=progress)


def quantize(
    model: AnyModel | Any,
    inputs: Any,
    *,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    labels: Any = None,
    method: str = METHOD,
    samples: int | None = None,
    blame: bool = False,
    flash: int | str | None = None,
    min_sqnr: float | None = None,
    max_accuracy_drop: float | None = None,
    shapes: Shapes | None = None,
    progress: Progress = silent,
) -> Quantisation:
    """Quantise a float model to int8 and compare it with the float model.

    To meet a limit (flash, min_sqnr, max_accuracy_drop), some layers get 4-bit weights or int16 activations, which
    `.precision` of the result lists.

    Args:
        model: a float model, the path of its file, or a PyTorch module, which is traced with the first of the samples.
        inputs: an array or torch.Tensor [samples, ...], an iterable of samples, or a path: .npy, .npz, or a folder of images,
            wav or .npy files. The samples choose the quantisation ranges and measure the error.
        scale: factor of the samples' values, one number or one per channel; None is 1. Images (values 0 to 255) require it.
        offset: number added to the scaled values, or one per channel.
        labels: the class number of each sample, to measure the accuracy: a sequence, a path, or "folders" if each class has its
            own folder of files. None takes the labels of a .npz file; without labels, no accuracy is measured.
        method: how ranges are chosen: "minmax", "percentile", "mse" or "entropy", or "auto" for the best mixture of them.
        samples: largest number of samples that choose the ranges; None is 200. All samples are used for the comparison.
        blame: measure the error of each layer; the result's `blame` lists the layers, largest error first, with remedies.
        flash: Flash limit in bytes, or text such as "64k". None is no limit.
        min_sqnr: least signal-to-quantisation-noise ratio at the outputs in dB. None is no limit.
        max_accuracy_drop: largest loss of accuracy in percentage points, which needs `labels`. None is no limit.
        shapes: as for `load`, if `model` is a path.

    Returns:
        The result; its `model` is the int8 model for `plan` and `compile`, its `file` the bytes of the .tflite file.

    Raises:
        CompileError: the model cannot be quantised, the samples do not fit its inputs, or a limit cannot be met.
    """
    most, limits = api.CALIBRATION if samples is None else samples, api.precision_limits(flash, min_sqnr, max_accuracy_drop)
    options = api.QuantiseOptions(method, most, limits)
    if not isinstance(model, (Model, Quantisation, str, Path)):
        model, inputs = api.load_float_module(model, inputs)
    read_as = _read_as(scale, offset, labels)
    return api.quantize_model(_read(model, shapes), inputs, read_as, options, blamed=blame, progress=progress)


def weights(
    model: AnyModel,
    planned: str | Path,
    device: Device | str | None = None,
    *,
    out: str | Path | None = None,
    inputs: Sequence[Sample] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    progress: Progress | None = None,
) -> NewWeights:
    """Make the file of weights of a network that was trained again, for C that is built already.

    Args:
        model: the network, of the same names and shapes as the one that was compiled, or the path of its file.
        planned: path of NAME_plan.json beside the C, which `compile` or `deploy` wrote with the weights "file".
        device: a device or its name, as for `verify`.
        out: path of the file of weights; nothing is written there unless every output byte is right. None writes no file.
        inputs: samples for the comparison, as for `verify`.
        samples: as for `verify`.
        seed: as for `verify`.

    Returns:
        The file's bytes (`.file`), and the comparison of the C's outputs with the network's reference (`.verification`).

    Raises:
        CompileError: the network has another shape, or needs other C.
    """
    proof = api.ProofOptions(list(map(api.arrays_of, inputs)), samples, seed)
    done = api.new_weights(api.for_file(model_of(model, DEFAULTS)), Path(planned), device_of(device), proof, progress)
    if out is not None and done.verification.ok:
        write_file(Path(out), done.file)
    return done


def guard(path: str | Path = CONFIG, *, update: bool = False, progress: Progress | None = None) -> list[GuardResult]:
    """Deploy every model of a tinyweave.toml and compare it with the limits in this file.

    Args:
        update: record the measurements in tinyweave.lock.json beside the file, for later comparisons.

    Returns:
        A result per model; `.ok` is True if every output byte is right and no limit is exceeded.
    """
    return api.guard_models(Path(path), update=update, progress=progress)


def _read_as(scale: float | Sequence[float] | None, offset: float | Sequence[float], labels: Any) -> SampleOptions:
    return api.SampleOptions(None if scale is None else _numbers(scale), _numbers(offset), labels)


def _numbers(value: float | Sequence[float]) -> tuple[float, ...]:
    numbers = np.asarray(value)
    if numbers.dtype.kind not in "iuf" or numbers.ndim > 1 or not numbers.size or not np.isfinite(numbers).all():
        raise CompileError(f"scale or offset is {value}", "give a finite number, or one per channel")
    return tuple(map(float, numbers.reshape(-1)))


def _read(model: AnyModel, shapes: Shapes | None) -> Model:
    """Return a model as it is, or import a path without passes, as `reorder` and `quantize` need it."""
    if isinstance(model, (str, Path)):
        return api.read(model, shapes=shapes)
    return model_of(model, DEFAULTS)


def model_of(model: AnyModel, options: PlanOptions) -> Model:
    """Return the model, loaded if it is a path, and streamed in time if the option `stream_time` is set.

    Raises:
        CompileError: `model` is neither a model nor a path, nor a result that has a model.
    """
    if isinstance(model, Quantisation):
        model = model.model
    if isinstance(model, (str, Path)):
        model = load(model)
    if not isinstance(model, Model):
        raise CompileError(
            f"a {type(model).__name__} is not a model", "give the path of a file, or a model of tw.load(module, example)"
        )
    model = api.streamed(model, options.stream_time)
    return api.for_file(model) if options.in_file else model


def changed(options: PlanOptions, changes: PlanChanges) -> PlanOptions:
    """Return the options with the fields in `changes` replaced; raise CompileError if a field does not exist."""
    if unknown := sorted(set(changes) - set(PlanOptions.__dataclass_fields__)):
        raise CompileError(f"there is no option {unknown[0]}", f"options are {', '.join(PlanOptions.__dataclass_fields__)}")
    return replace(options, **changes)


def divided(changes: CodeChanges) -> tuple[CodeOptions, Mapping[str, Any] | None, Progress | None, PlanChanges]:
    """Return the options of the C, the typed options, the progress callback and the options of the planner."""
    rest: Any = dict(changes)
    code = api.CodeOptions("", rest.pop("kernel_prefix", ""), rest.pop("source", None), rest.pop("pixels", None))
    return code, rest.pop("typed", None), rest.pop("progress", None), rest


def device_of(device: Device | str | None) -> Device | None:
    """Return a device, found by its name if `device` is text; None stays None."""
    from ..devices import find

    return find(device) if isinstance(device, str) else device


def output_folder(folder: str | Path) -> Path:
    """Return the path of an output folder.

    Raises:
        CompileError: the folder does not exist and its name is a device's, so the caller probably confused the two arguments.
    """
    path = Path(folder)
    if path.name == str(folder) and not path.exists():
        try:
            device_of(path.name)
        except CompileError:
            return path
        raise CompileError(f"the folder '{folder}' is a device's name", f"give it as the device, or out/{folder} as the folder")
    return path


def _planned(
    model: AnyModel,
    device: Device | str | None,
    options: PlanOptions,
    changes: PlanChanges,
    *,
    planned: Plan | str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[Model, Device | None, Plan]:
    """Return the model, the device, and the plan: `planned` after a check, or a new plan if `planned` is None.

    Raises:
        CompileError: `planned` is of another model, or has kernels that the device's core cannot run.
    """
    chosen, target = changed(options, changes), device_of(device)
    loaded = model_of(model, chosen)
    core = target.core if target else None
    if isinstance(planned, (str, Path)):
        loaded = api.for_file(loaded) if api.has_weights_file(planned) else loaded
        return loaded, target, api.read_plan(planned, loaded, core)
    if planned is not None and planned.weights_file:
        loaded = api.for_file(loaded)
    if planned is not None:
        api.check_plan(planned, loaded, core)
        return loaded, target, planned
    return loaded, target, api.make_plan(loaded, api.request_of(chosen, target), progress=progress)


def _several(models: AnyModel | Sequence[AnyModel]) -> Sequence[AnyModel]:
    if isinstance(models, (list, tuple)) and not models:
        raise CompileError("there are no models", "give at least one")
    return models if isinstance(models, (list, tuple)) else [models]  # type: ignore[list-item]
