"""Firmware that was written for TFLite Micro builds with the export of format tflm, and its outputs are the reference's."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from projects.export import STUBS, cmake, export, kconfig, model, needs, run, samples

import tinyweave as tw
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import Graph, Op, Quant, Tensor, verify
from tinyweave.projects import tflm
from tinyweave.simulate.cores import CORES

PROGRAMS = STUBS / "tflm"
FIRMWARE = ("-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")
INTERFACE = Path("src") / tflm.INTERFACE
RAN = (
    "input: INT8, 64 bytes, 4 axes, the last 1, scale 20000/1000000, zero -128\n"
    "output: INT8, 3 bytes, 2 axes, the last 3, scale 3906/1000000, zero -128\n"
    "used {} and {}, tensors 2 and 2\nwrong outputs: 0\n"
)


def library(folder: Path, device: str = "cortex-m4", **options: Any) -> Path:
    """Export two networks, one of which keeps state, with the arrays g_chain and g_stream."""
    networks = [model("chain"), model("stream")]
    tw.export(networks, device, out=folder, format="tflm", package="nets", array=["g_chain", "g_stream"], **options)
    return folder


@cache
def built(weights: str = "flash") -> Path:
    """Return a library's folder with object files for this machine, which all tests share."""
    needs("gcc", "g++")
    folder = library(Path(mkdtemp(prefix="tinyweave-test-")), inputs=samples("chain", 4), weights=weights)
    flags = ("-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-I", folder / "src", "-c")
    run("gcc", "-std=c99", *flags, "-DTW_PLAIN_C", *(folder / "src").rglob("*.c"), cwd=folder)
    run("g++", "-std=c++11", *FIRMWARE, *flags, *(folder / "src").rglob("*.cpp"), *(folder / "model").glob("*.cpp"), cwd=folder)
    return folder


def printed(program: str, out: Path, *words: str | Path, standard: str = "-std=c++11", weights: str = "flash") -> str:
    """Build a program with the library, and return what it prints, without carriage returns."""
    folder = built(weights)
    include = ("-I", folder / "src", "-I", folder / "examples" / "nets")
    run("g++", standard, *FIRMWARE, *include, PROGRAMS / program, *folder.glob("*.o"), "-o", out / "program")
    return run(out / "program", *words).replace("\r", "")


def used(network: str) -> int:
    """Return the bytes of a network's arena, rounded up as the interpreter does."""
    return -(-sum(tw.plan(model(network), "cortex-m4").arena.values()) // 16) * 16


def test_firmware_gives_the_reference_bytes(tmp_path: Path) -> None:
    assert printed("firmware.cc", tmp_path) == RAN.format(used("chain"), used("stream"))


@pytest.mark.emulator
@pytest.mark.parametrize("board", ["mps2-an386", "mps3-an547"])
def test_firmware_gives_the_reference_bytes_on_a_core(board: str, tmp_path: Path) -> None:
    needs("arm-none-eabi-g++", "arm-none-eabi-gcc", "qemu-system-arm")
    folder = library(tmp_path / "a", board, inputs=samples("chain", 4))
    start = export(tmp_path / "start", "cmake", device=board) / "firmware"
    flags = [*CORES[tw.devices.find(board).core].gcc, "-O2", "-DTW_FIRMWARE", "-ffunction-sections", "-I", folder / "src"]
    run("arm-none-eabi-gcc", *flags, "-c", *(folder / "src").rglob("*.c"), start / "startup.c", cwd=tmp_path)
    files = [PROGRAMS / "firmware.cc", *(folder / "src").rglob("*.cpp"), *(folder / "model").glob("*.cpp")]
    link = ["-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs", "-Wl,--gc-sections", "-T", start / f"{board}.ld"]
    words = [*flags, "-std=c++11", *FIRMWARE, "-I", folder / "examples" / "nets", *files, *tmp_path.glob("*.o"), *link]
    run("arm-none-eabi-gcc", *words, "-o", tmp_path / "firmware.elf")  # which links without the library of C++
    said = run("qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-kernel", tmp_path / "firmware.elf")
    assert re.sub(r"used \d+ and \d+", "used {} and {}", said.replace("\r", "")) == RAN


@pytest.mark.parametrize("standard", ["-std=c++11", "-std=c++17", "-std=c++20"])
def test_all_forms_of_the_constructor_since_2019_run(standard: str, tmp_path: Path) -> None:
    lines = printed("forms.cc", tmp_path, standard=standard).splitlines()
    assert lines[-1] == "15 interpreters ran, 0 failures"
    assert re.fullmatch(r"tinyweave: \d+ B of arena: 96 B activations, \d+ B kept", lines[0])
    assert lines[1:4] == ["chain: 3 calls, 21 ticks", "reported 16 of INT4", "version 3"]


@pytest.mark.parametrize("weights", ["flash", "ram"])
def test_interpreters_share_arenas_and_keep_their_state(weights: str, tmp_path: Path) -> None:
    lines = [
        line for line in printed("sharing.cc", tmp_path, weights=weights).splitlines() if not line.startswith("tinyweave: ")
    ]
    assert lines == [
        "the state counts: 1",
        "it goes on: 1",
        "and begins anew after Reset: 1",
        "and after AllocateTensors: 1",
        "and in a new interpreter: 1",
        "one arena for three: 1, twin 1",
        "activations are shared: 1",
        f"one arena by address: 1, shared by {3 if weights == 'flash' else 1}",
        "exact arenas: 34 enough, 2 too small, 0 failures",
    ]


def test_edge_impulses_sdk_calls_the_network_of_a_compiled_file(tmp_path: Path) -> None:
    """The SDK's header of tensors is the export's here. All functions fail before init and after reset."""
    folder, sdk = built(), tmp_path / "edge-impulse-sdk" / "tensorflow" / "lite" / "c"
    sdk.mkdir(parents=True)
    (sdk / "common.h").write_text(f'#include "{tflm.COMMON}"\n')
    parts = ["edge_impulse/g_chain_compiled.cpp", "edge_impulse/g_stream_compiled.cpp"]
    files = [PROGRAMS / "edge_impulse.cc", *(folder / part for part in parts)]
    kernels = [path for path in folder.glob("*.o") if path.stem not in ("tflm", "networks", "g_chain", "g_stream")]
    include = ("-I", tmp_path, "-I", folder / "src", "-I", folder / "examples" / "nets")
    run("g++", "-std=c++11", *FIRMWARE, *include, *files, *kernels, "-fsanitize=address", "-o", tmp_path / "program")
    chain, stream = (sum(tw.plan(model(name), "cortex-m4").arena.values()) for name in ("chain", "stream"))
    assert run(tmp_path / "program").splitlines() == [
        f"chain: {chain} B aligned to 4, input INT8[1, 8, 8, 1] 0.020000 -128, 4 inferences, 0 wrong, 12 refused, 0 B kept",
        f"stream: {stream} B aligned to 4, input INT8[1, 1, 1, 4] 0.050000 -128, 1 inferences, 0 wrong, 12 refused, 0 B kept",
    ]


def test_each_fault_is_an_error_with_a_message(tmp_path: Path) -> None:
    """The model's own file is recognised, too; a file that differs in one byte is not."""
    file, other = tmp_path / "chain.tflite", tmp_path / "other.tflite"
    contents = model("chain").file
    file.write_bytes(contents)
    other.write_bytes(model("residual").file)
    hashes = {name: f"{tflm.fnv(model(name).file):016x}" for name in ("chain", "stream")}
    heads = {name: f"{tflm.fnv(model(name).file[: tflm.HEAD]):016x}" for name in ("chain", "stream", "residual")}
    hint = "  Export this model: tinyweave export MODEL --format tflm"

    def unknown(kind: str, given: str, known: dict[str, str]) -> list[str]:
        text = f"tinyweave: the model ({kind}: {given}) is not in this library, which has"
        return 2 * [text, *(f"  {name}: {known[name]}" for name in hashes), hint]

    changed = bytearray(bytes.fromhex(hashes["chain"])[::-1])
    changed[0] ^= 1
    need, sizes = used("chain"), r"tinyweave: chain needs (\d+) bytes of arena, but (\d+) are left; make the arena larger"
    lines = printed("errors.cc", tmp_path, file, str(len(contents)), other).splitlines()
    (least,) = {int(found[1]) for found in map(re.compile(sizes).fullmatch, lines) if found}
    too_small = [f"tinyweave: chain needs {least} bytes of arena, but {{}} are left; make the arena larger"]
    assert need < least <= need + 2 * 80
    assert lines == [
        *("the file itself:", "status 0, Invoke 0, 1 inputs"),
        *("a file with other weights:", *unknown("first 64 bytes", heads["chain"], heads), "status 1, Invoke 1, 0 inputs"),
        *("another file:", *unknown("first 64 bytes", heads["residual"], heads), "status 1, Invoke 1, 0 inputs"),
        *("another array:", *unknown("array", bytes(changed)[::-1].hex(), hashes), "status 1, Invoke 1, 0 inputs"),
        *("no model:", *(2 * ["tinyweave: the model is no .tflite file"]), "status 1, Invoke 1, 0 inputs"),
        *("no pointer:", *(2 * ["tinyweave: the model is no .tflite file"]), "status 1, Invoke 1, 0 inputs"),
        "tensors preserved:",
        *(2 * ["tinyweave: tensors inside the network cannot be preserved; leave out preserve_all_tensors"]),
        "status 1, Invoke 1, 1 inputs",
        *("a small arena:", *(2 * [too_small[0].format(160)]), "status 1, Invoke 1, 1 inputs"),
        *("no arena:", *(2 * [too_small[0].format(0)]), "status 1, Invoke 1, 1 inputs"),
        *("no allocator:", too_small[0].format(0), "status 1, Reset 1, used 0"),
        *("tinyweave: input 0 has no place before AllocateTensors()", "before AllocateTensors: 1"),
        *("tinyweave: there is no input 1, but 1", "tinyweave: there is no output 7, but 1", "out of range: 1 1"),
        *("tinyweave: RFFT is op 2 of a resolver for 1; raise its number", "resolver: 0 1"),
    ]


def test_every_header_compiles_alone_and_the_types_compile_as_c(tmp_path: Path) -> None:
    folder = built()
    headers = sorted((folder / "src" / "tensorflow").rglob("*.h"))
    assert len(headers) > 40
    for index, header in enumerate(headers):
        (tmp_path / f"{index}.cc").write_text(f'#include "{header.relative_to(folder / "src")}"\nint main() {{ return 0; }}\n')
    run("g++", "-std=c++11", *FIRMWARE, "-I", folder / "src", "-fsyntax-only", *tmp_path.glob("*.cc"))
    text = '#include "tensorflow/lite/c/common.h"\nint main(void) { TfLiteTensor t = {0}; return t.data.int8 != NULL; }\n'
    (tmp_path / "types.c").write_text(text)
    run("gcc", *"-std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I".split(), folder / "src", tmp_path / "types.c")
    (tmp_path / "mixed.cc").write_text(f"#define TENSORFLOW_LITE_CORE_C_COMMON_H_\n{(tmp_path / '0.cc').read_text()}")
    with pytest.raises(AssertionError, match="TFLite Micro's own headers are in the include path, too: remove the old library"):
        run("g++", "-I", folder / "src", "-fsyntax-only", tmp_path / "mixed.cc")


@pytest.mark.parametrize(
    "line",
    [
        "interpreter.GetTensor(0);",
        "interpreter.SetMicroExternalContext(nullptr);",
        "interpreter.AllocateTensors(true);",
        "model->subgraphs();",
        "model->metadata();",
        "model->buffers();",
        "model->operator_codes();",
        "GreedyMemoryPlanner planner;",
        "resolver.FindOp(tflite::BuiltinOperator_ADD);",
        "TFLMRegistration own; own.init = nullptr;",
        "tflite::MicroInterpreter wrong(model, resolver, arena, 99, &model);",
        "",
    ],
)
def test_what_an_ahead_of_time_compiler_cannot_do_is_an_error_of_the_c_compiler(line: str, tmp_path: Path) -> None:
    """Firmware relies on the headers of C++ that TFLite Micro's headers include."""
    head = '#include "tensorflow/lite/micro/micro_interpreter.h"\nusing namespace tflite;\nextern unsigned char g_chain[];\n'
    body = "const Model *model = GetModel(g_chain); AllOpsResolver resolver; static uint8_t arena[99];\n"
    body += "MicroInterpreter interpreter(model, resolver, arena, 99);\n"
    body += "std::vector<int8_t> v(9); memset(&v[0], 0, 9); std::unique_ptr<std::string> s; v[0] = std::min(v[0], v[1]);\n"
    (tmp_path / "own.cc").write_text(f"{head}int main() {{\n{body}{line}\n}}\n")
    words = ["g++", "-std=c++11", "-fsyntax-only", "-I", str(built() / "src"), str(tmp_path / "own.cc")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (line == ""), done.stderr


def test_the_array_of_a_file_has_the_names_of_its_length(tmp_path: Path) -> None:
    text, right = (built() / "model" / "g_chain.cpp").read_text(), tflm.fnv(model("chain").file)
    assert re.search(r"\bg_chain_len\b.*\bg_chain_size\b", text)
    written = bytes(int(byte, 16) for byte in re.findall(r"0x([0-9a-f]{2})\b", text))
    assert written == bytes(4) + b"TFL3" + right.to_bytes(8, "little")
    assert not (export(tmp_path / "a", "tflm") / "model").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream_inputs": True}, "chain streams rows, and TFLite Micro's tensors are whole; leave out stream_inputs"),
        ({"array": ["a", "b"]}, "2 arrays are named for 1 models; give an array for each"),
        ({"array": "g-model"}, "'g-model' cannot be the name of an array"),
        ({"array": ["while"]}, "'while' cannot be the name of an array"),
        ({"array": ["../g"]}, "cannot be the name of an array"),
        ({"package": "arduino_nets"}, "must not begin with Arduino"),
    ],
)
def test_a_refused_export_writes_nothing(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(tw.CompileError, match=re.escape(said)):
        export(tmp_path / "a", "tflm", **options)
    assert not (tmp_path / "a").exists()


def test_two_memories_and_an_array_of_another_format_are_refused(tmp_path: Path) -> None:
    memory = '[[memory]]\nname = "{}"\nkind = "{}"\naddress = {}\nbytes = 64\n'
    board = tmp_path / "board.toml"
    facts = 'name = "small"\ncore = "cortex-m7"\nclock_hz = 1000000\n'
    board.write_text(facts + memory.format("dtcm", "dtcm", 0x20000000) + memory.format("axi", "sram", 0x24000000))
    with pytest.raises(
        tw.CompileError, match="chain uses the memories dtcm and axi, and an interpreter has one arena; give ram"
    ):
        export(tmp_path / "a", "tflm", device=str(board))
    with pytest.raises(tw.CompileError, match="'riot' writes no array of the model's file; leave out array, or give tflm"):
        export(tmp_path / "a", "riot", array=["g_model"])
    assert not (tmp_path / "a").exists()


def test_a_custom_op_and_a_float_network_are_refused(tmp_path: Path) -> None:
    """Ops of accelerators and of signal processing are custom ops."""
    file = tmp_path / "net.tflite"
    q, one = Quant((0.5,), (3,)), Op("softplus_0", "softplus", ("x",), ("y",), {"beta": 2.0, "threshold": 20.0})
    tensors = {name: Tensor(name, (1, 4), "int8", q) for name in "xy"}
    file.write_bytes(
        to_tflite(verify(Graph("net", tensors, (one,), ("x",), ("y",)))).replace(b"tinyweave.softplus", b"SignalAccelerator1")
    )
    with pytest.raises(tw.CompileError, match="custom SignalAccelerator1 are not supported"):
        tw.export(file, out=tmp_path / "a", format="tflm")
    floats = {name: Tensor(name, (1, 4), "float32") for name in "xy"}
    file.write_bytes(to_tflite(verify(Graph("net", floats, (Op("abs_0", "abs", ("x",), ("y",)),), ("x",), ("y",)))))
    with pytest.raises(tw.CompileError, match="it is a float model: 1 op computes on float32; make it int8 with"):
        tw.export(file, out=tmp_path / "a", format="tflm")
    assert not (tmp_path / "a").exists()


def test_other_cmake_projects_link_the_library_by_the_names_of_the_old_one(tmp_path: Path) -> None:
    needs("g++")
    library(tmp_path / "user" / "nets", inputs=samples("chain", 4))
    (tmp_path / "user" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C CXX)\nadd_subdirectory(nets)\n"
        f"add_executable(user {PROGRAMS / 'firmware.cc'} nets/model/g_chain.cpp nets/model/g_stream.cpp)\n"
        "target_include_directories(user PRIVATE nets/examples/nets)\ntarget_link_libraries(user PRIVATE pico-tflmicro)\n"
    )
    cmake(tmp_path / "user", tmp_path / "b", CXXFLAGS="-Wall -Wextra -Werror")
    assert run(tmp_path / "b" / "user").replace("\r", "") == RAN.format(used("chain"), used("stream"))


def test_the_files_of_the_build_systems_name_existing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = library(tmp_path / "nets")
    for file in ("CMakeLists.txt", "zephyr/CMakeLists.txt"):
        named = re.findall(r"^\s+(\S+\.(?:c|cpp))\)?$", (folder / file).read_text(), re.MULTILINE)
        found = {((folder / file).parent / name).resolve() for name in named}
        assert found == {path.resolve() for path in (folder / "src").rglob("*") if path.suffix in (".c", ".cpp")}
    monkeypatch.setenv("MODULE", str(folder))
    config = kconfig(STUBS / "zephyr" / "Kconfig")
    assert config.syms["TINYWEAVE_NETS"].str_value == "n"
    assert config.syms["TENSORFLOW_LITE_MICRO"].set_value("y") and config.syms["TINYWEAVE_NETS"].str_value == "y"


def test_the_readme_leaves_the_firmware_as_it_is(tmp_path: Path) -> None:
    """It showed only the C of a network, as the other exports do."""
    assert "**Use as before:** your firmware keeps its interpreter" in (export(tmp_path, "tflm") / "README.md").read_text()
