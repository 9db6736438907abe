"""The pages of docs/: they build without a warning, and the commands on them exist and do what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import typer
import yaml
from cases import tiny
from cases.as_float import float_case
from cases.frames import wake_word
from cases.ops import Case

from tinyweave.cli import main
from tinyweave.cli.commands import app
from tinyweave.explorer.networks import five_layers
from tinyweave.exporters.tflite import to_tflite
from tinyweave.nas.network import to_graph

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# the commands of other pages are run by tests of their own
RUN = ("DEPLOY.md", "LOOK.md", "RAM.md", "STREAMING.md", "FIRMWARE.md", "PAPERS.md")
ENDLESS = ("explore",)


def commands(page: Path) -> list[list[str]]:
    """The tinyweave commands of a page's blocks, as a shell splits them, up to where their output goes."""
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]
    split = [shlex.split(line, comments=True) for line in lines if line.startswith("tinyweave ")]
    return [words[1:] for words in split]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs: pip install 'tinyweave[docs]'")
def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "files" / "schema.json").is_file()


def test_every_page_is_in_the_navigation() -> None:
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w]+\.md", yaml.dump(yaml.safe_load(text)["nav"]))
    assert sorted(listed) == sorted(page.name for page in PAGES)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for words in commands(page):
        until = words.index(">") if ">" in words else len(words)
        assert verbs[words[0]].make_context(words[0], list(words[1:until]), resilient_parsing=False), words


@pytest.mark.emulator
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_do_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], emulator: None
) -> None:
    """Small networks stand in for those of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    chain, other = tiny.chain(), to_graph("vww", *five_layers(32, 0.5))
    Path("kws.tflite").write_bytes(to_tflite(chain))
    Path("vww.tflite").write_bytes(to_tflite(other))
    Path("wake.tflite").write_bytes(to_tflite(wake_word()))
    Path("kws_float.tflite").write_bytes(to_tflite(float_case(Case("chain", chain, [])).graph))
    np.save("speech.npy", np.random.default_rng(0).uniform(0, 5, (8, 8, 8, 1)).astype(np.float32))
    for folder in ("before", "after"):
        assert main(["plan", "kws.tflite", "--device", "stm32f746", "--json"]) == 0
        Path(folder).mkdir(parents=True)
        (Path(folder) / "report.json").write_text(capsys.readouterr().out)
    ran = 0
    for words in commands(ROOT / "docs" / name):
        if words[0] in ENDLESS:
            continue
        until = words.index(">") if ">" in words else len(words)
        typed = ["speech.npy" if word == "speech" else word for word in words[:until]]
        assert main(typed) == 0, (words, capsys.readouterr().err)
        shown = capsys.readouterr().out
        if ">" in words:
            Path(words[until + 1]).write_text(shown)
        ran += 1
    assert ran
