"""The table of export formats. In: a Package and the name of a format. Out: the files of the export."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import CompileError
from .arduino import arduino
from .cmake import cmake
from .cmsis_pack import cmsis_pack
from .esp_idf import esp_idf
from .example import example_files, profile_files
from .package import Files, Package, filled
from .platformio import platformio
from .riot import riot
from .stm32cube import stm32cube
from .tflm import tflm
from .web import web
from .zephyr import zephyr

FORMATS: Mapping[str, Callable[[Package], Files]] = {
    "cmake": cmake,
    "arduino": arduino,
    "platformio": platformio,
    "esp-idf": esp_idf,
    "zephyr": zephyr,
    "cmsis-pack": cmsis_pack,
    "stm32cube": stm32cube,
    "riot": riot,
    "tflm": tflm,
    "web": web,
}


def check_format(name: str) -> None:
    """Raise CompileError if no export format has this name."""
    if name not in FORMATS:
        raise CompileError(f"there is no export format '{name[:40]}'", f"formats are {', '.join(FORMATS)}")


def export_files(package: Package, name: str) -> Files:
    """Return the files of a package in the format `name`: path inside the exported folder -> content.

    Raise CompileError if the format is unknown, does not support the package, or two files would have the same name.
    """
    check_format(name)
    if package.program and name != "cmake":
        raise CompileError(f"the format '{name}' has no program of its own", "give cmake")
    if package.arrays and name != "tflm":
        raise CompileError(f"the format '{name}' writes no array of the model's file", "leave out --array, or give tflm")
    own = {**example_files(package), **profile_files(package), "main.c": ""}
    if clash := sorted(set(own) & set(package.files)):
        raise CompileError(f"a model of '{package.name}' has a file {clash[0]}, as the example has", "give another --package")
    return {**FORMATS[name](package), "LICENSE": filled("LICENSE")}
