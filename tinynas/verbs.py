"""The functions `search` and `train` of `import tinyweave as tw`; the commands of these names take the same options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyweave import api
from tinyweave.api.options import SEED, PlanChanges, PlanOptions
from tinyweave.api.verbs import DEFAULTS, changed, device_of, output_folder
from tinyweave.devices import Device
from tinyweave.ir import CompileError
from tinyweave.support.progress import Progress, silent

from .arch import Arch, read_arch
from .costs import Target
from .halving import Rung
from .prepare import check_network, prepared_for, task_of, task_within
from .searching import SearchResult
from .searching import search as run_search
from .settings import Preparation, SearchOptions
from .space import SearchSpace
from .tasks.dataset import Dataset

if TYPE_CHECKING:
    from typing_extensions import Unpack


def search(
    data: str | Path | Dataset,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    out: str | Path,
    task: str = "images",
    strategy: str = "auto",
    supernet: str | Path = "",
    minutes: float | None = None,
    against: Sequence[str] = (),
    feasible: float = 0.8,
    space: SearchSpace | None = None,
    prepared: Preparation | None = None,
    seed: int = SEED,
    processes: int = 2,
    ray: bool = False,
    search_plan: bool = False,
    energy_mj: float | None = None,
    progress: Progress = silent,
    **changes: Unpack[PlanChanges],
) -> SearchResult:
    """Find a network for labelled samples that fits a device, train it, make it int8, and write its C into `out`/firmware.

    The same call resumes an interrupted run. Of the planner's options, only `stream_inputs`, `max_mac_overhead` and the limits
    have an effect.

    Args:
        data: a folder that has a subfolder of files per class, or a file of labelled samples; for detection a folder with a
            VOC or COCO data set; or a Dataset, which needs `space`.
        task: "images", "visual-wake-words", "keywords", "sensors" or "detection"; ignored for a Dataset.
        strategy: "halving" (successive halving) trains many networks briefly and the best of them longer. "supernet" trains one
            network that contains all candidates, and evolves the best; not for detection. "auto" keeps the strategy of the run
            in `out`, if there is one; else it is "supernet" with `against` or under torchrun, otherwise "halving".
        supernet: folder of another search by supernet on the same samples; its supernet is used, for this device.
        minutes: approximate time to train; None is 20, or the training budget of the TinyNAS paper for a supernet on a GPU.
        against: costs ("ram", "flash", "macs", "ms", "mj") that the supernet's search minimises besides the error.
        feasible: fraction of the networks of one width (channel multiplier) that must fit the device, for a supernet to be
            trained at this width.
        space: the search space; None takes the task's.
        prepared: how the files become samples (image size, audio features and the like); None is the task's default. Sizes that
            are None are chosen by the search; if `space` is given, they are the task's default.
        ray: train on the Ray cluster of the environment variable RAY_ADDRESS, or on a local one.
        search_plan: also search the plan of each network, and smaller kernels in its first blocks (see docs/TINYNAS.md).
        energy_mj: energy limit of one inference in mJ, for a device whose current is known. None is no limit.
        changes: fields of PlanOptions, as for `plan`.

    Returns:
        The network found, its accuracy, and its deployment; `.fits` says whether it meets all limits as measured.

    Raises:
        CompileError: the samples cannot be read, a Dataset has no `space`, no network of the space fits, or an option is wrong.
    """
    written_to, aim = output_folder(out), target_of(device, changed(options, changes), energy_mj)
    given = SearchOptions(
        strategy=strategy,
        supernet=str(supernet),
        minutes=minutes,
        seed=seed,
        processes=processes,
        ray=ray,
        feasible=feasible,
        search_plan=search_plan,
        against=against,
    )
    if isinstance(data, (str, Path)):
        settings = prepared or Preparation()
        if space is None:
            samples, space, given = task_within(task, Path(data), settings, aim, written_to, options=given, progress=progress)
        else:
            samples, _ = task_of(task, Path(data), settings, progress)
    elif space is None:
        raise CompileError("a Dataset needs a search space", "give one of tinynas.space, or your own")
    else:
        samples = data
    return run_search(samples, space, aim, written_to, given, progress=progress)


def train(
    network: Arch | str | Path,
    device: Device | str | None = None,
    options: PlanOptions = DEFAULTS,
    *,
    data: str | Path,
    out: str | Path,
    task: str = "images",
    epochs: int = 100,
    prepared: Preparation | None = None,
    seed: int = SEED,
    energy_mj: float | None = None,
    progress: Progress = silent,
    **changes: Unpack[PlanChanges],
) -> SearchResult:
    """Train a given network on labelled samples, make it int8, and write its C into `out`/firmware.

    The same call resumes an interrupted run. Of the planner's options, only `stream_inputs`, `max_mac_overhead` and the limits
    have an effect.

    Args:
        network: an architecture, or the path of its .json file, such as the arch.json of a search.
        data: a folder of samples, as for `search`.
        task: as for `search`.
        epochs: number of epochs.
        prepared: how the files become samples; None is the task's default. The sizes are always taken from the network.
        energy_mj: as for `search`.
        changes: fields of PlanOptions, as for `plan`.

    Returns:
        The trained network, its accuracy, and its deployment; `.fits` says whether it meets all limits as measured.

    Raises:
        CompileError: the samples cannot be read or do not fit the network, or an option is wrong.
    """
    written_to, aim = output_folder(out), target_of(device, changed(options, changes), energy_mj)
    given = read_arch(network) if isinstance(network, (str, Path)) else network
    if epochs < 1:
        raise CompileError(f"{epochs} epochs train nothing", "give at least 1")
    samples, space = task_of(task, Path(data), prepared_for(given, prepared or Preparation()), progress)
    check_network(given, samples)
    once = SearchOptions(seed=seed, processes=1, rungs=[Rung(1, epochs)], archs=[given])
    return run_search(samples, space, aim, written_to, once, progress=progress)


def target_of(device: Device | str | None, chosen: PlanOptions, energy_mj: float | None) -> Target:
    """Return the device, the limits and the planner options for which networks are searched or trained."""
    board = device_of(device)
    limits = api.request_of(chosen, board).limits
    return Target(board, limits, chosen.stream_inputs, chosen.max_mac_overhead, energy_mj=energy_mj)
