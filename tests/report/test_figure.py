"""The figure of memory over time is well-formed, its heights are proportional to bytes, and names are escaped."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from xml.etree import ElementTree

import pytest
from fuzz.generate import random_network

from tinyweave import api
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError
from tinyweave.report.figure import LEFT, LETTER, NAMES, PANEL, RIGHT, WIDTH, check_figure, figure, svg
from tinyweave.report.record import Record, reorder_record
from tinyweave.report.tables import order_csv

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def record(tmp_path) -> Record:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(random_network(11, 14)))
    return reorder_record(api.reorder(api.load(path)))


def test_every_live_tensor_is_a_band_proportional_to_its_bytes(record: Record) -> None:
    """In each step there is a band per live tensor, and the bands add up to the live bytes."""
    drawn = ElementTree.fromstring(svg(record))
    largest = max(order["peak"] for order in record["orders"].values())
    bands = [r for r in drawn.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    spans = [[float(r.get(key, "")) for key in ("x", "y", "width", "height")] for r in bands]
    column = (WIDTH - LEFT - RIGHT - NAMES) / record["model"]["ops"]
    middle = min(y for _, y, _, _ in spans) + PANEL  # the first panel ends here
    for panel, order in enumerate(record["orders"].values()):
        mine = [span for span in spans if (span[1] > middle) == panel]
        for number, step in enumerate(order["steps"]):
            at = LEFT + (number + 0.5) * column
            found = sorted(height for x, _, width, height in mine if x < at < x + width)
            assert found == pytest.approx(sorted(size * PANEL / largest for size in step["tensors"].values()), abs=0.01)


def test_tensors_alive_at_the_peak_are_named(record: Record) -> None:
    texts = [text.text or "" for text in ElementTree.fromstring(svg(record)).iter(f"{SVG}text")]
    for order in record["orders"].values():
        step = order["steps"][order["step"]]
        assert f"alive at the peak ({step['op']})" in texts
        assert all(any(text.startswith(f"{size:,} B") for text in texts) for size in step["tensors"].values())


@pytest.mark.parametrize("count", [1, 7, 16, 92, 1000])
def test_labels_of_steps_do_not_overlap(record: Record, count: int) -> None:
    """Wide steps have names, narrow ones rotated names, narrower ones numbers."""
    step = {"op": "depthwise_conv_2d", "kind": "depthwise_conv_2d", "bytes": 4, "tensors": {"x": 4}}
    order = {"peak": 4, "step": 0, "op": step["op"], "steps": [step] * count}
    drawn = ElementTree.fromstring(svg(record | {"orders": {"file": order, "best": order}}))
    labels = [t for t in drawn.iter(f"{SVG}text") if (t.text or "").split(" ")[0].isdigit() and "B" not in (t.text or "")]
    turned = [t for t in labels if t.get("transform")]
    assert bool(turned) == (count in (7, 16)) and len(turned) in (0, 2 * count)
    flat = [t for t in labels if not t.get("transform") and t.get("text-anchor") == "middle"]
    assert bool(flat) == (not turned)
    places = [float(t.get("x", "")) for t in flat[: len(flat) // 2]]
    widest = max((len(t.text or "") for t in flat), default=0) * LETTER
    assert all(b - a >= widest for a, b in pairwise(places))


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


def test_a_png_without_cairosvg_and_other_formats_are_refused(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_cairosvg_draws_a_png(record: Record) -> None:
    pytest.importorskip("cairosvg", reason="needs the package cairosvg")
    assert figure(record, "memory.png").startswith(b"\x89PNG")


def test_an_order_above_its_lower_bound_is_not_reported_as_optimal(tmp_path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(random_network(11, 14)))
    done = api.reorder(api.load(path))
    hasty = replace(done, best=replace(done.best, lower_bound=done.best.peak - 1))
    assert reorder_record(done)["optimal"] is True and reorder_record(hasty)["optimal"] is None
