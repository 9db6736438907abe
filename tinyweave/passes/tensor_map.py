"""Map the tensors of a rewritten graph to those of the original graph, so that every layer can be compared.

A TensorMap maps a new name to (old name, channels): the new tensor holds these channels of the old one, or all if None. A name
that is absent kept its name and all its channels. Channels count along the last axis. Constants are not mapped.
"""

from __future__ import annotations

Source = tuple[str, tuple[int, ...] | None]
TensorMap = dict[str, Source]


def source(tensors: TensorMap, name: str) -> Source:
    """Return the old tensor, and its channels, that the new tensor `name` holds."""
    return tensors.get(name, (name, None))


def compose(first: TensorMap, then: TensorMap) -> TensorMap:
    """Return the map of two rewrites, `first` and `then`, applied one after the other."""
    composed = dict(first)
    for name, (middle, picked) in then.items():
        old, channels = source(first, middle)
        if picked is not None:
            channels = picked if channels is None else tuple(channels[index] for index in picked)
        composed[name] = (old, channels)
    return composed
