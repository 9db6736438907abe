"""Several processes together train the same supernet as one process, bit for bit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cases.stripes import trained, trained_together
from cases.waves import waves

torch = pytest.importorskip("torch", reason="needs torch")

from tinynas import one_shot  # noqa: E402
from tinynas.learning.team import Team, is_launched  # noqa: E402
from tinynas.learning.train import thread_count  # noqa: E402
from tinynas.search_options import strategy_for  # noqa: E402
from tinynas.settings import SearchOptions  # noqa: E402
from tinynas.workers import pool  # noqa: E402
from tinyweave.ir import CompileError  # noqa: E402

RUNS: list[dict[str, Any]] = [{"epochs": 2, "networks_per_step": 3}, {"epochs": 3, "stop": 2}]


def test_two_processes_train_the_same_weights_as_one(tmp_path: Path) -> None:
    """One process starts with other weights and without a checkpoint, and trains fewer networks than the other."""
    with pool(1) as workers:
        other = workers.submit(trained_together, tmp_path / "meeting", 1, tmp_path, RUNS)
        ours = trained_together(tmp_path / "meeting", 0, tmp_path, RUNS)
        theirs = other.result()
    (tmp_path / "alone").mkdir()
    with thread_count(1):
        alone = [trained(number, tmp_path / "alone", **run) for number, run in enumerate(RUNS)]
    for one, two, expected in zip(ours, theirs, alone, strict=True):
        assert len(expected) > 10
        for name, value in expected.items():
            np.testing.assert_array_equal(one[name], value, err_msg=name)
            np.testing.assert_array_equal(two[name], value, err_msg=name)
    assert not list(tmp_path.glob("state-*-1")), "the first one writes the state"


def test_weights_that_no_network_uses_do_not_change() -> None:
    """With a gradient of zeros the weight decay would change them."""
    from tinynas.learning import team

    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    (used * torch.tensor([1.0, 3.0])).sum().backward()
    flat = team._flat([used, unused])
    assert used.grad is None and flat.tolist() == [1, 3, 0, 0, 1, 0]
    for _ in range(2):
        team._add(flat, [used, unused])
    assert used.grad.tolist() == [2, 6] and unused.grad is None


def test_networks_are_shared_evenly_among_processes() -> None:
    shares = [[number for number in range(5) if Team(rank, 3).evaluates(number)] for rank in range(3)]
    assert shares == [[0, 3], [1, 4], [2]]


def test_options_that_torchrun_does_not_support_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not is_launched()
    two = Team(0, 2)
    assert strategy_for("sensors", SearchOptions(), tmp_path, two) == "supernet"
    with pytest.raises(CompileError, match="torchrun trains supernets only; give strategy=supernet"):
        strategy_for("sensors", SearchOptions("halving"), tmp_path, two)
    with pytest.raises(CompileError, match="torchrun starts 5 processes; at most 4 share a supernet"):
        strategy_for("sensors", SearchOptions("supernet"), tmp_path, Team(0, 5))
    asked = SimpleNamespace(rank=1, broadcast=lambda: (None, None, 0, 1, one_shot.data_hash(waves(40))))
    with pytest.raises(CompileError, match="process 1 of torchrun has other samples than process 0"):
        one_shot.join_training(waves(50), asked)  # type: ignore[arg-type]
    one_shot.join_training(waves(50), SimpleNamespace(rank=1, broadcast=lambda: None))  # type: ignore[arg-type]
