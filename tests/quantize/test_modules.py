"""Ops of PyTorch that become several ops: a module becomes an int8 network that is close to it, and C that gives its bytes."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from cases.from_torch import of  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import tinyweave as tw  # noqa: E402
from tinyweave import api  # noqa: E402

TABLE = torch.linspace(-3, 3, 80).sin().reshape(10, 8)
MASK = torch.eye(6, dtype=torch.bool)
# op -> a module with the shape of its input, and the least SQNR in dB; a remainder jumps, so that one step of the input matters
CASES = {
    "remainder": (of(lambda m, x: m.conv(x) % 0.7, 1, 2, 6, 6, conv=nn.Conv2d(2, 4, 3)), 14),
    "remainder-of-maps": (of(lambda m, x: torch.remainder(x[:, :8], x[:, 8:].abs() + 0.5), 1, 16), 14),
    "fmod": (of(lambda m, x: torch.fmod(x, 1.7), 1, 4, 6, 6), 25),
    "fmod-of-maps": (of(lambda m, x: torch.fmod(x[:, :8], x[:, 8:].abs() + 0.5), 1, 16), 14),
    "pairwise-distance": (of(lambda m, x: functional.pairwise_distance(x[:4], x[4:]), 8, 16), 40),
    "sum-of-distances": (of(lambda m, x: functional.pairwise_distance(x[:4], x[4:], 1, keepdim=True), 8, 16), 40),
    "bags-of-one-length": (of(lambda m, i: functional.embedding_bag(i, TABLE, mode="mean"), 3, 4), 35),
    "bags": (of(lambda m, i: functional.embedding_bag(i, TABLE, torch.tensor([0, 2, 6]), mode="sum"), 9), 35),
    "weighted-bags": (
        of(lambda m, i: functional.embedding_bag(i, TABLE, mode="sum", per_sample_weights=TABLE[:3, :4]), 3, 4), 35,
    ),
    "masked-fill": (of(lambda m, x: x.masked_fill(MASK, -200.0) * 2, 1, 4, 6, 6), 40),
    "masked-scores": (of(lambda m, x: torch.softmax(x.masked_fill(MASK, -1e9), -1), 1, 4, 6, 6), 30),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_module_becomes_c_with_the_bytes_of_its_int8_network(case: str) -> None:
    (module, shape), least = CASES[case]
    rng, is_index = np.random.default_rng(4), "bag" in case
    shape = (16, *shape)
    samples = rng.integers(0, len(TABLE), shape) if is_index else rng.standard_normal(shape).astype(np.float32)
    quantisation = tw.quantize(tw.load(module.eval(), torch.from_numpy(samples[0])), samples)
    assert quantisation.fidelity.sqnr_db > least
    result = api.verify_plan(quantisation.model, api.plan(quantisation.model), api.ProofOptions(count=3), core=None)
    assert result.ok, result.first_difference
