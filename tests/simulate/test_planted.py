"""Files in the current folder named like a module or program that a command needs are never run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.generate import random_network

import tinyweave
from tinyweave.exporters.tflite import to_tflite
from tinyweave.support import toolchain

pytestmark = pytest.mark.emulator
MODULES = (
    "__future__", "ai_edge_litert", "capstone", "ctypes", "json", "messages", "numpy", "pickle", "signal",
    "struct", "tflite", "typer", "unicorn", "ziglang",
)  # fmt: skip
PROGRAMS = (
    "gcc",
    "cc",
    "clang",
    "arm-none-eabi-gcc",
    "riscv64-unknown-elf-gcc",
    "zig",
    "as",
    "ld",
    "collect2",
    "cc1",
    "python3",
)
STARTS = {
    "console script": (str(Path(sys.executable).with_name("tinyweave")),),
    "python -m": (sys.executable, "-m", "tinyweave"),
}


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a folder with a model, and with modules and programs that write a file if they run."""
    (tmp_path / "m.tflite").write_bytes(to_tflite(random_network(1, 4)))
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(
            f"import os\nopen({str(tmp_path / 'ran')!r}, 'a').write('{name}.py\\n')\nos._exit(9)\n"
        )
    for name in PROGRAMS:
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path / 'ran'}\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("start", "compiler"), [("console script", ""), ("python -m", ""), ("python -m", "zig")])
def test_no_file_of_the_current_folder_is_run(start: str, compiler: str, planted: Path) -> None:
    command = (*STARTS[start], "verify", "m.tflite", "--samples", "1")
    if not Path(command[0]).exists():
        pytest.skip(f"{command[0]} is not installed")
    environment = dict(os.environ, XDG_CACHE_HOME=str(planted / "cache"), PATH=f":.:{os.environ['PATH']}:")
    environment |= {"TINYWEAVE_CC": compiler, "TINYWEAVE_ARM_CC": compiler}
    environment["ZIG_GLOBAL_CACHE_DIR"] = str(toolchain._zig_folders()[-1])  # everything else is rebuilt
    done = subprocess.run(command, cwd=planted, env=environment, capture_output=True, text=True, check=False)
    ran = planted / "ran"
    assert not ran.exists(), ran.read_text()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("verified: every output byte equals the reference")


def test_a_worker_uses_the_package_that_started_it(planted: Path) -> None:
    """The package and its dependencies are found by relative paths here."""
    parent = Path(tinyweave.__file__).parents[1]
    ours = [os.path.relpath(parent, planted), *(path for path in sys.path if path and "site-packages" in path)]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(ours))
    command = [sys.executable, "-c", "import sys; del sys.path[0]; from tinyweave import cli; sys.exit(cli.main())"]
    done = subprocess.run(
        [*command, "verify", "m.tflite"], cwd=planted, env=environment, capture_output=True, text=True, check=False
    )
    assert not (planted / "ran").exists(), (planted / "ran").read_text()
    assert done.returncode == 0 and done.stdout.startswith("verified: every output byte equals the reference"), done.stderr


def test_programs_are_searched_in_absolute_folders_only(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", "sub/..", str(planted / "nothing")]))
    assert toolchain.which("gcc") is None
    monkeypatch.setenv("PATH", str(planted))
    assert toolchain.which("gcc") == str(planted / "gcc")
