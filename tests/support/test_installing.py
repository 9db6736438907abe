"""Install commands in messages and pages fit the way in which this copy was installed."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_imports import PACKAGES

from tinyweave import __version__
from tinyweave.support import installing
from tinyweave.support.installing import install, pip

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
REQUIRES = ["numpy>=1.26", "onnx<2,>=1.17; extra == 'onnx'", 'unicorn>=2; extra == "verify"', 'capstone<6; extra == "verify"']


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[dict | None], str]:
    """Return a function from the origin that pip has recorded (or None) to the install target for a copy in site-packages."""
    monkeypatch.setattr(installing, "CHECKOUT", tmp_path / "site-packages")

    def source(origin: dict | None) -> str:
        installed = SimpleNamespace(read_text=lambda name: json.dumps(origin) if origin else None, requires=REQUIRES)
        monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
        return install("verify").removeprefix(f"{pip()} install ")

    return source


def test_in_a_checkout_the_command_installs_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert install("verify") == f"{pip()} install -e '{ROOT}[verify]'"
    monkeypatch.chdir(ROOT)
    assert install("onnx").endswith(" install -e '.[onnx]'")
    monkeypatch.chdir(ROOT.parent)
    assert install("onnx").endswith(f" install -e './{ROOT.name}[onnx]'"), "a bare name would be asked of an index"


def test_an_installed_copy_is_installed_from_its_recorded_origin(
    recorded: Callable[[dict | None], str], tmp_path: Path
) -> None:
    folder, wheel = tmp_path / "a folder", tmp_path / "tinyweave-1.0.0-py3-none-any.whl"
    folder.mkdir()
    wheel.write_bytes(b"")
    assert recorded({"url": folder.as_uri(), "dir_info": {}}) == f"'{folder}[verify]'"
    assert recorded({"url": wheel.as_uri(), "archive_info": {}}) == f"'{wheel}[verify]'"
    git = {
        "url": "https://example.org/tinyweave.git",
        "vcs_info": {"vcs": "git", "commit_id": "c0ffee", "requested_revision": "main"},
    }
    assert recorded(git) == "'tinyweave[verify] @ git+https://example.org/tinyweave.git@c0ffee'"
    assert recorded({**git, "subdirectory": "python"}).endswith("@c0ffee#subdirectory=python'")
    away = {"url": "https://example.org/tinyweave-1.0.0-py3-none-any.whl", "archive_info": {}}
    assert recorded(away) == f"'tinyweave[verify] @ {away['url']}'"


def test_without_a_recorded_origin_the_packages_themselves_are_installed(
    recorded: Callable[[dict | None], str], tmp_path: Path
) -> None:
    for origin in (None, {"url": (tmp_path / "gone").as_uri(), "dir_info": {}}):
        assert recorded(origin) == "'unicorn>=2' 'capstone<6'"


def test_the_pip_command_belongs_to_the_running_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another pip, such as the system's, would install for another Python."""
    own = tmp_path / "a venv" / "bin"
    own.mkdir(parents=True)
    (own / "pip").write_text("#!/bin/sh\n")
    (own / "pip").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setenv("PATH", str(own))
    assert pip() == "pip"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (own / "pip").rename(tmp_path / "other" / "pip")
    for path in ("/nowhere", str(tmp_path / "other")):
        monkeypatch.setenv("PATH", path)
        assert shlex.split(pip()) == ["./a venv/bin/python", "-m", "pip"]


def test_pip_accepts_the_install_command() -> None:
    """pip reads this checkout and finds the extra; nothing is downloaded or installed."""
    for needed in ("pip", "setuptools"):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    words = shlex.split(install("images"))
    asked = [*words, "--dry-run", "--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr


def test_an_editable_installation_is_a_path(tmp_path: Path) -> None:
    """A finder would import 30 modules whenever Python starts; Ctrl-C then ends a command with exit code 1."""
    if find_spec("setuptools") is None:
        pytest.skip("needs setuptools")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in (*PACKAGES, "tests", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    built = "from setuptools import build_meta; build_meta.build_editable('.')"
    subprocess.run([sys.executable, "-c", built], cwd=tmp_path, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert [archive.read(name).decode().strip() for name in files] == [str(tmp_path)], files


def test_the_version_of_the_package_is_that_of_its_metadata() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__


def test_every_named_extra_exists_and_none_is_installed_from_an_index() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    folders = (*PACKAGES, "docs", "tests", "examples", "bench")
    files = [
        ROOT / "README.md",
        *(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")),
    ]
    named = set()
    for path in files:
        text = path.read_text()
        assert path == Path(__file__) or not re.findall(r"pip install (?:-\S+ )*['\"]?tinyweave\[[\w,.]*\](?! @ )", text), path
        named |= {(extra, path.name) for extra in re.findall(r"\binstall\([\"'](\w+)[\"']\)", text) if "installing" in text}
        listed = re.findall(r"pip install [^\n]{0,20}'\.\[([\w,]+)\]'", text)
        named |= {(extra, path.name) for extras_of in listed for extra in extras_of.split(",")}
    assert len(named) > 20 and {(extra, where) for extra, where in named if extra not in extras} == set()


def test_the_demo_installs_what_it_needs_and_says_so(tmp_path: Path) -> None:
    """Also: the tests and the pages install their own extras, and the size of the demo's packages is that of the README."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for target, extra in {"demo": "verify", "docs": "docs", "test": "test", "setup": "test"}.items():
        words = ["make", "--dry-run", target]
        printed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert re.findall(r"--editable '\.\[(\w+)\]'", printed) == [extra], target
        said = re.findall(r"echo \"installing '\.\[(\w+)\]' into \.venv, about ([\d.]+ [MG]B)", printed)
        assert [name for name, _ in said] == [extra]
        assert target != "demo" or f"`.[verify]` takes about {said[0][1]} of disk" in (ROOT / "README.md").read_text()
    demo = ast.parse((ROOT / "examples" / "keywords" / "demo.py").read_text())
    imports = [node for node in ast.walk(demo) if isinstance(node, (ast.Import, ast.ImportFrom))]
    roots = {
        name.partition(".")[0]
        for node in imports
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    assert roots - sys.stdlib_module_names == {"numpy", "tinyweave"}


def test_ci_runs_the_targets_of_the_makefile() -> None:
    """Left out: bench needs the real models, and of the sweep CI runs a part with each commit."""
    (phony,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (parts,) = re.findall(r"^check: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = {
        word
        for line in re.findall(r"^step .*?make (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
        for word in line.split()
    }
    assert set(parts.split()) <= run
    assert set(phony.split()) - run == {"setup", "check", "sweep", "bench", "clean"}
