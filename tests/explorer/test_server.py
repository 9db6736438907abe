"""The explorer's server answers its own page alone, survives what it is given, and the page does what its knobs say."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import tiny
from cases.browser import browse, needs_chromium, seen

from tinyweave.cli import main
from tinyweave.exporters.tflite import to_tflite
from tinyweave.ir import CompileError

testclient = pytest.importorskip("starlette.testclient", reason="needs starlette: pip install 'tinyweave[explore]'")
server = pytest.importorskip("tinyweave.explorer.server")
ASKED = {"network": "five_layers", "resolution": 32, "width": 0.5, "schedule": "best", "grid": 0, "stream": False}
ASKED |= {"overhead": 1.0, "ram": 64 << 10, "device": "stm32f746"}
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
        for path in ("/fast", "/exact", "/front", "/rung", "/model?suffix=.tflite", "/own"):
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


def test_what_is_no_question_is_refused_in_one_line(client: Any) -> None:
    for content in (b"", b"{", b"[]", b"[" * 9000, json.dumps(ASKED | {"width": 9}).encode(), b"x" * (server.MAX_QUESTION + 1)):
        for path in ("/fast", "/exact"):
            answer = client.post(path, content=content)
            assert answer.status_code == 400 and "\n" not in answer.json()["error"], content[:40]
    for content in (b"99", b"-1", b"true", b"1.0", b'"1"', b"null"):
        answer = client.post("/rung", content=content)
        assert answer.status_code == 400 and "no such network" in answer.json()["error"], content
    whole = json.dumps(ASKED).ljust(server.MAX_QUESTION)
    assert client.post("/fast", content=whole).status_code == 200
    assert "larger than 16,384 bytes" in client.post("/fast", content=whole + " ").json()["error"]
    assert client.post("/model?suffix=.exe", content=b"x").status_code == 400
    assert client.post("/model?suffix=.tflite", content=b"x" * (server.MAX_MODEL + 1)).status_code == 400


def test_a_model_that_is_given_is_planned_and_nothing_else_is_written(client: Any, tmp_path: Path) -> None:
    file = to_tflite(tiny.chain())
    found = client.post("/model?suffix=.tflite&name=My%20words", content=file).json()
    assert (found["title"], found["layers"]) == ("My words", 5), "it is called as its file is, not as its bytes' digest"
    answer = client.post("/exact", content=json.dumps(ASKED | {"network": found["network"]})).json()
    assert answer["entry"]["record"]["model"]["sha256"] == found["network"]
    assert client.post("/fast", content=json.dumps(ASKED | {"network": found["network"]})).json() is None
    assert client.post("/model?suffix=.onnx", content=file).json() == found, "it is known by its bytes"
    assert [path.name for path in tmp_path.iterdir()] == [f"{found['network']}.tflite"]


def test_models_of_the_command_line_are_called_as_their_files(planner: Any, tmp_path: Path) -> None:
    paths = [tmp_path / "kws.tflite", tmp_path / "again.tflite"]
    for path in paths:
        path.write_bytes(to_tflite(tiny.chain()))
    (tmp_path / "kept").mkdir()
    client = testclient.TestClient(server.application(tmp_path / "kept", paths, planner), base_url=LOCAL)
    assert [each["title"] for each in client.post("/own", content=b"{}").json()] == ["kws", "kws"], "the same bytes, one model"


def test_no_more_models_are_kept_than_the_limit(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_MODELS", 1)
    first, second = to_tflite(tiny.chain()), to_tflite(tiny.residual())
    assert client.post("/model?suffix=.tflite", content=first).status_code == 200
    refused = client.post("/model?suffix=.tflite", content=second)
    assert refused.status_code == 400 and "1 models were given already" in refused.json()["error"]
    assert client.post("/model?suffix=.tflite", content=first).status_code == 200, "one that is known is still taken"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_served_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_two_hundred_hostile_models_leave_it_running(client: Any, planner: Any, tmp_path: Path) -> None:
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


def test_a_plan_that_takes_too_long_or_dies_does_not_end_it() -> None:
    import asyncio

    planner = server.Planner(seconds=1.0)
    try:
        with pytest.raises(CompileError, match="it took too long"):
            asyncio.run(planner.ask(time.sleep, 60))
        planner.seconds = 60
        with pytest.raises(CompileError, match="the process that planned it died"):
            asyncio.run(planner.ask(signal.raise_signal, signal.SIGKILL))
        with pytest.raises(CompileError, match="too much memory"):
            asyncio.run(planner.ask(bytearray, server.MAX_MEMORY))
        assert asyncio.run(planner.ask(sum, [1, 2])) == 3
    finally:
        planner.close()


def test_the_fast_form_answers_while_a_plan_is_made(planner: Any, tmp_path: Path) -> None:
    import asyncio

    import httpx

    async def both() -> list[str]:
        done: list[str] = []
        transport = httpx.ASGITransport(server.application(tmp_path, [], planner))
        async with httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:

            async def plan() -> None:
                await planner.ask(time.sleep, 2)
                done.append("plan")

            async def fast() -> None:
                await asyncio.sleep(0.1)
                for _ in range(3):
                    assert (await client.post("/fast", content=json.dumps(ASKED))).status_code == 200
                    done.append("fast")

            await asyncio.gather(plan(), fast())
        return done

    assert asyncio.run(both()) == ["fast"] * 3 + ["plan"]


# ---- in a browser ----

# turns every knob, presses every preset, and writes what the server was then asked into the page
USER = """
const questions = [], rungs = [], answer = ANSWER;
window.fetch = async (path, { body }) => {
  if (String(path) === "rung") rungs.push(JSON.parse(body));
  if (String(path) === "exact") questions.push(JSON.parse(body));
  const rung = { arenas: [90001, 80001, 70001], constants: 60001 };
  const fast = { arena: 50000, layer: 200000, macs: 1e6, weights: 1e5 };
  const value = { own: [], exact: answer, fast, front: FRONT, rung }[String(path)] ?? null;
  return { ok: true, json: async () => value };
};
"""
TURNS = """
const last = () => questions.at(-1), pause = () => new Promise((done) => setTimeout(done, 200)), seen = {};
const put = async (id, value) => {
  const knob = document.getElementById(id);
  knob.type === "checkbox" ? (knob.checked = value) : (knob.value = value);
  knob.dispatchEvent(new Event(knob.type === "range" ? "input" : "change"));
  await pause();
  return last();
};
(async () => {
  await pause();
  seen.first = last();
  seen.network = await put("network", "proxyless");
  seen.resolution = await put("resolution", 64);
  seen.width = await put("width", 0.25);
  seen.schedule = await put("schedule", "patch");
  seen.grid = await put("grid", 3);
  seen.rules = [...document.querySelectorAll("#rules .big")].map((each) => each.textContent);
  seen.best = await put("schedule", "best");
  seen.rulesOfBest = [...document.querySelectorAll("#rules .big")].map((each) => each.textContent);
  seen.overhead = await put("overhead", 1.1);
  seen.ram = await put("ram", 32);
  seen.device = await put("device", "stm32f412");
  seen.stream = await put("stream", true);
  seen.presets = {};
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.click();
    await pause();
    seen.presets[button.dataset.preset] = last();
  }
  const captions = () => [...document.querySelectorAll("figcaption")].map((each) => each.textContent);
  const star = () => captions().find((words) => words.includes("★"));
  await put("ram", 1024);
  seen.starLarge = star();
  await put("ram", 48);
  seen.starSmall = star();
  document.getElementById("three").click();
  await pause();
  seen.three = [...document.querySelectorAll("[data-network]")].map((each) => each.dataset.network);
  seen.asked = questions.slice(-3).map((each) => each.network);
  document.getElementById("front").click();
  await pause();
  seen.fastest = document.getElementById("fastest").textContent;
  await put("ram", 8);
  seen.none = document.getElementById("fastest").textContent;
  await put("ram", 48);
  await put("width", 0.3);
  seen.gone = document.getElementById("fastest") === null && !document.querySelector("[data-network]");
  seen.verdict = document.getElementById("verdict").textContent;
  await put("ram", 320);
  seen.starBest = star();
  await put("schedule", "layer");
  seen.starLayer = star();
  const line = () => [...document.querySelectorAll("tr")].find((row) => row.textContent.includes("MCUNet, for 512 kB"));
  const shown = () => [...line().children].map((cell) => cell.textContent);
  seen.rungBefore = shown();
  document.querySelector("button#ladder").click();
  await pause();
  seen.rung = shown();
  seen.rungs = rungs;
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.body.append(Object.assign(document.createElement("output"), { id: "seen", textContent: JSON.stringify(seen) }));
})();
"""


def best_place(column: int, ram: int, flash: int = 1 << 20) -> str:
    """Return where the networks of the map that fit have most MACs, by their 80th percentile."""
    table, places = json.loads((Path(server.__file__).parent / "map.json").read_text()), {}
    for name, networks in table["networks"].items():
        fitting = [each[4] for each in networks if each[column] <= ram and each[3] <= flash]
        places[name] = float(np.percentile(fitting, 80)) if fitting else 0.0
    side, width = max(places, key=lambda name: places[name]).split()
    return f"{side} x {side} at width {width}"


def test_each_knob_and_preset_asks_what_it_says(tmp_path: Path) -> None:
    from tinyweave.explorer import questions
    from tinyweave.explorer.networks import NETWORKS, PRESETS
    from tinyweave.explorer.questions import exact, question

    answer, front = (work(question(ASKED)) for work in (exact, questions.front))
    for point in front["front"]["points"]:
        point["arena"] += 8 << 10  # none fits the least budget
    user = USER.replace("ANSWER", json.dumps(answer)).replace("FRONT", json.dumps(front)).replace("<", "\\u003c")
    text = server.page().replace('<main id="page">', f'<script>{user}</script><main id="page">')
    (tmp_path / "page.html").write_text(text.replace("</body>", f"<script>{TURNS}</script></body>"))
    shown = browse((tmp_path / "page.html").as_uri(), tmp_path, 20_000, 500)
    found = seen(shown)
    assert found["first"]["network"] == "mobilenet_v2" and set(found["first"]) == set(ASKED)
    of_network = {"network": "proxyless", "resolution": NETWORKS["proxyless"].resolution, "width": NETWORKS["proxyless"].width}
    expected = found["first"] | of_network
    assert found["network"] == expected
    turned = {
        "resolution": 64, "width": 0.25, "schedule": "patch", "grid": 3, "best": "best", "overhead": 1.1, "ram": 32 << 10,
        "device": "stm32f412", "stream": True,
    }  # fmt: skip
    for key, value in turned.items():
        change = {"schedule" if key == "best" else key: value}
        expected |= change
        assert found[key] == expected, key
    for preset in PRESETS:
        asked = found["presets"][preset["title"]]
        assert all(asked[key] == preset[key] for key in ("network", "resolution", "width", "schedule", "grid"))
        assert asked["ram"] == preset["ram"] << 10 and question(asked)
    sides = [int(re.search(r"★: (\d+) x", found[key])[1]) for key in ("starLarge", "starSmall")]  # type: ignore[index]
    assert sides[0] >= sides[1], "more SRAM: no smaller images"
    assert found["rules"] == ["195 KiB", "24.3 KiB"], "200,000 B; with halos, by 9 patches"
    assert found["rulesOfBest"] == found["rules"][:1], "they stay beside the plan"
    assert found["three"] == found["asked"] == ["mobilenet_v2", "proxyless", "mcunet_320kb"]
    fastest = next(point for point in front["front"]["points"] if point["arena"] <= 48 << 10)
    assert f"{fastest['arena']:,} B" in found["fastest"] and "fastest takes" in found["fastest"]
    least = front["front"]["points"][-1]["arena"]
    assert found["none"] == f"No plan of the best schedule fits into 8 KiB: the least is {least:,} B."
    assert found["gone"] is True
    for key, column in (("starBest", 1), ("starLayer", 0)):  # the best plan with its image in RAM; layer by layer
        assert f"★: {best_place(column, 320 << 10)}," in found[key], key
    assert found["rungBefore"] == ["MCUNet, for 512 kB", "160", "409,600", "1,710,232", "–", "–"]
    planned = ["90,001", "80,001", "70,001", "1,710,232", "60,001", "–", "–"]
    assert found["rung"] == ["MCUNet, for 512 kB", "160", "409,600", *planned] and found["rungs"] == [0, 1, 2, 3, 4]
    assert found["wide"] <= 0 and "✓ In 48 KiB" in found["verdict"]


def test_the_page_shows_the_plan_of_the_server(tmp_path: Path) -> None:
    from tinyweave.explorer.questions import exact, question

    needs_chromium()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "tinyweave", "explore", "--port", str(port)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout is not None and f"127.0.0.1:{port}" in process.stdout.readline()
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.2", port)) != 0, "it listens on one address alone"
            knobs = "network=five_layers&resolution=32&width=0.5&ram=64"
            shown = browse(f"http://127.0.0.1:{port}/#{knobs}", tmp_path, 10_000)
        finally:
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal, which reaches the process that plans, too
            _, complaints = process.communicate(timeout=20)
    assert complaints == "" and process.returncode == 130
    record = exact(question(ASKED))["entry"]["record"]
    assert f"{record['ram']['arena']:,} B" in shown and "The planner's answer" in shown
    assert shown.count('class="box"') == len(record["buffers"])
