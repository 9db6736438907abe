"""The oracle for the tests of op kinds: one LiteRT process for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tinyweave.simulate.litert import Worker


@pytest.fixture(scope="session")
def litert() -> Iterator[Worker]:
    if find_spec("ai_edge_litert") is None:
        pytest.skip("needs ai-edge-litert: pip install 'tinyweave[verify]'")
    with Worker() as worker:
        yield worker
