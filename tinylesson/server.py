"""Serve the explorer on this machine: one page, answers to its requests, and models that users drop on it.

Foreign hosts and origins are refused, as other pages in the browser must not use the server. Each request is planned in a
process of its own with limits of memory and time, which is killed if the page stops waiting.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tinyweave.ir import CompileError
from tinyweave.support.deaf import DeafContext, deaf
from tinyweave.support.files import read_file, write_file
from tinyweave.support.installing import install

from . import questions
from .lesson import page

HOSTS = ["127.0.0.1", "localhost"]
PORT = 8040
MAX_QUESTION = 1 << 14  # bytes of a request
MAX_MODEL = 1 << 25  # bytes of a model's file
MAX_MODELS = 16
MOST_LETTERS = 60  # of a model's name
MAX_MEMORY = 6 << 30  # bytes of address space of a worker process
SECONDS = 60  # time limit of one request
PROCESSES = 2  # idle processes kept ready, so that a fast request is answered while a slow one runs
MOST_PROCESSES = 4
MOST_WAITING = 32  # most requests that wait for a process
NOT_WAITED_FOR = 499  # usual HTTP status of a request whose client has disconnected
MOST_SAID = 1000  # most letters of an error message
SUFFIXES = (".tflite", ".onnx", ".pt2")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Planner:
    """Worker processes that plan one request each; one that is cancelled or exceeds a limit ends only its own process."""

    def __init__(self, memory: int = MAX_MEMORY, seconds: float = SECONDS, most: int = MOST_PROCESSES):
        """Start the idle processes of `memory` bytes each; `seconds` limits a request, `most` the processes."""
        self.memory, self.seconds, self.most, self.waiting = memory, seconds, most, 0
        self.turns = asyncio.Semaphore(most)
        self.busy = set[ProcessPoolExecutor]()
        self.idle = [self._started() for _ in range(min(PROCESSES, most))]

    def _started(self) -> ProcessPoolExecutor:
        """Start a process, and return it as a pool of one process."""
        pool = ProcessPoolExecutor(1, mp_context=DeafContext(), initializer=questions.confine, initargs=(self.memory,))
        pool.submit(int)  # start the process now: the first question need not wait for its imports
        return pool

    async def ask(self, instead: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return work(*arguments), a function of `questions`; `instead` is the shell command for messages.

        Raise CompileError if `work` does, too many requests are waiting, or the time or memory limit is exceeded.
        """
        if self.waiting >= MOST_WAITING:
            raise CompileError(f"{MOST_WAITING} questions are waiting already", "ask again when some of them are answered")
        self.waiting += 1
        try:
            await self.turns.acquire()
        finally:
            self.waiting -= 1
        pool, answer = self._submitted(work, *arguments)
        try:
            await asyncio.wait({answer}, timeout=self.seconds)
            if not answer.done():
                raise _refused(f"it takes more than {self.seconds:g} s", instead)
            return answer.result()
        except BrokenProcessPool as error:
            raise _refused("the process that planned it died", instead) from error
        except MemoryError as error:
            raise _refused("it takes too much memory", instead) from error
        finally:
            self._release(pool, answer)
            self.turns.release()

    def _submitted(self, work: Callable[..., Any], *arguments: Any) -> tuple[ProcessPoolExecutor, asyncio.Future[Any]]:
        """Submit `work` to an idle worker process, or else to a new one; return the process and the future of the result."""
        pool = self.idle.pop() if self.idle else self._started()
        try:
            answer = pool.submit(work, *arguments)
        except BrokenProcessPool:  # it died while it waited
            self._end(pool)
            pool = self._started()
            answer = pool.submit(work, *arguments)
        self.busy.add(pool)
        return pool, asyncio.wrap_future(answer)

    def _release(self, pool: ProcessPoolExecutor, answer: asyncio.Future[Any]) -> None:
        """Keep a process that has answered if fewer than PROCESSES are idle, else kill it and start others as needed."""
        self.busy.discard(pool)
        is_whole = answer.done() and not isinstance(answer.exception(), BrokenProcessPool)
        if is_whole and len(self.idle) < PROCESSES:
            self.idle.append(pool)
            return
        answer.cancel()
        self._end(pool)
        while len(self.idle) < min(PROCESSES, self.most - len(self.busy)):
            self.idle.append(self._started())

    @staticmethod
    def _end(pool: ProcessPoolExecutor, wait: bool = False) -> None:
        """Kill the process of a pool; `wait` waits until the pool has shut down."""
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.kill()
        pool.shutdown(wait=wait, cancel_futures=True)

    def close(self) -> None:
        """End all processes."""
        for pool in (*self.idle, *self.busy):
            self._end(pool, wait=True)


def _refused(why: str, instead: str) -> CompileError:
    """Return the error for a request that exceeds the limit `why`; `instead` is a command without limits."""
    return CompileError(f"this cannot be planned on the page: {why}", f"use the command line: {instead}")


class Given(NamedTuple):
    """A model of the user: the server's copy, its `source`, and what the page shows (`network` is its SHA-256)."""

    path: Path
    source: str
    told: dict[str, Any]


def application(folder: Path, models: list[Path], planner: Planner) -> Any:
    """Return the ASGI application of the page, with `models` open; it writes copies of users' models to `folder`."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    given: dict[str, Given] = {}
    looked_at = set[Path]()  # files that a worker process reads for the first time
    whole = page(is_served=True)

    async def kept(file: bytes, name: str, suffix: str, source: str) -> dict[str, Any]:
        digest = hashlib.sha256(file).hexdigest()
        if digest in given:
            return given[digest].told
        if len(given) + len(looked_at) >= MAX_MODELS:
            raise CompileError(f"{MAX_MODELS} models were given already", "start the explorer anew")
        path = folder / f"{secrets.token_hex(8)}{suffix}"  # the same file may be dropped twice at the same time
        looked_at.add(path)
        try:
            path.write_bytes(file)
            found = await planner.ask(questions.look_command(source), questions.look, str(path))
            given.setdefault(digest, Given(path, source, {"network": digest, "title": name, **found}))
            return given[digest].told
        finally:  # also if the file was refused, or is not waited for
            looked_at.remove(path)
            if digest not in given or given[digest].path != path:
                path.unlink(missing_ok=True)

    async def front(request: Request) -> Response:
        return HTMLResponse(whole)

    async def answer(request: Request) -> Response:
        asked = questions.question(json.loads(await body(request, MAX_QUESTION)), frozenset(given))
        if request.url.path == "/fast":
            return JSONResponse(questions.fast(asked))
        is_front, model = request.url.path == "/front", given.get(asked.network)
        instead = questions.command(asked, model.source if model else None, is_front=is_front)
        work = questions.front if is_front else questions.exact
        return await while_waited_for(request, planner.ask(instead, work, asked, str(model.path) if model else None))

    async def model(request: Request) -> Response:
        suffix = request.query_params.get("suffix", "")
        if suffix not in SUFFIXES:
            raise CompileError(f"a model is a file that ends in {', '.join(SUFFIXES)}", "give another file")
        name = request.query_params.get("name", "a model")[:MOST_LETTERS]
        file = await body(request, MAX_MODEL)
        return await while_waited_for(request, kept(file, name, suffix, f"{name}{suffix}"))

    async def own(request: Request) -> Response:
        async def all_kept() -> list[dict[str, Any]]:
            return [
                await kept(read_file(path, MAX_MODEL, "use plan"), path.stem, path.suffix.lower(), str(path)) for path in models
            ]

        return await while_waited_for(request, all_kept())

    async def disconnected(request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # the rest of its body

    async def while_waited_for(request: Request, answer: Coroutine[Any, Any, Any]) -> Response:
        """Return the result of the coroutine `answer` as JSON; cancel it if the page closes the connection."""
        work, gone = asyncio.ensure_future(answer), asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not work.done():
                work.cancel()
        try:
            return JSONResponse(await work)
        except asyncio.CancelledError:
            return Response(status_code=NOT_WAITED_FOR)

    async def body(request: Request, most: int) -> bytes:
        taken = bytearray()
        async for part in request.stream():
            taken += part
            if len(taken) > most:
                raise CompileError(f"it is larger than {most:,} bytes", "use the command line")
        return bytes(taken)

    def guarded(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def handled(request: Request) -> Response:
            origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
            own = f"http://{request.headers.get('host', '')}"
            # any site may link to the page: it has no private data, and no other page can embed or read it
            is_link = handle is front and request.headers.get("sec-fetch-mode") == "navigate"
            if origin not in (None, own) or (site not in ("none", "same-origin") and not is_link):
                return JSONResponse({"error": "this server answers its own page alone"}, 403)
            try:
                response = await handle(request)
            except ClientDisconnect:  # before the whole request arrived
                return Response(status_code=NOT_WAITED_FOR)
            except (CompileError, ValueError, RecursionError) as error:
                response = JSONResponse({"error": str(error)[:MOST_SAID]}, 400)
            response.headers.update(HEADERS)
            return response

        return handled

    posts = {"/fast": answer, "/exact": answer, "/front": answer, "/model": model, "/own": own}
    routes = [Route("/", guarded(front)), *(Route(path, guarded(post), methods=["POST"]) for path, post in posts.items())]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)])


def explore(*models: str | Path, out: str | Path | None = None, port: int = PORT, show: bool = False) -> None:
    """Serve the explorer on this machine until it is interrupted, or write its page to a file.

    Args:
        models: paths of your models, in addition to the listed networks.
        out: path of a file to write instead; the page then shows formulas and stored plans, and needs no server.
        port: port of the page, which only this machine can reach.
        show: open the page in the browser.

    Raises:
        CompileError: as for `serve`; or a file is to be written and models are given.
    """
    if out is not None:
        if models:
            raise CompileError("a page that is written to a file plans no models", "leave out the file, or the models")
        path = Path(out)
        write_file(path, page(is_served=False))
        print(f"wrote {path}" if show else f"wrote {path}: open it in a browser")
        if show:
            webbrowser.open(path.resolve().as_uri())
        return

    def ready(address: str) -> None:
        print(f"{address}  (Ctrl-C stops it)", flush=True)
        if show:
            webbrowser.open(address)

    serve([Path(model) for model in models], port, ready)


def serve(models: list[Path], port: int = PORT, ready: Callable[[str], None] = print) -> None:
    """Serve the explorer on 127.0.0.1, with `models` open, until it is interrupted; then raise KeyboardInterrupt.

    `ready` is called with the server's address just before it starts. Raise CompileError if a package is missing, a model
    cannot be compiled, or the port cannot be used.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise CompileError("the explorer needs starlette and uvicorn", install("explore")) from error
    if others := [path for path in models if path.suffix.lower() not in SUFFIXES]:
        raise CompileError(f"'{others[0]}' is no model: its name ends in none of {', '.join(SUFFIXES)}", "give another file")
    for path in models:
        try:
            questions.look(str(path))
        except CompileError as error:
            raise error if str(path) in str(error) else CompileError(f"{path}: {error}") from error
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise CompileError(f"port {port} cannot be used: {error.strerror or error}", "give another --port") from error
    starting = ExitStack()
    # asyncio's start must not be interrupted; a worker's thread that was not deaf would take the signal for this one
    starting.enter_context(deaf(signal.SIGINT, signal.SIGTERM))
    planner = Planner()

    async def served(config: Any) -> None:
        starting.close()
        await uvicorn.Server(config).serve(sockets=[listening])

    try:
        with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
            config = uvicorn.Config(application(Path(folder), models, planner), log_level="warning", access_log=False)
            ready(f"http://127.0.0.1:{port}/")
            asyncio.run(served(config))
            raise KeyboardInterrupt  # only an interrupt ends the server, even if uvicorn has handled it and returns
    finally:
        starting.close()
        listening.close()
        planner.close()
