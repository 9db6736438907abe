"""Architectures: networks of inverted bottlenecks in a few numbers. In: an Arch, or JSON. Out: blocks, layers, counts; JSON.

A convolution (the stem), groups of bottlenecks of one width, a 1x1 convolution, the mean, a classifier. A map of one row is a
signal: windows on it have one row and run along the columns.
Sources: MobileNetV2 (arXiv 1801.04381); depth, kernel, expansion may differ by block, as in TinyNAS (arXiv 2007.10319); squeeze
and excitation and hard-swish as in MobileNetV3 (arXiv 1905.02244).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any, NamedTuple

from ..ir import CompileError
from ..ops.window import Size
from ..papers import chain as cost
from ..papers.chain import ChainLayer
from ..planning.schedules import SCHEDULES

LARGEST = 8192  # of any number: beyond it is no network for a microcontroller
WHAT_TO_DO = "see the fields of tinyweave.nas.arch.Arch"
MOST_WORK = 100  # times the multiply-accumulates
ACTIVATIONS = ("relu6", "hard_swish")
LATER: dict[str, Any] = {"squeeze": 0, "activation": ACTIVATIONS[0], "plan": None}  # which older files have no word for
MISSING = {"anchors": 0, **LATER}  # from files that are older still
MOBILENET_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class PlanGene(NamedTuple):
    """How a network is planned where the search chose it: options of `tinyweave.plan`."""

    schedule: str = "best"
    stream_inputs: bool = False
    max_mac_overhead: float | None = None


@dataclass(frozen=True)
class Group:
    """Bottlenecks with `width` channels out of each, of which the first has the stride; papers call it a stage.

    kernels, expansions: one per bottleneck. Expansion 1 needs no layer, nor does kernel 1, with which a stride cannot be.
    squeeze: what the channels that a projection reads are divided by in squeeze and excitation before it; 0: there is none.
    activation: one of ACTIVATIONS, after all layers but projections.
    """

    width: int
    stride: int
    kernels: tuple[int, ...]
    expansions: tuple[int, ...]
    squeeze: int = 0
    activation: str = ACTIVATIONS[0]


@dataclass(frozen=True)
class Arch:
    """image: rows, columns and channels of the input. stem, last: channels of the first and last convolution. 0 in last and
    classes: none. stem_kernel, stem_stride: rows and columns. anchors: of a detector, whose head has so many boxes per pixel of
    the last map; 0: a classifier. activation: of the first and the last convolution. plan: how it is planned, if not as asked.
    """

    image: tuple[int, int, int]
    stem: int
    groups: tuple[Group, ...]
    last: int = 0
    classes: int = 0
    stem_kernel: Size = (3, 3)
    stem_stride: Size = (2, 2)
    anchors: int = 0
    activation: str = ACTIVATIONS[0]
    plan: PlanGene | None = None


class Block(NamedTuple):
    """Layers one after the other; with the input added to the last one's output or not; without an activation there or not.

    squeezed: channels between the two layers of squeeze and excitation, which scales what the last layer reads; 0: none.
    """

    layers: tuple[ChainLayer, ...]
    residual: bool = False
    linear: bool = False
    squeezed: int = 0
    activation: str = ACTIVATIONS[0]


def mobilenet_v2(resolution: int = 224, width: float = 1.0, classes: int = 1000) -> Arch:
    """Return MobileNetV2 with channels in multiples of 8, at least 0.9 of what the width asks for; the last 1280 are not made
    fewer."""
    groups = (Group(rounded(c * width), s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2)
    return verify(
        Arch((resolution, resolution, 3), rounded(32 * width), tuple(groups), rounded(1280 * max(width, 1.0)), classes)
    )


def rounded(channels: float) -> int:
    """Return a number of channels rounded to a multiple of 8, as MobileNets have it."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


@lru_cache(maxsize=1 << 16)
def convolution(size: Size, c_in: int, c_out: int, kernel: Size = (1, 1), stride: Size = (1, 1)) -> ChainLayer:
    """Return a convolution of a map, padded alike on both sides so that with stride 1 the map keeps its size."""
    (rows, row_step), (columns, column_step) = (
        (1, 1) if side == 1 else (extent, step) for side, extent, step in zip(size, kernel, stride, strict=True)
    )
    return ChainLayer(*size, c_in, c_out, (rows, columns), (row_step, column_step), ((rows // 2,) * 2, (columns // 2,) * 2))


@lru_cache(maxsize=1 << 16)
def bottleneck(
    size: Size, channels: tuple[int, int, int], kernel: int, stride: int, *, squeeze: int = 0, activation: str = ACTIVATIONS[0]
) -> Block:
    """Return a block that expands, convolves by depth and projects, with a residual where the shapes allow it. channels: in,
    middle, out. squeeze, activation: as of a Group; a block of a projection alone is not squeezed."""
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
    """Return all blocks but the classifier; of a detector its head is the last one."""
    *size, channels = arch.image
    stem = convolution((size[0], size[1]), channels, arch.stem, arch.stem_kernel, arch.stem_stride)
    sequence = [Block((stem,), activation=arch.activation)]
    for group in arch.groups:
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            before = sequence[-1].layers[-1]
            size, widths = (before.h_out, before.w_out), (before.c_out, before.c_out * expansion, group.width)
            step = 1 if index else group.stride
            sequence.append(bottleneck(size, widths, kernel, step, squeeze=group.squeeze, activation=group.activation))
    before = sequence[-1].layers[-1]
    size = before.h_out, before.w_out
    if arch.last:
        sequence.append(Block((convolution(size, before.c_out, arch.last),), activation=arch.activation))
    if arch.anchors:
        sequence.append(Block((convolution(size, sequence[-1].layers[-1].c_out, head_channels(arch)),), linear=True))
    return sequence


def head_channels(arch: Arch) -> int:
    """Return the channels of a detector's head: per anchor centre, size, object, and several classes."""
    return arch.anchors * (5 + (arch.classes if arch.classes > 1 else 0))


def stride(arch: Arch) -> int:
    """Return the rows of the image for each of the last map."""
    return prod((arch.stem_stride[0], *(group.stride for group in arch.groups)))


def layers(sequence: Iterable[Block]) -> list[ChainLayer]:
    return list(chain.from_iterable(block.layers for block in sequence))


def macs(arch: Arch) -> int:
    """Return multiply-accumulates of an inference, padding included."""
    sequence = blocks(arch)
    return cost.macs(layers(sequence)) + excitation(sequence) + classifier(arch)


def weights(arch: Arch) -> int:
    """Return bytes of int8 weights: without biases, tables, code."""
    sequence = blocks(arch)
    return sum(layer.macs_per_pixel for layer in layers(sequence)) + excitation(sequence) + classifier(arch)


def excitation(sequence: Iterable[Block]) -> int:
    """Return multiply-accumulates of the layers of squeeze and excitation, and as many weights."""
    return sum(2 * block.squeezed * block.layers[-1].c_in for block in sequence)


def classifier(arch: Arch) -> int:
    """Return multiply-accumulates of the classifier, and as many weights."""
    if arch.anchors:
        return 0
    return (arch.last or (arch.groups[-1].width if arch.groups else arch.stem)) * arch.classes


def verify(arch: Arch) -> Arch:
    """Return the same architecture, or raise a CompileError that says what is wrong with it."""
    for field, count in (("image", 3), ("stem_kernel", 2), ("stem_stride", 2)):
        values = getattr(arch, field)
        _check(isinstance(values, tuple) and len(values) == count, f"{field} is no list of {count}")
        for index, value in enumerate(values):
            _number(f"{field}[{index}]", value)
    for index, side in enumerate(arch.stem_kernel):
        _kernel(f"stem_kernel[{index}]", side)
    for field, least in (("stem", 1), ("last", 0), ("classes", 0), ("anchors", 0)):
        _number(field, getattr(arch, field), lower_bound=least)
    _activation("activation", arch.activation)
    _plan(arch.plan)
    if arch.anchors:
        _check(arch.classes > 0, f"{arch.anchors} anchors detect no class", "give classes, or no anchors")
        is_square = arch.stem_stride[0] == arch.stem_stride[1]
        _check(is_square, "a detector's stem_stride differs by side", "give it as many rows as columns")
    for number, group in enumerate(arch.groups):
        where = f"groups[{number}]"
        _number(f"{where}.width", group.width)
        _number(f"{where}.stride", group.stride, upper_bound=2)
        if not group.kernels or len(group.kernels) != len(group.expansions):
            counts = f"{len(group.kernels)} kernels and {len(group.expansions)} expansions"
            raise CompileError(f"architecture: {where} has {counts}", "give one of each per block, for a block or more")
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            _kernel(f"{where}.kernels[{index}]", kernel)
            _number(f"{where}.expansions[{index}]", expansion)
        _number(f"{where}.squeeze", group.squeeze, lower_bound=0)
        _activation(f"{where}.activation", group.activation)
        if group.stride > 1 and group.kernels[0] == 1:
            raise CompileError(f"architecture: {where} has stride 2 and kernel 1", "give its first block kernel 3 or more")
    return arch


def _number(name: str, value: object, *, lower_bound: int = 1, upper_bound: int = LARGEST) -> None:
    if type(value) is not int or not lower_bound <= value <= upper_bound:  # True is an int too
        shown = f"{value}"[:40] if isinstance(value, int | float) else type(value).__name__
        raise CompileError(f"architecture: {name} is {shown}", f"give a whole number from {lower_bound} to {upper_bound}")


def _kernel(name: str, value: int) -> None:
    _number(name, value)
    if value % 2 == 0:
        raise CompileError(f"architecture: {name} is {value}", "kernels are odd")


def _activation(name: str, value: object) -> None:
    if value not in ACTIVATIONS:
        shown = value[:40] if isinstance(value, str) else type(value).__name__
        raise CompileError(f"architecture: {name} is {shown}", f"it is one of {', '.join(ACTIVATIONS)}")


def _plan(plan: PlanGene | None) -> None:
    if plan is not None:
        _check(plan.schedule in SCHEDULES, "plan.schedule is unknown", f"it is one of {', '.join(SCHEDULES)}")
        _check(type(plan.stream_inputs) is bool, "plan.stream_inputs is not true or false")
        more = plan.max_mac_overhead
        is_factor = more is None or (type(more) in (int, float) and 1 <= more <= MOST_WORK)
        _check(is_factor, "plan.max_mac_overhead is no factor", f"give 1 to {MOST_WORK}, or null")


def _check(is_right: bool, why: str, what_to_do: str = WHAT_TO_DO) -> None:
    if not is_right:
        raise CompileError(f"architecture: {why}", what_to_do)


def to_json(arch: Arch) -> str:
    """Return an architecture as text, without what older files have no word for where it is as it was then."""
    record = asdict(arch) | {"plan": arch.plan and arch.plan._asdict()}
    record = {key: value for key, value in record.items() if key not in LATER or value != LATER[key]}
    record["groups"] = [{key: value for key, value in group.items() if value != LATER.get(key)} for group in record["groups"]]
    return json.dumps(record)


def from_json(text: str) -> Arch:
    """Read an architecture, all of whose fields without a default must be there; raises CompileError where it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"architecture: not JSON: {error}", "give what tinyweave.nas.arch.to_json wrote") from error
    whole = _fields("the whole", record, Arch.__annotations__)
    groups = []
    for number, group in enumerate(_tuple("groups", whole["groups"])):
        where = f"groups[{number}]"
        fields = _fields(where, group, Group.__annotations__)
        groups.append(Group(**fields | {key: _tuple(f"{where}.{key}", fields[key]) for key in ("kernels", "expansions")}))
    sizes = {key: _tuple(key, whole[key]) for key in ("image", "stem_kernel", "stem_stride")}
    plan = None if whole["plan"] is None else PlanGene(**_fields("plan", whole["plan"], PlanGene._fields))
    return verify(Arch(**{**whole, **sizes, "groups": tuple(groups), "plan": plan}))


def _fields(where: str, record: Any, wanted: Collection[str]) -> dict[str, Any]:
    """Return a record that has the wanted fields, or those that older files have, and no others."""
    known = {name: MISSING[name] for name in wanted if name in MISSING}
    is_whole = isinstance(record, dict) and set(known | record) == set(wanted)
    _check(is_whole, f"{where} has not the fields {', '.join(wanted)}")
    return known | record


def _tuple(where: str, value: Any) -> tuple[Any, ...]:
    _check(isinstance(value, list), f"{where} is no list")
    return tuple(value)
