"""A model file for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import tiny

from tinyweave.exporters.tflite import to_tflite


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "chain.tflite"
    path.write_bytes(to_tflite(tiny.chain()))
    return path
