"""A pytest plugin that divides the tests between two runs, on a bare machine and with all tools, and checks that none is lost.

`--record FILE` (first run): write how each test ended, and whether it ran a compiler or any other program.
`--after FILE` (second run): leave out the tests that passed in the first run without running a program. A test that ran one is
run again, since its result may depend on which compiler was found. At the end every collected test must have ended in one of
the runs.
`--turn N`: of each sweep, run one in SHARE of its parameters, at least one, and others with each N; `make sweep` runs them all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SHARE = 8
USED = "runs a program"  # the property of a report that says so
ran = SimpleNamespace(program=False)  # since it was last set to False
fixtures: set[str] = set()  # fixtures of a module or a session that ran a program: all tests that use them depend on it
collected: list[str] = []
ended: dict[str, dict[str, Any]] = {}  # node ID -> outcome, and whether a program was run


def noting(function: Callable[..., Any], but_for: str = "-") -> Callable[..., Any]:
    """Return a function that notes its calls, except those from modules whose name starts with `but_for`."""

    @wraps(function)
    def noted(*args: Any, **more: Any) -> Any:
        before = ran.program
        try:
            return function(*args, **more)
        finally:
            ran.program = before or not str(sys._getframe(1).f_globals["__name__"]).startswith(but_for)

    return noted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", help="write how each test ended, and whether it ran a program")
    parser.addoption("--turn", type=int, help=f"run one in {SHARE} parameters of each sweep, which ones depends on this number")
    parser.addoption("--after", help="leave out the tests that passed in that record and ran no program")


def recorded(config: pytest.Config) -> dict[str, dict[str, Any]]:
    path = config.getoption("--after")
    return json.loads(Path(path).read_text()) if path else {}


def not_in_turn(items: list[pytest.Item], turn: int) -> set[str]:
    """Return the sweep tests that are left to other turns."""
    sweeps: dict[str, list[str]] = {}
    for item in items:
        if item.get_closest_marker("sweep"):
            sweeps.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    return {
        name
        for names in sweeps.values()
        for number, name in enumerate(names)
        if (number - turn % min(SHARE, len(names))) % SHARE
    }


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    before = recorded(config)
    turn = config.getoption("--turn")
    done = set() if turn is None else not_in_turn(items, turn)
    collected.extend(item.nodeid for item in items if item.nodeid not in done)
    done |= {name for name, test in before.items() if test["outcome"] == "passed" and not test["program"]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Watch from here on: a built file may come from the cache, and the planner's own libraries serve all tests alike."""
    from tinyweave.support import toolchain

    if session.config.getoption("--record") and not session.config.getoption("--collect-only"):
        subprocess.Popen.__init__ = noting(subprocess.Popen.__init__)
        toolchain.cached = noting(toolchain.cached)
        toolchain.library = noting(toolchain.library, but_for="tinyweave.")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    before, ran.program = ran.program, False
    try:
        return (yield)
    finally:
        if ran.program and fixturedef.scope != "function":
            fixtures.add(fixturedef.argname)
        ran.program |= before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    if call.when == "teardown":
        item.user_properties.append((USED, ran.program or not fixtures.isdisjoint(getattr(item, "fixturenames", ()))))
        ran.program = False
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = ended.setdefault(report.nodeid, {"outcome": "passed", "program": False})
    if test["outcome"] != "failed" and report.outcome != "passed":
        test["outcome"] = report.outcome
    test["program"] |= dict(report.user_properties).get(USED, False)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    collected.extend(getattr(node, "workeroutput", {}).get("collected", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        config.workeroutput["collected"] = collected
        return
    if record := config.getoption("--record"):
        Path(record).write_text(json.dumps(ended, indent=0))
    if config.getoption("--after"):
        before = recorded(config)
        lost = sorted(set(collected) - ended.keys() - before.keys()) or ["all tests"] * (not collected)
        again = sum(name in before for name in ended)
        counts = f"{len(before)} in the first run, {again} of them and {len(ended) - again} more in this one"
        print(f"\n{len(set(collected))} tests: {counts}")
        if lost:
            print(f"{len(lost)} tests ended in neither run: {', '.join(lost[:20])}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
