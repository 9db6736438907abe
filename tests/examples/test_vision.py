"""The vision example refuses faulty options in one line before training."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "vision"))

pytest.importorskip("PIL.Image")

import vision  # noqa: E402


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--net", "none.json"], "No such file"),
        (["--net", "net.json"], "architecture: not JSON"),
        (["--images", "0"], "give at least 1 image"),
        (["--threshold", "0"], "--threshold 0 is no score; give a number above 0, at most 1"),
        (["--threshold", "nan"], "--threshold nan is no score"),
    ],
)
def test_faulty_options_are_refused_in_one_line(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_bytes(b"\x93NUMPY")
    monkeypatch.setattr(sys, "argv", ["vision.py", "--data", ".", *words, "-o", "out"])
    assert vision.main() == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1 and not Path("out").exists()
