"""Receptive fields moved out of the layers that run by patches. In: an Arch. Out: the Arch with them elsewhere, and counts.

The head, which runs by patches, ends with the block that makes the maps `factor` times smaller than the image. What the patches
compute again grows with its windows, so: keep the downsampling; where the stride is 2 keep the window, of 3x3; take all other
windows out; add blocks after the head until work and weights are about what they were. Source: J. Lin's thesis on tiny deep
learning (MIT), section 4.2, which leaves open which blocks to add: those that keep both closest, or the caller says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..ir import CompileError
from ..papers.patches import head_macs, patched_bytes, patched_macs, receptive_fields
from .arch import Arch, Group, blocks, classifier, excitation, layers, macs, verify, weights

KERNEL = 3  # where the stride is 2: a smaller window would not see all of its input
Copy = tuple[int, int, int]  # of a block: number of its group, kernel, expansion
MORE = 4  # blocks are added at most so many more than went


class Patches(NamedTuple):
    """A network whose head runs by patches, as the thesis counts it (`patch_paper`).

    fields: rows of the input of each layer of the head, and last of its output, that a patch depends on. halo: what each of
    these layers computes again, as part of what it must. ram: bytes. macs: with the classifier. overhead: the halo of all.
    """

    fields: tuple[int, ...]
    halo: tuple[float, ...]
    ram: int
    macs: int
    overhead: float


def by_patches(arch: Arch, patch: int, factor: int = 8, *, clipped: bool = False, split: bool = False) -> Patches:
    """Return the counts of a network by patches of so many rows and columns of the head's output; split: no patch knows others.

    Split, a network computes something else, less well. That is not in these figures.
    """
    all_layers = layers(blocks(arch))
    head = layers(blocks(arch)[: head_of(arch, factor)])
    run = head_macs(head, patch, clipped=clipped, split=split)
    total = (
        patched_macs(all_layers, len(head), patch, clipped=clipped, split=split) + excitation(blocks(arch)) + classifier(arch)
    )
    return Patches(
        fields=tuple(receptive_fields(head, patch, split=split)),
        halo=tuple(count / layer.macs - 1 for count, layer in zip(run, head, strict=True)),
        ram=patched_bytes(all_layers, len(head), patch, split=split),
        macs=total,
        overhead=total / macs(arch) - 1,
    )


def head_of(arch: Arch, factor: int = 8) -> int:
    """Return how many blocks run by patches, the first convolution counted: up to the one whose output is `factor` times
    smaller."""
    count, shrunk = 1, arch.stem_stride[0]
    for group in arch.groups:
        if shrunk == factor:
            break
        shrunk *= group.stride
        count += 1 if shrunk == factor else len(group.kernels)
    if shrunk != factor:
        raise CompileError(f"no block makes the maps {factor} times smaller", "give a factor of 2, 4, 8, ... that one reaches")
    return count


def redistributed(arch: Arch, factor: int = 8, added: Sequence[int] | None = None) -> Arch:
    """Return the same network with a head of the least receptive field.

    added: per block to add the number of its group, whose last block it repeats. Without it those blocks, copies of others,
    with which neither work nor weights are further from the architecture's than they must be.
    """
    head_of(verify(arch), factor)
    shrunk, first, groups = arch.stem_stride[0], 0, list[Group]()  # first: of the groups that may grow
    c_in = arch.stem
    for number, group in enumerate(arch.groups):
        inside = shrunk < factor
        shrunk *= group.stride
        if inside:
            first = number
            group = _in_head(group, c_in, ends=shrunk == factor)
        groups.append(group)
        c_in = group.width
    if added is None:
        gone = sum(len(group.kernels) for group in arch.groups) - sum(len(group.kernels) for group in groups)
        copies: Sequence[Copy] = _chosen(arch, groups, first, gone + MORE)
    else:
        wrong = [number for number in added if not first <= number < len(groups)]
        if wrong:
            raise CompileError(f"no block can be added to group {wrong[0]}", f"give one of {first} to {len(groups) - 1}")
        copies = [(number, groups[number].kernels[-1], groups[number].expansions[-1]) for number in added]
    return verify(_grown(arch, groups, copies))


def _in_head(group: Group, c_in: int, *, ends: bool) -> Group:
    """Return what stays of a group whose first block lies in the head; ends: no other block of it does."""
    if group.stride == 1:
        needed = group.width != c_in  # to change the number of channels, for which kernel 1 is enough
        return replace(group, kernels=(1,) * needed, expansions=group.expansions[:needed])
    stays = None if ends else 1
    return replace(group, kernels=(KERNEL, *group.kernels[1:stays]), expansions=group.expansions[:stays])


def _grown(arch: Arch, groups: Sequence[Group], copies: Sequence[Copy]) -> Arch:
    """Return the architecture of these groups, with blocks added at their ends; groups without blocks are left out."""
    grown = list(groups)
    for number, kernel, expansion in copies:
        group = grown[number]
        grown[number] = replace(group, kernels=(*group.kernels, kernel), expansions=(*group.expansions, expansion))
    return replace(arch, groups=tuple(group for group in grown if group.kernels))


def _chosen(arch: Arch, groups: Sequence[Group], first: int, block_limit: int) -> tuple[Copy, ...]:
    """Return the up to `block_limit` blocks that change work and weights least; of equal ways the one with the fewest."""
    goal, base = (macs(arch), weights(arch)), _grown(arch, groups, ())
    have = macs(base), weights(base)
    possible = dict.fromkeys(
        (number, *of_block)
        for number, group in enumerate(groups[first:], first)
        for of_block in zip(group.kernels, group.expansions, strict=True)
    )
    grown = {copy: _grown(arch, groups, [copy]) for copy in possible}
    choices = [(copy, macs(larger) - have[0], weights(larger) - have[1]) for copy, larger in grown.items()]
    least_change, chosen = float("inf"), tuple[Copy, ...]()
    todo = [(0, tuple[Copy, ...](), *have)]  # the choices before it are not added any more
    while todo:
        start, copies, work, size = todo.pop()
        above = work / goal[0] - 1, size / goal[1] - 1
        change = max(map(abs, above))
        if (change, len(copies)) < (least_change, len(chosen)):
            least_change, chosen = change, copies
        if max(above) < least_change and len(copies) < block_limit:  # more blocks only add to both
            todo += [
                (at, (*copies, copy), work + more_work, size + more_size)
                for at, (copy, more_work, more_size) in enumerate(choices[start:], start)
            ]
    return chosen
