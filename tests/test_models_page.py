"""docs/MODELS.md is what its script writes, its figures are today's, and long tables of the site are sorted and filtered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cases.browser import seen_by_script

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"
LINES = {line["file"]: line for line in map(json.loads, (BENCH / "models.jsonl").read_text().splitlines())}
WRITES = """
import json, sys
import models_page as script
index = {each["file"]: each for each in json.load(open(sys.argv[1]))}
print(script.page([json.loads(line) for line in script.RESULTS.read_text().splitlines()], index), end="")
"""


@pytest.mark.shared
def test_the_page_is_written_from_the_measurements(shared: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(shared / "models" / "index.json")]
    written = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=True).stdout
    assert written == (ROOT / "docs" / "MODELS.md").read_text(), "bench/models_page.py writes the page"
    assert written.count("\n| [") == len([line for line in LINES.values() if "refused" not in line]) > 80


@pytest.mark.sweep
@pytest.mark.shared
@pytest.mark.emulator
@pytest.mark.parametrize("name", LINES)
def test_the_figures_of_a_network_are_todays_within_two_percent(name: str, shared: Path, emulator: None) -> None:
    """Also: what was refused is refused for the same reason. If not, delete its line and run bench/models_page.py."""
    command = [sys.executable, str(BENCH / "models_page.py"), "--one", str(shared / "models" / name)]
    now = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    line = LINES[name]
    for key in line.keys() - {"TFLite Micro", "compiler", "ms", "flash", "ram"}:
        assert now[key] == (pytest.approx(line[key], rel=0.02) if isinstance(line[key], int) else line[key]), key
    if now.get("compiler") == line.get("compiler"):  # another one makes other code
        for key in {"ram", "flash", "ms"} & line.keys():
            assert now[key] == pytest.approx(line[key], rel=0.02), key


def test_long_tables_of_the_site_are_sorted_and_filtered(tmp_path: Path) -> None:
    """Numbers are sorted by value, gaps come last; a second click turns the order; a row is shown if it has all words."""
    values = [*range(18), "1,000.5", "–", "30.5", "none"]
    rows = "".join(f"<tr><td>row {index}</td><td>{value}</td></tr>" for index, value in enumerate(values))
    table = f"<table><thead><tr><th>name</th><th>value</th></tr></thead><tbody>{rows}</tbody></table>"
    script = (ROOT / "docs" / "tables.js").read_text()
    page = f'<!doctype html><body><div class="md-typeset">{table}</div><script>{script}</script></body>'
    acts = """
      const shown = () => [...document.querySelectorAll("tr:not([hidden]) td + td")].map((cell) => cell.textContent);
      const button = document.querySelectorAll("th button")[1], field = document.querySelector("input"), seen = {};
      button.click(); seen.up = shown(); button.click(); seen.down = shown();
      field.value = "ROW 30"; field.oninput(); seen.words = shown();
      parent.postMessage(JSON.stringify(seen), "*");
    """
    seen = seen_by_script(page, acts, tmp_path, 2000, 800)
    numbers = [*map(str, range(18)), "30.5", "1,000.5"]
    assert seen == {"up": [*numbers, "none", "–"], "down": [*numbers[::-1], "none", "–"], "words": ["30.5"]}
