"""Random augmentation of training samples, one or more functions per kind of sample.

In, out: samples [batch, channels, rows, columns] in -1 .. 1. Rows of sounds are frames in time, columns are log-mel bands
or MFCC. -1 is silence in a log-mel band. All random numbers are drawn from `generator`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Augment = Callable[[Tensor, torch.Generator], Tensor]
MAX_SHIFT = 1 / 8  # largest shift, as a share of an image's side
MAX_DELAY = 1 / 6  # largest shift, as a share of a recording's length
MAX_GAIN = 0.12  # largest change of loudness (6 dB), in units of the samples, which are in -1 .. 1
MAX_MASK = 1 / 6  # largest mask, as a share of a recording's frames or bands


def images(x: Tensor, generator: torch.Generator) -> Tensor:
    """Flip and shift images, and change their brightness and contrast, all at random."""
    return images_unflipped(torch.where(_uniform(len(x), generator, x) < 0.5, x.flip(3), x), generator)


def images_unflipped(x: Tensor, generator: torch.Generator) -> Tensor:
    """Shift images, and change their brightness and contrast, all at random; for things that differ from their mirror image."""
    count, (rows, columns) = len(x), x.shape[2:]
    x = shifted(x, _whole(count, int(MAX_SHIFT * rows), generator), _whole(count, int(MAX_SHIFT * columns), generator), 0.0)
    contrast = 1 + 0.2 * (2 * _uniform(count, generator, x) - 1)
    return (x * contrast + 0.1 * (2 * _uniform(count, generator, x) - 1)).clamp(-1, 1)


def sounds(x: Tensor, generator: torch.Generator) -> Tensor:
    """Shift sounds, change loudness, add noise, and mask frames and bands by silence (SpecAugment, arXiv 1904.08779)."""
    count, (rows, columns) = len(x), x.shape[2:]
    x = shifted(x, _whole(count, int(MAX_DELAY * rows), generator), torch.zeros(count, dtype=torch.int64), -1.0)
    louder = MAX_GAIN * (2 * _uniform(count, generator, x) - 1)
    noise = torch.randn(x.shape, generator=generator).to(x.device) * 0.03
    x = torch.where(x > -1, x + louder + noise, x).clamp(-1, 1)
    for side, place in ((rows, torch.arange(rows)[:, None]), (columns, torch.arange(columns))):
        width = (_uniform(count, generator, x) * MAX_MASK * side).floor()
        first = (_uniform(count, generator, x) * (side - width)).floor()
        at = place.to(x.device)
        x = torch.where((at >= first) & (at < first + width), -1.0, x)
    return x


def sensors(x: Tensor, generator: torch.Generator) -> Tensor:
    """Multiply the sensor values of each sample by a random factor, and add noise."""
    noise = torch.randn(x.shape, generator=generator).to(x.device) * 0.02
    return (x * (1 + 0.1 * (2 * _uniform(len(x), generator, x) - 1)) + noise).clamp(-1, 1)


def sensors_shifted(x: Tensor, generator: torch.Generator) -> Tensor:
    """Scale sensor values, add noise, and shift each sample in time, at random; moments that the shift leaves empty are 0."""
    count, columns = len(x), x.shape[3]
    right = _whole(count, int(MAX_SHIFT * columns), generator)
    return shifted(sensors(x, generator), torch.zeros(count, dtype=torch.int64), right, 0.0)


def pasted(x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """Paste a part of another image into each image of a batch (CutMix, arXiv 1905.04899).

    The part is a random rectangle, the same for all images. Return the images, the index of the other image for each, int64
    [batch], and the share of each image that is not pasted over.
    """

    def drawn() -> float:
        return float(torch.rand((), generator=generator))

    order, side, spans = torch.randperm(len(x), generator=generator).to(x.device), math.sqrt(drawn()), list[slice]()
    for extent in x.shape[2:]:
        centre = drawn() * extent
        spans.append(slice(max(0, round(centre - side * extent / 2)), min(extent, round(centre + side * extent / 2))))
    whole, part = x.clone(), (slice(None), slice(None), *spans)
    whole[part] = x[order][part]
    pixels = math.prod(span.stop - span.start for span in spans)
    return whole, order, 1 - pixels / math.prod(x.shape[2:])


def none(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return samples unchanged, for samples that no other augmentation suits; `generator` is not used."""
    return x


def shifted(x: Tensor, down: Tensor, right: Tensor, fill: float) -> Tensor:
    """Shift samples [batch, channels, rows, columns] by `down` rows and `right` columns, int64 [batch]; `fill` enters."""
    rows, columns = x.shape[2:]
    row = torch.arange(rows) - down[:, None]
    column = torch.arange(columns) - right[:, None]
    inside = ((row >= 0) & (row < rows))[:, None, :, None] & ((column >= 0) & (column < columns))[:, None, None, :]
    row, column = row.clamp(0, rows - 1).to(x.device), column.clamp(0, columns - 1).to(x.device)
    moved = x.permute(0, 2, 3, 1)[torch.arange(len(x), device=x.device)[:, None, None], row[:, :, None], column[:, None, :]]
    return torch.where(inside.to(x.device), moved.permute(0, 3, 1, 2), fill)


def _uniform(count: int, generator: torch.Generator, x: Tensor) -> Tensor:
    return torch.rand(count, 1, 1, 1, generator=generator).to(x.device)


def _whole(count: int, most: int, generator: torch.Generator) -> Tensor:
    return torch.randint(-most, most + 1, (count,), generator=generator)


AUGMENT: dict[str, Augment] = {
    each.__name__: each for each in (images, images_unflipped, sounds, sensors, sensors_shifted, none)
}
