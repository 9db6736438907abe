"""Hold what all export formats share: the models, their C, the board, and helpers for build files.

In: planned models. Out: a Package, which formats only read. Files are named by their path inside the exported folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..codegen import Source, identifier
from ..codegen.header import has_memory_header
from ..devices import AddressRange, Device
from ..ir import CompileError
from ..planning import Plan
from ..simulate.cores import CORES

Files = dict[str, str | bytes]  # path inside the folder -> content
TEMPLATES = Path(__file__).parent / "templates"
SLOT = re.compile(r"@\{(\w+)\}")
VERSION = re.compile(r"(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})")
LONGEST_NAME = 48  # with what formats add to it: an Arduino library's name may have 63 characters
NAME = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_NAME - 1}}}")


@dataclass(frozen=True)
class Trial:
    """One sample of the example: the bytes of every input, and of every output as the reference computes them."""

    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class PackagedModel:
    """A model of a package: its plan, the C that `compile` emits, the file it came from, and samples for the example."""

    plan: Plan
    source: Source
    file: str
    trials: tuple[Trial, ...]

    @property
    def name(self) -> str:
        """Return the prefix of the model's C names."""
        return self.source.name


@dataclass(frozen=True, eq=False)
class Package:
    """Models that are exported together."""

    name: str  # C identifier in lower case
    version: str
    models: tuple[PackagedModel, ...]
    files: Mapping[str, str]  # C of all models, with one copy of each kernel
    core: str  # core whose kernels the C has
    device: Device | None
    command: str  # command that writes the same package again
    options: str  # options of the plan and the device, as typed
    program: Mapping[str, str] = field(default_factory=dict)  # C files with a main that replaces the example's

    @property
    def target(self) -> str:
        """Return the board, or else the core, in words."""
        return f"{self.device.name} ({self.core})" if self.device and self.device.name != self.core else self.core

    @property
    def sources(self) -> list[str]:
        """Return the names of the C files."""
        return sorted(name for name in self.files if name.endswith(".c"))

    @property
    def headers(self) -> list[str]:
        """Return the headers that an application includes."""
        own = [name for model in self.models for name in model.source.own]
        return [name for name in own if name.endswith(".h") and not name.endswith("_weights.h")]

    @property
    def placed(self) -> list[str]:
        """Return the memories for arenas besides the default RAM of linker scripts."""
        placed = [memory for model in self.models if has_memory_header(model.plan) for memory in model.plan.arena]
        return list(dict.fromkeys(placed))

    @property
    def switch(self) -> list[str]:
        """Return the macros that switch the profile on."""
        return [f"TW_TRACE={self.name}_profile_step", f"TW_LAYER={self.name}_profile_layer"]

    @property
    def regions(self) -> dict[str, AddressRange]:
        """Return address and size of these memories on the device."""
        maps = self.device.region_maps if self.device else ()
        return {name: next(regions[name] for regions in maps if name in regions) for name in self.placed}

    @property
    def flags(self) -> list[str]:
        """Return the GNU compiler flags of the core, empty for a core without known flags."""
        return list(CORES[self.core].gcc) if self.core in CORES else []


def checked_name(name: str) -> str:
    """Return the name of a package; raise CompileError if C, CMake or Kconfig does not allow it."""
    if not NAME.fullmatch(name) or name != identifier(name):
        allowed = f"at most {LONGEST_NAME} lower-case letters, digits and _, beginning with a letter, and no word of C"
        raise CompileError(f"'{name[:LONGEST_NAME]}' cannot be the name of a package", f"give {allowed}")
    return name


def checked_version(version: str) -> str:
    """Return a version; raise CompileError for one that is not three numbers."""
    if not VERSION.fullmatch(version):
        raise CompileError(f"'{version[:40]}' is no version", "write three numbers, as 1.0.0")
    return version


def filled(template: str, **values: object) -> str:
    """Return a file of templates/ with its placeholders @{name} replaced."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return SLOT.sub(lambda slot: str(values[slot[1]]), text)


def below(folder: str, files: Mapping[str, str | bytes]) -> Files:
    """Return files with a folder put before their paths."""
    return {f"{folder}/{name}": content for name, content in files.items()}


def lines(names: Sequence[str], indent: int = 4) -> str:
    """Return names as lines for a list in a build file."""
    return "\n".join(" " * indent + name for name in names)
