"""The record's `preparation`, applied to raw files by other code than the readers', gives the bytes of the samples."""

from __future__ import annotations

import json
import subprocess
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tinynas.prepare import task_of
from tinynas.settings import Preparation
from tinynas.tasks import dataset
from tinynas.tasks.dataset import preparation_at, sized
from tinynas.tasks.evaluation.baselines import features_size
from tinynas.tasks.features import LogMel
from tinyweave.support import toolchain

RNG = np.random.default_rng(0)
MAIN = """
#include <stdio.h>
#include "log_mel.h"
int main(void)
{
    static int16_t samples[8000];
    int32_t scratch[LOG_MEL_FRAME];
    int8_t features[LOG_MEL_FEATURES];
    const int count = (int)fread(samples, 2, 8000, stdin);
    for (int first = 0; first + LOG_MEL_SAMPLES <= count; first += HOP) {
        log_mel(samples + first, scratch, features);
        fwrite(features, sizeof features, 1, stdout);
    }
    return 0;
}
"""


def image(path: Path, number: int) -> None:
    rows, columns = 40 + 9 * (number % 5), 70 - 11 * (number % 3)
    Image.fromarray(RNG.integers(0, 256, (rows, columns, 3), np.uint8)).save(path)


def recording(path: Path, number: int) -> None:
    """Write a stereo recording of 3,000 to 5,004 samples: half a second has 4,000."""
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(RNG.normal(0, 3000, (3000 + 501 * (number % 5), 2)).astype("<i2").tobytes())


def table(path: Path, number: int) -> None:
    np.savetxt(path, RNG.normal(number % 3, 1, (40, 2)) * (1, 300), delimiter=",")


def annotated(folder: Path, files: list[Path]) -> None:
    """Write the annotations of images as COCO has them: each second one shows a person."""
    images = [{"id": n, "file_name": file.name} for n, file in enumerate(files)]
    boxes = [{"image_id": n, "category_id": 1, "bbox": [1, 2, 30, 20]} for n in range(0, len(files), 2)]
    record = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "person"}]}
    (folder / "all.json").write_text(json.dumps(record))


def pixels_of(prepared: dict[str, Any], file: Path, folder: Path) -> NDArray[Any]:
    rows, columns = prepared["size"]
    with Image.open(file) as whole:
        if prepared["resize"] == "bilinear":
            return np.asarray(whole.resize((columns, rows), Image.Resampling.BILINEAR))
        factor = min(rows / whole.height, columns / whole.width)
        inner = np.asarray(whole.resize((round(whole.width * factor), round(whole.height * factor)), Image.Resampling.BILINEAR))
    top, left = (rows - inner.shape[0]) // 2, (columns - inner.shape[1]) // 2
    letterbox = np.full((rows, columns, 3), 128, np.uint8)
    letterbox[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
    return letterbox


def rows_of(prepared: dict[str, Any], file: Path, folder: Path) -> NDArray[Any]:
    return np.loadtxt(file, delimiter=",")[None, : prepared["window"]]


def features_of(prepared: dict[str, Any], file: Path, folder: Path) -> NDArray[Any]:
    """Return the features that the emitted C computes of the middle of a recording, or of it between silence."""
    with wave.open(str(file)) as sound:
        frames = np.frombuffer(sound.readframes(sound.getnframes()), "<i2").reshape(-1, 2)
        count = round(prepared["seconds"] * sound.getframerate())
    mono = np.round(frames.astype(np.float64).mean(axis=1)).astype(np.int16)
    missing = count - len(mono)
    middle = mono[-missing // 2 :][:count] if missing < 0 else np.pad(mono, (missing // 2, missing - missing // 2))
    features = LogMel(**prepared["features"])
    if not (program := folder / "main").is_file():
        for name, text in {**features.c_files(), "main.c": MAIN}.items():
            (folder / name).write_text(text)
        sources = [f"-DHOP={features.hop}", folder / "main.c", folder / "log_mel.c"]
        toolchain.compile_c(toolchain.host(), [*sources, "-o", program])
    done = subprocess.run([program], input=middle.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.int8).reshape(-1, features.per_frame, 1)


TASKS: dict[str, tuple[Callable[[Path, int], None], str, Callable[..., NDArray[Any]], Preparation]] = {
    "images": (image, ".png", pixels_of, Preparation(size=(48, 49))),
    "visual-wake-words": (image, ".png", pixels_of, Preparation(size=(31, 48))),
    "detection": (image, ".png", pixels_of, Preparation(size=(48, 64))),
    "keywords": (recording, ".wav", features_of, Preparation(seconds=0.5, bands=12, coefficients=7, hop_ms=17)),
    "sensors": (table, ".csv", rows_of, Preparation(window=40)),
}


@pytest.mark.parametrize(("task", "averaged"), [*((task, False) for task in TASKS), ("images", True)])
def test_the_recorded_preparation_gives_the_bytes_of_the_samples(
    task: str, averaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a linear or nearest-neighbour network reads images of more than 1,024 values, which are averaged for it."""
    write, suffix, read, settings = TASKS[task]
    samples, other = tmp_path / "samples", tmp_path / "c"
    files = [samples / "ab"[number % 2] / f"{number}{suffix}" for number in range(40)]
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, number)
    if read is pixels_of and task != "images":
        files = [file.rename(samples / file.name) for file in files]
        annotated(samples, files)
    other.mkdir()
    data, _ = task_of(task, samples, settings)
    size = features_size(*data.values.shape[1:]) if averaged else data.values.shape[1:3]
    monkeypatch.setattr(dataset, "RESIZED_VALUES", 100_000)
    own = sized(data, size)
    prepared = json.loads(json.dumps(preparation_at(data, size)))
    assert ("averaged" in prepared) == averaged and own.preparation == preparation_at(data, size)
    for file, expected in zip(sorted(files, key=str), own.values, strict=True):
        values = read(prepared, file, other) * np.array(prepared.get("scale", 1)) + prepared.get("offset", 0)
        sample = np.clip(np.round(values), -128, 127).astype(np.int8)
        np.testing.assert_array_equal(means_of(sample, *prepared["averaged"]) if averaged else sample, expected)


def means_of(sample: NDArray[np.int8], rows: int, columns: int) -> NDArray[np.int8]:
    """Return a smaller sample: the means, halves rounded up, of the values that each new value covers, wholly or in part."""
    spans = [
        [slice(at * old // new, -(-(at + 1) * old // new)) for at in range(new)]
        for old, new in zip(sample.shape, (rows, columns), strict=False)
    ]
    means = [[np.floor(sample[top, left].mean((0, 1), np.float64) + 0.5) for left in spans[1]] for top in spans[0]]
    return np.array(means, np.int8)
