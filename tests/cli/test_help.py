"""Help, version and boards; text output fits the terminal."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from cli.running import run

from tinyweave.cli import app
from tinyweave.cli.help import GROUPS

VERBS = [*" ".join(GROUPS.values()).split(), "search", "train", "explore"]


def app_help(verb: str) -> str:
    """Return the docstring of a command."""
    app.find(verb)
    (command,) = (each for each in app.registered_commands if (each.name or each.callback.__name__) == verb)
    return command.callback.__doc__


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_fits_80_columns_and_its_example_is_one_shell_command(capsys, monkeypatch, verb: str):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(verb, "--help") == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80 and "{" not in printed and "range>" not in printed
    example = printed.split("Example: ")[1].split("\n\n")[0]
    (command,) = example.replace("\\\n", "").splitlines()
    assert command.startswith(f"tinyweave {verb}")
    assert f"Example: {' '.join(command.split())}" in " ".join(app_help(verb).split())


@pytest.mark.parametrize("verb", VERBS)
def test_the_short_help_of_every_verb_fits_one_screen_and_names_the_full_one(capsys, monkeypatch, verb: str):
    monkeypatch.setenv("COLUMNS", "80")
    listed = []
    for word in ("-h", "--help"):
        assert run(verb, word) == 0
        printed = capsys.readouterr().out
        listed.append(set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", printed, re.MULTILINE)))
        if word == "-h":
            short = printed.splitlines()
    assert len(short) <= 24 and listed[0] <= listed[1] and "--help" in listed[0]
    more = len(listed[1] - listed[0])
    assert (short[-1].strip() == f"{more} more options: tinyweave {verb} --help") == (more > 0)
    if more:
        assert printed.index("\nOptions:") < printed.index("\nMore options:") and "More options" not in "".join(short)


def test_without_arguments_the_help_lists_every_command_untruncated(capsys):
    assert run() == 0
    printed = capsys.readouterr().out
    assert "deploy" in printed and "..." not in printed.split("Start here:")[1]


def test_version_is_printed(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("tinyweave ")


def test_devices_are_listed_and_described(capsys):
    assert run("devices") == 0
    assert "stm32h743" in capsys.readouterr().out
    assert run("devices", "rp2040", "--json") == 0
    (board,) = json.loads(capsys.readouterr().out)
    assert board["ram"] == 264 * 1024 and board["flash"] == 2048 * 1024 and board["sources"]
    assert [memory["name"] for memory in board["memories"] if memory["external"]] == ["flash"]


EXAMPLE = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
DIGITS = "digits.tflite"  # a copy of it has a short path, because paths are not wrapped


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", DIGITS),
        ("plan", DIGITS, "--device", "nrf52840"),
        ("plan", DIGITS, "--explain", "conv_2d_5"),
        ("plan", DIGITS, "--pareto"),
        ("reorder", DIGITS),
        ("devices",),
        ("devices", "stm32h743"),
        pytest.param(("profile", DIGITS, "--device", "nrf52840"), marks=pytest.mark.emulator),
    ],
)
def test_text_output_fits_the_columns_and_has_thousands_separators(capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(EXAMPLE, DIGITS)
    for columns in (80,) if arguments[0] == "profile" else (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run(*arguments) == 0
        check_text(capsys.readouterr().out, columns)


def check_text(printed: str, columns: int) -> None:
    """Assert that a text fits the columns, and that its numbers are easy to read."""
    assert max(map(len, printed.splitlines())) <= columns
    assert not re.findall(r"(?<![\w.,-])[1-9]\d{3,}(?![\w.-])", printed), "thousands without separator"
    assert not re.findall(r"\de[+-]\d", printed), "powers of ten"


@pytest.mark.emulator
def test_a_deployment_that_fits_is_one_screen_of_80_columns_and_24_lines(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    folder = Path("examples/keywords")
    folder.mkdir(parents=True)
    assert run("deploy", shutil.copy(EXAMPLE, folder), "--device", "nrf52840") == 0
    printed = capsys.readouterr().out
    check_text(printed, 80)
    lines = printed.splitlines()
    assert lines[1] == "fits nrf52840 with --optimize balanced" and len(lines) <= 24
