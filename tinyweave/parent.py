"""End a worker process when its parent process has ended, even if the parent was killed."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """End this `multiprocessing` process as soon as its parent process has ended. Call this in the new process.

    Children of a killed parent do not end by themselves. A pool's workers would wait for work forever, because each of them
    holds the other end of the pipe, so that it is never closed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    """Wait for the parent to end, then exit."""
    parent.join()
    os._exit(1)
