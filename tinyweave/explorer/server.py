"""Serve the explorer: one page, answers to its questions, models that are dropped on it. It listens on this machine alone.

Another page in the same browser must not ask it anything: foreign hosts and origins are refused. What is planned is planned in
a process of its own, with a limit of memory and time, so that the page stays quick whatever is given.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import socket
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ..files import read_file
from ..ir import CompileError
from ..report.page import filled
from . import questions
from .networks import LADDER, NETWORKS, PRESETS, RESOLUTIONS, RUNGS, WIDTHS

HERE = Path(__file__).parent
HOSTS = ["127.0.0.1", "localhost"]
PORT = 8040
MAX_QUESTION = 1 << 14  # bytes
MAX_MODEL = 1 << 25
MAX_MODELS = 16
MOST_LETTERS = 60  # of a model's name
MAX_MEMORY = 6 << 30  # bytes of address space of the process that plans
SECONDS = 60  # that one answer may take
SUFFIXES = (".tflite", ".onnx", ".pt2")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Planner:
    """A process that plans for the page; a new one takes its place where it takes too long, or dies."""

    def __init__(self, memory: int = MAX_MEMORY, seconds: float = SECONDS):
        self.memory, self.seconds, self.pool = memory, seconds, self._started(memory)

    @staticmethod
    def _started(memory: int) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=questions.confine, initargs=(memory,))
        pool.submit(int)  # it starts now, not with the first question, which would wait for it
        return pool

    async def ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what work(*arguments) returns; CompileError where it is refused, takes too long or too much memory."""
        pool = self.pool
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(pool, work, *arguments), self.seconds)
        except (asyncio.TimeoutError, BrokenProcessPool) as error:
            if self.pool is pool:
                self.pool = self._started(self.memory)
            self._end(pool)
            why = "it took too long" if isinstance(error, asyncio.TimeoutError) else "the process that planned it died"
            raise CompileError(f"this cannot be planned here: {why}", "use the command line") from error
        except MemoryError as error:
            raise CompileError("this cannot be planned here: it takes too much memory", "use the command line") from error

    @staticmethod
    def _end(pool: ProcessPoolExecutor, wait: bool = False) -> None:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.kill()
        pool.shutdown(wait=wait, cancel_futures=True)

    def close(self) -> None:
        self._end(self.pool, wait=True)


def page() -> str:
    """Return the explorer's page, whole."""
    about = {
        "networks": {
            name: {"title": each.title, "resolution": each.resolution, "width": each.width} for name, each in NETWORKS.items()
        },
        "presets": PRESETS,
        "ladder": LADDER,
        "rungs": [
            {"title": each.title, "formula": questions.by_formula(each.network, each.resolution, each.width)}
            | {"resolution": each.resolution, "printed": each.printed}
            for each in RUNGS
        ],
        "resolutions": RESOLUTIONS,
        "widths": WIDTHS,
        "map": json.loads((HERE / "map.json").read_text(encoding="utf-8")),
        "devices": [{"name": each.name, "core": each.core} for each in questions.all_devices()],
    }
    return filled("tinyweave explorer", (HERE / "explorer.js").read_text(encoding="utf-8"), about, "'self'")


def application(folder: Path, models: list[Path], planner: Planner) -> Any:
    """Return the ASGI application; folder: where models that are given are kept, and nothing else is written."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    given: dict[str, tuple[Path, dict[str, Any]]] = {}  # and what was said of it

    async def kept(file: bytes, name: str, suffix: str) -> dict[str, Any]:
        digest = hashlib.sha256(file).hexdigest()
        if digest not in given:
            if len(given) >= MAX_MODELS:
                raise CompileError(f"{MAX_MODELS} models were given already", "start the explorer anew")
            path = folder / f"{digest}{suffix}"
            path.write_bytes(file)
            try:
                given[digest] = path, {"network": digest, "title": name, **await planner.ask(questions.look, str(path))}
            except CompileError:
                path.unlink(missing_ok=True)
                raise
        return given[digest][1]

    async def front(request: Request) -> Response:
        return HTMLResponse(page())

    async def answer(request: Request) -> Response:
        asked = questions.question(json.loads(await body(request, MAX_QUESTION)), frozenset(given))
        if request.url.path == "/fast":
            return JSONResponse(questions.fast(asked))
        work = questions.front if request.url.path == "/front" else questions.exact
        path = str(given[asked.network][0]) if asked.network in given else None
        return JSONResponse(await planner.ask(work, asked, path))

    async def rung(request: Request) -> Response:
        number = json.loads(await body(request, MAX_QUESTION))
        if type(number) is not int or number not in range(len(RUNGS)):
            raise CompileError("there is no such network on the ladder", questions.WHAT_TO_DO)
        return JSONResponse(await planner.ask(questions.rung, number))

    async def model(request: Request) -> Response:
        suffix = request.query_params.get("suffix", "")
        if suffix not in SUFFIXES:
            raise CompileError(f"a model is a file that ends in {', '.join(SUFFIXES)}", "give another file")
        name = request.query_params.get("name", "a model")[:MOST_LETTERS]
        return JSONResponse(await kept(await body(request, MAX_MODEL), name, suffix))

    async def own(request: Request) -> Response:
        files = [(read_file(path, MAX_MODEL, "use plan"), path.stem, path.suffix.lower()) for path in models]
        return JSONResponse([await kept(*file) for file in files])

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
            # a link may lead here from anywhere: the page itself knows nothing, and no other page may show or read it
            is_link = handle is front and request.headers.get("sec-fetch-mode") == "navigate"
            if origin not in (None, own) or (site not in ("none", "same-origin") and not is_link):
                return JSONResponse({"error": "this server answers its own page alone"}, 403)
            try:
                response = await handle(request)
            except (CompileError, ValueError, RecursionError) as error:
                response = JSONResponse({"error": str(error)[:400]}, 400)
            response.headers.update(HEADERS)
            return response

        return handled

    posts = {"/fast": answer, "/exact": answer, "/front": answer, "/rung": rung, "/model": model, "/own": own}
    routes = [Route("/", guarded(front)), *(Route(path, guarded(post), methods=["POST"]) for path, post in posts.items())]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)])


def serve(models: list[Path], port: int = PORT, ready: Callable[[str], None] = print) -> None:
    """Serve the explorer on 127.0.0.1 until it is interrupted; ready is told the address."""
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise CompileError("the explorer needs starlette and uvicorn", "pip install 'tinyweave[explore]'") from error
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
    planner = Planner()
    try:
        with tempfile.TemporaryDirectory(prefix="tinyweave-") as folder:
            config = uvicorn.Config(application(Path(folder), models, planner), log_level="warning", access_log=False)
            ready(f"http://127.0.0.1:{port}/")
            asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
            raise KeyboardInterrupt  # what ends it, also where uvicorn has shut down by itself
    finally:
        listening.close()
        planner.close()
