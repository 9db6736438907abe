"""No file name can escape its comment, its code span or its shell word in an export."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from projects.export import model

import tinyweave as tw
from tinyweave.projects import FORMATS
from tinyweave.projects.readme import code

NAMES = [
    "a`touch x`b.tflite",
    "``` two '\" words; $(touch x) && touch x #.tflite",
    "a\n# heading\r\x1b[31m\u2028b\x85.tflite",
    "a ??' * \\.tflite",
    "@{name} ${x} \u00fc\u4f60 <b>&amp;.tflite",
]
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
BOARD = (
    'name = "board"\ncore = "cortex-m7"\nclock_hz = 1000000\n[[memory]]\nname = "tcm"\nkind = "dtcm"\naddress = 0x20000000\n'
)
BOARD += 'bytes = "64k"\n[[memory]]\nname = "axi"\nkind = "sram"\naddress = 0x24000000\nbytes = "64k"\n'


def spans(markdown: str) -> list[str]:
    """Return the code spans by the rules of CommonMark, which strips a space at both ends."""
    found = (span[2] for span in SPAN.finditer(markdown))
    return [text[1:-1] if text[:1] == text[-1:] == " " and text.strip() else text for text in found]


def words(command: str, folder: Path) -> list[str]:
    """Return the arguments that bash passes to a command; the command itself does nothing."""
    script = f"tinyweave() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True)
    assert not done.stderr and not list(folder.iterdir()), "the name ran as a command"
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMATS)
def test_hostile_file_names_are_quoted_in_all_exported_files(form: str, name: str, tmp_path: Path) -> None:
    """Bash runs the commands of the README, and every file must be printable text."""
    board, empty = tmp_path / "my `touch x` board.toml", tmp_path / "empty"
    board.write_text(BOARD)
    empty.mkdir()
    named = replace(model("chain"), path=tmp_path / name)
    files = tw.export(named, str(board), out=tmp_path / "out", format=form).files
    commands = [span for span in spans((tmp_path / "out" / "README.md").read_text()) if span.startswith("tinyweave ")]
    assert [words(command, empty) for command in commands] == [
        ["deploy", name, "--device", str(board)],
        *([] if form == "web" else [["profile", name, "--device", str(board), "--compare", "log.txt"]]),
    ]
    for path in files:
        if path.suffix in (".pack", ".html"):
            continue
        text = path.read_bytes().decode("ascii")
        assert set(re.findall(r"[^ -~]", text)) <= {"\n", "\t"}, path.name
        if path.suffix in (".c", ".h"):
            assert all(
                text[: at.start()].count("/*") == text[: at.start()].count("*/") + 1 for at in re.finditer("touch x", text)
            )
        elif path.name != "README.md":
            assert "touch x" not in text and "heading" not in text


@pytest.mark.parametrize("text", ["plain", "`", "a`b", "`a", "a``", "``` and `"])
def test_a_code_span_contains_exactly_its_text(text: str) -> None:
    assert spans(f"before {code(text)} behind") == [text]
    assert len(SPAN.findall(code(text))) == 1
