"""The explorer's page in a browser: each control and preset sends the question that it names."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cases.browser import browse, needs_chromium, seen
from explorer.test_server import ASKED

from tinyweave.explorer import questions
from tinyweave.nas.stage_one import Setting, best_setting, limits_for_share, most_feasible

server = pytest.importorskip("tinyweave.explorer.server")


# uses every control and preset, and writes the questions to the server into the page
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
  const star = () => captions().find((words) => words.includes("★") || words.includes("feasible"));
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
  seen.starNone = {};
  for (const ram of [8, 16]) {
    await put("ram", ram);
    seen.starNone[ram] = star();
  }
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


def star(column: int, ram: int, flash: int = 1 << 20) -> str:
    """Return the begin of the page's caption on the setting that stage one chooses from the networks of its table."""
    settings, networks = [], {}
    for name, drawn in json.loads((Path(server.__file__).parent / "map.json").read_text())["networks"].items():
        side, width = name.split()
        macs = tuple(sorted(each[4] for each in drawn if each[column] <= ram and each[3] <= flash))
        settings.append(Setting((int(side), int(side)), float(width), macs, len(drawn)))
        networks[settings[-1]] = drawn
    best = best_setting(settings)
    if best is not None and best.size is not None:
        return f"★, the best feasible setting: {best.size[0]} x {best.size[0]} at width {best.width:g},"
    near = most_feasible(settings)
    assert near.size is not None
    needs = [{"ram": each[column], "flash": each[3]} for each in networks[near]]
    counts = (-(-int(count) // 1024) for count in limits_for_share(needs, {"ram": ram, "flash": flash}).values())
    where = f"At {near.size[0]} x {near.size[0]} and width {near.width:g} they do within "
    return (
        "No setting is feasible: nowhere do 80 % of the networks fit. "
        + where
        + "{} KiB of SRAM and {} KiB of Flash.".format(*counts)
    )


def test_each_control_and_preset_sends_its_question(tmp_path: Path) -> None:
    from tinyweave.explorer.networks import NETWORKS, PRESETS
    from tinyweave.explorer.questions import exact, question

    answer, front = (work(question(ASKED)) for work in (exact, questions.front))
    for point in front["front"]["points"]:
        point["arena"] += 8 << 10  # no point fits the least budget
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
    sides = [int(re.search(r"★.*: (\d+) x", found[key])[1]) for key in ("starLarge", "starSmall")]  # type: ignore[index]
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
        assert star(column, 320 << 10) in found[key], key
    assert "144 x 144 at width 0.5," in found["starLayer"], "as the thesis and the lecture have it"
    for ram, said in found["starNone"].items():
        assert said == star(0, int(ram) << 10), ram
    assert found["rungBefore"] == ["MCUNet, for 512 kB", "160", "409,600", "1,710,232", "–", "–"]
    planned = ["90,001", "80,001", "70,001", "1,710,232", "60,001", "–", "–"]
    assert found["rung"] == ["MCUNet, for 512 kB", "160", "409,600", *planned] and found["rungs"] == [0, 1, 2, 3, 4]
    assert found["wide"] <= 0 and "✓ In 48 KiB" in found["verdict"]


# a slow planner that logs when the page stops waiting, while controls are changed
PATIENT = """
const log = [], plain = window.fetch;
window.fetch = (path, { body, signal }) => new Promise((done, fail) => {
  const value = { own: [], fast: null }[String(path)], canvas = String(path);
  if (value !== undefined) return done({ ok: true, json: async () => value });
  const asked = JSON.parse(body), name = canvas + " " + asked.network + " " + asked.resolution, begun = performance.now();
  log.push("ask " + name);
  signal.addEventListener("abort", () => {
    log.push("stop " + name + (performance.now() - begun < 900 ? " early" : ""));
    fail(new DOMException("stopped", "AbortError"));
  });
});
"""
IMPATIENT = """
const after = (wait) => new Promise((done) => setTimeout(done, wait));
const resize = async (value, wait) => {
  const knob = document.getElementById("resolution");
  knob.value = value;
  knob.dispatchEvent(new Event("input"));
  await after(wait);
};
(async () => {
  await after(300);
  document.getElementById("front").click();
  document.getElementById("three").click();
  await after(100);
  await resize(64, 100);
  await resize(80, 1500);
  await resize(96, 100);
  const shown = document.getElementById("page").textContent.includes("stopped");
  const textContent = JSON.stringify({ log, shown });
  document.body.append(Object.assign(document.createElement("output"), { id: "seen", textContent }));
})();
"""


def test_a_later_question_replaces_an_earlier_one(tmp_path: Path) -> None:
    text = server.page().replace('<main id="page">', f'<script>{PATIENT}</script><main id="page">')
    (tmp_path / "page.html").write_text(text.replace("</body>", f"<script>{IMPATIENT}</script></body>"))
    found = seen(browse((tmp_path / "page.html").as_uri(), tmp_path, 10_000))
    net, first = "mobilenet_v2", 144
    assert found["log"] == [
        f"ask exact {net} {first}",
        f"ask front {net} {first}",
        f"ask exact {net} {first}",  # of three networks
        f"stop front {net} {first} early",  # its network has changed
        f"stop exact {net} {first} early",
        f"stop exact {net} {first}",  # the question runs for less than a second
        f"ask exact {net} 80",  # and not 64, which was replaced
    ]
    assert not found["shown"]


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
            os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C in a terminal, which reaches all processes
            _, complaints = process.communicate(timeout=20)
    assert complaints == "tinyweave: interrupted\n" and process.returncode == 130
    record = exact(question(ASKED))["entry"]["record"]
    assert f"{record['ram']['arena']:,} B" in shown and "The planner's answer" in shown
    assert shown.count('class="box"') == len(record["buffers"])
