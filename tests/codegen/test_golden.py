"""The emitted C of small networks equals stored files, so that a review shows every change of emitted bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases.tiny import NETWORKS

from tinyweave.codegen import Origin, emit
from tinyweave.planning import plan

GOLDEN = Path(__file__).parents[1] / "golden"
# the other files of these networks have no line of another form
FILES = {"chain": (".c", "_weights.h"), "residual": (".c", ".h"), "stream": (".c",)}


@pytest.mark.parametrize("name", FILES)
def test_emitted_c_equals_the_golden_files(name: str, request: pytest.FixtureRequest) -> None:
    origin = Origin(f"{name}.tflite", "0" * 64, f"tinyweave compile {name}.tflite", "stm32f746")
    source = emit(plan(NETWORKS[name]()), name, origin)
    for file in (f"{name}{end}" for end in FILES[name]):
        if request.config.getoption("--update-golden"):
            (GOLDEN / file).write_text(source.files[file])
        same = (GOLDEN / file).read_text() == source.files[file]
        assert same, f"{file} changed: look at it, then run pytest --update-golden"
