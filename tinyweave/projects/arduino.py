"""Export as an Arduino library: properties, keywords, sources, and an example sketch."""

from __future__ import annotations

from ..ir import CompileError
from .example import example_files, library_files
from .package import Files, Package, below, filled
from .readme import readme

FUNCTIONS = ("init", "reset", "input", "output", "invoke")
RESERVED = "arduino"  # only Arduino's own libraries may have names that begin with this word


def arduino(package: Package) -> Files:
    """Return the files of an Arduino library (path -> content); raise CompileError if its manager would refuse the name."""
    name = package.name
    if name.startswith(RESERVED):
        raise CompileError(f"'{name}': the name of an Arduino library must not begin with Arduino", "give another --package")
    models = ", ".join(model.name for model in package.models)
    values = {"name": name, "version": package.version, "models": models, "target": package.target}
    build = [
        f"Copy this folder to `libraries/{name}` of your sketchbook, or in the IDE: Sketch, Include Library, Add .ZIP Library.",
        f"Open File, Examples, {name}, and upload; `arduino-cli compile` takes `--library .` and the sketch's folder.",
    ]
    words = [f"{model.name}_memory\tKEYWORD1" for model in package.models]  # words that the editor highlights, with their kinds
    words += [f"{model.name}_{function}\tKEYWORD2" for model in package.models for function in FUNCTIONS]
    switch = f'compile with `--build-property "compiler.c.extra_flags=-D{package.switch}"` of `arduino-cli`.'
    return {
        "library.properties": filled("arduino/library.properties", **values, headers=",".join(package.headers)),
        "keywords.txt": "\n".join([*words, ""]),
        **below("src", {**package.files, **library_files(package)}),
        f"examples/{name}/{name}.ino": filled("arduino/example.ino", name=name, header=package.headers[0]),
        **below(f"examples/{name}", example_files(package)),
        "README.md": readme(package, f"{name}: an Arduino library", build, switch),
    }
