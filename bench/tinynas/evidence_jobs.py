"""The measurements of `evidence.py`: train a supernet, search with its weights, train a network. Each returns a Record.

In: a folder with samples, a search space, limits. A Record is a dict of JSON values. Networks in Records are the JSON text of
an Arch; `correct` is a hexadecimal number that has a 1 bit for each test sample that a network classifies right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from baselines import TABLES, best_scaled
from numpy.typing import NDArray

from tinynas.arch import Arch, blocks, from_json, layers, macs, rounded, to_json, weights
from tinynas.costs import Costs, Target, costs
from tinynas.evolution import Evaluator, Evolution, evolve
from tinynas.halving import AUGMENTATIONS, DATA, batch_of, load_data, recipe_of
from tinynas.one_shot import SupernetBudget, accuracy_of, train_in_worker
from tinynas.space import PlainSize, SearchSpace, arch_of, plain_network, smallest
from tinynas.stage_one import Schedule, StageLimits, least_ram
from tinynas.tasks.dataset import SCALE, Dataset, sized
from tinynas.training_run import TrainingRun
from tinyweave.devices import find
from tinyweave.planning import Limits as PlanLimits
from tinyweave.support.files import write_file

ENGINES: dict[str, tuple[Schedule, bool]] = {  # name -> schedule, whether the image arrives row by row
    "layers": ("layer", False),
    "streamed": ("best", True),
}
DEVICE = "nrf52840"  # whose milliseconds are estimated
FREE = Target(None, PlanLimits())  # evolution plans the smallest network on it; what fits is decided by `Limits`
BYTES = {8: 1.0, 4: 0.5}  # bits of weights -> bytes per weight
PER_CHANNEL = 9  # bytes of Flash per output channel: bias, multiplier, shift
FAMILIES = (*TABLES, "plain")
PLAIN_WIDTHS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
SCALED_SIZES = tuple((side, side) for side in range(8, 21, 2))
TRIED = 2  # networks of a family that are trained
FACTORS = tuple(step / 40 for step in range(40, 7, -1))  # by which a network is scaled down
QAT_RATE = 1e-3  # of Adam, at its greatest, as in bench/training/accuracy.py
Record = dict[str, Any]


class Limits(NamedTuple):
    """The limits of a search, and the engine that counts the RAM: the name of one of ENGINES."""

    engine: str
    ram: int  # bytes of the arena
    flash: int  # bytes of weights, and PER_CHANNEL bytes per output channel
    macs: int | None = None  # multiply-accumulates of an inference; None for no limit
    ms: float | None = None  # milliseconds of an inference on the DEVICE; None for no limit
    bits: int = 8  # of each weight in Flash

    def fit(self, arch: Arch) -> bool:
        """Return whether a network is within the limits."""
        if flash_of(arch, self.bits) > self.flash or (self.macs is not None and macs(arch) > self.macs):
            return False
        return ram_of(arch, self.engine) <= self.ram and (self.ms is None or ms_of(arch, self.ram) <= self.ms)

    def costs(self, archs: Sequence[Arch]) -> list[Costs]:
        """Return costs for evolution, which reads only whether networks fit: those that do not have an excess."""
        return [Costs(0, weights(arch), macs(arch), None, {} if self.fit(arch) else {"ram": 1}) for arch in archs]


def flash_of(arch: Arch, bits: int = 8) -> float:
    """Return the bytes of Flash of a network's constants; `bits` is the number of bits of a weight."""
    channels = sum(layer.c_out for layer in layers(blocks(arch))) + arch.classes
    return weights(arch) * BYTES[bits] + PER_CHANNEL * channels


@lru_cache(maxsize=1 << 14)
def ram_of(arch: Arch, engine: str) -> int:
    """Return the bytes of RAM that a network needs with an engine."""
    return least_ram(arch, StageLimits(0, 0, *ENGINES[engine]))


@lru_cache(maxsize=1 << 14)
def ms_of(arch: Arch, ram: int) -> float:
    """Estimate the milliseconds of an inference on the DEVICE, by the fastest plan whose arena has at most `ram` bytes."""
    ms = costs(arch, Target(find(DEVICE), PlanLimits(ram=ram), stream_inputs=True)).ms
    assert ms is not None, "the device has a clock"
    return ms


@lru_cache(maxsize=8)
def samples(folder: Path, size: tuple[int, int]) -> Dataset:
    """Return the samples of a folder, resized to the image size (rows, columns) of a network."""
    return sized(load_data(folder / DATA), size)


def family(name: str, space: SearchSpace, classes: int, limits: Limits) -> list[Arch]:
    """Return the largest networks of one of FAMILIES that fit, at most TRIED."""
    if name == "plain":
        spaces = [replace(space, by_group=False, widths=PLAIN_WIDTHS, sizes=(size,)) for size in space.sizes]
        every = [
            plain_network(each, PlainSize(width, depth), classes)
            for each, width, depth in product(spaces, PLAIN_WIDTHS, (1, 2, 3))
        ]
        archs = list(filter(limits.fit, every))
    else:
        archs = best_scaled(name, SCALED_SIZES, space.channels, classes, limits.fit)
    return sorted(set(archs), key=macs, reverse=True)[:TRIED]


def scaled_down(arch: Arch, limits: Limits) -> Arch | None:
    """Return a network with its image's sides and all channels scaled by the largest of FACTORS with which it fits."""
    for factor in FACTORS:
        side = max(8, 2 * round(factor * arch.image[0] / 2))
        groups = tuple(replace(group, width=rounded(factor * group.width)) for group in arch.groups)
        smaller = replace(arch, image=(side, side, arch.image[2]), stem=rounded(factor * arch.stem), groups=groups)
        if limits.fit(smaller):
            return smaller
    return None


def supernet(place: Path, space: SearchSpace, budget: SupernetBudget, seed: int) -> Record:
    """Train the largest network of a space, then its supernet, and write its weights into the folder `place`."""
    if not (place / DATA).exists():
        place.mkdir(exist_ok=True)
        (place / DATA).symlink_to(Path("..") / DATA)
    train_in_worker(space, budget, str(place), seed)
    return {"epochs": budget.epochs}


_accuracy_of = lru_cache(maxsize=1 << 16)(accuracy_of)  # searches with one seed and other limits draw many equal networks


def searched(place: Path, spaces: tuple[SearchSpace, SearchSpace], limits: Limits, evolution: Evolution, seed: int) -> Record:
    """Search the network that is most accurate on the validation part, with the weights of a supernet.

    Args:
        place: The folder of the supernet.
        spaces: The space of the supernet, and the part of it that is searched.
        evolution: Sizes of the generations; with 0 generations this is random search.

    Returns:
        A Record with the best network (`arch`), and the accuracies in the order in which they were measured (`curve`). If the
        smallest network of the space does not fit, the Record is empty.

    """
    (shared, space), classes = spaces, len(load_data(place / DATA).classes)
    if not limits.fit(arch_of(space, smallest(space), classes)):
        return {}
    curve = list[float]()

    def accuracies(archs: Sequence[Arch]) -> Iterator[tuple[int, float]]:
        for number, arch in enumerate(archs):
            curve.append(_accuracy_of(to_json(arch), shared, str(place)))
            yield number, curve[-1]

    best, *_ = evolve(space, FREE, classes, evolution, Evaluator(accuracies, limits.costs), seed=seed)
    return {"arch": to_json(best.arch), "curve": curve}


def trained_file(folder: Path, arch: str, epochs: int, seed: int) -> Path:
    """Return the file for the Record of a trained network (JSON); its weights have the suffix .pt."""
    name = hashlib.sha256(repr((arch, epochs, seed)).encode()).hexdigest()
    return folder / "trained" / f"{name}.json"


def trained(folder: Path, arch: Arch, epochs: int, seed: int, ram: int) -> Record:
    """Train a network from random weights, test it, and write its Record and its weights; `ram` limits the plan that is timed.

    A network that was trained before with as many epochs and this seed is not trained again: several searches find the same
    network.
    """
    from tinynas.learning.module import module_of
    from tinynas.learning.train import accuracy, fit, on_cpu, save, scores

    known = trained_file(folder, to_json(arch), epochs, seed)
    if known.is_file():
        return dict(json.loads(known.read_text()))
    data, module = samples(folder, arch.image[:2]), module_of(arch, seed)
    values, labels = data.part("train")
    fit(module, values, labels, recipe_of(data, epochs, len(values)), TrainingRun(seed))
    unseen, right = data.part("test")
    record = {
        "arch": to_json(arch),
        "weights": weights(arch),
        "macs": macs(arch),
        "ram": ram_of(arch, "streamed"),
        "ms": ms_of(arch, ram),
        "epochs": epochs,
        "validation": accuracy(module, *data.part("validation")),
        **tested(scores(module, unseen).argmax(axis=1) == right),
    }
    known.parent.mkdir(exist_ok=True)
    save(on_cpu(module), known.with_suffix(".pt"))
    write_file(known, json.dumps(record))
    return record


def tested(correct: NDArray[np.bool_]) -> Record:
    """Return the fields of a Record with the result of a test: the accuracy, and which samples are classified right."""
    return {"test": float(correct.mean()), "correct": packed(correct)}


def packed(correct: NDArray[np.bool_]) -> str:
    """Return booleans as a hexadecimal number, the first in the highest bit; it has a whole number of bytes."""
    return np.packbits(correct).tobytes().hex()


def unpacked(text: str, count: int) -> NDArray[np.bool_]:
    """Return the first `count` booleans of a hexadecimal number that `packed` wrote."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[:count].astype(bool)


def trained_winner(found: Record, folder: Path, epochs: int, seed: int, ram: int) -> Record:
    """Train the network of a Record; return an empty Record if the Record has none."""
    return trained(folder, from_json(found["arch"]), epochs, seed, ram) if found else {}


def trained_scaled(found: Record, folder: Path, epochs: int, seed: int, limits: Limits) -> Record:
    """Scale the network of a Record down until it fits, and train it; return an empty Record if none fits."""
    arch = scaled_down(from_json(found["arch"]), limits) if found else None
    return trained(folder, arch, epochs, seed, limits.ram) if arch else {}


def trained_family(folder: Path, epochs: int, seed: int, limits: Limits, of: tuple[str, SearchSpace]) -> Record:
    """Train the largest networks of a family, and return the Record of the best on the validation part, empty if none fits.

    `of` has the name of the family, and the space of the searches that it is compared with.
    """
    archs = family(*of, len(load_data(folder / DATA).classes), limits)
    records = [trained(folder, arch, epochs, seed, limits.ram) for arch in archs]
    return max(records, key=lambda record: record["validation"], default={})


def tuned(found: Record, folder: Path, epochs: int, seed: int, bits: int) -> Record:
    """Train a trained network on with fake quantisation for some epochs, and test its int8 form; weights have `bits` bits."""
    import torch

    import tinyweave as tw
    from tinynas.int8 import int8_outputs
    from tinynas.learning.module import module_of
    from tinynas.learning.train import Recipe, as_tensor, fit
    from tinyweave import api
    from tinyweave.quantize.calibrate import evenly_spaced
    from tinyweave.quantize.ptq import CALIBRATION

    if not found:
        return {}
    arch = from_json(found["arch"])
    data, module = samples(folder, arch.image[:2]), module_of(arch)
    weights_file = trained_file(folder, found["arch"], found["epochs"], seed).with_suffix(".pt")
    module.load_state_dict(torch.load(weights_file, weights_only=True))
    values, labels = data.part("train")
    some = as_tensor(values[evenly_spaced(CALIBRATION, len(values))]).float() * SCALE
    aware = tw.prepare_qat(module.eval(), some[:1], some, weight_bits=bits)
    recipe = Recipe(epochs, batch_of(data), QAT_RATE, adam=True, weight_decay=0.0, augmentation=AUGMENTATIONS[data.kind][0])
    fit(aware, values, labels, recipe, TrainingRun(seed))
    unseen, right = data.part("test")
    graph = api.with_io(tw.convert_qat(aware), "int8", "nhwc").graph
    kept = {name: found[name] for name in ("arch", "weights", "macs", "ram", "ms")}
    found_bits = 4 if any(tensor.dtype == "int4" for tensor in graph.tensors.values()) else 8
    return {**kept, "bits": found_bits, **tested(int8_outputs(graph, unseen).argmax(axis=-1).reshape(-1) == right)}
