"""The example of a photograph by rows: a 640 x 480 JPEG file and a network at 160 x 120 in 64 KiB, with Python's bytes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "photograph"))

import photograph  # noqa: E402

pytest.importorskip("PIL.Image")


@pytest.mark.emulator
def test_everything_fits_in_64_kib(emulator: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the page shows is what it prints, but for what depends on the compiler and on Pillow's encoder."""
    monkeypatch.setattr(sys, "argv", ["photograph.py"])
    assert photograph.main() == 0
    shown = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "CAMERA.md").read_text()
    sizes = {line.split("  ")[1]: line for line in shown if line.startswith("  ")}
    assert sizes["network"] in page and sizes["decoder and resize"] in page and shown[-1] in page
    total = int(sizes["everything"].split()[1].replace(",", ""))
    assert 40_000 < total < 64 * 1024


def test_what_cannot_be_decoded_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    Image.open(io.BytesIO(photograph.drawn(64, 48))).save(tmp_path / "progressive.jpg", progressive=True)
    for name, why in (("progressive.jpg", "progressive JPEG file"), ("none.jpg", "No such file")):
        monkeypatch.setattr(sys, "argv", ["photograph.py", str(tmp_path / name)])
        assert photograph.main() == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1
