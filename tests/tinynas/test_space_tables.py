"""The depths of each space increase in steps of one, its kernels in steps of two; defaults of spaces."""

from __future__ import annotations

import pytest

from tinynas.space import MOBILE, MOBILE_1280, SearchSpace, detectors, keywords, mobilenet_v3, sensors, small_images

SPACES = (MOBILE, MOBILE_1280, detectors((96, 96)), keywords(), mobilenet_v3(), sensors(128, 3), small_images())


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_kernels_and_depths_of_a_space_have_no_gaps(space: SearchSpace) -> None:
    for group in space.groups:
        kernels = tuple(group.kernels)
        assert kernels == tuple(range(min(kernels), max(kernels) + 1, 2)) and all(kernel % 2 for kernel in kernels)
        assert tuple(group.depths) == tuple(range(min(group.depths), max(group.depths) + 1))
        assert len(set(group.expansions)) == len(group.expansions) and list(group.expansions) == sorted(group.expansions)


def test_images_have_three_channels_by_default() -> None:
    assert {space.channels for space in (MOBILE, detectors((96, 96)), mobilenet_v3(), small_images())} == {3}
