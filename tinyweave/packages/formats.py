"""The table of export formats. In: the name of a format. Out: the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import CompileError
from .cmake import cmake
from .package import Files, Package

FORMATS: Mapping[str, Callable[[Package], Files]] = {
    "cmake": cmake,
}


def check_format(name: str) -> None:
    """Raise CompileError for a format that is not known."""
    if name not in FORMATS:
        raise CompileError(f"there is no export format '{name[:40]}'", f"formats are {', '.join(FORMATS)}")


def export_files(package: Package, name: str) -> Files:
    """Return the files of a package in a format, by their path inside the exported folder."""
    check_format(name)
    return FORMATS[name](package)
