"""The cascade: two networks in one arena give the outputs of each alone; the second runs only if the first's score is high."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import firmware_programs
import pytest
from cases.strict import c99, sanitizers
from pages import check_output
from projects.export import needs

import tinyweave as tw
from tinynas.int8 import quant_of
from tinyweave.support import toolchain

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples" / "photograph"))

import cascade  # noqa: E402
import photograph  # noqa: E402

pytest.importorskip("PIL.Image")


def test_two_networks_in_one_arena_fit_in_64_kib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("qemu-system-arm")
    monkeypatch.setattr(sys, "argv", ["cascade.py", "--at-least", "-128", "-o", str(tmp_path)])
    assert cascade.main() == 0
    printed = capsys.readouterr().out
    sizes = {line[2:26].strip(): int(line.split()[-2].replace(",", "")) for line in printed.splitlines() if line[0] == " "}
    assert sizes["arena of both"] == 30_756 and 40_000 < sizes["all of its RAM"] < 64 * 1024
    check_output("CAMERA.md", "cascade.py", printed)
    assert "the detector ran" in printed and printed.endswith("as in Python\n") and "NOT" not in printed


def test_a_score_out_of_the_int8_range_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for score in ("128", "-129"):
        monkeypatch.setattr(sys, "argv", ["cascade.py", "--at-least", score, "-o", str(tmp_path / "out")])
        assert cascade.main() == 2
        said = capsys.readouterr().err
        assert f"{score} is no score of int8" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()


def test_the_cascade_prints_the_outputs_of_each_network_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are on both sides of the score; the C runs with a sanitizer and compiles without a warning."""
    monkeypatch.setattr(photograph, "ARCH", replace(photograph.ARCH, image=(48, 64, 3)))
    monkeypatch.setattr(cascade, "CLASSIFIER", replace(cascade.CLASSIFIER, image=(32, 32, 3)))
    models, head = cascade.person_network(None)[0], photograph.detector(None)[1]
    both = models, photograph.detector(None)[0]
    spec, about = "jpeg:96x72", {"label": 1, "threshold": 0.4}
    pictures = [photograph.drawn(96, 72)]
    pictures += [_plain(value) for value in (0, 90, 255)]
    scores = [int(cascade.in_python(both, head, spec, each, about | {"at_least": 128}).split()[1]) for each in pictures]
    assert len(set(scores)) > 2
    about["at_least"] = sorted(scores)[2]
    package = photograph.packaged(list(both), spec, "")
    package = firmware_programs.cascade(
        package, head.c_files(quant_of(both[1].graph)), label=1, at_least=about["at_least"], threshold=head.limit(0.4)
    )
    for name, text in {**package.files, **package.program}.items():
        (tmp_path / name).write_text(text)
    compiler = toolchain.host()
    strict = [*c99(compiler.name), "-Wno-undef", "-Wno-unused-const-variable", "-c", tmp_path / "main.c"]
    toolchain.compile_c(compiler, [*strict, "-o", tmp_path / "main.o"])
    flags = ["-std=c99", "-O0", "-DTW_PLAIN_C", *sanitizers(compiler.name)]
    toolchain.compile_c(compiler, [*flags, *sorted(tmp_path.glob("*.c")), "-o", tmp_path / "main"])
    ran = 0
    for photo, score in zip(pictures, scores, strict=True):
        (tmp_path / "file").write_bytes(photo)
        with (tmp_path / "file").open("rb") as stream:
            done = subprocess.run([tmp_path / "main"], stdin=stream, capture_output=True, check=False, text=True)
        assert done.returncode == 0, done.stderr[-500:]
        assert done.stdout == cascade.in_python(both, head, spec, photo, about) + ", stack 0\n"
        assert ("boxes" in done.stdout) is (score >= about["at_least"])
        ran += "boxes" in done.stdout
    assert 0 < ran < len(pictures)
    (tmp_path / "file").write_bytes(pictures[0][:-100])
    with (tmp_path / "file").open("rb") as stream:
        done = subprocess.run([tmp_path / "main"], stdin=stream, capture_output=True, check=False, text=True)
    assert done.returncode == 2 and done.stdout == "it cannot be read: error -10 of tw_jpeg.h\n"


def _plain(value: int) -> bytes:
    from io import BytesIO

    from PIL import Image

    Image.new("RGB", (96, 72), (value, 255 - value, value // 2)).save(stream := BytesIO(), "JPEG")
    return stream.getvalue()


def test_a_published_file_says_whether_there_is_a_person(tmp_path: Path) -> None:
    """Its second output is the person; a file with other outputs is refused."""
    for classes in (2, 3):
        small = replace(cascade.CLASSIFIER, image=(32, 32, 3), classes=classes)
        (tmp_path / f"{classes}.tflite").write_bytes(photograph.random_network(small, "other").file)
    assert cascade.person_network(tmp_path / "2.tflite")[1] == 1
    with pytest.raises(tw.CompileError, match=r"3.tflite' does not have two outputs, no person and person"):
        cascade.person_network(tmp_path / "3.tflite")


def test_a_cascade_of_other_than_two_models_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, head = photograph.detector(None)
    one = photograph.packaged([model], "jpeg:64x48", "")
    with pytest.raises(tw.CompileError, match="a cascade is of two models that share one arena"):
        firmware_programs.cascade(one, {}, label=0, at_least=0, threshold=1)
    two = photograph.packaged([cascade.person_network(None)[0], model], "jpeg:64x48", "")
    with pytest.raises(tw.CompileError, match="of one model"):
        firmware_programs.looking(two, {}, threshold=1)
    with pytest.raises(tw.CompileError, match="holds no trained network"):
        cascade.person_network(tmp_path)
    assert head.classes == 3
