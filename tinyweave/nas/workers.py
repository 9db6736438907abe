"""Who trains and measures the networks of a search: processes of this machine, or a Ray cluster. In: how many. Out: Workers."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from ..ir import CompileError

LEAST_STORE = 80 << 20  # bytes of Ray's memory for objects: samples and weights lie in files
SECONDS = 10.0  # that a cluster may take to answer


@dataclass(frozen=True)
class Workers:
    """submit: called with a function and its arguments, has a worker call it. count: of calls that run at a time."""

    submit: Callable[..., Future[Any]]
    count: int

    def as_they_end(self, calls: Sequence[Callable[[], Any]]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each call and what it returned, in the order in which they end; after an error none is begun."""
        jobs = {self.submit(call): number for number, call in enumerate(calls)}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise

    def each(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what a function returns for each tuple of arguments."""
        returned = dict(self.as_they_end([partial(function, *arguments) for arguments in calls]))
        return [returned[number] for number in range(len(calls))]


@contextmanager
def pool(processes: int, *, ray: bool = False) -> Iterator[Workers]:
    """Yield workers of one thread each: two of them train nearly twice as fast as one of two threads.

    ray: they are those of the cluster that RAY_ADDRESS names, else of one that is started here, of so many processes. All of
    its nodes must see the folder of the run. An error or an interruption in the block ends what the workers do.
    """
    if processes < 1:
        raise CompileError(f"{processes} processes train nothing", "give at least one")
    with _cluster(processes) if ray else _processes(processes) as workers:
        yield workers


@contextmanager
def _processes(count: int) -> Iterator[Workers]:
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _one_thread) as executor:
        try:
            yield Workers(executor.submit, count)
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()  # a training goes on from its last epoch
            raise


@contextmanager
def _cluster(count: int) -> Iterator[Workers]:
    if find_spec("ray") is None:
        raise CompileError("Ray is not installed", "pip install 'tinyweave[ray]', or leave out --ray")
    address = os.environ.get("RAY_ADDRESS", "")
    _check_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a search
    import ray

    is_ours = not ray.is_initialized()
    if is_ours:
        local = {"num_cpus": count, "object_store_memory": LEAST_STORE, "include_dashboard": False}
        ray.init(log_to_driver=False, logging_level="ERROR", **({} if address else local))
    try:
        task = ray.remote(num_cpus=1)(_call)
        cores = int(ray.cluster_resources().get("CPU", 0))
        yield Workers(lambda function, *given, **named: task.remote(function, given, named).future(), max(1, cores))
    finally:
        if is_ours:
            ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise CompileError where nobody listens at a cluster's HOST:PORT, for which Ray itself would look for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), SECONDS).close()
        except (OSError, OverflowError) as error:
            why = f"there is no Ray cluster at {address}: {error}"
            raise CompileError(why, "correct RAY_ADDRESS, or unset it: a cluster is then started here") from error


def _call(function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    import torch

    torch.set_num_threads(1)
    return function(*given, **named)


def _one_thread() -> None:
    import signal

    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    torch.set_num_threads(1)
