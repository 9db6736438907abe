"""The notebooks run from top to bottom, and give the outputs that they show."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pages import measured_alike, same
from test_verbs import ROOT, notebook_output

NOTEBOOKS = ROOT / "examples" / "notebooks"
NEEDS = {"deploy.ipynb": (), "from_pytorch.ipynb": ("torch", "torchao")}


def ran(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the outputs of a cell as a notebook stores them: text, and a picture if its value has one."""
    printed, data = notebook_output(source, names), {}
    if html := getattr(names.pop("_", None), "_repr_html_", None):
        data["text/html"] = [f"{html()}\n"]
    data["text/plain"] = [printed.rstrip("\n")]
    return [{"data": data, "metadata": {}, "output_type": "display_data"}] if printed else []


@pytest.mark.emulator
@pytest.mark.parametrize("name", NEEDS)
def test_a_notebook_gives_the_outputs_that_it_shows(
    name: str, tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for module in NEEDS[name]:
        pytest.importorskip(module, reason="needs torch: pip install '.[test]'")
    shutil.copytree(ROOT / "examples" / "keywords", tmp_path / "keywords")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    book, names = json.loads((NOTEBOOKS / name).read_text("utf-8")), dict[str, Any]()
    assert book["nbformat"] == 4 and len({cell["id"] for cell in book["cells"]}) == len(book["cells"]) >= 8
    for cell in book["cells"]:
        if cell["cell_type"] != "code":
            continue
        found = ran("".join(cell["source"]), names)
        if request.config.getoption("--update-golden"):
            cell["outputs"] = found
            continue
        assert len(cell["outputs"]) == len(found), cell["source"]
        for shown, got in zip(cell["outputs"], found, strict=True):
            (text,), (printed,) = shown["data"]["text/plain"], got["data"]["text/plain"]
            assert same(text, printed, measured_alike()), printed
            assert shown["data"].keys() == got["data"].keys() and (not measured_alike() or shown["data"] == got["data"])
    if request.config.getoption("--update-golden"):
        (NOTEBOOKS / name).write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", "utf-8")
