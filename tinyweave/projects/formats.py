"""The table of export formats. In: a Package and the name of a format. Out: the files of the export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..ir import CompileError
from .arduino import arduino
from .cmake import cmake
from .cmsis_pack import cmsis_pack
from .esp_idf import esp_idf
from .example import example_files, library_files
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


# formats of build systems -> how their README places a file of weights, a template
RECIPES = {"esp-idf": "esp-idf", "zephyr": "zephyr", "arduino": "board", "platformio": "board"}
RECIPES |= dict.fromkeys(("cmake", "cmsis-pack", "stm32cube", "riot"), "linker")


def _about_weights(package: Package, form: str) -> str:
    """Return the README's lines on the files of weights, how to place and how to replace them.

    Raise CompileError if the format has all constants in the program.
    """
    if form not in RECIPES:
        raise CompileError(
            f"the format '{form}' has the weights in the program", f"leave out --weights, or give {', '.join(RECIPES)}"
        )
    names, read = [model.name for model in package.models if model.plan.weights_file], package.models[0].plan.fetches
    array = " and ".join(f"`{name}_file.h`" for name in names)
    how = f"The callback in {array} of the example reads it" if read else f"{array} of the example has it as an array"
    return filled(
        "weights/README.md",
        files=" and ".join(f"`{name}.weights`" for name in names),
        have="have" if len(names) > 1 else "has",
        how=f"{how}, to begin with.",
        command=f"`tinyweave weights NEW.tflite --plan {names[0]}_plan.json -o new.weights`, in the folder of the C",
        recipe=filled(f"weights/{'read' if read else RECIPES[form]}.md", model=names[0], NAME=names[0].upper()).rstrip(),
    )


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
    if any(model.plan.weights_file for model in package.models):
        package = replace(package, weights=_about_weights(package, name))
    own = {**example_files(package), **library_files(package), "main.c": ""}
    if clash := sorted(set(own) & set(package.files)):
        raise CompileError(f"a model of '{package.name}' has a file {clash[0]}, as the example has", "give another --package")
    return {**FORMATS[name](package), "LICENSE": filled("LICENSE")}
