"""Export planned models as projects and libraries of other build systems, and as firmware for boards that QEMU emulates."""

from .cmake import firmware_files
from .formats import FORMATS, check_format, export_files
from .linker_scripts import BOARDS
from .package import Files, Package, PackagedModel, Trial, checked_name, checked_version

__all__ = [
    "BOARDS",
    "FORMATS",
    "Files",
    "Package",
    "PackagedModel",
    "Trial",
    "check_format",
    "checked_name",
    "checked_version",
    "export_files",
    "firmware_files",
]
