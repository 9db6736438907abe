"""Worker processes that train and plan the networks of a search, on this machine or in a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from tinyweave.ir import CompileError
from tinyweave.support.deaf import DeafContext
from tinyweave.support.installing import install
from tinyweave.support.parent import end_with_parent

LEAST_STORE = 80 << 20  # bytes of Ray's object store: small, because samples and weights are in files
SECONDS = 10.0  # timeout of the connection to a cluster
POLL_S = 0.5  # seconds between two looks at running calls


@dataclass(frozen=True)
class Workers:
    """A pool of workers, local processes or those of a Ray cluster, that execute calls in parallel."""

    submit: Callable[..., Future[Any]]  # schedules a call, given a function and its arguments
    count: int  # number of calls that run in parallel

    def as_they_end(
        self, calls: Sequence[Callable[[], Any]], while_running: Callable[[], None] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Run calls in the workers, and yield (index of the call, result) in the order in which the calls end.

        An exception of a call is raised here, and no further call starts. `while_running` is called every POLL_S seconds.
        """
        jobs = {self.submit(call): number for number, call in enumerate(calls)}
        try:
            running = set(jobs)
            while running:
                ended, running = wait(running, POLL_S if while_running else None, FIRST_COMPLETED)
                for job in sorted(ended, key=jobs.__getitem__):
                    yield jobs[job], job.result()
                if while_running and running:
                    while_running()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a function in the workers with each tuple of arguments, and return the results in the order of the tuples."""
        returned = dict(self.as_they_end([partial(function, *arguments) for arguments in calls]))
        return [returned[number] for number in range(len(calls))]


@contextmanager
def pool(processes: int, *, ray: bool = False) -> Iterator[Workers]:
    """Yield a pool of `processes` local processes with one PyTorch thread each; an error in the block terminates them.

    Two workers with one thread train nearly twice as fast as one with two. With `ray`, the workers are in the cluster at
    RAY_ADDRESS, whose nodes need access to the folder of the run, or else in a local one of `processes`.
    """
    if processes < 1:
        raise CompileError(f"--processes {processes} is out of range", "give at least 1")
    with _cluster(processes) if ray else _processes(processes) as workers:
        yield workers


@contextmanager
def process_pool(count: int, initializer: Callable[[], None] = end_with_parent) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of new processes that end with this one, or on an error; `initializer` must call `end_with_parent`."""
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, DeafContext(), initializer) as executor:
        try:
            yield executor
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()  # an interrupted training resumes from its last epoch
            raise


@contextmanager
def _processes(count: int) -> Iterator[Workers]:
    with process_pool(count, _one_thread) as executor:
        yield Workers(executor.submit, count)


@contextmanager
def _cluster(count: int) -> Iterator[Workers]:
    if find_spec("ray") is None:
        raise CompileError("Ray is not installed", f"{install('ray')}, or leave out ray")
    address = os.environ.get("RAY_ADDRESS", "")
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        local: dict[str, Any] = {"num_cpus": count, "object_store_memory": LEAST_STORE, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **({} if address else local))
    try:
        task = ray.remote(num_cpus=1)(_call)
        cores = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]  # of ray
        yield Workers(
            lambda function, *arguments, **keywords: task.remote(function, arguments, keywords).future(), max(1, cores)
        )
    finally:
        if is_ours:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise CompileError if no cluster listens at HOST:PORT; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), SECONDS).close()
        except (OSError, OverflowError) as error:
            why = f"no Ray cluster answers at {address}: {error}"
            raise CompileError(why, "correct RAY_ADDRESS, or unset it to start a local cluster") from error


def _call(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a function with one PyTorch thread; this runs in a Ray worker."""
    import torch

    torch.set_num_threads(1)
    return function(*arguments, **keywords)


def _one_thread() -> None:
    """Set up a local worker: it ends with its parent, and uses one PyTorch thread."""
    end_with_parent()  # before the import of torch, which takes seconds
    import torch

    torch.set_num_threads(1)
