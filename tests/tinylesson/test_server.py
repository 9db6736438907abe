"""The explorer's server answers only its own page, survives faulty and hostile input, and limits the time of a plan."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import slow, tiny
from cases.browser import ASKED

from tinylesson import networks, questions
from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError

testclient = pytest.importorskip("starlette.testclient", reason="needs starlette: pip install '.[explore]'")
server = pytest.importorskip("tinylesson.server")
LOCAL = "http://127.0.0.1"


@pytest.fixture(scope="module")
def planner() -> Iterator[Any]:
    made = server.Planner()
    yield made
    made.close()


@pytest.fixture
def client(planner: Any, tmp_path: Path) -> Any:
    return testclient.TestClient(server.application(tmp_path, [], planner), base_url=LOCAL)


def test_foreign_hosts_and_origins_are_refused(client: Any) -> None:
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        for path in ("/fast", "/exact", "/front", "/model?suffix=.tflite", "/own"):
            assert client.post(path, content=json.dumps(ASKED), headers=headers).status_code == 403, (path, headers)
    assert (
        client.post("/fast", content=json.dumps(ASKED), headers={"Origin": LOCAL, "Sec-Fetch-Site": "same-origin"}).status_code
        == 200
    )
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200, "a setting can be sent to somebody as a link"
    assert client.get("/", headers=link | {"Sec-Fetch-Mode": "no-cors"}).status_code == 403
    assert client.post("/fast", content=json.dumps(ASKED), headers=link).status_code == 403
    answer = client.get("/")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "connect-src 'self'" in answer.headers["content-security-policy"] and "cache-control" in answer.headers


def test_faulty_questions_are_refused_in_one_line(client: Any) -> None:
    for content in (b"", b"{", b"[]", b"[" * 9000, json.dumps(ASKED | {"width": 9}).encode(), b"x" * (server.MAX_QUESTION + 1)):
        for path in ("/fast", "/exact"):
            answer = client.post(path, content=content)
            assert answer.status_code == 400 and "\n" not in answer.json()["error"], content[:40]
    whole = json.dumps(ASKED).ljust(server.MAX_QUESTION)
    assert client.post("/fast", content=whole).status_code == 200
    assert "larger than 16,384 bytes" in client.post("/fast", content=whole + " ").json()["error"]
    assert client.post("/model?suffix=.exe", content=b"x").status_code == 400
    assert client.post("/model?suffix=.tflite", content=b"x" * (server.MAX_MODEL + 1)).status_code == 400


def test_an_uploaded_model_is_planned_and_only_the_model_is_stored(client: Any, tmp_path: Path) -> None:
    file = to_tflite(tiny.chain())
    found = client.post("/model?suffix=.tflite&name=My%20words", content=file).json()
    assert (found["title"], found["layers"]) == ("My words", 5), "it is called as its file is, not as its bytes' digest"
    answer = client.post("/exact", content=json.dumps(ASKED | {"network": found["network"]})).json()
    assert answer["entry"]["record"]["model"]["sha256"] == found["network"]
    assert client.post("/fast", content=json.dumps(ASKED | {"network": found["network"]})).json() is None
    assert client.post("/model?suffix=.onnx", content=file).json() == found, "it is known by its bytes"
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [file]


def test_models_of_the_command_line_have_the_names_of_their_files(planner: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "kws.tflite", tmp_path / "again.tflite"]
    for path in paths:
        path.write_bytes(to_tflite(tiny.chain()))
    (tmp_path / "kept").mkdir()
    client = testclient.TestClient(server.application(tmp_path / "kept", paths, planner), base_url=LOCAL)
    assert [each["title"] for each in client.post("/own", content=b"{}").json()] == ["kws", "kws"], "the same bytes, one model"


def test_the_number_of_uploaded_models_is_limited(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_MODELS", 1)
    first, second = to_tflite(tiny.chain()), to_tflite(tiny.residual())
    assert client.post("/model?suffix=.tflite", content=first).status_code == 200
    refused = client.post("/model?suffix=.tflite", content=second)
    assert refused.status_code == 400 and "1 models were given already" in refused.json()["error"]
    assert client.post("/model?suffix=.tflite", content=first).status_code == 200, "one that is known is still taken"
    assert len(list(tmp_path.iterdir())) == 1


def test_uploads_at_the_same_time_are_counted(tmp_path: Path) -> None:
    """Also: the same file, dropped several times at once, is one model; refused files are not kept."""
    httpx = pytest.importorskip("httpx")

    async def ask(instead: str, work: Any, path: str) -> dict[str, int]:
        await asyncio.sleep(0.1)
        if Path(path).read_bytes() == b"damaged":
            raise CompileError("it is damaged")
        return {"layers": 1}

    async def statuses(files: list[bytes], folder: Path) -> list[int]:
        folder.mkdir()
        transport = httpx.ASGITransport(server.application(folder, [], SimpleNamespace(ask=ask)))
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
            answers = await asyncio.gather(*(client.post("/model?suffix=.onnx", content=file) for file in files))
            again = await client.post("/model?suffix=.onnx", content=files[0])
        return [answer.status_code for answer in (*answers, again)]

    found = asyncio.run(statuses([bytes([number]) for number in range(26)], tmp_path / "many"))
    assert sorted(found) == [200] * (server.MAX_MODELS + 1) + [400] * 10 and len(list((tmp_path / "many").iterdir())) == 16
    assert (
        asyncio.run(statuses([b"same"] * 9, tmp_path / "same")) == [200] * 10 and len(list((tmp_path / "same").iterdir())) == 1
    )
    found = asyncio.run(statuses([b"damaged"] * 16, tmp_path / "damaged"))
    assert found == [400] * 17 and not list((tmp_path / "damaged").iterdir())


@pytest.mark.parametrize("path", ["/fast", "/exact", "/front", "/model"])
def test_a_client_that_leaves_before_its_request_is_complete_is_no_error(path: str, tmp_path: Path) -> None:
    """The server printed a traceback."""
    application, sent = server.application(tmp_path, [], SimpleNamespace()), list[dict[str, Any]]()
    received = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return next(received)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"suffix=.onnx",
        "headers": [(b"host", b"127.0.0.1")],
    }
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == server.NOT_WAITED_FOR


def test_a_used_port_and_faulty_models_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "damaged.tflite").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = {
            ("--port", str(port)): f"port {port} cannot be used: Address already in use",
            (str(tmp_path / "none.tflite"),): "none.tflite",
            (str(tmp_path / "notes.txt"),): "is no model",
            (str(tmp_path / "damaged.tflite"),): "damaged.tflite",
        }
        for words, said in refused.items():
            assert main(["explore", "--port", str(port), *words]) == 2
            shown = capsys.readouterr()
            assert said in shown.err and shown.err.count("\n") == 1 and shown.out == "", shown


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signals")
def test_ctrl_c_while_the_server_starts_says_one_line(tmp_path: Path) -> None:
    """Worker processes import their modules meanwhile, and asyncio makes its loop."""
    command = [sys.executable, "-m", "tinyweave", "explore", "--port"]
    for delay in (0.0, 0.1, 0.3):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = str(taken.getsockname()[1])
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        pipes["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
        with subprocess.Popen([*command, port], cwd=tmp_path, start_new_session=True, **pipes) as process:
            try:
                assert process.stdout is not None and port in process.stdout.readline()
                time.sleep(delay)
                os.killpg(process.pid, signal.SIGINT)
                _, complaints = process.communicate(timeout=60)
            finally:
                process.kill()
        assert (complaints, process.returncode) == ("tinyweave: interrupted\n", 130)


def test_the_server_survives_200_hostile_models(client: Any, planner: Any, tmp_path: Path) -> None:
    rng, file = random.Random(0), to_tflite(tiny.chain())
    for number in range(200):
        damaged = bytearray(file)
        for _ in range(rng.randrange(1, 30)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        content = bytes(damaged[: rng.randrange(len(damaged))] if number % 3 == 0 else damaged)
        suffix = rng.choice((".tflite", ".tflite", ".onnx", ".pt2"))
        answer = client.post(f"/model?suffix={suffix}", content=content)
        assert answer.status_code in (200, 400), answer.text
    assert len(list(tmp_path.iterdir())) <= server.MAX_MODELS
    assert client.post("/exact", content=json.dumps(ASKED)).status_code == 200


def test_the_server_survives_a_plan_that_takes_too_long_or_crashes() -> None:
    planner = server.Planner(seconds=1.0)
    try:
        with pytest.raises(CompileError, match="on the page: it takes more than 1 s; use the command line: wait 60"):
            asyncio.run(planner.ask("wait 60", time.sleep, 60))
        planner.seconds = 60
        with pytest.raises(CompileError, match="the process that planned it died; use the command line: this"):
            asyncio.run(planner.ask("this", signal.raise_signal, signal.SIGKILL))
        with pytest.raises(CompileError, match="it takes too much memory; use the command line: that"):
            asyncio.run(planner.ask("that", bytearray, server.MAX_MEMORY))
        for pool in planner.idle:  # like the kernel when memory runs out
            (process,) = pool._processes.values()
            process.kill()
            process.join()
        time.sleep(0.5)
        assert [asyncio.run(planner.ask("", sum, [1, number])) for number in range(3)] == [1, 2, 3]
    finally:
        planner.close()


def test_a_limited_number_of_questions_waits_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting does not count as planning time. Waiting questions are answered after the running one exceeds its time."""
    monkeypatch.setattr(server, "MOST_WAITING", 2)
    planner = server.Planner(seconds=1, most=1)

    async def several() -> list[Any]:
        first = asyncio.ensure_future(planner.ask("", time.sleep, 60))
        while not planner.busy:
            await asyncio.sleep(0)
        planner.seconds = 0.1  # too little, if the others' time began now
        others = [asyncio.ensure_future(planner.ask("", pow, 2, number)) for number in range(3)]
        await asyncio.sleep(0.5)
        planner.seconds = 600  # enough for a process to start on a busy machine
        return await asyncio.gather(first, *others, return_exceptions=True)

    try:
        first, zero, one, third = asyncio.run(several())
    finally:
        planner.close()
    assert (zero, one) == (1, 2) and "it takes more than" in str(first) and "2 questions are waiting already" in str(third)


def test_fast_questions_are_answered_while_a_plan_is_computed(planner: Any, tmp_path: Path) -> None:
    import httpx

    async def both() -> list[str]:
        done: list[str] = []
        transport = httpx.ASGITransport(server.application(tmp_path, [], planner))
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:

            async def plan() -> None:
                await planner.ask("", time.sleep, 2)
                done.append("plan")

            async def fast() -> None:
                await asyncio.sleep(0.1)
                for _ in range(3):
                    assert (await client.post("/fast", content=json.dumps(ASKED))).status_code == 200
                    done.append("fast")

            await asyncio.gather(plan(), fast())
        return done

    assert asyncio.run(both()) == ["fast"] * 3 + ["plan"]


# ---- over HTTP ----


@contextmanager
def served(folder: Path, seconds: float) -> Iterator[tuple[str, Any]]:
    """Serve the explorer on a free port; yield its address and its planner."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn: pip install '.[explore]'")
    planner = server.Planner(seconds=seconds)
    config = uvicorn.Config(server.application(folder, [], planner), log_level="warning", access_log=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listening])))
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}", planner
        finally:
            running.should_exit = True
            thread.join(timeout=30)
            planner.close()


def post(address: str, path: str, asked: Any, limit_s: float = 60) -> tuple[int, Any]:
    """Return the status and the answer to a question."""
    connection = http.client.HTTPConnection(address, timeout=limit_s)
    try:
        connection.request("POST", path, json.dumps(asked))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_slow_question_does_not_delay_others_and_ends_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "front", slow.a_minute)
    with served(tmp_path, 20) as (address, _), ThreadPoolExecutor(2) as clients:
        assert post(address, "/exact", ASKED)[0] == 200  # the processes have started
        fronts = [clients.submit(post, address, "/front", ASKED | {"overhead": overhead}) for overhead in (1.0, 1.5)]
        time.sleep(0.2)
        for number in range(3):
            assert post(address, "/exact", ASKED | {"ram": (64 + number) << 10})[0] == 200
            assert not any(each.done() for each in fronts), "a small question waited for a slow one"
        answers = [each.result() for each in fronts]
        assert post(address, "/exact", ASKED)[0] == 200
    command = "python -m tinylesson.networks five_layers 32 0.5 five_layers.tflite && tinyweave plan five_layers.tflite"
    why = f"this cannot be planned on the page: it takes more than 20 s; use the command line: {command} --io int8"
    for overhead, answer in zip((1, 1.5), answers, strict=True):
        assert answer == (400, {"error": f"{why} --device stm32f746 --max-mac-overhead {overhead} --pareto --flash 64m"})


def test_a_question_ends_when_the_page_closes_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page closes the connection when a later question replaces an earlier one, and when the page is closed."""
    monkeypatch.setattr(questions, "front", slow.a_minute)
    with served(tmp_path, 60) as (address, planner):
        connection = http.client.HTTPConnection(address)
        connection.request("POST", "/front", json.dumps(ASKED))
        for _ in range(100):
            if planner.busy:
                break
            time.sleep(0.1)
        (pool,) = planner.busy
        (process,) = pool._processes.values()
        connection.close()
        for _ in range(450):  # the question would take a minute; the server's own thread may reap the process meanwhile
            if not process.is_alive():
                break
            time.sleep(0.1)
        assert not process.is_alive()
        assert post(address, "/exact", ASKED)[0] == 200
        assert not planner.busy and len(planner.idle) == server.PROCESSES, "another process took its place"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"network": "mobilenet_v2", "width": 0.35, "stream": True, "ram": 16 << 10},  # its plan depends on a limit of Flash
        {"stream": True, "overhead": 1.1, "ram": 4 << 10},
        {"schedule": "patch", "grid": 2, "device": "nrf52840"},
        {"schedule": "layer", "stream": True},
    ],
    ids=str,
)
def test_the_command_of_an_answer_gives_the_same_plan(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = questions.question(ASKED | change)
    monkeypatch.chdir(tmp_path)
    write, plan = (shlex.split(words) for words in questions.command(asked).split(" && "))
    assert write[:3] == ["python", "-m", "tinylesson.networks"] and networks.main(write[3:]) == 0
    assert plan[0] == "tinyweave" and main([*plan[1:], "--json"]) in (0, 1)
    said = json.loads(capsys.readouterr().out)
    assert said["ram"]["arena"] == questions.exact(asked)["entry"]["record"]["ram"]["arena"]
    if "network" in change:
        return  # its front takes a long time
    _, pareto = (shlex.split(words) for words in questions.command(asked, is_front=True).split(" && "))
    assert main([*pareto[1:], "--json"]) in (0, 1)
    points = json.loads(capsys.readouterr().out)["points"]
    assert {each["arena"] for each in points} <= {each["arena"] for each in questions.front(asked)["front"]["points"]}


def test_commands_name_the_file_of_a_model() -> None:
    asked = questions.question(ASKED)
    assert questions.command(asked, "a `touch x` b.tflite").startswith(
        "tinyweave plan 'a `touch x` b.tflite' --io int8 --device"
    )
    assert questions.look_command("it's.onnx") == """tinyweave plan 'it'"'"'s.onnx'"""
    for words in (["none", "32", "1", "x"], ["resnet18", "31", "1", "x"], ["resnet18", "32", "1.6", "x"], ["resnet18"]):
        with pytest.raises(SystemExit) as end:
            networks.main(words)
        assert end.value.code == 2
