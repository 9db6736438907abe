"""What a terminal shows during long work."""

from __future__ import annotations

import sys
from io import StringIO

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
