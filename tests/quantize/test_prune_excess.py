"""The excess over the limits is the sum of the fractions by which RAM and Flash exceed them."""

from __future__ import annotations

import pytest

from tinyweave.quantize.channel_pruning import Footprint


@pytest.mark.parametrize("ram, flash, excess", [(100, 200, 0), (150, 200, 0.5), (100, 250, 0.25), (150, 250, 0.75), (1, 1, 0)])
def test_the_excess_is_the_sum_of_both_fractions(ram: int, flash: int, excess: float) -> None:
    assert Footprint(ram, flash).excess(Footprint(100, 200)) == pytest.approx(excess)
