"""The division of tests by .ci/run: tests that depend on a compiler run on both machines, the others on exactly one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUITE = """
import subprocess, sys
from pathlib import Path
import pytest
from tinyweave.support import toolchain

@pytest.fixture(scope="module")
def built():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_alone(): pass
def test_program(): subprocess.run([sys.executable, "-c", ""], check=True)
def test_fixture(built): pass
def test_same_fixture(built): pass
def test_cached(tmp_path):
    toolchain.cached("file", toolchain.Toolchain("gcc", "", ("gcc",)), (), (), lambda path: path.write_text(""))
def test_library(tmp_path): toolchain.library(tmp_path / "none.c")
def test_library_of_the_planner(tmp_path):
    exec("library(path)", {"__name__": "tinyweave.planning", "library": toolchain.library, "path": tmp_path / "none.c"})
def test_skipped(): pytest.skip("no tool")
@pytest.mark.sweep
@pytest.mark.parametrize("n", range(20))
def test_many(n): pass
@pytest.mark.sweep
@pytest.mark.parametrize("n", range(3))
def test_few(n): pass
"""


def run(folder: Path, *options: str) -> tuple[int, str, list[str]]:
    """Return the exit code of pytest on the suite, its output, and the names of tests that passed or were skipped."""
    words = [sys.executable, "-m", "pytest", "-n", "0", "-p", "two_runs", "-p", "no:cacheprovider", "-o", "markers=sweep", "-v"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / ".ci"), str(ROOT)]), "PYTEST_ADDOPTS": ""}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    command = [*words, *options, f"--rootdir={folder}", folder / "test_suite.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, re.findall(r"::test_(\S+) (?:PASSED|SKIPPED)", done.stdout)


def test_the_second_run_takes_remaining_tests_and_names_those_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    record = tmp_path / "record.json"
    code, _, ran = run(tmp_path, "-m", "not sweep", "--record", str(record))
    assert code == 0 and len(ran) == 8 == len(json.loads(record.read_text()))
    dependent = ["program", "fixture", "same_fixture", "cached", "library", "skipped"]
    for turn, many, few in ((3, (3, 11, 19), 0), (8, (0, 8, 16), 2)):
        code, printed, ran = run(tmp_path, "-m", "", "--after", str(record), "--turn", str(turn))
        assert code == 0 and ran == [*dependent, *(f"many[{n}]" for n in many), f"few[{few}]"]
        assert f"{8 + len(many) + 1} tests: 8 in the first run, 6 of them and {len(many) + 1} more in this one" in printed
    everything = run(tmp_path, "-m", "", "--after", str(record))
    assert everything[0] == 0 and len(everything[2]) == len(dependent) + 23
    known = json.loads(record.read_text())
    failed = {name: test | {"outcome": "failed"} if name.endswith("alone") else test for name, test in known.items()}
    record.write_text(json.dumps(failed))
    assert run(tmp_path, "-m", "", "--after", str(record), "--turn", "0")[2][0] == "alone", "what failed before runs again"
    record.write_text(json.dumps({name: test for name, test in known.items() if not name.endswith("skipped")}))
    code, printed, _ = run(tmp_path, "-m", "", "-k", "not skipped", "--after", str(record))
    assert code == 1 and "1 tests ended in neither run: test_suite.py::test_skipped" in printed
