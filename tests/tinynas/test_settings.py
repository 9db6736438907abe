"""`--set NAME=VALUE` of `search` and `train`: names, types and tasks of the fields that it sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tinynas.settings import DEFAULTS, TASKS, Preparation, parsed, settable
from tinynas.stage_one import FEASIBLE
from tinyweave.cli import main


@pytest.mark.parametrize(
    ("task", "given", "wanted"),
    [
        ("images", [], {}),
        ("images", ["size = 12x16 , channels=1", "space=mobilenet"], {"size": (12, 16), "channels": 1, "space": "mobilenet"}),
        (
            "detection",
            ["classes=red light, dog,size=64,ray=yes"],
            {"classes": ("red light", "dog"), "size": (64, 64), "ray": True},
        ),
        ("keywords", ["seconds=2,hop-ms=16", "by_speaker=yes"], {"seconds": 2.0, "hop_ms": 16.0, "by_speaker": True}),
        ("sensors", ["against=ram,ms", "feasible=0.5"], {"against": ("ram", "ms"), "feasible": 0.5}),
    ],
)
def test_settings_have_the_types_of_their_fields(task: str, given: list[str], wanted: dict[str, Any]) -> None:
    prepared, options = parsed(given, task)
    changed = {name: value for name, value in vars(prepared).items() if value != getattr(Preparation(), name)} | options
    assert changed == wanted and set(options) <= set(vars(DEFAULTS))
    assert {name: type(value) for name, value in changed.items()} == {name: type(value) for name, value in wanted.items()}


@pytest.mark.parametrize(
    ("command", "given", "message"),
    [
        ("search keywords", "bandz=3", "--set bandz: no task has this setting; give bands"),
        ("search sensors", "size=32", "--set size: sensors has no such setting; give one of window, strategy"),
        ("search images", "size", "--set size has no value; write --set size=VALUE"),
        ("search images", ",size=3", "--set ,size=3 has no value; write --set NAME=VALUE"),
        ("search images", "size=3,size=4", "--set gives size twice; give it once"),
        ("search images", "size=1x2x3", "--set size=1x2x3 is not a value of size; give a side 32, or sides 120x160"),
        ("search images", "size=\N{SUPERSCRIPT TWO}", "is not a value of size; give a side 32, or sides 120x160"),
        ("search sensors", "window=8.5", "--set window=8.5 is not a value of window; give a whole number"),
        ("search keywords", "seconds=long", "--set seconds=long is not a value of seconds; give a number"),
        ("search keywords", "by_speaker=", "--set by_speaker= is not a value of by_speaker; give yes or no"),
        ("search speech", "size=32", "--task speech is unknown; give one of images, visual-wake-words"),
        ("train images", "size=32", "--set size has no effect on a given network; leave it out"),
        ("train keywords", "ray=yes", "--set ray has no effect on a given network; leave it out"),
    ],
)
def test_a_wrong_setting_is_one_line_and_writes_nothing(
    command: str, given: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, task = command.split()
    words = [*(["net.json"] if verb == "train" else []), "--task", task, "--data", str(tmp_path), "--set", given]
    assert main([verb, *words, "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_help_lists_the_settings_of_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert DEFAULTS.feasible == FEASIBLE
    assert {task for each in settable().values() for task in each.metadata["tasks"]} == {*TASKS}
    for verb in ("search", "train"):
        assert main([verb, "--help"]) == 0
        listed = re.findall(r"^  (\w+) ", capsys.readouterr().out.split("Settings of --set:\n")[1], re.MULTILINE)
        assert listed == [name for name, each in settable().items() if verb == "search" or each.metadata["trains"]]
        assert main([verb, "-h"]) == 0 and "Settings of --set:" not in capsys.readouterr().out
