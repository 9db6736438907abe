"""A persistent child process in which generated code runs, so that its crashes and endless loops stay there.

In: a command line. Out: bytes through its pipes. Death or a passed time limit becomes a Fault with what the child wrote to
stderr; the next session starts a new child. All children are killed when this process ends. Children run in a folder of our
own, and Python programs among them see nothing of the folder in which this process was started.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import toolchain
from ..ir import CompileError
from .run import Fault

ALIVE = 4  # children kept waiting for more work
# python -I reads neither PYTHON* variables nor the current folder; packages that this process has elsewhere are looked up last;
# threads of numpy's linear algebra, which nothing here uses, would take longer to start than all the rest
ISOLATED = """\
import os, runpy, sys
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
count = int(sys.argv[1])
sys.path += [path for path in sys.argv[2:][:count] if path not in sys.path]
sys.argv[:] = sys.argv[2 + count:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def isolated(program: Path, *arguments: str) -> tuple[str, ...]:
    """Return the command of a Python program that imports nothing from the current folder."""
    folders = toolchain.import_folders()
    return (sys.executable, "-I", "-c", ISOLATED, str(len(folders)), *folders, str(program), *arguments)


class Died(Fault):
    """A child ended in the middle of a request: late, when its time had passed; else with a code, and maybe last words."""

    def __init__(self, limit_s: float, late: bool, code: int, said: str):
        why = f"did not finish within {limit_s:g} s" if late else f"ended its process with code {code}"
        super().__init__((not late and said[-4000:]) or f"the generated code {why}")
        self.late, self.code = late, code
        self.last_line = (said.splitlines() or [""])[-1]


class Worker:
    """One child process, started when first needed. Talk to it inside of `session` only."""

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str] | None = None):
        self._command, self._environment = command, dict(os.environ, **(environment or {}))
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._expired = False

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def session(self, limit_s: float) -> Iterator[Worker]:
        """A request and its answer, within `limit_s` seconds of wall time."""
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
                self.stop()  # in the middle of an answer
                raise
            finally:
                timer.cancel()

    def send(self, data: bytes) -> None:
        assert self._process and self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def receive(self, count: int) -> bytes:
        assert self._process and self._process.stdout
        data = self._process.stdout.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def stop(self) -> None:
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
                env=self._environment,
                cwd=toolchain.cache_folder(),  # it holds nothing but what this package wrote
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
    """Return the child for `command`, the same as last time while it is among the few used last."""
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
    """Kill every child of this process."""
    for (pid, _), child in list(_workers.items()):
        if pid == os.getpid():
            child.stop()
