"""The verbs of tinyweave as Python functions, one for each command: what `import tinyweave as tw` offers.

In: a model, or the path of its file; a device, or its name; options, as a PlanOptions, or one by one (`ram="64k"`). Out: frozen
results, which show themselves in a notebook. Bad input raises CompileError, whose text says what, where and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import api, guarding
from .devices import Device, find
from .files import write_below
from .guarding import CONFIG, Guarded
from .ir import CompileError
from .manifest import generated_folder
from .options import PlanOptions, typed
from .planning import Plan
from .results import Deployment, Fit, Model, Profile, Pruning, Quantisation, Reordering
from .simulate.compare import Verification

if TYPE_CHECKING:  # a search loads much that others do not need
    from .nas.prepare import Preparation
    from .nas.searching import SearchResult
    from .nas.space import SearchSpace
    from .tasks.dataset import Dataset

Sample = np.ndarray | Sequence[np.ndarray]  # an array, or one for each of several inputs
DEFAULTS = PlanOptions()


def load(
    model: str | Path | Any, example: Any = None, *, io: str = "model", layout: str = "model", name: str | None = None
) -> Model:
    """Read a .tflite, .onnx or .pt2 file, or take a PyTorch module with an example of its input, and run the passes.

    example: a torch.Tensor with a batch of 1, or a tuple of them; an ExportedProgram needs none. io: "int8" strips float and
    uint8 inputs and outputs. layout: "nhwc" puts channels last. name: prefix of the C names, that of the file or the module if
    left out.
    """
    if isinstance(model, (str, Path)):
        return api.load(model, io, name, layout=layout)
    return api.load_module(model, example, io, name, layout=layout)


def plan(
    model: Model | str | Path, device: Device | str | None = None, options: PlanOptions = DEFAULTS, **changes: Any
) -> Plan:
    """Return the memory plan with the least RAM, or the best trade of RAM and cycles that `optimize` asks for.

    It is returned whether or not it fits: `plan.arena` has its bytes by memory.
    """
    return _planned(model, device, options, changes)[2]


def pareto(
    model: Model | str | Path, device: Device | str | None = None, options: PlanOptions = DEFAULTS, **changes: Any
) -> list[Plan]:
    """Return the plans of which none needs as little RAM and as few cycles as another, the fewest cycles first.

    `plan` chooses one of them; those above the RAM limit are there too.
    """
    chosen, target = _changed(options, changes), _device(device)
    if chosen.schedule != "best":
        raise CompileError(f"there is no front of schedule {chosen.schedule}", "leave out the schedule")
    if chosen.optimize is not None:
        raise CompileError("optimize picks one plan, and the front is all of them", "leave it out, or use plan")
    limits, core = api.limits_of(target, **chosen.limits), target.core if target else api.DEFAULT_CORE
    more = {name: value for name, value in chosen.planning.items() if name not in ("schedule", "optimize")}
    return api.front(_model(model, chosen), limits, core=core, **more)


def compile(
    model: Model | str | Path,
    folder: str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    kernel_prefix: str = "",
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> list[Path]:
    """Write the C of a model into a folder; return the files that were written.

    Other files of the folder stay; what an earlier call wrote there and is no longer part of it is removed. planned: emit this
    plan instead of planning. source, pixels: C that brings the input of a camera or a JPEG file, see docs/CAMERA.md.
    """
    loaded, target, planned = _planned(model, device, options, changes, planned)
    emitted = api.source(loaded, planned, "", target, kernel_prefix=kernel_prefix, row_source=source, pixels=pixels)
    with generated_folder(Path(folder), "", {loaded.name: (loaded.path.name, loaded.sha256)}) as written:
        api.write(emitted, written.scratch)
    return [Path(folder) / name for name in emitted.files]


def export(
    models: Model | str | Path | Sequence[Model | str | Path],
    folder: str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    format: str,
    package: str | None = None,
    package_version: str = "1.0.0",
    inputs: Sequence[Sample] = (),
    kernel_prefix: str = "",
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> list[Path]:
    """Write a model, or several, as a project or library of another build system; return the files that were written.

    format: "cmake" and others, see docs/EXPORT.md. package: its name, that of the model where there is one. inputs: samples of
    the first model that the example runs. source, pixels: as of `compile`. Other files of the folder stay, as `compile`
    leaves them.
    """
    api.check_format(format)
    one = isinstance(models, (Model, str, Path))
    planned = [_planned(model, device, options, changes) for model in ([models] if one else models)]  # type: ignore[list-item]
    loaded, plans = [model for model, _, _ in planned], [plan for _, _, plan in planned]
    made = api.package(
        loaded,
        plans,
        name=package,
        version=package_version,
        device=_device(device),
        command="tinyweave.export",
        options=_typed(device, _changed(options, changes)),
        kernel_prefix=kernel_prefix,
        inputs=list(map(_arrays, inputs)),
        row_source=source,
        pixels=pixels,
    )
    files = api.export_files(made, format)
    origins = {model.name: (model.path.name, model.sha256) for model in loaded}
    with generated_folder(Path(folder), "", origins, is_nested=True) as written:
        write_below(written.scratch, files)
    return [Path(folder) / name for name in files]


def verify(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    inputs: Sequence[Sample] = (),
    samples: int = 5,
    seed: int = 0,
    **changes: Any,
) -> Verification:
    """Run the C on this machine and on an emulated core, and compare every byte with the reference's: `.ok` is the verdict."""
    loaded, target, planned = _planned(model, device, options, changes, planned)
    return api.verify(
        loaded, planned, inputs=list(map(_arrays, inputs)), count=samples, seed=seed, core=api.emulated_core(target)
    )


def profile(
    model: Model | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    planned: Plan | None = None,
    sample: Sample | None = None,
    **changes: Any,
) -> Profile:
    """Measure one inference on an emulated core: instructions, stack, code size, and cycles as they are estimated."""
    loaded, target, planned = _planned(model, device, options, changes, planned)
    arrays = None if sample is None else _arrays(sample)
    return api.profile(loaded, planned, api.emulated_core(target), arrays, device=target)


def deploy(
    model: Model | str | Path,
    folder: str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    inputs: Sequence[Sample] = (),
    samples: int = 5,
    seed: int = 0,
    second_emulator: bool = False,
    source: str | None = None,
    pixels: str | None = None,
    **changes: Any,
) -> Deployment:
    """Plan, write the C into a folder, prove every byte, and measure it; `.fits` and `.verification.ok` are the verdicts.

    second_emulator: run it as complete firmware on a board that QEMU plays, too. source, pixels: as of `compile`.
    """
    chosen, target = _changed(options, changes), _device(device)
    loaded = _model(model, chosen)
    if second_emulator:
        api.board_for(target)
    with generated_folder(Path(folder), "", {loaded.name: (loaded.path.name, loaded.sha256)}) as written:
        return api.deploy(
            loaded,
            written.scratch,
            device=target,
            limits=api.limits_of(target, **chosen.limits),
            inputs=list(map(_arrays, inputs)),
            count=samples,
            seed=seed,
            second_emulator=second_emulator,
            row_source=source,
            pixels=pixels,
            **chosen.planning,
        )


def compare(
    model: Model | str | Path, options: PlanOptions = DEFAULTS, *, sample: Sample | None = None, **changes: Any
) -> list[Fit]:
    """Hold a model against every known board: planned, built and run once per core."""
    arrays = None if sample is None else _arrays(sample)
    chosen = _changed(options, changes)
    if given := [name for name, limit in chosen.limits.items() if limit is not None]:
        raise CompileError(f"compare holds a model against what boards have: {given[0]} limits nothing", "leave it out")
    return api.compare_boards(_model(model, chosen), sample=arrays, **chosen.planning)


def reorder(model: Model | str | Path) -> Reordering:
    """Return the order of a model's ops that needs the least memory, and its .tflite file in that order."""
    return api.reorder(_read(model))


def quantize(
    model: Model | str | Path,
    samples: Any,
    *,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    labels: Any = None,
    method: str = "auto",
    count: int | None = None,
    equalize: bool = False,
    correct_bias: bool = False,
    adaptive_rounding: bool = False,
    blame: bool = False,
    flash: int | str | None = None,
    min_sqnr: float | None = None,
    max_accuracy_drop: float | None = None,
) -> Quantisation:
    """Make a float model int8 and compare the two; the result's `model` is one that `plan`, `compile` and `verify` take.

    samples: an array [samples, ...], an iterable of samples, or a path: .npy, .npz, or a folder of images, wav or .npy files.
    scale, offset: the network is given values * scale + offset, one number each or one per channel; images, 0 .. 255, must have
    a scale. labels: a class per sample. method: "auto", "minmax", "percentile", "mse" or "entropy". count: samples that choose
    the scales, 200 at most if not given; all are compared. equalize: rescale channels between layers. correct_bias: bring the
    means of layers to where they are in the float model. adaptive_rounding: round each weight up or down so that its layer
    gives what the float one gives. All are kept only where they gain; `.gains` says how much that is.
    blame: say how much noise each layer makes, the worst first, and what would help. flash, min_sqnr, max_accuracy_drop: bytes
    at most, dB at least, points below the float model at most; layers have 4-bit weights and int16 maps for that, `.precision`
    says which, and what each costs and gains.
    """
    return api.quantize(
        _read(model),
        samples,
        scale=None if scale is None else _numbers(scale),
        offset=_numbers(offset),
        labels=labels,
        method=method,
        equalize=equalize,
        correct_bias=correct_bias,
        adaptive_rounding=adaptive_rounding,
        blamed=blame,
        flash=flash,
        min_sqnr=min_sqnr,
        max_accuracy_drop=max_accuracy_drop,
        **({} if count is None else {"count": count}),
    )


def prune(
    model: Model | str | Path,
    samples: Any,
    *,
    ram: int | str | None = None,
    flash: int | str | None = None,
    scale: float | Sequence[float] | None = None,
    offset: float | Sequence[float] = 0.0,
    labels: Any = None,
    epochs: int = 10,
    rate: float = 1e-4,
) -> Pruning:
    """Make a float model int8 without the channels that keep it above a limit, and train the rest to give what it gave.

    ram, flash: bytes of the plan with the least RAM and code. samples, scale, offset, labels: see `quantize`. epochs, rate: of
    the training, which needs torch; without labels it aims at what the float model gives. `.fidelities` says what is lost: of
    int8, pruned, and after the training.
    """
    return api.prune(
        _read(model),
        samples,
        ram=ram,
        flash=flash,
        scale=None if scale is None else _numbers(scale),
        offset=_numbers(offset),
        labels=labels,
        epochs=epochs,
        rate=rate,
    )


def search(
    data: str | Path | Dataset,
    folder: str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    task: str = "images",
    strategy: str = "auto",
    minutes: float | None = None,
    against: Sequence[str] = (),
    proxies: Sequence[str] = ("macs", "parameters"),
    space: SearchSpace | None = None,
    prepared: Preparation | None = None,
    seed: int = 0,
    processes: int = 2,
    ray: bool = False,
    energy_mj: float | None = None,
    **changes: Any,
) -> SearchResult:
    """Find a network for labelled samples that fits a device, train it, make it int8, and write its C into `folder`/firmware.

    data: a folder with a folder of files for each class, of detection VOC's or COCO's, or a Dataset with the space to search.
    task: "images", "visual-wake-words", "keywords", "sensors" or "detection". strategy: "halving" trains many networks a little
    and few for long; "supernet" trains all at once and breeds the best; "auto" takes the latter with a GPU, 3 hours or
    `against`. minutes: about how long to train, 20 if not given. against: costs ("ram", "flash", "macs", "ms", "mj") that the
    supernet's search makes small, too.
    proxies: of tinyweave.nas.proxies, who vote for what halving trains. prepared: what is done to the files. ray: train on a
    Ray cluster, that of RAY_ADDRESS or one that is started here. energy_mj: what one inference may take from the supply of a
    device whose current is known. The same call goes on with a run that was interrupted. Of the options the planner takes
    `stream_inputs`, `max_mac_overhead` and the limits.
    """
    from .nas import costs, prepare, searching

    chosen, target = _changed(options, changes), _device(device)
    if not isinstance(data, (str, Path)):
        if space is None:
            raise CompileError("a Dataset says no space", "give one of tinyweave.nas.space, or your own")
        samples, searched = data, space
    else:
        samples, searched = prepare.task_of(task, Path(data), prepared or prepare.Preparation())
    limits = api.limits_of(target, **chosen.limits)
    aim = costs.Target(target, limits, chosen.stream_inputs, chosen.max_mac_overhead, energy_mj=energy_mj)
    return searching.search(
        samples,
        space or searched,
        aim,
        Path(folder),
        strategy=strategy,
        minutes=minutes,
        seed=seed,
        processes=processes,
        ray=ray,
        against=against,
        proxies=proxies,
    )


def guard(path: str | Path = CONFIG) -> list[Guarded]:
    """Deploy every model that a tinyweave.toml lists and hold it against its limits: `.ok` is the verdict on each."""
    return guarding.guard(Path(path))


def prepare_qat(module: Any, example: Any, samples: Any, *, weight_bits: int = 8, method: str = "mse") -> Any:
    """Make a PyTorch module one that computes what its int8 form will: train it as any other, then call `convert_qat`.

    It takes what the module takes, in batches; maps that it gives are channels last. Norms are folded with the statistics that
    they have, activations are part of their layers, dropout is gone. Ranges begin as `samples` say (see `quantize`), and are
    learned, as the scales of 4-bit weights are. weight_bits: 8, or 4 for convolutions and linear layers.
    """
    return api.prepare_qat(module, example, samples, weight_bits=weight_bits, method=method)


def convert_qat(trained: Any, name: str | None = None) -> Model:
    """Return the int8 model of what `prepare_qat` returned, once it is trained: `plan`, `compile` and `verify` take it."""
    return api.convert_qat(trained, name)


def _numbers(value: float | Sequence[float]) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, (int, float)) else tuple(map(float, value))


def _read(model: Model | str | Path) -> Model:
    """Return the model as its file has it."""
    return model if isinstance(model, Model) else api.read(model)


def _model(model: Model | str | Path, options: PlanOptions) -> Model:
    """Return the model, read if need be, that takes as many frames at a call as the options say."""
    return api.streamed(model if isinstance(model, Model) else load(model), options.stream_time)


def _changed(options: PlanOptions, changes: dict[str, Any]) -> PlanOptions:
    if unknown := sorted(set(changes) - set(PlanOptions.__dataclass_fields__)):
        raise CompileError(f"there is no option {unknown[0]}", f"options are {', '.join(PlanOptions.__dataclass_fields__)}")
    return replace(options, **changes)


def _device(device: Device | str | None) -> Device | None:
    return find(device) if isinstance(device, str) else device


def _planned(
    model: Model | str | Path,
    device: Device | str | None,
    options: PlanOptions,
    changes: dict[str, Any],
    planned: Plan | None = None,
) -> tuple[Model, Device | None, Plan]:
    """Return the model, read if need be, the device, and the plan: the one that is given, if it is theirs, or a new one."""
    chosen, target = _changed(options, changes), _device(device)
    loaded = _model(model, chosen)
    if planned is not None:
        api.check_plan(planned, loaded, target.core if target else None)
        return loaded, target, planned
    limits = api.limits_of(target, **chosen.limits)
    core = target.core if target else api.DEFAULT_CORE
    return loaded, target, api.plan(loaded, limits=limits, core=core, **chosen.planning)


def _typed(device: Device | str | None, options: PlanOptions) -> str:
    """Return a device, and the options that are not the default, as the command line takes them."""
    chosen = {"device": device.name if isinstance(device, Device) else device, **asdict(options)}
    return " ".join(typed(chosen, asdict(DEFAULTS)))


def _arrays(sample: Sample) -> list[np.ndarray]:
    return [sample] if isinstance(sample, np.ndarray) else list(sample)
