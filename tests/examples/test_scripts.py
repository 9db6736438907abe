"""Every script of bench/ and examples/ has --help, and every named script exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "examples")
ASK = """
import io, runpy, sys
from contextlib import redirect_stdout
from pathlib import Path
kept = [*sys.path]
for path in sys.argv[1:]:
    before, printed = {*sys.modules}, io.StringIO()
    sys.argv, sys.path[:] = [path, "--help"], [str(path.rpartition("/")[0]), *kept[1:]]
    try:
        with redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
        print(path, "ended without exit")
    except SystemExit as end:
        if end.code or "usage: " not in printed.getvalue():
            print(path, "ended with", end.code)
    except Exception as error:
        print(path, repr(error))
    # each finds its own modules: those of other folders have the same names
    ours = {path.stem for folder in ("bench", "examples") for path in Path("ROOT", folder).rglob("*.py")}
    ours |= {path.stem for path in Path("ROOT/tests").iterdir() if not (Path("ROOT") / path.name).exists()}
    for name in {*sys.modules} - before:
        if name.partition(".")[0] in ours:
            del sys.modules[name]
"""


def test_every_script_has_help() -> None:
    """All scripts run in one process, so that numpy and torch are loaded once."""
    scripts = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if "__main__" in path.read_text()]
    assert len(scripts) > 40
    command = [sys.executable, "-c", ASK.replace("ROOT", str(ROOT)), *map(str, scripts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_every_named_script_exists() -> None:
    folders = ("docs", "tinyweave", "tinynas", "tinylesson", "bench", "examples", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".c", ".h")]
    named = {
        (name, str(path.relative_to(ROOT)))
        for path in [*files, ROOT / "README.md", ROOT / "Makefile"]
        for name in re.findall(r"\bbench/[\w/]+\.py\b", path.read_text())
    }
    assert len(named) > 40
    assert {(name, where) for name, where in named if not (ROOT / name).is_file()} == set()
