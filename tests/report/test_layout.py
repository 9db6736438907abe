"""The report on a desk and on a phone: labels of the memory map are readable, and nothing is broken or cut off."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from cases.browser import seen_by_script

from tinyweave.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
READER = """
const all = (what, of = document) => [...of.querySelectorAll(what)];
const box = (each) => { const { left, right, top, bottom } = each.getBoundingClientRect(); return [left, top, right, bottom]; };
const lines = (each) => new Set([...each.getClientRects()].map(({ top }) => top)).size;
setTimeout(() => parent.postMessage(JSON.stringify({
  labels: all(".label").map((each) => [each.textContent, box(each.querySelector("rect")), box(each.querySelector("text"))]),
  boxes: all(".box").map((each) => [each.getAttribute("aria-label"), box(each)]),
  buttons: all(".tools .end").map((each) => new Set(all("button", each).map((button) => button.offsetTop)).size),
  parts: all(".part").map(lines),
  beyond: all(".scroll").map((each) => each.scrollWidth - each.clientWidth),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}), "*"), 500);
"""
# width of the window in pixels, the labels that must be in the memory map
WIDTHS = {
    1280: {"input", "add_3", "conv_2d_0", "conv_2d_12", "add_13", "depthwise_conv_2d_4", "depthwise_conv_2d_9"},
    390: {"conv_2d_10", "add_13", "conv_2d_0", "conv_2d_5"},
}


def meet(one: list[float], other: list[float]) -> bool:
    """Return whether two boxes (left, top, right, bottom) overlap by more than a rounding error."""
    return all(max(one[side], other[side]) + 0.5 < min(one[side + 2], other[side + 2]) for side in (0, 1))


def is_inside(one: list[float], other: list[float]) -> bool:
    """Return whether a box (left, top, right, bottom) lies inside another one, but for a rounding error."""
    return all(a >= b - 0.5 for a, b in zip(one[:2], other[:2], strict=True)) and all(
        a <= b + 0.5 for a, b in zip(one[2:], other[2:], strict=True)
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_labels_do_not_overlap_and_nothing_is_broken_or_cut(tmp_path: Path, width: int) -> None:
    report = tmp_path / "report.html"
    assert main(["report", str(DIGITS), "--device", "nrf52840", "-o", str(report)]) == 0
    found = seen_by_script(report.read_text(), READER, tmp_path, 3000, width)
    check_labels(found)
    names = {words.split("  ")[0] for words, *_ in found["labels"]}
    assert WIDTHS[width] <= names, names
    assert set(found["buttons"]) == set(found["parts"]) == {1} and found["wide"] <= 0
    assert (max(found["beyond"]) <= 0) == (width == 1280), "on a desk, no table needs to be scrolled"


def check_labels(found: dict[str, Any]) -> None:
    """Assert that labels of memory maps overlap no other label, lie inside the box of their buffer, and have its whole name."""
    for (one, first, _), (other, second, _) in combinations(found["labels"], 2):
        assert not meet(first, second), (one, other)
    for words, ground, text in found["labels"]:
        own = [box for name, box in found["boxes"] if words.split("  ")[0] == name.split(", ")[0]]
        assert is_inside(text, ground) and any(is_inside(ground, box) for box in own), words
