"""The measurements of `evidence.py`: train a supernet, search with its weights, train a network. Each returns a Record.

In: a folder with samples, a search space, limits. A Record is a dict of JSON values. Networks in Records are the JSON text of
an Arch; `correct` is a hexadecimal number that has a 1 bit for each test sample that a network classifies right.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinynas.arch import Arch, blocks, from_json, layers, macs, to_json, weights
from tinynas.costs import Costs, Target
from tinynas.evolution import Evaluated, Evaluator, Evolution, evolve
from tinynas.halving import AUGMENTATIONS, DATA, load_data
from tinynas.one_shot import LEARNING_RATE, SUPERNET
from tinynas.ram.arena import graph_of
from tinynas.space import SearchSpace, arch_of, smallest
from tinynas.stage_one import Schedule, StageLimits, fits_by_patches, least_ram
from tinynas.tasks.dataset import Dataset, sized
from tinynas.training_run import TrainingRun
from tinyweave.ir import CompileError
from tinyweave.planning import Limits as PlanLimits
from tinyweave.planning import PlanSearch, Request
from tinyweave.support.files import write_file

ENGINES: dict[str, tuple[Schedule, bool]] = {  # name -> schedule, whether the image arrives row by row
    "layers": ("layer", False),
    "patches": ("patch", False),
    "fused": ("best", False),
    "streamed": ("best", True),
}
TRAINED = "trained"  # subfolder for the Records of trained networks
FINALISTS = 3  # best networks of a search that its Record holds
MEASURED_S, STEPS = 3.0, 8  # seconds for which the speed of training is measured, and steps at a time
FREE = Target(None, PlanLimits())  # evolution plans the smallest network on it; what fits is decided by `Limits`
BITS = 8  # of weights, unless a limit says otherwise
BYTES = {8: 1.0, 4: 0.51}  # bits of weights -> bytes per weight; with 4 bits a few layers keep 8
PER_CHANNEL = 9  # bytes of Flash per output channel: bias, multiplier, shift
Record = dict[str, Any]


class Limits(NamedTuple):
    """The limits of a search, and the engine that counts the RAM: the name of one of ENGINES."""

    engine: str
    ram: int  # bytes of the arena
    flash: int  # bytes of weights, and PER_CHANNEL bytes per output channel
    macs: int | None = None  # multiply-accumulates of an inference; None for no limit
    bits: int = BITS  # of each weight in Flash

    def fit(self, arch: Arch) -> bool:
        """Return whether a network is within the limits."""
        if flash_of(arch, self.bits) > self.flash or (self.macs is not None and macs(arch) > self.macs):
            return False
        schedule, _ = ENGINES[self.engine]
        stage = StageLimits(self.ram, self.flash, schedule)
        by_patches = schedule == "patch" and fits_by_patches(arch, stage)
        return by_patches or ram_of(arch, "layers" if schedule == "patch" else self.engine) <= self.ram

    def costs(self, archs: Sequence[Arch]) -> list[Costs]:
        """Return costs for evolution, which reads only whether networks fit: those that do not have an excess."""
        return [Costs(0, weights(arch), macs(arch), None, {} if self.fit(arch) else {"ram": 1}) for arch in archs]


def flash_of(arch: Arch, bits: int = BITS) -> float:
    """Return the bytes of Flash of a network's constants; `bits` is the number of bits of a weight."""
    channels = sum(layer.c_out for layer in layers(blocks(arch))) + arch.classes
    return weights(arch) * BYTES[bits] + PER_CHANNEL * channels


@lru_cache(maxsize=1 << 14)
def ram_of(arch: Arch, engine: str) -> int:
    """Return the bytes of RAM that a network needs with an engine."""
    schedule, streams = ENGINES[engine]
    try:
        return least_ram(arch, StageLimits(0, 0, schedule, streams))
    except CompileError:  # the fast form is for square kernels and maps
        return PlanSearch(
            graph_of(blocks(arch), arch.classes, arch.pooling), Request("best", stream_inputs=streams)
        ).least_bytes


class Training(NamedTuple):
    """The recipe that all networks of a task share."""

    folder: Path  # with the samples in the subfolder DATA
    epochs: int
    batch: int


@lru_cache(maxsize=16)
def samples(folder: Path, size: tuple[int, int]) -> Dataset:
    """Return the samples of a folder, resized to the image size (rows, columns) of a network."""
    return sized(load_data(folder / DATA), size)


_part = lru_cache(maxsize=32)(Dataset.part)


def measured(training: Training, arch: Arch, space: SearchSpace | None = None) -> Record:
    """Return the `steps` of training per second in this process, while other processes do the same.

    What is trained is the network `arch`, or the supernet of `space` if there is one, which also has the image size of `arch`.
    """
    from tinynas.learning.module import module_of
    from tinynas.learning.supernet import Supernet, fit_supernet
    from tinynas.learning.train import Recipe, fit

    data = samples(training.folder, arch.image[:2])
    values, labels = (each[: STEPS * training.batch] for each in _part(data, "train"))
    recipe = Recipe(1, training.batch, augmentation=AUGMENTATIONS[data.kind][0])
    whole, module = Supernet(space, arch.classes) if space else None, module_of(arch)

    def train() -> None:
        if whole is None:
            fit(module, values, labels, recipe)
        else:
            fit_supernet(whole, values, labels, recipe)

    train()  # the first call loads libraries
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() < begin + MEASURED_S:
        train()
        steps += len(values) // training.batch
    return {"steps": steps / (time.perf_counter() - begin)}


def supernet(training: Training, space: SearchSpace, warm_up: int, seed: int) -> Record:
    """Train the largest network of a space for `warm_up` epochs, then its supernet, and write its weights into the folder."""
    from tinynas.learning.module import module_of
    from tinynas.learning.supernet import Supernet, fit_supernet
    from tinynas.learning.train import Recipe, accuracy, fit, on_cpu, save

    data = load_data(training.folder / DATA)
    whole = Supernet(space, len(data.classes), seed=seed)
    recipe = Recipe(warm_up, training.batch, LEARNING_RATE, augmentation=AUGMENTATIONS[data.kind][0])
    alone = module_of(whole.largest, seed)
    fit(alone, *_part(data, "train"), recipe, TrainingRun(seed))
    whole.load(alone)
    whole.sort()
    fit_supernet(whole, *_part(data, "train"), replace(recipe, epochs=training.epochs), TrainingRun(seed))
    save(on_cpu(whole), training.folder / SUPERNET)
    return {"epochs": training.epochs, "largest_alone": accuracy(alone, *_part(data, "validation"))}


@lru_cache(maxsize=8)
def _supernet_of(folder: Path, space: SearchSpace) -> Any:
    """Return the trained Supernet of a folder, whose space is `space`."""
    import torch

    from tinynas.learning.supernet import Supernet

    whole = Supernet(space, len(load_data(folder / DATA).classes))
    whole.load_state_dict(torch.load(folder / SUPERNET, weights_only=True))
    return whole


def extracted(folder: Path, space: SearchSpace, arch: Arch) -> Any:
    """Return a network with the weights of the supernet of a folder; `space` is the space of the supernet."""
    from tinynas.learning.supernet import recalibrate
    from tinynas.learning.train import device

    values, _ = _part(samples(folder, arch.image[:2]), "train")
    return recalibrate(_supernet_of(folder, space).extract(arch).to(device()), values)


@lru_cache(maxsize=1 << 16)  # searches with the same seed and other limits draw many equal networks
def accuracy_by_supernet(folder: Path, space: SearchSpace, arch: Arch) -> float:
    """Return the accuracy on the validation part of a network with the weights of a supernet, see `extracted`."""
    from tinynas.learning.train import accuracy

    return accuracy(extracted(folder, space, arch), *_part(samples(folder, arch.image[:2]), "validation"))


def searched(folder: Path, spaces: tuple[SearchSpace, SearchSpace], limits: Limits, evolution: Evolution, seed: int) -> Record:
    """Search the network that is most accurate on the validation part, with the weights of a supernet.

    Args:
        folder: The folder of the supernet.
        spaces: The space of the supernet, and the part of it that is searched.
        limits: What the networks must fit.
        evolution: Sizes of the generations; with 0 generations this is random search.
        seed: Seed of the search.

    Returns:
        A Record with the best network (`arch`), the best FINALISTS (`finalists`), the network with the most
        multiply-accumulates (`largest`), and the accuracies in the order in which they were measured (`curve`). If the
        smallest network of the space does not fit, the Record is empty.

    """
    shared, space = spaces
    classes = len(samples(folder, max(shared.sizes)).classes)
    if not limits.fit(arch_of(space, smallest(space), classes)):
        return {}
    curve = list[float]()

    def accuracies(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
        for number, arch in enumerate(archs):
            curve.append(accuracy_by_supernet(folder, shared, arch))
            yield number, curve[-1]

    found: list[Evaluated] = evolve(space, FREE, classes, evolution, Evaluator(accuracies, limits.costs), seed=seed)
    best, most = found[0].arch, max(found, key=lambda each: each.costs.macs).arch
    return {
        "arch": to_json(best),
        "finalists": [to_json(each.arch) for each in found[:FINALISTS]],
        "largest": to_json(most),
        "curve": curve,
    }


def trained(
    training: Training, arch: Arch, seed: int, *, start: dict[str, Any] | None = None, end: Path | None = None
) -> Record:
    """Train a network from random weights, or from the weights `start`, and test it; `end` is a file for its weights.

    Without `start` and `end`, a network that was trained before with this recipe and seed is not trained again: several
    searches find the same network. Its Record is in a file of the subfolder TRAINED.
    """
    from tinynas.learning.module import module_of
    from tinynas.learning.train import Recipe, accuracy, fit, on_cpu, save, scores

    known = training.folder / TRAINED / f"{digest(to_json(arch), training.epochs, training.batch, seed)}.json"
    if start is None and end is None and known.is_file():
        return dict(json.loads(known.read_text()))
    data = samples(training.folder, arch.image[:2])
    module = module_of(arch, seed)
    if start is not None:
        module.load_state_dict(start)
    recipe = Recipe(training.epochs, training.batch, augmentation=AUGMENTATIONS[data.kind][0])
    fit(module, *_part(data, "train"), recipe, TrainingRun(seed))
    if end is not None:
        end.parent.mkdir(exist_ok=True)
        save(on_cpu(module), end)
    unseen, labels = _part(data, "test")
    correct = scores(module, unseen).argmax(axis=1) == labels
    record = {
        "arch": to_json(arch),
        "weights": weights(arch),
        "macs": macs(arch),
        "epochs": training.epochs,
        "validation": accuracy(module, *_part(data, "validation")),
        "test": float(correct.mean()),
        "correct": packed(correct),
    }
    if start is None:
        known.parent.mkdir(exist_ok=True)
        write_file(known, json.dumps(record))
    return record


def digest(*values: object) -> str:
    """Return the SHA-256 of values as text."""
    return hashlib.sha256(repr(values).encode()).hexdigest()


def packed(correct: np.ndarray) -> str:
    """Return booleans as a hexadecimal number, the first in the highest bit; it has a whole number of bytes."""
    return np.packbits(correct).tobytes().hex()


def unpacked(text: str, count: int) -> np.ndarray:
    """Return the first `count` booleans of a hexadecimal number that `packed` wrote."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[:count].astype(bool)


def best_trained(training: Training, archs: Sequence[str], seed: int) -> Record:
    """Train networks, and return the Record of the best on the validation part, or an empty Record if there are none."""
    records = [trained(training, from_json(arch), seed) for arch in archs]
    return max(records, key=lambda record: record["validation"], default={})


def trained_winner(found: Record, training: Training, seed: int, end: Path | None = None) -> Record:
    """Train the best network of a search, whose Record is `found`; an empty Record if nothing fits."""
    return trained(training, from_json(found["arch"]), seed, end=end) if found else {}


def trained_largest(found: Record, training: Training, seed: int) -> Record:
    """Train the network of a search that has the most multiply-accumulates."""
    return trained(training, from_json(found["largest"]), seed) if found else {}


def trained_finalists(found: Record, winner: Record, training: Training, seed: int) -> Record:
    """Train the best networks of a search, and return the Record of the best on the validation part.

    `winner` is the Record of the training of the first of them, which is not repeated.
    """
    _, *others = found.get("finalists", [None])
    return max((winner, best_trained(training, others, seed)), key=lambda record: record.get("validation", -1.0))


def tuned_winner(found: Record, training: Training, shared: SearchSpace, seed: int) -> Record:
    """Train the best network of a search from the weights of the supernet, whose space is `shared`."""
    if not found:
        return {}
    arch = from_json(found["arch"])
    start = extracted(training.folder, shared, arch)
    return trained(training, arch, seed, start=start.state_dict())


def quantised(found: Record, training: Training, file: Path, bits: int) -> Record:
    """Quantise a trained network, whose Record is `found` and whose weights are in `file`, and test it.

    With 4 bits, the weights of nearly all layers have 4 bits, and are rounded adaptively; no training follows.
    """
    import torch

    from tinynas.int8 import quantise
    from tinynas.learning.module import module_of
    from tinynas.tasks.dataset import SCALE
    from tinyweave.ops import spec_of
    from tinyweave.quantize.calibrate import evenly_spaced
    from tinyweave.quantize.calibration_samples import open_samples
    from tinyweave.quantize.fidelity import fidelity
    from tinyweave.quantize.mixed_precision import PrecisionLimits
    from tinyweave.quantize.ptq import CALIBRATION, QuantiseOptions
    from tinyweave.quantize.ptq import quantise as narrow
    from tinyweave.quantize.simplify_float import simplify_float

    if not found:
        return {}
    arch = from_json(found["arch"])
    data, module = samples(training.folder, arch.image[:2]), module_of(arch)
    module.load_state_dict(torch.load(file, weights_only=True))
    done = quantise(module.eval(), data)
    graph = done.model.original
    if bits == 4:

        def sizes(graph: Any) -> list[Any]:
            return [graph.input(op, 1) for op in graph.ops if spec_of(op).takes_int4_weights]

        most = int(BYTES[bits] * sum(each.elements for each in sizes(simplify_float(done.real))))
        learnt, _ = _part(data, "train")
        some = open_samples(learnt[evenly_spaced(CALIBRATION, len(learnt))], done.real, (SCALE,))
        options = QuantiseOptions(limits=PrecisionLimits(flash=most))
        graph = narrow(done.real, some, options, flash=lambda graph: sum(each.bytes for each in sizes(graph))).graph
    unseen, labels = _part(data, "test")
    agreement = fidelity(done.real, graph, open_samples(unseen, done.real, (SCALE,), labels=labels))
    assert agreement.best is not None, "it is a classifier"
    correct = agreement.best[:, 0] == labels
    return {"bits": bits, "test": float(correct.mean()), "correct": packed(correct)}
