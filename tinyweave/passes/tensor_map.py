"""TensorMap: which tensor of the original graph each tensor of a rewritten graph holds, so that layers can be compared.

A TensorMap maps a new name to (old name, channels): the new tensor holds these channels of the old tensor, or all if None. A
tensor that is not in it has kept its name and all its channels. Channels count along the last axis. Constants are not mapped.
"""

from __future__ import annotations

Source = tuple[str, tuple[int, ...] | None]
TensorMap = dict[str, Source]


def source(tensors: TensorMap, name: str) -> Source:
    """Return (old name, channels) of the tensor `name` of a rewritten graph: it holds these channels of the old tensor.

    None as the channels means all channels.
    """
    return tensors.get(name, (name, None))


def compose(first: TensorMap, then: TensorMap) -> TensorMap:
    """Return the TensorMap of two rewrites in a row, `first` and `then`.

    It maps the tensors of the final graph to the tensors of the graph before `first`.
    """
    composed = dict(first)
    for name, (middle, picked) in then.items():
        old, channels = source(first, middle)
        if picked is not None:
            channels = picked if channels is None else tuple(channels[index] for index in picked)
        composed[name] = (old, channels)
    return composed
