"use strict";
// What pages are drawn with: elements, figures, the cursor, the memory of a plan. Names come out of files: they only ever become text.

const KINDS = {
  input: "network input", output: "network output", map: "map", ring: "rows of a map (ring)", tile: "tiles", scratch: "scratch", state: "state",
};
const PATTERNS = { ring: "M0 6L6 0", scratch: "M0 0L6 6M0 6L6 0", tile: "M0 3H6", state: "M3 0V6" }; // kinds differ without colour, too
const LEFT = 64, LETTER = 6.1, LINE = 13, SVG = "http://www.w3.org/2000/svg";

const data = JSON.parse(document.getElementById("data").textContent);

// ---- elements ----

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}
const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const text = (x, y, words, attributes = {}) => s("text", { x, y, ...attributes }, words);
const known = (value) => value !== null && value !== undefined;
const grouped = (value) => (known(value) ? Math.round(value).toLocaleString("en-US") : "–");
const kib = (value) => (known(value) ? `${rounded(value / 1024)} KiB` : "–");
const bytes = (value) => (known(value) ? `${grouped(value)} B` : "–");

const pen = document.createElement("canvas").getContext("2d");
/** Return the width of words in a figure, in pixels. */
function widthOf(words) {
  pen.font = "11px system-ui, sans-serif";
  return pen.measureText(words).width;
}

/** Return words that are at most so wide: too long ones lose letters before their end, because names of layers differ there. */
function short(words, width) {
  if (widthOf(words) <= width) return words;
  for (let count = words.length - 1; count > 4; count -= 1) {
    const end = Math.floor(count / 3), cut = `${words.slice(0, count - end - 1)}…${words.slice(-end)}`;
    if (widthOf(cut) <= width) return cut;
  }
  return "";
}

function rounded(value) {
  if (!known(value)) return "–";
  const digits = value ? 2 - Math.floor(Math.log10(Math.abs(value))) : 0;
  return Number(value.toFixed(Math.max(0, Math.min(9, digits)))).toLocaleString("en-US", { maximumFractionDigits: Math.max(0, digits) });
}

// ---- figures ----

const figures = [];  // how each is drawn, once they are in the page

/** Return a figure that is drawn anew for the width that it has; draw(width) returns the SVG. */
function figure(name, draw, ...captions) {
  const place = h("div"), whole = h("figure", {}, place, ...captions);
  let width = 0;
  const again = () => {
    width = Math.floor(place.clientWidth) || 900;
    place.replaceChildren(draw(width));
  };
  new ResizeObserver(() => requestAnimationFrame(() => Math.floor(place.clientWidth) !== width && again())).observe(place);
  whole.redraw = again;
  figures.push(again);
  whole.prepend(h("div", { class: "tools" }, h("span", { class: "end" },
    h("button", { onclick: () => save(place.firstChild, `${name}.svg`), "aria-label": `Save ${name} as SVG` }, "SVG"),
    h("button", { onclick: () => save(place.firstChild, `${name}.png`), "aria-label": `Save ${name} as PNG` }, "PNG"))));
  return whole;
}

/** Save a drawing with its styles inside, so that it looks the same elsewhere. */
function save(drawing, name) {
  const copy = drawing.cloneNode(true), from = [drawing, ...drawing.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const key of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font", "text-anchor"]) {
      if (!(key === "fill" && element.getAttribute("fill")?.startsWith("url"))) to[index].style.setProperty(key, style.getPropertyValue(key));
    }
  });
  const ground = getComputedStyle(document.body).backgroundColor;
  copy.prepend(s("rect", { width: "100%", height: "100%", style: `fill:${ground}` }));
  copy.setAttribute("xmlns", SVG);
  const drawn = new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
  if (name.endsWith(".svg")) return download(drawn, name);
  const image = new Image(), box = drawing.getBoundingClientRect();
  image.onload = () => {
    const canvas = h("canvas", { width: box.width * 2, height: box.height * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, name));
    URL.revokeObjectURL(image.src);
  };
  image.src = URL.createObjectURL(drawn);
}

function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Return faint lines at round numbers of bytes, with their names. */
function grid(largest, y, right) {
  let unit = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, largest / 3))));
  const lines = [];
  for (let at = 0; at <= largest; at += unit) {
    const shown = unit >= 1024 && at ? `${grouped(at / 1024)} KiB` : grouped(at);
    lines.push(s("path", { class: "grid", d: `M${LEFT} ${y(at)}H${right}` }), text(LEFT - 6, y(at) + 4, shown, { class: "faint", "text-anchor": "end" }));
  }
  return lines;
}

/** Return round numbers between two, at most so many. */
function ticks(begin, end, most) {
  const unit = 10 ** Math.floor(Math.log10((end - begin) / most));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((each) => (end - begin) / each <= most);
  const first = Math.ceil(begin / step);
  return Array.from({ length: Math.floor(end / step) - first + 1 }, (_, index) => (first + index) * step);
}

const meet = (a, b) => a.x < b.x + b.wide && b.x < a.x + a.wide && a.y < b.y + b.high && b.y < a.y + a.high;

/**
 * Return labels, { x, y, wide, high, words, up }, for boxes that may overlap, { x, y, wide, high, name, more }.
 * A label lies inside its box and overlaps no other label. It overlaps another box only if there is no other place. `more`
 * follows the name if there is room. A name that is too long for its box runs upwards (`up`); a box without room for its whole
 * name has no label. Small boxes choose their place first.
 */
function labels(boxes) {
  const placed = [], turned = (each) => ({ ...each, x: each.y, y: each.x, wide: each.high, high: each.wide });
  for (const box of [...boxes].sort((a, b) => a.wide * a.high - b.wide * b.high)) {
    const others = boxes.filter((other) => other !== box && meet(other, box));
    const put = (words, up, obstacles) => {
      const [own, ...near] = up ? [box, ...obstacles].map(turned) : [box, ...obstacles], end = own.x + own.wide, need = widthOf(words) + 4;
      for (let y = own.y + 1; y + LINE <= own.y + own.high; y += LINE) {
        const row = near.filter((each) => each.y < y + LINE && y < each.y + each.high);
        for (const x of [own.x, ...row.map((each) => each.x + each.wide)].filter((each) => each >= own.x && each < end)) {
          if (row.some((each) => each.x <= x && x < each.x + each.wide)) continue;
          if (need > Math.min(end, ...row.map((each) => each.x).filter((each) => each > x)) - x - 4) continue;
          const label = { x: x + 2, y, wide: need, high: LINE, words, up };
          return up ? turned(label) : label;
        }
      }
      return null;
    };
    const tries = [[`${box.name}  ${box.more}`, false], [box.name, false], [box.name, true]];
    const label = tries.map(([words, up]) => put(words, up, [...placed, ...others]) || put(words, up, placed)).find(Boolean);
    if (label) placed.push(label);
  }
  return placed;
}

let patterns = 0;
/** Return fills by kind: a colour with lines over it, so that kinds differ without colour. */
function fills() {
  const id = `p${(patterns += 1)}`;
  const made = Object.entries(PATTERNS).map(([kind, path]) =>
    s("pattern", { id: `${id}${kind}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      s("rect", { width: 6, height: 6, style: `fill:var(--${kind})` }), s("path", { d: path, style: "stroke:var(--ground);stroke-opacity:.55" })));
  return { defs: s("defs", {}, made), of: (kind) => (PATTERNS[kind] ? `url(#${id}${kind})` : `var(--${kind})`) };
}

/** Let arrow keys go from one of these elements to the next; one of them is reached by Tab. */
function walkable(elements) {
  elements.forEach((element, index) => {
    element.setAttribute("tabindex", index ? "-1" : "0");
    element.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = elements[index + by];
      if (!by || !next) return;
      event.preventDefault();
      element.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}

// ---- one cursor for all figures and tables of all models ----

const cursor = { listeners: [], at: null };
cursor.move = (layer, share) => {
  if (cursor.at === layer) return;
  cursor.at = layer;
  cursor.listeners.forEach((listener) => listener(layer, share));
};

/** Return which step of a record the cursor is in: that of the layer of this name, else that after as much of the work. */
function stepAt(record, layer, share) {
  const same = record.layers.find((each) => each.name === layer);
  if (same) return same.step;
  let done = 0;
  const all = record.layers.reduce((sum, each) => sum + each.macs, 0) || 1;
  for (const each of record.layers) {
    done += each.macs;
    if (done / all >= share) return each.step;
  }
  return record.layers.at(-1)?.step ?? 0;
}

/** Move the cursor to the first layer of a step. */
const moveTo = (record, step) => moveToLayer(record, record.layers.findIndex((layer) => layer.step === step));

function moveToLayer(record, index) {
  if (index < 0) return;
  const all = record.layers.reduce((sum, each) => sum + each.macs, 0) || 1;
  const before = record.layers.slice(0, index + 1).reduce((sum, each) => sum + each.macs, 0);
  cursor.move(record.layers[index].name, before / all);
}

// ---- the memory of a plan ----

const cyclesOf = (layer) => (known(layer.cycles) ? layer.cycles : layer.cycles_by_shape);
const slug = (record) => record.model.name;

/** Draw every buffer as a rectangle: its bytes upwards, its life to the right. */
function memoryMap(entry) {
  const { record } = entry, told = h("div", { class: "told", "aria-live": "polite" }, "Point at a buffer, or reach it with Tab and the arrow keys: who wrote it, who reads it, why it is there.");
  const weights = Array.from({ length: record.plan.steps }, () => 0);
  record.layers.forEach((layer) => (weights[layer.step] += cyclesOf(layer) ?? 0));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  let byTime = false, marks = [];
  const places = (width) => {
    const right = width - 8, edges = [LEFT];
    weights.forEach((weight) => edges.push(edges.at(-1) + (right - LEFT) * (byTime ? weight / all : 1 / weights.length)));
    return edges;
  };
  const tell = (buffer) => {
    const steps = buffer.end - buffer.begin > 1 ? `steps ${buffer.begin + 1} to ${buffer.end}` : `step ${buffer.begin + 1}`;
    told.replaceChildren(h("b", {}, buffer.label), ` — ${KINDS[buffer.kind]}${buffer.shapes.length ? `, ${buffer.shapes.join(", ")}` : ""}: ${bytes(buffer.bytes)} at ${grouped(buffer.offset)} of ${buffer.memory}, ${steps}. ${buffer.why}.`);
    moveTo(record, buffer.begin);
  };
  const draw = (width) => {
    const edges = places(width), right = edges.at(-1), paint = fills(), shapes = [], lines = [];
    let top = 8;
    marks = [];
    for (const [memory, size] of Object.entries(record.ram.memories)) {
      const several = Object.keys(record.ram.memories).length > 1, tall = several ? 220 : 340, bottom = top + tall + (several ? 16 : 0);
      const y = (at) => bottom - (tall * at) / Math.max(1, size);
      if (several) lines.push(text(LEFT, top + 10, `${memory}: ${bytes(size)}`));
      lines.push(...grid(size, y, right));
      const mark = s("rect", { class: "cursor", y: bottom - tall, height: tall, width: 0 }), boxes = [];
      for (const buffer of record.buffers.filter((each) => each.memory === memory)) {
        const x = edges[buffer.begin], wide = edges[buffer.end] - x, high = (tall * buffer.bytes) / Math.max(1, size);
        const box = s("rect", { class: "box", x, y: y(buffer.offset + buffer.bytes), width: Math.max(wide, 0.5), height: Math.max(high, 0.5), fill: paint.of(buffer.kind),
          role: "img", "aria-label": `${buffer.label}, ${bytes(buffer.bytes)}`, onfocus: () => tell(buffer), onpointerenter: () => tell(buffer) });
        if (buffer.shares && Object.keys(buffer.shares).length) box.setAttribute("fill-opacity", "0.75");
        shapes.push(box);
        lines.push(box);
        boxes.push({ x, y: y(buffer.offset + buffer.bytes), wide, high, name: buffer.label, more: bytes(buffer.bytes) });
      }
      lines.push(labels(boxes).map((label) => s("g", { class: "label" }, s("rect", { x: label.x, y: label.y, width: label.wide, height: label.high }), label.up
        ? s("text", { transform: `translate(${label.x + 10} ${label.y + label.high - 2}) rotate(-90)` }, label.words) : text(label.x + 2, label.y + 10, label.words))));
      lines.push(mark, s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }));
      marks.push((step) => (mark.setAttribute("x", edges[step]), mark.setAttribute("width", Math.max(1, edges[step + 1] - edges[step]))));
      top = bottom + 18;
    }
    const names = stepNames(record);
    let until = -1;
    edges.slice(0, -1).forEach((x, step) => {
      const number = `${step + 1}`, name = `${number} ${names[step]}`, room = edges[step + 1] - x - 6;
      const words = [name, name.replace(/ … .*/, " …")].find((each) => widthOf(each) <= room) ?? number;
      if (x < until) return;
      lines.push(text(x + 2, top - 4, words, { class: "faint" }));
      until = x + widthOf(words) + 6;
    });
    walkable(shapes);
    return s("svg", { width, height: top + 4, viewBox: `0 0 ${width} ${top + 4}`, role: "group", "aria-label": "Memory over time" }, paint.defs, lines);
  };
  const kinds = [...new Set(record.buffers.map((buffer) => buffer.kind))];
  const legend = h("div", { class: "legend" }, kinds.map((kind) => {
    const paint = fills();
    return h("span", {}, s("svg", { width: 14, height: 12, style: "display:inline-block;vertical-align:-1px;margin-right:5px" }, paint.defs, s("rect", { width: 14, height: 12, fill: paint.of(kind) })), KINDS[kind]);
  }));
  const drawn = figure(`${slug(record)}-memory`, draw, legend, told);
  if (all) {
    const toggle = h("button", { "aria-pressed": "false", onclick: () => {
      byTime = !byTime;
      toggle.setAttribute("aria-pressed", byTime);
      drawn.redraw();
    } }, "as wide as they take time");
    drawn.firstChild.prepend(h("span", { class: "faint" }, "steps"), toggle);
  }
  cursor.listeners.push((layer, share) => marks.forEach((mark) => mark(stepAt(record, layer, share))));
  return drawn;
}

function stepNames(record) {
  const names = [];
  record.layers.forEach((layer) => ((names[layer.step] ??= []).push(layer.name)));
  return names.map((own) => (own.length > 1 ? `${own[0]} … ${own.at(-1)}` : own[0]));
}
