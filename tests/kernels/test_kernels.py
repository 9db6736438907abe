"""Properties of the C kernels: warnings, C++, line buffers, in-place runs, and what the table declares."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cases.strict import CPP, INCLUDE, WARNINGS, c99
from codegen.declarations import declarations
from kernels import on_core, ring_calls, ring_views, variant_pairs

from tinyweave.ir import Graph, Op, Tensor, itemsize
from tinyweave.kernels.access import overlap_distances
from tinyweave.kernels.dsp import dense, winograd
from tinyweave.kernels.table import BY_NAME, FILES, VARIANTS
from tinyweave.kernels.variant import ANY, S8
from tinyweave.simulate import emulated
from tinyweave.simulate.run import FOLDER as SIMULATE

PLAIN = "-DTW_PLAIN_C"  # plain C for instructions that the compiler's target lacks
ZIG = (sys.executable, "-m", "ziglang", "cc") if importlib.util.find_spec("ziglang") else ()
THUMB = ("-ffreestanding", "-mthumb")
BARE = ("-isystem", str(SIMULATE / "include"))  # <string.h> for a target without a C library
COMPILERS = {
    "gcc": ("gcc",),
    "clang": ("clang",),
    "zig": ZIG,
    "arm m0": ("arm-none-eabi-gcc", "-mcpu=cortex-m0", *THUMB),
    "arm m3": ("arm-none-eabi-gcc", "-mcpu=cortex-m3", *THUMB),
    "zig m3": (*ZIG, "-target", "thumb-freestanding-eabi", "-mcpu=cortex_m3", *THUMB, *BARE) if ZIG else (),
    "arm m4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", *THUMB),
    "zig m4": (*ZIG, "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp", *THUMB, *BARE) if ZIG else (),
    "arm m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mfpu=auto", "-mfloat-abi=hard", *THUMB),
    "zig m55": (*ZIG, "-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55+mve+fp_armv8d16", *THUMB, *BARE) if ZIG else (),
}
READ = ("-O0", "-fno-sanitize=undefined", "-c")  # clang warns while parsing, gcc also while optimising
C_FILES = [path for path in FILES.values() if path.suffix == ".c"]
FOR_ALL = ("gcc", "clang", "zig", "arm m4")  # compilers that read all files; others read files that depend on the core
UNOPTIMISED = (*WARNINGS, "-O0")  # sanitizers find as much, and unrolled loops build ten times as fast
TWINS, TWINS_OF_M7 = 80, 20  # trials of each fast kernel
ON_CORE = 60  # trials of each kernel on its core
IN_SWEEPS = 220, 140  # trials in sweeps of each fast kernel, and of each on its core, with another seed
SEED = int(os.environ.get("TINYWEAVE_SEED", "1"))


HEADERS = "".join(declarations(name) for name in FILES if name.endswith(".h"))


def compiler(name: str) -> tuple[str, ...]:
    command = COMPILERS[name]
    if not command or not shutil.which(command[0]):
        pytest.skip(f"{name} is not installed")
    return command


def run(command: list[str | Path], **options: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr[-3000:]
    assert not done.stderr.strip(), done.stderr[-3000:]


def includes(path: Path) -> set[Path]:
    """Return a file and all files of the package that it includes."""
    named = (FILES[name] for name in re.findall(r'#include "([^"]+)"', path.read_text()) if name in FILES)
    return {path}.union(*map(includes, named))


def is_for_some_cores(path: Path) -> bool:
    """Return whether the preprocessed file depends on the core."""
    return any(re.search(r"__ARM_|__riscv|__thumb", each.read_text()) for each in includes(path))


@pytest.mark.parametrize("name", COMPILERS)
def test_kernels_compile_without_warnings(name: str, tmp_path: Path) -> None:
    command = compiler(name)
    how = ("-O2", "-c") if "gcc" in command[0] else READ
    files = C_FILES if name in FOR_ALL else list(filter(is_for_some_cores, C_FILES))
    assert len(files) >= 30
    run([*command, *c99(command[0]), *INCLUDE, *how, PLAIN, *files], cwd=tmp_path)


@pytest.mark.parametrize("name", ["arm m3", "arm m4"])
def test_assembly_compiles_without_optimisation(name: str, tmp_path: Path) -> None:
    """A debug build keeps fewer registers free for asm statements."""
    command = compiler(name)
    run([*command, *c99(command[0]), *INCLUDE, "-O0", "-c", PLAIN, *filter(is_for_some_cores, C_FILES)], cwd=tmp_path)


@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_kernels_are_valid_cpp(name: str, tmp_path: Path) -> None:
    command = compiler(name)
    run([*command, *CPP, *INCLUDE, PLAIN, *(("-fsyntax-only",) if name == "gcc" else READ), *C_FILES], cwd=tmp_path)


@pytest.mark.parametrize("header", [path for path in FILES.values() if path.suffix == ".h"], ids=lambda path: path.stem)
def test_headers_compile_alone_and_twice(header: Path, tmp_path: Path) -> None:
    command = compiler("gcc")
    (tmp_path / "twice.c").write_text(f'#include "{header}"\n#include "{header}"\ntypedef int unit;\n')
    run([*command, *c99("gcc"), *INCLUDE, PLAIN, "-fsyntax-only", tmp_path / "twice.c"])


def sanitized(folder: Path, flags: Sequence[str | Path] = ()) -> tuple[Path, dict[str, str]]:
    """Build the kernels with sanitizers (with gcc also for addresses); return the library and the environment that it needs."""
    library, common = folder / "kernels.so", ["-std=c99", "-O1", "-g", PLAIN, "-shared", "-fPIC", *flags, *INCLUDE]
    if shutil.which("gcc"):
        run(["gcc", *common, "-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-o", library, *C_FILES])
        found = subprocess.run(
            ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return library, {"LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0"}
    command = compiler("zig")
    run([*command, *common, "-fsanitize=undefined", "-fsanitize-trap=undefined", "-o", library, *C_FILES])
    return library, {}


def test_line_buffers_equal_whole_maps_and_fast_kernels_equal_portable_ones(tmp_path: Path) -> None:
    library, environment = sanitized(tmp_path, flags=UNOPTIMISED)
    tests = Path(ring_views.__file__).parents[1]
    run([sys.executable, "-m", "kernels.ring_views", library, str(SEED)], env=os.environ | environment, cwd=tests)
    twins_equal(library, environment, (SEED, TWINS, TWINS_OF_M7))


@pytest.mark.sweep
def test_fast_kernels_equal_portable_ones_in_many_trials(tmp_path: Path) -> None:
    twins_equal(*sanitized(tmp_path, flags=UNOPTIMISED), (SEED + 1, IN_SWEEPS[0], TWINS_OF_M7))


def twins_equal(library: Path, environment: dict[str, str], trials: tuple[int, int, int]) -> None:
    """Compare fast kernels with their portable twins; `trials`: (seed, count, count for kernels that share plain C)."""
    seed, *counts = map(str, trials)
    tests = Path(ring_views.__file__).parents[1]
    drawn = (*variant_pairs.DRAWN, *variant_pairs.COPYING)
    own, of_m7 = ([name for name in drawn if (BY_NAME[name].isa == "m7") == is_m7] for is_m7 in (False, True))
    for count, names in zip(counts, (own, of_m7), strict=True):
        command = [sys.executable, "-m", "kernels.variant_pairs", library, seed, count, *names]
        run(command, env=os.environ | environment, cwd=tests)


IN_ASSEMBLY = [
    (name, core) for core in (*dict.fromkeys(on_core.CORES.values()), on_core.SMALL) for name in on_core.kernels_of(core)
]


@pytest.mark.emulator
@pytest.mark.parametrize(("name", "core"), IN_ASSEMBLY)
def test_kernels_in_assembly_equal_portable_ones(name: str, core: str, library: ctypes.CDLL, tmp_path: Path) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    on_core.compare(library, name, (SEED, ON_CORE), core, tmp_path)


@pytest.mark.sweep
@pytest.mark.emulator
@pytest.mark.parametrize(("name", "core"), IN_ASSEMBLY)
def test_kernels_in_assembly_equal_portable_ones_in_many_trials(
    name: str, core: str, library: ctypes.CDLL, tmp_path: Path
) -> None:
    if reason := emulated.missing(core):
        pytest.skip(reason[0])
    on_core.compare(library, name, (SEED + 1, IN_SWEEPS[1]), core, tmp_path)


@pytest.mark.parametrize("name", [n for n in variant_pairs.DRAWN if BY_NAME[n].has_part and re.search("conv_2d|depthwise", n)])
def test_convolutions_compute_single_columns(name: str, library: ctypes.CDLL) -> None:
    """All windows of a column may lie in the padding, although other columns of the row reach the map."""
    for number in range(160):
        twins = variant_pairs.DRAWN[name](np.random.default_rng([SEED, number]))
        if twins is not None:
            expected = variant_pairs.whole(library, twins[0])
            assert np.array_equal(expected, variant_pairs.whole(library, twins[1], columns=1)), number


@pytest.mark.parametrize("name", [name for name in variant_pairs.DRAWN if re.search(rf" {name}\(.*void \*scratch", HEADERS)])
def test_kernels_use_all_of_their_declared_scratch(name: str, library: ctypes.CDLL) -> None:
    """Therefore the scratch of a plan equals what an emulated run touches."""
    used = 0
    for number in range(60):
        if (drawn := variant_pairs.DRAWN[name](np.random.default_rng([SEED, number]))) is None:
            continue
        (call,), sources, (h, w, pixel) = drawn[1].calls, drawn[1].inputs, drawn[1].out
        for member, function in call.functions:
            setattr(call.params, member, ctypes.cast(getattr(library, function), ctypes.c_void_p).value)
        out, ends = np.zeros((h, w, pixel), np.uint8), set()
        for fill in (0, 255):
            scratch = np.full(call.scratch + 64, fill, np.uint8)
            views = [*(whole(x.data.ravel(), 0, x.shape) for x in sources), whole(out.ravel(), 0, (h, w, pixel))]
            place = ctypes.c_void_p(scratch.ctypes.data)
            if ROWS[name].has_part:
                getattr(library, f"{name}_part")(ctypes.byref(call.params), *views, ring_calls.Range(0, h, 0, w), place)
            else:
                getattr(library, name)(ctypes.byref(call.params), *(ctypes.c_void_p(view.data) for view in views), place)
            ends.add(int(scratch[call.scratch - 1]))
        assert len(ends) == 1, number
        used += 1
    assert used >= 8


@pytest.mark.parametrize("sign", [-1, 1])
def test_winograd_sums_are_exact_up_to_the_bound(library: ctypes.CDLL, sign: int) -> None:
    """The bound is the largest sum of which four times is an int32."""
    depth, most = 4, winograd.MOST - 1
    weights = np.full((1, 9 * depth), sign * 127, np.int8)
    bias = np.array([sign * (most - 127 * 127 * 9 * depth)], np.int32)
    multiplier, shift = np.array([(1 << 31) - 1], np.int32), np.array([-23], np.int8)
    given = dense.Filters(*(part.astype(np.int64) for part in (weights, bias, multiplier, shift)))
    assert winograd.fourfold_sums_fit(given).met.all()
    assert not winograd.fourfold_sums_fit(given._replace(bias=given.bias + sign)).met.all()
    shapes = {"in": (4, 4, depth), "out": (4, 4, 1), "kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1)}
    quantised = {"in_zero": 0, "out_zero": 5, "out_min": -128, "out_max": 127}
    words, out = winograd.stream(given), []
    tables = {"weights": weights, "bias": bias, "multiplier": multiplier, "shift": shift}
    bare = ring_calls.build("tw_conv_shape", **shapes, **quantised)
    plain = ring_calls.build("tw_conv", shape=bare, groups=1, **tables)
    source = ring_calls.Operand((4, 4, depth), np.full((4, 4, depth), 127, np.uint8), lambda span: span)
    for call in (
        ring_calls.Call("tw_conv_2d_s8", plain, (0,)),
        ring_calls.Call(
            "tw_conv_2d_s8_winograd_dsp",
            ring_calls.build("tw_conv_dsp", conv=bare, stream=words, sign=-1),
            (0,),
            winograd.scratch_of(depth, 1),
        ),
    ):
        out.append(variant_pairs.whole(library, ring_calls.Trial([call], [source], (4, 4, 1))).view(np.int8))
    assert np.array_equal(*out) and abs(out[0].astype(int)).max() < 127


def test_ring_views_and_variant_pairs_cover_every_kernel_with_views() -> None:
    declared = re.findall(r"^void (\w+)_part\([^;]*tw_range range(?:, void \*scratch)?\);", HEADERS, re.MULTILINE)
    assert {*ring_views.TRIALS, *variant_pairs.DRAWN} - {*variant_pairs.WHOLE} == set(declared)
    own = {row.name for row in VARIANTS if (row.cores or row.compact) and row.has_part}
    assert set(variant_pairs.DRAWN) == own | {*variant_pairs.WHOLE}
    assert set(variant_pairs.COPYING) == {row.name for row in VARIANTS if row.copying}
    forms = {form: set(re.findall(rf"^void (\w+)_{form}\(", HEADERS, re.MULTILINE)) for form in ("part", "rows")}
    assert forms["part"] & set(BY_NAME) == {row.name for row in VARIANTS if row.has_part}
    assert forms["rows"] & set(BY_NAME) == {row.name for row in VARIANTS if row.has_rows}


def test_a_kernel_takes_the_parameter_struct_of_its_row() -> None:
    for row in (row for row in VARIANTS if row.params != row.name):
        declared = re.search(rf"^void {row.name}\(const (\w+) \*p,", declarations(row.header), re.MULTILINE)
        assert declared is not None and declared[1] == row.params, row.name


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    command = COMPILERS["gcc"] if shutil.which("gcc") else compiler("zig")
    run([*command, "-std=c99", "-O2", PLAIN, *INCLUDE, "-shared", "-fPIC", "-o", path, *C_FILES])
    return ctypes.CDLL(str(path))


def whole(memory: np.ndarray, offset: int, shape: ring_calls.Shape) -> ctypes.Structure:
    return ring_calls.View(memory.ctypes.data + offset, shape[1] * shape[2], shape[0], 0, 0)


ROWS = {row.name: row for row in VARIANTS}


@pytest.mark.parametrize("name", ring_views.ELEMENTWISE)
def test_output_may_overlap_the_input_at_the_declared_distance(name: str, library: ctypes.CDLL) -> None:
    """Runs at the table's distance equal runs without overlap. At one element less some differ, unless the distance is 0."""
    row, distances, broken = ROWS[name], [], False
    for number in range(20):
        trial = ring_views.TRIALS[name](np.random.default_rng([SEED, number]))
        (call,), (source,) = trial.calls, trial.inputs
        shape = tuple(getattr(call.params.shape, axis) for axis in "hwc")
        types = S8 if row.types == ANY else row.types
        x, out = (Tensor(tensor, shape, dtype) for tensor, dtype in zip("xy", types, strict=True))
        op = Op("op", row.kinds[0], ("x",), ("y",))
        distance, align = (
            overlap_distances(Graph("g", {"x": x, "y": out}, (op,), ("x",), ("y",)), op, row.name)[0],
            itemsize(out.dtype),
        )
        distances.append(distance)
        expected = overlapped(library, trial, source, 4096)
        assert np.array_equal(overlapped(library, trial, source, -(-distance // align) * align), expected), number
        broken |= not np.array_equal(overlapped(library, trial, source, distance // align * align - align), expected)
    assert broken or not any(distances)


def overlapped(library: ctypes.CDLL, trial: ring_calls.Trial, source: ring_calls.Operand, distance: int) -> np.ndarray:
    """Return the output of a run whose output begins `distance` bytes below the input."""
    memory, begin = np.zeros(16384, np.uint8), 8192
    start = begin - distance
    memory[begin : begin + source.data.size] = source.data.reshape(-1)
    h, w, _ = trial.out
    ring_calls.run(
        library, trial, [whole(memory, begin, source.shape)], whole(memory, start, trial.out), ring_calls.Span(0, h, 0, w)
    )
    return memory[start : start + int(np.prod(trial.out))].copy()


@pytest.mark.parametrize("name", ring_views.BINARY)
@pytest.mark.parametrize("over", [0, 1])
def test_output_of_a_binary_op_may_overwrite_an_operand(name: str, over: int, library: ctypes.CDLL) -> None:
    tried = 0
    for number in range(100):
        trial = ring_views.binary(np.random.default_rng([SEED, number]), name)
        if any(source.shape != trial.out for source in trial.inputs):
            continue
        tried += 1
        size, results = int(np.prod(trial.out)), []
        for target in (2, over):
            memory = np.zeros((3, size), np.uint8)
            for row, source in enumerate(trial.inputs):
                memory[row] = source.data.reshape(-1)
            views = [whole(memory, row * size, trial.out) for row in (0, 1)]
            ring_calls.run(
                library,
                trial,
                views,
                whole(memory, target * size, trial.out),
                ring_calls.Span(0, trial.out[0], 0, trial.out[1]),
            )
            results.append(memory[target].copy())
        assert np.array_equal(*results), number
    assert tried > 5


@pytest.mark.parametrize(("name", "dtype"), [("tw_quantize_f32_s8", np.int8), ("tw_quantize_f32_u8", np.uint8)])
def test_quantize_rounds_halves_away_from_zero_and_saturates(name: str, dtype: type, library: ctypes.CDLL) -> None:
    """Neighbours of halves round to nearest, large values saturate, and NaN gives the least integer."""
    half = np.float32(0.5)
    edges = {
        0.5: 1, 1.5: 2, 2.5: 3, 126.5: 127, np.nextafter(half, np.float32(0)): 0, -np.nextafter(half, np.float32(0)): 0,
        -0.0: 0, 1e9: 1000, 3e38: 1000, np.inf: 1000, -np.inf: -1000, -3e9: -1000, -0.5: -1, -1.5: -2, 1e-40: 0,
    }  # fmt: skip
    info, zero = np.iinfo(dtype), 3
    x = np.array([*edges, np.nan], np.float32)
    expected = [int(np.clip(value + zero, info.min, info.max)) for value in edges.values()] + [info.min]
    params = ring_calls.build("tw_quantization", shape=(1, 1, len(x)), scale=1.0, zero=zero)
    out = np.zeros(len(x), dtype)
    getattr(library, name)(ctypes.byref(params), *(ctypes.c_void_p(array.ctypes.data) for array in (x, out)))
    assert out.tolist() == expected


def test_clamp_bytes_equals_clip_for_all_limits(library: ctypes.CDLL) -> None:
    every = np.concatenate([np.arange(-128, 128), np.arange(3)]).astype(np.int8)
    for low in range(-128, 128):
        for high in range(low, 128):
            found = every.copy()
            library.tw_clamp_bytes(ctypes.c_void_p(found.ctypes.data), found.size, low, high)
            assert np.array_equal(found, np.clip(every, low, high)), (low, high)


def test_gather_nd_clamps_indices_to_its_input(library: ctypes.CDLL) -> None:
    """Indices computed by a network may have any value."""
    data, out = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.zeros((4, 4), np.uint8)
    indices = np.array([[-1, 5], [2**31 - 1, -(2**31)], [0, 1], [7, 2]], np.int32)
    params = ring_calls.build("tw_slices", count=4, depth=2, extent=(2, 3), step=(12, 4), run=4)
    library.tw_gather_nd(ctypes.byref(params), *(ctypes.c_void_p(array.ctypes.data) for array in (data, indices, out)))
    assert np.array_equal(out, data[[0, 1, 0, 1], [2, 0, 1, 2]])


def test_tw_move_equals_memmove(library: ctypes.CDLL) -> None:
    """Several lengths and all overlapping distances are tried; bytes around the target must not change."""
    rng, middle = np.random.default_rng(0), 400
    for length in (0, 1, 3, 4, 31, 64, 150):
        for way in range(-length - 2, length + 3):
            memory = rng.integers(0, 256, 1000).astype(np.uint8)
            expected = memory.copy()
            expected[middle + way : middle + way + length] = memory[middle : middle + length]
            start = memory.ctypes.data + middle
            library.tw_move(ctypes.c_void_p(start), ctypes.c_void_p(start + way), ctypes.c_int32(length))
            assert np.array_equal(memory, expected), (length, way)
