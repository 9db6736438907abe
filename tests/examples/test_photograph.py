"""The photograph example: a streamed 640 x 480 JPEG file, a detector at 160 x 120, and Python's boxes within 64 KiB of RAM."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from cases.strict import c99
from firmware_programs import run_program
from pages import check_output
from projects.export import needs

from tinyweave.simulate.run import Fault
from tinyweave.support import toolchain

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "photograph"))

import photograph  # noqa: E402

pytest.importorskip("PIL.Image")


def test_the_photograph_example_fits_64_kib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page shows the example's output, except for figures that depend on the compiler and Pillow's encoder."""
    needs("qemu-system-arm")
    monkeypatch.setattr(sys, "argv", ["photograph.py", "-o", str(tmp_path)])
    assert photograph.main() == 0
    printed = capsys.readouterr().out
    shown, page = printed.splitlines(), (ROOT / "docs" / "CAMERA.md").read_text()
    check_output("CAMERA.md", "photograph.py", printed, is_exact=shown[0] in page)
    sizes = {line[2:26].strip(): line for line in shown if line.startswith("  ")}
    assert sizes["network"] in page and sizes["decoder, resize, boxes"] in page
    total = int(sizes["all of its RAM"].split()[-2].replace(",", ""))
    parts = [int(line.split()[-2].replace(",", "")) for name, line in sizes.items() if name != "all of its RAM"]
    assert 40_000 < total == sum(parts) < 64 * 1024
    assert int(shown[-1].split()[0]) > 5 and shown[-1].endswith("boxes, equal to the boxes in Python")


def test_the_firmware_refuses_files_that_it_cannot_decode(tmp_path: Path) -> None:
    """The files are truncated, of another size, and missing. The C compiles without a warning."""
    needs("qemu-system-arm")
    model, head = photograph.detector(None)
    package = photograph.firmware(model, head, "jpeg:64x48", 0.4)
    for name, text in {**package.files, **package.program}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    strict = [*c99(compiler.name), "-Wno-undef", "-Wno-unused-const-variable", "-c", tmp_path / "main.c"]
    toolchain.compile_c(compiler, [*strict, "-o", tmp_path / "main.o"])
    small = photograph.drawn(64, 48)
    for data, number in ((small[:-200], -10), (photograph.drawn(64, 40), -22), (b"", -13)):
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(Fault, match=f"it said it cannot be read: error {number} of tw_jpeg.h"):
            run_program(package, tmp_path / "file")


def test_files_that_cannot_be_decoded_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    Image.open(io.BytesIO(photograph.drawn(64, 48))).save(tmp_path / "progressive.jpg", progressive=True)
    for words, why in (
        (["progressive.jpg"], "progressive JPEG file"),
        (["none.jpg"], "No such file"),
        (["--network", "."], "holds no trained network"),
    ):
        given = [str(tmp_path / word) if word[0] != "-" else word for word in words]
        monkeypatch.setattr(sys, "argv", ["photograph.py", *given, "-o", str(tmp_path / "out")])
        assert photograph.main() == 2
        said = capsys.readouterr().err
        assert why in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()
