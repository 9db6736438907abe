"""PyTorch runs on one thread in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    pytest.importorskip("torch", reason="needs torch")
    from tinynas.learning.train import thread_count

    with thread_count(1):
        yield
