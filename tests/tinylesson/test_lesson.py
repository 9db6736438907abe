"""The page of the explorer: its text is that of docs/LESSON.md."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tinylesson.lesson import chapters, page
from tinylesson.networks import five_layers
from tinynas.arch import layers
from tinynas.ram.arena import arena_of
from tinyweave.cli import main
from tinyweave.ir import CompileError

LESSON = (Path(__file__).parents[2] / "docs" / "LESSON.md").read_text()
CANVASES = "story ladder layers map supernet profiles halo redistribution scales explorer".split()


def test_chapters_marks_and_questions_become_html() -> None:
    (title, story), *parts = chapters(LESSON)
    assert title.startswith("A lesson") and [name.split(".")[0] for name, _ in parts] == [str(number) for number in range(10)]
    html = story + "".join(text for _, text in parts)
    assert re.findall(r'id="canvas-(\w+)"', html) == re.findall(r"<!-- canvas (\w+) -->", LESSON) == CANVASES
    asked = re.findall(r'id="question-(\d)"><h3>\1\. .*?\?</h3>\n<ul>(.*?)</ul>\n<details>', html, re.DOTALL)
    assert [number for number, _ in asked] == list("123456789")
    marks = [re.findall(r"<li>[^<]+: <strong>(Right|No)\.</strong> [^<]{20,}</li>", answers) for _, answers in asked]
    assert all(sorted(each) == ["No", "No", "Right"] for each in marks) and len({each.index("Right") for each in marks}) == 3
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


def test_the_commands_of_the_last_chapter_make_a_page_that_runs_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang")
    monkeypatch.chdir(tmp_path)
    *_, (_, cheat_sheet) = chapters(LESSON)
    commands = re.findall(r"<code>tinyweave ((?:docs --|export).*?)</code>", cheat_sheet)
    assert [main(command.split()) for command in commands] == [0, 0]
    (written,) = re.findall(r"<code>(page/.*?)</code>", cheat_sheet)
    assert "WebAssembly" in (tmp_path / written).read_text()


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
