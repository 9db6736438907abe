"""Maps of rows, [1, rows, 1, channels], of which tensors of other shapes and orders of elements consist.

In a symbolic trace, each element of a tensor has an address: row map, row and channel of its value. Ops that only move elements
rearrange addresses; ops that work row by row add row maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ir import Op, Tensor

Addresses = NDArray[np.int64]  # one per element of a tensor


class Part(NamedTuple):
    """The channels [begin, end) of all rows of the row map with this number."""

    number: int
    begin: int
    end: int

    @property
    def channels(self) -> int:
        """Return the number of channels."""
        return self.end - self.begin


class Operand(NamedTuple):
    """Parts of row maps whose channels are concatenated; if `is_matrix`, all rows of the op's output read all of it."""

    parts: tuple[Part, ...]
    is_matrix: bool = False


@dataclass(frozen=True, eq=False)
class RowMap:
    """A map of rows that an op computes from other row maps, or a tensor of the graph as a map of rows.

    `like` is a tensor with its type and quantisation, or, without `op`, the tensor itself. If `elementwise`, each channel
    depends on one channel of each operand, so that some channels can be computed alone.
    """

    rows: int
    channels: int
    like: Tensor
    op: Op | None = None
    operands: tuple[Operand | Tensor, ...] = ()
    elementwise: bool = False


class Located(NamedTuple):
    """The places of some elements: the number of the row map, the row and the channel of each element."""

    number: Addresses
    row: Addresses
    channel: Addresses


@dataclass
class RowMaps:
    """Row maps by number. Row r and channel c of a map have the address begins[number] + r * channels + c."""

    maps: list[RowMap] = field(default_factory=list)
    begins: list[int] = field(default_factory=lambda: [0])  # and the first address after all maps

    def add(self, row_map: RowMap) -> Addresses:
        """Add a row map and return the addresses of its elements, [rows, channels]."""
        self.maps.append(row_map)
        begin, size = self.begins[-1], row_map.rows * row_map.channels
        self.begins.append(begin + size)
        return np.arange(begin, begin + size).reshape(row_map.rows, row_map.channels)

    def locate(self, addresses: Addresses) -> Located:
        """Return the row maps, rows and channels of some elements."""
        numbers = np.searchsorted(self.begins, addresses, side="right") - 1
        channels = np.array([each.channels for each in self.maps])[numbers]
        return Located(numbers, *np.divmod(addresses - np.array(self.begins)[numbers], channels))

    def operand(self, block: Addresses) -> Operand | None:
        """Return the parts of row maps that form the addresses [rows, channels], row r of each in row r; else None."""
        first = self.locate(block[0])
        steps = np.array([self.maps[number].channels for number in first.number])
        rows = {self.maps[number].rows for number in first.number}
        down = np.arange(len(block))[:, None] * steps
        if rows != {len(block)} or first.row.any() or not np.array_equal(block, block[0] + down):
            return None
        breaks = np.flatnonzero((np.diff(first.number) != 0) | (np.diff(first.channel) != 1)) + 1
        spans = pairwise([0, *breaks.tolist(), block.shape[1]])
        begins = ((int(first.number[at]), int(first.channel[at]), end - at) for at, end in spans)
        return Operand(tuple(Part(number, begin, begin + size) for number, begin, size in begins))

    def grouped(self, block: Addresses) -> Iterator[tuple[Addresses, Operand | None]]:
        """Yield the rows of a block that begin in the same channel of a row map, such as those of a head, and their operand."""
        first = self.locate(block[:, 0])
        keys, group = np.unique(np.stack([first.number, first.channel]), axis=1, return_inverse=True)
        for number in range(keys.shape[1]):
            rows = np.flatnonzero(group.ravel() == number)
            yield rows, self.operand(block[rows])


def computed(row_map: RowMap) -> list[Operand]:
    """Return the operands of a row map's op that are not constants."""
    return [operand for operand in row_map.operands if isinstance(operand, Operand)]


def shape_of(rows: int, channels: int, is_matrix: bool = False) -> tuple[int, int, int, int]:
    """Return the shape of a row map, or of a row map that a batch_matmul reads as a matrix."""
    return (1, 1, rows, channels) if is_matrix else (1, rows, 1, channels)
