"""Export as a middleware of STM32Cube: sources, a Makefile fragment, linker scripts, and an example that prints by the HAL."""

from __future__ import annotations

from ..ir import CompileError
from .example import example_files, library_files
from .linker_scripts import GUARDED, place_file, place_files, place_macro
from .package import Files, Package, below, filled
from .readme import readme


def stm32cube(package: Package) -> Files:
    """Return the files of an STM32Cube middleware (path -> content); raise CompileError if the core is not a Cortex-M."""
    if not package.core.startswith("cortex-m"):
        raise CompileError(f"STM32Cube is for Cortex-M, and {package.target} is none", "give another --format")
    name, library, example = package.name, {**package.files, **library_files(package)}, example_files(package)
    own = [*(f"src/{file}" for file in library), *(f"example/{file}" for file in example), f"example/{name}_app.c"]
    variable, scripts = f"$(TINYWEAVE_{name.upper()})", place_files(package)
    values = {
        "name": name,
        "NAME": name.upper(),
        "models": ", ".join(model.name for model in package.models),
        "sources": " \\\n".join(f"{variable}/{file}" for file in sorted(own) if file.endswith(".c")),
        "place": "".join(_place_lines(memory, variable) for memory in package.placed if scripts),
    }
    folder = f"Middlewares/Third_Party/{name}"
    build = [
        f"Copy `Middlewares` into your project. Makefile: `include {folder}/{name}.mk` after `LDFLAGS`.",
        f"CubeIDE: add `{folder}` as a source folder, its `src` and `example` to the include paths.",
        f"Call `{name}_app()` of `{name}_app.h` in `main.c`; it prints on `huart2`, or define `TW_UART`.",
    ]
    switch = f"`make TW_PROFILE=1`, or define `{'` and `'.join(package.switch)}`."
    return {
        **below(
            folder,
            {
                f"{name}.mk": filled("stm32cube/module.mk", **values),
                **below("src", library),
                **below("example", example),
                f"example/{name}_app.h": filled("stm32cube/app.h", **values),
                f"example/{name}_app.c": filled("stm32cube/app.c", **values),
                **scripts,
            },
        ),
        "README.md": readme(
            package, f"{name}: a middleware for STM32Cube", build, switch, place=_placing(package, folder) if scripts else ""
        ),
    }


def _place_lines(memory: str, folder: str) -> str:
    """Return Makefile lines that place arenas in a memory if `make` is called with `TW_PLACE=` and its name."""
    return filled("stm32cube/place.mk", memory=memory, macro=place_macro(memory), script=f"{folder}/{place_file(memory)}")


def _placing(package: Package, folder: str) -> str:
    """Return sentences of the README on how to place arenas in other memories, with make or in CubeIDE."""
    makes = " or ".join(f"`make TW_PLACE={memory}`" for memory in package.placed)
    first = package.placed[0]
    flag = f"-T${{workspace_loc:/${{ProjName}}/{folder}/{place_file(first)}}}"
    ide = f"in CubeIDE define `{place_macro(first)}`, and add `{flag}` to the linker's other flags"
    return f"To place them: {makes}; {ide}. {GUARDED}"
