// The live figures of the lesson but the explorer: each is drawn at its mark in the text, with its knobs beside it.

const SCHEDULES = [["layer", "layer by layer"], ["patch", "by patches"], ["best", "best plan"], ["rows", "best plan, input by rows"]];

/** Fill the mark of this name with knobs and a figure. */
function canvas(name, panel, ...drawn) {
  document.getElementById(`canvas-${name}`).replaceChildren(h("div", { class: "knobs" }, panel), h("div", { class: "drawn" }, drawn));
}

/** Return the labels of knobs that change the state, their inputs by key, and a function that shows the state on them.
 *
 * specs: key, label, unit, and a range [least, most, step] or options [[value, words]]; neither for a box to tick.
 * changed: called with the changes, and sets them. defaults: values that the labels name. */
function knobLabels(prefix, state, specs, changed, defaults = { ...state }) {
  const inputs = {}, shown = {};
  const said = ({ unit = "", options }, value) => (options ? options.find(([each]) => each === value)?.[1] : typeof value === "boolean" ? (value ? "on" : "off") : `${value}${unit}`);
  const labels = specs.map((spec) => {
    const { key, label, unit = "", range, options } = spec, id = prefix ? `${prefix}-${key}` : key;
    const turned = () => changed({ [key]: typeof state[key] === "boolean" ? input.checked : typeof state[key] === "number" ? Number(input.value) : input.value });
    const input = options ? h("select", { id, onchange: turned }, options.map(([value, words]) => h("option", { value }, words)))
      : range ? h("input", { type: "range", id, min: range[0], max: range[1], step: range[2], oninput: turned })
        : h("input", { type: "checkbox", id, onchange: turned });
    inputs[key] = input;
    shown[key] = range ? h("output", {}) : null;
    const limits = range ? `${range[0]} to ${range[1]}${unit}, default ` : "default: ";
    return h("label", { class: "control", for: id }, h("span", {}, label, " ", shown[key]), input, h("small", { class: "faint" }, `${limits}${said(spec, defaults[key])}`));
  });
  const show = () => specs.forEach((spec) => {
    const { key } = spec;
    if (typeof state[key] === "boolean") inputs[key].checked = state[key];
    else inputs[key].value = state[key];
    if (shown[key]) shown[key].textContent = said(spec, state[key]);
  });
  show();
  return { labels, show, inputs };
}

const defaultsButton = (defaults, changed) => h("button", { class: "defaults", onclick: () => changed({ ...defaults }) }, "defaults");

/** Draw the figures of a part of the page, which have a width only now. */
function drawPlaced(part) {
  part.querySelectorAll("figure").forEach((each) => each.redraw());
  figures.length = 0;
}

/** Place a figure whose knobs only draw it anew; draw() returns its parts for the state. */
function liveCanvas(name, state, specs, draw) {
  const place = h("div"), defaults = { ...state }, knobs = knobLabels(name, state, specs, (changes) => turn(changes));
  const turn = (changes) => {
    Object.assign(state, changes);
    knobs.show();
    place.replaceChildren(...draw());
    drawPlaced(place);
  };
  canvas(name, [knobs.labels, defaultsButton(defaults, turn)], place);
  turn({});
}

/** Return the convolutions of a built-in chain; null for other networks and widths. Each has its block, `from` and `to` (the shapes of
 * its input and output), `live` and `column`.
 *
 * live: the bytes of input plus output; a depthwise convolution overwrites its input, so that the larger of the two counts.
 * column: the bytes of one column of its inputs, 2 for each, as TinyEngine buffers them (equation 3.1 of the MCUNet thesis). */
function byFormula(network, resolution, width) {
  const chain = data.chains[network], channels = chain?.channels[width];
  if (!channels) return null;
  const side = (factor) => Math.ceil(resolution / factor), shape = (factor, index) => `${side(factor)}x${side(factor)}x${channels[index]}`;
  return chain.layers.map(([before, after, depthwise, kernel, block], index) => {
    const taken = side(before) ** 2 * channels[index], made = side(after) ** 2 * channels[index + 1];
    return { name: `${depthwise ? "depthwise" : "conv"} ${index}`, live: depthwise ? Math.max(taken, made) : taken + made, column: 2 * kernel ** 2 * channels[index],
      block, from: shape(before, index), to: shape(after, index + 1) };
  });
}

/** Return for each block of a compared network its `name`, and `layer`, the bytes of its largest layer; and the `column` of the network. */
function blocksByFormula({ network, resolution, width }) {
  const rows = byFormula(network, resolution, width), blocks = [];
  for (const row of rows) (blocks[row.block] ??= []).push(row);
  return { names: blocks.map((own) => `${own[0].from} to ${own.at(-1).to}`), layer: blocks.map((own) => Math.max(...own.map((row) => row.live))), column: Math.max(...rows.map((row) => row.column)) };
}

const fitsIn = (count, ram) => (count <= ram * 1024 ? h("span", { class: "verdict yes" }, "✓ fits") : h("span", { class: "verdict no" }, `✗ ${bytes(count - ram * 1024)} too many`));

// ---- questions ----

/** Make buttons of the answers of each question: "words: **Right.** why", or "**No.**". A click shows why; the right one opens the solution. */
function questionButtons() {
  document.querySelectorAll(".question").forEach((question) => question.querySelectorAll(":scope > ul > li").forEach((item) => {
    const mark = item.querySelector("strong"), right = mark.textContent === "Right.", why = h("span", { class: right ? "said yes" : "said no", role: "status" });
    const words = mark.previousSibling.textContent.replace(/:\s*$/, ""), said = [...item.childNodes].slice([...item.childNodes].indexOf(mark));
    const pick = () => {
      button.setAttribute("aria-pressed", "true");
      why.replaceChildren(right ? "✓ " : "✗ ", ...said);
      if (right) question.querySelector("details").open = true;
    };
    const button = h("button", { class: "choice", "aria-pressed": "false", onclick: pick }, words);
    item.replaceChildren(button, why);
  }));
}

// ---- the story of the lesson in one picture ----

function storyCanvas() {
  const { rungs, planned, redistribution, compared } = data, phone = rungs.findIndex((each) => each.network === "mobilenet_v2"), found = compared.find((each) => each.network === "mcunet_320kb");
  const [, , patches] = redistribution[0].patches.find(([patch]) => patch === 7);
  const bars = [["MobileNetV2, layer by layer", rungs[phone].formula.layer], ["a smaller network, found by search: MCUNet", Math.max(...blocksByFormula(found).layer)],
    ["MobileNetV2, first layers in 4 x 4 patches", patches], ["MobileNetV2, by rows (tinyweave)", planned.ladder[phone].arenas.rows]];
  const most = bars[0][1], room = 256 * 1024, high = 46;
  const drawn = figure("story", (width) => {
    const x = (count) => ((width - 70) * count) / most, tall = bars.length * high + 22;
    return s("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "SRAM of four ways to run a network" },
      bars.map(([, count], index) => [s("rect", { class: count > room ? "peak" : "bar", x: 0, y: index * high + 20, width: x(count), height: 18 })]),
      s("path", { class: "limit", d: bars.map((_, index) => `M${x(room)} ${index * high + 19}v20`).join("") + `V${tall}` }), // beside the labels
      bars.map(([words, count], index) => [text(0, index * high + 14, words), text(Math.max(x(count), x(room)) + 6, index * high + 34, kib(count))]),
      text(x(room) + 4, tall - 6, "256 KiB, all that the microcontroller has", { class: "mark" }));
  }, h("figcaption", {}, "SRAM for activations in int8, images of 224 x 224 px (MCUNet: 176 x 176). The first three are counted by formula, the last is a plan."));
  const mark = document.getElementById("canvas-story");
  mark.classList.add("alone");
  mark.replaceChildren(drawn);
  drawPlaced(mark);
}

// ---- canvas 1: machines and networks by memory ----

function ladderCanvas() {
  const state = { schedule: "formula" };
  const ramOf = (rung, index) => (state.schedule === "formula" ? rung.formula.layer : data.planned.ladder[index].arenas[state.schedule]);
  const options = [["formula", "largest input and output"], ...SCHEDULES.filter(([value]) => value !== "patch")];
  liveCanvas("ladder", state, [{ key: "schedule", label: "RAM of the networks", options }], () => [figure("ladder", drawLadder(ramOf),
    h("figcaption", {}, "Logarithmic. Machines: as their source prints them; a hatched bar is a range. Dashed: what the smallest machine has. Networks in int8: RAM as chosen, outlined by formula, and weights; no plan makes weights smaller.")), rungTable()]);
}

function drawLadder(ramOf) {
  const { ladder: machines, rungs } = data, smallest = machines.at(-1), high = 44;
  const [least, most] = [16 << 10, 1e15].map(Math.log10);
  const rows = [
    ...machines.map((each) => ({ name: each.name, source: each.source, bars: [[each.ram, "input", `${each.says[0]} memory`], [each.storage[0], "scratch", `${each.says[1]} storage`, each.storage[1]]] })),
    ...rungs.map((each, index) => ({ name: each.title, bars: [[ramOf(each, index), "output", `${kib(ramOf(each, index))} RAM`, each.formula.layer], [each.formula.weights, "scratch", `${kib(each.formula.weights)} weights`]] })),
  ];
  return (width) => {
    const tall = rows.length * high + 44, name = Math.min(190, width * 0.34), right = width - 108, paint = fills();
    const x = (value) => name + ((right - name) * (Math.log10(value) - least)) / (most - least);
    const units = [["64 KiB", 64 << 10], ["1 MB", 1e6], ["1 GB", 1e9], ["1 TB", 1e12], ["1 PB", 1e15]].slice(width < 500 ? 1 : 0);
    return s("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "Memory of machines and of networks, on a logarithmic scale" }, paint.defs,
      units.map(([unit, value]) => [s("path", { class: "grid", d: `M${x(value)} 0V${tall - 24}` }), text(x(value), tall - 10, unit, { class: "faint", "text-anchor": "middle" })]),
      rows.flatMap((each, index) => {
        const top = index * high + (index < machines.length ? 0 : 12);
        return [text(name - 8, top + 20, short(each.name, name - 8), { "text-anchor": "end" }),
          ...each.bars.flatMap(([count, colour, words, until], at) => [
            until > count && s("rect", { class: at ? "range" : "whole", x: name, y: top + 4 + 16 * at, width: x(until) - name, height: 14, fill: paint.of("scratch") }),
            s("rect", { x: name, y: top + 4 + 16 * at, width: Math.max(2, x(count) - name), height: 14, style: `fill:var(--${colour})` }, s("title", {}, `${each.name}: ${words}${each.source ? ` (${each.source})` : ""}`)),
            text(Math.min(x(Math.max(count, until ?? 0)) + 6, width - words.length * LETTER), top + 15 + 16 * at, words, { class: "faint" })].filter(Boolean))];
      }),
      [[smallest.ram, 4], [smallest.storage[0], 20]].map(([value, down]) => s("path", { class: "limit", d: `M${x(value)} ${(machines.length - 1) * high + down}V${tall - 24}` })));
  };
}

/** Return the networks of the ladder as a table: RAM by formula and planned, Flash, and the printed figures. */
function rungTable() {
  const rows = data.rungs.map((each, index) => ({ ...each, planned: data.planned.ladder[index] })), number = { number: true };
  return h("div", {}, table([
    ["network", (each) => each.title], ["px", (each) => each.resolution, number], ["by formula", (each) => each.formula.layer, number],
    ["layer by layer", (each) => each.planned.arenas.layer, number], ["best plan", (each) => each.planned.arenas.best, number], ["input by rows", (each) => each.planned.arenas.rows, number],
    ["weights", (each) => each.formula.weights, number], ["Flash", (each) => each.planned.constants, number],
    ["printed: RAM", (each) => each.printed?.[0], number], ["weights, printed", (each) => each.printed?.[1], number],
  ], rows), h("p", { class: "faint" }, "Bytes, planned for a Cortex-M7. Flash: weights, biases and tables as planned. The formula leaves out skip connections; a plan holds them and still needs less. Printed: table 1.1 of the thesis, its float figures divided by four."));
}

// ---- canvas 2: the five layers ----

function layersCanvas() {
  const state = { resolution: 96, width: 1, ram: 256 };
  const specs = [{ key: "resolution", label: "resolution", unit: " px", range: [...data.resolutions, 16] }, { key: "width", label: "width", unit: " x", range: [...data.widths, 0.05] }, { key: "ram", label: "SRAM budget", unit: " KiB", range: [8, 1024, 8] }];
  liveCanvas("layers", state, specs, () => {
    const rows = byFormula("five_layers", state.resolution, state.width), peak = Math.max(...rows.map((row) => row.live));
    const [planned, byRows] = data.five[`${state.resolution} ${state.width}`];
    return [h("div", { class: "cards" }, card("Peak: the largest input and output", kib(peak), fitsIn(peak, state.ram)), card("Best plan", kib(planned), fitsIn(planned, state.ram)), card("Best plan, input by rows", kib(byRows), fitsIn(byRows, state.ram))),
      formulaBars("layers", rows, () => state.ram)];
  });
}

/** Draw input plus output of each layer, the peak in another colour, and the budget as a line. */
function formulaBars(name, rows, ram) {
  const peak = Math.max(...rows.map((row) => row.live)), tied = rows.filter((row) => row.live === peak).map((row) => row.name);
  const draw = (width) => {
    const budget = ram() * 1024, top = Math.max(peak, Math.min(budget, peak * 1.3)), right = width - 8, column = (right - LEFT) / rows.length, bottom = 210, y = (at) => bottom - (200 * at) / top;
    return s("svg", { width, height: bottom + 34, viewBox: `0 0 ${width} ${bottom + 34}`, role: "img", "aria-label": "Input plus output of each layer" }, grid(top, y, right),
      rows.map((row, index) => s("rect", { class: row.live === peak ? "peak" : "bar", x: LEFT + index * column + 0.5, y: y(row.live), width: Math.max(0.5, column - 1), height: bottom - y(row.live) }, s("title", {}, `${row.name}: ${bytes(row.live)}`))),
      column > 40 ? rows.map((row, index) => text(LEFT + (index + 0.5) * column, bottom + 14, row.name, { class: "faint", "text-anchor": "middle" })) : [],
      budget <= top ? [s("path", { class: "limit", d: `M${LEFT} ${y(budget)}H${right}` }), text(right, y(budget) - 4, `budget ${kib(budget)}`, { class: "mark", "text-anchor": "end" })] : [],
      s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }), text((LEFT + right) / 2, bottom + 30, "layers, in order", { class: "faint", "text-anchor": "middle" }));
  };
  return figure(name, draw, h("figcaption", {}, `Input plus output of each layer, bytes in int8. The bottleneck: ${tied.join(" and ")}, ${bytes(peak)}.`));
}

// ---- canvas 3: TinyNAS' first stage ----

/** Return the RAM and Flash within which enough networks of a cell fit, as stage_one.py's `limits_for_share` does. */
function enough(networks, at, limits, share) {
  const excess = (each) => Math.max(each[at] / limits[0], each[3] / limits[1]);
  const kept = [...networks].sort((one, other) => excess(one) - excess(other)).slice(0, Math.max(1, Math.ceil(share * networks.length - 1e-9)));
  return [Math.max(limits[0], ...kept.map((each) => each[at])), Math.max(limits[1], ...kept.map((each) => each[3]))];
}

/** Return each setting of the map: its image, its width, the share of its networks that fit, the mean or 80th percentile of their MACs. */
function mapCells({ ram, flash, schedule, by }) {
  const at = { layer: 0, best: 1, rows: 2 }[schedule], { sizes, widths, networks } = data.map;
  return sizes.flatMap((size) => widths.map((width) => {
    const all = networks[`${size} ${width}`], fitting = all.filter((each) => each[at] <= ram * 1024 && each[3] <= flash * 1024).map((each) => each[4]).sort((a, b) => a - b);
    const place = (fitting.length - 1) * 0.8, low = Math.floor(place), mean = fitting.reduce((sum, macs) => sum + macs, 0) / fitting.length;
    const macs = !fitting.length ? 0 : by === "mean" ? mean : fitting[low] + (place - low) * ((fitting[low + 1] ?? fitting[low]) - fitting[low]);
    return { size, width, at, all, share: fitting.length / all.length, macs };
  }));
}

function mapCanvas() {
  const state = { ram: 320, flash: 1024, schedule: "layer", rule: 100 * data.feasible, by: "p80" };
  const specs = [{ key: "ram", label: "SRAM budget", unit: " KiB", range: [8, 1024, 8] }, { key: "flash", label: "Flash for weights", unit: " KiB", range: [256, 2048, 64] },
    { key: "schedule", label: "RAM of a network", options: SCHEDULES.filter(([value]) => value !== "patch") }, { key: "rule", label: "share that must fit", unit: " %", range: [10, 100, 10] },
    { key: "by", label: "chosen by MACs", options: [["p80", "80th percentile (lecture)"], ["mean", "mean (thesis)"]] }];
  liveCanvas("map", state, specs, () => {
    const cells = mapCells(state), share = state.rule / 100, feasible = cells.filter((cell) => cell.share >= share);
    const best = feasible.length ? feasible.reduce((one, other) => (other.macs > one.macs ? other : one)) : null;
    return [figure("map", drawMap(cells, best, share), h("figcaption", {}, mapSays(cells, best, state)))];
  });
}

function mapSays(cells, best, { rule, ram, flash, by }) {
  const count = cells[0].all.length, macs = best && `${rounded(best.macs / 1e6)} M MACs`;
  if (best) return `✓: feasible, at least ${rule} % of ${count} networks fit (drawn at random, 1,000 classes); a number: that many per cent. ★, the best feasible setting: ${best.size} x ${best.size} at width ${best.width}, ${by === "mean" ? `whose networks that fit have ${macs} on average` : `where a fifth of the networks that fit have over ${macs}`}. A click opens a network of a setting in the explorer.`;
  const near = cells.reduce((one, other) => (other.share > one.share ? other : one));
  const [needed, room] = enough(near.all, near.at, [ram * 1024, flash * 1024], rule / 100).map((bytes) => Math.ceil(bytes / 1024));
  return `No setting is feasible: nowhere do ${rule} % of the networks fit. At ${near.size} x ${near.size} and width ${near.width} they do within ${needed} KiB of SRAM and ${room} KiB of Flash.`;
}

function drawMap(cells, best, share) {
  const { sizes, widths } = data.map, left = 52;
  return (wide) => {
    const column = Math.min(70, (wide - left) / sizes.length), high = 32, bottom = widths.length * high, tall = bottom + 40;
    const shapes = cells.map((cell) => {
      const x = left + sizes.indexOf(cell.size) * column, y = (widths.length - 1 - widths.indexOf(cell.width)) * high, here = cell === best;
      const words = `${cell.size} x ${cell.size}, width ${cell.width}: ${Math.round(100 * cell.share)} % fit, ${rounded(cell.macs / 1e6)} M MACs`;
      return [s("rect", { x: x + 1, y: y + 1, width: column - 2, height: high - 2, style: cell.share ? `fill:var(--output);fill-opacity:${0.15 + 0.85 * cell.share}` : "fill:var(--card)", onclick: () => openInExplorer({ network: "tinynas", resolution: cell.size, width: cell.width }) }, s("title", {}, words)),
        text(x + column / 2, y + 20, here ? "★" : cell.share >= share ? "✓" : cell.share ? `${Math.round(100 * cell.share)}` : "·", { class: here ? "star" : cell.share > 0.5 ? "on" : "faint", "text-anchor": "middle", style: "pointer-events:none" })];
    });
    const middle = bottom / 2;
    return s("svg", { width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "Feasible images and widths" }, shapes,
      widths.map((width, index) => text(left - 8, (widths.length - 1 - index) * high + 20, width, { class: "faint", "text-anchor": "end" })),
      sizes.map((size, index) => text(left + (index + 0.5) * column, bottom + 14, size, { class: "faint", "text-anchor": "middle" })),
      text(left + (sizes.length * column) / 2, bottom + 34, "image resolution, px", { "text-anchor": "middle" }),
      text(12, middle, "width multiplier", { "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }));
  };
}

// ---- the supernet, and one of its sub-networks ----

function supernetCanvas() {
  const { networks, size, width } = data.supernet, all = networks.at(-1), state = { subnet: 12 };
  liveCanvas("supernet", state, [{ key: "subnet", label: "sub-network", range: [1, networks.length, 1] }], () => {
    const chosen = networks[state.subnet - 1], count = (network) => network.stages.flat().length;
    const share = Math.round((100 * chosen.weights) / all.weights), fits = chosen.ram <= 320 * 1024 && chosen.weights <= 1024 * 1024;
    return [figure("supernet", drawSupernet(all.stages, chosen.stages), h("figcaption", {}, `Sub-network ${state.subnet} of ${networks.length}, from the fewest to the most MACs, in a supernet for ${size} px at width ${width}: ${count(chosen)} of ${count(all)} blocks and ${share} % of the weights. `,
      `It needs ${kib(chosen.ram)} of RAM (the largest layer), ${kib(chosen.weights)} of Flash and ${rounded(chosen.macs / 1e6)} M MACs. `,
      h("b", {}, fits ? "It fits into 320 KiB and 1 MiB." : "It does not fit into 320 KiB and 1 MiB: the search rejects it untrained."),
      " Of each block: left its kernel inside the kernel of 7, right its expansion of 6; coloured is what the sub-network uses."))];
  });
}

/** Return a drawing of a supernet's stages in lines, in which the blocks of a sub-network are coloured: [kernel, expansion] each. */
function drawSupernet(all, chosen) {
  return (width) => {
    const columns = Math.max(...all.map((blocks) => blocks.length)), label = 58, column = Math.min(130, (width - label) / columns), high = 58, pixel = 5, tall = all.length * high;
    const block = (x, y, [most, widest], own) => {
      const [kernel, expansion] = own ?? [0, 0], edge = (most - kernel) / 2, unit = (7 * pixel) / widest, side = x + 7 * pixel + 8;
      const says = own ? `kernel ${kernel} x ${kernel}, expansion ${expansion}` : "this sub-network leaves the block out";
      return s("g", { class: own ? "used" : "unused" }, s("rect", { class: "whole", x, y, width: 7 * pixel, height: 7 * pixel }), s("rect", { class: "whole", x: side, y, width: 14, height: 7 * pixel }),
        own && s("rect", { class: "bar", x: x + edge * pixel + (7 - most) * pixel / 2, y: y + edge * pixel + (7 - most) * pixel / 2, width: kernel * pixel, height: kernel * pixel }),
        own && s("rect", { x: side, y: y + 7 * pixel - expansion * unit, width: 14, height: expansion * unit, style: "fill:var(--output)" }),
        column > 95 && own ? [text(side + 18, y + 14, `${kernel} x ${kernel}`), text(side + 18, y + 30, `x ${expansion}`)] : [], s("title", {}, says));
    };
    return s("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "Stages of the supernet, with the sub-network in colour" }, all.map((blocks, stage) => [
      text(0, stage * high + 22, `stage ${stage + 1}`, { class: "faint" }), blocks.map((most, index) => block(label + index * column, stage * high + 4, most, chosen[stage][index]))]));
  };
}

// ---- canvas 4: RAM per block of three networks ----

function profileCanvas() {
  const state = { setting: "small", schedule: "layer", ram: 320 };
  const specs = [{ key: "setting", label: "settings", options: [["small", "scaled for 320 kB"], ["phone", "of their papers"]] }, { key: "schedule", label: "schedule", options: SCHEDULES }, { key: "ram", label: "SRAM budget", unit: " KiB", range: [8, 1024, 8] }];
  const compared = data.compared.map((each, index) => ({ ...each, ...blocksByFormula(each), planned: data.planned.profiles[index] }));
  liveCanvas("profiles", state, specs, () => {
    const shown = compared.filter((each) => [state.setting, "both"].includes(each.setting)).map((each) => ({ ...each, live: state.schedule === "layer" ? each.layer : each.planned[state.schedule] }));
    const highest = Math.max(...shown.flatMap((each) => each.layer.map((count) => count + each.column))); // one scale for all networks and schedules
    const most = Math.max(highest, Math.min(state.ram * 1024, 1.3 * highest));
    const says = state.schedule === "layer" ? "Filled: the largest input plus output of a layer; a depthwise layer overwrites its input; inputs kept for a skip connection do not count. Hatched: TinyEngine's buffer for one column of inputs, 2 bytes per value."
      : `Filled: ${SCHEDULES.find(([value]) => value === state.schedule)[1]}, with all buffers and skip connections; outlined: layer by layer, by formula.`;
    return [h("div", { class: "beside" }, shown.map((each) => profileFigure(each, state, most))),
      h("p", { class: "faint" }, `${says} One scale for all. Flatness: the mean of the blocks over their maximum; 1 is flat.`)];
  });
}

function profileFigure(network, state, most) {
  const { live } = network, peak = Math.max(...live), mean = live.reduce((sum, count) => sum + count, 0) / live.length, budget = state.ram * 1024;
  const byLayer = state.schedule === "layer", column = byLayer ? network.column : 0, all = peak + column;
  const draw = (width) => {
    const left = 56, right = width - 4, step = (right - left) / live.length, bottom = 210, y = (at) => bottom - (200 * at) / most, paint = fills();
    const bars = live.map((count, block) => {
      const x = left + block * step + 0.5, wide = Math.max(1, step - 1), words = `block ${block}, ${network.names[block]}: ${bytes(count)}; layer by layer, by formula: ${bytes(network.layer[block])}`;
      const bar = (from, to, attributes) => s("rect", { x, y: y(to), width: wide, height: y(from) - y(to), ...attributes }, s("title", {}, words));
      return [byLayer ? bar(count, count + column, { class: "column", fill: paint.of("scratch") }) : bar(0, network.layer[block], { class: "whole" }),
        bar(0, count, { class: count + column > budget ? "peak" : "bar" })];
    });
    return s("svg", { width, height: bottom + 34, viewBox: `0 0 ${width} ${bottom + 34}`, role: "img", "aria-label": `RAM of each block of ${network.title}` }, paint.defs,
      s("g", { transform: `translate(${left - LEFT} 0)` }, grid(most, y, right - left + LEFT)), bars,
      budget <= most ? [s("path", { class: "limit", d: `M${left} ${y(budget)}H${right}` }), text(right, y(budget) - 4, `budget ${kib(budget)}`, { class: "mark", "text-anchor": "end" })] : [],
      s("path", { class: "axis", d: `M${left} ${bottom}H${right}` }), text(left, bottom + 14, "0", { class: "faint" }), text(right, bottom + 14, live.length - 1, { class: "faint", "text-anchor": "end" }),
      text((left + right) / 2, bottom + 30, "block", { class: "faint", "text-anchor": "middle" }));
  };
  const sum = byLayer ? ` With ${kib(column)} for a column: ${kib(all)} (${grouped(all / 1000)} kB${network.printed ? `; the thesis prints ${network.printed} kB` : ""}).` : "";
  const said = [h("b", {}, `flatness ${(mean / peak).toFixed(2)}`), `: mean ${kib(mean)} over maximum ${kib(peak)} (block ${live.indexOf(peak)}).${sum} `, h("b", {}, all <= budget ? "It fits." : `It does not fit: ${bytes(all - budget)} too many.`)];
  return h("div", { "data-compared": network.network }, h("h3", {}, `${network.title}, ${network.resolution} px${network.network === "mcunet_320kb" ? "" : `, width ${network.width}`}`), figure(`blocks-${network.network}`, draw, h("figcaption", {}, said)));
}

// ---- patches with their halo ----

const IMAGE = 224, CHANNELS = 8; // of the layers of the figure of halos, as in the lecture's question

/** Return the patches of an image along one side as [begin, end), and for each layer of 3x3 before the last the rows that they read. */
function patchSpans(grid, depth) {
  const size = Math.ceil(IMAGE / grid), spans = Array.from({ length: grid }, (_, index) => [index * size, Math.min((index + 1) * size, IMAGE)]);
  return Array.from({ length: depth + 1 }, (_, halo) => spans.map(([begin, end]) => [Math.max(begin - halo, 0), Math.min(end + halo, IMAGE)]));
}

function haloCanvas() {
  const state = { grid: 2, depth: 4 };
  const specs = [{ key: "grid", label: "patches along a side", range: [2, 8, 1] }, { key: "depth", label: "layers of 3x3", range: [1, 16, 1] }];
  liveCanvas("halo", state, specs, () => {
    const { grid, depth } = state, layers = patchSpans(grid, depth), middle = Math.floor(grid / 2), long = ([begin, end]) => end - begin;
    const work = layers.slice(0, depth).reduce((sum, spans) => sum + (spans.reduce((all, span) => all + long(span), 0) / IMAGE) ** 2, 0) / depth;
    const own = layers[0][middle], read = layers[depth][middle], most = Math.max(...layers[depth].map(long)), next = Math.max(...layers[depth - 1].map(long));
    const whole = 2 * IMAGE ** 2 * CHANNELS, inPatch = (most ** 2 + next ** 2) * CHANNELS;
    return [h("div", { class: "cards" },
      card("Halo on an inner side", `${depth} px`, `${long(own)} x ${long(own)} px of output need ${long(read)} x ${long(read)} px of the image`),
      card("Work", `${(100 * (work - 1)).toFixed(1)} % more`, `MACs, with ${grid ** 2} patches`),
      card("The largest layer, in one patch", kib(inPatch), `input and output of ${CHANNELS} channels; without patches ${kib(whole)}. The last layer's whole output stays beside it`)),
    figure("halo", drawHalo(layers[0], own, read), h("figcaption", {}, `An image of ${IMAGE} x ${IMAGE} px in ${grid} x ${grid} patches. Filled: one patch of the last layer's output. Hatched: its halo, the pixels around it that the ${depth} layers read, too. Neighbours compute them again. A patch at an edge of the image has no halo there.`))];
  });
}

/** Return a drawing of an image with its patches; of one patch, `own`, also the pixels that it reads. Patches are squares. */
function drawHalo(spans, own, read) {
  return (width) => {
    const side = Math.min(width - 2, 420), at = (pixel) => 1 + (side * pixel) / IMAGE, paint = fills();
    const square = ([begin, end], attributes) => s("rect", { x: at(begin), y: at(begin), width: at(end) - at(begin), height: at(end) - at(begin), ...attributes });
    const lines = spans.slice(1).map(([begin]) => s("path", { class: "grid", d: `M${at(begin)} 1V${at(IMAGE)}M1 ${at(begin)}H${at(IMAGE)}` }));
    return s("svg", { width, height: side + 2, viewBox: `0 0 ${width} ${side + 2}`, role: "img", "aria-label": "An image in patches, one with its halo" }, paint.defs,
      square([0, IMAGE], { class: "whole" }), square(read, { class: "read", fill: paint.of("ring") }), square(own, { style: "fill:var(--input)" }), lines);
  };
}

// ---- a network before and after redistribution, and heads of two scales ----

function redistributionCanvas() {
  const grids = { 14: "2 x 2", 7: "4 x 4", 1: "28 x 28" }, state = { patch: 7 };
  const specs = [{ key: "patch", label: "patches of the 28 x 28 map", options: Object.entries(grids).map(([patch, words]) => [Number(patch), words]) }];
  liveCanvas("redistribution", state, specs, () => data.redistribution.map((network, index) => {
    const [, field, ram, macs, overhead] = network.patches.find(([patch]) => patch === state.patch);
    const said = `A patch sees ${field} x ${field} pixels. ${kib(ram)} of RAM; ${(macs / 1e6).toFixed(1)} M MACs, ${(100 * overhead).toFixed(1)} % more than the ${(network.macs / 1e6).toFixed(1)} M of the network run layer by layer.`;
    return h("div", { "data-network": index ? "after" : "before" }, h("h3", {}, index ? "MobileNetV2, redistributed" : "MobileNetV2"), figure(index ? "redistributed" : "mobilenet-v2", drawBlocks(network.blocks), h("figcaption", {}, said)));
  }));
}

/** Return a drawing of blocks in lines, after figure 4-5 of the thesis: kernel, stride, expansion, channels, and the side of the map. */
function drawBlocks(blocks) {
  return (width) => {
    const cell = 62, columns = Math.max(3, Math.floor(width / cell)), lines = Math.ceil(blocks.length / columns), high = 84, tall = lines * high + 4;
    return s("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "Blocks of the network" }, blocks.map(([kernel, stride, expansion, channels, side, byPatches], index) => {
      const x = (index % columns) * cell, y = Math.floor(index / columns) * high;
      return [s("rect", { x: x + 2, y: y + 2, width: cell - 8, height: high - 22, rx: 4, style: `fill:var(--${byPatches ? "tile" : "card"});stroke:var(--line)` }, s("title", {}, `block ${index}: kernel ${kernel}, stride ${stride}, expansion ${expansion}, ${channels} channels, map ${side} x ${side}${byPatches ? ", by patches" : ""}`)),
        text(x + cell / 2 - 2, y + 18, `${kernel}x${kernel}${stride > 1 ? ` /${stride}` : ""}`, { "text-anchor": "middle", class: byPatches ? "on" : "" }), text(x + cell / 2 - 2, y + 34, `x ${expansion}`, { "text-anchor": "middle", class: byPatches ? "on" : "" }),
        text(x + cell / 2 - 2, y + 50, `${channels} ch`, { "text-anchor": "middle", class: byPatches ? "on" : "" }), text(x + cell / 2 - 2, y + 78, `${side} px`, { "text-anchor": "middle", class: "faint" })];
    }));
  };
}

function scalesCanvas() {
  const state = { schedule: "best" }, plans = data.planned.scales, alone = Object.fromEntries(plans.layer.layers.map(({ name, live }) => [name, live]));
  liveCanvas("scales", state, [{ key: "schedule", label: "schedule", options: SCHEDULES.filter(([value]) => value !== "patch") }], () => {
    const record = plans[state.schedule], sizes = {}, fine = record.buffers.find((buffer) => buffer.label === record.fine);
    record.layers.forEach(({ step }) => (sizes[step] = (sizes[step] ?? 0) + 1));
    const fused = Object.values(sizes).filter((count) => count > 1), peak = Math.max(...record.layers.map((layer) => layer.live));
    return [h("p", { id: "scales-says" }, `Peak ${kib(peak)}. ${fused.length ? `${fused.length} fused stages, of ${fused.join(", ")} layers.` : "Nothing is fused."} The fine map, ${fine.label} (${fine.shapes[0]}), stays in RAM from step ${fine.begin + 1} to ${fine.end} of ${record.plan.steps}.`),
      layerBars("scales", record.layers, alone, () => Infinity), memoryMap({ record })];
  });
}
