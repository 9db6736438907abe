"""The data that all export formats share (models, their C, the board), and helpers for writing build files.

In: planned models. Out: a Package, which the formats only read. A file is named by its path inside the exported folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..codegen import Source
from ..codegen.memory_header import has_memory_header
from ..devices import AddressRange, Device
from ..ir import CompileError
from ..planning import Plan
from ..simulate.cores import CORES
from ..support.c_names import identifier

Files = dict[str, str | bytes]  # path inside the folder -> content
TEMPLATES = Path(__file__).parent / "templates"
SLOT = re.compile(r"@\{(\w+)\}")
VERSION = re.compile(r"(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})")
LONGEST_NAME = 48  # characters; with the words that formats append, an Arduino library's name may have at most 63
NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_NAME - 1}}}")


@dataclass(frozen=True)
class Trial:
    """A sample of the example program: the bytes of each input, and the correct bytes of each output."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class PackagedModel:
    """A model of a package: its C in `source`, and samples for the example program, with correct outputs, in `trials`.

    `file` is the name of the model file, `contents` its bytes as .tflite, `costs` a text with its estimated Flash and time.
    `classes` are names of the classes, `preparation` says how the input is prepared (`api/preparation.py`).
    """

    plan: Plan
    source: Source
    file: str
    trials: tuple[Trial, ...]
    contents: bytes = b""
    costs: str = ""
    classes: Sequence[str] = ()
    preparation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the prefix of the model's C names."""
        return self.source.name


@dataclass(frozen=True, eq=False)
class Package:
    """Models that are exported together, with their C.

    `name` is a lower-case C identifier, `version` has three numbers. `files` is the C of all models by name, with one copy of
    each kernel. `device` is None if only the core is known. `command` writes the same package again; `options` are of planner
    and device, as typed. `program` has C files with a `main`, which replace the example program; empty to keep it.
    `arrays` names the array of each model's file in firmware, for the format tflm; empty to write none. `weights` is the
    README's text on files of weights.
    """

    name: str
    version: str
    models: tuple[PackagedModel, ...]
    files: Mapping[str, str]
    core: str
    device: Device | None
    command: str
    options: str
    program: Mapping[str, str] = field(default_factory=dict)
    arrays: Sequence[str] = ()
    weights: str = ""

    @property
    def target(self) -> str:
        """Return the board with its core, or the core alone, as text."""
        return f"{self.device.name} ({self.core})" if self.device and self.device.name != self.core else self.core

    def foreign(self, form: str) -> str:
        """Return what to do about kernels of a core that no chip of the build system `form` has; "" for other build systems."""
        if form != "esp-idf" or not self.core.startswith("cortex-m"):
            return ""
        return f"kernels are for a {self.core}, and slow plain C on Espressif's chips: give --device, such as esp32-c3"

    @property
    def sources(self) -> list[str]:
        """Return the names of the C files, without headers, sorted."""
        return sorted(name for name in self.files if name.endswith(".c"))

    @property
    def headers(self) -> list[str]:
        """Return the names of the headers that an application includes."""
        own = [name for model in self.models for name in model.source.own]
        return [name for name in own if name.endswith(".h") and not name.endswith("_weights.h")]

    @property
    def placed(self) -> list[str]:
        """Return the memories of the models that do not use the default RAM alone; a linker script must place their arenas."""
        placed = [memory for model in self.models if has_memory_header(model.plan) for memory in model.plan.arena]
        return list(dict.fromkeys(placed))

    @property
    def switch(self) -> str:
        """Return the preprocessor definition that switches the cycle profile on."""
        return f"TW_TRACE={self.name}_profile_step"

    @property
    def regions(self) -> dict[str, AddressRange]:
        """Return the address range of each memory in `placed` on the device; empty if there are none."""
        maps = self.device.region_maps if self.device else ()
        return {name: next(regions[name] for regions in maps if name in regions) for name in self.placed}

    @property
    def flags(self) -> list[str]:
        """Return GCC's flags for the core, or an empty list for a core without known flags."""
        return list(CORES[self.core].gcc) if self.core in CORES else []


def checked_name(name: str) -> str:
    """Return the name of a package; raise CompileError if C, CMake or Kconfig does not allow it."""
    if not NAME.fullmatch(name) or name != identifier(name):
        allowed = f"at most {LONGEST_NAME} lower-case letters, digits and _, beginning with a letter, and no word of C"
        raise CompileError(f"'{name[:LONGEST_NAME]}' cannot be the name of a package", f"give {allowed}")
    return name


def checked_version(version: str) -> str:
    """Return a version unchanged; raise CompileError if it is not three numbers, such as 1.0.0."""
    if not VERSION.fullmatch(version):
        raise CompileError(f"'{version[:40]}' is no version", "write three numbers, as 1.0.0")
    return version


def check_whole(model: PackagedModel, wants: str) -> None:
    """Raise CompileError if a model streams rows; `wants` says why it must not."""
    if model.plan.streamed_inputs or model.plan.streamed_outputs:
        raise CompileError(f"{model.name} streams rows, and {wants}", "leave out --stream-inputs and --stream-outputs")


def memory_name(model: PackagedModel) -> str:
    """Return the C name of the variable that holds a model's arenas."""
    return f"{model.name}_memories" if has_memory_header(model.plan) else f"{model.name}_ram"


def arena(model: PackagedModel, weights: str = "") -> str:
    """Return the C of a model's arena and of the struct that names it; `weights` are its members for a file of weights."""
    if has_memory_header(model.plan):
        return ""
    return filled("arena.c", name=model.name, NAME=model.name.upper(), weights=weights)


def filled(template: str, **values: object) -> str:
    """Return a template (a path, absolute or inside templates/) with each placeholder @{name} replaced by the value `name`."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return SLOT.sub(lambda slot: str(values[slot[1]]), text)


def below(folder: str, files: Mapping[str, str | bytes]) -> Files:
    """Return files with a folder prepended to their paths."""
    return {f"{folder}/{name}": content for name, content in files.items()}


def lines(names: Sequence[str], indent: int = 4) -> str:
    """Return names as text for a list in a build file: a line per name, indented by `indent` spaces."""
    return "\n".join(" " * indent + name for name in names)
