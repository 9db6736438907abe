"""The page of supported ops is generated from the constraints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tinyweave.ops import SPECS
from tinyweave.report.supported_ops import supported_ops

PAGE = Path(__file__).parents[2] / "docs" / "SUPPORTED_OPS.md"


def test_the_page_of_supported_ops_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(supported_ops(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == supported_ops(), "run pytest --update-golden"


def test_the_page_lists_every_kind_and_every_constraint() -> None:
    headings = re.findall(r"^## ([a-z].*)", supported_ops(), re.MULTILINE)
    assert sorted(", ".join(headings).split(", ")) == sorted(SPECS)
    for kind, spec in SPECS.items():
        for constraint in spec.constraints:
            assert constraint.__doc__, f"a constraint of {kind} does not say what it demands"
