"""The oracle for the tests of op kinds."""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType

import pytest

from tinyweave.simulate import litert as oracle


@pytest.fixture(scope="session")
def litert() -> ModuleType:
    if find_spec("ai_edge_litert") is None:
        pytest.skip("needs ai-edge-litert: pip install 'tinyweave[verify]'")
    return oracle
