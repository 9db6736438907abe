"""`doctor` names the versions of what is installed, and for what is missing its users and the remedy."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import requires
from pathlib import Path

import numpy as np
from cli.running import run

from tinyweave.ir import CompileError
from tinyweave.report import doctor
from tinyweave.support import toolchain
from tinyweave.support.installing import install, required

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_every_extra_for_users_has_a_purpose_and_its_packages_are_those_of_the_project():
    extras = PROJECT["optional-dependencies"]
    assert set(doctor.PURPOSES) == set(extras) - {"all", "docs", "test"}
    for extra in doctor.PURPOSES:
        packages = [re.split("[<>=]", text)[0] for text in extras[extra]]
        assert [re.split("[<>=]", text)[0] for text in required(extra, requires("tinyweave"))] == packages


def test_what_is_installed_has_its_version(capsys):
    assert run("doctor", "--json") == 0
    found = {(each["part"], each["name"]): each for each in json.loads(capsys.readouterr().out)}
    assert [part for part, _ in found][:5] == ["compiler"] * 4 + ["emulator"]
    assert found["compiler", "WebAssembly"]["found"] == toolchain.zig().version and "zig" in toolchain.zig().version
    assert found["compiler", "Cortex-M"]["found"] == toolchain.arm().version
    assert found["packages", "search"]["found"].startswith("torch 2.13.0")
    assert all(bool(each["found"]) != bool(each["remedy"]) and each["purpose"] for each in found.values())


def test_without_zig_it_says_what_has_no_compiler(monkeypatch):
    monkeypatch.setattr(toolchain, "_zig_of_package", lambda: None)
    monkeypatch.setattr(toolchain, "which", lambda _: None)
    (web,) = (each for each in doctor.findings() if each.name == "WebAssembly")
    assert not web.found and "`export --format web`" in str(web) and web.remedy.endswith("install ziglang")


def test_what_is_missing_has_a_purpose_and_a_remedy(capsys, monkeypatch):
    def no_compiler():
        raise CompileError("found no C compiler", "install gcc")

    wanted = ['no-such-package<3,>=2; extra == "onnx"', f"numpy<{np.__version__}0; extra == 'images'", "numpy"]
    monkeypatch.setattr(doctor, "COMPILERS", {"this machine": (no_compiler, "running C here")})
    monkeypatch.setattr(toolchain, "which", lambda _: None)
    monkeypatch.setattr(doctor, "requires", lambda _: wanted)
    monkeypatch.setenv("COLUMNS", "400")
    compiler, emulator, *packages = doctor.findings()
    assert compiler == ("compiler", "this machine", "", "running C here", "install gcc")
    assert emulator.found == "" and "QEMU" in emulator.remedy
    by_extra = {each.name: each for each in packages}
    assert by_extra["onnx"] == ("packages", "onnx", "", doctor.PURPOSES["onnx"], install("onnx"))
    assert by_extra["images"].found == f"numpy {np.__version__}"
    assert run("doctor") == 0
    printed = capsys.readouterr().out
    assert "missing, and necessary for running C here; install gcc" in printed
    assert f"missing, and necessary for reading .onnx files; {install('onnx')}" in " ".join(printed.split())
