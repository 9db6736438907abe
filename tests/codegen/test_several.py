"""Several models in one program, from one or several folders, sharing an arena."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases.strict import c99
from cases.tiny import NETWORKS
from codegen.emitted import compile_strictly, inputs_of

from tinyweave import __version__, api, ops
from tinyweave.codegen import Origin, Source, emit
from tinyweave.ir import CompileError, Graph
from tinyweave.kernels.table import FILES
from tinyweave.planning import plan
from tinyweave.support import toolchain

NAMES = ("chain", "residual", "stream")  # all have a conv_2d, and each has kernels that the others lack
COMPILERS = pytest.mark.parametrize("compiler", ["", "zig"])


def source(name: str, prefix: str = "", seen: str = "") -> Source:
    return emit(plan(NETWORKS[name]()), seen or name, Origin(f"{name}.tflite", "0" * 64), prefix)


def write(files: dict[str, str], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def main_of(graphs: dict[str, Graph], inputs: dict[str, list[np.ndarray]]) -> str:
    """Return a program that runs each model twice in one arena and prints the bytes of their outputs."""
    members = "".join(f"    uint8_t {name}[{name.upper()}_SRAM_BYTES];\n" for name in graphs)
    calls = ""
    for name, graph in graphs.items():
        values = [f"(const int8_t[]){{{', '.join(map(str, x.reshape(-1)))}}}, {x.nbytes}" for x in inputs[name]]
        fed = "".join(f"    memcpy({name}_input(&{name}_in, {i}), {x});\n" for i, x in enumerate(values))
        shown = "".join(
            f"    show((const uint8_t *){name}_output(&{name}_in, {i}), {name.upper()}_OUTPUT_{i}_BYTES);\n"
            for i in range(len(graph.outputs))
        )
        calls += f"static int run_{name}(void)\n{{\n    if ({name}_init(&{name}_in) != 0) {{\n        return 1;\n    }}\n"
        calls += (
            f"{fed}    if ({name}_invoke(&{name}_in, NULL) != 0) {{\n        return 1;\n    }}\n{shown}    return 0;\n}}\n\n"
        )
    includes = "".join(f'#include "{name}.h"\n' for name in graphs)
    memories = "".join(f"static const {n}_memory {n}_in = {{.sram = {{&arena, sizeof arena}}}};\n" for n in graphs)
    turns = " || ".join(f"run_{name}() != 0" for name in [*graphs, *graphs])
    return f"""\
#include <stdio.h>
#include <string.h>

{includes}
static union {{
{members}    int64_t align;
}} arena;

{memories}
static void show(const uint8_t *bytes, int count)
{{
    for (int i = 0; i < count; ++i) {{
        printf("%02x", bytes[i]);
    }}
    puts("");
}}

{calls}int main(void)
{{
    return {turns};
}}
"""


def check_outputs(folders: list[Path], tmp_path: Path) -> None:
    """Check that the C files of all folders, built into one program, give the reference's outputs."""
    graphs = {name: NETWORKS[name]() for name in NAMES}
    inputs = {name: inputs_of(graph) for name, graph in graphs.items()}
    (tmp_path / "main.c").write_text(main_of(graphs, inputs))
    compiler = toolchain.host()
    paths = [path for folder in folders for path in sorted(folder.glob("*.c"))]
    include = [word for folder in folders for word in ("-I", folder)]
    toolchain.compile_c(compiler, [*c99(compiler.name), *include, tmp_path / "main.c", *paths, "-o", tmp_path / "program"])
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout.split()
    wanted = []
    for name, graph in graphs.items():
        outputs = ops.run(graph, dict(zip(graph.inputs, inputs[name], strict=True)))
        wanted += [outputs[output].tobytes().hex() for output in graph.outputs]
    assert said == wanted * 2, "each model begins anew with init, whoever used the arena before"


@COMPILERS
def test_models_of_one_folder_share_kernels_and_an_arena(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYWEAVE_CC", compiler)
    files = api.merge_files([source(name) for name in NAMES])
    check_outputs([write(files, tmp_path / "models")], tmp_path)


@COMPILERS
def test_models_of_several_folders_with_kernel_prefixes_link(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYWEAVE_CC", compiler)
    check_outputs([write(dict(source(name, f"k{name}").files), tmp_path / name) for name in NAMES], tmp_path)


def test_the_file_of_a_kernel_does_not_depend_on_the_model(tmp_path: Path) -> None:
    """Therefore folders of one version can be merged."""
    files = [dict(source(name).files) for name in NAMES]
    shared = set(files[0]) & set(files[1])
    assert "tw_conv_2d_s8.c" in shared
    assert all(files[0][name] == files[1][name] for name in shared)


@pytest.mark.parametrize("prefix", ["", "kws"])
def test_kernels_of_another_version_do_not_compile(prefix: str, tmp_path: Path) -> None:
    folder = write(dict(source("chain", prefix).files), tmp_path / "chain")
    shared = folder / ("kws_tw.h" if prefix else "tw.h")
    number = int("".join(part.zfill(2) for part in __version__.split(".")))
    assert re.search(rf"^#define {'KWS_' if prefix else ''}TW_VERSION {number}$", shared.read_text(), re.MULTILINE)
    compile_strictly(toolchain.host(), folder / "chain.c")
    shared.write_text(shared.read_text().replace(f"TW_VERSION {number}", f"TW_VERSION {number + 1}"))
    with pytest.raises(
        AssertionError, match=f"chain.c was generated by tinyweave {__version__}, but these kernels are of another version"
    ):
        compile_strictly(toolchain.host(), folder / "chain.c")


def test_exactly_the_names_of_kernels_get_the_prefix() -> None:
    plain, prefixed = source("chain"), source("chain", "kws")
    assert {name for name in prefixed.files if name not in prefixed.own} == {
        f"kws_{n}" for n in plain.files if n not in plain.own
    }
    for name in plain.files:
        text = prefixed.files[name if name in plain.own else f"kws_{name}"]
        left = set(re.findall(r"(?<!kws_)\btw_\w+|(?<!KWS_)\bTW_\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))
        assert left <= {"TW_TRACE", "TW_PLAIN_C"}, name
        assert text.replace("kws_tw", "tw").replace("KWS_TW", "TW") == plain.files[name]
    commented = source("chain", seen="chain").files["chain.h"]
    assert commented == prefixed.files["chain.h"], "a header of a model has no kernels in it"


def test_every_external_kernel_function_and_table_begins_with_tw() -> None:
    """All others are static."""
    for path in (path for path in FILES.values() if path.suffix == ".c"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        functions = re.findall(
            r"^(?!static|TW_(?:NOT_)?INLINE|typedef|#|\s)[\w *]+?\b([a-z]\w*)\([^;]*?\)[\n ]\{", text, re.MULTILINE
        )
        functions += re.findall(r"^const \w+ (\w+)\[", text, re.MULTILINE)
        functions += re.findall(r"^TW_(?:\w*FORMS?\w*|TAPS_KERNEL|TAPS_OUTPUTS)\((\w+)", text, re.MULTILINE)
        assert functions and all(name.startswith("tw_") for name in functions), path.name


@pytest.mark.parametrize("prefix", ["KWS", "1st", "int", "a-b", "x" * 33, "tw_", "tw"])
def test_a_prefix_that_is_not_a_c_name_is_refused(prefix: str) -> None:
    with pytest.raises(CompileError, match="cannot be a prefix of kernel names"):
        source("chain", prefix)


def test_models_with_files_of_one_name_are_refused() -> None:
    with pytest.raises(CompileError, match=r"both have a file same\.c"):
        api.merge_files([source("chain", seen="same"), source("residual", seen="same")])
    with pytest.raises(CompileError, match=r"both have a file same_weights\.h"):
        api.merge_files([source("chain", seen="same"), source("residual", seen="same_weights")])
    with pytest.raises(CompileError, match="has the name of a kernel's file"):
        source("chain", "kws", seen="kws_tw")


def test_the_arena_of_the_guide_compiles(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "FIRMWARE.md").read_text()
    code = guide[guide.index('```c\n#include "kws.h"\n#include "vww.h"') + 5 :]
    write(dict(source("chain", seen="kws").files) | dict(source("stream", seen="vww").files), tmp_path)
    use = "int main(void)\n{\n    return kws_init(&for_kws) || vww_init(&for_vww);\n}\n"
    (tmp_path / "main.c").write_text(f"{code[: code.index('```')]}\n{use}")
    compile_strictly(toolchain.host(), tmp_path / "main.c")
