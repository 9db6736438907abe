"""The header as an application uses it: macros, conversions, the example program, and the checks of init."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from cases.maps import heads, segmentation
from cases.strict import CPP, c99, trap
from cases.tiny import NETWORKS, activation, graph
from codegen.emitted import compile_strictly, source_of, write

from tinyweave.codegen import constants_of
from tinyweave.codegen.layer import CTYPES
from tinyweave.ir import Graph, Op, Quant, Tensor, limits
from tinyweave.ops import SPECS
from tinyweave.planning import Plan, Request, check, plan, with_fetches
from tinyweave.planning.place.place import arena_bytes, place
from tinyweave.support import toolchain

MANY = 2000  # random numbers per conversion


def in_two_memories(graph: Graph) -> Plan:
    """Return a plan with its buffers in the memories `fast` and `slow`."""
    made = plan(graph)
    dealt = [replace(buffer, memory=("fast", "slow")[index % 2]) for index, buffer in enumerate(made.buffers)]
    mine = {memory: [buffer for buffer in dealt if buffer.memory == memory] for memory in ("fast", "slow")}
    offsets = {memory: place(buffers, tries=0).offsets for memory, buffers in mine.items()}
    arena = {memory: arena_bytes(buffers, offsets[memory]) for memory, buffers in mine.items()}
    placed = {name: offset for places in offsets.values() for name, offset in places.items()}
    return check(
        replace(made, buffers=tuple(dealt), offsets=placed, arena=arena, lower_bound=place(dealt, tries=0).lower_bound)
    )


PLANS = {name: lambda make=make: plan(make()) for name, make in NETWORKS.items()}
PLANS |= {
    "two_memories": lambda: in_two_memories(NETWORKS["residual"]()),
    "segmentation": lambda: plan(segmentation(), Request(stream_inputs=True, stream_outputs=True)),
    "heads": lambda: plan(heads(), Request(stream_inputs=True, stream_outputs=True)),
}


def run(folder: Path, language: str = "c", given: str = "") -> str:
    """Build main.c with all other C files of the folder, or main.cpp alone, and return what it prints."""
    tool = toolchain.host()
    flags = [*CPP, "-Wold-style-cast", *trap(tool.name)] if language == "cpp" else c99(tool.name)
    files = [folder / "main.cpp"] if language == "cpp" else sorted(folder.glob("*.c"))
    toolchain.compile_c(tool, [*flags, "-I", folder, *files, "-o", folder / "program"])
    done = subprocess.run([folder / "program"], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize("name", PLANS)
def test_macros_describe_inputs_and_outputs(name: str, tmp_path: Path) -> None:
    made = PLANS[name]()
    (tmp_path / "m.h").write_text(source_of(made.graph, made, "m").files["m.h"])
    ends = {f"M_INPUT_{i}": made.graph.tensors[tensor] for i, tensor in enumerate(made.graph.inputs)}
    ends |= {f"M_OUTPUT_{i}": made.graph.tensors[tensor] for i, tensor in enumerate(made.graph.outputs)}
    body = ""
    for macro, tensor in ends.items():
        axes = len(tensor.shape)
        body += f"""
    {{
        static const int shape[{axes}] = {macro}_SHAPE, dims[] = {{{", ".join(f"{macro}_DIM_{axis}" for axis in range(axes))}}};
        const {CTYPES[tensor.dtype]} *const same = ({macro}_TYPE *)0;
        for (int i = 0; i < {axes}; ++i) {{
            printf("%d %d ", shape[i], dims[i]);
        }}
        printf("%d %d\\n", {macro}_ELEMENTS, same ? 0 : {macro}_BYTES);
    }}"""
    (tmp_path / "main.c").write_text(f'#include <stdio.h>\n#include "m.h"\nint main(void)\n{{{body}\n    return 0;\n}}\n')
    for tensor, line in zip(ends.values(), run(tmp_path).splitlines(), strict=True):
        wanted = [extent for axis in tensor.shape for extent in (axis, axis)] + [prod(tensor.shape), tensor.bytes]
        assert list(map(int, line.split())) == wanted


CONVERT = """
#include <inttypes.h>
#include <stdio.h>
#include "m.h"

static uint32_t bits(float x)
{
    union { float x; uint32_t bits; } of = {x};
    return of.bits;
}

int main(void)
{
    union { uint32_t bits; float x; } real;
    int32_t q16;
    while (scanf("%" SCNu32 " %" SCNd32, &real.bits, &q16) == 2) {
        printf("%d %d ", m_quantize_input_0(real.x), m_quantize_output_0(real.x));
#ifdef WITH_Q16
        printf("%d", m_quantize_input_0_q16(q16));
#endif
        puts("");
    }
    for (int q = LOW; q <= HIGH; ++q) {
        const M_OUTPUT_0_TYPE as = AS(M_OUTPUT_0_TYPE, q);
        printf("%" PRIu32, bits(m_dequantize_output_0(as)));
#ifdef WITH_Q16
        printf(" %" PRId32, m_dequantize_output_0_q16(as));
#endif
        puts("");
    }
    return 0;
}
"""
MEMORY = "static const m_memory memory = {{NULL, 0}, {file, sizeof file}};\n"
Case = tuple[str, tuple[float, int], str, tuple[float, int], bool]
CONVERTED: list[Case] = [  # types, scales and zero points of input and output; whether Q16 conversions are emitted
    ("int8", (1 / 256, -128), "uint8", (0.0235, 3), True),
    ("uint8", (0.5, 128), "int8", (3.7, 127), True),
    ("int16", (1 / 32768, 0), "int16", (0.01, 0), True),
    ("uint8", (2**-15, 0), "int8", (127.99, -128), True),  # as large as a 32-bit result allows
    ("int8", (1e-6, 5), "uint8", (2e5, 0), False),  # a step is less than 1/65536; a real number exceeds an int32
]


def tensor(name: str, dtype: str, scale: float, zero_point: int) -> Tensor:
    return replace(activation(name, (1, 4), scale, zero_point), dtype=dtype)


def reals(scale: float, seed: int) -> np.ndarray:
    """Return limits, half steps and their neighbours, NaN, infinities, and random floats."""
    rng, step = np.random.default_rng(seed), np.float32(scale)
    halves = (np.arange(-400, 401).astype(np.float32) / 2) * step
    wide = (np.array([-65536, -32769, -32768.5, -32768, 32767, 32767.5, 32768, 65535]) * step).astype(np.float32)
    beside = [np.nextafter(halves, np.float32(end), dtype=np.float32) for end in (-np.inf, np.inf)]
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45, 1.1754944e-38]
    random = (rng.normal(size=MANY) * 10.0 ** rng.integers(-8, 8, MANY)).astype(np.float32)
    return np.concatenate([halves, *beside, wide, np.array(odd, np.float32), random])


@pytest.mark.parametrize(("language", "compiler"), [("c", ""), ("cpp", ""), ("c", "zig"), ("c", "file"), ("cpp", "file")])
@pytest.mark.parametrize("case", CONVERTED, ids=lambda case: f"{case[0]}-{case[2]}-{case[3][0]:g}")
def test_conversions_equal_the_reference(
    case: Case, language: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiler "file", which is no compiler, scales and zero points are in a file of weights."""
    in_file = compiler == "file"
    monkeypatch.setenv("TINYWEAVE_CC", "" if in_file else compiler)
    source, source_quant, target, target_quant, with_q16 = case
    x, y = tensor("x", source, *source_quant), tensor("y", target, *target_quant)
    network = graph("net", [x, y], [Op("quantize_0", "quantize", ("x",), ("y",))], ("x",), ("y",))
    made = source_of(network, replace(plan(network), weights_file=in_file), "m")
    header, text = made.files["m.h"], CONVERT
    if in_file:
        text = re.sub(r"(quantize_(?:in|out)put_0(?:_q16)?\()", r"\1&memory, ", text)
        words = ", ".join(f"{word}u" for word in np.frombuffer(made.data["m.weights"], np.uint32))
        text = text.replace("int main", f"static const uint32_t file[] = {{{words}}};\n{MEMORY}int main")
    assert ("_q16(" in header) == with_q16
    (tmp_path / "m.h").write_text(header)
    low, high = limits(target)
    macros = f"#define LOW {low}\n#define HIGH {high}\n" + "#define WITH_Q16\n" * with_q16
    macros += f"#define AS(type, value) {'static_cast<type>(value)' if language == 'cpp' else '((type)(value))'}\n"
    (tmp_path / f"main.{language}").write_text(macros + text)
    real = np.concatenate([reals(t.scale, seed) for seed, t in enumerate((x, y))])
    ends = np.array([-(2**31), -(2**31) + 1, -65536, -1, 0, 1, 65536, 2**31 - 1])
    halves = np.clip(np.arange(-400, 401) * (x.scale * 65536 / 2), -(2**31), 2**31 - 1).astype(np.int64)
    random = np.random.default_rng(3).integers(-(2**31), 2**31, MANY)
    q16 = np.resize(np.concatenate([ends, halves, np.arange(-1000, 1000), random]), real.size)
    given = "".join(f"{bits} {integer}\n" for bits, integer in zip(real.view(np.uint32), q16, strict=True))
    lines = [list(map(int, line.split())) for line in run(tmp_path, language, given).splitlines()]

    def reference(kind: str, a: Tensor, b: Tensor, values: np.ndarray) -> np.ndarray:
        op = Op("convert", kind, (a.name,), (b.name,))
        return SPECS[kind].reference(Graph("convert", {a.name: a, b.name: b}, (op,), (a.name,), (b.name,)), op, [values])[0]

    floats, integers = Tensor("floats", (1, 4), "float32"), Tensor("integers", (1, 4), "int32", Quant((1 / 65536,), (0,)))
    every = np.arange(low, high + 1).astype(target)
    wanted = [reference("quantize", floats, t, real) for t in (x, y)]
    back = [reference("dequantize", y, floats, every).view(np.uint32)]
    if with_q16:
        wanted.append(reference("quantize", integers, x, q16.astype(np.int32)))
        back.append(reference("quantize", y, integers, every))
    assert np.array_equal(np.array(lines[: real.size]), np.stack(wanted, axis=1))
    assert np.array_equal(np.array(lines[real.size :]), np.stack(back, axis=1))


@pytest.mark.parametrize(("dtype", "end"), [("int8", 128.0), ("uint8", 128.0), ("int16", 0.5)])
def test_q16_conversions_are_emitted_only_if_they_fit_32_bits(dtype: str, end: float) -> None:
    """Real outputs in units of 1/65536 must fit int32, and steps of an input must be at least a unit."""
    for name, scales in (("input", (2.0**-16, 2.0**-16 * 1.001)), ("output", (end, end * 0.999))):
        for scale, there in zip(scales, (False, True), strict=True):
            x, y = tensor("x", dtype, 1.0, 0), tensor("y", dtype, 1.0, 0)
            ends = {"input": x, "output": y} | {name: tensor("xy"[name == "output"], dtype, float(scale), 0)}
            network = graph("net", [*ends.values()], [Op("quantize_0", "quantize", ("x",), ("y",))], ("x",), ("y",))
            header = source_of(network, name="m").files["m.h"]
            assert (f"quantize_{name}_0_q16(" in header) == there, (name, scale)


def example(header: str) -> str:
    """Return the example program in the header's first comment."""
    comment = header[: header.index("*/")].splitlines()
    lines = comment[comment.index(" * A whole program:") + 1 :]
    return "".join(f"{line.removeprefix(' *').removeprefix('     ')}\n" for line in lines)


READER = """\
int m_read_weights(void *context, uint32_t offset, void *destination, uint32_t bytes);
int m_read_weights(void *context, uint32_t offset, void *destination, uint32_t bytes)
{
    (void)context;
    memcpy(destination, m_weights + offset, bytes);
    return 0;
}
"""


@pytest.mark.parametrize("name", PLANS)
def test_the_program_in_the_header_runs(name: str, tmp_path: Path) -> None:
    """Also with a file of weights, which the program expects as an array, or reads by a callback."""
    for how in ("in C", "in an array", "by a callback"):
        in_file, folder = how != "in C", tmp_path / how.replace(" ", "_")
        made = replace(PLANS[name](), weights_file=in_file)
        made = with_fetches(made, constants_of(made), next(iter(made.arena)), early=True) if how == "by a callback" else made
        source = source_of(made.graph, made, "m")
        folder.mkdir()
        write(source, folder)
        program = example(source.files["m.h"])
        assert "int main(void)" in program
        (folder / "main.c").write_text(program)
        if in_file:
            values = ", ".join(map(str, source.data["m.weights"]))
            head = "#include <stdint.h>\nextern const uint8_t m_weights[];\n"
            text = f"{head}__attribute__((aligned(16))) const uint8_t m_weights[] = {{{values}}};\n"
            (folder / "array.c").write_text(f"#include <string.h>\n{text}{READER}")
        run(folder)


@pytest.mark.parametrize("name", ["chain", "two_memories"])
def test_init_refuses_a_memory_that_is_missing_misaligned_or_too_small(name: str, tmp_path: Path) -> None:
    made = PLANS[name]()
    write(source_of(made.graph, made, "m"), tmp_path)
    sizes = {memory: f"M_{memory.upper()}_BYTES" for memory in made.arena}
    arrays = "".join(
        f"static uint8_t {memory}[{size} + 1] __attribute__((aligned(M_ALIGN)));\n" for memory, size in sizes.items()
    )
    right = f"const m_memory right = {{{', '.join(f'{{{memory}, {size}}}' for memory, size in sizes.items())}}};"
    wrong = [
        f'{{ m_memory wrong = right; wrong.{memory}.{change}; printf("%d ", m_init(&wrong)); }}'
        for memory, size in sizes.items()
        for change in ("data = NULL", f"data = {memory} + 1", f"bytes = {size} - 1", "bytes = 0", f"bytes = {size} + 1")
    ]
    body = "\n    ".join([right, 'printf("%d ", m_init(&right));', *wrong, "return 0;"])
    (tmp_path / "main.c").write_text(f'#include <stdio.h>\n#include "m.h"\n{arrays}int main(void)\n{{\n    {body}\n}}\n')
    assert run(tmp_path).split() == ["0", *["-1", "-1", "-2", "-2", "0"] * len(sizes)]


def test_the_c_of_the_firmware_guide_compiles(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "FIRMWARE.md").read_text()
    code = guide[guide.index('```c\n#include "kws.h"\n') + 5 :]
    write(source_of(NETWORKS["chain"](), name="kws"), tmp_path)
    (tmp_path / "main.c").write_text(code[: code.index("```")])
    own = ("-Wno-missing-prototypes", "-Wno-missing-declarations")
    compile_strictly(toolchain.host(), tmp_path / "main.c", (*c99(toolchain.host().name), *own))
