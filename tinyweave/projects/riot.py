"""Export as an external module of RIOT, with an example application."""

from __future__ import annotations

from .example import example_files, library_files
from .package import Files, Package, below, filled
from .readme import readme


def riot(package: Package) -> Files:
    """Return the files of a package as a RIOT module: path inside the exported folder -> content."""
    name = package.name
    build = [
        "The example: `make -C example RIOTBASE=<your RIOT> BOARD=<your board> flash term`.",
        "Without a board: `make -C example RIOTBASE=<your RIOT> BOARD=native64` builds a program for Linux, "
        f"`example/bin/native64/{name}_example.elf`; Ctrl-C ends it.",
        f"In your application: `EXTERNAL_MODULE_DIRS += <this folder>` and `USEMODULE += {name}`.",
    ]
    return {
        f"{name}/Makefile": filled("riot/Makefile", name=name),
        f"{name}/Makefile.dep": filled("riot/Makefile.dep", name=name),
        f"{name}/Makefile.include": filled("riot/Makefile.include", name=name),
        **below(name, {**package.files, **library_files(package)}),
        "example/Makefile": filled("riot/example.mk", name=name),
        "example/main.c": filled("riot/main.c", name=name),
        **below("example", example_files(package)),
        "README.md": readme(package, f"{name}: a RIOT module", build, "add `TW_PROFILE=1` to `make`."),
    }
