"""Fixtures of all tests: the folder of real models and data, and skips for missing packages."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

for library in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before numpy and torch are loaded, because tests run on all cores
    os.environ.setdefault(library, "1")

SHARED = Path(os.environ.get("TINYWEAVE_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real models and data, which is not part of the project."""
    if not (SHARED / "models").is_dir():
        pytest.skip(f"needs the real models and data in {SHARED} (set TINYWEAVE_SHARED)")
    return SHARED


@pytest.fixture(scope="session")
def litert() -> ModuleType:
    """Return the module that runs a .tflite file with LiteRT's reference kernels."""
    if find_spec("ai_edge_litert") is None:
        pytest.skip("needs ai-edge-litert: pip install '.[verify]'")
    from tinyweave.simulate import litert as oracle

    return oracle


@pytest.fixture
def emulator(request: pytest.FixtureRequest) -> None:
    """Skip a test if there is no emulator, or none for the core that is its parameter `core`: a Cortex-M55 needs QEMU."""
    pytest.importorskip("unicorn", reason="needs the emulator (pip install '.[verify]')")
    from tinyweave.simulate import emulated

    core = request.node.callspec.params.get("core") if hasattr(request.node, "callspec") else None
    if core in emulated.CORES and (reason := emulated.missing(core)):
        pytest.skip(reason[0])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden C files with what is emitted now")
    parser.addoption("--fuzz-seed", type=int, default=0, help="the first random network")
    parser.addoption("--fuzz-count", type=int, help="how many random networks; without it the usual ones, and more in sweeps")
