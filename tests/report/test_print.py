"""The printed report has all headings, and its long table repeats its head."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
from cases.browser import browse, print_pdf, seen

from tinyweave.cli import main

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "keywords" / "digits.tflite"
READER = """
const all = (what) => [...document.querySelectorAll(what)];
const size = (each) => [each.getBoundingClientRect().width, each.getBoundingClientRect().height];
const head = (each) => JSON.parse(getComputedStyle(each, "::after").content);  // in place of its button
const heads = all("th[data-head]").map((each) => [head(each), each.textContent, ...size(each)]);
const shown = all("button, select, input, .tools, .told").filter((each) => size(each).some((x) => x));
const cut = all("th").filter((each) => each.scrollWidth > each.clientWidth);
const texts = (found) => found.map((each) => each.outerHTML);
const [sheet] = all("main").map((each) => each.getBoundingClientRect().right);
const beyond = all("table, svg, p, pre").filter((each) => each.getBoundingClientRect().right > sheet + 1);
const seen = { heads, shown: texts(shown), cut: texts(cut), beyond: texts(beyond), tables: all("table").length };
document.body.append(Object.assign(document.createElement("output"), { id: "seen", textContent: JSON.stringify(seen) }));
"""


def test_the_printed_report_shows_all_headings(tmp_path: Path) -> None:
    """Chromium lays out the page with the print style at the width of an A4 sheet (18 cm)."""
    report = tmp_path / "report.html"
    assert main(["report", str(DIGITS), "--device", "nrf52840", "-o", str(report)]) == 0
    page = report.read_text()
    assert page.count("@media print {") == 1
    script = f"<script>setTimeout(() => {{{READER}}}, 500);</script></body>"
    report.write_text(page.replace("@media print {", "@media screen {").replace("</body>", script))
    found = seen(browse(report.as_uri(), tmp_path, 2000, width=680))
    assert found["tables"] >= 4 and found["shown"] == found["cut"] == found["beyond"] == []
    named = [(text, width, height) for text, words, width, height in found["heads"] if text == words != ""]
    assert {"layer", "MACs", "cycles", "kernel", "board", "schedule"} <= {text for text, *_ in named}
    assert all(width > 0 and height > 0 for _, width, height in named)


def test_a_table_repeats_its_head_on_each_printed_page(tmp_path: Path) -> None:
    """The table of boards is longer than a page."""
    if (reader := which("pdftotext")) is None:
        pytest.skip("needs pdftotext (Debian: apt install poppler-utils)")
    report, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    assert main(["report", str(DIGITS), "--device", "nrf52840", "-o", str(report)]) == 0
    print_pdf(report.as_uri(), pdf, tmp_path)
    pages = subprocess.run([reader, str(pdf), "-"], capture_output=True, text=True, check=True).stdout.split("\f")
    boards = [page for page in pages if re.search(r"\(\d+ %\)", page)]  # what is left of a memory
    assert len(boards) >= 2 and all("Flash left, B" in page for page in boards)
