"""Export as a CMake project: library, package for find_package, toolchain file, example (firmware on QEMU's boards)."""

from __future__ import annotations

from collections.abc import Mapping

from .example import example_files, library_files
from .linker_scripts import GUARDED, firmware_script, is_qemu_board, place_files
from .package import Files, Package, below, filled, lines
from .readme import code, readme

PROFILE = "configure with `-DTW_PROFILE=ON`."
# architecture -> prefix of GCC's programs, and CMake's name of the processor
TOOLCHAINS = {"arm": ("arm-none-eabi-", "arm"), "riscv": ("riscv64-unknown-elf-", "riscv32")}


def cmake(package: Package) -> Files:
    """Return the files of a package as a CMake project: path inside the exported folder -> content."""
    name = package.name
    library = {**package.files, **library_files(package)}
    qemu = package.device if package.device and is_qemu_board(package.device) else None
    board = {"board": qemu.name} if qemu else {}
    own: Mapping[str, str | bytes] = package.program or {
        "main.c": filled("firmware/main.c", name=name),
        **example_files(package),
    }
    sources = " ".join(sorted(file for file in own if file.endswith(".c")))
    values = {"name": name, "version": package.version, "core": package.core, "sources_of_example": sources, **board}
    toolchain, firmware, scripts = _toolchain(package), Files(), place_files(package)
    if qemu:
        firmware = {
            "firmware/startup.c": filled("firmware/startup.c"),
            f"firmware/{qemu.name}.ld": firmware_script(package),
        }
    return {
        "CMakeLists.txt": filled(
            "cmake/CMakeLists.txt",
            **values,
            models=", ".join(model.name for model in package.models),
            sources=lines([f"src/{file}" for file in sorted(library) if file.endswith(".c")]),
            place=filled("cmake/place.txt", name=name, memories=" ".join(package.placed)) if scripts else "",
            headers=lines([f"src/{file}" for file in [*package.headers, f"{name}_profile.h"]]),
        ),
        f"cmake/{name}Config.cmake.in": filled("cmake/Config.cmake.in", **values),
        "example/CMakeLists.txt": filled(f"cmake/example_{'qemu' if qemu else 'host'}.txt", **values),
        **below("example", own),
        **below("src", library),
        **scripts,
        **toolchain,
        **firmware,
        "README.md": readme(
            package,
            f"{name}: a CMake library",
            _build(package, sorted(toolchain)),
            PROFILE,
            place=_placing(package, scripts),
        ),
    }


def firmware_files(package: Package) -> dict[str, str]:
    """Return the C files and linker script of complete firmware; raise CompileError if QEMU does not emulate the device."""
    example = {} if package.program else {**library_files(package), **example_files(package)}
    main = package.program or {"main.c": filled("firmware/main.c", name=package.name)}
    return {
        **package.files,
        **{name: text for name, text in example.items() if isinstance(text, str)},
        **{f"firmware_{name}": text for name, text in main.items()},
        "firmware_startup.c": filled("firmware/startup.c"),
        "firmware_link.ld": firmware_script(package),
    }


def _toolchain(package: Package) -> Files:
    """Return the toolchain file for the core, as path -> content; empty for a core without known compiler flags."""
    if not package.flags:
        return {}
    prefix, processor = TOOLCHAINS["arm" if "-mthumb" in package.flags else "riscv"]
    file = f"{prefix.rstrip('-')}.cmake"
    values = {"core": package.core, "prefix": prefix, "processor": processor, "flags": " ".join(package.flags)}
    return {f"cmake/{file}": filled("cmake/toolchain.cmake", file=file, **values)}


def _build(package: Package, toolchains: list[str]) -> list[str]:
    """Return lines of the README on building and running; `toolchains` has the path of the toolchain file, or is empty."""
    name = package.name
    ways = f"`add_subdirectory({name})` with the name of this folder, or `cmake --install` and `find_package({name})`"
    use = f"{ways}; link `tinyweave::{name}`."
    file = " < FILE" if package.program else ""
    here = f"On this computer: `cmake -B build && cmake --build build && build/example/{name}_example{file}`."
    if not toolchains:
        return [use, here]
    cross = f"`cmake -B build_board -DCMAKE_TOOLCHAIN_FILE={toolchains[0]} && cmake --build build_board`"
    if not is_qemu_board(package.device) or package.device is None:
        return [use, here, f"For the core: {cross} builds the library."]
    semihosting = "-semihosting-config enable=on,target=native,arg=firmware,arg=FILE" if package.program else "-semihosting"
    run = f"`qemu-system-arm -M {package.device.name} -nographic {semihosting} -kernel build_board/example/{name}_example.elf`"
    script = f"firmware/{package.device.name}.ld"
    own = f"A program of your own: compile it with `firmware/startup.c`, link it with `-nostartfiles -T {script}`"
    return [use, here, f"For the board: {cross}, then {run}.", f"{own}; `tinyweave docs export` shows its `CMakeLists.txt`."]


def _placing(package: Package, scripts: Files) -> str:
    """Return sentences of the README on how to place arenas in other memories; `scripts` are the linker scripts for this."""
    if not scripts:
        return "The firmware's own linker script places them in their memories instead."
    options, files = " or ".join(f"`-DTW_PLACE={memory}`" for memory in package.placed), " or ".join(map(code, scripts))
    return f"To place them, configure with {options}: your program is linked with {files}, after its own script. {GUARDED}"
