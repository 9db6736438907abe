"""Export as HTML pages that run the networks: a file for each, with its C as WebAssembly and all that it needs.

The C is compiled by zig. Bytes are those of a core, because the C is: the page runs the samples of the package, and says so.
"""

from __future__ import annotations

import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from ..codegen.buffers import buffer_records
from ..codegen.header import has_scale
from ..ir import CompileError, Tensor
from ..simulate.run import FOLDER
from ..support import toolchain
from ..support.page import filled as page
from .example import memory_includes
from .package import Files, Package, PackagedModel, arena, below, check_whole, filled, memory_name
from .readme import readme

FUNCTIONS = ("memories", "init", "reset", "input", "output", "invoke")
FLAGS = [
    *("-target", "wasm32-freestanding", "-mbulk-memory", "-std=c99", "-O2", "-DTW_PLAIN_C", "-fno-sanitize=all", "-s"),
    *("-nostdlib", "-Wl,--no-entry", *(f"-Wl,--export=tw_page_{name}" for name in FUNCTIONS)),
]
DTYPES = ("int8", "uint8", "int16", "int32", "float32", "bool")  # that the page can show


def web(package: Package) -> Files:
    """Return the pages of a package, and the C that they run (path -> content).

    Raises:
        CompileError: zig is not installed, a network streams rows or has no input, or a page cannot show the type of an end.
    """
    for model in package.models:
        check_whole(model, "the page's inputs and outputs are whole")
        if not model.plan.graph.inputs:
            raise CompileError(f"{model.name} has no input", "choose another --format")
    pages = {f"{model.name}.html": _page(package, model) for model in package.models}
    build = [f"Open `{name}` in a browser: it is one file, needs no network, and sends nothing." for name in pages]
    use = "The page runs samples, a camera, a microphone or files, and says whether every output byte of the samples is right."
    return {
        **pages,
        **below("src", package.files),
        "README.md": readme(package, f"{package.name}: a web page", build, use=use, second=""),
    }


def wasm(package: Package, model: PackagedModel) -> bytes:
    """Return the C of one model of a package as WebAssembly, which is cached."""
    glue = filled(
        "web/glue.c",
        name=model.name,
        includes="\n".join(memory_includes(model)),
        arena=arena(model),
        memory=memory_name(model),
    )
    compiler, flags = toolchain.zig(), [*FLAGS, f"-DTW_TRACE={model.name}_page_trace"]
    with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
        for name, text in {**package.files, "tw_page.c": glue}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        files = [*sorted(Path(folder).iterdir()), FOLDER / "runtime.c", FOLDER / "include" / "string.h"]
        sources = [path for path in files if path.suffix == ".c"]
        words: list[str | Path] = [*flags, "-idirafter", FOLDER / "include", "-I", Path(folder), *sources, "-o"]
        name = f"{model.name}.wasm"
        built = toolchain.cached(name, compiler, flags, files, lambda path: toolchain.compile_c(compiler, [*words, path]))
        return built.read_bytes()


def _page(package: Package, model: PackagedModel) -> str:
    """Return the page of one model."""
    plan, built = model.plan, wasm(package, model)
    data = {
        "record": _record(model),
        "target": package.target,
        "costs": model.costs,
        "classes": model.classes,
        "prepared": model.preparation,
        "samples": [
            {key: [_text(raw) for raw in getattr(trial, key)] for key in ("inputs", "outputs")} for trial in model.trials
        ],
        **{key: [_end(plan.graph.tensors[name]) for name in getattr(plan.graph, key)] for key in ("inputs", "outputs")},
        "bytes": len(built),
        "wasm": _text(built),
    }
    run = "'unsafe-inline' 'wasm-unsafe-eval'"
    return page(f"{model.name} - tinyweave", filled("web/page.js"), data, style=filled("web/page.css"), scripts=run)


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


def _end(tensor: Tensor) -> dict[str, Any]:
    """Return what the page needs to know of an input or output."""
    if tensor.dtype not in DTYPES:
        raise CompileError(f"a page cannot show '{tensor.name}', which is {tensor.dtype}", "choose another --format")
    scaled = has_scale(tensor)
    about = {"name": tensor.name, "dtype": tensor.dtype, "shape": tensor.shape, "elements": tensor.elements}
    return about | {"scale": tensor.scale if scaled else 1, "zero": tensor.zero_point if scaled else 0}


def _record(model: PackagedModel) -> dict[str, Any]:
    """Return those keys of a report's record (docs/JSON.md) with which draw.js draws the memory of a plan."""
    plan, ops = model.plan, model.plan.graph.ops
    steps = enumerate(plan.stages)
    return {
        "model": {"name": model.name},
        "plan": {"steps": len(plan.stages)},
        "ram": {"memories": dict(plan.arena)},
        "layers": [{"name": ops[index].name, "step": step, "macs": 0} for step, stage in steps for index in stage.ops],
        "buffers": buffer_records(plan),
    }
