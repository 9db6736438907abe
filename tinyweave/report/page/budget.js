// What fits into how much RAM: bars by layer under a budget, and the explorer of one model for a report, out of its front.

/** Draw bars by layer: its bytes as planned, over those that it needs by itself; the budget, a function, is a line. */
function layerBars(name, rows, alone, budget) {
  const bytesOf = (row) => alone[row.name] ?? 0, peak = rows.reduce((most, row) => (row.live > most.live ? row : most));
  const largest = Math.max(1, ...rows.map((row) => Math.max(row.live, bytesOf(row))));
  const draw = (width) => {
    const top = budget() < largest * 1.3 ? Math.max(largest, budget()) : largest, right = width - 8, column = (right - LEFT) / rows.length, bottom = 236, y = (at) => bottom - (226 * at) / top;
    const bars = rows.flatMap((row, index) => {
      const x = LEFT + index * column, wide = Math.max(0.5, column - 1), words = `${row.name}: ${bytes(row.live)}; by itself ${bytes(alone[row.name])}`;
      return [s("rect", { class: "whole", x: x + 0.5, y: y(bytesOf(row)), width: wide, height: bottom - y(bytesOf(row)) }, s("title", {}, words)),
        s("rect", { class: row.live === peak.live ? "peak" : "bar", x: x + 0.5, y: y(row.live), width: wide, height: bottom - y(row.live) }, s("title", {}, words))];
    });
    const line = budget() <= top ? [s("path", { class: "limit", d: `M${LEFT} ${y(budget())}H${right}` }), text(right, y(budget()) - 4, `budget ${kib(budget())}`, { class: "mark", "text-anchor": "end" })] : [];
    return s("svg", { width, height: bottom + 6, viewBox: `0 0 ${width} ${bottom + 6}`, role: "img", "aria-label": "Bytes that each layer needs" }, grid(top, y, right), bars, line, s("path", { class: "axis", d: `M${LEFT} ${bottom}H${right}` }));
  };
  return figure(name, draw, h("figcaption", {}, `Filled: as planned; outlined: each layer by itself. The bottleneck is ${peak.name}, ${bytes(peak.live)}.`));
}

/** Let a reader move the budget: which plan of the front then is the fastest, which schedules fit, where the bottleneck is. */
function budgetExplorer(entry) {
  const { record, front } = entry, others = front.schedules.filter((each) => known(each.arena)), least = front.points.at(-1);
  const all = [...front.points, ...others].map((each) => each.arena), largest = Math.max(...all), smallest = Math.min(...all);
  const unit = largest > 64 << 10 ? 1024 : largest > 4 << 10 ? 64 : 1, up = (count) => Math.ceil(count / unit) * unit;
  const alone = Object.fromEntries((others.find((each) => each.schedule === "layer")?.layers ?? []).map((layer) => [layer.name, layer.live]));
  const time = (plan) => (known(plan.latency_ms_at_least) ? `${rounded(plan.latency_ms_at_least)} ms` : `${plan.slowdown.toFixed(2)} x`);
  const bottleneck = (plan) => plan.layers.reduce((most, layer) => (layer.live > most.live ? layer : most), plan.layers[0]);
  const shown = h("output"), said = h("p", { class: "verdict", "aria-live": "polite" }), about = h("p"), bars = h("div"), fitting = h("div");
  const range = { min: Math.floor((smallest * 0.8) / unit) * unit, max: up(largest * 1.05), step: unit };
  const start = known(front.limit) && front.limit <= range.max ? Math.max(range.min, front.limit) : up(record.ram.arena);
  const slider = h("input", { type: "range", ...range, value: start, "aria-label": "RAM for the arena, bytes", oninput: () => turn() });
  let drawn = null;
  const turn = () => {
    const budget = Number(slider.value), chosen = front.points.find((point) => point.arena <= budget) ?? null, plan = chosen ?? least, peak = bottleneck(plan);
    shown.textContent = `${kib(budget)} (${bytes(budget)})`;
    said.className = `verdict ${chosen ? "yes" : "no"}`;
    said.textContent = chosen ? `✓ The fastest plan within this budget needs ${bytes(chosen.arena)}, ${time(chosen)} as planned.` : `✗ No plan is within this budget: the smallest needs ${bytes(least.arena - budget)} more.`;
    about.textContent = `The smallest plan needs ${bytes(least.arena)}, ${time(least)} as planned. ${chosen ? "The" : "Of the smallest plan the"} bottleneck is ${peak.name}, ${bytes(peak.live)}.`;
    const rows = [{ schedule: "best", ...plan }, ...others];
    const fit = (row) => (row.arena <= budget ? "✓" : `✗ ${bytes(row.arena - budget)} above it`);
    fitting.replaceChildren(table([["schedule", (row) => row.schedule], ["within the budget", fit], ["arena, B", (row) => row.arena, { number: true }], ["time, planned", (row) => (known(row.latency_ms_at_least) ? row.latency_ms_at_least : row.slowdown), { number: true, show: (_, row) => time(row) }], ["MACs", (row) => row.macs, { number: true }],
      ["bottleneck", (row) => bottleneck(row).name]], rows));
    if (drawn?.plan !== plan) {
      drawn = { plan, whole: layerBars(`${slug(record)}-budget`, plan.layers, alone, () => Number(slider.value)) };
      figures.splice(figures.indexOf(drawn.whole.redraw), 1);
      bars.replaceChildren(drawn.whole);
    }
    drawn.whole.redraw();
  };
  figures.push(turn); // once it is in the page, and has a width
  return [h("label", { class: "control" }, h("span", {}, "RAM for the arena ", shown), slider), said, about, bars, fitting];
}
