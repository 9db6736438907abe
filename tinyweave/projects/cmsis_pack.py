"""Export as a CMSIS-Pack, as a folder and zipped, and as a csolution project with an example."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from .. import __version__
from ..ir import CompileError
from ..kernels.table import foreign
from .example import example_files, library_files
from .linker_scripts import place_files
from .package import Files, Package, below, filled
from .readme import readme

# core -> device of the pack ARM::Cortex_DFP
DEVICES = {
    "cortex-m0": "ARMCM0",
    "cortex-m0plus": "ARMCM0P",
    "cortex-m3": "ARMCM3",
    "cortex-m4": "ARMCM4",
    "cortex-m7": "ARMCM7",
    "cortex-m33": "ARMCM33",
    "cortex-m55": "ARMCM55",
    "cortex-m85": "ARMCM85",
}
EPOCH = (1980, 1, 1, 0, 0, 0)  # date of all files in the archive, so that equal files make equal archives


def cmsis_pack(package: Package) -> Files:
    """Return the files of a CMSIS-Pack and a csolution project; raise CompileError if the core is not a Cortex-M."""
    if package.core not in DEVICES:
        raise CompileError(f"a CMSIS-Pack is for Cortex-M, and {package.target} is none", "give another --format")
    name, library = package.name, {**package.files, **library_files(package)}
    sources, headers = (sorted(file for file in library if file.endswith(kind)) for kind in (".c", ".h"))
    public = {*package.headers, f"{name}_profile.h"}
    listed = [f'        <file category="header" name="src/{file}"/>' for file in headers if file in public]
    listed += [f'        <file category="source" name="src/{file}"/>' for file in sources]
    variants = [kernel for model in package.models for kernel in model.plan.variants]
    cores = [core for core in DEVICES if not foreign(variants, core)]
    values = {
        "name": name,
        "cores": "\n".join(f'      <accept Dcore="{core.title().replace("plus", "+")}"/>' for core in cores),
        "version": package.version,
        "tinyweave": __version__,
        "models": ", ".join(model.name for model in package.models),
        "target": package.target,
        "core": package.core,
        "device": DEVICES[package.core],
    }
    build = [
        f"`cpackget add tinyweave.{name}.{package.version}.pack`, then the component `Machine Learning:tinyweave:{name}`.",
        f"Without it: `cbuild {name}.csolution.yml --packs` builds the example; your project takes `{name}.clayer.yml`.",
    ]
    switch = f"build `{name}.profile+board`, or define `{package.switch}`."
    layered = "\n".join(f"        - file: src/{file}" for file in [*sources, *headers])
    pack: Files = {
        f"tinyweave.{name}.pdsc": filled("cmsis_pack/package.pdsc", **values, files="\n".join(listed)),
        "README.md": readme(package, f"{name}: a CMSIS-Pack", build, switch),
        "LICENSE": filled("LICENSE"),
        **below("src", library),
        **place_files(package),
        f"{name}.csolution.yml": filled("cmsis_pack/csolution.yml", **values),
        f"{name}.cproject.yml": filled("cmsis_pack/cproject.yml", **values),
        f"{name}.clayer.yml": filled("cmsis_pack/clayer.yml", **values, files=layered),
        "example/main.c": filled("cmsis_pack/main.c", **values),
        **below("example", example_files(package)),
    }
    return {**pack, f"tinyweave.{name}.{package.version}.pack": _zipped(pack)}


def _zipped(files: Mapping[str, str | bytes]) -> bytes:
    """Return files as a zip archive; equal files give equal bytes."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, files[name])
    return archive.getvalue()
