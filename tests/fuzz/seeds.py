"""The seeds of random networks as parameters of tests: the usual ones, those of sweeps, or those of the command line."""

from __future__ import annotations

import pytest


def parametrize(metafunc: pytest.Metafunc, name: str, usual: int, in_sweeps: int, batch: int = 1) -> None:
    """Give a test the parameter `name` if it has one: a seed, or a range of `batch` seeds if this is more than 1.

    The first `usual` seeds always run, the others below `in_sweeps` in sweeps. With `--fuzz-seed N` the first seed is N; with
    `--fuzz-count M` all of M seeds run.
    """
    if name not in metafunc.fixturenames:
        return
    first, count = (metafunc.config.getoption(f"--fuzz-{option}") for option in ("seed", "count"))
    usual, total = (usual, in_sweeps) if count is None else (count, count)
    batches = [range(first + at, first + min(at + batch, total)) for at in range(0, total, batch)]
    marks = [[pytest.mark.sweep] * (seeds[0] >= first + usual) for seeds in batches]
    given = [(seeds, f"{seeds[0]}-{seeds[-1]}") if batch > 1 else (seeds[0], f"{seeds[0]}") for seeds in batches]
    metafunc.parametrize(name, [pytest.param(each, marks=mark, id=id) for (each, id), mark in zip(given, marks, strict=True)])
