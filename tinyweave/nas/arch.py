"""Architectures: networks of inverted bottlenecks in a few numbers. In: an Arch, or JSON. Out: blocks, layers, counts; JSON.

A 3x3 convolution with stride 2 (the stem), groups of bottlenecks of one width, a 1x1 convolution, the mean, a classifier.
Source: MobileNetV2 (arXiv 1801.04381); depth, kernel, expansion may differ by block, as in TinyNAS (arXiv 2007.10319).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from itertools import chain
from typing import Any, NamedTuple

from ..ir import CompileError
from ..papers import chain as cost
from ..papers.chain import ChainLayer, square

IMAGE, STEM_KERNEL, STEM_STRIDE = 3, 3, 2  # channels; of the first convolution
LARGEST = 8192  # of any number: beyond it is no network for a microcontroller
WHAT_TO_DO = "see the fields of tinyweave.nas.arch.Arch"
MOBILENET_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


@dataclass(frozen=True)
class Group:
    """Bottlenecks with `width` channels out of each, of which the first has the stride; papers call it a stage.

    kernels, expansions: one per bottleneck. Expansion 1 needs no layer, nor does kernel 1, with which a stride cannot be.
    """

    width: int
    stride: int
    kernels: tuple[int, ...]
    expansions: tuple[int, ...]


@dataclass(frozen=True)
class Arch:
    """resolution: the image's side. stem, last: channels of the first and last convolution. 0 in last and classes: none."""

    resolution: int
    stem: int
    groups: tuple[Group, ...]
    last: int = 0
    classes: int = 0


class Block(NamedTuple):
    """Layers one after the other; with the input added to the last one's output or not; without an activation there or not."""

    layers: tuple[ChainLayer, ...]
    residual: bool = False
    linear: bool = False


def mobilenet_v2(resolution: int = 224, width: float = 1.0, classes: int = 1000) -> Arch:
    """Return MobileNetV2 with channels in multiples of 8, at least 0.9 of what the width asks for; the last 1280 are not made
    fewer."""
    groups = (Group(rounded(c * width), s, (3,) * depth, (expansion,) * depth) for expansion, c, depth, s in MOBILENET_V2)
    return verify(Arch(resolution, rounded(32 * width), tuple(groups), rounded(1280 * max(width, 1.0)), classes))


def rounded(channels: float) -> int:
    """Return a number of channels rounded to a multiple of 8, as MobileNets have it."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


def bottleneck(side: int, channels: tuple[int, int, int], kernel: int, stride: int) -> Block:
    """Return a block that expands, convolves by depth and projects, with a residual where the shapes allow it. channels: in,
    middle, out."""
    c_in, c_mid, c_out = channels
    convolutions = [square(side, c_in, c_mid)] if c_mid != c_in else []
    if kernel > 1:
        convolutions.append(square(side, c_mid, c_mid, kernel, stride, depthwise=True))
    project = square(convolutions[-1].h_out if convolutions else side, c_mid, c_out)
    return Block((*convolutions, project), stride == 1 and c_in == c_out, linear=True)


def blocks(arch: Arch) -> list[Block]:
    """Return all blocks but the classifier."""
    sequence = [Block((square(arch.resolution, IMAGE, arch.stem, STEM_KERNEL, STEM_STRIDE),))]
    for group in arch.groups:
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            before = sequence[-1].layers[-1]
            channels = before.c_out, before.c_out * expansion, group.width
            sequence.append(bottleneck(before.h_out, channels, kernel, 1 if index else group.stride))
    before = sequence[-1].layers[-1]
    return [*sequence, Block((square(before.h_out, before.c_out, arch.last),))] if arch.last else sequence


def layers(sequence: Iterable[Block]) -> list[ChainLayer]:
    return list(chain.from_iterable(block.layers for block in sequence))


def macs(arch: Arch) -> int:
    """Return multiply-accumulates of an inference, padding included."""
    return cost.macs(layers(blocks(arch))) + classifier(arch)


def weights(arch: Arch) -> int:
    """Return bytes of int8 weights: without biases, tables, code."""
    return sum(layer.macs_per_pixel for layer in layers(blocks(arch))) + classifier(arch)


def classifier(arch: Arch) -> int:
    """Return multiply-accumulates of the classifier, and as many weights."""
    return (arch.last or (arch.groups[-1].width if arch.groups else arch.stem)) * arch.classes


def verify(arch: Arch) -> Arch:
    """Return the same architecture, or raise a CompileError that says what is wrong with it."""
    _number("resolution", arch.resolution)
    _number("stem", arch.stem)
    _number("last", arch.last, lower_bound=0)
    _number("classes", arch.classes, lower_bound=0)
    for number, group in enumerate(arch.groups):
        where = f"groups[{number}]"
        _number(f"{where}.width", group.width)
        _number(f"{where}.stride", group.stride, upper_bound=2)
        if not group.kernels or len(group.kernels) != len(group.expansions):
            counts = f"{len(group.kernels)} kernels and {len(group.expansions)} expansions"
            raise CompileError(f"architecture: {where} has {counts}", "give one of each per block, for a block or more")
        for index, (kernel, expansion) in enumerate(zip(group.kernels, group.expansions, strict=True)):
            _number(f"{where}.kernels[{index}]", kernel)
            _number(f"{where}.expansions[{index}]", expansion)
            if kernel % 2 == 0:
                raise CompileError(f"architecture: {where}.kernels[{index}] is {kernel}", "kernels are odd")
        if group.stride > 1 and group.kernels[0] == 1:
            raise CompileError(f"architecture: {where} has stride 2 and kernel 1", "give its first block kernel 3 or more")
    return arch


def _number(name: str, value: object, *, lower_bound: int = 1, upper_bound: int = LARGEST) -> None:
    if type(value) is not int or not lower_bound <= value <= upper_bound:  # True is an int too
        shown = f"{value}"[:40] if isinstance(value, int | float) else type(value).__name__
        raise CompileError(f"architecture: {name} is {shown}", f"give a whole number from {lower_bound} to {upper_bound}")


def to_json(arch: Arch) -> str:
    return json.dumps(asdict(arch))


def from_json(text: str) -> Arch:
    """Read an architecture, all of whose fields must be there; raises CompileError where it is none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompileError(f"architecture: not JSON: {error}", "give what tinyweave.nas.arch.to_json wrote") from error
    _fields("the whole", record, Arch)
    groups = []
    for number, group in enumerate(_list("groups", record["groups"])):
        _fields(f"groups[{number}]", group, Group)
        lists = {key: tuple(_list(f"groups[{number}].{key}", group[key])) for key in ("kernels", "expansions")}
        groups.append(Group(**{**group, **lists}))
    return verify(Arch(**{**record, "groups": tuple(groups)}))


def _fields(where: str, record: object, kind: type[Arch | Group]) -> None:
    """Whether a record has the fields of a dataclass and no others."""
    wanted = [field.name for field in fields(kind)]
    if not isinstance(record, dict) or set(record) != set(wanted):
        raise CompileError(f"architecture: {where} has not the fields {', '.join(wanted)}", WHAT_TO_DO)


def _list(where: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise CompileError(f"architecture: {where} is no list", WHAT_TO_DO)
    return value
