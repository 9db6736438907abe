"""docs/EXPORT.md: its commands print the documented output, and its table lists every format."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from projects.export import needs, run
from test_verbs import DIGITS, ROOT, run_page

from tinyweave.cli import export
from tinyweave.projects import FORMATS

PAGE = (ROOT / "docs" / "EXPORT.md").read_text()
BLOCK = re.compile(r"(?<!-->\n)```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)  # without blocks that are not run


@pytest.mark.emulator
def test_the_commands_of_the_page_print_the_documented_output(
    tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("cmake", "arm-none-eabi-gcc", "qemu-system-arm")
    for name in ("digits.tflite", "inputs.npy"):
        shutil.copy(DIGITS.parent / name, tmp_path)
    for language, name in (("cmake", "CMakeLists.txt"), ("c", "main.c")):
        (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    blocks = BLOCK.findall(PAGE)
    printed = [run("sh", "-e", "-c", commands, cwd=tmp_path) for commands, _ in blocks]
    assert [bool(text) for _, text in blocks] == [False, True, False, True, False, False, False]
    assert printed[1] == blocks[1][1] and printed[3] == blocks[3][1]
    table = printed[4].splitlines()
    assert table[1].split() == ["layer", "estimated", "measured", "ratio"]
    assert all(0 < float(line.split()[-1]) < 10 for line in table[2:]), "a timer of QEMU stands for the counter"


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(DIGITS, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_page("EXPORT.md") == 1


def test_the_page_lists_every_format() -> None:
    assert export.FORMATS.replace(" or ", ", ").split(", ") == list(FORMATS)
    assert re.findall(r"^\| `([a-z][a-z0-9-]+)` \|", PAGE, re.MULTILINE) == list(FORMATS)
