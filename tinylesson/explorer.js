// The explorer, which is the lesson's last canvas, and the page's begin. It asks the server first for the fast form, then for the plan,
// which takes its place. Without a server it shows what the papers' formulas say.

const DEFAULTS = { network: "mobilenet_v2", resolution: 144, width: 0.5, schedule: "best", grid: 0, stream: false, overhead: 1, ram: 256, device: "stm32f746", optimize: "size" };
const state = { ...DEFAULTS }, networks = { ...data.networks };
const place = { front: h("div"), answer: h("div"), layers: h("div"), plan: h("div"), table: h("div"), preset: h("p", { id: "preset" }), told: h("p", { class: "faint", id: "told", "aria-live": "polite" }) };
const HALO = 0.12; // what the lecture adds to a patch
const PATIENCE = 1000; // ms that a question may still be planned when a later one of the same canvas waits
const pending = {}; // by canvas, the question that it waits for
let knobs = null;
let turn = 0, busy = false, waiting = false, patience = null, shownFront = null, shownRecord = null, shownFast = null;

/** Ask the server. canvas: where the answer goes; what else it waits for is cancelled, and the server stops to plan it. */
async function post(path, body, canvas = null, type = "application/json") {
  if (canvas) cancel(canvas);
  const { signal } = canvas ? (pending[canvas] = new AbortController()) : {};
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": type }, body, signal });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? response.statusText);
  return value;
}

function cancel(canvas) {
  pending[canvas]?.abort();
  delete pending[canvas];
}

const asked = () => JSON.stringify({ ...state, ram: state.ram * 1024 });

/** Ask anew: the fast form at once; the planner when it is free, or after some patience, for what then is wanted. */
async function ask() {
  const mine = (turn += 1);
  location.replace(`#${new URLSearchParams(state)}`);
  drawFront();
  if (!data.served) return drawUnserved();
  const known = await post("fast", asked()).catch((error) => ({ error: error.message }));
  if (mine === turn) shownFast = null;
  if (mine === turn && known && !known.error) drawFast(known);
  waiting = true;
  if (busy) {
    patience ??= setTimeout(cancel, PATIENCE, "exact");
    return;
  }
  busy = true;
  while (waiting) {
    waiting = false;
    const now = turn;
    place.told.textContent = "planning …";
    try {
      const found = await post("exact", asked(), "exact");
      if (now === turn) drawExact(found);
    } catch (error) {
      if (now === turn) place.told.textContent = error.message;
    }
    clearTimeout(patience);
    patience = null;
  }
  busy = false;
  document.body.dataset.settled = String(turn); // for whoever waits until the page stands still
}

const fits = (count) => fitsIn(count, state.ram);

/** Return what the papers' rules say, which stays beside the plan. */
function byRule(found) {
  const rule = state.schedule === "patch" && state.grid ? (found.layer * (1 + HALO)) / state.grid ** 2 : null;
  return [card("By formula: the largest input and output", kib(found.layer), fits(found.layer)),
    rule ? card("The lecture's rule for these patches", kib(rule), fits(rule), h("div", { class: "parts" }, "the peak, and 12 % for halos, by the number of patches; layers behind the patches are left out")) : []];
}

function drawFast(found) {
  shownFast = found;
  place.answer.replaceChildren(h("div", { class: "cards" },
    card("Least RAM, by the fast form", kib(found.arena), known(found.arena) ? fits(found.arena) : "no formula covers it"),
    byRule(found), card("Work", `${rounded(found.macs / 1e6)} M MACs`), card("Weights", kib(found.weights))));
  place.told.textContent = "The fast form's answer; the plan is on its way.";
}

/** Show what the papers' formulas say of the setting. */
function drawUnserved() {
  const rows = byFormula(state.network, state.resolution, state.width);
  place.told.textContent = "This page was saved: it knows the papers' formulas. tinyweave explore serves it, and then it plans.";
  place.answer.replaceChildren(rows ? h("div", { class: "cards", id: "rules" }, byRule({ layer: Math.max(...rows.map((row) => row.live)) })) : h("p", {}, "No formula covers this network."));
  place.layers.replaceChildren(...(rows ? [formulaBars("layers", rows, () => state.ram)] : []));
  drawPlaced(place.layers);
}

function drawExact(found) {
  const { entry, least, layer } = found, { record } = entry;
  figures.length = 0;
  cursor.listeners.length = 0;
  shownRecord = record;
  const room = state.ram * 1024, from = `runs from ${bytes(least)} (${kib(least)}) of arena on`;
  const fit = h("p", { id: "verdict", class: `verdict ${record.ram.arena <= room ? "yes" : "no"}` },
    record.ram.arena > room ? `✗ It does not fit into ${kib(room)}: by this schedule the network ${from}.`
      : state.optimize === "size" ? `✓ It fits into ${kib(room)}: this plan needs the least RAM, ${bytes(record.ram.arena)} (${kib(record.ram.arena)}) of arena.`
        : `✓ In ${kib(room)} this is the fastest plan; the network ${from}.`);
  place.answer.replaceChildren(fit, cards(record), shownFast ? h("div", { class: "cards", id: "rules" }, byRule(shownFast)) : "");
  place.layers.replaceChildren(h("h3", {}, "What each layer needs"), layerBars("layers", record.layers, layer, () => room));
  place.plan.replaceChildren(
    ...[section("Memory over time", [entry], () => true, memoryMap), section("Fused stages", [entry], () => record.stages.length, () => record.stages.map((stage) => stageFigure(record, stage)))].filter((part) => part));
  place.table.replaceChildren(section("Layers", [entry], () => true, layersTable));
  figures.forEach((again) => again());
  place.told.textContent = `The planner's answer, schedule ${state.schedule}.`;
}

/** Ask for the plans worth having; the budget then is a line that the slider moves. */
async function askFront() {
  place.front.replaceChildren(h("p", { class: "faint" }, "planning …"));
  try {
    shownFront = await post("front", asked(), "front");
    drawFront();
  } catch (error) {
    if (error.name === "AbortError") return;
    place.front.replaceChildren(h("p", {}, error.message));
  }
}

function drawFront() {
  if (!shownFront || !shownRecord) return;
  const { front, says } = shownFront, room = state.ram * 1024;
  front.limit = room;
  const best = front.points.find((point) => point.arena <= room);
  const time = (point) => (known(point.latency_ms_at_least) ? `${rounded(point.latency_ms_at_least)} ms` : `${point.slowdown.toFixed(2)} times the fastest plan's cycles`);
  const said = best ? `In ${kib(room)} the fastest takes ${time(best)}, with ${bytes(best.arena)}.` : `No plan of the best schedule fits into ${kib(room)}: the least is ${bytes(front.points.at(-1).arena)}.`;
  const drawn = frontFigure({ record: shownRecord, front, says });
  place.front.replaceChildren(h("p", { id: "fastest" }, said), ...drawn);
  drawn[0].redraw();
}

// ---- knobs ----

const SPECS = [
  { key: "network", label: "network", options: Object.entries(networks).map(([name, each]) => [name, each.title]) },
  { key: "resolution", label: "resolution", unit: " px", range: [...data.resolutions, 16] }, { key: "width", label: "width", unit: " x", range: [...data.widths, 0.05] },
  { key: "schedule", label: "schedule", options: [["best", "best plan"], ["layer", "layer by layer"], ["patch", "by patches (MCUNetV2)"], ["msf", "multi-stage fusion"]] },
  { key: "grid", label: "patches", options: [[0, "searched"], [2, "2 x 2"], [3, "3 x 3"], [4, "4 x 4"]] }, { key: "ram", label: "SRAM budget", unit: " KiB", range: [8, 1024, 8] },
  { key: "optimize", label: "plan", options: [["size", "least RAM"], ["speed", "fastest within the budget"]] },
];
const MORE = [
  { key: "overhead", label: "work at most", unit: " x", range: [1, 2, 0.05] }, { key: "device", label: "device", options: data.devices.map((each) => [each.name, `${each.name} (${each.core})`]) },
  { key: "stream", label: "input by rows" },
];

function set(changes) {
  if (changes.network && networks[changes.network]?.resolution && !("resolution" in changes)) Object.assign(changes, { resolution: networks[changes.network].resolution, width: networks[changes.network].width });
  Object.assign(state, changes);
  if (Object.keys(changes).some((key) => key !== "ram")) { // what was planned of another setting goes
    cancel("front");
    shownFront = null;
    place.front.replaceChildren();
  }
  knobs.forEach((each) => each.show());
  const inputs = Object.assign({}, ...knobs.map((each) => each.inputs)), own = networks[state.network]?.given;
  for (const key of ["resolution", "width"]) inputs[key].disabled = Boolean(own);
  inputs.grid.disabled = state.schedule !== "patch";
  inputs.overhead.disabled = !data.served || !["best", "msf"].includes(state.schedule);
  inputs.stream.disabled = !data.served || state.schedule === "layer";
  for (const key of ["device", "optimize"]) inputs[key].disabled = !data.served; // formulas know neither
  const preset = data.presets.find((each) => ["network", "resolution", "width", "schedule", "grid"].every((key) => each[key] === state[key]));
  place.preset.textContent = preset?.says ?? "";
  clearTimeout(set.later);
  set.later = setTimeout(ask, 60);
}

/** Set the explorer's knobs from another canvas, and show it. */
function openInExplorer(changes) {
  set(changes);
  document.getElementById("canvas-explorer").scrollIntoView();
}

function take(found) {
  if (networks[found.network]) return; // it was given before
  networks[found.network] = { title: found.title, given: true };
  document.getElementById("network").append(h("option", { value: found.network }, `${found.title} (${found.layers} layers)`));
}

async function drop(file) {
  place.told.textContent = `reading ${file.name} …`;
  try {
    const dot = file.name.lastIndexOf("."), about = new URLSearchParams({ name: file.name.slice(0, dot), suffix: file.name.slice(dot).toLowerCase() });
    const found = await post(`model?${about}`, file, null, "application/octet-stream");
    take(found);
    set({ network: found.network });
  } catch (error) {
    place.told.textContent = error.message;
  }
}

/** Return the buttons that choose a preset of the explorer. */
const presetButtons = () => data.presets.map((preset) => h("button", { "data-preset": preset.title, onclick: () => set({ network: preset.network, resolution: preset.resolution, width: preset.width, schedule: preset.schedule, grid: preset.grid, stream: false, overhead: 1, ram: preset.ram, optimize: "size" }) }, preset.title));

function explorerCanvas() {
  const file = h("input", { type: "file", id: "file", accept: ".tflite,.onnx,.pt2", onchange: () => file.files[0] && drop(file.files[0]) });
  knobs = [SPECS, MORE].map((specs) => knobLabels("", state, specs, set, DEFAULTS));
  const [first, more] = knobs.map(({ labels }) => labels);
  canvas("explorer", [first, h("details", {}, h("summary", {}, "more knobs"), more, data.served ? h("label", { class: "control", for: "file" }, h("span", {}, "a model of your own"), file) : null),
    defaultsButton(DEFAULTS, set)],
  h("div", { class: "tools" }, presetButtons()), place.preset, place.told, place.answer, place.layers, place.plan,
  data.served ? h("div", {}, h("h3", {}, "What RAM costs in time"), h("p", { class: "faint" }, "The plans worth having of this network on this device; the slider of the SRAM budget moves the line."), h("button", { id: "front", onclick: askFront }, "plan them"), place.front) : null,
  place.table);
}

function begin() {
  const chosen = [...new URLSearchParams(location.hash.slice(1))].filter(([key]) => Object.hasOwn(state, key));
  for (const [key, value] of chosen) state[key] = typeof state[key] === "number" ? Number(value) : typeof state[key] === "boolean" ? value === "true" : value;
  questionButtons();
  storyCanvas();
  ladderCanvas();
  layersCanvas();
  mapCanvas();
  supernetCanvas();
  profileCanvas();
  haloCanvas();
  redistributionCanvas();
  scalesCanvas();
  explorerCanvas();
  addEventListener("beforeprint", () => document.querySelectorAll(".question > details").forEach((each) => (each.open = true)));
  document.querySelectorAll("nav a").forEach((link) => link.addEventListener("click", (event) => { // the address keeps the knobs
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  }));
  if (!data.served) return set({});
  document.body.addEventListener("dragover", (event) => event.preventDefault());
  document.body.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) drop(event.dataTransfer.files[0]);
  });
  post("own", "{}").catch(() => []).then((found) => { // without them the networks that are there remain
    found.forEach(take);
    const changes = found.length && !chosen.length ? { network: found[0].network } : {};
    if (found.length || chosen.length) openInExplorer(changes);
    else set(changes);
  });
}

begin();
