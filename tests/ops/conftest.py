"""The oracle for the tests of op kinds."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tinyweave.simulate.litert import Worker


@pytest.fixture(scope="session")
def litert(one_litert: Worker) -> Worker:
    if find_spec("ai_edge_litert") is None:
        pytest.skip("needs ai-edge-litert: pip install 'tinyweave[verify]'")
    return one_litert
