"""The PlatformIO library has a valid manifest, and its example runs on the host."""

from __future__ import annotations

import configparser
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from projects.export import compile_for_arm, export, needs, run, samples

NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9 _.+-]{0,99}$"}
TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
# from docs.platformio.org, library.json
SCHEMA = {
    "type": "object",
    "required": ["name", "version", "description", "keywords", "headers", "build"],
    "additionalProperties": False,
    "properties": {
        "name": NAME,
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "description": TEXT,
        "keywords": {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9 _-]{0,49}$"}, "minItems": 1},
        "frameworks": {"type": "string", "const": "*"},
        "platforms": {"type": "string", "const": "*"},
        "headers": {"type": "array", "items": {"type": "string", "pattern": r"\.h$"}, "minItems": 1},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"srcDir": TEXT, "includeDir": TEXT, "flags": {"type": "array", "items": TEXT}},
        },
        "examples": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "base", "files"],
                "additionalProperties": False,
                "properties": {"name": TEXT, "base": TEXT, "files": {"type": "array", "items": TEXT}},
            },
        },
    },
}


def faults(manifest: Any) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: pip install '.[test]'")
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(manifest)]


def test_the_manifest_is_valid_and_lists_existing_files(tmp_path: Path) -> None:
    folder = export(tmp_path, "platformio", device="nrf52840")
    manifest = json.loads((folder / "library.json").read_text())
    assert (
        faults(manifest) == [] and "add `-DTW_TRACE=chain_profile_step` to `build_flags`" in (folder / "README.md").read_text()
    )
    for key, value in (("name", "-x"), ("version", "1.0"), ("headers", []), ("license", "Apache-2.0")):
        assert len(faults(copy.deepcopy(manifest) | {key: value})) == 1
    (example,) = manifest["examples"]
    assert all((folder / example["base"] / file).is_file() for file in example["files"])
    assert all((folder / manifest["build"]["includeDir"] / header).is_file() for header in manifest["headers"])
    settings = configparser.ConfigParser()
    settings.read(folder / example["base"] / "platformio.ini")
    scheme, _, path = settings["env"]["lib_deps"].partition("://")
    assert scheme == "symlink" and (folder / example["base"] / path).resolve() == folder, "the library that it lies in"
    assert "lib_extra_dirs" not in settings["env"], "it does not scan the folder above the library for other libraries"
    assert settings["env:native"]["platform"] == "native"
    compile_for_arm(folder / "src", "nrf52840")


def test_the_example_runs_on_the_host(tmp_path: Path) -> None:
    """The example is built with the flags of its environment and of the manifest."""
    needs("cc", "c++")
    folder = export(tmp_path / "chain", "platformio", device="nrf52840", inputs=samples("chain", 2))
    example = folder / "examples" / "chain"
    settings = configparser.ConfigParser()
    settings.read(example / "platformio.ini")
    flags = [
        *settings["env:native"]["build_flags"].split(),
        *json.loads((folder / "library.json").read_text())["build"]["flags"],
    ]
    words = [*flags, "-Wall", "-Wextra", "-Werror", "-I", folder / "src", "-I", example / "src"]
    run("cc", *words, "-c", *sorted((folder / "src").glob("*.c")), *sorted(example.glob("src/*.c")), cwd=tmp_path)
    run("c++", *words, example / "src" / "main.cpp", *sorted(tmp_path.glob("*.o")), "-o", "program", cwd=tmp_path)
    printed = run(tmp_path / "program")
    assert printed.count("chain sample") == 2 and printed.endswith("every output is the reference's, byte for byte\n")
