"""How the tensors of a rewritten graph lead back to those of the graph before: what lets every layer be compared.

New name -> (old name, channels): the new tensor holds these channels of the old one, or all when None. A name that is
absent kept its name and all its channels. Channels count along the last axis. Of constants nothing is told.
"""

from __future__ import annotations

Source = tuple[str, tuple[int, ...] | None]
TensorMap = dict[str, Source]


def source(tensors: TensorMap, name: str) -> Source:
    """Return the old tensor, and which of its channels, that the new tensor `name` holds."""
    return tensors.get(name, (name, None))


def compose(first: TensorMap, then: TensorMap) -> TensorMap:
    """Return the map of two rewrites done one after the other."""
    composed = dict(first)
    for name, (middle, picked) in then.items():
        old, channels = source(first, middle)
        if picked is not None:
            channels = picked if channels is None else tuple(channels[index] for index in picked)
        composed[name] = (old, channels)
    return composed
