"""Run trials of kernels on an emulated core, many in one run.

Takes trials (of ring_views.py) and the core; returns the output of each trial, which is computed in pieces. In two thirds of
the trials with several pieces, a piece reads line buffers of the rows and columns that it needs, else it reads whole maps. One
memory is both the model's input and its output. It holds parameter structs and views with offsets instead of pointers, a list
of the words that are such offsets, and the calls. Bytes that no kernel writes must not change.

`python -m kernels.on_core LIBRARY CORE SEED COUNT [KERNEL ...]`, run from the folder above, compares the kernels of that core
alone (or the named ones) with their twins in the library. It raises if an output differs or a kernel writes outside of it. On
SMALL, which has no kernels of its own but loops in assembly, the twins of IN_TURN run. On VECTORS, portable kernels that copy
run, too.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from kernels import copy_trials, ring_calls, variant_pairs
from kernels.ring_calls import Call, Operand, Ring, Rng, Span, Trial, View

from tinyweave.kernels.table import BY_NAME, sources
from tinyweave.simulate import emulated

# by the instruction set of a kernel
CORES = {
    "scalar": "rv32imc",
    "registers": "cortex-m3",
    "m3": "cortex-m3",
    "dsp": "cortex-m4",
    "m7": "cortex-m7",
    "mve": "cortex-m55",
}
PLAIN = {"registers": CORES["scalar"]}  # a core that runs the plain C of kernels in assembly
SMALL, IN_TURN = "cortex-m0plus", ("tw_conv_2d_s8_dsp", "tw_fully_connected_s8_dsp")
VECTORS = CORES["mve"]
DRAWN = variant_pairs.DRAWN | copy_trials.DRAWN
GUARD, ALIGN = 48, 16
AT_A_TIME = 500
PROGRAM = """\
#include "trials.h"

{includes}

static void call(uint32_t kernel, void *params, const tw_view *views, const tw_range *range, void *scratch)
{{
    (void)scratch;
    switch (kernel) {{
{cases}
    }}
}}

int32_t trials_init(void *const *memory) {{ (void)memory; return 0; }}
int32_t trials_reset(void *const *memory) {{ (void)memory; return 0; }}
void *trials_input(void *const *memory, int32_t index) {{ (void)index; return *memory; }}
void *trials_output(void *const *memory, int32_t index) {{ (void)index; return *memory; }}

int32_t trials_invoke(void *const *memory, const void *io)
{{
    uint8_t *const base = (uint8_t *)*memory;
    const uint32_t *head = (const uint32_t *)*memory;
    const uint32_t *places = (const uint32_t *)(base + head[0]), *calls = (const uint32_t *)(base + head[2]);
    (void)io;
    for (uint32_t i = 0; i < head[1]; ++i) {{
        *(uint32_t *)(base + places[i]) += (uint32_t)base;
    }}
    for (uint32_t i = 0; i < head[3]; ++i, calls += 5) {{
        call(calls[0], (void *)calls[1], (const tw_view *)calls[2], (const tw_range *)calls[3], (void *)calls[4]);
    }}
    return 0;
}}
"""


STRUCTS = {struct: name for name, struct in ring_calls.TYPES.items()}


class Image:
    """Bytes that contain pointers as offsets from the first byte."""

    def __init__(self, rng: Rng):
        self.rng, self.bytes, self.places = rng, bytearray(), list[int]()

    def add(self, data: bytes, misaligned: int = 0, noise: int = GUARD) -> int:
        """Append data between random bytes and return its offset."""
        at = -(-(len(self.bytes) + noise) // ALIGN) * ALIGN + misaligned
        self.bytes += self.rng.bytes(at - len(self.bytes)) + data
        return at

    def words(self, values: Sequence[tuple[int, bool]]) -> int:
        """Append words, given as (value, whether it is an offset), and return their offset."""
        at = self.add(struct.pack(f"<{len(values)}I", *(value & 0xFFFFFFFF for value, _ in values)), noise=0)
        self.places += [at + 4 * i for i, (_, is_offset) in enumerate(values) if is_offset]
        return at


def view_words(at: int, view: ctypes.Structure) -> list[tuple[int, bool]]:
    """Return the words of a view of the data at this offset."""
    return [(at, True), *((getattr(view, name), False) for name, _ in view._fields_[1:])]


def ring_words(image: Image, operand: Operand, span: Span) -> list[tuple[int, bool]]:
    """Append a line buffer of the rows and columns that a part of the output reads; return the words of its view."""
    need = operand.reads(span)
    ring = Ring.make(operand.shape, max(1, need.bottom - need.top), need.left, need.right, image.rng)
    ring.hold(operand.data, range(need.top, need.bottom))
    at = image.add(ring.memory.tobytes(), int(image.rng.integers(4))) + ring_calls.GUARD
    return view_words(at, ring.view(need.top, image.rng))


def struct_words(image: Image, params: ctypes.Structure, arrays: dict[int, np.ndarray]) -> list[tuple[int, bool]]:
    """Return the words of a parameter struct with 32-bit pointers, and add the arrays that they point to to the image."""
    found = []
    for name, kind in params._fields_:
        value = getattr(params, name)
        if isinstance(value, ctypes.Structure):
            found += struct_words(image, value, arrays)
        elif kind is ctypes.c_void_p:
            found.append((image.add(arrays[value].tobytes(), 4 * int(image.rng.integers(4))), True) if value else (0, False))
        else:
            found += [(item, False) for item in (value if isinstance(value, ctypes.Array) else [value])]
    return found


Way = tuple[str, str, tuple[tuple[str, str], ...], bool]


def _ways(call: Call) -> list[Way]:
    """Return how a kernel may be called: kernel, type of its parameters, functions of its members, whether it computes a part.

    The last way is for the whole output: without views, if the kernel has such a form.
    """
    parts = [True, False] if call.has_part else [False]
    return [(call.kernel, STRUCTS[type(call.params)], call.functions, part) for part in parts]


def run(trials: Sequence[Trial], core: str, folder: Path, rng: Rng) -> list[np.ndarray]:
    """Run the trials and return what `variant_pairs.whole` returns; all calls are made for each piece of the output."""
    kernels = sorted({way for trial in trials for call in trial.calls for way in _ways(call)})
    image, calls, written = Image(rng), list[tuple[int, bool]](), list[tuple[int, int]]()
    outs = list[list[tuple[int, int]]]()  # of each trial: begin and size of the output and of each state
    image.add(bytes(4 * 4), noise=0)
    for trial in trials:
        h, w, pixel = trial.out
        arrays = {array.ctypes.data: array for array in trial.keep}
        size = 2 if "int16" in BY_NAME[trial.calls[0].kernel].types else 1
        begins = [
            image.add(x.data.tobytes(), int(rng.integers(4)) & -(2 if i in trial.states else size))
            for i, x in enumerate(trial.inputs)
        ]
        out = image.add(rng.bytes(h * w * pixel), int(rng.integers(4)) & -size)
        outs.append([(out, h * w * pixel), *((begins[i], trial.inputs[i].data.size) for i in trial.states)])
        written += outs[-1]
        sizes = zip((*(x.shape for x in trial.inputs), trial.out), (*begins, out), strict=True)
        wholes = [view_words(at, View(0, iw * c, ih, 0, 0)) for (ih, iw, c), at in sizes]
        image.bytes += rng.bytes(GUARD)
        for call in trial.calls:
            words = struct_words(image, call.params, arrays)
            params = image.words(words)
            written += [(params, 4 * len(words))] if call.functions else []
            pieces = [((0, h), (0, w))]
            if not trial.states:  # a second call would continue from the new states
                pieces = list(product(ring_calls.pieces(h, rng), ring_calls.pieces(w, rng)))
            way = kernels.index(_ways(call)[0 if len(pieces) > 1 else -1])
            in_rings = call.has_part and len(pieces) > 1 and rng.integers(3)
            for rows, columns in pieces:
                span = Span(*rows, *columns)
                views = [ring_words(image, trial.inputs[i], span) if in_rings else wholes[i] for i in call.inputs]
                places = image.words([word for view in (*views, wholes[-1]) for word in view])
                range_ = image.words([(edge, False) for edge in (*rows, *columns)])
                scratch = image.add(rng.bytes(call.scratch), 4 * int(rng.integers(4))) if call.scratch else 0
                written.append((scratch, call.scratch))
                image.bytes += rng.bytes(GUARD)
                calls += [(way, False), *((at, True) for at in (params, places, range_, scratch))]
    begin = image.words(calls)
    places = image.add(struct.pack(f"<{len(image.places)}I", *image.places), noise=0)
    image.bytes[:16] = struct.pack("<4I", places, len(image.places), begin, len(calls) // 5)
    views_of = {call.kernel: (len(call.inputs), call.scratch) for trial in trials for call in trial.calls}
    cases = []
    for i, (name, params, functions, is_part) in enumerate(kernels):
        set_up = "".join(f"(({params} *)params)->{member} = {function}; " for member, function in functions)
        maps = ", ".join(f"views[{k}]{'' if is_part else '.data'}" for k in range(views_of[name][0] + 1))
        form, rest = ("_part", ", *range") if is_part else ("", "")
        rest += ", scratch" if views_of[name][1] else ""
        cases.append(f"    case {i}: {set_up}{name}{form}(params, {maps}{rest}); break;")
    folder.mkdir(exist_ok=True)
    for path in sources(name for name, *_ in kernels):
        shutil.copy(path, folder)
    includes = "\n".join(f'#include "{name}"' for name in dict.fromkeys(BY_NAME[name].header for name, *_ in kernels))
    (folder / "trials.h").write_text("#include <stdint.h>\n")
    (folder / "trials.c").write_text(PROGRAM.format(includes=includes, cases="\n".join(cases)))
    given = bytes(image.bytes)
    done = emulated.invoke(emulated.build(folder, "trials", core), {"sram": len(given)}, [given], [len(given)])
    before, after = (np.frombuffer(data, np.uint8).copy() for data in (given, done.outputs[0]))
    outputs = [np.concatenate([after[at : at + size] for at, size in each]) for each in outs]
    outputs = [flat if trial.states else flat.reshape(trial.out) for flat, trial in zip(outputs, trials, strict=True)]
    before[:] = _moved(before, image.places, after)
    for at, size in written:
        before[at : at + size] = after[at : at + size]
    assert np.array_equal(before, after), f"writes where it must not, first at {np.flatnonzero(before != after)[0]}"
    return outputs


def _moved(before: np.ndarray, places: Sequence[int], after: np.ndarray) -> np.ndarray:
    """Return the words with the address of the memory added to all pointers."""
    found = before.copy()
    slots = np.array(places)[:, None] + np.arange(4)
    pointers = found[slots].view("<u4")
    found[slots] = (pointers + (after[slots].view("<u4")[0] - pointers[0])).view(np.uint8)
    return found


def kernels_of(core: str) -> list[str]:
    """Return the kernels that `compare` runs on a core."""
    own = [name for name in variant_pairs.DRAWN if core in (CORES.get(isa := BY_NAME[name].isa), PLAIN.get(isa))]
    return [*own, *(IN_TURN if core == SMALL else copy_trials.DRAWN if core == VECTORS else ())]


def compare(library: ctypes.CDLL, name: str, numbers: tuple[int, int], core: str, folder: Path) -> None:
    """Compare trials of a kernel (on SMALL, of its twin) on the core with the library; `numbers`: (seed, count)."""
    seed, count = numbers
    number = 0
    while count > 0:
        about, expected, chosen = [], [], []
        while len(chosen) < min(count, AT_A_TIME):
            drawn = DRAWN[name](np.random.default_rng([seed, number]))
            number += 1
            if drawn is not None:
                about.append(f"{name}, seed {seed}, number {number - 1}")
                expected.append(variant_pairs.whole(library, drawn[0]))
                chosen.append(drawn[core != SMALL])
        found = run(chosen, core, folder, np.random.default_rng([seed, number]))
        for label, left, right in zip(about, expected, found, strict=True):
            assert np.array_equal(left, right), label
        count -= len(chosen)


def main(path: str, core: str, seed: int, count: int, only: Sequence[str] = ()) -> None:
    library = ctypes.CDLL(path)
    for name in (name for name in kernels_of(core) if not only or name in only):
        with tempfile.TemporaryDirectory() as folder:
            compare(library, name, (seed, count), core, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
