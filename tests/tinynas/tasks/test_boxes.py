"""Boxes decoded from a head: equal bytes in Python, in C on the host and on an emulated core; close to those in floats."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases.strict import sanitizers
from numpy.typing import NDArray

from tinynas.tasks.boxes import BOX, LARGEST, MOST, Head, as_rows, suppressed
from tinyweave.ir import CompileError, Quant
from tinyweave.simulate import emulated
from tinyweave.support import toolchain

MAIN = """
#include <stdio.h>
#include "boxes.h"
int main(void)
{
    static int8_t head[BOXES_ROWS * BOXES_COLUMNS * BOXES_ANCHORS * (5 + BOXES_SCORES)];
    static tw_box boxes[BOXES_MOST];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        int32_t count = tw_boxes(head, THRESHOLD, boxes);
        fwrite(&count, sizeof count, 1, stdout);
        fwrite(boxes, sizeof boxes[0], (size_t)count, stdout);
    }
    return 0;
}
"""
ON_CORE = """
#include "boxes.h"
#define HEAD (BOXES_ROWS * BOXES_COLUMNS * BOXES_ANCHORS * (5 + BOXES_SCORES))
int32_t heads_init(void *const *memory) { (void)memory; return 0; }
int32_t heads_reset(void *const *memory) { (void)memory; return 0; }
void *heads_input(void *const *memory, int32_t index) { (void)index; return *memory; }
void *heads_output(void *const *memory, int32_t index) { (void)index; return (uint8_t *)*memory + COUNT * HEAD; }
int32_t heads_invoke(void *const *memory, const void *io)
{
    uint8_t *result = heads_output(memory, 0);
    (void)io;
    for (int32_t i = 0; i < COUNT; i++, result += 4 + BOXES_MOST * sizeof(tw_box))
        *(int32_t *)result = tw_boxes((const int8_t *)*memory + i * HEAD, THRESHOLD, (tw_box *)(result + 4));
    return 0;
}
"""
QUANT = Quant((0.06,), (13,))
HEADS = {
    "one class": Head((96, 128), 16, ((9.3, 5.1), (30.0, 14.5), (80.0, 60.0)), 1),
    "three classes": Head((64, 64), 8, ((4.54, 4.06), (512.0, 3.0)), 3),
    "at the limit": Head((64, 64), 16, ((16.0, 8.0), (115 / 16, 8.0)), 1),  # one covers 115 / 256 of the other
    "few cells": Head((512, 32), 32, ((0.03, 400.7),), 2),
}
FLAGS = "-std=c99 -O1 -Wall -Wextra -Wconversion -Wcast-qual -Wshadow -Werror -pedantic".split()
CORE, TRIED = "cortex-m4", 100


def heads(head: Head, count: int) -> NDArray[np.int8]:
    """Return heads of all densities, with ties, and at both ends of int8."""
    rng = np.random.default_rng(head.classes)
    values = rng.integers(-128, 128, (count, *head.shape)).astype(np.int8)
    coarse = rng.integers(-3, 4, values.shape) * 42
    values[::3] = np.clip(coarse, -128, 127)[::3]
    values[1::7] = rng.choice(np.array([-128, 127], np.int8), values[1::7].shape)
    values[2] = 127
    values[4::5] = QUANT.zero_point[0]  # boxes as large as their anchors, in the middle of their cells
    anchors = values.reshape(count, *head.shape[:2], len(head.anchors), -1)
    anchors[4::5, ..., 4] = rng.integers(-128, 128, anchors[4::5, ..., 4].shape)
    anchors[rng.random(anchors.shape[:4]) < rng.random((count, 1, 1, 1)), 4] = -128
    anchors[3] = 50  # more than the output holds, all equal, too small to overlap
    anchors[3, ..., 2:4] = -128
    return values


def program(head: Head, folder: Path, threshold: float) -> Path:
    for name, text in {**head.c_files(QUANT), "main.c": MAIN}.items():
        (folder / name).write_text(text)
    define = f"-DTHRESHOLD={head.limit(threshold)}"
    files = [folder / "main.c", folder / "boxes.c", "-o", folder / "main"]
    compiler = toolchain.host()
    toolchain.compile_c(compiler, [*FLAGS, *sanitizers(compiler.name), define, *files])
    return folder / "main"


def expected(head: Head, values: NDArray[np.int8], threshold: float) -> bytes:
    found = [head.detected(each, QUANT, threshold) for each in values]
    return b"".join(len(boxes).to_bytes(4, "little") + boxes.tobytes() for boxes in found)


@pytest.mark.parametrize(
    ("name", "threshold"), [("one class", 0.02), ("three classes", 0.3), ("at the limit", 0.3), ("few cells", 0.001)]
)
def test_c_gives_the_bytes_of_python(name: str, threshold: float, tmp_path: Path) -> None:
    head = HEADS[name]
    values = heads(head, 350)
    done = subprocess.run([program(head, tmp_path, threshold)], input=values.tobytes(), capture_output=True, check=True)
    assert done.stdout == expected(head, values, threshold)
    counts = [len(head.detected(each, QUANT, threshold)) for each in values]
    assert min(counts) == 0 and max(counts) > 10, "heads with none and with many"


@pytest.mark.emulator
@pytest.mark.parametrize("name", ["one class", "three classes"])
def test_an_emulated_core_gives_the_bytes_of_python(name: str, tmp_path: Path, emulator: None) -> None:
    if reason := emulated.missing(CORE):
        pytest.skip(reason[0])
    head, threshold = HEADS[name], 0.05
    values = heads(head, TRIED)
    given = values.tobytes()
    defines = f"#define COUNT {TRIED}\n#define THRESHOLD {head.limit(threshold)}\n"
    for file, text in {**head.c_files(QUANT), "heads.c": defines + ON_CORE, "heads.h": "#include <stdint.h>\n"}.items():
        (tmp_path / file).write_text(text)
    slot = 4 + MOST * BOX.itemsize
    built = emulated.build(tmp_path, "heads", CORE)
    done = emulated.invoke(built, {"sram": len(given) + TRIED * slot}, [given], [TRIED * slot])
    results, found = done.outputs[0], b""
    for start in range(0, len(results), slot):
        count = int.from_bytes(results[start : start + 4], "little")
        found += results[start : start + 4 + count * BOX.itemsize]
    assert found == expected(head, values, threshold)


def boxes_in_floats(head: Head, values: NDArray[np.int8]) -> list[tuple[float, ...]]:
    """Return label, edges and score of each anchor in each cell, computed in floats by the definition."""
    rows, columns, _ = head.shape
    cells = ((values.astype(float) - QUANT.zero_point[0]) * QUANT.scale[0]).reshape(rows, columns, len(head.anchors), -1)
    found = []
    for (row, column, anchor), _ in np.ndenumerate(cells[..., 0]):
        terms = cells[row, column, anchor]
        logistic = [1 / (1 + math.exp(-value)) for value in terms]
        classes = logistic[5:] or [1.0]
        sides = [own * min(math.exp(t), LARGEST) for own, t in zip(head.anchors[anchor], terms[2:4], strict=True)]
        middle = (row + logistic[0]) * head.stride, (column + logistic[1]) * head.stride
        edges = [place - sign * side / 2 for sign in (1, -1) for place, side in zip(middle, sides, strict=True)]
        edges = [min(max(edge, 0.0), limit) for edge, limit in zip(edges, head.size * 2, strict=True)]
        found.append((float(np.argmax(classes)), *edges, logistic[4] * max(classes)))
    return found


@pytest.mark.parametrize("name", HEADS)
def test_boxes_differ_from_those_in_floats_by_at_most_a_unit(name: str) -> None:
    head = HEADS[name]
    for values in heads(head, 9):
        wanted = np.array(boxes_in_floats(head, values))
        real = (values.astype(np.float32) - QUANT.zero_point[0]) * np.float32(QUANT.scale[0])
        for boxes in (as_rows(head.detected(values, QUANT, 0.05)), head.detected_real(real, 0.05)):
            for box in boxes:
                apart = np.abs(wanted[:, 1:5] - box[1:5]).max(axis=1) + (wanted[:, 0] != box[0]) * 99
                assert (apart + 10 * np.abs(wanted[:, 5] - box[5])).min() < 0.07 * LARGEST


def test_a_box_computed_by_hand_from_its_cell_and_anchor() -> None:
    head, quant = HEADS["three classes"], Quant((0.1,), (0,))
    values = np.full((8, 8, 2, 8), -128, np.int8)
    values[3, 5, 0] = [0, 0, 0, 0, 120, -50, 90, -50]
    (box,) = head.detected(values.reshape(head.shape), quant, 0.5)
    assert box["label"] == 1 and box["score"] / 2**15 == pytest.approx(1 / (1 + math.exp(-9)), abs=2e-3)
    centre = [(int(box[a]) + int(box[b])) / 32 for a, b in (("top", "bottom"), ("left", "right"))]
    assert centre == pytest.approx([3.5 * 8, 5.5 * 8], abs=1 / 16)
    assert (box["bottom"] - box["top"]) / 16 == pytest.approx(4.54, abs=1 / 16)
    values[3, 5, 1] = values[3, 5, 0]
    assert len(head.detected(values.reshape(head.shape), quant, 0.5)) == 2, "anchors of other shapes do not overlap"
    values[3, 5, 1] = -128
    values[3, 5, 0, 2:4] = 20
    values[3, 6, 0] = [0, -60, 20, 20, 110, -50, 90, -50]
    assert len(head.detected(values.reshape(head.shape), quant, 0.5)) == 1, "the same thing in the next cell goes"
    values[3, 6, 0, 5:7] = [90, -50]
    assert len(head.detected(values.reshape(head.shape), quant, 0.5)) == 2, "unless it is of another class"


def test_only_the_candidates_with_the_highest_scores_are_kept() -> None:
    head = HEADS["one class"]
    values = np.zeros((6, 8, 3, 5), np.int8)
    values[..., 2:4] = -128  # too small to overlap
    values[..., 4] = np.arange(6 * 8 * 3).reshape(6, 8, 3) % 120
    scores = head.detected(values.reshape(head.shape), QUANT, 1e-3)["score"]
    assert len(scores) == MOST and (np.diff(scores.astype(int)) <= 0).all()
    assert scores[-1] == np.sort(head.tables(QUANT)[0][values[..., 4].reshape(-1).astype(int) + 128])[::-1][MOST - 1]


def test_suppression_equals_the_comparison_of_all_pairs() -> None:
    rng = np.random.default_rng(7)
    corner, sides = rng.integers(0, 60, (300, 2)), rng.integers(0, 40, (300, 2))
    edges, labels = np.concatenate((corner, corner + sides), axis=1), rng.integers(0, 3, 300)
    kept = list[int]()
    for index, (top, left, bottom, right) in enumerate(edges.tolist()):
        for better in kept:
            t, le, b, r = edges[better].tolist()
            shared = max(0, min(bottom, b) - max(top, t)) * max(0, min(right, r) - max(left, le))
            union = (bottom - top) * (right - left) + (b - t) * (r - le) - shared
            if labels[better] == labels[index] and shared > 0.5 * union:
                break
        else:
            kept.append(index)
    assert suppressed(edges, labels, 0.5) == kept and 20 < len(kept) < 280


def test_a_box_that_overlaps_by_more_than_the_limit_is_suppressed() -> None:
    head, values = HEADS["at the limit"], np.full((4, 4, 2, 5), -128, np.int8)
    values[1, 2] = QUANT.zero_point[0]
    assert len(head.detected(values.reshape(head.shape), QUANT, 0.3)) == 2, "by just as much"
    values[1, 2, 1, 2] += 1
    assert len(head.detected(values.reshape(head.shape), QUANT, 0.3)) == 1


def test_a_threshold_outside_of_0_to_1_is_refused() -> None:
    assert HEADS["one class"].limit(0.5) == 1 << 14
    for wrong in (0, -1, 1.01, math.nan):
        with pytest.raises(CompileError, match=r"the threshold .* is out of range; give a number above 0"):
            HEADS["one class"].limit(wrong)


def test_the_struct_of_a_box_has_no_padding() -> None:
    assert BOX.itemsize == 12
