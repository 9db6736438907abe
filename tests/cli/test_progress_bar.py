"""What a terminal shows during long work."""

from __future__ import annotations

import re
import sys
from io import StringIO
from unittest.mock import Mock

import pytest

from tinyweave.cli.steps import progress_bar


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seen", "shown", "hidden"),
    [
        ([("training", 3, 7)], "3/7", "0/"),
        ([("training", 3, 7), ("building", 0, 1)], "building", "/"),
        ([("building", 0, 1), ("training", 1_000, 2_000)], "1,000/2,000", "0/1 "),
        ([("reading", 5, 0)], "reading", "/"),
    ],
)
def test_work_of_one_step_has_no_count(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[str, int, int]], shown: str, hidden: str
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar() as report:
        for what, done, total in seen[:-1]:
            report(what, done, total)
        before = len(terminal.getvalue())
        report(*seen[-1])
    last = terminal.getvalue()[before:]
    assert shown in last and hidden not in last.replace("\x1b", "")


@pytest.mark.parametrize(("done", "said"), [(0, " 0/21 0:02:40\n"), (6, " 6/21, 0:02:30 more 0:02:40\n")])
def test_the_clock_goes_on_and_says_what_is_left(monkeypatch: pytest.MonkeyPatch, done: int, said: str) -> None:
    clock = Mock(return_value=0.0)
    monkeypatch.setattr("rich.console.monotonic", clock)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar() as report:
        for now, work in (
            (60, ("reading", 3, 3)),
            (61, ("measuring", 0, 1)),
            (100, ("rung 1", 0, 21)),
            (160, ("rung 1", done, 21)),
        ):
            clock.return_value = now
            report(*work)
    assert said in re.sub(r"\x1b\[\d+m", "", terminal.getvalue())
