"""Find what tinyweave can use on this machine: compilers, emulators, optional packages. In: nothing. Out: a Finding of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from typing import NamedTuple

from ..ir import CompileError
from ..simulate import qemu
from ..support.installing import install, required
from ..support.toolchain import Toolchain, arm, host, riscv, zig

PURPOSES = {  # an extra of pyproject.toml -> what needs it
    "verify": "running C on an emulated core, and comparing with LiteRT",
    "onnx": "reading .onnx files",
    "torch": "reading .pt2 files, quantising and training PyTorch modules",
    "images": "reading pictures as samples",
    "explore": "the explorer and the lesson in a browser",
    "search": "searching and training networks",
    "parquet": "reading data sets in .parquet files",
    "ray": "searching on several machines",
}
COMPILERS: Mapping[str, tuple[Callable[[], Toolchain], str]] = {  # what is compiled for -> its compiler, what needs it
    "this machine": (host, "running C here: without it, `verify` has only the emulated core and `run` computes in numpy"),
    "Cortex-M": (arm, "building for Cortex-M, and so `deploy`, `profile` and `compare`"),
    "RISC-V": (riscv, "building for RISC-V boards"),
    "WebAssembly": (zig, "`export --format web`; zig also builds for the targets above that have no other compiler"),
}


class Finding(NamedTuple):
    """A tool, or the packages of an extra of pyproject.toml."""

    part: str  # "compiler", "emulator" or "packages"
    name: str
    found: str  # name and version of what was found; "" if something is missing
    purpose: str  # what needs it
    remedy: str = ""  # how to get what is missing

    def __str__(self) -> str:
        """Return what was found, or what is missing, what needs it and how to install it."""
        return self.found or f"missing, and necessary for {self.purpose}; {self.remedy}"


def findings() -> list[Finding]:
    """Return what was found and what is missing."""
    requirements = requires("tinyweave") or ()
    return [
        *(_tool("compiler", name, find, purpose) for name, (find, purpose) in COMPILERS.items()),
        _tool("emulator", "QEMU", qemu.program, "running C on an emulated Cortex-M55"),
        *(_packages(extra, purpose, requirements) for extra, purpose in PURPOSES.items()),
    ]


def _tool(part: str, name: str, find: Callable[[], Toolchain | str], purpose: str) -> Finding:
    try:
        found = find()
        return Finding(part, name, found.version if isinstance(found, Toolchain) else found, purpose)
    except CompileError as error:
        return Finding(part, name, "", purpose, error.what_to_do)


def _packages(extra: str, purpose: str, requirements: Sequence[str]) -> Finding:
    """Return the versions of the packages of an extra, or the command that installs it if one of them is missing."""
    found = list[str]()
    for requirement in required(extra, requirements):
        package = re.split(r"[^\w.-]", requirement)[0]
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            return Finding("packages", extra, "", purpose, install(extra))
    return Finding("packages", extra, ", ".join(found), purpose)
