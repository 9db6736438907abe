"""The kernel calls of the emitted C of fused stages equal those that the check of plans assumes: rows, columns, addresses.

The C runs on the host with macros instead of kernels, which record their arguments and compute nothing.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest
from cases.maps import heads, segmentation
from cases.strict import INCLUDE
from cases.tiny import NETWORKS
from codegen.declarations import declarations
from codegen.emitted import emitted
from fuzz.faster_kernels import with_kernels_of
from fuzz.generate import BY_SOME_ROWS, HEADED, random_network, random_stages
from fuzz.growers import Growers
from planning.stages import plan_in_stages

from tinyweave.ir import Graph, Op
from tinyweave.kernels.table import FILES
from tinyweave.planning import Plan, Tile, check
from tinyweave.planning.check import Touched
from tinyweave.support import toolchain

ALL = (0, 1, 2, 3, 4)
CORES = ("", "cortex-m4", "cortex-m55")
SEEDS = range(24)
FLAGS = ("-std=c11", "-DTW_PLAIN_C", "-O0", "-w", "-shared", "-fPIC", "-fno-sanitize=undefined")  # zig sanitizes by default

RECORDER = """
#include "recorder.h"
#include <stdio.h>

static FILE *file;
static const char *arena;
typedef struct { void *user; int (*read)(void *, int32_t, int32_t, int32_t, void *);
                 int (*write)(void *, int32_t, int32_t, int32_t, const void *); } callbacks;

static long at(const void *data) { return (long)((const char *)data - arena); }
void put_call(const char *name) { fprintf(file, "call %s\\n", name); }
void put_view(tw_view v)
{ fprintf(file, "view %ld %d %d %d %d\\n", at(v.data), v.row_stride, v.ring_height, v.first_row, v.first_col); }
void put_range(tw_range r) { fprintf(file, "range %d %d %d %d\\n", r.row_begin, r.row_end, r.col_begin, r.col_end); }
void put_pointer(const void *p) { fprintf(file, "pointer %ld\\n", at(p)); }
static int bring(void *user, int32_t input, int32_t first, int32_t count, void *row)
{ (void)user; fprintf(file, "bring %d %d %d %ld\\n", input, first, count, at(row)); return 0; }
static int take(void *user, int32_t output, int32_t first, int32_t count, const void *row)
{ (void)user; fprintf(file, "take %d %d %d %ld\\n", output, first, count, at(row)); return 0; }

int record(const char *path, int (*invoke)(const void *, const void *), void *memory)
{
    void *const memories[1] = {memory};
    const callbacks io = {NULL, bring, take};
    file = fopen(path, "w");
    arena = memory;
    const int status = invoke(memories, &io);
    fclose(file);
    return status;
}
"""


def recorder(model: str) -> str:
    """Return a header for the C of a model that replaces each kernel by a macro."""
    headers = [path for path in FILES.values() if path.suffix == ".h"]
    names = sorted({line.split("(")[0].split()[-1] for path in headers if path.name != "tw.h" for line in declared(path.name)})
    lines = [
        "#ifndef RECORDER_H",
        "#define RECORDER_H",
        *(f'#include "{path.name}"' for path in headers),
        *MACROS.strip().split("\n"),
    ]
    # functions whose address is in a struct are missing
    lines += [f"#pragma weak {name}" for name in sorted(set(re.findall(r"\btw_line_\w+", model)))]
    for name in names:
        body = f'CALL("{name}", __VA_ARGS__)' if name.endswith(("_part", "_rows")) else "((void)0)"
        lines.append(f"#define {name}(...) {body}")
    return "\n".join([*lines, "#endif", ""])


MACROS = """
void put_call(const char *name);
void put_view(tw_view v);
void put_range(tw_range r);
void put_pointer(const void *p);
#define PUT(x) _Generic((x), tw_view: put_view, tw_range: put_range, default: put_pointer)(x);
#define PUT_1(x) PUT(x)
#define PUT_2(x, ...) PUT(x) PUT_1(__VA_ARGS__)
#define PUT_3(x, ...) PUT(x) PUT_2(__VA_ARGS__)
#define PUT_4(x, ...) PUT(x) PUT_3(__VA_ARGS__)
#define PUT_5(x, ...) PUT(x) PUT_4(__VA_ARGS__)
#define PUT_6(x, ...) PUT(x) PUT_5(__VA_ARGS__)
#define PICK(_1, _2, _3, _4, _5, _6, chosen, ...) chosen
#define CALL(name, ...) \\
    do { put_call(name); PICK(__VA_ARGS__, PUT_6, PUT_5, PUT_4, PUT_3, PUT_2, PUT_1, )(__VA_ARGS__) } while (0)
"""


def declared(header: str) -> Iterator[str]:
    """Return the first lines of the declarations of kernels."""
    yield from (line for line in declarations(header).split("\n") if line.startswith("void tw_"))


@dataclass
class Call:
    """Arguments of a kernel or callback; a view is (address, bytes of a row, rows, first row, first column)."""

    name: str
    views: list[tuple[int, ...]] = field(default_factory=list)
    pointers: list[int] = field(default_factory=list)
    range: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()  # of a callback: tensor, first row, number of rows, address


def traced(made: Plan, folder: Path) -> list[Call]:
    """Return the calls of one inference of the C of a plan."""
    folder.mkdir(exist_ok=True)
    emitted(made, folder, "m")
    (folder / "recorder.h").write_text(recorder((folder / "m.c").read_text()))
    (folder / "recorder.c").write_text(RECORDER)
    library, flags = folder / "m.so", [*FLAGS, *INCLUDE, "-I", folder]
    sources = [folder / "recorder.c", FILES["tw_tile.c"]]
    (folder / "main.c").write_text('#include "recorder.h"\n#include "m.c"\n')
    toolchain.compile_c(toolchain.host(), [*flags, folder / "main.c", *sources, "-o", library])
    loaded, size = ctypes.CDLL(str(library)), sum(made.arena.values())
    arena = ctypes.create_string_buffer(size + 64)
    begin = -(-ctypes.addressof(arena) // 64) * 64
    assert loaded.record(str(folder / "trace").encode(), loaded.m_invoke, ctypes.c_void_p(begin)) == 0
    calls: list[Call] = []
    for kind, *words in (line.split() for line in (folder / "trace").read_text().splitlines()):
        numbers = tuple(map(int, words)) if kind != "call" else ()
        if kind == "call":
            calls.append(Call(words[0]))
        elif kind in ("bring", "take"):
            calls.append(Call(kind, rows=numbers))
        elif kind == "range":
            calls[-1].range = numbers
        elif kind == "pointer":
            calls[-1].pointers += [number for number in numbers if 0 <= number < size]
        elif 0 <= numbers[0] < max(size, 1):  # other views are those of constants
            calls[-1].views.append(numbers)
    return calls


def assumed(made: Plan) -> list[Touched]:
    """Return the events that the check of a plan assumes, without those that touch no byte, such as tiles of padding alone."""
    followed: list[Touched] = []
    check(made, followed.append)
    return [event for event in followed if event.region[1] < event.region[2]]


def byte_span(view: tuple[int, ...], row: int, cols: range, pixel: int) -> tuple[int, int]:
    """Return begin and end of columns of a row by a view, as tw_offset in tw.h computes them."""
    data, stride, height, first_row, first_col = view
    slot = row - first_row
    assert -height <= slot < 2 * height
    slot = slot + height if slot < 0 else slot - height if slot >= height else slot
    begin = data + slot * stride + (cols.start - first_col) * pixel
    return begin, begin + len(cols) * pixel


def compare(made: Plan, calls: list[Call]) -> int:
    """Assert that the calls are those that the check assumes, and return their number."""
    graph, events = made.graph, assumed(made)
    ops = {op.name: index for index, op in enumerate(graph.ops)}
    count = 0
    while calls:
        if calls[0].rows:
            _compare_callback(graph, calls.pop(0), events)
        elif _is_empty(calls[0]):
            calls.pop(0)
        else:
            op = graph.ops[ops[events[0].op]] if events else None
            assert op is not None, f"{calls[0].name} runs after all that the check follows"
            _compare_kernel(made, op, calls, events)
        count += 1
    assert not events, f"the C does not do this: {events[0]}"
    return count


def _is_empty(call: Call) -> bool:
    """Return whether a call covers no row or no column; a tile of padding alone reads none of the padded map."""
    return not call.pointers and (call.range[0] == call.range[1] or call.range[2] == call.range[3])


def _compare_callback(graph: Graph, call: Call, events: list[Touched]) -> None:
    number, first, count, address = call.rows
    name = (graph.inputs if call.name == "bring" else graph.outputs)[number]
    for row in range(first, first + count):
        event = events.pop(0)
        size = graph.tensors[name].bytes // graph.tensors[name].shape[1]
        begin = address + (row - first) * size
        assert event[:4] == ("", name, call.name == "bring", row) and event.region[1:] == (begin, begin + size)


def _compare_kernel(made: Plan, op: Op, calls: list[Call], events: list[Touched]) -> None:
    """Compare one iteration of an op."""
    graph, variant = made.graph, made.variants[made.graph.ops.index(op)]
    operands = [name for name in op.inputs if name in made.places]
    call = calls.pop(0)
    sums = call.name == f"{variant}_rows"
    assert sums or call.name == f"{variant}_part"
    top, bottom, left, right = call.range
    if sums:
        read, area = events.pop(0), events.pop(0)
        assert bottom == top + 1 and (read.row, read.cols) == (top, range(left, right))
        assert call.pointers == [made.offset(op.outputs[0]), area.region[1]] and not area.tensor
        if bottom == graph.input(op).shape[1]:
            out = events.pop(0)
            assert out.writes and (out.tensor, out.region[1]) == (op.outputs[0], made.offset(op.outputs[0]))
        assert _reads_match(graph, {operands[0]: call.views[0]}, [read])
        return
    *sources, target = call.views
    while len(sources) < len(operands):  # a kernel with one call per operand
        more = calls.pop(0)
        assert (more.name, more.range, more.views[-1], more.pointers) == (call.name, call.range, target, call.pointers)
        sources += more.views[:-1]
    assert [_popped(events, op, "", writes=True).region[1] for _ in call.pointers] == call.pointers
    reads = []
    while events and events[0].op == op.name and not events[0].writes:
        reads.append(events.pop(0))
    assert any(_reads_match(graph, dict(zip(operands, views, strict=True)), reads) for views in permutations(sources))
    for row in range(top, bottom):
        event = _popped(events, op, op.outputs[0], writes=True)
        assert (event.row, event.cols) == (row, range(left, right))
        assert event.region[1:] == byte_span(target, row, event.cols, graph.output(op).pixel_bytes)


def _popped(events: list[Touched], op: Op, tensor: str, *, writes: bool) -> Touched:
    """Pop the next event, which must be of this op and tensor; scratch has no columns."""
    event = events.pop(0)
    assert (event.op, event.tensor, event.writes, bool(event.cols)) == (op.name, tensor, writes, bool(tensor))
    return event


def _reads_match(graph: Graph, views: dict[str, tuple[int, ...]], reads: Sequence[Touched]) -> bool:
    pixels = {name: graph.tensors[name].pixel_bytes for name in views}
    return all(e.region[1:] == byte_span(views[e.tensor], e.row, e.cols, pixels[e.tensor]) for e in reads)


def random_plan(seed: int, core: str, growers: Growers = BY_SOME_ROWS) -> Plan:
    rng = random.Random(seed)
    graph = random_network(seed, rng.randint(5, 14), growers=growers, live=2)
    stages, options = random_stages(graph, rng)
    made = plan_in_stages(graph, stages, **options)
    return with_kernels_of(made, core) if core else made


PLANS = {
    "sums": lambda: plan_in_stages(NETWORKS["chain"](), [(0, 1, 2), (3,), (4,)], streamed_inputs=("image",)),
    "tiles": lambda: plan_in_stages(
        segmentation(),
        [ALL],
        streamed_inputs=("image",),
        tiles=(Tile((1, 2), 7), Tile((3, 4), 5, 2)),
        streamed_outputs=("classes",),
    ),
    "patches": lambda: plan_in_stages(segmentation(), [ALL], tiles=(Tile(ALL, 5, 4, cached=False),)),
    "an enlarged map": lambda: plan_in_stages(segmentation(2, "transpose_conv"), [ALL], streamed_outputs=("classes",)),
    "an op by itself": lambda: plan_in_stages(
        heads(), [(0,), (1,), (2,), (3,)], streamed_inputs=("image",), streamed_outputs=("wide",)
    ),
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", PLANS)
def test_kernel_calls_of_the_c_equal_those_that_the_check_assumes(name: str, core: str, tmp_path: Path) -> None:
    made = PLANS[name]()
    made = with_kernels_of(made, core) if core else made
    assert compare(made, traced(made, tmp_path)) > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_calls_of_random_stages_equal_those_that_the_check_assumes(seed: int, tmp_path: Path) -> None:
    made = random_plan(seed, CORES[seed % len(CORES)])
    calls = traced(made, tmp_path)
    assert compare(made, calls) or all(stage.schedule is None for stage in made.stages)


def test_kernel_calls_of_stages_with_dense_layers_equal_those_that_the_check_assumes(tmp_path: Path) -> None:
    taken = 0
    for seed in SEEDS[::2]:
        made = random_plan(seed, CORES[seed % len(CORES)], HEADED)
        by_rows = {f"{made.variants[index]}_rows" for index, op in enumerate(made.graph.ops) if op.kind == "fully_connected"}
        calls = traced(made, tmp_path / str(seed))
        taken += sum(call.name in by_rows for call in calls)
        compare(made, calls)
    assert taken > 5
