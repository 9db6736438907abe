"""The companion C of a network (features of sound, boxes): its files, Flash and RAM."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tinynas.halving import load_data, save_data
from tinynas.tasks.dataset import Dataset
from tinynas.tasks.features import log_mel
from tinynas.trained import companion, companion_bytes
from tinyweave import api
from tinyweave.devices import find
from tinyweave.ir import CompileError
from tinyweave.simulate import emulated

DIGITS = Path(__file__).parents[2] / "examples" / "keywords" / "digits.tflite"
FRAMES = 31

pytestmark = pytest.mark.emulator


def test_bytes_of_constants_and_variables_are_counted_once(tmp_path: Path) -> None:
    """Constants take Flash, variables RAM, and initialised variables both."""
    (tmp_path / "sizes.h").write_text("#include <stdint.h>\n#define MANY 100\n")
    (tmp_path / "some.c").write_text('#include "sizes.h"\nconst uint8_t table[MANY] = {1};\nuint32_t kept[10];\n')
    (tmp_path / "more.c").write_text('#include "sizes.h"\nuint32_t begun[2] = {1, 2};\n')
    assert emulated.compiled_bytes(tmp_path, "cortex-m4") == {"flash": 108, "ram": 48}
    (tmp_path / "code.c").write_text("int twice(int x) { return 2 * x; }\n")
    assert 108 < emulated.compiled_bytes(tmp_path, "cortex-m4")["flash"] <= 108 + 8


@pytest.mark.parametrize("device", [None, "stm32f746", "nrf52840"])
def test_ram_of_the_companion_of_a_network_for_sound(device: str | None) -> None:
    """The RAM holds the samples and scratch of one frame, the network's input, one pointer and four numbers."""
    setting = log_mel(16000)
    values = np.zeros((1, FRAMES, setting.per_frame, 1), np.int8)
    prepared = {"source": "sounds", "features": setting.record()}
    data = Dataset("sounds", ("yes", "no"), values, np.zeros(1, np.int64), np.zeros(1, np.uint8), prepared)
    model = api.load(DIGITS)
    files, _ = companion(data, model)
    samples, frame = (int(re.findall(rf"LOG_MEL_{name} (\d+)", files["log_mel_tables.h"])[0]) for name in ("SAMPLES", "FRAME"))
    found = companion_bytes(data, model, find(device) if device else None)
    assert found is not None and found["ram"] == 2 * samples + 4 * frame + FRAMES * setting.per_frame + 5 * 4
    tables = files["log_mel_tables.h"]
    of = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "int64_t": 8}
    constants = 0
    for kind, numbers in re.findall(r"static const (\w+) \w+\[\w*\] = \{([^}]*)\}", tables):
        constants += of[kind] * len(re.findall(r"-?\d+", numbers))
    assert constants > 500 and constants + 500 < found["flash"] < constants + 5000


@pytest.mark.parametrize(
    ("name", "content"), [("data.json", "{"), ("data.json", "{}"), ("data.json", "[]"), ("labels.npy", "x")]
)
def test_damaged_samples_are_refused_in_one_line(name: str, content: str, tmp_path: Path) -> None:
    data = Dataset("images", ("a", "b"), np.zeros((2, 8, 8, 3), np.int8), np.arange(2), np.zeros(2, np.uint8), {})
    save_data(data, tmp_path)
    np.testing.assert_array_equal(load_data(tmp_path).labels, data.labels)
    (tmp_path / name).write_text(content)
    with pytest.raises(CompileError, match=r"the samples in .* are damaged: .*; run it again in another folder") as error:
        load_data(tmp_path)
    assert "\n" not in str(error.value)


def test_a_network_for_images_has_no_companion() -> None:
    data = Dataset(
        "images", ("a", "b"), np.zeros((1, 8, 8, 3), np.int8), np.zeros(1), np.zeros(1, np.uint8), {"source": "images"}
    )
    assert companion(data, api.load(DIGITS)) == ({}, "") and companion_bytes(data, api.load(DIGITS), None) is None
