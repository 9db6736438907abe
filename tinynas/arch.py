"""Architectures: networks described by a few numbers. In: an Arch, or JSON. Out: layers, counts; JSON.

A convolution (the stem), groups of inverted bottlenecks, or full convolutions, with equal output channels, a 1x1 convolution, a
pooling and a classifier.
Kernels of an input of one row, a signal, have one row. `linear` and `nearest` networks have no convolutions. Sources:
MobileNetV2 (arXiv 1801.04381); genes per block as in TinyNAS (arXiv 2007.10319); squeeze and excitation and hard-swish as in
MobileNetV3 (arXiv 1905.02244).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from tinyweave.ir import CompileError
from tinyweave.ops.window import ChainLayer, Size
from tinyweave.planning.strategies import STRATEGIES
from tinyweave.support.files import read_file

MAX_BYTES = 1 << 20  # of a file
MAX_VALUE = 8192  # limit of all numbers: larger networks do not fit any microcontroller
WHAT_TO_DO = "see tinynas.arch.Arch"
MAX_OVERHEAD = 100  # limit of max_mac_overhead
ACTIVATIONS = ("relu6", "hard_swish")
# what the classifier reads of the last map: the mean of each channel, its maximum, the means and then the maxima; or all values
POOLINGS = ("mean", "max", "both", "none")
# defaults that `to_json` leaves out
ADDED_DEFAULTS: dict[str, Any] = {"squeeze": 0, "activation": ACTIVATIONS[0], "plan": None, "pooling": POOLINGS[0], "stored": 0}
OLD_DEFAULTS = {"anchors": 0, **ADDED_DEFAULTS}  # defaults that `from_json` fills in
MOBILENET_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class PlanGene(NamedTuple):
    """Options of `tinyweave.plan`, of one network, for searches that choose them along with the architecture."""

    schedule: str = "best"
    stream_inputs: bool = False
    max_mac_overhead: float | None = None


@dataclass(frozen=True)
class Group:
    """Consecutive bottlenecks with the same number of output channels; papers call a group a stage."""

    width: int  # output channels of each bottleneck
    stride: int  # of the first bottleneck
    kernels: tuple[int, ...]  # per bottleneck; kernel 1 means no depthwise layer, so no stride
    expansions: tuple[int, ...]  # factor on the channels, per bottleneck; 1: no expansion; 0: a full convolution instead
    squeeze: int = 0  # squeeze-and-excite reduction of the channels before each projection; 0 for none
    activation: str = ACTIVATIONS[0]  # after all layers except projections


@dataclass(frozen=True)
class Arch:
    """An architecture: all numbers that determine the layers of a network."""

    image: tuple[int, int, int]  # rows, columns, channels
    stem: int  # channels of the first convolution; 0 for a fitted network: a classifier that reads the input
    groups: tuple[Group, ...]
    last: int = 0  # channels of the last 1x1 convolution; 0 for none
    classes: int = 0  # 0 for no classifier
    stem_kernel: Size = (3, 3)
    stem_stride: Size = (2, 2)
    anchors: int = 0  # boxes per cell (pixel of the last map) of a detector; 0 for a classifier
    activation: str = ACTIVATIONS[0]  # of the first and the last convolution
    plan: PlanGene | None = None  # None: the planner options of the search
    pooling: str = POOLINGS[0]  # between the last map and the classifier, one of POOLINGS
    stored: int = 0  # samples of each class in a nearest-neighbour network; 0 for other networks


def linear(image: tuple[int, int, int], classes: int) -> Arch:
    """Return the linear network for inputs of a size [rows, columns, channels]: one dense layer that reads the whole input."""
    return Arch(image, 0, (), classes=classes, pooling="none")


def nearest(image: tuple[int, int, int], classes: int, stored: int) -> Arch:
    """Return the nearest-neighbour network for inputs [rows, columns, channels], with `stored` samples per class.

    It is a dense layer with one output per stored sample (weights: `baselines.nearest_neighbours`), larger if the input is
    nearer, then the maximum over the outputs of each class.
    """
    return replace(linear(image, classes), stored=stored)


def is_fitted(arch: Arch) -> bool:
    """Return whether a network is linear or a nearest-neighbour network: its weights are computed from samples, not trained."""
    return arch.stem == 0


class Block(NamedTuple):
    """Convolutions in sequence, optionally with a residual connection and a squeeze-and-excite unit."""

    layers: tuple[ChainLayer, ...]
    residual: bool = False  # the input is added to the output of the last layer
    linear: bool = False  # the last layer has no activation
    squeezed: int = 0  # channels between the two squeeze-and-excite layers, which scale the input of the last layer; 0 for none
    activation: str = ACTIVATIONS[0]


def mobilenet_v2(resolution: int = 224, width: float = 1.0, classes: int = 1000) -> Arch:
    """Return MobileNetV2 for square images of `resolution` rows, with channels times `width`; the last has at least 1280."""
    groups = (Group(rounded(c * width), s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2)
    return verify(
        Arch((resolution, resolution, 3), rounded(32 * width), tuple(groups), rounded(1280 * max(width, 1.0)), classes)
    )


def rounded(channels: float) -> int:
    """Round a number of channels to a multiple of 8 that is at least 8 and at least 0.9 of the number, as MobileNets do."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


@lru_cache(maxsize=1 << 16)
def convolution(size: Size, c_in: int, c_out: int, kernel: Size = (1, 1), stride: Size = (1, 1)) -> ChainLayer:
    """Return a dense convolution padded by half its kernel, for an input (rows, columns); axes of 1 have kernel 1."""
    (rows, row_step), (columns, column_step) = (
        (1, 1) if side == 1 else (extent, step) for side, extent, step in zip(size, kernel, stride, strict=True)
    )
    return ChainLayer(*size, c_in, c_out, (rows, columns), (row_step, column_step), ((rows // 2,) * 2, (columns // 2,) * 2))


@lru_cache(maxsize=1 << 16)
def bottleneck(
    size: Size, channels: tuple[int, int, int], kernel: int, stride: int, *, squeeze: int = 0, activation: str = ACTIVATIONS[0]
) -> Block:
    """Return an inverted bottleneck: expansion, depthwise convolution, projection, and a residual if the shapes allow it.

    `channels` are those of the input, the expansion (none if equal) and the output. A `kernel` of 1 leaves out the depthwise
    convolution. `squeeze` is the factor by which squeeze and excitation reduces channels; 0, or a block that is only a
    projection, has none. The activation is not applied to the projection.
    """
    c_in, c_mid, c_out = channels
    convolutions = [convolution(size, c_in, c_mid)] if c_mid != c_in else []
    if kernel > 1:
        by_depth = convolution(size, c_mid, c_mid, (kernel, kernel), (stride, stride))
        convolutions.append(by_depth._replace(depthwise=True))
        size = by_depth.h_out, by_depth.w_out
    squeezed = rounded(c_mid / squeeze) if squeeze and convolutions else 0
    residual = stride == 1 and c_in == c_out
    return Block((*convolutions, convolution(size, c_mid, c_out)), residual, True, squeezed, activation)


def blocks(arch: Arch) -> list[Block]:
    """Return the stem, the bottlenecks, and the last 1x1 convolution or detector's head, if any; none for a fitted network."""
    if is_fitted(arch):
        return []
    rows, columns, channels = arch.image
    stem = convolution((rows, columns), channels, arch.stem, arch.stem_kernel, arch.stem_stride)
    sequence = [Block((stem,), activation=arch.activation)]
    for group in arch.groups:
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            before = sequence[-1].layers[-1]
            size, widths = (before.h_out, before.w_out), (before.c_out, before.c_out * expansion, group.width)
            step = 1 if index else group.stride
            if not expansion:
                full = convolution(size, before.c_out, group.width, (kernel, kernel), (step, step))
                sequence.append(Block((full,), activation=group.activation))
                continue
            sequence.append(bottleneck(size, widths, kernel, step, squeeze=group.squeeze, activation=group.activation))
    before = sequence[-1].layers[-1]
    size = before.h_out, before.w_out
    if arch.last:
        sequence.append(Block((convolution(size, before.c_out, arch.last),), activation=arch.activation))
    if arch.anchors:
        sequence.append(Block((convolution(size, sequence[-1].layers[-1].c_out, head_channels(arch)),), linear=True))
    return sequence


def head_channels(arch: Arch) -> int:
    """Return the channels of a detector's head: per anchor 4 for the box, 1 for the object, and 1 per class if several."""
    return arch.anchors * (5 + (arch.classes if arch.classes > 1 else 0))


def stride(arch: Arch) -> int:
    """Return the total stride along the rows: the number of image rows per row of the last map, for images of several rows."""
    return prod((arch.stem_stride[0], *(group.stride for group in arch.groups)))


def layers(sequence: Iterable[Block]) -> list[ChainLayer]:
    """Return the convolutions of all blocks in one list, without squeeze-and-excite layers."""
    return list(chain.from_iterable(block.layers for block in sequence))


def macs(arch: Arch) -> int:
    """Return the multiply-accumulates of one inference; taps on padding count."""
    sequence = blocks(arch)
    return sum(layer.macs for layer in layers(sequence)) + excitation_macs(sequence) + classifier_macs(arch)


def weights(arch: Arch) -> int:
    """Return the number of weights of a network, which is also their size in int8 bytes; biases are not counted."""
    sequence = blocks(arch)
    return sum(layer.macs_per_pixel for layer in layers(sequence)) + excitation_macs(sequence) + classifier_macs(arch)


def excitation_macs(sequence: Iterable[Block]) -> int:
    """Return the multiply-accumulates of all squeeze-and-excite layers, which equals their number of weights."""
    return sum(2 * block.squeezed * block.layers[-1].c_in for block in sequence)


def classifier_macs(arch: Arch) -> int:
    """Return the multiply-accumulates of the classifier, which equals its number of weights; 0 for a detector."""
    if arch.anchors:
        return 0
    if is_fitted(arch):
        return prod(arch.image) * arch.classes * max(1, arch.stored)
    channels = arch.last or (arch.groups[-1].width if arch.groups else arch.stem)
    if arch.pooling != "none":
        return channels * arch.classes * (1 + (arch.pooling == "both"))
    last = blocks(arch)[-1].layers[-1]
    return last.h_out * last.w_out * channels * arch.classes


def verify(arch: Arch) -> Arch:
    """Return an architecture unchanged, or raise CompileError for the first field that is out of range."""
    for field, count in (("image", 3), ("stem_kernel", 2), ("stem_stride", 2)):
        values = getattr(arch, field)
        _check(isinstance(values, tuple) and len(values) == count, f"{field} is not a list of {count}")
        for index, value in enumerate(values):
            _number(f"{field}[{index}]", value)
    for index, side in enumerate(arch.stem_kernel):
        _kernel(f"stem_kernel[{index}]", side)
    for field in ("stem", "last", "classes", "anchors", "stored"):
        _number(field, getattr(arch, field), lower_bound=0)
    _one_of("activation", arch.activation, ACTIVATIONS)
    _one_of("pooling", arch.pooling, POOLINGS)
    _plan(arch.plan)
    if arch.pooling != POOLINGS[0]:
        is_classifier = arch.classes > 0 and not arch.anchors
        _check(is_classifier, f"it has pooling {arch.pooling} but no classifier", f"give pooling {POOLINGS[0]}")
    if is_fitted(arch):
        is_alone = arch == replace(linear(arch.image, arch.classes), plan=arch.plan, stored=arch.stored)
        _check(is_alone, "it has stem 0, but more than a classifier", "give a stem, or what tinynas.arch.linear returns")
    elif arch.stored:
        _check(False, f"it has a stem and {arch.stored} stored samples", "give one of them, and 0 for the other")
    if arch.anchors:
        _check(arch.classes > 0, f"it has {arch.anchors} anchors but no classes", "give classes, or no anchors")
        is_square = arch.stem_stride[0] == arch.stem_stride[1]
        _check(is_square, "the stem_stride of a detector differs in rows and columns", "give the same number for both")
    for number, group in enumerate(arch.groups):
        where = f"groups[{number}]"
        _number(f"{where}.width", group.width)
        _number(f"{where}.stride", group.stride, upper_bound=2)
        if not group.kernels or len(group.kernels) != len(group.expansions):
            counts = f"{len(group.kernels)} kernels and {len(group.expansions)} expansions"
            raise CompileError(f"architecture: {where} has {counts}", "give one of each per block, for at least one block")
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            _kernel(f"{where}.kernels[{index}]", kernel)
            _number(f"{where}.expansions[{index}]", expansion, lower_bound=0)
        _number(f"{where}.squeeze", group.squeeze, lower_bound=0)
        _one_of(f"{where}.activation", group.activation, ACTIVATIONS)
        if group.stride > 1 and group.kernels[0] == 1:
            raise CompileError(f"architecture: {where} has stride 2 and kernel 1", "give its first block kernel 3 or more")
    return arch


def _number(name: str, value: object, *, lower_bound: int = 1, upper_bound: int = MAX_VALUE) -> None:
    if type(value) is not int or not lower_bound <= value <= upper_bound:  # True is an int too
        shown = f"{value}"[:40] if isinstance(value, int | float) else type(value).__name__
        raise CompileError(f"architecture: {name} is {shown}", f"give a whole number from {lower_bound} to {upper_bound}")


def _kernel(name: str, value: int) -> None:
    _number(name, value)
    if value % 2 == 0:
        raise CompileError(f"architecture: {name} is {value}", "give an odd number")


def _one_of(name: str, value: object, names: tuple[str, ...]) -> None:
    if value not in names:
        shown = value[:40] if isinstance(value, str) else type(value).__name__
        raise CompileError(f"architecture: {name} is {shown}", f"give one of {', '.join(names)}")


def _plan(plan: PlanGene | None) -> None:
    if plan is not None:
        _check(plan.schedule in STRATEGIES, "plan.schedule is unknown", f"give one of {', '.join(STRATEGIES)}")
        _check(type(plan.stream_inputs) is bool, "plan.stream_inputs is not true or false")
        more = plan.max_mac_overhead
        is_factor = more is None or (type(more) in (int, float) and 1 <= more <= MAX_OVERHEAD)
        _check(is_factor, "plan.max_mac_overhead is not a factor", f"give 1 to {MAX_OVERHEAD}, or null")


def _check(is_right: bool, why: str, what_to_do: str = WHAT_TO_DO) -> None:
    if not is_right:
        raise CompileError(f"architecture: {why}", what_to_do)


def to_json(arch: Arch) -> str:
    """Return an architecture as JSON text. A field of ADDED_DEFAULTS with its default value is left out, as in older files."""
    record = asdict(arch) | {"plan": arch.plan and arch.plan._asdict()}
    record = {key: value for key, value in record.items() if key not in ADDED_DEFAULTS or value != ADDED_DEFAULTS[key]}
    record["groups"] = [
        {key: value for key, value in group.items() if value != ADDED_DEFAULTS.get(key)} for group in record["groups"]
    ]
    return json.dumps(record)


def read_arch(path: str | Path) -> Arch:
    """Read an architecture from a JSON file, such as the arch.json of a search."""
    return from_json(read_file(Path(path), MAX_BYTES, "give a file that 'tinyweave search' wrote").decode(errors="replace"))


def from_json(text: str) -> Arch:
    """Read an architecture from JSON; raise CompileError if a field is missing, unknown or out of range."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"architecture: not JSON: {error}", "give what tinynas.arch.to_json wrote") from error
    whole = _fields("the file", record, Arch.__annotations__)
    groups = []
    for number, group in enumerate(_tuple("groups", whole["groups"])):
        where = f"groups[{number}]"
        fields = _fields(where, group, Group.__annotations__)
        groups.append(Group(**fields | {key: _tuple(f"{where}.{key}", fields[key]) for key in ("kernels", "expansions")}))
    sizes = {key: _tuple(key, whole[key]) for key in ("image", "stem_kernel", "stem_stride")}
    plan = None if whole["plan"] is None else PlanGene(**_fields("plan", whole["plan"], PlanGene._fields))
    return verify(Arch(**{**whole, **sizes, "groups": tuple(groups), "plan": plan}))


def _fields(where: str, record: Any, names: Collection[str]) -> dict[str, Any]:
    """Return a JSON object with defaults for fields that older files lack; raise CompileError for missing or unknown ones."""
    _check(isinstance(record, dict), f"{where} is not an object with the fields {', '.join(names)}")
    known = {name: OLD_DEFAULTS[name] for name in names if name in OLD_DEFAULTS}
    for name in names:
        _check(name in known or name in record, f"{where} lacks the field {name}")
    for name in record:
        _check(name in names, f"{where} has the unknown field {name[:40]!r}", f"give {', '.join(names)}")
    return {**known, **record}


def _tuple(where: str, value: Any) -> tuple[Any, ...]:
    _check(isinstance(value, list), f"{where} is not a list")
    return tuple(value)
