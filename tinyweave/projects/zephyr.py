"""Export as a Zephyr module: module.yml, Kconfig and CMake file, sources, and a sample application."""

from __future__ import annotations

from ..kernels.table import BY_NAME
from .example import example_files, library_files
from .package import Files, Package, below, filled
from .readme import readme

WITHOUT_DSP = "!(CPU_CORTEX_M4 || CPU_CORTEX_M7 || ARMV8_M_DSP)"
# instruction set of kernels -> Kconfig condition that is true for cores without it
WITHOUT = {"mve": "!(ARMV8_1_M_MVEI && FPU)", "m7": WITHOUT_DSP, "dsp": WITHOUT_DSP}


def zephyr(package: Package) -> Files:
    """Return the files of a package as a Zephyr module: path inside the exported folder -> content."""
    name, library = package.name, {**package.files, **library_files(package)}
    sets = {BY_NAME[variant].isa for model in package.models for variant in model.plan.variants if variant}
    values = {
        "name": name,
        "NAME": name.upper(),
        "models": ", ".join(model.name for model in package.models),
        "core": package.core,
        "imply": "\timply FPU  # without it, GCC has no MVE instructions\n" if "mve" in sets else "",
        "without": next((condition for name, condition in WITHOUT.items() if name in sets), "n"),
        "sources": "\n".join(f"      ../src/{file}" for file in sorted(library) if file.endswith(".c")),
    }
    sample = f"samples/{name}"
    build = [
        f"The sample: `west build -b BOARD {sample}` in a Zephyr workspace.",
        f"In your application: `-DZEPHYR_EXTRA_MODULES=<this folder>`, or in `west.yml`, below `projects:`, "
        f"`- {{name: {name}, url: ..., revision: ..., path: modules/lib/{name}}}`; then `CONFIG_TINYWEAVE_{name.upper()}=y`.",
    ]
    switch = f"set `CONFIG_TINYWEAVE_{name.upper()}_PROFILE=y`."
    return {
        "zephyr/module.yml": filled("zephyr/module.yml", **values),
        "zephyr/CMakeLists.txt": filled("zephyr/CMakeLists.txt", **values),
        "zephyr/Kconfig": filled("zephyr/Kconfig", **values),
        **below("src", library),
        f"{sample}/CMakeLists.txt": filled("zephyr/sample.txt", **values),
        f"{sample}/prj.conf": filled("zephyr/prj.conf", **values),
        f"{sample}/sample.yaml": filled("zephyr/sample.yaml", **values),
        f"{sample}/src/main.c": filled("zephyr/main.c", **values),
        **below(f"{sample}/src", example_files(package)),
        "README.md": readme(package, f"{name}: a Zephyr module", build, switch),
    }
