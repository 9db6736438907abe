// Asks the explorer's server: first what the fast form knows, then the plan, which takes its place. page.js draws.

const state = { network: "mobilenet_v2", resolution: 144, width: 0.5, schedule: "best", grid: 0, stream: false, overhead: 1, ram: 256, device: "stm32f746" };
const networks = { ...data.networks };
const place = { front: h("div"), three: h("div", { class: "several" }), answer: h("div"), layers: h("div"), plan: h("div"), table: h("div"), map: h("div"), told: h("p", { class: "faint", "aria-live": "polite" }) };
const controls = {};
const THREE = ["mobilenet_v2", "proxyless", "mcunet_320kb"];
const HALO = 0.12; // what the lecture adds to a patch
const PATIENCE = 1000; // ms that a question may still be planned when a later one of the same canvas waits
const pending = {}; // by canvas, the question that it waits for
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
  drawMap();
  drawFront();
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

const fits = (count) => (count <= state.ram * 1024 ? h("span", { class: "verdict yes" }, "✓ fits") : h("span", { class: "verdict no" }, `✗ ${bytes(count - state.ram * 1024)} too many`));

/** Return what the papers' rules say, which stays beside the plan. */
function byRule(found) {
  const rule = state.schedule === "patch" && state.grid ? (found.layer * (1 + HALO)) / state.grid ** 2 : null;
  return [card("By formula: the largest input and output", kib(found.layer), fits(found.layer)),
    rule ? card("The lecture's rule for these patches", kib(rule), fits(rule), h("div", { class: "parts" }, "the peak, and 12 % for halos, by the number of patches; layers behind the patches are left out")) : []];
}

function drawFast(found) {
  shownFast = found;
  place.answer.replaceChildren(h("div", { class: "cards" },
    card("Least RAM, by the fast form", kib(found.arena), known(found.arena) ? fits(found.arena) : "not known of such a network"),
    byRule(found), card("Work", `${rounded(found.macs / 1e6)} M MACs`), card("Weights", kib(found.weights))));
  place.told.textContent = "The fast form's answer; the plan is on its way.";
}

function drawExact(found) {
  const { entry, least, layer } = found, { record } = entry;
  figures.length = 0;
  cursor.listeners.length = 0;
  shownRecord = record;
  const room = state.ram * 1024, from = `runs from ${bytes(least)} (${kib(least)}) of arena on`;
  const fit = h("p", { id: "verdict", class: `verdict ${record.ram.arena <= room ? "yes" : "no"}` },
    record.ram.arena <= room ? `✓ In ${kib(room)} this is the fastest plan; the network ${from}.` : `✗ It does not fit into ${kib(room)}: by this schedule the network ${from}.`);
  place.answer.replaceChildren(fit, cards(record), shownFast ? h("div", { class: "cards", id: "rules" }, byRule(shownFast)) : "");
  place.layers.replaceChildren(h("h2", {}, "What each layer needs"), layerBars("layers", record.layers, layer, () => room));
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

/** Draw what the layers of three networks need at this resolution and width, by this schedule. */
async function compareThree() {
  place.three.replaceChildren(h("p", { class: "faint" }, "planning …"));
  const parts = [];
  for (const network of THREE) {
    try {
      const { entry, layer } = await post("exact", JSON.stringify({ ...JSON.parse(asked()), network }), "three");
      parts.push(h("div", { "data-network": network }, h("h3", {}, networks[network].title), layerBars(network, entry.record.layers, layer, () => state.ram * 1024)));
    } catch (error) {
      if (error.name === "AbortError") return;
      parts.push(h("div", {}, h("h3", {}, networks[network].title), h("p", {}, error.message)));
    }
  }
  place.three.replaceChildren(...parts);
  figures.forEach((again) => again());
}

/** Return the RAM and Flash within which enough networks of a cell fit, as stage_one.py's `enough` does. */
function enough(networks, at, limits) {
  const excess = (each) => Math.max(each[at] / limits[0], each[3] / limits[1]);
  const kept = [...networks].sort((one, other) => excess(one) - excess(other)).slice(0, Math.ceil(data.feasible * networks.length - 1e-9));
  return [Math.max(limits[0], ...kept.map((each) => each[at])), Math.max(limits[1], ...kept.map((each) => each[3]))];
}

/** Draw the map of TinyNAS' stage one, from networks that were planned: the settings of which enough networks fit, the best one. */
function drawMap() {
  const { sizes, widths, networks: drawn } = data.map, ram = state.ram * 1024;
  const at = state.schedule === "layer" ? 0 : state.stream ? 2 : 1; // which arena of a network
  const cells = [];
  for (const size of sizes) for (const width of widths) {
    const all = drawn[`${size} ${width}`], room = Number(controls.flash?.value ?? 1024) * 1024;
    const fitting = all.filter((each) => each[at] <= ram && each[3] <= room).map((each) => each[4]).sort((a, b) => a - b);
    const place80 = (fitting.length - 1) * 0.8, low = Math.floor(place80);
    const p80 = fitting.length ? fitting[low] + (place80 - low) * ((fitting[low + 1] ?? fitting[low]) - fitting[low]) : 0;
    cells.push({ size, width, share: fitting.length / all.length, p80 });
  }
  const feasible = cells.filter((cell) => cell.share >= data.feasible);
  const best = feasible.length ? feasible.reduce((one, other) => (other.p80 > one.p80 ? other : one)) : null;
  const draw = (wide) => {
    const column = Math.min(70, (wide - LEFT) / sizes.length), high = 24, shapes = cells.map((cell) => {
      const x = LEFT + sizes.indexOf(cell.size) * column, y = (widths.length - 1 - widths.indexOf(cell.width)) * high, words = `${cell.size} x ${cell.size}, width ${cell.width}: ${Math.round(100 * cell.share)} % fit, ${rounded(cell.p80 / 1e6)} M MACs`;
      const here = cell === best;
      return [s("rect", { x: x + 1, y: y + 1, width: column - 2, height: high - 2, style: cell.share ? `fill:var(--output);fill-opacity:${0.15 + 0.85 * cell.share}` : "fill:var(--card)", onclick: () => set({ network: "tinynas", resolution: cell.size, width: cell.width }) }, s("title", {}, words)),
        text(x + column / 2, y + 16, here ? "★" : cell.share >= data.feasible ? "✓" : cell.share ? `${Math.round(100 * cell.share)}` : "·", { class: here ? "star" : cell.share > 0.5 ? "on" : "faint", "text-anchor": "middle", style: "pointer-events:none" })];
    });
    const names = [...widths.map((width, index) => text(LEFT - 8, (widths.length - 1 - index) * high + 16, width, { class: "faint", "text-anchor": "end" })),
      ...sizes.map((size, index) => text(LEFT + (index + 0.5) * column, widths.length * high + 14, size, { class: "faint", "text-anchor": "middle" }))];
    return s("svg", { width: wide, height: widths.length * high + 22, viewBox: `0 0 ${wide} ${widths.length * high + 22}`, role: "img", "aria-label": "Feasible images and widths" }, shapes, names);
  };
  const least = `${rounded(100 * data.feasible)} %`;
  const told = () => {
    if (best) return `✓: feasible, at least ${least} of the networks fit; a number: that many per cent. ★, the best feasible setting: ${best.size} x ${best.size} at width ${best.width}, where a fifth of the networks that fit have over ${rounded(best.p80 / 1e6)} M MACs. A click tries one.`;
    const near = cells.reduce((one, other) => (other.share > one.share ? other : one));
    const flash = Number(controls.flash?.value ?? 1024);
    const [needed, room] = enough(drawn[`${near.size} ${near.width}`], at, [ram, flash * 1024]).map((count) => Math.ceil(count / 1024));
    return `No setting is feasible: nowhere do ${least} of the networks fit. At ${near.size} x ${near.size} and width ${near.width} they do within ${needed} KiB of SRAM and ${room} KiB of Flash.`;
  };
  const drawnMap = figure("map", draw, h("figcaption", {}, told()));
  place.map.replaceChildren(drawnMap);
  drawnMap.redraw();
}

/** Draw machines by what they have, and below them networks by what they need, on one scale. */
function ladder() {
  const { ladder: machines, rungs } = data, planned = rungs.map(() => null), high = 44;
  const smallest = machines.at(-1), [least, most] = [16 << 10, Math.max(...machines.map((each) => each.storage))].map(Math.log10);
  const rows = () => [
    ...machines.map((each) => ({ name: each.name, bars: [[each.ram, "input", `${human(each.ram)} memory`], [each.storage, "scratch", `${human(each.storage)} storage`]] })),
    ...rungs.map((each, index) => {
      const plan = planned[index], ram = plan?.arenas?.[2] ?? each.formula.layer;
      return { name: each.title, bars: [[ram, "output", `${human(ram)} RAM${plan ? ", planned" : ", by formula"}`, each.formula.layer], [each.formula.weights, "scratch", `${human(each.formula.weights)} weights`]] };
    }),
  ];
  const draw = (width) => {
    const all = rows(), tall = all.length * high + 26, name = Math.min(210, width * 0.36), right = width - 122;
    const x = (value) => name + ((right - name) * (Math.log10(value) - least)) / (most - least);
    return s("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "Memory of machines and of networks, on a logarithmic scale" },
      all.flatMap((each, index) => {
        const top = index * high + (index < machines.length ? 0 : 18);
        return [text(name - 8, top + 20, short(each.name, name - 12), { "text-anchor": "end" }),
          ...each.bars.flatMap(([count, colour, words, before], at) => [
            before && before > count ? s("rect", { class: "whole", x: name, y: top + 4 + 16 * at, width: x(before) - name, height: 14 }) : [],
            s("rect", { x: name, y: top + 4 + 16 * at, width: Math.max(2, x(count) - name), height: 14, style: `fill:var(--${colour})` }),
            text(x(Math.max(count, before ?? 0)) + 6, top + 15 + 16 * at, words, { class: "faint" })])];
      }),
      [["ram", 4], ["storage", 20]].map(([key, down]) => s("path", { class: "limit", d: `M${x(smallest[key])} ${(machines.length - 1) * high + down}V${tall}` })));
  };
  const below = h("div"), whole = figure("ladder", draw, h("figcaption", {}, "Logarithmic. Machines: the MCUNet thesis, table 1.1; dashed, what the smallest has of memory and of storage. Networks in int8: RAM by the papers' formula, the largest layer's input and output; as planned it takes its place, and the formula stays outlined."));
  const show = () => below.replaceChildren(table([
    ["network", (each) => each.title], ["image", (each) => each.resolution, { number: true }],
    ["RAM by formula", (each) => each.formula.layer, { number: true }], ["layer by layer", (each) => each.planned?.arenas?.[0], { number: true }],
    ["best plan", (each) => each.planned?.arenas?.[1], { number: true }], ["image by rows", (each) => each.planned?.arenas?.[2], { number: true }],
    ["weights", (each) => each.formula.weights, { number: true }], ["constants as planned", (each) => each.planned?.constants, { number: true }],
    ["RAM printed, kB", (each) => each.printed && each.printed[0] / 1e3, { number: true }], ["Flash printed, kB", (each) => each.printed && each.printed[1] / 1e3, { number: true }],
    ["", (each) => each.planned?.error],
  ], rungs.map((each, index) => ({ ...each, planned: planned[index] }))));
  const plan = h("button", { id: "ladder", onclick: async () => {
    plan.disabled = true;
    for (const index of rungs.keys()) {
      planned[index] = await post("rung", String(index)).catch((error) => ({ error: error.message }));
      whole.redraw();
      show();
    }
  } }, "plan these networks");
  show();
  return [whole, plan, below, h("p", { class: "faint" }, "Bytes. The formula leaves skips out, which lie beside a layer's input and output; a plan holds them, and still needs less. Printed: table 1.1 of the thesis, its float figures divided by four. No plan makes weights smaller.")];
}

function human(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"], index = Math.floor(Math.log2(count) / 10);
  return `${rounded(count / 1024 ** index)} ${units[index]}`;
}

// ---- controls ----

const slider = (key, label, least, most, step, unit = "") => {
  const shown = h("output", {}, `${state[key]}${unit}`);
  const input = h("input", { type: "range", id: key, min: least, max: most, step, value: state[key], oninput: () => set({ [key]: Number(input.value) }) });
  controls[key] = { input, show: () => ((input.value = state[key]), (shown.textContent = `${state[key]}${unit}`)) };
  return h("label", { class: "control", for: key }, h("span", {}, label, " ", shown), input);
};
const choice = (key, label, options) => {
  const input = h("select", { id: key, onchange: () => set({ [key]: key === "grid" ? Number(input.value) : input.value }) }, options.map(([value, words]) => h("option", { value }, words)));
  controls[key] = { input, show: () => (input.value = state[key]) };
  return h("label", { class: "control", for: key }, h("span", {}, label), input);
};

function set(changes) {
  if (changes.network && networks[changes.network]?.resolution && !("resolution" in changes)) Object.assign(changes, { resolution: networks[changes.network].resolution, width: networks[changes.network].width });
  Object.assign(state, changes);
  if (Object.keys(changes).some((key) => key !== "ram")) { // what was planned of another setting goes
    cancel("front");
    cancel("three");
    shownFront = null;
    place.front.replaceChildren();
    place.three.replaceChildren();
  }
  for (const [key, control] of Object.entries(controls)) if (control.show) control.show(key);
  const own = networks[state.network]?.given;
  for (const key of ["resolution", "width"]) controls[key].input.disabled = Boolean(own);
  controls.grid.input.disabled = state.schedule !== "patch";
  controls.overhead.input.disabled = !["best", "msf"].includes(state.schedule);
  clearTimeout(set.later);
  set.later = setTimeout(ask, 60);
}

function take(found) {
  if (networks[found.network]) return; // it was given before
  networks[found.network] = { title: found.title, given: true };
  controls.network.input.append(h("option", { value: found.network }, `${found.title} (${found.layers} layers)`));
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

function begin() {
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    if (Object.hasOwn(state, key)) state[key] = typeof state[key] === "number" ? Number(value) : typeof state[key] === "boolean" ? value === "true" : value;
  }
  const file = h("input", { type: "file", id: "file", accept: ".tflite,.onnx,.pt2", onchange: () => file.files[0] && drop(file.files[0]) });
  const stream = h("input", { type: "checkbox", id: "stream", onchange: () => set({ stream: stream.checked }) });
  controls.stream = { input: stream, show: () => (stream.checked = state.stream) };
  controls.flash = h("input", { type: "range", id: "flash", min: 256, max: 2048, step: 64, value: 1024, oninput: () => ((flashShown.textContent = `${controls.flash.value} KiB`), drawMap()) });
  const flashShown = h("output", {}, "1024 KiB");
  document.getElementById("page").replaceChildren(
    h("h1", {}, "What does this network need?"),
    h("p", {}, "Turn a knob: the fast form answers at once, and the planner's own plan takes its place. Nothing leaves this machine."),
    h("div", { class: "tools" }, data.presets.map((preset) => h("button", { "data-preset": preset.title, onclick: () => set({ network: preset.network, resolution: preset.resolution, width: preset.width, schedule: preset.schedule, grid: preset.grid, stream: false, overhead: 1, ram: preset.ram }) }, preset.title))),
    h("div", { class: "controls" },
      choice("network", "network", Object.entries(networks).map(([name, each]) => [name, each.title])),
      slider("resolution", "resolution", ...data.resolutions, 16, " px"), slider("width", "width", ...data.widths, 0.05, " x"),
      choice("schedule", "schedule", [["best", "best plan"], ["layer", "layer by layer"], ["patch", "by patches (MCUNetV2)"], ["msf", "multi-stage fusion"], ["stream2d", "StreamNet"]]),
      choice("grid", "patches", [[0, "searched"], [2, "2 x 2"], [3, "3 x 3"], [4, "4 x 4"]]),
      slider("overhead", "work at most", 1, 2, 0.05, " x"), slider("ram", "SRAM budget", 8, 1024, 8, " KiB"),
      choice("device", "device", data.devices.map((each) => [each.name, `${each.name} (${each.core})`])),
      h("label", { class: "control", for: "stream" }, h("span", {}, "input by rows"), stream),
      h("label", { class: "control", for: "file" }, h("span", {}, "a model of your own"), file)),
    place.told, place.answer, place.layers, place.plan,
    h("section", {}, h("h2", {}, "What RAM costs in time"), h("p", { class: "faint" }, "The plans worth having of this network on this device; the slider of the SRAM budget moves the line."), h("button", { id: "front", onclick: askFront }, "plan them"), place.front),
    h("section", {}, h("h2", {}, "Where the memory is"), h("p", { class: "faint" }, "The first layers of most networks hold the peak; a search that knows its limits makes networks that are flatter. Three networks at this resolution and width, by this schedule; outlined: layer by layer."), h("button", { id: "three", onclick: compareThree }, "compare three networks"), place.three),
    h("section", {}, h("h2", {}, "Where good networks are"), h("p", { class: "faint" }, `TinyNAS' first stage: of each image and width ${Object.values(data.map.networks)[0].length} networks of its mobile space were drawn and planned. How many fit the SRAM budget above, by the schedule above, and this much Flash?`),
      h("label", { class: "control", for: "flash" }, h("span", {}, "Flash for weights ", flashShown), controls.flash), place.map),
    h("section", {}, h("h2", {}, "The memory ladder"), ladder()),
    place.table,
  );
  document.body.addEventListener("dragover", (event) => event.preventDefault());
  document.body.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) drop(event.dataTransfer.files[0]);
  });
  figures.forEach((again) => again());
  post("own", "{}").catch(() => []).then((found) => { // without them the networks that are there remain
    found.forEach(take);
    set(found.length && !location.hash ? { network: found[0].network } : {});
  });
}

begin();
