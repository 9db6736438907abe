"""TensorMap: which tensor of the original graph each tensor of a rewritten graph holds, so that layers can be compared.

A TensorMap maps a new name to (old name, channels): the new tensor holds these channels of the old tensor, or all if None. A
tensor that is not in it has kept its name and all its channels. Channels count along the last axis. Constants are not mapped.
"""

from __future__ import annotations

Source = tuple[str, tuple[int, ...] | None]
TensorMap = dict[str, Source]


def source(tensors: TensorMap, name: str) -> Source:
    """Return (old name, channels, None for all) of the tensor `name` of a rewritten graph."""
    return tensors.get(name, (name, None))


def compose(first: TensorMap, then: TensorMap) -> TensorMap:
    """Return the TensorMap of two rewrites in a row, from the final graph to the graph before `first`."""
    composed = dict(first)
    for name, (middle, picked) in then.items():
        old, channels = source(first, middle)
        if picked is not None:
            channels = picked if channels is None else tuple(channels[index] for index in picked)
        composed[name] = (old, channels)
    return composed
