"""The exception for an op that cannot be imported, and the check of an axis argument."""

from __future__ import annotations


class Unsupported(Exception):  # noqa: N818
    """Raised if an op cannot be imported; the text is the reason. `program.graph_of` adds the op's name and module."""


def normalised_axis(rank: int, axis: int, what: str = "axis") -> int:
    """Convert a possibly negative axis, `what` in messages, to an index; raise Unsupported if it is out of range."""
    if not -rank <= axis < rank:
        raise Unsupported(f"its {what} {axis} is out of range for {rank}; the file may be damaged")
    return axis % rank
