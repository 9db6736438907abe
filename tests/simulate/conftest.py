"""Fixtures: the installed compilers, regardless of the environment, and the folder of a small model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from simulate import tiny_c


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the model `tiny`; `invoke` is the C of tiny_invoke, `rest` the other functions."""

    def write(invoke: str = tiny_c.TWO_LAYERS, rest: str = tiny_c.REST) -> Path:
        tiny_c.write(tmp_path, invoke, rest)
        return tmp_path

    return write


@pytest.fixture(autouse=True)
def compilers_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TINYWEAVE_CC", "TINYWEAVE_ARM_CC", "TINYWEAVE_RISCV_CC"):
        monkeypatch.delenv(variable, raising=False)
