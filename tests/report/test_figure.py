"""The picture of memory over time: well-formed, its heights are the bytes, names cannot break out of it."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from types import ModuleType
from xml.etree import ElementTree

import pytest
from fuzz.generate import random_network

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.report.figure import PANEL, check_figure, figure, svg
from tinyweave.report.record import Record, reorder_record
from tinyweave.report.tables import order_csv

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record(tmp_path) -> Record:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(random_network(11, 14)))
    return reorder_record(api.reorder(api.load(path)))


def test_every_live_tensor_is_a_rectangle_as_high_as_its_bytes(record: Record) -> None:
    drawn = ElementTree.fromstring(svg(record))
    largest = max(order["peak"] for order in record["orders"].values())
    wanted = [
        size * PANEL / largest
        for order in record["orders"].values()
        for step in order["steps"]
        for size in step["tensors"].values()
    ]
    found = [float(r.get("height", "")) for r in drawn.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert found == pytest.approx(wanted, abs=0.01)
    assert max(sum(step["tensors"].values()) for step in record["orders"]["best"]["steps"]) == record["orders"]["best"]["peak"]


def test_names_are_escaped(record: Record) -> None:
    record["model"]["name"] = "<b>&\x1b"
    assert "<b>" not in svg(record) and "\x1b" not in svg(record)
    ElementTree.fromstring(svg(record))


def test_the_csv_has_a_row_per_step_of_both_orders(record: Record) -> None:
    head, *rows = csv.reader(io.StringIO(order_csv(record)))
    assert head == ["order", "step", "layer", "kind", "bytes", "tensors"]
    assert len(rows) == 2 * record["model"]["ops"]
    for name, order in record["orders"].items():
        assert max(int(row[4]) for row in rows if row[0] == name) == order["peak"]


def test_a_png_needs_cairosvg(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    check_figure("memory.svg")
    with pytest.raises(CompileError, match=r"neither \.svg nor \.png"):
        check_figure("memory.jpg")
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CompileError, match="cairosvg"):
        check_figure("memory.png")


def test_a_png_is_drawn_from_the_svg(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("cairosvg")
    vars(stand_in)["svg2png"] = lambda bytestring: b"PNG of " + bytestring
    monkeypatch.setitem(sys.modules, "cairosvg", stand_in)
    assert figure(record, "memory.png") == b"PNG of " + svg(record).encode()
    assert figure(record, "memory.svg") == svg(record).encode()


def test_an_order_without_proof_says_so(tmp_path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(random_network(11, 14)))
    done = api.reorder(api.load(path))
    hasty = replace(done, best=replace(done.best, lower_bound=done.best.peak - 1))
    assert reorder_record(done)["optimal"] is True and reorder_record(hasty)["optimal"] is None
