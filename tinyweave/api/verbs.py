"""The public functions of `import tinyweave as tw`, one per command.

They take a model or the path of its file, a device or its name, and options as a PlanOptions or individually (`ram="64k"`).
They return frozen results with a notebook view. Bad input raises CompileError, which says what is wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import api  # its functions are imported when they are first used
from ..command_words import quoted, typed
from ..devices import Device, find
from ..files import write_below
from ..ir import CompileError
from ..manifest import generated_folder
from ..planning import Plan
from ..simulate.compare import Verification
from . import guarding
from .guarding import CONFIG, GuardResult
from .options import EPOCHS, METHOD, PACKAGE_VERSION, RATE, SAMPLES, SEED, PlanOptions
from .results import Deployment, Fit, Model, Profile, Pruning, Quantisation, Reordering

if TYPE_CHECKING:  # a search loads much that others do not need
    from ..nas.prepare import Preparation
    from ..nas.searching import SearchResult
    from ..nas.space import SearchSpace
    from ..tasks.dataset import Dataset
    from .quantisation import SampleOptions

Sample = np.ndarray | Sequence[np.ndarray]  # an array, or one for each of several inputs
DEFAULTS = PlanOptions()


def load(
    model: str | Path | Any, example: Any = None, *, io: str = "model", layout: str = "model", name: str | None = None
) -> Model:
    """Read a model file, or import a PyTorch module, and run the passes.

    Args:
        model: path of a .tflite, .onnx or .pt2 file, a PyTorch module, or an ExportedProgram.
        example: example of the module's input: a torch.Tensor with a batch of 1, or a tuple of them.
        io: "int8" strips float and uint8 inputs and outputs, "model" keeps them.
        layout: "nhwc" puts channels last, "model" keeps the layout.
        name: prefix of the C names; by default made from the name of the file or module.
    """
    if isinstance(model, (str, Path)):
        return api.load_file(model, io, name, layout=layout)
    return api.load_module(model, example, io, name, layout=layout)


def plan(
    model: Model | str | Path, device: Device | str | None = None, options: PlanOptions = DEFAULTS, **changes: Any
) -> Plan:
    """Return the memory plan with the best trade of RAM and cycles, or the plan for the objective `optimize`.

    It is returned even if it does not fit; `plan.arena` has its bytes by memory. `changes` are fields of PlanOptions.
    """
    return _planned(model, device, options, changes)[2]


def pareto(
    model: Model | str | Path, device: Device | str | None = None, options: PlanOptions = DEFAULTS, **changes: Any
) -> list[Plan]:
    """Return the Pareto-optimal plans in RAM and cycles, the fewest cycles first.

    They include the plan that `plan` chooses, and plans above the RAM limit.
    """
    chosen, target = _changed(options, changes), _device(device)
    if chosen.schedule != "best":
        raise CompileError(f"pareto needs schedule best, not {chosen.schedule}", "leave out the schedule")
    if chosen.optimize is not None:
        raise CompileError("optimize picks one plan, and pareto returns many", "leave it out, or use plan")
    return api.front(_model(model, chosen), api.request_of(chosen, target))


def compile(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    folder: str | Path,
    planned: Plan | None = None,
    kernel_prefix: str = "",
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> list[Path]:
    """Write the C of a model into a folder and return the written files.

    Files of an earlier call that are no longer needed are removed; other files stay. `planned` is a plan to emit; by default
    the model is planned. `kernel_prefix` begins the kernels' names. `source` is a camera or JPEG source of the input, whose C
    is added (see docs/CAMERA.md), `pixels` its values of black and white for the network, such as "0..1". `changes` are fields
    of PlanOptions.
    """
    written_to = _folder(folder)
    loaded, target, planned = _planned(model, device, options, changes, planned)
    emitted = api.emit_c(loaded, planned, target, api.CodeOptions("", kernel_prefix, source, pixels))
    with generated_folder(written_to, "", api.origins([loaded])) as written:
        api.write(emitted, written.scratch)
    return [written_to / name for name in emitted.files]


def export(
    models: Model | str | Path | Sequence[Model | str | Path],
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    folder: str | Path,
    format: str,
    package: str | None = None,
    package_version: str = PACKAGE_VERSION,
    inputs: Sequence[Sample] = (),
    kernel_prefix: str = "",
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> list[Path]:
    """Write models as a project or library of another build system and return the written files.

    `format` is "cmake" or another format of docs/EXPORT.md. `package` names the package, by default after the model, and is
    required for several models; `package_version` is its version. `inputs` are samples of the first model that the package's
    example program runs. The rest are as in `compile`.
    """
    api.check_format(format)
    written_to = _folder(folder)
    several = [models] if isinstance(models, (Model, str, Path)) else models
    planned = [_planned(model, device, options, changes) for model in several]
    loaded, plans = [model for model, _, _ in planned], [plan for _, _, plan in planned]
    typed_options = _typed(device, _changed(options, changes))
    about = api.PackageOptions(package, package_version, "tinyweave.export", typed_options, inputs=list(map(_arrays, inputs)))
    made = api.package(loaded, plans, _device(device), about, api.CodeOptions("", kernel_prefix, source, pixels))
    files = api.export_files(made, format)
    with generated_folder(written_to, "", api.origins(loaded), is_nested=True) as written:
        write_below(written.scratch, files)
    return [written_to / name for name in files]


def verify(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    inputs: Sequence[Sample] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    **changes: Any,
) -> Verification:
    """Run the C on this machine and on an emulated core and compare every byte with the reference.

    `.ok` of the result is the verdict. `inputs` are used first, then edge values and random samples, until there are `samples`.
    """
    loaded, target, planned = _planned(model, device, options, changes, planned)
    proof = api.ProofOptions(list(map(_arrays, inputs)), samples, seed)
    return api.verify_plan(loaded, planned, proof, core=api.emulated_core(target))


def profile(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    sample: Sample | None = None,
    **changes: Any,
) -> Profile:
    """Measure instructions, stack and code size of one inference on an emulated core, and estimate its cycles."""
    loaded, target, planned = _planned(model, device, options, changes, planned)
    arrays = None if sample is None else _arrays(sample)
    return api.profile_plan(loaded, planned, api.emulated_core(target), arrays, device=target)


def deploy(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    folder: str | Path,
    inputs: Sequence[Sample] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
    second_emulator: bool = False,
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> Deployment:
    """Plan a model, write its C into a folder, compare every byte with the reference, and measure it.

    `.fits` and `.verification.ok` of the result are the verdicts. `inputs`, `samples` and `seed` are as for `verify`. With
    `second_emulator`, complete firmware also runs on a board that QEMU emulates. The other parameters are those of `compile`.
    """
    written_to, chosen, target = _folder(folder), _changed(options, changes), _device(device)
    loaded = _model(model, chosen)
    if second_emulator:
        api.qemu_board(target)
    code = api.CodeOptions(row_source=source, pixels=pixels)
    proof = api.ProofOptions(list(map(_arrays, inputs)), samples, seed, second_emulator)
    request = api.request_of(chosen, target)
    with generated_folder(written_to, "", api.origins([loaded])) as written:
        return api.deploy_model(loaded, written.scratch, request, target, code=code, proof=proof)


def compare(
    model: Model | str | Path, options: PlanOptions = DEFAULTS, *, sample: Sample | None = None, **changes: Any
) -> list[Fit]:
    """Measure a model on every known board; it is planned, built and run once per core."""
    arrays = None if sample is None else _arrays(sample)
    chosen = _changed(options, changes)
    if given := [name for name, limit in chosen.limits.items() if limit is not None]:
        raise CompileError(f"{given[0]} has no effect: compare takes the limits of each board", "leave it out")
    return api.compare_boards(_model(model, chosen), api.request_of(chosen), sample=arrays)


def reorder(model: Model | str | Path) -> Reordering:
    """Return the op order of a model with the least peak memory, and the .tflite file in that order."""
    return api.reorder_model(_read(model))


def quantize(
    model: Model | str | Path,
    samples: Any,
    *,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    labels: Any = None,
    method: str = METHOD,
    count: int | None = None,
    equalize: bool = False,
    correct_bias: bool = False,
    adaptive_rounding: bool = False,
    blame: bool = False,
    flash: int | str | None = None,
    min_sqnr: float | None = None,
    max_accuracy_drop: float | None = None,
) -> Quantisation:
    """Make a float model int8 and compare it with the float model; the result's `model` is for `plan` and `compile`.

    Each improvement (equalize, correct_bias, adaptive_rounding) is kept only if the SQNR improves; `.gains` has the dB. With
    limits (flash, min_sqnr, max_accuracy_drop), layers may have 4-bit weights or int16 maps; `.precision` lists these layers.

    Args:
        model: a float model, or the path of its file.
        samples: an array [samples, ...], an iterable of samples, or a path: .npy, .npz, or a folder of images, wav or .npy
            files.
        scale: factor of the samples' values, one number or one per channel. Images (0 to 255) need it.
        offset: added to the scaled values, likewise.
        labels: class per sample, for the accuracy.
        method: method of choosing ranges: "auto", "minmax", "percentile", "mse" or "entropy".
        count: most samples that choose the ranges, 200 by default; all samples are compared.
        equalize: rescale channels between layers.
        correct_bias: restore the means of layers to those of the float model.
        adaptive_rounding: round each weight up or down to minimise the error of its layer.
        blame: measure the error of each layer; the result lists the largest first, with remedies.
        flash: Flash limit in bytes, or text such as "64k".
        min_sqnr: least signal-to-quantisation-noise ratio in dB.
        max_accuracy_drop: largest loss of accuracy in percentage points.
    """
    options = api.QuantiseOptions(
        method,
        api.CALIBRATION if count is None else count,
        equalize,
        correct_bias,
        adaptive_rounding,
        api.precision_limits(flash, min_sqnr, max_accuracy_drop),
    )
    return api.quantize_model(_read(model), samples, _read_as(scale, offset, labels), options, blamed=blame)


def prune(
    model: Model | str | Path,
    samples: Any,
    *,
    ram: int | str | None = None,
    flash: int | str | None = None,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    labels: Any = None,
    epochs: int = EPOCHS,
    rate: float = RATE,
) -> Pruning:
    """Remove channels of a float model until its int8 form fits limits, and train it to give the float outputs.

    `.fidelities` of the result has the error of the unpruned int8 network, of the pruned, and of the trained one.

    Args:
        model: a float model, or the path of its file.
        samples: as for `quantize`.
        ram: RAM limit in bytes, or text such as "32k", of the plan with the least RAM.
        flash: Flash limit of the same plan, likewise.
        scale: as for `quantize`.
        offset: as for `quantize`.
        labels: as for `quantize`. Without labels, the network is trained on the float model's outputs.
        epochs: epochs of training, which needs torch; 0 for none.
        rate: highest learning rate.
    """
    options = api.PruneOptions(ram, flash, epochs, rate)
    return api.prune_model(_read(model), samples, options, _read_as(scale, offset, labels))


def search(
    data: str | Path | Dataset,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    folder: str | Path,
    task: str = "images",
    strategy: str = "auto",
    minutes: float | None = None,
    against: Sequence[str] = (),
    feasible: float = 0.8,
    proxies: Sequence[str] = ("macs", "parameters"),
    space: SearchSpace | None = None,
    prepared: Preparation | None = None,
    seed: int = SEED,
    processes: int = 2,
    ray: bool = False,
    energy_mj: float | None = None,
    **changes: Any,
) -> SearchResult:
    """Find a network for labelled samples that fits a device, train it, make it int8, and write its C into `folder`/firmware.

    The same call resumes an interrupted run. Of the planner's options, only `stream_inputs`, `max_mac_overhead` and the limits
    have an effect.

    Args:
        data: a folder with a folder of files per class; for detection a VOC or COCO data set; or a Dataset (with `space`).
        device: a device, or its name.
        options: options of the planner.
        folder: the folder, created if necessary.
        task: "images", "visual-wake-words", "keywords", "sensors" or "detection".
        strategy: "halving" trains many networks briefly and few for long. "supernet" trains all at once and evolves the best.
            "auto" is "supernet" with a GPU, from 3 hours on, or with `against`.
        minutes: approximate time to train, 20 by default.
        against: costs ("ram", "flash", "macs", "ms", "mj") that the supernet's search minimises besides the error.
        feasible: share of a width's networks that must fit for a supernet of this width.
        proxies: names of tinyweave.nas.proxies, which rank the networks that halving trains.
        space: the search space; by default the task's.
        prepared: preparation of the files.
        seed: seed of the search.
        processes: number of processes.
        ray: train on the Ray cluster of RAY_ADDRESS, or on a local one.
        energy_mj: energy limit of one inference in mJ, for a device whose current is known.
        changes: fields of PlanOptions to change.
    """
    from ..nas import costs, prepare, searching

    written_to, chosen, target = _folder(folder), _changed(options, changes), _device(device)
    if not isinstance(data, (str, Path)):
        if space is None:
            raise CompileError("a Dataset needs a search space", "give one of tinyweave.nas.space, or your own")
        samples, searched = data, space
    else:
        samples, searched = prepare.task_of(task, Path(data), prepared or prepare.Preparation())
    limits = api.request_of(chosen, target).limits
    aim = costs.Target(target, limits, chosen.stream_inputs, chosen.max_mac_overhead, energy_mj=energy_mj)
    return searching.search(
        samples,
        space or searched,
        aim,
        written_to,
        searching.SearchOptions(
            strategy=strategy,
            minutes=minutes,
            seed=seed,
            processes=processes,
            ray=ray,
            against=against,
            feasible=feasible,
            proxies=proxies,
        ),
    )


def guard(path: str | Path = CONFIG) -> list[GuardResult]:
    """Deploy every model of a tinyweave.toml and compare it with its limits; `.ok` of each result is the verdict."""
    return guarding.guard_models(Path(path))


def _read_as(scale: float | Sequence[float] | None, offset: float | Sequence[float], labels: Any) -> SampleOptions:
    return api.SampleOptions(None if scale is None else _numbers(scale), _numbers(offset), labels)


def _numbers(value: float | Sequence[float]) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, (int, float)) else tuple(map(float, value))


def _read(model: Model | str | Path) -> Model:
    """Return the model before the passes."""
    return model if isinstance(model, Model) else api.read(model)


def _model(model: Model | str | Path, options: PlanOptions) -> Model:
    """Return the model, read if it is a path, with the hop of the options."""
    return api.streamed(model if isinstance(model, Model) else load(model), options.stream_time)


def _changed(options: PlanOptions, changes: dict[str, Any]) -> PlanOptions:
    """Return options with changed fields; raise CompileError for a field that does not exist."""
    if unknown := sorted(set(changes) - set(PlanOptions.__dataclass_fields__)):
        raise CompileError(f"there is no option {unknown[0]}", f"options are {', '.join(PlanOptions.__dataclass_fields__)}")
    return replace(options, **changes)


def _device(device: Device | str | None) -> Device | None:
    return find(device) if isinstance(device, str) else device


def _folder(folder: str | Path) -> Path:
    """Return the path of a folder; raise CompileError if it is a device's name and no such folder exists."""
    path = Path(folder)
    if path.name == str(folder) and not path.exists():
        try:
            find(path.name)
        except CompileError:
            return path
        raise CompileError(f"the folder '{folder}' is a device's name", f"give it as the device, or out/{folder} as the folder")
    return path


def _planned(
    model: Model | str | Path,
    device: Device | str | None,
    options: PlanOptions,
    changes: dict[str, Any],
    planned: Plan | None = None,
) -> tuple[Model, Device | None, Plan]:
    """Return the model, the device and the plan: `planned` after a check, else a new plan."""
    chosen, target = _changed(options, changes), _device(device)
    loaded = _model(model, chosen)
    if planned is not None:
        api.check_plan(planned, loaded, target.core if target else None)
        return loaded, target, planned
    return loaded, target, api.make_plan(loaded, api.request_of(chosen, target))


def _typed(device: Device | str | None, options: PlanOptions) -> str:
    """Return a device and the changed options as words of the command line."""
    chosen = {"device": device.name if isinstance(device, Device) else device, **asdict(options)}
    return " ".join(map(quoted, typed(chosen, asdict(DEFAULTS))))


def _arrays(sample: Sample) -> list[np.ndarray]:
    return [sample] if isinstance(sample, np.ndarray) else list(sample)
