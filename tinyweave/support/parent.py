"""What a worker process does first: limit its memory and time, and end when its parent process has ended, even if killed.

Programs that import nothing of tinyweave run this file (`runpy`) for `limit_process`.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import multiprocessing.process


def limit_process(memory_bytes: int) -> None:
    """Limit this process's address space to `memory_bytes` or its lower limit, and core dumps, if the system has limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, wanted in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        least = min(limit for limit in (wanted, *resource.getrlimit(kind)) if limit != resource.RLIM_INFINITY)
        resource.setrlimit(kind, (least, least))


def memory_advice() -> str:
    """Return what to do if a child process may have died of the memory limit that it inherits, "" without a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"if it lacked memory, raise the limit of {limit >> 20:,} MiB (ulimit -v)"


def end_with_parent() -> None:
    """End this new `multiprocessing` process with its parent; a pool's workers, which hold its pipe, would wait forever."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
