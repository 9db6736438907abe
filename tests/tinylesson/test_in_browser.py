"""The explorer's page in a browser: each knob of each canvas changes its figure, and each question hides its answer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cases.browser import ASKED, browse, needs_chromium, seen_by_script

from tinylesson import questions
from tinylesson.lesson import page

server = pytest.importorskip("tinylesson.server")


# uses every control and preset, and writes the questions to the server into the page
USER = """
const questions = [], answer = ANSWER;
window.fetch = async (path, { body }) => {
  if (String(path) === "exact") questions.push(JSON.parse(body));
  const fast = { arena: 50000, layer: 200000, macs: 1e6, weights: 1e5 };
  const value = { own: [], exact: answer, fast, front: FRONT }[String(path)] ?? null;
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
  seen.optimize = await put("optimize", "speed");
  seen.fastestVerdict = document.getElementById("verdict").textContent;
  seen.presets = {};
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.click();
    await pause();
    seen.presets[button.dataset.preset] = { ...last(), says: document.getElementById("preset").textContent };
  }
  await put("ram", 48);
  document.getElementById("front").click();
  await pause();
  seen.fastest = document.getElementById("fastest").textContent;
  await put("ram", 8);
  seen.none = document.getElementById("fastest").textContent;
  await put("ram", 48);
  await put("width", 0.3);
  seen.gone = document.getElementById("fastest") === null;
  seen.verdict = document.getElementById("verdict").textContent;
  document.querySelector("#canvas-explorer button.defaults").click();
  await pause();
  seen.defaults = last();
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  parent.postMessage(JSON.stringify(seen), "*");
})();
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_each_control_and_preset_sends_its_question(tmp_path: Path, width: int) -> None:
    from tinylesson.networks import NETWORKS, PRESETS
    from tinylesson.questions import exact, question

    answer, front = (work(question(ASKED)) for work in (exact, questions.front))
    for point in front["front"]["points"]:
        point["arena"] += 8 << 10  # no point fits the least budget
    user = USER.replace("ANSWER", json.dumps(answer)).replace("FRONT", json.dumps(front)).replace("<", "\\u003c")
    text = page(is_served=True).replace('<main id="page">', f'<script>{user}</script><main id="page">')
    found = seen_by_script(text, TURNS, tmp_path, 20_000, width)
    assert found["first"]["network"] == "mobilenet_v2" and set(found["first"]) == set(ASKED)
    of_network = {"network": "proxyless", "resolution": NETWORKS["proxyless"].resolution, "width": NETWORKS["proxyless"].width}
    expected = found["first"] | of_network
    assert found["network"] == expected
    turned = {
        "resolution": 64, "width": 0.25, "schedule": "patch", "grid": 3, "best": "best", "overhead": 1.1, "ram": 32 << 10,
        "device": "stm32f412", "stream": True, "optimize": "speed",
    }  # fmt: skip
    for key, value in turned.items():
        change = {"schedule" if key == "best" else key: value}
        expected |= change
        assert found[key] == expected, key
    for preset in PRESETS:
        asked = found["presets"][preset.title]
        assert asked.pop("says") == preset.says
        assert all(asked[key] == getattr(preset, key) for key in ("network", "resolution", "width", "schedule", "grid"))
        assert asked["ram"] == preset.ram << 10 and question(asked)
    assert found["rules"] == ["195 KiB", "24.3 KiB"], "200,000 B; with halos, by 9 patches"
    assert found["rulesOfBest"] == found["rules"][:1], "they stay beside the plan"
    fastest = next(point for point in front["front"]["points"] if point["arena"] <= 48 << 10)
    assert f"{fastest['arena']:,} B" in found["fastest"] and "fastest takes" in found["fastest"]
    least = front["front"]["points"][-1]["arena"]
    assert found["none"] == f"No plan of the best schedule fits into 8 KiB: the least is {least:,} B."
    assert found["gone"] is True
    assert found["defaults"] == found["first"]
    assert found["wide"] <= 0 and "✓ It fits into 48 KiB: this plan needs the least RAM" in found["verdict"]
    assert "✓ In 32 KiB this is the fastest plan" in found["fastestVerdict"] and found["first"]["optimize"] == "size"


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
  await after(100);
  await resize(64, 100);
  await resize(80, 1500);
  await resize(96, 100);
  const shown = document.getElementById("told").textContent.includes("stopped");
  parent.postMessage(JSON.stringify({ log, shown }), "*");
})();
"""


def test_a_later_question_replaces_an_earlier_one(tmp_path: Path) -> None:
    text = page(is_served=True).replace('<main id="page">', f'<script>{PATIENT}</script><main id="page">')
    found = seen_by_script(text, IMPATIENT, tmp_path, 10_000, 1280)
    net, first = "mobilenet_v2", 144
    assert found["log"] == [
        f"ask exact {net} {first}",
        f"ask front {net} {first}",
        f"stop front {net} {first} early",  # its network has changed
        f"stop exact {net} {first}",  # the question runs for less than a second
        f"ask exact {net} 80",  # and not 64, which was replaced
    ]
    assert not found["shown"]


# a server that was given a model of the user
GIVEN = """
const sent = [], given = { network: "a".repeat(64), title: "kws", layers: 5 };
window.fetch = async (path, { body }) => {
  if (String(path) === "fast") sent.push(JSON.parse(body));
  const value = { own: [given], exact: { error: "no plan" } }[String(path)] ?? null;
  return { ok: String(path) !== "exact", json: async () => value };
};
"""
VISITS = """
const after = (wait) => new Promise((done) => setTimeout(done, wait)), element = (id) => document.getElementById(id);
const above = () => Math.round(element("canvas-explorer").getBoundingClientRect().top);
(async () => {
  await after(400);
  const first = { asked: sent.at(-1), above: above(), title: element("network").selectedOptions[0].textContent };
  first.told = element("told").textContent;
  first.fixed = ["resolution", "width"].every((id) => element(id).disabled);
  scrollTo(0, 0);
  document.querySelector("#canvas-map rect").dispatchEvent(new Event("click"));
  await after(400);
  parent.postMessage(JSON.stringify({ first, cell: sent.at(-1), above: above() }), "*");
})();
"""


def test_the_page_opens_at_the_explorer_for_a_model_and_for_a_setting_of_the_map(tmp_path: Path) -> None:
    text = page(is_served=True).replace('<main id="page">', f'<script>{GIVEN}</script><main id="page">')
    found = seen_by_script(text, VISITS, tmp_path, 10_000, 1280)
    first = found["first"]
    assert first["asked"]["network"] == "a" * 64 and first["title"] == "kws (5 layers)" and first["told"] == "no plan"
    assert first["fixed"], "a model of the user has one resolution and width"
    cell = {key: found["cell"][key] for key in ("network", "resolution", "width")}
    assert cell == {"network": "tinynas", "resolution": 48, "width": 0.2}
    assert abs(first["above"]) <= 8 and abs(found["above"]) <= 8


def test_the_page_shows_the_plan_of_the_server(tmp_path: Path) -> None:
    from tinylesson.questions import exact, question

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
    _, _, drawn = shown.partition('id="canvas-explorer"')
    assert f"{record['ram']['arena']:,} B" in drawn and "The planner's answer" in drawn
    assert drawn.count('class="box"') == len(record["buffers"])
