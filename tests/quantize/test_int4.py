"""4-bit weights: the scale of least error, and LiteRT's bytes for a network with 4-bit weights in some layers."""

from __future__ import annotations

import numpy as np
import pytest
from cases.floats import convolution

from tinyweave import ops
from tinyweave.exporters.tflite import to_tflite
from tinyweave.importers.tflite import from_tflite
from tinyweave.quantize.calibrate import calibrate
from tinyweave.quantize.convert import WeightFormat, to_int8, weight_scales
from tinyweave.quantize.fidelity import as_int8
from tinyweave.simulate import litert

FORM = WeightFormat("int4")
RNG = np.random.default_rng(0)


def error(weights: np.ndarray, scale: float) -> float:
    return float(((np.clip(np.round(weights / scale), -8, 7) * scale - weights) ** 2).sum())


def test_the_int4_scale_nearly_minimises_the_square_error() -> None:
    weights = RNG.standard_t(4, (6, 3, 3, 8))
    scales = weight_scales(weights, 0, np.zeros(6), 0.1, FORM)
    for channel, scale in zip(weights, scales, strict=True):
        best = min(error(channel, s) for s in np.abs(channel).max() / 7 * np.linspace(0.2, 1.2, 500))
        assert error(channel, scale) <= 1.01 * best
    assert (scales < np.abs(weights).max(axis=(1, 2, 3)) / 7).any()


def test_given_scales_are_kept_and_zero_channels_get_a_positive_scale() -> None:
    given = WeightFormat("int4", np.array([0.5, 0.25]))
    assert weight_scales(np.ones((2, 3)), 0, np.zeros(2), 0.1, given).tolist() == [0.5, 0.25]
    assert (weight_scales(np.zeros((2, 3)), 0, np.ones(2), 0.1, FORM) > 0).all()
    assert weight_scales(np.array([[7.0], [0.0]]), 0, np.zeros(2), 0.1, FORM)[1] > 0


@pytest.mark.litert
def test_a_network_with_some_4_bit_layers_gives_the_bytes_of_litert() -> None:
    real = convolution(3)
    inputs = {"x": RNG.normal(size=(6, 1, 8, 8, 4)).astype(np.float32)}
    calibration = calibrate(real, inputs, "minmax")
    names = [op.name for op in real.ops]
    small = to_int8(real, calibration.groups, calibration.quants, weights=dict.fromkeys(names[::2], FORM))
    assert [small.input(op, 1).dtype for op in small.ops] == ["int4", "int8", "int4"]
    file = to_tflite(small)
    read = from_tflite(file, "net")
    assert [read.input(op, 1).dtype for op in read.ops] == ["int4", "int8", "int4"]
    stacked = as_int8(small, inputs)["x"]
    for sample, run in zip(stacked, litert.run(file, [[sample] for sample in stacked]), strict=True):
        assert ops.run(small, {"x": sample})[small.outputs[0]].tobytes() == run.outputs[0].tobytes()
