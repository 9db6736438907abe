// Turns every knob of every canvas of the lesson, and sends what it sees to the page that has this one in a frame.
// CHAINS: resolutions and widths, set by test_canvases.py.

(async () => {
  const pause = (wait = 120) => new Promise((done) => setTimeout(done, wait)), seen = { knobs: {}, first: {} };
  const drawn = (name) => document.querySelector(`#canvas-${name} .drawn`);
  const picture = (name) => drawn(name).innerHTML.replace(/url\(#p\d+/g, "").replace(/id="p\d+/g, "");
  const put = async (name, id, value) => {
    const knob = document.getElementById(id);
    knob.type === "checkbox" ? (knob.checked = value) : (knob.value = value);
    knob.dispatchEvent(new Event(knob.type === "range" ? "input" : "change"));
    await pause();
    return drawn(name).textContent;
  };
  const other = (knob) => knob.type === "range" ? (knob.value === knob.min ? knob.max : knob.min) : [...knob.options].find((each) => each.value !== knob.value).value;
  const everyKnob = async (name) => {
    const before = picture(name);
    seen.knobs[name] = {};
    for (const knob of document.querySelectorAll(`#canvas-${name} .knobs :is(input, select)`)) {
      const note = knob.closest("label").querySelector("small").textContent;
      if (name !== "explorer") await put(name, knob.id, other(knob));
      seen.knobs[name][knob.id] = { note, moves: picture(name) !== before };
      document.querySelector(`#canvas-${name} button.defaults`).click();
      await pause();
      if (picture(name) !== before) seen.knobs[name][knob.id].moves = "and its default does not restore the figure";
    }
  };
  const place = (name) => {
    const knobs = document.querySelector(`#canvas-${name} .knobs`), figure = drawn(name);
    const [one, two] = [knobs.getBoundingClientRect(), figure.getBoundingClientRect()];
    scrollTo({ top: scrollY + two.top + 60, behavior: "instant" });
    return { beside: one.right <= two.left && Math.abs(one.top - two.top) < 40, top: Math.round(knobs.getBoundingClientRect().top) };
  };
  const names = "ladder layers map supernet profiles halo redistribution scales explorer".split(" ");
  await pause(300);
  seen.inner = innerWidth;
  seen.place = Object.fromEntries(names.map((name) => [name, place(name)]));
  for (const name of names) await everyKnob(name);
  seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.ladder = { formula: drawn("ladder").textContent, best: await put("ladder", "ladder-schedule", "best") };
  seen.layers = { first: drawn("layers").textContent, twice: await put("layers", "layers-resolution", 192), half: await put("layers", "layers-width", 0.5), none: await put("layers", "layers-ram", 64) };
  seen.map = { layer: drawn("map").textContent, best: await put("map", "map-schedule", "best"), rows: await put("map", "map-schedule", "rows") };
  await put("map", "map-schedule", "layer");
  seen.map.ruleless = await put("map", "map-rule", 10);
  await put("map", "map-rule", 80);
  for (const ram of [8, 16, 48, 1024]) seen.map[ram] = await put("map", "map-ram", ram);
  await put("map", "map-ram", 320);
  seen.map.mean = await put("map", "map-by", "mean");
  await put("map", "map-by", "p80");
  seen.map.flash = await put("map", "map-flash", 512);
  const compared = () => [...document.querySelectorAll("[data-compared]")].map((each) => [each.dataset.compared, each.querySelector("h3").textContent, each.querySelector("figcaption").textContent, each.querySelectorAll("rect.peak").length]);
  seen.profiles = {};
  for (const setting of ["phone", "small"]) for (const schedule of ["layer", "patch", "best", "rows"]) {
    await put("profiles", "profiles-setting", setting);
    await put("profiles", "profiles-schedule", schedule);
    seen.profiles[`${setting} ${schedule}`] = compared();
  }
  await put("profiles", "profiles-ram", 8);
  seen.tight = compared();
  seen.supernet = [];
  for (let number = 1; number <= 24; number += 1) {
    const words = await put("supernet", "supernet-subnet", number);
    seen.supernet.push([words, [...drawn("supernet").querySelectorAll("g title")].map((each) => each.textContent)]);
  }
  seen.halo = {};
  for (const [grid, depth] of HALOS) {
    await put("halo", "halo-grid", grid);
    const words = await put("halo", "halo-depth", depth), area = (query) => drawn("halo").querySelector(query).getBBox().width;
    seen.halo[`${grid} ${depth}`] = [words, (area(".read") / area(".whole")) * 224];
  }
  seen.redistribution = {};
  for (const patch of [1, 7, 14]) seen.redistribution[patch] = await put("redistribution", "redistribution-patch", patch);
  seen.scales = {};
  for (const schedule of ["layer", "best", "rows"]) seen.scales[schedule] = await put("scales", "scales-schedule", schedule);
  seen.chains = {};
  for (const name of Object.keys(data.chains)) seen.chains[name] = CHAINS.map(([resolution, width]) => Math.max(...byFormula(name, resolution, width).map((row) => row.live)));
  seen.questions = [...document.querySelectorAll(".question")].map((each) => {
    const solution = each.querySelector("details"), before = each.textContent.includes("Right.");
    const said = [...each.querySelectorAll(".choice")].map((choice) => {
      choice.click();
      const why = choice.nextSibling.textContent, open = solution.open;
      solution.open = false;
      return [why.slice(0, 6), why.length > 30, open];
    });
    return [each.querySelector("h3").textContent, before, said];
  });
  const story = document.getElementById("canvas-story"), room = story.querySelector(".limit");
  const boxes = [...story.querySelectorAll("svg text")].map((each) => each.getBBox());
  const parts = [...room.getAttribute("d").matchAll(/M([\d.]+) ([\d.]+)v([\d.]+)/g)].map((part) => part.slice(1).map(Number));
  const crossed = parts.flatMap(([x, y, tall]) => boxes.filter((box) => box.x < x && x < box.x + box.width && box.y < y + tall && y < box.y + box.height));
  seen.story = [story.querySelectorAll(".peak").length, story.textContent, parts.length, crossed.length];
  dispatchEvent(new Event("beforeprint"));
  seen.closedInPrint = [...document.querySelectorAll(".question > details")].filter((each) => !each.open).length;
  parent.postMessage(JSON.stringify(seen), "*");
})();
