"""An Arduino library: properties, keywords, sources, and a sketch."""

from __future__ import annotations

from ..ir import CompileError
from .example import example_files, profile_files
from .package import Files, Package, below, filled
from .readme import readme

FUNCTIONS = ("init", "reset", "input", "output", "invoke")
RESERVED = "arduino"  # what the names of libraries by others must not begin with


def arduino(package: Package) -> Files:
    """Return the files of the export; raise CompileError for a name that the library manager refuses."""
    name = package.name
    if name.startswith(RESERVED):
        raise CompileError(f"'{name}': the name of an Arduino library must not begin with Arduino", "give another --package")
    models = ", ".join(model.name for model in package.models)
    values = {"name": name, "version": package.version, "models": models, "target": package.target}
    build = [
        f"Copy this folder to `libraries/{name}` of your sketchbook, or in the IDE: Sketch, Include Library, Add .ZIP Library.",
        f"Open File, Examples, {name}, and upload; `arduino-cli compile` takes `--library .` and the sketch's folder.",
    ]
    words = [f"{model.name}_memory\tKEYWORD1" for model in package.models]  # that the editor highlights, each with its kind
    words += [f"{model.name}_{function}\tKEYWORD2" for model in package.models for function in FUNCTIONS]
    flags = " ".join(f"-D{macro}" for macro in package.switch)
    switch = f'compile with `--build-property "compiler.c.extra_flags={flags}"` of `arduino-cli`.'
    return {
        "library.properties": filled("arduino/library.properties", **values, headers=",".join(package.headers)),
        "keywords.txt": "\n".join([*words, ""]),
        **below("src", {**package.files, **profile_files(package)}),
        f"examples/{name}/{name}.ino": filled("arduino/example.ino", name=name, header=package.headers[0]),
        **below(f"examples/{name}", example_files(package)),
        "README.md": readme(package, f"{name}: an Arduino library", build, switch),
    }
