// Runs a network in the page: input, scores, time, and its memory as it fills. support/page/draw.js has what it draws with.

const ARRAYS = { int8: Int8Array, uint8: Uint8Array, bool: Uint8Array, int16: Int16Array, int32: Int32Array, float32: Float32Array };
const LIMITS = { int8: [-128, 127], uint8: [0, 255], bool: [0, 1], int16: [-32768, 32767], int32: [-(2 ** 31), 2 ** 31 - 1], float32: [-Infinity, Infinity] };
const TIMED = 30, SHOWN_CLASSES = 10, ROWS = 340, LONGEST = 32768; // inferences; bars; rows of the memory's picture; samples that a browser keeps
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Return the network: arrays of its inputs, outputs and memories, and functions. onStep is called after each step. */
async function load() {
  const network = { onStep: null };
  const { instance } = await WebAssembly.instantiate(bytesOf(data.wasm), { page: { step: (step) => network.onStep?.(step) } });
  const c = instance.exports, { buffer } = c.memory, names = Object.keys(data.record.ram.memories);
  if (c.tw_page_init()) throw new Error("the network cannot start");
  const table = new Uint32Array(buffer, c.tw_page_memories(), 2 * names.length);
  const at = (tensors, address) => tensors.map((tensor, index) => new ARRAYS[tensor.dtype](buffer, address(index), tensor.elements));
  return Object.assign(network, {
    memories: names.map((_, index) => new Uint8Array(buffer, table[2 * index], table[2 * index + 1])),
    inputs: at(data.inputs, c.tw_page_input), outputs: at(data.outputs, c.tw_page_output), reset: c.tw_page_reset, invoke: c.tw_page_invoke,
  });
}

// ---- from pictures, sounds and tables to inputs ----

const shape = data.inputs[0].shape, about = data.prepared, [lowest, highest] = LIMITS[data.inputs[0].dtype];
const columns = shape.at(-1) === 1 && shape.length > 2 ? shape.at(-2) : shape.at(-1), rows = data.inputs[0].elements / columns; // of tables, lines and maps
const clipped = (value) => (lowest === -Infinity ? value : Math.max(lowest, Math.min(highest, Math.round(value))));
const of = (list, index) => list[index % list.length];
/** Return the input of values, channels last, by the factors and offsets of its preparation. */
const prepared = (values) => Array.from(values, (value, index) => clipped(value * of(about.scale, index) + of(about.offset, index)));
/** Return the input of real numbers, by its scale. */
const quantised = (values) => Array.from(values, (value) => clipped(value / data.inputs[0].scale + data.inputs[0].zero));

/** Return the input of a picture, or a video, of which `cut` takes the square in its middle. */
function ofPicture(picture, wide, high, cut) {
  const [, rows, columns, channels] = shape, canvas = h("canvas", { width: columns, height: rows });
  const pen = canvas.getContext("2d", { willReadFrequently: true }), scale = Math.min(wide / columns, high / rows);
  const [w, t] = cut ? [columns * scale, rows * scale] : [wide, high];
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, (wide - w) / 2, (high - t) / 2, w, t, 0, 0, columns, rows);
  const pixels = pen.getImageData(0, 0, columns, rows).data, values = [];
  for (let at = 0; at < pixels.length; at += 4) {
    const [r, g, b] = pixels.subarray(at, at + 3);
    values.push(...(channels === 1 ? [(19595 * r + 38470 * g + 7471 * b + 32768) >> 16] : [r, g, b])); // ITU-R 601, as Pillow
  }
  return prepared(values);
}

/** Return powers of a frame at the frequencies of an FFT: a recursive radix-2 transform of real and imaginary parts. */
function transform(re, im) {
  const n = re.length;
  if (n === 1) return [re, im];
  const half = (list, odd) => list.filter((_, index) => index % 2 === odd), [er, ei] = transform(half(re, 0), half(im, 0)), [or, oi] = transform(half(re, 1), half(im, 1));
  for (let k = 0; k < n / 2; k += 1) {
    const cos = Math.cos((2 * Math.PI * k) / n), sin = -Math.sin((2 * Math.PI * k) / n), r = cos * or[k] - sin * oi[k], i = cos * oi[k] + sin * or[k];
    [re[k], im[k], re[k + n / 2], im[k + n / 2]] = [er[k] + r, ei[k] + i, er[k] - r, ei[k] - i];
  }
  return [re, im];
}

/** Return log-mel features, or MFCC, of 16-bit samples, as tinynas/tasks/features.py: within a step, because these are floats. */
function features(samples) {
  const { rate, frame, hop, bands, lowest: from, highest: to, coefficients = 0 } = about.features, found = [];
  const mel = (hertz) => 2595 * Math.log10(1 + hertz / 700), edges = Array.from({ length: bands + 2 }, (_, k) => (700 * (10 ** ((mel(from) + ((mel(to) - mel(from)) * k) / (bands + 1)) / 2595) - 1) * frame) / rate);
  const filters = Array.from({ length: bands }, (_, k) => {
    const weights = Array.from({ length: frame / 2 }, (__, bin) => Math.round(256 * Math.max(0, Math.min(1, (bin - edges[k]) / (edges[k + 1] - edges[k]), (edges[k + 2] - bin) / (edges[k + 2] - edges[k + 1])))));
    if (!weights.some((weight) => weight)) weights[Math.round(edges[k + 1])] = 256;
    return weights;
  });
  for (let at = 0; at + frame <= samples.length; at += hop) {
    const windowed = Float64Array.from({ length: frame }, (_, n) => samples[at + n] * (0.5 - 0.5 * Math.cos((2 * Math.PI * (n + 0.5)) / frame)));
    const [re, im] = transform(windowed, new Float64Array(frame));
    const power = filters.map((weights) => weights.reduce((sum, weight, bin) => (weight ? sum + weight * 4 * (re[bin] ** 2 + im[bin] ** 2) : sum), 0));
    const steps = power.map((value) => Math.max(-128, Math.min(127, Math.round(8 * Math.log2(Math.max(1, value))) - 288)));
    const term = (k) => steps.reduce((sum, value, n) => sum + value * Math.cos((Math.PI * k * (n + 0.5)) / bands), 0) * ((k ? 4 : 1) / bands);
    found.push(...(coefficients ? Array.from({ length: coefficients }, (_, k) => Math.max(-128, Math.min(127, Math.round(term(k))))) : steps));
  }
  return found;
}

/** Return samples in [-1, 1) as 16-bit integers, their middle or with silence on both sides, so that they fill the input. */
function fitted(samples) {
  const count = Math.round(about.seconds * about.features.rate), first = Math.floor((samples.length - count) / 2);
  return Array.from({ length: count }, (_, index) => Math.max(-32768, Math.min(32767, Math.round(32768 * (samples[first + index] ?? 0)))));
}

/** Return inputs of rows of numbers: rows that are inputs, or windows of a recording, half of them new. */
function ofRows(lines) {
  const count = data.inputs[0].elements, many = lines.flat();
  if (lines[0]?.length === count) return lines.map(quantised);
  if (many.length < count) throw new Error(`there are ${grouped(many.length)} numbers, and the input has ${grouped(count)}`);
  const step = about.task === "sensors" ? columns * Math.max(1, rows >> 1) : count;
  return Array.from({ length: Math.floor((many.length - count) / step) + 1 }, (_, index) => (about.task === "sensors" ? prepared : quantised)(many.slice(index * step, index * step + count)));
}

/** Return the inputs of a .npy file: integers as they are, other numbers by the input's scale. */
function ofNpy(buffer) {
  const head = new DataView(buffer), long = head.getUint8(6) > 1, start = (long ? 12 : 10) + (long ? head.getUint32(8, true) : head.getUint16(8, true));
  const [, kind] = /'descr': '[<|]([a-z]\d)'/.exec(new TextDecoder().decode(buffer.slice(0, start))) ?? [];
  const type = { i1: Int8Array, u1: Uint8Array, b1: Uint8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array }[kind];
  if (!type) throw new Error("the array has a type that is not supported; save it as int8 or float32");
  const values = new type(buffer.slice(start)), count = data.inputs[0].elements;
  if (!values.length || values.length % count) return ofRows([Array.from(values)]);
  const same = /[iub]/.test(kind) ? (list) => Array.from(list, clipped) : quantised;
  return Array.from({ length: values.length / count }, (_, index) => same(values.slice(index * count, (index + 1) * count)));
}

/** Return the inputs of a file. */
async function ofFile(file) {
  const buffer = await file.arrayBuffer(), name = file.name.toLowerCase();
  if (name.endsWith(".npy")) return ofNpy(buffer);
  if (/\.(csv|tsv|txt)$/.test(name)) return ofRows(new TextDecoder().decode(buffer).trim().split(/\r?\n/).map((line) => line.split(/[,;\t]/).map(Number)).filter((row) => !row.some(Number.isNaN)));
  if (about.features) return [features(fitted((await new OfflineAudioContext(1, 1, about.features.rate).decodeAudioData(buffer)).getChannelData(0)))];
  if (about.task !== "images") throw new Error(`how this network takes '${file.name}' is not known; give a .npy or .csv file`);
  const picture = await createImageBitmap(file);
  return [ofPicture(picture, picture.width, picture.height, false)];
}

// ---- what is shown ----

const coloured = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16));

/** Draw the input: a picture, lines over time, or a map of values. */
function drawInput(canvas, values) {
  const pen = canvas.getContext("2d"), reach = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]), share = (value) => (value - reach[0]) / (reach[1] - reach[0] || 1);
  const isSeries = about.task !== "images" && (about.task === "sensors" || rows === 1);
  canvas.classList.toggle("wide", about.task !== "images");
  if (isSeries) {
    [canvas.width, canvas.height] = [canvas.clientWidth * 2 || 640, canvas.clientHeight * 2 || 384];
    const count = rows === 1 ? 1 : columns, long = rows === 1 ? columns : rows;
    for (let channel = 0; channel < count; channel += 1) {
      pen.beginPath();
      for (let at = 0; at < long; at += 1) pen.lineTo((at / Math.max(1, long - 1)) * canvas.width, canvas.height * (0.95 - 0.9 * share(values[at * count + channel])));
      pen.strokeStyle = `rgb(${coloured(["input", "ring", "output", "state", "tile", "map"][channel % 6])})`;
      pen.lineWidth = 3;
      pen.stroke();
    }
    return;
  }
  const isPicture = about.task === "images", [high, wide] = isPicture ? shape.slice(1, 3) : [columns, rows], ground = coloured("card"), ink = coloured("bar"), channels = isPicture ? shape[3] : 1;
  [canvas.width, canvas.height] = [wide, high]; // of sound, time to the right and pitch upwards
  const image = pen.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < wide * high; at += 1) {
    const to = isPicture ? at : (columns - 1 - (at % columns)) * rows + Math.floor(at / columns);
    const pixel = isPicture ? [0, 1, 2].map((k) => { const c = channels === 3 ? k : 0; return (values[at * channels + c] - of(about.offset, c)) / of(about.scale, c); }) : ink.map((end, k) => ground[k] + (end - ground[k]) * share(values[at]));
    image.data.set([...pixel, 255], 4 * to);
  }
  pen.putImageData(image, 0, 0);
}

/** Show an output as bars, at most SHOWN_CLASSES, of more the largest. */
function drawScores(place, values) {
  const { scale, zero, dtype } = data.outputs[0], real = Array.from(values, (value) => scale * (value - zero)), isShare = LIMITS[dtype][0] === zero && scale * 257 > 1 && scale * 255 <= 1.01;
  const order = real.map((_, index) => index).sort((a, b) => real[b] - real[a]), best = real.length > 1 ? order[0] : -1;
  const shown = real.length > SHOWN_CLASSES ? order.slice(0, SHOWN_CLASSES) : real.map((_, index) => index), low = isShare ? 0 : Math.min(0, real[order.at(-1)]), high = isShare ? 1 : Math.max(real[order[0]], low + 1e-9);
  if (place.children.length !== 3 * shown.length) place.replaceChildren(...shown.flatMap(() => [h("span", { class: "name" }), h("div", { class: "track" }, h("span")), h("span", { class: "number" })]));
  shown.forEach((index, row) => {
    const [name, track, number] = [...place.children].slice(3 * row, 3 * row + 3);
    [name.textContent, number.textContent] = [(data.classes.length === real.length ? data.classes[index] : null) ?? (real.length > 1 ? `class ${index}` : "output"), isShare ? `${(100 * real[index]).toFixed(1)} %` : rounded(real[index])];
    track.firstChild.style.width = `${(100 * (real[index] - low)) / (high - low)}%`;
    [name, track, number].forEach((each) => each.classList.toggle("best", index === best));
  });
}

/** Draw every byte of a memory as a pixel, addresses upwards as in the map: those in use in the colour of their buffer. */
function drawBytes(canvas, held, name, step) {
  const columns = Math.max(1, Math.ceil(held.length / ROWS)), rows = Math.ceil(held.length / columns), colours = new Uint8Array(3 * held.length), live = new Uint8Array(held.length), faint = coloured("faint"), ground = coloured("ground");
  for (const buffer of data.record.buffers.filter((each) => each.memory === name && each.begin <= step && step < each.end)) {
    const colour = coloured(buffer.kind);
    for (let at = buffer.offset; at < buffer.offset + buffer.bytes; at += 1) (colours.set(colour, 3 * at), (live[at] = 1));
  }
  [canvas.width, canvas.height] = [columns, rows];
  const pen = canvas.getContext("2d"), image = pen.createImageData(columns, rows);
  held.forEach((value, at) => {
    const strength = (live[at] ? 0.35 : 0.04) + (live[at] ? 0.65 : 0.22) * (((value + 128) % 256) / 255), colour = live[at] ? colours.subarray(3 * at, 3 * at + 3) : faint;
    image.data.set([...[0, 1, 2].map((k) => ground[k] + (colour[k] - ground[k]) * strength), 255], 4 * ((rows - 1 - Math.floor(at / columns)) * columns + (at % columns)));
  });
  pen.putImageData(image, 0, 0);
  return live.reduce((sum, each) => sum + each, 0);
}

// ---- the page ----

async function start() {
  const network = await load(), { record, inputs, outputs, samples } = data, steps = record.plan.steps, memories = Object.keys(record.ram.memories), names = stepNames(record);
  const text = (tensors) => tensors.map((each) => `${each.dtype} [${each.shape.join(", ")}]`).join(", "), total = Object.values(record.ram.memories).reduce((sum, size) => sum + size, 0);
  const canvas = h("canvas", { class: "seen", role: "img", "aria-label": "what the network sees" }), scores = h("div", { class: "scores", "aria-live": "off" }), proof = h("p", { class: "proof", "aria-live": "polite" }), time = h("div", { class: "big" }, "–"), rate = h("div", { class: "parts" });
  const state = { stop: () => {}, given: null, took: [], kept: [], traced: 0, at: 0, playing: true };

  /** Run the network on its inputs, and show the outputs; keep the bytes of its memories after each step now and then. */
  function infer(given) {
    state.given = given;
    given.forEach((values, index) => network.inputs[index].set(values));
    const traces = performance.now() - state.traced > 1000 || !state.kept.length, begin = performance.now();
    network.onStep = traces ? (step) => (state.kept[step] = network.memories.map((memory) => memory.slice())) : null;
    network.invoke();
    if (traces) state.traced = begin;
    else state.took.push(performance.now() - begin);
    state.took = state.took.slice(-TIMED);
    const ms = state.took.reduce((sum, each) => sum + each, 0) / state.took.length;
    [time.textContent, rate.textContent] = [ms > 0.02 ? `${rounded(ms)} ms` : "< 0.02 ms", ms > 0.02 ? `${grouped(1000 / ms)} per second` : ""];
    drawInput(canvas, given[0]);
    drawScores(scores, network.outputs[0]);
  }
  const say = (words, kind = "") => ([proof.textContent, proof.className] = [words, `proof ${kind}`]);

  /** Begin with another source: stop the one before, reset the network's state, and mark its button. */
  const chosen = (button, begin) => async () => {
    state.stop();
    state.stop = () => {};
    network.reset();
    say("");
    buttons.forEach((each) => each.setAttribute("aria-pressed", each === button()));
    try {
      await begin();
    } catch (error) {
      say(error.message || String(error), "no");
    }
  };
  /** Call a function for each frame of the screen, or every so many milliseconds, until another source is chosen. */
  function repeat(turn, ms, ended = () => {}) {
    let isOn = true;
    const again = () => isOn && (turn(), ms ? setTimeout(again, ms) : requestAnimationFrame(again));
    state.stop = () => ((isOn = false), ended());
    again();
  }
  const all = (first) => [first, ...inputs.slice(1).map((each) => new ARRAYS[each.dtype](each.elements))];
  const play = (list) => { let at = 0; repeat(() => infer(all(list[at++ % list.length])), list.length > 1 ? 600 : 1e9); };

  /** Run the samples up to one, since a network may have state, and compare its output bytes with those of the reference. */
  function sample(number) {
    samples.slice(0, number + 1).forEach((each) => infer(each.inputs.map((raw, index) => new ARRAYS[inputs[index].dtype](bytesOf(raw).buffer))));
    const wrong = samples[number].outputs.reduce((sum, raw, index) => { const out = network.outputs[index], got = new Uint8Array(out.buffer, out.byteOffset, out.byteLength); return sum + bytesOf(raw).reduce((count, value, at) => count + (value !== got[at]), 0); }, 0);
    say(wrong ? `✗ ${grouped(wrong)} output bytes differ from the reference's` : "✓ every output byte is the reference's", wrong ? "no" : "yes");
  }
  async function camera() {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }), video = h("video", { muted: true, playsinline: true });
    video.srcObject = stream;
    await video.play();
    repeat(() => infer(all(ofPicture(video, video.videoWidth, video.videoHeight, true))), 0, () => stream.getTracks().forEach((track) => track.stop()));
  }
  async function microphone() {
    const count = Math.round(about.seconds * about.features.rate), stream = await navigator.mediaDevices.getUserMedia({ audio: true }), sound = new AudioContext({ sampleRate: about.features.rate });
    const kept = new AnalyserNode(sound, { fftSize: 2 ** Math.ceil(Math.log2(count)) }), samples = new Float32Array(kept.fftSize);
    sound.createMediaStreamSource(stream).connect(kept);
    repeat(() => (kept.getFloatTimeDomainData(samples), infer(all(features(fitted(samples.slice(-count)))))), 60, () => (stream.getTracks().forEach((track) => track.stop()), sound.close()));
  }
  const noise = () => infer(inputs.map(({ dtype, elements }) => { const [low, high] = dtype === "float32" ? [0, 1] : LIMITS[dtype]; return Array.from({ length: elements }, () => (dtype === "float32" ? Math.random() : Math.floor(low + Math.random() * (high - low + 1)))); }));

  const file = h("input", { type: "file", hidden: true, onchange: () => file.files.length && chosen(() => opener, async () => (play(await ofFile(file.files[0])), say(file.files[0].name)))() });
  const make = (words, begin, title) => { const button = h("button", { "aria-pressed": "false", title, onclick: chosen(() => button, begin) }, words); return button; };
  const opener = h("button", { "aria-pressed": "false", onclick: () => ((file.value = ""), file.click()) }, "File …");
  const hears = about.features && about.seconds * about.features.rate <= LONGEST;
  const buttons = [...samples.map((_, index) => make(samples.length > 1 ? `Sample ${index + 1}` : "Sample", () => sample(index))), about.task === "images" ? make("Camera", camera) : null, hears ? make("Microphone", microphone) : null, opener, make("Noise", noise, "random values")].filter(Boolean);
  const { features: sound } = about, how = sound ? `${sound.coefficients ? `${sound.coefficients} MFCC of ` : ""}${sound.bands} log-mel bands, one frame every ${rounded((1000 * sound.hop) / sound.rate)} ms, of sound at ${grouped(sound.rate)} Hz`
    : about.task === "images" ? "pixels, resized to the input" : about.task === "sensors" ? `windows of ${rows} rows of ${columns} numbers: .csv, .npy` : "values: .npy, .csv";

  const slider = h("input", { type: "range", min: 0, max: steps - 1, value: 0, "aria-label": "step", oninput: () => (pause(), moveTo(record, Number(slider.value))) }), where = h("output"), player = h("button", { onclick: () => (state.playing ? pause() : ((state.playing = true), (player.textContent = "Pause"))) }, "Pause");
  const pause = () => ((state.playing = false), (player.textContent = "Play"));
  const pictures = memories.map(() => h("canvas", { role: "img", "aria-label": "bytes of the memory" }));
  const map = memoryMap({ record });
  const showStep = () => {
    const live = pictures.reduce((sum, each, index) => sum + (state.kept[state.at] ? drawBytes(each, state.kept[state.at][index], memories[index], state.at) : 0), 0);
    slider.value = state.at;
    where.textContent = `step ${state.at + 1} of ${steps}: ${bytes(live)} in use`;
    where.title = names[state.at];
  };
  cursor.listeners.push((layer, share) => ((state.at = stepAt(record, layer, share)), showStep()));

  const small = (words) => h("div", { class: "parts" }, words);
  const cardOf = (what, big, ...more) => h("div", { class: "card" }, h("div", { class: "what" }, what), big.nodeType ? big : h("div", { class: "big" }, big), ...more);
  document.getElementById("page").replaceChildren(
    h("h1", {}, record.model.name),
    h("p", { class: "faint" }, `${text(inputs)} → ${text(outputs)}. The C for ${data.target}, as WebAssembly. It runs in this page, which sends nothing.`),
    h("div", { class: "tools", role: "group", "aria-label": "input" }, buttons, file),
    h("div", { class: "live" }, h("figure", {}, canvas, h("figcaption", {}, how)), h("div", {}, scores, proof, h("div", { class: "cards" }, cardOf("One inference in this browser", time, rate), cardOf("WebAssembly", bytes(data.bytes), small("weights and code")), cardOf(`RAM on ${data.target}`, bytes(total), small(data.costs))))),
    h("h2", {}, "The arena as it fills"),
    h("p", { class: "faint" }, "Left: each buffer is a rectangle, upwards its bytes, to the right the steps in which it is needed. Right: all bytes of the arena after the marked step of the last inference, a pixel each; grey bytes are free."),
    h("div", { class: "player" }, player, slider, where),
    h("div", { class: "filling" }, map, h("div", { class: "column" }, pictures)),
  );
  figures.forEach((again) => again());
  document.addEventListener("pointerover", (event) => event.target.closest?.("figure.plan") && pause());
  map.classList.add("plan");
  await chosen(() => buttons[0], () => (samples.length ? sample(0) : noise()))();
  for (let turn = 0; turn < TIMED; turn += 1) infer(state.given); // so that the time is of many
  if (samples.length) await chosen(() => buttons[0], () => sample(0))();
  moveTo(record, 0);
  setInterval(() => state.playing && moveTo(record, (state.at + 1) % steps), Math.max(150, 4000 / steps));
  return network;
}
const started = start();
