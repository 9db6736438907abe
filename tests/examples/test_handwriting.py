"""The network for handwritten digits recognises what its README says, and runs on a picture file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[search]'")
pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[search]'")

from handwriting import train

import tinyweave as tw

EXAMPLE = Path(__file__).parents[2] / "examples" / "handwriting"


def test_it_recognises_what_its_readme_says_in_arrays_and_pictures(tmp_path: Path) -> None:
    from PIL import Image

    x, digits = (each[-train.HELD_OUT :] for each in train.images())
    found = tw.run(EXAMPLE / "handwriting.tflite", x / np.float32(255))
    right = sum(int(scores.argmax()) == digit for (scores,), digit in zip(found.values, digits, strict=True))
    said = re.search(r"int8 network (\d+) of (\d+)", (EXAMPLE / "README.md").read_text())
    assert said and (right, train.HELD_OUT) == (int(said[1]), int(said[2])) and right > 0.95 * train.HELD_OUT
    Image.fromarray(x[0, 0].astype(np.uint8)).save(tmp_path / "digit.png")
    ((name, *_),) = tw.run(EXAMPLE / "handwriting.tflite", tmp_path / "digit.png").best(0, 1)
    assert name == tw.run(EXAMPLE / "handwriting.tflite", x[:1] / np.float32(255)).best(0, 1)[0][0]
    assert name in "zero one two three four five six seven eight nine".split()
