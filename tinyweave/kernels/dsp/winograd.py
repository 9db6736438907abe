"""Work out for tw_conv_2d_s8_winograd_dsp its stream of weights, exactness, scratch and overlap distance.

In: a 3x3 convolution of stride 1. Out: its weights, biases and multipliers in the order of tw_winograd.h; a filter has 16
numbers of 16 bits per channel instead of 9 of 8: fewer products for more Flash.
Source: Winograd's F(2x2, 3x3) (arXiv 1509.09308), with integers only as tw_winograd.h says.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...ir import Graph, Op
from ...ops import conv
from ...ops.window import Window, Windows
from .. import overlap_distance as distance
from . import dense

KERNEL, TILE, WINDOW = 3, 2, 4
POSITIONS = WINDOW * WINDOW
SUMS = 64  # of two tiles and four filters: eight each
ORDER = [1, 2, 0, 3]  # of rows and columns of positions
G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])  # twice Winograd's, so that all are integers
TIMES = 4  # of the sums, since both rows and columns are doubled
MOST = (1 << 31) // TIMES  # a sum must be less, so that TIMES the sum is an int32
LANES = [0, 2, 1, 3]  # of four channels


def applies(graph: Graph, op: Op) -> bool:
    """Whether the kernel runs this convolution: all of its words hold four channels, and any inputs give the right outputs."""
    shape = (conv.kernel_size(graph, op), tuple(op.attrs["stride"]), tuple(op.attrs["dilation"]), conv.groups(graph, op))
    if shape != ((KERNEL, KERNEL), (1, 1), (1, 1), 1) or conv.weights_zero(graph, op) != 0:
        return False
    return graph.input(op).shape[3] % len(LANES) == 0 and is_exact(dense.filters(graph, op))


def is_exact(given: dense.Filters) -> bool:
    """Whether the stream gives the outputs of any inputs. Products and all sums but the last wrap, so only those must fit."""
    low, high = given.bounds()
    return bool(((low > -MOST) & (high < MOST)).all()) and dense.rescales_exactly(given)


def stream(given: dense.Filters) -> dense.Words:
    """The words of tw_winograd.h; what is missing of the last four filters is 0."""
    given = given.padded(-(-len(given.bias) // 4) * 4)
    groups = len(given.bias) // 4
    weights = given.weights.reshape(len(given.bias), KERNEL, KERNEL, -1)
    transformed = np.einsum("ia,fabc,jb->fijc", G, weights, G)[:, ORDER][:, :, ORDER]
    quads = transformed.reshape(groups, 4, POSITIONS, -1, len(LANES))[..., LANES]
    lanes = quads.reshape(groups, 4, POSITIONS, -1, 2).transpose(0, 2, 3, 1, 4) & 0xFFFF  # at most 9 * 128 each
    words = lanes[..., 0] | lanes[..., 1] << 16
    # the sums have twice the factor that SMMULR's would, hence half of the power
    rescales = np.stack((given.multiplier, np.where(given.multiplier != 0, given.powers() // 2, 0)), axis=1)
    return dense.joined(groups, TIMES * given.bias, words, rescales)


def flash(graph: Graph, op: Op) -> int:
    """Bytes of these words."""
    filters, _, _, depth = graph.input(op, 1).shape
    return 4 * -(-filters // 4) * (4 + 4 * POSITIONS * depth // 2 + 2 * 4)


def scratch(graph: Graph, op: Op) -> int:
    """Bytes of the working memory of one call."""
    return scratch_of(graph.input(op).shape[3], graph.output(op).shape[3])


def scratch_of(depth: int, units: int) -> int:
    """Bytes: windows of two tiles; two halves of columns of one, or sums; outputs outside of a range; two pixels of padding."""
    half = max(2 * WINDOW * 2 * depth, 4 * SUMS)
    return 2 * POSITIONS * 2 * depth + 2 * half + -(-units // 4) * 4 + 2 * depth


@distance.of_windows
def distances(graph: Graph, op: Op, windows: Windows) -> int:
    """The windows of two tiles are read before either is written; tiles follow each other row by row."""
    return _distance(graph.input(op).shape[1:], graph.output(op).shape[1:], (windows[0].pad, windows[1].pad))


@lru_cache(maxsize=1 << 12)
def _distance(size: tuple[int, ...], out: tuple[int, ...], pad: tuple[int, int]) -> int:
    (h, w, depth), (out_h, out_w, units) = size, out
    tiles = -(-out_h // TILE), -(-out_w // TILE)
    # of a window the first of a row reads all columns, others the last two: they have the rest from the one before
    down = Window(WINDOW, TILE, pad[0])
    across = (Window(WINDOW - skip, TILE, pad[1] - skip) for skip in (0, WINDOW - TILE))
    first, read = (distance.first_pixels((h, w), tiles, (down, window), (1, 1)).reshape(tiles) for window in across)
    read[:, 0] = first[:, 0]
    rows, cols = (np.minimum(np.arange(1, count + 1) * TILE, extent) for count, extent in zip(tiles, out, strict=False))
    written = (rows[:, None] - 1) * out_w + cols
    return distance.in_twos(read.ravel() * depth, written.ravel() * units)
