"""Export as a PlatformIO library: its manifest, sources, and an example project for this computer or for a board."""

from __future__ import annotations

from .example import example_files, library_files
from .package import Files, Package, below, filled
from .readme import readme


def platformio(package: Package) -> Files:
    """Return the files of a package as a PlatformIO library: path inside the exported folder -> content."""
    name = package.name
    models, headers = ", ".join(model.name for model in package.models), ", ".join(f'"{file}"' for file in package.headers)
    values = {"name": name, "version": package.version, "models": models, "target": package.target, "headers": headers}
    build = [
        f"Copy this folder to `lib/{name}` of your project, or name it in `lib_deps` as `file://...`.",
        f"The example: `cd examples/{name} && pio run -t exec`; `platformio.ini` says how to add a board.",
    ]
    example = f"examples/{name}"
    return {
        "library.json": filled("platformio/library.json", **values),
        **below("src", {**package.files, **library_files(package)}),
        f"{example}/platformio.ini": filled("platformio/platformio.ini", name=name),
        f"{example}/src/main.cpp": filled("platformio/main.cpp", name=name, header=package.headers[0]),
        **below(f"{example}/src", example_files(package)),
        "README.md": readme(
            package,
            f"{name}: a PlatformIO library",
            build,
            f"add `-D{package.switch}` to `build_flags`.",
        ),
    }
