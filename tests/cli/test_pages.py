"""`tinyweave docs` prints the pages, also from a wheel; the help groups the commands; the shell completes what is typed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from cli.running import bad, run
from test_imports import PACKAGES, modules

from tinyweave.cli.commands import app
from tinyweave.cli.docs import complete, pages
from tinyweave.cli.help import GROUPS
from tinyweave.support import files

ROOT = Path(__file__).parents[2]


def test_every_command_is_in_one_group_that_of_the_readme() -> None:
    app.find()
    every = typer.main.get_command(app)
    names = [name for group in GROUPS for name in every.of(group)]  # type: ignore[attr-defined]
    assert sorted(names) == sorted(every.commands) and {"search", "train", "explore"} <= {*names}  # type: ignore[attr-defined]
    table = (ROOT / "README.md").read_text().split("## Commands")[1].split("##")[0]
    rows = re.findall(r"^\| ([a-z ]*?) ?\| `(\w+)", table, re.MULTILINE)
    assert [name for _, name in rows] == names
    assert [group for group, _ in rows if group] == [title.lower() for title in GROUPS]


def test_the_list_has_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("docs") == 0
    *lines, empty, last, example = capsys.readouterr().out.splitlines()
    files = {path.stem.lower(): path for path in (ROOT / "docs").glob("*.md") if path.stem != "index"}
    listed = dict(re.split(r"  +", line, maxsplit=1) for line in lines)
    assert listed == {name: path.read_text().splitlines()[0].removeprefix("# ") for name, path in files.items()}
    assert (lines[0], empty, last) == ("deploy         Deploy a model", "", "print a page: tinyweave docs PAGE")
    assert example == "copy the example network: tinyweave docs --example DIR"


def test_the_example_is_copied_with_the_command_that_deploys_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a folder"
    assert run("docs", "--example", str(target)) == 0
    program, command, *words = shlex.split(capsys.readouterr().out.partition("deploy it: ")[2])
    assert (program, command) == ("tinyweave", "deploy") and run("plan", *words) == 0
    network = target / "digits.tflite"
    for copy in (network, network.with_suffix(".json")):
        assert copy.read_bytes() == (ROOT / "examples" / "keywords" / copy.name).read_bytes()


@pytest.mark.parametrize("name", ["streaming", "STREAMING", "STREAMING.md", "docs/STREAMING.md"])
def test_a_page_is_printed_without_the_marks_of_tests(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run("docs", name) == 0
    printed, page = capsys.readouterr().out, (ROOT / "docs" / "STREAMING.md").read_text()
    marks = [line for line in page.splitlines() if line.startswith("<!--")]
    assert marks and printed.splitlines() == [line for line in page.splitlines() if line not in marks]


def test_a_terminal_shows_the_page_formatted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("docs", "guard") == 0
    printed = re.sub("\x1b\\[[\\d;]*m", "", capsys.readouterr().out)
    assert "Guard a project's models" in printed and not re.search("^#|```|^\\|", printed, re.MULTILINE)
    assert max(map(len, printed.splitlines())) <= 80


def test_no_page_has_another_name(capsys: pytest.CaptureFixture[str]) -> None:
    said = bad(capsys, "docs", "grad")
    assert said.startswith("tinyweave: there is no page 'grad'; choose one of deploy, ") and "guard" in said


def test_every_page_that_the_package_names_is_one() -> None:
    text = "".join(path.read_text() for path in modules())
    named = set(re.findall(r"tinyweave docs ([a-z_]+)", text))
    assert len(named) > 6 and named <= set(pages())


def _python(*words: str, cwd: Path, **more: str) -> str:
    environment: Mapping[str, str] = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_brings_every_file_of_the_packages_the_pages_and_the_example(tmp_path: Path) -> None:
    """The wheel that pip builds, unpacked into an empty folder: `docs` reads no file of the checkout."""
    for needed in ("pip", "setuptools"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (*PACKAGES, "docs", "examples"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    files_of_packages = {path.relative_to(source) for top in PACKAGES for path in (source / top).rglob("*") if path.is_file()}
    offline = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    _python("-m", "pip", "wheel", *offline, "--no-build-isolation", "-w", str(tmp_path), str(source), cwd=tmp_path)
    shutil.rmtree(source)
    (wheel,) = tmp_path.glob("tinyweave-*.whl")
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    documents = (f"tinyweave/docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
    shipped = [f"tinyweave/examples/keywords/digits.{suffix}" for suffix in ("tflite", "json")]
    assert found == {*map(Path.as_posix, files_of_packages), *documents, *shipped}
    _python("-m", "pip", "install", *offline, "--target", str(target), str(wheel), cwd=tmp_path)
    printed = _python("-m", "tinyweave", "docs", cwd=tmp_path, PYTHONPATH=str(target))
    assert printed.count("\n") == len(pages()) + 3
    _python("-m", "tinyweave", "docs", "--example", ".", cwd=tmp_path, PYTHONPATH=str(target))
    planned = _python("-m", "tinyweave", "plan", "digits.tflite", "--device", "nrf52840", cwd=tmp_path, PYTHONPATH=str(target))
    assert "fits" in planned
    assert "# Guard" in _python("-m", "tinyweave", "docs", "guard", cwd=tmp_path, PYTHONPATH=str(target))


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("de", {"deploy", "devices"}),
        ("docs str", {"streaming"}),
        ("plan --opt", {"--optimize"}),
        ("plan --device rp", {"rp2040", "rp2350"}),
    ],
)
def test_the_shell_completes_commands_options_pages_and_devices(tmp_path: Path, typed: str, completed: set[str]) -> None:
    words = {
        "COMP_WORDS": f"tinyweave {typed}",
        "COMP_CWORD": str(1 + typed.count(" ")),
        "_TINYWEAVE_COMPLETE": "complete_bash",
    }
    assert set(_python("-m", "tinyweave", cwd=tmp_path, PYTHONPATH=str(ROOT), **words).split()) == completed


def test_a_copy_without_pages_says_so_and_completes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "SOURCES", [tmp_path])
    assert run("docs", "--example", str(tmp_path)) == 2 and "without examples/keywords;" in capsys.readouterr().err
    assert run("docs") == 2 and "installed without docs;" in capsys.readouterr().err
    assert complete("d") == []
