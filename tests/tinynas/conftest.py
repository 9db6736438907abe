"""Searches in tests train in the test's process, because a new process would spend its time importing PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Any]:
    """Yield a worker that trains and measures in this process with one thread; searches of the test module use it."""
    pytest.importorskip("torch", reason="needs torch")
    from tinynas import prepare, searching
    from tinynas.learning.train import thread_count
    from tinynas.workers import Workers

    with ThreadPoolExecutor(1) as executor, thread_count(1), pytest.MonkeyPatch.context() as patch:
        executor.submit(lambda: thread_count(1).__enter__()).result()  # a setting of each thread
        worker = Workers(executor.submit, 1)

        @contextmanager
        def here(processes: int, *, ray: bool = False) -> Iterator[Workers]:
            yield worker

        for module in (prepare, searching):
            patch.setattr(module, "pool", here)
        yield worker
