"""The scripts from a framework to C: PYTORCH.md, ONNX.md and KERAS.md show what they print, and main.c answers right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.strict import c99
from pages import blocks, check_output, commands, words_of

from tinyweave.cli import main
from tinyweave.support import toolchain

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_network"
NEEDED = {"PYTORCH.md": ("torch",), "ONNX.md": ("torch", "onnx", "onnxscript"), "KERAS.md": ()}
CLASSES = [number % 4 for number in range(100)]  # of the images that the scripts write


def ran(script: str, output: Path, *options: str) -> str:
    """Run a script; return what it prints."""
    command = [sys.executable, "-W", "ignore", str(EXAMPLE / script), "-o", str(output), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=output)
    assert done.returncode == 0, done.stderr
    return done.stdout


def classes_in_c(output: Path) -> list[int]:
    """Build main.c with the C of a script, and return its answers to the images."""
    folder, compiler = output / "firmware", toolchain.host()
    sources = [EXAMPLE / "main.c", *sorted(folder.glob("*.c"))]
    loose = ["-Wno-undef", "-Wno-unused-const-variable", "-Wno-unused-function", "-DTW_PLAIN_C"]
    toolchain.compile_c(compiler, [*c99(compiler.name), *loose, "-O2", f"-I{folder}", *sources, "-o", output / "classify"])
    with (output / "images.bin").open("rb") as images:
        printed = subprocess.run([output / "classify"], stdin=images, capture_output=True, text=True, check=True).stdout
    return [int(line) for line in printed.split()]


@pytest.mark.emulator
@pytest.mark.parametrize("page", NEEDED)
def test_a_network_goes_from_its_framework_to_right_answers_in_c(
    page: str, tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NEEDED[page]:
        pytest.importorskip(name)
    script = f"from_{page.partition('.')[0].lower()}.py"
    check_output(page, script, ran(script, tmp_path))
    assert classes_in_c(tmp_path) == CLASSES
    if page == "PYTORCH.md":
        check_output(page, "./classify", " ".join(map(str, CLASSES[:8])) + "\n")
    if page == "ONNX.md":  # the command line takes the file that the script wrote
        monkeypatch.chdir(tmp_path)
        np.save("samples.npy", np.random.default_rng(0).normal(size=(16, 3, 32, 32)).astype(np.float32))
        (block,) = (block for block in blocks(ROOT / "docs" / "ONNX.md") if "--inputs" in block.text)
        assert [main(words_of(command)[1:]) for command in commands(block)] == [0, 0]
        assert Path("firmware/net_int8.h").is_file()


@pytest.mark.sweep
@pytest.mark.emulator
def test_the_network_trained_for_4_bits_is_right_too(tmp_path: Path, emulator: None) -> None:
    pytest.importorskip("torch")
    assert ran("from_pytorch.py", tmp_path, "--qat").startswith("fits nrf52840: True, every output byte is right: True, RAM ")
    assert classes_in_c(tmp_path) == CLASSES


@pytest.mark.sweep
@pytest.mark.emulator
def test_keras_trains_and_converts_it_where_tensorflow_is_installed(
    tmp_path: Path, emulator: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    assert "int8 100%\nfits nrf52840: True" in ran("from_keras.py", tmp_path, "--train")
    assert classes_in_c(tmp_path) == CLASSES
