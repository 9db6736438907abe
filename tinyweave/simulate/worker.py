"""Persistent child processes that run generated code, so that its crashes and endless loops cannot harm this process.

A crash or an exceeded time limit raises a Fault with the text that the child wrote to stderr; the next session starts a new
child. All children end within a second of this process (PARENT). They run in the cache folder; Python children import nothing
from the folder in which this process was started.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..ir import CompileError
from ..support import toolchain
from ..support.parent import memory_advice
from .run import Fault

PARENT = "TINYWEAVE_PARENT"  # environment variable with this process's id; also in host.c
ALIVE = 4  # idle children that are kept
# python -I ignores PYTHON* variables and the current folder. Other import folders of this process are searched last. numpy's
# linear algebra, which is not used here, gets one thread, because starting more would dominate the start-up time.
ISOLATED = """\
import gc, os, runpy, sys, threading, time
gc.set_threshold(100_000)  # imports make many objects and no garbage
def end_with(parent):
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
threading.Thread(target=end_with, args=(int(os.environ["TINYWEAVE_PARENT"]),), daemon=True).start()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
count = int(sys.argv[1])
sys.path += [path for path in sys.argv[2:][:count] if path not in sys.path]
sys.argv[:] = sys.argv[2 + count:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# a foreign program: a second process kills it when its stdin ends, which happens when this process ends
GUARDED = """\
import os, signal, sys
guarded = os.getpid()
if os.fork() == 0:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.read(0, 1)
    if os.getppid() == guarded:
        os.kill(guarded, signal.SIGKILL)
    os._exit(0)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def guarded(command: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
    """Wrap a command so that its program ends with this process, even if killed; yield it, and the stdin to start it with."""
    if not hasattr(os, "fork"):  # Windows
        yield command, subprocess.DEVNULL
        return
    read, write = os.pipe()
    try:
        yield (sys.executable, "-I", "-S", "-c", GUARDED, *command), read
    finally:
        os.close(read)
        os.close(write)


def isolated(program: Path, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a Python file isolated from the current folder, until this process ends."""
    folders = toolchain.import_folders()
    return (sys.executable, "-I", "-c", ISOLATED, str(len(folders)), *folders, str(program), *arguments)


class Died(Fault):
    """Raised if a child ends during a request: with exit code `code`, or, if `late`, killed after its time limit."""

    def __init__(self, limit_s: float, late: bool, code: int, said: str):
        """Describe the end of a child, `late` if killed after `limit_s` seconds; `said` is its stderr."""
        why = f"did not finish within {limit_s:g} s" if late else f"ended its process with code {code}"
        super().__init__((not late and said[-4000:]) or f"the generated code {why}", "" if late else memory_advice())
        self.late, self.code = late, code
        self.last_line = (said.splitlines() or [""])[-1]


class Worker:
    """A child process that `session` starts, and starts again after a crash. Use `send` and `receive` within a session only."""

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str] | None = None):
        """Set the command line of the child and additional environment variables; nothing is started yet."""
        self._command, self._environment = command, dict(os.environ, **(environment or {}))
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._expired = False

    @property
    def is_alive(self) -> bool:
        """Return whether the child is running."""
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def session(self, limit_s: float) -> Iterator[Worker]:
        """Start the child if it is not running, and yield this worker for one request and its answer.

        Other threads wait. Died is raised if the child ends, or after `limit_s` seconds. Any other exception kills the child,
        since part of an answer may be left in its pipe.
        """
        with self._lock:
            if not self.is_alive:
                self._start()
            self._expired = False
            timer = threading.Timer(limit_s, self._expire)
            timer.daemon = True
            timer.start()
            try:
                yield self
            except (EOFError, BrokenPipeError) as error:
                raise self._death(limit_s) from error
            except BaseException:
                self.stop()  # part of the answer may still be in the pipe
                raise
            finally:
                timer.cancel()

    def send(self, data: bytes) -> None:
        """Write bytes to the child's stdin."""
        assert self._process and self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def receive(self, count: int) -> bytes:
        """Return the next `count` bytes of the child's stdout; raise EOFError if it ends before."""
        assert self._process and self._process.stdout
        data = self._process.stdout.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def stop(self) -> None:
        """Kill the child if it was started."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._errors.close()
        for pipe in (process.stdin, process.stdout):
            assert pipe
            with suppress(BrokenPipeError):
                pipe.close()

    def _start(self) -> None:
        self.stop()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._environment | {PARENT: str(os.getpid())},
                cwd=toolchain.cache_folder(),  # contains only files that this package wrote
            )
        except OSError as error:
            self._errors.close()
            raise CompileError(f"cannot run {self._command[0]}: {error}", "build again") from error

    def _expire(self) -> None:
        self._expired = True
        if self._process:
            self._process.kill()

    def _death(self, limit_s: float) -> Died:
        assert self._process
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        self.stop()
        return Died(limit_s, self._expired, code, said)


_workers: dict[tuple[int, tuple[str, ...]], Worker] = {}


def worker(command: tuple[str, ...], environment: Mapping[str, str] | None = None) -> Worker:
    """Return the worker for a command, created at first use; beyond ALIVE workers, stop the least recently used one."""
    key = (os.getpid(), command)  # a forked process must not share its parent's pipes
    child = _workers.pop(key, None) or Worker(command, environment)
    _workers[key] = child
    while len(_workers) > ALIVE:
        oldest = next(iter(_workers))
        released = _workers.pop(oldest)
        if oldest[0] == os.getpid():
            released.stop()
    return child


@atexit.register
def stop_all() -> None:
    """Kill the child processes that `worker` keeps for this process."""
    for (pid, _), child in list(_workers.items()):
        if pid == os.getpid():
            child.stop()
