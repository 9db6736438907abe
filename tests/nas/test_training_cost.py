"""Predicted times of training: what they depend on, and the speed of this machine, which is measured once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyweave.nas import training_cost
from tinyweave.nas.space import arch_of, largest, small_images, smallest
from tinyweave.nas.training_cost import FILE, machine_factor, step_seconds
from tinyweave.nas.workers import Workers


def test_a_step_takes_longer_for_larger_networks_and_batches() -> None:
    space = small_images()
    small, large = (arch_of(space, choice(space), 10) for choice in (smallest, largest))
    assert 0 < step_seconds(small, 16) < step_seconds(small, 64) < step_seconds(large, 64)
    assert step_seconds(large, 128) < 2 * step_seconds(large, 64), "a part of the time does not depend on the samples"


def test_the_speed_of_a_machine_is_measured_once(one_worker: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine later divides the time limit as an idle one: equal searches train equal networks."""
    monkeypatch.setattr(training_cost, "cache_folder", lambda: tmp_path)
    factor = machine_factor(one_worker)
    assert 0.01 < factor < 100 and json.loads((tmp_path / FILE).read_text()) == {"factor": factor}
    (tmp_path / FILE).write_text('{"factor": 1.25}')
    assert machine_factor(one_worker) == 1.25
    monkeypatch.setattr(training_cost, "_measured_factor", lambda: 3.5)
    for damaged in ("", "{", "[]", '{"factor": null}', '{"factor": -1}', '{"factor": NaN}'):
        (tmp_path / FILE).write_text(damaged)
        assert machine_factor(one_worker) == 3.5
