"""The page of supported ops is generated from names, refusals and constraints."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from pathlib import Path

import pytest
from report.supported_ops import OTHER_NAMES, op_names, supported_ops

from tinyweave import tflite_schema
from tinyweave.importers.aten import OPS
from tinyweave.importers.onnx_ops import MAPPED
from tinyweave.importers.onnx_ops.quantised import QUANTISED
from tinyweave.importers.onnx_ops.runtime import FLOAT_OPS, ML_OPS
from tinyweave.importers.refused import REFUSALS
from tinyweave.importers.tflite_lowering import LOWERED
from tinyweave.ops import SPECS
from tinyweave.tflite_schema import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "SUPPORTED_OPS.md"


def test_the_page_of_supported_ops_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(supported_ops(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == supported_ops(), "run pytest --update-golden"


def test_the_page_lists_every_kind_and_every_constraint() -> None:
    headings = re.findall(r"^### ([a-z].*)", supported_ops(), re.MULTILINE)
    assert sorted(", ".join(headings).split(", ")) == sorted(SPECS)
    for kind, spec in SPECS.items():
        for constraint in spec.constraints:
            assert constraint.__doc__, f"a constraint of {kind} does not say what it demands"


def test_each_op_of_a_front_end_is_on_the_page_and_the_names_exist() -> None:
    of_torch, of_onnx = set(OPS), {name.rpartition(".")[2] for name in (*MAPPED, *QUANTISED, *FLOAT_OPS, *ML_OPS)}
    rows = op_names().values()
    assert {name for row in rows for name in row["PyTorch"]} == of_torch
    assert {name for row in rows for name in row["ONNX"]} == of_onnx
    builtin = {kind.upper() for kind in {*SPECS, *LOWERED} & set(KINDS.values())}
    custom = {row.custom for row in tflite_schema.OPS.values() if row.custom}
    assert {name for row in rows for name in row[".tflite"]} == builtin | custom
    assert {name for names in OTHER_NAMES.values() for name in names.split()} <= of_torch | of_onnx


def test_the_names_of_refused_ops_exist_and_no_supported_op_is_among_them() -> None:
    refused = defaultdict[str, list[str]](list)
    for each in REFUSALS:
        for end, names in each.names().items():
            refused[end] += names
    kinds = {kind.upper() for kind in KINDS.values()}
    for name in refused[".tflite"]:
        matched = fnmatch.filter(kinds, name)
        assert matched or name.startswith("custom "), name
        assert {kind.lower() for kind in matched}.isdisjoint({*SPECS, *LOWERED}), name
    assert set(refused["PyTorch"]).isdisjoint(OPS)
    assert set(refused["ONNX"]).isdisjoint({*MAPPED, *QUANTISED})
