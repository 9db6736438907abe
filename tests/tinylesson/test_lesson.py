"""The page of the explorer: its text is that of docs/LESSON.md, and it prints each figure of the lecture."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tinylesson.lesson import chapters, page
from tinylesson.networks import LADDER, PRESETS, five_layers
from tinynas.arch import layers
from tinynas.ram.arena import arena_of
from tinyweave.cli import main
from tinyweave.ir import CompileError

LESSON = (Path(__file__).parents[2] / "docs" / "LESSON.md").read_text()
CANVASES = ["ladder", "layers", "map", "profiles", "redistribution", "scales", "explorer"]
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")

# what the lecture prints, by chapter; the lesson has each of them in the same chapter, corrected where it is wrong
PRINTED = {
    0: "64 MHz|256 KB|1 MB|224 x 224|150 KB|3.4 million|1,372 KB|5.4 times|32 GB|4 GB|320 KB|10,000|100,000|10 times",
    1: "1 to 2 MB|256 to 512 KB|4 times|k x k x C_in x C_out|64 x 64 x 32|64 x 64 x 64",
    2: "96 x 96 x 1|48 x 48 x 16|48 x 48 x 32|24 x 24 x 64|12 x 12 x 128|9,216|36,864|73,728|18,432|46,080|110,592|55,296|45 KB"
    "|108 KB|72 KB|54 KB|224 x 224|5.4|596 KB|192",
    3: "72 %|3.4M|150,528|401,408|551 KB|588 KB|200,704|1,204,224|1,367 KB|5.3 times|112 x 112 x 96|590 KB|1.1 MB|256 KB|80 %"
    "|six times",
    4: "224|1.0|4 GB|80 %|80th percentile|320 KiB|1 MiB|w0.5-r144|w0.4-r144",
    5: "200 KB|300 KB|180 KB|190 KB",
    6: "224 pixels|551 KB|1.7 times|1,372 KB|4.3 times|80 to 200 KB|8 to 80 KB|8 times|3 to 6|7 to 17|112 x 112 x 96"
    "|1.1 MB|320 KB",
    7: "2021|224 x 224|112 x 112|56 x 56|28 x 28|1,372 KB|343 KB|153 KB|9 patches|315 KB|64 KB|4.9 times|113 KB|2.8 times|30 KB"
    "|10.5 times|14 %|2 x 4 = 8|16,384|128 x 128",
    8: "128 px|width 0.5|144 px|2 x 2 patches|1,372 KB|5.4 times|113 KB|30 KB|8.6 times|4.6 %|12 %|256 KB|46 times",
    9: "10 to 14 %|30 KB|144 px|10.5 times|0.12|108.0 KB at layer 1|385|384 KB|171 KB",
}  # fmt: skip
# numbers that the text of the lecture has by accident: lines of tables that lost their columns
GLUED = {
    "148",
    "162",
    "321",
    "641",
    "642",
    "680",
    "1282",
    "1648",
    "178",
    "3112",
    "3224",
    "5511.7",
    "6412",
    "6424",
    "16112",
    "32112",
}
GLUED |= {"16401,408", "32150,528", "96200,704", "264", "230"}


def by_chapter() -> list[str]:
    """Return the Markdown of each chapter."""
    return re.split(r"^## ", LESSON, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("number", PRINTED)
def test_a_chapter_has_the_figures_of_the_lecture(number: int) -> None:
    text = by_chapter()[number].replace("\n", " ")
    assert text.startswith(f"{number}. ")
    assert [figure for figure in PRINTED[number].split("|") if figure not in text] == []


@pytest.mark.shared
def test_no_number_of_the_lecture_is_missing(shared: Path) -> None:
    lecture = (shared / "papers" / "lecture_mcunet.txt").read_text()
    printed = {number.rstrip(",") for number in NUMBER.findall(lecture)} - GLUED
    ours = {number.rstrip(",") for number in NUMBER.findall(re.sub(r"[×x]", " x ", LESSON))}
    missing = {number for number in printed if {number, f"{float(number.replace(',', '')):,g}"}.isdisjoint(ours)}
    assert missing == set()


def test_every_correction_has_a_reason() -> None:
    """A row of a table that contrasts the lecture with the exact figure has both."""
    rows = re.findall(
        r"^\| the lecture says.*\n\|---.*\n((?:\|.*\n)+)|^\| \w+ \| the lecture says.*\n\|---.*\n((?:\|.*\n)+)",
        LESSON,
        re.MULTILINE,
    )
    cells = [row.strip("| \n").split(" | ") for found in rows for table in found for row in table.splitlines()]
    assert len(cells) == 4 + 3 + 10 and all(len(row[-1]) > 5 and row[-1] != row[-2] for row in cells)


def test_chapters_marks_and_questions_become_html() -> None:
    (title, _), *parts = chapters(LESSON)
    assert title.startswith("A lesson") and [name.split(".")[0] for name, _ in parts] == [str(number) for number in range(10)]
    html = "".join(text for _, text in parts)
    assert re.findall(r'id="canvas-(\w+)"', html) == re.findall(r"<!-- canvas (\w+) -->", LESSON) == CANVASES
    asked = re.findall(
        r'<details class="question" id="question-(\d)"><summary>\1\. (.*?)</summary>(.*?)</details>\n*(?=$|<|\Z)',
        html,
        re.DOTALL,
    )
    assert [number for number, *_ in asked] == list("123456789")
    assert html.count('<details class="code">') == html.count('<pre><code class="language-text">') == LESSON.count("```python")


class Loads(HTMLParser):
    """Collects what a page loads: addresses of sources, styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"link", "img", "iframe", "object", "base"}:
            self.found.append(tag)
        self.found += [str(value) for name, value in attrs if name in {"src", "srcset", "action", "data"}]
        self.found += [str(value) for name, value in attrs if name == "href" and not str(value).startswith("#")]


@pytest.mark.parametrize("is_served", [False, True])
def test_the_page_loads_nothing(is_served: bool) -> None:
    text = page(is_served=is_served)
    loads = Loads()
    loads.feed(text)
    assert loads.found == [] and "@import" not in text and "url(http" not in text
    assert f"connect-src {chr(39)}{'self' if is_served else 'none'}{chr(39)}" in text and len(text) < 500_000


def test_a_saved_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "-o", "lesson.html"]) == 0
    assert capsys.readouterr().out == "wrote lesson.html: open it in a browser\n"
    assert Path("lesson.html").read_text() == page(is_served=False)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["explore", "-o", "lesson.html", "--open"]) == 0
    assert opened == [Path("lesson.html").resolve().as_uri()]
    assert main(["explore", "-o", "other.html", "net.tflite"]) == 2
    assert "plans no models" in capsys.readouterr().err and not Path("other.html").exists()


def test_a_copy_without_its_pages_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tinyweave.support.files.SOURCES", [tmp_path])
    with pytest.raises(CompileError, match="without docs;"):
        page(is_served=True)


def test_the_page_has_the_plans_of_the_five_layers() -> None:
    (data,) = re.findall(r'id="data">(.*?)</script>', page(is_served=False), re.DOTALL)
    five = json.loads(data)["five"]
    assert len(five) == 15 * 29
    for side, width in ((96, 1.0), (32, 0.15), (256, 1.5)):
        right = [arena_of(*five_layers(side, width), stream_inputs=by_rows) for by_rows in (False, True)]
        assert five[f"{side} {width:g}"] == right
        assert right[0] < max(layer.in_bytes + layer.out_bytes for layer in layers(five_layers(side, width)[0]))


def test_machines_and_presets_quote_their_sources() -> None:
    assert [each.says[0] for each in LADDER] == ["16 GB", "4 GB", "320 kB", "256 kB", "256 KB"]
    assert [each.says[1] for each in LADDER] == ["TB to PB", ">64 GB", "1 MB", "1 MB", "1 MB"]
    assert all(each.storage[0] <= each.storage[1] for each in LADDER)
    quoted = {"MobileNetV2": "1,372 KB", "MCUNet:": "113 KB", "MCUNetV2": "30 KB", "The five layers": "108 KB"}
    for begin, figure in quoted.items():
        (preset,) = (each for each in PRESETS if each.title.startswith(begin))
        assert figure in preset.says and preset.ram == 256
