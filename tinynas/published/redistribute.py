"""Receptive field redistribution of MCUNetV2: smaller receptive fields in the layers that run patch by patch. In, out: an Arch.

The patched blocks end with the one whose output is `factor` times smaller than the image. Their halo grows with their kernels,
which become 3x3 at stride 2 and 1x1 elsewhere; blocks are added after them until MACs and weights are about as before. Source:
J. Lin's thesis on tiny deep learning (MIT), section 4.2, which does not say which blocks to add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tinyweave.ir import CompileError

from ..arch import Arch, Group, blocks, classifier_macs, excitation_macs, layers, macs, verify, weights
from .patches import macs_by_patch, patched_bytes, patched_macs, receptive_fields

KERNEL = 3  # in patched blocks at stride 2: a smaller kernel would skip pixels
NewBlock = tuple[int, int, int]  # index of its group, kernel, expansion
MAX_FURTHER = 4  # blocks that may be added beyond the number that was removed


class Patches(NamedTuple):
    """RAM and MACs of a network whose first blocks run patch by patch, counted as in the MCUNet thesis."""

    fields: tuple[int, ...]  # receptive fields in rows, for one patch: on each patched layer's input, then the patch itself
    halo: tuple[float, ...]  # for each patched layer, recomputed MACs divided by the layer's MACs
    ram: int  # bytes
    macs: int  # of the network with its classifier, recomputation included
    overhead: float  # recomputed MACs divided by the MACs of the network


def by_patches(arch: Arch, patch: int, factor: int = 8, *, clipped: bool = False, split: bool = False) -> Patches:
    """Return RAM and MACs of a network whose first blocks, as `patched_blocks`, run by patches of side `patch`.

    Patches extend beyond maps, as in the thesis, unless `clipped`. With `split` they do not read others' pixels: such a network
    computes another function and is less accurate.
    """
    all_layers = layers(blocks(arch))
    patched = layers(blocks(arch)[: patched_blocks(arch, factor)])
    run = macs_by_patch(patched, patch, clipped=clipped, split=split)
    total = (
        patched_macs(all_layers, len(patched), patch, clipped=clipped, split=split)
        + excitation_macs(blocks(arch))
        + classifier_macs(arch)
    )
    return Patches(
        fields=tuple(receptive_fields(patched, patch, split=split)),
        halo=tuple(count / layer.macs - 1 for count, layer in zip(run, patched, strict=True)),
        ram=patched_bytes(all_layers, len(patched), patch, split=split),
        macs=total,
        overhead=total / macs(arch) - 1,
    )


def patched_blocks(arch: Arch, factor: int = 8) -> int:
    """Return the number of blocks, with the stem, up to the first with `factor` times fewer rows than the image.

    Raises CompileError if no block has such an output.
    """
    count, shrunk = 1, arch.stem_stride[0]
    for group in arch.groups:
        if shrunk == factor:
            break
        shrunk *= group.stride
        count += 1 if shrunk == factor else len(group.kernels)
    if shrunk != factor:
        raise CompileError(
            f"no map is {factor} times smaller than the image", "give a factor that the strides reach: 2, 4, 8, ..."
        )
    return count


def redistributed(arch: Arch, factor: int = 8, added: Sequence[int] | None = None) -> Arch:
    """Return the network with the smallest receptive field in its `patched_blocks`, and blocks added after them.

    `added` are indices of groups whose last block is repeated; None brings MACs and weights closest to those of `arch`.
    """
    patched_blocks(verify(arch), factor)
    shrunk, first, groups = arch.stem_stride[0], 0, list[Group]()  # first: index of the first group that may get blocks
    c_in = arch.stem
    for number, group in enumerate(arch.groups):
        inside = shrunk < factor
        shrunk *= group.stride
        if inside:
            first = number
            group = _patched(group, c_in, ends=shrunk == factor)
        groups.append(group)
        c_in = group.width
    if added is None:
        gone = sum(len(group.kernels) for group in arch.groups) - sum(len(group.kernels) for group in groups)
        new: Sequence[NewBlock] = _closest(arch, groups, first, gone + MAX_FURTHER)
    else:
        wrong = [number for number in added if not first <= number < len(groups)]
        if wrong:
            raise CompileError(f"no block can be added to group {wrong[0]}", f"give one of {first} to {len(groups) - 1}")
        new = [(number, groups[number].kernels[-1], groups[number].expansions[-1]) for number in added]
    return verify(_grown(arch, groups, new))


def _patched(group: Group, c_in: int, *, ends: bool) -> Group:
    """Return a group whose patched blocks, the first if it `ends` them, else all, have the smallest receptive field.

    In a group of stride 2, the first gets the kernel KERNEL, and other patched ones are removed. A group of stride 1 becomes
    one 1x1 block, or none if the number of channels does not change.
    """
    if group.stride == 1:
        needed = group.width != c_in  # a 1x1 block changes the number of channels
        return replace(group, kernels=(1,) * needed, expansions=group.expansions[:needed])
    stays = None if ends else 1
    return replace(group, kernels=(KERNEL, *group.kernels[1:stays]), expansions=group.expansions[:stays])


def _grown(arch: Arch, groups: Sequence[Group], new: Sequence[NewBlock]) -> Arch:
    """Return `arch` with the given groups and the blocks `new` appended to them; groups without blocks are left out."""
    grown = list(groups)
    for number, kernel, expansion in new:
        group = grown[number]
        grown[number] = replace(group, kernels=(*group.kernels, kernel), expansions=(*group.expansions, expansion))
    return replace(arch, groups=tuple(group for group in grown if group.kernels))


def _closest(arch: Arch, groups: Sequence[Group], first: int, block_limit: int) -> tuple[NewBlock, ...]:
    """Choose at most `block_limit` copies of blocks, in groups from `first` on, to match MACs and weights of `arch` best.

    Break ties in favour of fewer blocks.
    """
    goal, base = (macs(arch), weights(arch)), _grown(arch, groups, ())
    start = macs(base), weights(base)
    possible = dict.fromkeys(
        (number, *kernel_and_expansion)
        for number, group in enumerate(groups[first:], first)
        for kernel_and_expansion in zip(group.kernels, group.expansions, strict=True)
    )
    grown = {block: _grown(arch, groups, [block]) for block in possible}
    choices = [(block, macs(larger) - start[0], weights(larger) - start[1]) for block, larger in grown.items()]
    least_change, closest = float("inf"), tuple[NewBlock, ...]()
    todo = [(0, tuple[NewBlock, ...](), *start)]  # index of the first choice that may still be added, blocks, MACs, weights
    while todo:
        at, blocks_so_far, work, size = todo.pop()
        above = work / goal[0] - 1, size / goal[1] - 1
        change = max(map(abs, above))
        if (change, len(blocks_so_far)) < (least_change, len(closest)):
            least_change, closest = change, blocks_so_far
        if max(above) < least_change and len(blocks_so_far) < block_limit:  # more blocks only add to both
            todo += [
                (index, (*blocks_so_far, block), work + more_work, size + more_size)
                for index, (block, more_work, more_size) in enumerate(choices[at:], at)
            ]
    return closest
