"""Export as an ESP-IDF component: its manifest, Kconfig and CMake file, and an example project."""

from __future__ import annotations

from .example import example_files, library_files
from .package import Files, Package, below, filled
from .readme import readme

# name of a device -> name of the target in ESP-IDF
CHIPS = {"esp32": "esp32", "esp32-s3": "esp32s3", "esp32-c3": "esp32c3", "esp32-c6": "esp32c6"}


def esp_idf(package: Package) -> Files:
    """Return the files of a package as an ESP-IDF component: path inside the exported folder -> content."""
    name, library = package.name, {**package.files, **library_files(package)}
    target = CHIPS.get(package.device.name) if package.device else None
    clock = package.device.clock_hz if package.device else None
    public = {*package.headers, f"{name}_profile.h"}
    values = {
        "name": name,
        "NAME": name.upper(),
        "version": package.version,
        "models": ", ".join(model.name for model in package.models),
        "sources": "\n".join(f'        "src/{file}"' for file in sorted(library) if file.endswith(".c")),
        "targets": f"targets:\n  - {target}\n" if target else "",
        "target": target or "esp32c3",
        # ESP-IDF lets chips run slower by default; estimates are for the full clock
        "clock": f"CONFIG_ESP_DEFAULT_CPU_FREQ_MHZ_{clock // 10**6}=y\n" if target and clock else "",
    }
    folder = f"examples/{name}_example"
    build = [
        f"Copy this folder to `components/{name}` of your project; the component's name is the folder's.",
        f"The example: `cd {folder} && idf.py flash monitor`; `sdkconfig.defaults` has the chip, its clock and the stack.",
        *([f"Its {package.foreign('esp-idf')}."] if package.foreign("esp-idf") else []),
    ]
    switch = f"set `CONFIG_TINYWEAVE_{name.upper()}_PROFILE=y` (`idf.py menuconfig`)."
    return {
        "CMakeLists.txt": filled("esp_idf/CMakeLists.txt", **values),
        "Kconfig": filled("esp_idf/Kconfig", **values),
        "idf_component.yml": filled("esp_idf/idf_component.yml", **values),
        **below("include", {file: text for file, text in library.items() if file in public}),
        **below("src", {file: text for file, text in library.items() if file not in public}),
        f"{folder}/CMakeLists.txt": filled("esp_idf/project.txt", **values),
        f"{folder}/sdkconfig.defaults": filled("esp_idf/sdkconfig.defaults", **values),
        f"{folder}/main/CMakeLists.txt": filled("esp_idf/main.txt", **values),
        f"{folder}/main/idf_component.yml": filled("esp_idf/main.yml", **values),
        f"{folder}/main/main.c": filled("esp_idf/main.c", **values),
        **below(f"{folder}/main", example_files(package)),
        "README.md": readme(package, f"{name}: an ESP-IDF component", build, switch),
    }
