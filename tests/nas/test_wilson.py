"""The ends of Wilson's score interval are the roots of its equation."""

from __future__ import annotations

import pytest

from tinyweave.nas.int8 import Z_95, wilson


@pytest.mark.parametrize("share, count", [(0.0, 10), (0.5, 10), (0.9, 50), (1.0, 200)])
def test_the_ends_of_the_interval_solve_wilson_s_equation(share: float, count: int) -> None:
    low, high = wilson(share, count)
    assert -1e-9 <= low <= share <= high <= 1 + 1e-9 and low < high
    for end in (low, high):
        assert (share - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / count, abs=1e-9)
