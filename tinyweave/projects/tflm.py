"""Export as a library with the C++ interface of TFLite Micro, for firmware that was written for it.

The headers and the interpreter are the same for all networks (templates/tflm). A C file describes the networks. Per network, a
file replaces the firmware's array of its .tflite file, and another the file that Edge Impulse compiled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..codegen.header import has_scale
from ..ir import CompileError
from ..support.c_names import KEYWORDS
from .arduino import arduino
from .package import Files, Package, PackagedModel, below, check_whole, filled, lines
from .readme import readme
from .zephyr import zephyr

HEAD = 64  # bytes of a file that are hashed first; TW_TFLM_HEAD in networks.h
TYPES = {"float32": "Float32", "int32": "Int32", "uint8": "UInt8", "int64": "Int64", "bool": "Bool", "int16": "Int16"}
TYPES |= {"int8": "Int8", "uint32": "UInt32", "uint16": "UInt16"}
INTERFACE = "tensorflow/lite/micro/tinyweave"
MARKERS = ("TensorFlowLite", "TensorFlowLite_ESP32", "TFLM_ESP32", "tflm_esp32", "tflm_cortexm")  # of Arduino libraries
COMMON = "tensorflow/lite/core/c/common.h"
MODULE = {"zephyr/CMakeLists.txt": "tflm/zephyr.txt", "zephyr/Kconfig": "tflm/Kconfig"}  # file -> what is appended to it
HOW = (  # what the README says before C that firmware of TFLite Micro does not need
    " as before:** your firmware keeps its interpreter, tensors and arena, which may shrink to what `arena_used_bytes()`"
    " returns, plus 16 bytes if it is not aligned to 16. **Or without an interpreter"
)
SECOND = "the same interpreter: export all models together, with an `--array` for each"
# what the firmware of 33 projects includes, by folder below tensorflow/lite/
HEADERS = {
    "": "version",
    "schema/": "schema_generated",
    "core/api/": "error_reporter",
    "kernels/internal/": "compatibility tensor_ctypes",
    "micro/": "all_ops_resolver compatibility debug_log micro_allocator micro_error_reporter micro_interpreter micro_log"
    " micro_mutable_op_resolver micro_op_resolver micro_profiler micro_profiler_interface micro_resource_variable micro_time"
    " micro_utils recording_micro_allocator recording_micro_interpreter system_setup",
    "micro/cortex_m_generic/": "debug_log_callback",
    "micro/kernels/": "add all_ops_resolver batch_matmul conv depthwise_conv ethosu fully_connected maximum_minimum"
    " micro_ops mul pad pooling softmax svdf transpose transpose_conv unidirectional_sequence_lstm",
    "micro/tflite_bridge/": "micro_error_reporter",
    "experimental/micro/": "micro_error_reporter micro_interpreter micro_mutable_op_resolver simple_tensor_allocator",
    "experimental/micro/kernels/": "all_ops_resolver micro_ops",
}


def tflm(package: Package) -> Files:
    """Return the files of a library with TFLite Micro's interface (path -> content).

    Arduino and PlatformIO find it by its folders, ESP-IDF and CMake by CMakeLists.txt, Zephyr by zephyr/module.yml.

    Raises:
        CompileError: a network streams rows or uses several memories, or the arrays are not one valid name per model.
    """
    for model in package.models:
        check_whole(model, "TFLite Micro's tensors are whole")
        _check(model)
    _check_arrays(package)
    name, library, module = package.name, _interface(package.models), zephyr(package)
    own = [path for path in library if path.endswith((".c", ".cpp"))]
    values = {
        "name": name,
        "NAME": name.upper(),
        "version": package.version,
        "models": ", ".join(model.name for model in package.models),
        "core": package.core,
        "target": package.target,
        "targets": "",
        "sources": lines([f"src/{file}" for file in [*package.sources, f"{name}_profile.c", *own]]),
        "own": lines([f"../src/{file}" for file in own]),
    }
    build = [
        f"Arduino, PlatformIO: remove TFLite Micro's library; copy this folder to `libraries/{name}` or `lib/{name}`.",
        "ESP-IDF: copy this folder to `components/esp-tflite-micro`.",
        f"CMake, Pico SDK: `add_subdirectory` with this folder; link `pico-tflmicro` or `tinyweave::{name}`.",
        "Zephyr: `-DZEPHYR_EXTRA_MODULES=<this folder>`; `CONFIG_TENSORFLOW_LITE_MICRO=y` stays.",
        "`model/` has the arrays that replace your `.tflite` files; export with `--array` if it is missing.",
        "Edge Impulse: `edge_impulse/` and the C directly in `src/` replace what it compiled, in `tflite-model/`.",
    ]
    named = list(zip(package.arrays, package.models, strict=False))
    title = f"{name}: networks with TFLite Micro's interface"
    return {
        **arduino(package),
        **module,
        **{path: str(module[path]) + filled(template, **values) for path, template in MODULE.items()},
        "CMakeLists.txt": filled("tflm/cmake.txt", **values),
        "idf_component.yml": filled("esp_idf/idf_component.yml", **values),
        "library.json": filled("tflm/library.json", **values),
        **below("src", library),
        **{f"model/{array}.cpp": _array(array, model) for array, model in named},
        **{f"edge_impulse/{array}_compiled.cpp": _edge_impulse(array, model) for array, model in named},
        "README.md": readme(package, title, build, f"define `{package.switch}`.", how=HOW, second=SECOND),
    }


def _check(model: PackagedModel) -> None:
    """Raise CompileError if an interpreter, which has one arena, cannot run a model."""
    if len(model.plan.arena) > 1:
        why = f"{model.name} uses the memories {' and '.join(model.plan.arena)}, and an interpreter has one arena"
        raise CompileError(why, "give --ram, for a plan with one memory")


def _check_arrays(package: Package) -> None:
    arrays, models = package.arrays, package.models
    if arrays and len(arrays) != len(models):
        raise CompileError(f"{len(arrays)} arrays are named for {len(models)} models", "give an --array for each")
    for array in arrays:
        if not re.fullmatch(r"[A-Za-z]\w{0,63}", array, re.ASCII) or array in KEYWORDS or arrays.count(array) > 1:
            raise CompileError(f"'{array[:64]}' cannot be the name of an array", "give the name that your firmware has for it")


def _interface(models: Sequence[PackagedModel]) -> dict[str, str]:
    """Return the files of the interface, by path below src/."""
    forward = f'#include "{INTERFACE}/tflm.h" // IWYU pragma: export\n'
    paths = [f"tensorflow/lite/{folder}{name}.h" for folder, names in HEADERS.items() for name in names.split()]
    return {
        **{f"{INTERFACE}/{name}": filled(f"tflm/{name}") for name in ("tflm.h", "tflm.cpp", "networks.h")},
        f"{INTERFACE}/networks.c": filled(
            "tflm/networks.c",
            includes="\n".join(f'#include "{model.name}.h"' for model in models),
            networks="\n".join(map(_network, models)),
            rows="".join(f"    &network_{model.name},\n" for model in models),
        ),
        COMMON: filled("tflm/common.h"),
        "tensorflow/lite/c/common.h": f'#include "{COMMON}"\n',
        **{f"{name}.h": "/* marks the library; programs include the headers below tensorflow/ */\n" for name in MARKERS},
        **dict.fromkeys(paths, forward),
    }


def _network(model: PackagedModel) -> str:
    """Return the C that describes one network: its tensors, identity, arena and functions."""
    name, graph, contents = model.name, model.plan.graph, model.contents
    ends = [("INPUT", i, graph.tensors[tensor]) for i, tensor in enumerate(graph.inputs)]
    ends += [("OUTPUT", i, graph.tensors[tensor]) for i, tensor in enumerate(graph.outputs)]
    text, rows = "", ""
    for i, (word, index, tensor) in enumerate(ends):
        macro, dims = f"{name.upper()}_{word}_{index}", f"dims_{name}_{i}"
        text += f"static const int {dims}[] = {{{', '.join(map(str, (len(tensor.shape), *tensor.shape)))}}};\n"
        kind, scale = f"kTfLite{TYPES[tensor.dtype]}", f"{macro}_SCALE, {macro}_ZERO_POINT" if has_scale(tensor) else "0.0f, 0"
        rows += f"    TW_TFLM_TENSOR(tensors_{name}, {i}, {kind}, {macro}_BYTES, {dims}, {scale}),\n"
    ((memory, _),) = model.plan.arena.items()
    kept = str(model.plan.keeps_state).lower()
    counts = f"{name.upper()}_{memory.upper()}_BYTES, {kept}, {len(graph.inputs)}, {len(graph.outputs)}"
    identity = f"{len(contents)}, 0x{fnv(contents):016x}u, 0x{fnv(contents[:HEAD]):016x}u"
    tensors = f"static const tw_tflm_tensor tensors_{name}[] = {{\n{rows}}};\n"
    return f"{text}{tensors}TW_TFLM_NETWORK({name}, {counts}, {identity});\n"


def _array(array: str, model: PackagedModel) -> str:
    """Return C++ that defines the array of a .tflite file anew: the hash by which the interpreter finds the network."""
    contents = bytes(4) + b"TFL3" + fnv(model.contents).to_bytes(8, "little")
    return filled("tflm/array.cpp", array=array, model=model.name, bytes=", ".join(f"0x{byte:02x}" for byte in contents))


def _edge_impulse(array: str, model: PackagedModel) -> str:
    """Return C++ with the functions of a network that Edge Impulse's SDK calls; its header declares the types of tensors."""
    interface = filled("tflm/networks.h").replace(COMMON, "edge-impulse-sdk/tensorflow/lite/c/common.h")
    values = {"array": array, "model": model.name, "NAME": model.name.upper(), "network": _network(model)}
    return filled("tflm/edge_impulse.cpp", interface=interface, **values)


@lru_cache(maxsize=8)  # the description and the array of a network have the hash of one file
def fnv(contents: bytes) -> int:
    """Return the FNV-1a hash of bytes, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in contents:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value
