"""Compute the commands that install the optional packages of pyproject.toml that are missing, for messages."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

CHECKOUT = Path(__file__).parents[2]  # the root of the repository, if this copy of tinyweave is in one


def install(extra: str) -> str:
    """Return the command that installs an extra, such as "torch", from tinyweave's own source, as no index has it."""
    return f"{pip()} install {_source(extra)}"


def pip() -> str:
    """Return the command that starts pip for this Python: `pip` if the shell finds it, else `<path of Python> -m pip`."""
    found, own = shutil.which("pip"), Path(sys.executable).parent
    return "pip" if found and Path(found).parent == own else f"{shlex.quote(_nearest(Path(sys.executable)))} -m pip"


def _source(extra: str) -> str:
    """Return the arguments of `pip install` for an extra: a local folder, or the URL of PEP 610, or its packages."""
    from importlib.metadata import PackageNotFoundError, distribution

    if (CHECKOUT / "pyproject.toml").is_file():
        return f"-e {shlex.quote(f'{_nearest(CHECKOUT)}[{extra}]')}"
    try:
        installed = distribution("tinyweave")
    except PackageNotFoundError:
        return shlex.quote(f"path/to/tinyweave[{extra}]")
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    url, vcs = origin.get("url", ""), origin.get("vcs_info")
    if vcs:
        folder = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
        return shlex.quote(f"tinyweave[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}{folder}")
    local = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    if local and local.exists():
        return shlex.quote(f"{_nearest(local)}[{extra}]")
    if url and not local:
        return shlex.quote(f"tinyweave[{extra}] @ {url}")
    return " ".join(map(shlex.quote, required(extra, installed.requires or ())))


def required(extra: str, requirements: Iterable[str]) -> list[str]:
    """Return the packages, such as "onnx<2,>=1.17", that an extra needs, given the requirements of a distribution."""
    parts = (re.split(r"\s*;\s*", text) for text in requirements)
    return [package for package, *marker in parts if f"extra == '{extra}'" in "".join(marker).replace('"', "'")]


def _nearest(path: Path) -> str:
    """Return a path in the current folder as `.` or `./...`, since pip takes a bare name for a package; others unchanged."""
    here = Path.cwd()
    if path == here:
        return "."
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)
