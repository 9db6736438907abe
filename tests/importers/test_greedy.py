"""Small files that declare huge tensors or work: `inspect` ends soon, in little memory, with a result or a one-line error."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite
from cases.tiny import activation, constant, graph

from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import MAX_BYTES, MAX_FILE, MAX_OPS
from tinyweave.ir import Graph, Op, Quant, Tensor
from tinyweave.ops.window import same_padding

MEBIBYTE = 1 << 20
MOST_MEMORY = 1200 * MEBIBYTE  # of address space beyond what the idle process has
MOST_SECONDS = 20  # of CPU time; on an idle CPU no file here takes a quarter of that
WINDOW = {"dilation": (1, 1), "stride": (1, 1), "activation": "none"}


def stretched(file: bytes, prefix: str, extent: int) -> bytes:
    """Return the file with the last extent replaced for all tensors whose names begin with `prefix`."""
    changed = bytearray(file)
    subgraph = tflite.Model.GetRootAs(file, 0).Subgraphs(0)
    for tensor in (subgraph.Tensors(index) for index in range(subgraph.TensorsLength())):
        if tensor.Name().decode().startswith(prefix):
            at = tensor._tab.Vector(tensor._tab.Offset(4))
            struct.pack_into("<i", changed, at + 4 * (tensor.ShapeLength() - 1), extent)
    return bytes(changed)


def states(count: int = 200) -> bytes:
    """Return a file with `count` variable tensors of 16 MB, whose initial zeros are not stored."""
    names = [f"state{i}" for i in range(count)]
    tensors = [activation("x", (1, 1)), activation("y", (1, count + 1))]
    tensors += [Tensor(name, (1, 1), "int8", tensors[0].quant, role="state") for name in names]
    tensors += [constant(f"{name}.initial", np.zeros((1, 1), np.int8)) for name in names]
    init = tuple(Op(f"init_{name}", "assign_variable", (f"{name}.initial",), (name,)) for name in names)
    op = Op("concatenation_0", "concatenation", ("x", *names), ("y",), {"axis": 1, "activation": "none"})
    return stretched(to_tflite(graph("states", tensors, [op], ("x",), ("y",), init=init)), "state", MAX_BYTES)


def broadcasts(count: int, shape: tuple[int, ...] = (16, 1 << 20)) -> bytes:
    """Return a file that broadcasts one byte `count` times; the results are constants."""
    names = [f"wide{i}" for i in range(count)]
    tensors = [constant("byte", np.zeros((1,) * len(shape), np.int8), (0.5,)), constant("shape", np.array(shape, np.int32))]
    tensors += [Tensor(name, shape, "int8", Quant((0.5,), (0,))) for name in names]
    ops = [Op(f"op_{name}", "broadcast_to", ("byte", "shape"), (name,)) for name in names]
    return to_tflite(graph("broadcasts", tensors, ops, (), tuple(names)))


def shared(count: int = 300) -> bytes:
    """Return a file with `count` uint8 constants of 1 MB that share a buffer; converted to int8 they no longer share it."""
    names = [f"part{i}" for i in range(count)]
    tensors = [Tensor(name, (1,), "uint8", Quant((0.5,), (3,)), np.zeros(1, np.uint8), "constant") for name in names]
    tensors[0] = Tensor("whole", (MEBIBYTE,), "uint8", Quant((0.5,), (3,)), np.zeros(MEBIBYTE, np.uint8), "constant")
    file = bytearray(to_tflite(Graph("shared", {t.name: t for t in tensors}, (), (), tuple(t.name for t in tensors))))
    subgraph = tflite.Model.GetRootAs(bytes(file), 0).Subgraphs(0)
    parts = [subgraph.Tensors(index) for index in range(count)]
    whole = next(part.Buffer() for part in parts if part.Name() == b"whole")
    for part in parts:
        struct.pack_into("<I", file, part._tab.Pos + part._tab.Offset(8), whole)
    return stretched(bytes(file), "part", MEBIBYTE)


def pool(side: int, kernel: int, kind: str = "average_pool_2d") -> Graph:
    tensors = [activation("x", (1, side, side, 1)), activation("y", (1, side, side, 1))]
    attrs = {"kernel": (kernel,) * 2, "stride": (1, 1), "activation": "none"}
    return graph(
        "pool",
        tensors,
        [Op("p", kind, ("x",), ("y",), attrs | {"padding": (same_padding(side, kernel, 1),) * 2})],
        ("x",),
        ("y",),
    )


def convolution(rows: int, kernel: int, dilation: int = 1) -> Graph:
    weights = constant("w", np.ones((1, kernel, 1, 1), np.int8), (0.5,))
    tensors = [activation("x", (1, rows, 1, 1)), weights, activation("y", (1, rows, 1, 1))]
    attrs = WINDOW | {"dilation": (dilation,) * 2, "padding": (same_padding(rows, kernel, 1, dilation), (0, 0))}
    return graph("convolution", tensors, [Op("c", "conv_2d", ("x", "w", None), ("y",), attrs)], ("x",), ("y",))


def transposed(stride: int, known: bool) -> Graph:
    x = constant("x", np.zeros((1, 4, 4, 1), np.int8), (0.05,)) if known else activation("x", (1, 4, 4, 1))
    tensors = [x, constant("s", np.array([1, 8, 8, 1], np.int32)), constant("w", np.ones((1, 1, 1, 1), np.int8), (0.5,))]
    attrs = {"stride": (stride,) * 2, "padding": ((0, 0), (0, 0)), "activation": "none"}
    op = Op("t", "transpose_conv", ("s", "w", "x"), ("y",), attrs)
    return graph("transposed", [*tensors, activation("y", (1, 8, 8, 1))], [op], () if known else ("x",), ("y",))


def chain(kind: str, count: int) -> bytes:
    """Return a chain of ops that the passes remove one after the other."""
    tensors = [activation(f"t{i}", (1, 4)) for i in range(count + 1)]
    attrs = {"new_shape": (1, 4)} if kind == "reshape" else {}
    ops = [Op(f"{kind}_{i}", kind, (f"t{i}",), (f"t{i + 1}",), attrs) for i in range(count)]
    return to_tflite(graph("chain", tensors, ops, ("t0",), (f"t{count}",)))


def many_operands(count: int = 70_000) -> bytes:
    """Return a concatenation that reads the same operand `count` times."""
    op = Op("concatenation_0", "concatenation", ("x",) * count, ("y",), {"axis": 1, "activation": "none"})
    return to_tflite(graph("operands", [activation("x", (1, 1)), activation("y", (1, count))], [op], ("x",), ("y",)))


def empty() -> bytes:
    """Return a file whose tensor has an extent of 0, which makes the product of the other extents 0."""
    x = Tensor("x", (0, 8), "int8", Quant((0.5,), (0,)))
    tile = Op("tile_0", "tile", ("x", "m"), ("y",))
    tensors = [x, constant("m", np.array([1, 1], np.int32)), Tensor("y", (0, 8), "int8", x.quant)]
    return stretched(to_tflite(graph("empty", tensors, [tile], ("x",), ("y",))), "x", (1 << 31) - 1)


# function that makes the file, and words of the one-line error; empty if `inspect` succeeds
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "states": (states, "brings all variables to 33,554,432 bytes"),
    "broadcasts": (lambda: broadcasts(150), "brings all tensors to 134,217,737 bytes"),
    "long axes": (lambda: broadcasts(7, (MAX_BYTES,)), "each axis of the input and the outputs must have"),
    "shared constants": (shared, "brings all tensors to 135,266,304 bytes"),
    "window of a pool": (lambda: to_tflite(pool(4, 1 << 30)), "the padded input must have at most"),
    "window of another pool": (lambda: to_tflite(pool(4, 1 << 30, "max_pool_2d")), "the padded input must have at most"),
    "work of a pool": (lambda: to_tflite(pool(2000, 1500)), ""),
    "dilation": (lambda: to_tflite(convolution(4, 3, 1 << 30)), "the padded input must have at most"),
    "filter": (lambda: to_tflite(convolution(MEBIBYTE, MEBIBYTE)), "output size times filter size"),
    "stride": (lambda: to_tflite(transposed(1 << 30, known=False)), "the padded output must have at most"),
    "folded stride": (lambda: to_tflite(transposed(1 << 30, known=True)), "the padded output must have at most"),
    "relus": (lambda: chain("relu", MAX_OPS + 1), f"{MAX_OPS + 1} ops"),
    "operands": (many_operands, "the ops have 70001 operands"),
    "empty": (empty, "has 2,147,483,647 bytes"),
}

SLOWER: dict[str, tuple[Callable[[], bytes], str]] = {
    "fewer broadcasts": (lambda: broadcasts(7), ""),
    "relus": (lambda: chain("relu", MAX_OPS), ""),
    "reshapes": (lambda: chain("reshape", MAX_OPS), ""),
}

INSPECT = """
import contextlib, io, json, resource, sys, time
from tinyweave import cli
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]),) * 2)
for path in sys.argv[2:]:
    begun, said = time.process_time(), io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = cli.main(["inspect", path])
        if code and not said.getvalue():  # it shows what it can of a model with ops that are not supported
            code = cli.main(["plan", path])
    print(json.dumps([code, said.getvalue(), time.process_time() - begun]), flush=True)
"""


def run_inspect(*paths: Path) -> list[tuple[int, str, float]]:
    """Run `inspect` and return per file the exit code, the text on standard error, and the CPU seconds."""
    words = [sys.executable, "-c", INSPECT, str(MOST_MEMORY), *map(str, paths)]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    limit = MOST_SECONDS * len(paths) + 30
    done = subprocess.run(words, env=alone, capture_output=True, text=True, timeout=10 * limit, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(paths), f"{paths[len(results)].name}: code {done.returncode}, {done.stderr[-2000:]}"
    return results


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and limits on memory")
@pytest.mark.parametrize("files", [FILES, pytest.param(SLOWER, marks=pytest.mark.sweep)], ids=["files", "slower"])
def test_inspect_of_files_with_huge_tensors_ends_soon(
    tmp_path: Path, files: dict[str, tuple[Callable[[], bytes], str]]
) -> None:
    paths = []
    for number, (make, _) in enumerate(files.values()):
        paths.append(tmp_path / f"{number}.tflite")
        paths[-1].write_bytes(make())
    for (name, (_, expected)), (code, said, seconds) in zip(files.items(), run_inspect(*paths), strict=True):
        assert seconds < MOST_SECONDS, (name, seconds)
        assert (code, said.count("\n")) == ((2, 1) if expected else (0, 0)), (name, said)
        assert expected in said, (name, said)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs sparse files and /dev/zero")
def test_files_above_the_size_limit_are_not_read(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse.tflite"
    with sparse.open("wb") as file:
        file.truncate(6 << 30)
    for code, said, seconds in run_inspect(sparse, Path("/dev/zero")):
        assert (code, said.count("\n")) == (2, 1) and f"has more than {MAX_FILE:,} bytes" in said
        assert seconds < MOST_SECONDS
