"""The emitted C of small networks equals stored files, so that a review shows every change of emitted bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases.tiny import NETWORKS

from tinyweave.codegen import Origin, emit
from tinyweave.planning import plan

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", NETWORKS)
def test_emitted_c_equals_the_golden_files(name: str, request: pytest.FixtureRequest) -> None:
    origin = Origin(f"{name}.tflite", "0" * 64, f"tinyweave compile {name}.tflite", "stm32f746")
    source = emit(plan(NETWORKS[name]()), name, origin)
    own = {file: text for file, text in source.files.items() if file.startswith(f"{name}")}
    assert set(own) == {f"{name}.h", f"{name}.c", f"{name}_weights.h"}
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        for file, text in own.items():
            (GOLDEN / file).write_text(text)
    for file, text in own.items():
        assert (GOLDEN / file).read_text() == text, f"{file} changed: look at it, then run pytest --update-golden"
