"""Keep signals from code that they would break, and start `multiprocessing` workers that Ctrl-C does not reach.

The parent process, which Ctrl-C does reach, ends its workers. A worker that ignores the signal by itself prints a traceback if
it comes during the worker's first imports.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess


@contextmanager
def deaf(*signals: int) -> Iterator[None]:
    """Block signals in this thread and in the processes that it starts; those that come meanwhile are received at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # `multiprocessing` starts it when it is first needed, which unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Deaf(SpawnProcess):
    def start(self) -> None:
        with deaf(signal.SIGINT):
            super().start()

    def run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows cannot block it
        super().run()


class DeafContext(SpawnContext):
    """A context of `multiprocessing` whose processes are new interpreters in which SIGINT is blocked."""

    Process = _Deaf
