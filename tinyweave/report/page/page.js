// Draws a report: a section for each thing that is known of a plan. support/page/draw.js has what it draws with.

function gauge(parts, limit) {
  const total = parts.reduce((sum, part) => sum + (part.bytes ?? 0), 0), whole = Math.max(total, limit ?? 0) || 1;
  return [
    h("div", { class: "gauge", role: "img", "aria-label": `${bytes(total)}${limit ? ` of ${bytes(limit)}` : ""}` },
      parts.map((part) => h("span", { style: `width:${(100 * (part.bytes ?? 0)) / whole}%;background:var(--${part.colour})` }))),
    h("div", { class: "parts" }, parts.filter((part) => known(part.bytes)).map((part, index) =>
      [index ? " " : "", h("span", { class: "part" }, h("span", { class: "swatch", style: `background:var(--${part.colour})` }), `${part.name} `, h("b", {}, bytes(part.bytes)))])),
  ];
}

function card(what, big, ...more) {
  return h("div", { class: "card" }, h("div", { class: "what" }, what), h("div", { class: "big" }, big), more);
}

function cards(record) {
  const { ram, flash, limits, plan } = record, parts = [];
  const ramParts = [{ name: "arena", bytes: ram.arena, colour: "input" }, { name: "static", bytes: ram.static, colour: "ring" }, { name: "stack", bytes: ram.stack, colour: "state" }, ...(ram.row_source ? [{ name: "row source", bytes: ram.row_source, colour: "output" }] : [])];
  parts.push(card(known(ram.total) ? "RAM, measured" : "RAM: the arena", bytes(ram.total ?? ram.arena), h("div", { class: "parts" }, limits.ram ? `of ${bytes(limits.ram)}` : "no limit given"), gauge(ramParts, limits.ram)));
  const banks = Object.entries(limits.memories ?? {});
  if (banks.length > 1) parts.push(card("Arenas by memory", `${banks.length} banks`, banks.map(([name, room]) => [h("div", { class: "parts" }, `${name}: ${bytes(ram.memories[name] ?? 0)} of ${bytes(room)}`), gauge([{ name, bytes: ram.memories[name] ?? 0, colour: "input" }], room).slice(0, 1)])));
  const measured = known(flash.total);
  const flashParts = measured ? [{ name: "weights", bytes: flash.weights, colour: "input" }, { name: "tables", bytes: flash.tables, colour: "ring" }, { name: "code", bytes: flash.code, colour: "state" }, ...(flash.row_source ? [{ name: "row source", bytes: flash.row_source, colour: "output" }] : [])] : [{ name: "constants", bytes: flash.constants, colour: "input" }];
  const about = flash.estimate ? `${grouped(flash.estimate[0])} – ${bytes(flash.estimate[1]).replace(" ", "\u00a0")}` : bytes(flash.constants);
  parts.push(card(measured ? "Flash, measured" : flash.estimate ? "Flash, estimated" : "Flash: constants", measured ? bytes(flash.total) : about, h("div", { class: "parts" }, limits.flash ? `of ${bytes(limits.flash)}` : "no limit given"), gauge(flashParts, limits.flash)));
  const ms = record.latency_ms ?? plan.latency_ms_at_least, cycles = record.cycles ?? plan.cycles_at_least;
  const clock = record.device?.clock_hz ? ` at ${record.device.clock_hz / 1e6} MHz` : "";
  const basis = known(record.cycles) ? "estimated from the instructions that ran" : "estimated from the layers' shapes";
  const planned = known(record.latency_ms) && known(plan.latency_ms_at_least) ? ` As planned, from the layers' shapes: ${rounded(plan.latency_ms_at_least)} ms.` : "";
  parts.push(card("Time of one inference", known(ms) ? `${rounded(ms)} ms` : known(cycles) ? `${grouped(cycles)} cycles` : "not known",
    h("div", { class: "parts" }, known(cycles) ? `${grouped(cycles)} cycles${clock}, ${basis}${record.energy_mj ? `; ${rounded(record.energy_mj)} mJ` : ""}.${planned}` : "no cycle model for this core"),
    limits.latency_ms ? h("div", { class: "parts" }, `limit ${rounded(limits.latency_ms)} ms`) : null));
  parts.push(card("Work", `${rounded(record.macs / 1e6)} M MACs`, h("div", { class: "parts" },
    `${known(record.mac_overhead) && record.mac_overhead > 1 ? `${record.mac_overhead.toFixed(3)} times the network's; ` : ""}${record.layers.length} layers in ${plan.steps} steps${known(record.instructions) ? `; ${grouped(record.instructions)} instructions` : ""}${known(record.fast_macs) && record.macs ? `; ${((100 * record.fast_macs) / record.macs).toFixed(1)}\u00a0% of the MACs in kernels written for the core` : ""}`)));
  return h("div", { class: "cards" }, parts);
}

/** Draw the bytes that each step needs. */
function stepBars(entry) {
  const { record } = entry, live = [];
  record.layers.forEach((layer) => (live[layer.step] = layer.live));
  const most = Math.max(1, ...live), names = stepNames(record);
  const draw = (width) => {
    const right = width - 8, column = (right - LEFT) / live.length, bottom = 130, y = (at) => bottom - (120 * at) / most;
    const bars = live.map((count, step) => s("rect", { class: count === most ? "peak" : "bar", x: LEFT + step * column + 0.5, y: y(count), width: Math.max(0.5, column - 1), height: bottom - y(count),
      onpointerenter: () => moveTo(record, step) }, s("title", {}, `step ${step + 1}, ${names[step]}: ${bytes(count)}`)));
    return s("svg", { width, height: bottom + 18, viewBox: `0 0 ${width} ${bottom + 18}`, role: "img", "aria-label": `Bytes that each step needs; most, ${bytes(most)}, in step ${live.indexOf(most) + 1}` },
      grid(most, y, right), bars, s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }),
      text(LEFT, bottom + 14, `step 1`, { class: "faint" }), text(right, bottom + 14, `step ${live.length}`, { class: "faint", "text-anchor": "end" }));
  };
  return figure(`${slug(record)}-steps`, draw, h("figcaption", {}, `The peak, ${bytes(most)}, is in step ${live.indexOf(most) + 1}: ${names[live.indexOf(most)]}.`));
}

/** Return a table that is sorted by a click on a head; columns: [head, value of a row, options]. */
function table(columns, rows, options = {}) {
  const shown = columns.filter(([, value, { always } = {}]) => always || rows.some((row) => known(value(row)) && value(row) !== ""));
  const most = shown.map(([, value, { bar } = {}]) => (bar ? Math.max(1, ...rows.map((row) => value(row) ?? 0)) : 0));
  const body = h("tbody");
  let sorted = null;
  const put = (order) => body.replaceChildren(...order.map((row) => {
    const line = h("tr", { class: options.marked?.(row), onpointerenter: () => options.point?.(row) },
      shown.map(([, value, { number, long, show } = {}], index) => {
        const cell = value(row), words = show ? show(cell, row) : number ? grouped(cell) : known(cell) ? String(cell) : "–";
        const bar = most[index] && known(cell) ? h("span", { class: "cell", style: `width:${(30 * cell) / most[index]}px` }) : null;
        return h("td", { class: number ? "number" : long ? "long" : null }, bar, long ? words.split(/(?<=_)/).map((part) => [part, h("wbr")]) : words);
      }));
    options.keep?.(row, line);
    return line;
  }));
  put(rows);
  const heads = shown.map(([head, value, { number } = {}]) => h("th", { class: number ? "number" : null, scope: "col", "data-head": head }, h("button", { onclick: () => {
    const down = sorted !== head;
    sorted = down ? head : null;
    const order = [...rows].sort((a, b) => (number ? (value(b) ?? -1) - (value(a) ?? -1) : String(value(a)).localeCompare(String(value(b)))));
    put(down ? order : rows);
  } }, head)));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body));
}

function layersTable(entry) {
  const { record, quantisation } = entry, fused = new Set((record.stages ?? []).map((stage) => stage.step));
  const noise = new Map((quantisation?.layers ?? []).map((layer) => [layer.name, layer]));
  const clock = record.device?.clock_hz, lines = new Map();
  const db = (key) => [`${key}, dB`, (layer) => noise.get(layer.name)?.[key], { number: true, show: (value) => (known(value) ? value.toFixed(1) : "–") }];
  const columns = [
    ["step", (layer) => layer.step + 1, { number: true }],
    ["layer", (layer) => layer.name],
    ["output", (layer) => layer.output],
    ["window", (layer) => layer.window],
    ["live, B", (layer) => layer.live, { number: true, bar: true }],
    ["MACs", (layer) => layer.macs || null, { number: true, bar: true }],
    ["cycles", cyclesOf, { number: true, bar: true }],
    ["ms", (layer) => (clock && known(cyclesOf(layer)) ? (cyclesOf(layer) * 1e3) / clock : null), { number: true, show: (value) => (value > 0 && value < 0.001 ? "< 0.001" : rounded(value)) }],
    ["instructions", (layer) => layer.instructions, { number: true }],
    ["constants, B", (layer) => layer.constants || null, { number: true }],
    ["in, B", (layer) => layer.bytes_in, { number: true }],
    ["out, B", (layer) => layer.bytes_out, { number: true }],
    db("costs"), db("cumulated"),
    ["kernel", (layer) => layer.kernel && `${layer.kernel}${layer.fast === false ? " (portable\u00a0C)" : ""}`, { long: true }],
  ];
  cursor.listeners.push((name, share) => {
    const step = stepAt(record, name, share);
    lines.forEach((line, layer) => line.classList.toggle("cursor", layer === name || (!lines.has(name) && record.layers.find((each) => each.name === layer).step === step)));
  });
  return table(columns, record.layers, {
    marked: (layer) => (fused.has(layer.step) ? (layer.step % 2 ? "stage-odd" : "stage-even") : null),
    keep: (layer, line) => lines.set(layer.name, line),
    point: (layer) => moveToLayer(record, record.layers.indexOf(layer)),
  });
}

/** Return how many rows of a map of a stage are computed by the end of a turn of its loop; one inside a tile goes with the tile's end. */
function rowsDone(stage, row, turn) {
  const from = Math.max(0, stage.layers.indexOf(row.made_by));
  const timing = stage.timings.find((each) => each.layer === (row.made_by ?? row.tensor)) ?? stage.timings.find((each) => stage.layers.indexOf(each.layer) >= from);
  if (!timing || turn < timing.first) return 0;
  const done = Math.min(timing.rows, (Math.floor((turn - timing.first) / Math.max(1, timing.every)) + 1) * timing.rows_per_iteration);
  return Math.round((done * row.rows[1]) / Math.max(1, timing.rows));
}

/** Draw each map of a fused stage as a box, and how much of it is kept: of a turn of the loop, which rows. */
function stageFigure(record, stage) {
  const rows = stage.maps, most = Math.max(1, ...rows.map((row) => row.bytes));
  const said = (row) => `${bytes(row.kept_bytes)} of ${bytes(row.bytes)}: ${row.rows[0]} of ${row.rows[1]} rows${row.cols ? `, ${row.cols[0]} of ${row.cols[1]} columns` : ""}`;
  const madeBy = (row) => row.made_by ?? "input";
  let turn = null, playing = null;
  const draw = (width) => {
    const narrow = width < 700, paint = fills(), widest = (of) => Math.max(...rows.map((row) => widthOf(of(row))));
    const name = Math.min(0.4 * width, widest(madeBy) + 12), right = width - (narrow ? 4 : widest(said) + 12);
    const lines = rows.flatMap((row, index) => {
      const y = 6 + index * 22, box = ((right - name) * row.bytes) / most, done = turn === null ? row.rows[0] : rowsDone(stage, row, turn);
      const have = Math.min(done, row.rows[0]), begin = (box * (done - have)) / row.rows[1], kept = (((right - name) * row.kept_bytes) / most) * (have / row.rows[0]);
      return [
        text(name - 6, y + 12, short(madeBy(row), name - 8), { "text-anchor": "end" }),
        s("rect", { class: "whole", x: name, y, width: box, height: 16 }, s("title", {}, said(row))),
        s("rect", { class: "gone", x: name, y: y + 1, width: begin, height: 14 }, s("title", {}, "computed, read, and gone")),
        s("rect", { class: "kept", x: name + begin, y, width: have ? Math.max(1, kept) : 0, height: 16, fill: paint.of(row.cols ? "tile" : "ring") }, s("title", {}, said(row))),
        narrow ? null : text(right + 8, y + 12, said(row), { class: "faint" }),
      ];
    });
    const height = rows.length * 22 + 8;
    return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `What step ${stage.step + 1} keeps of each map` }, paint.defs, lines);
  };
  const sum = (values) => values.reduce((before, value) => before + value, 0), whole = sum(rows.map((row) => row.bytes));
  const tiles = record.buffers.filter((buffer) => buffer.kind === "tile" && buffer.begin === stage.step);  // their maps take turns in it
  const kept = sum(rows.filter((row) => !row.cols).map((row) => row.kept_bytes)) + sum(tiles.map((buffer) => buffer.bytes));
  const drawn = figure(`${slug(record)}-stage-${stage.step + 1}`, draw), shown = h("output", {}, "all turns");
  const go = (next) => {
    turn = next;
    slider.value = next;
    shown.textContent = `turn ${next + 1} of ${stage.ticks}`;
    drawn.redraw();
  };
  const stop = () => (clearInterval(playing), (playing = null), (play.textContent = "play"));
  const slider = h("input", { type: "range", min: 0, max: stage.ticks - 1, value: 0, "aria-label": "turn of the loop", oninput: () => (stop(), go(Number(slider.value))) });
  const play = h("button", { onclick: () => {
    if (playing) return stop();
    play.textContent = "pause";
    go(turn === null || turn >= stage.ticks - 1 ? 0 : turn + 1);
    playing = setInterval(() => (turn >= stage.ticks - 1 ? stop() : go(turn + 1)), 120);
  } }, "play");
  drawn.firstChild.prepend(play, slider, shown);
  return [
    h("h3", {}, `Step ${stage.step + 1}: ${stage.layers.length} layers, ${stage.layers[0]} to ${stage.layers.at(-1)}`),
    h("p", {}, `Of ${bytes(whole)} of maps inside, ${bytes(kept)} are kept; ${grouped(stage.ticks)} turns of the loop.`),
    drawn,
  ];
}

/** Draw RAM over time: the plans that no other beats in both, with the one that was chosen. */
function frontFigure(entry) {
  const { record, front } = entry, told = h("div", { class: "told", "aria-live": "polite" }, "Point at a plan, or reach it with Tab and the arrow keys.");
  const others = front.schedules.filter((each) => known(each.arena));
  const isMs = [...front.points, ...others].every((point) => known(point.latency_ms_at_least));
  const time = (point) => (isMs ? point.latency_ms_at_least : point.slowdown);
  const near = others.filter((each) => time(each) <= 2.5 * Math.max(...front.points.map(time)) && each.arena <= 2.5 * Math.max(...front.points.map((point) => point.arena)));
  const said = (point) => `${isMs ? `${rounded(time(point))} ms` : `${time(point).toFixed(2)} x`}, ${bytes(point.arena)}${point.mac_overhead > 1.005 ? `, MACs x ${point.mac_overhead.toFixed(2)}` : ""}, ${bytes(point.constants)} of constants`;
  const draw = (width) => {
    const right = width - 12, tall = 300, bottom = tall + 14, times = [...front.points, ...near].map(time);
    const begin = Math.min(...times), span = Math.max(...times) - begin || begin || 1, edge = span / 25;
    const x = (at) => LEFT + ((at - begin + edge) / (span + 2 * edge)) * (right - LEFT);
    const largest = Math.max(...front.points.map((point) => point.arena), ...near.map((each) => each.arena));
    const y = (at) => bottom - (tall * at) / largest;
    const path = front.points.map((point, index) => (index ? `H${x(time(point))}V${y(point.arena)}` : `M${x(time(point))} ${y(point.arena)}`)).join("");
    const lines = [...grid(largest, y, right), s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` })];
    if (front.limit && front.limit <= largest) lines.push(s("path", { class: "limit", d: `M${LEFT} ${y(front.limit)}H${right}` }));
    if (isMs && front.limit_ms && x(front.limit_ms) <= right) lines.push(s("path", { class: "limit", d: `M${x(front.limit_ms)} ${bottom}V8` }));
    for (const at of ticks(begin, begin + span, Math.max(2, Math.floor(width / 110)))) {
      lines.push(text(x(at), bottom + 15, `${Number(at.toPrecision(6))}`, { class: "faint", "text-anchor": "middle" }));
    }
    lines.push(text((LEFT + right) / 2, bottom + 32, isMs ? `ms on ${front.device}, as planned: estimated from the layers' shapes` : "cycles, estimated, in multiples of the fastest plan's", { class: "faint", "text-anchor": "middle" }));
    lines.push(s("path", { class: "steps", d: `${path}H${right}` }));
    for (const each of near) {
      lines.push(s("rect", { class: "other", x: x(time(each)) - 4, y: y(each.arena) - 4, width: 8, height: 8, onpointerenter: () => told.replaceChildren(h("b", {}, `schedule ${each.schedule}: `), said(each)) }),
        text(x(time(each)) + (x(time(each)) > right - 60 ? -8 : 8), y(each.arena) - 6, each.schedule, { class: "faint", "text-anchor": x(time(each)) > right - 60 ? "end" : "start" }));
    }
    const dots = front.points.map((point) => {
      const tell = () => told.replaceChildren(h("b", {}, isChosen(point) ? "the plan of this report: " : ""), `${said(point)}. ${point.gap ? `No plan of this space takes fewer cycles in ${bytes(point.arena - point.gap)}.` : "No plan of this space takes fewer cycles in as many bytes."}`);
      return s("circle", { class: "bar", cx: x(time(point)), cy: y(point.arena), r: 5, role: "img", "aria-label": said(point), onfocus: tell, onpointerenter: tell });
    });
    const isChosen = (point) => point.arena === record.ram.arena && point.macs === record.macs;
    const own = { ...record.plan, arena: record.ram.arena, slowdown: record.plan.cycles_at_least / front.points[0].cycles_at_least };
    const chosen = [front.points.find(isChosen) ?? own].filter((point) => Number.isFinite(time(point)) && x(time(point)) <= right && point.arena <= largest).map((point) => s("circle", { cx: x(time(point)), cy: y(point.arena), r: 10, style: "fill:none;stroke:var(--mark);stroke-width:2" }));
    walkable(dots);
    return s("svg", { width, height: bottom + 40, viewBox: `0 0 ${width} ${bottom + 40}`, role: "group", "aria-label": "RAM over time" }, lines, chosen, dots);
  };
  const legend = h("figcaption", {}, "Each dot is a plan that no other beats in both RAM and time; a ring marks the plan of this report. Squares are other schedules, dashed lines limits.");
  return [figure(`${slug(record)}-front`, draw, legend, told), ...entry.says.front.map((line) => h("p", { class: "faint" }, line))];
}

function quality(entry) {
  const { quantisation } = entry, percent = (share) => `${(100 * share).toFixed(1)} %`;
  const lines = [`Signal to noise at the output: ${quantisation.sqnr_db.toFixed(1)} dB, on ${grouped(quantisation.samples.compared)} samples.`];
  if (known(quantisation.agreement)) lines.push(`The same class as in float: ${percent(quantisation.agreement)}.`);
  if (quantisation.accuracy) lines.push(`Accuracy: float ${percent(quantisation.accuracy.float)}, int8 and C ${percent(quantisation.accuracy.int8)}.`);
  const number = { number: true, show: (value) => (known(value) ? value.toFixed(1) : "–") };
  const columns = [["layer", (layer) => layer.name], ["costs, dB", (layer) => layer.costs, number], ["alone", (layer) => layer.alone, number], ["added up", (layer) => layer.cumulated, number],
    ["output", (layer) => layer.output, number], ["weights", (layer) => layer.weights, number], ["what would help", (layer) => layer.helps, { long: true }]];
  return [lines.map((line) => h("p", {}, line)), quantisation.layers ? table(columns, quantisation.layers) : null];
}

/** What a search trained: each candidate by its RAM and how often it was right; the one that it chose is ringed. */
function searchFigure(entry) {
  const { search } = entry, told = h("div", { class: "told", "aria-live": "polite" }, "Point at a network, or reach it with Tab and the arrow keys.");
  const tried = search.candidates.filter((each) => known(each.accuracy)).sort((a, b) => a.ram - b.ram);
  const percent = (share) => `${(100 * share).toFixed(1)} %`, isChosen = (each) => each === search.candidates[search.chosen];
  const draw = (width) => {
    const right = width - 12, bottom = 254, rams = tried.map((each) => each.ram), rates = tried.map((each) => each.accuracy);
    const [low, high] = [Math.min(...rates), Math.max(...rates)], span = high - low || 0.01, reach = Math.max(...rams) - Math.min(...rams) || 1;
    const x = (ram) => LEFT + ((ram - Math.min(...rams) + reach / 25) / (reach * 1.08)) * (right - LEFT), y = (rate) => bottom - 10 - ((rate - low) / span) * 225;
    const lines = ticks(low, low + span, 5).map((rate) => [s("path", { class: "grid", d: `M${LEFT} ${y(rate)}H${right}` }), text(LEFT - 6, y(rate) + 4, percent(rate), { class: "faint", "text-anchor": "end" })]);
    ticks(Math.min(...rams), Math.min(...rams) + reach, Math.max(2, Math.floor(width / 110))).forEach((ram) => lines.push(text(x(ram), bottom + 15, grouped(ram), { class: "faint", "text-anchor": "middle" })));
    lines.push(s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }), text((LEFT + right) / 2, bottom + 32, "bytes of RAM", { class: "faint", "text-anchor": "middle" }));
    const dots = tried.map((each) => {
      const words = `${search.measure} ${percent(each.accuracy)}, ${bytes(each.ram)} of RAM, ${rounded(each.macs / 1e6)} M MACs${known(each.ms) ? `, ${rounded(each.ms)} ms` : ""}`;
      const tell = () => told.replaceChildren(h("b", {}, isChosen(each) ? "the one that was chosen: " : ""), words);
      return s("circle", { class: "bar", cx: x(each.ram), cy: y(each.accuracy), r: 5, role: "img", "aria-label": words, onfocus: tell, onpointerenter: tell });
    });
    walkable(dots);
    const rings = tried.filter(isChosen).map((each) => s("circle", { cx: x(each.ram), cy: y(each.accuracy), r: 10, style: "fill:none;stroke:var(--mark);stroke-width:2" }));
    return s("svg", { width, height: bottom + 40, viewBox: `0 0 ${width} ${bottom + 40}`, role: "group", "aria-label": "Networks of the search" }, lines, rings, dots);
  };
  const { accuracy } = search;
  return [
    h("p", {}, `In int8 ${search.measure} on ${grouped(search.task.test)} samples that the search did not see: ${percent(accuracy.test_int8)} (95 %: ${percent(accuracy.interval_95[0])} to ${percent(accuracy.interval_95[1])}); in float ${percent(accuracy.test)}.${known(accuracy.top_5_int8) ? ` In int8 the right class is among the best five for ${percent(accuracy.top_5_int8)}.` : ""}`),
    [search.verdict, ...search.advice].filter(known).map((line) => h("p", {}, line)),
    h("p", { class: "faint" }, search.told),
    tried.length ? figure(`${slug(entry.record)}-search`, draw, told) : null,
  ];
}

const MOST_BOARDS = 5; // of the list, before it is folded

/** What is left of each board's RAM and Flash. */
function boardsTable(record) {
  const { room } = record, percent = (part) => (known(part.left) && part.limit ? ` (${Math.round((100 * part.left) / part.limit)} %)` : ""), number = { number: true, always: true };
  const left = (key, name) => [`${name} left, B`, (board) => board[key].left, { ...number, show: (value, board) => `${grouped(value)}${percent(board[key])}` }];
  const columns = [["board", (board) => board.name], ["core", (board) => board.core], ["MHz", (board) => board.clock_hz && board.clock_hz / 1e6, { number: true }],
    left("ram", "RAM"), ["RAM, B", (board) => board.ram.limit, { number: true }], left("flash", "Flash"), ["Flash, B", (board) => board.flash.limit, { number: true }]];
  const how = known(record.ram.total) ? "As measured; stack and code differ a little from core to core." : "Estimated: the arena alone, without stack and static data, and Flash by its upper estimate. deploy measures them.";
  return [h("p", { class: "faint" }, how), room.length ? h("div", { class: "boards" }, table(columns, room.slice(0, MOST_BOARDS)), room.length > MOST_BOARDS ? h("details", {}, h("summary", {}, `${room.length - MOST_BOARDS} more boards, with more RAM`), table(columns, room.slice(MOST_BOARDS))) : null) : h("p", {}, "None of the listed boards has room for it.")];
}

function reproduce(record) {
  const files = Object.entries(record.digests ?? {});
  return [
    record.command ? h("pre", {}, record.command) : null,
    h("p", { class: "faint" }, `${record.model.file}, SHA-256 ${record.model.sha256}; tinyweave ${record.tinyweave}.`),
    files.length ? h("details", {}, h("summary", {}, `${files.length} files and their SHA-256`), table([["file", ([name]) => name], ["SHA-256", ([, digest]) => digest]], files)) : null,
  ];
}

/** Return a part of the page for each entry that has it, under one head; nothing where none has. */
function section(title, entries, wanted, make, about = null) {
  const having = entries.filter(wanted);
  if (!having.length) return null;
  const parts = having.map((entry) => h("div", {}, entries.length > 1 ? h("h3", {}, entry.title) : null, make(entry)));
  return h("section", {}, h("h2", {}, title), about ? h("p", { class: "faint" }, about) : null, h("div", { class: entries.length > 1 ? "several" : null }, parts));
}

function verdict(entry) {
  const [first, ...rest] = entry.says.verdict, fits = entry.record.fits;
  return [h("p", { class: `verdict ${fits === true ? "yes" : fits === false ? "no" : ""}` }, `${fits === true ? "✓ " : fits === false ? "✗ " : ""}${first}`), rest.map((line) => h("p", {}, line.trim()))];
}

/** Return a table of two or more records beside each other, number by number. */
function comparison(entries) {
  const ran = entries.every((entry) => known(entry.record.cycles)), how = ran ? "of the instructions that ran" : "by the layers' shapes"; // for all alike
  const rows = [
    ["RAM, B", (r) => r.ram.total], ["arena, B", (r) => r.ram.arena], ["Flash, B", (r) => r.flash.total], ["constants, B", (r) => r.flash.constants],
    [`ms, ${how}`, (r) => (ran ? r.latency_ms : r.plan.latency_ms_at_least)], [`cycles, ${how}`, (r) => (ran ? r.cycles : r.plan.cycles_at_least)], ["instructions", (r) => r.instructions],
    ["MACs", (r) => r.macs], ["steps", (r) => r.plan.steps],
  ].map(([name, of]) => ({ name, values: entries.map((entry) => of(entry.record)) })).filter((row) => row.values.some(known));
  const share = (row, index) => {
    const [first] = row.values, value = row.values[index];
    return !index || !known(first) || !known(value) || !first || value === first ? "" : `  (${value >= first ? "+" : "−"}${rounded(Math.abs(value / first - 1) * 100)}\u00a0%)`;
  };
  const columns = [["", (row) => row.name], ...entries.map((entry, index) => [entry.title, (row) => row.values[index], { number: true, always: true, show: (value, row) => `${row.name.startsWith("ms") ? rounded(value) : grouped(value)}${share(row, index)}` }])];
  return h("section", { class: "side" }, h("h2", {}, "Side by side"), table(columns, rows));
}

/** Fill the page with reports of the entries, each a record with what else is known of its model. */
function report(page, entries) {
  const [first] = entries, several = entries.length > 1;
  const device = (record) => (record.device ? ` on ${record.device.name}` : "");
  const parts = [
    several ? comparison(entries) : null,
    several ? section("Verdict", entries, () => true, (entry) => [verdict(entry), cards(entry.record)]) : h("section", {}, verdict(first), cards(first.record)),
    section("The search", entries, (entry) => entry.search, searchFigure),
    section("Memory over time", entries, () => true, memoryMap, "Each buffer is a rectangle: upwards the bytes that it takes, to the right the steps in which it is needed."),
    section("What each step needs", entries, () => true, stepBars),
    section("Fused stages", entries, (entry) => entry.record.stages.length, (entry) => entry.record.stages.map((stage) => stageFigure(entry.record, stage)),
      "A fused stage computes its layers row by row, so that of each map inside only some rows are ever in RAM: the filled part of its box. Play, or the slider, shows which, turn by turn of its loop; grey rows were computed, read, and are gone."),
    section("What RAM costs in time", entries, (entry) => entry.front, frontFigure),
    section("What fits into how much RAM", entries, (entry) => entry.front, budgetExplorer, "Of these plans, which were made with the report: move the budget, and see which are left. The explorer of the command line plans anew for every knob."),
    section("What each technique saves", entries, (entry) => entry.record.plan.ablation, (entry) => {
      const rows = Object.entries(entry.record.plan.ablation);
      return h("div", { class: "narrow" }, table([["", ([name]) => name], ["arena, B", ([, arena]) => arena, { number: true, bar: true }]], rows));
    }),
    section("Float, int8 and C", entries, (entry) => entry.quantisation, quality, "The C gives the bytes of the int8 network, so what is lost is lost in quantisation."),
    section("Layers", entries, () => true, layersTable, "Live bytes count everything that must be in RAM while a layer runs. Coloured edges: layers of one fused stage. A click on a head sorts."),
    section("Proof", entries, () => true, (entry) => entry.says.proof.map((line) => h("p", {}, // no option of a compiler is broken after its hyphen
      line.trim().split(/((?<= )-\S+)/).map((part) => (part.startsWith("-") ? h("span", { style: "white-space:nowrap" }, part) : part))))),
    section("Boards on which it fits", entries, (entry) => entry.record.room, (entry) => boardsTable(entry.record)),
    section("What would make it fit", entries, (entry) => entry.says.advice.length, (entry) => entry.says.advice.map(([line, command]) => [h("p", {}, line), ...(command ? [h("pre", {}, command)] : [])])),
    section("Reproduce it", entries, () => true, (entry) => reproduce(entry.record)),
  ].filter((part) => part);
  const heads = parts.map((part) => part.querySelector("h2")).filter((head) => head);
  heads.forEach((head) => (head.id = head.textContent.toLowerCase().replaceAll(" ", "-")));
  page.replaceChildren(
    h("h1", {}, several ? entries.map((entry) => entry.title).join(" · ") : `${first.record.model.name}${device(first.record)}`),
    h("nav", { class: "contents", "aria-label": "contents" }, heads.map((head) => h("a", { href: `#${head.id}` }, head.textContent))),
    ...parts,
  );
  figures.forEach((again) => again());
}
