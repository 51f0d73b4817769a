// Firings over time: predicted above measured, from the same frame on. At most one bar per pixel and lane is painted.
//: Heights of a lane, of few and of many; so many lanes are shown of each chart.
const TALL = 30;
const LOW = 17;
const MOST_LANES = 120;
const HEAD = 24;

class Gantt {
  constructor(charts, note) {
    this.note = note;
    // One list of lanes; each has flat arrays, so that a repaint of 100,000 bars walks through memory once.
    this.lanes = [];
    this.panels = charts.map(({ title, chart }) => {
      const panel = { title, chart, lanes: [] };
      for (const lane of chart.lanes.slice(0, MOST_LANES)) {
        const bars = lane.bars;
        const n = bars.length / 4;
        const made = { name: lane.name, panel, n, task: new Int32Array(n), firing: new Int32Array(n), start: new Float64Array(n), end: new Float64Array(n), frame: new Int32Array(n) };
        const order = Array.from({ length: n }, (_, k) => k).sort((a, b) => bars[4 * a + 2] - bars[4 * b + 2]);
        order.forEach((k, at) => {
          const task = D.tasks[bars[4 * k]];
          made.task[at] = bars[4 * k];
          made.firing[at] = bars[4 * k + 1];
          made.start[at] = bars[4 * k + 2] - chart.zero_ns;
          made.end[at] = made.start[at] + bars[4 * k + 3];
          made.frame[at] = Math.floor(bars[4 * k + 1] / Math.max(1, task.firings));
        });
        panel.lanes.push(made);
        this.lanes.push(made);
      }
      return panel;
    });
    this.lane = this.lanes.length > 24 ? LOW : TALL;
    this.thick = this.lane === LOW ? LOW - 3 : TALL - 7;
    const present = new Set(this.lanes.flatMap((l) => [...new Set(l.task)]));
    this.fills = new Map([...present].sort((a, b) => a - b).map((t, k) => [t, FILLS[k % FILLS.length]]));
    this.colors = new Map([...this.fills].map(([t, look]) => [t, [1, 3, 5].map((k) => parseInt(look.slice(k, k + 2), 16))]));
    this.row = h("canvas", { height: "1" });
    const ends = this.panels.map((p) => Math.max(...p.lanes.map((l) => (l.n ? l.end[l.n - 1] : 0))));
    const starts = this.panels.map((p) => Math.min(...p.lanes.map((l) => (l.n ? l.start[0] : 0))));
    this.all = [Math.min(...starts), Math.max(...ends)];
    this.chosen = null;
    this.at = null;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Firings over time. Arrow keys move, plus and minus zoom, comma and period step through firings." });
    this.height = this.panels.reduce((sum, p) => sum + HEAD + p.lanes.length * this.lane + 12, 26);
    this.canvas.style.height = `${this.height}px`;
    this.listen();
  }

  /** At first a few frames around the one in which the pipeline is full. */
  home() {
    let [from, to] = [0, 1];
    for (const lane of this.lanes) {
      const frame = lane.panel.chart.frame;
      for (let k = 0; k < lane.n; k += 1) {
        if (lane.frame[k] < frame || lane.frame[k] > frame + 2) continue;
        from = Math.min(from, lane.start[k]);
        to = Math.max(to, lane.end[k]);
      }
    }
    this.view = [from - 0.02 * (to - from), to + 0.02 * (to - from)];
    this.paint();
  }

  width() { return this.canvas.clientWidth || 800; }

  x(t) { return this.left + ((t - this.view[0]) / (this.view[1] - this.view[0])) * (this.width() - this.left); }

  paint() {
    const begin = performance.now();
    const ratio = window.devicePixelRatio || 1;
    const width = this.width();
    this.widest = this.widest || Math.max(...this.panels.flatMap((p) => p.lanes.map((lane) => measure(clean(lane.name), 12)))) + 10;
    this.left = Math.max(62, Math.min(this.widest, width < 560 ? 0.36 * width : 200));
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(this.height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
    }
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = { ink: color("--ink"), soft: color("--soft"), line: color("--line"), bad: color("--bad"), mark: color("--mark"), paper: color("--paper"), text: color("--on-fill") };
    const family = getComputedStyle(document.body).fontFamily;
    g.fillStyle = ink.paper;
    g.fillRect(0, 0, width, this.height);
    this.scale(g, width, ink, family);
    let y = 26;
    for (const panel of this.panels) {
      g.fillStyle = ink.ink;
      g.font = `600 13px ${family}`;
      g.fillText(panel.title, 0, y + 14);
      panel.top = y + HEAD;
      y = panel.top;
      for (const lane of panel.lanes) {
        lane.y = y;
        g.fillStyle = ink.soft;
        g.font = `12px ${family}`;
        g.fillText(this.fitText(g, clean(lane.name), this.left - 8), 0, y + this.thick / 2 + 5);
        this.bars(g, lane, width, ink);
        y += this.lane;
      }
      this.marks(g, panel, y, width, ink);
      y += 12;
    }
    this.painted = performance.now() - begin;
  }

  scale(g, width, ink, family) {
    // Where sources are released at times, those are times as well if firings have none.
    const unit = this.panels.every((p) => p.chart.unit && !p.chart.releases.length);
    const [size, word] = unit ? [1, "firings"] : unitOf(this.view[1] - this.view[0]);
    g.font = `11.5px ${family}`;
    for (const v of ticks(this.view[0] / size, this.view[1] / size, Math.max(2, Math.floor((width - this.left) / 110)))) {
      const x = this.x(v * size);
      if (x < this.left || x > width) continue;
      g.fillStyle = ink.line;
      g.fillRect(x, 18, 1, this.height - 18);
      g.fillStyle = ink.soft;
      const text = `${+v.toPrecision(6)} ${word}`;
      g.fillText(text, Math.min(x + 3, width - g.measureText(text).width), 12);
    }
  }

  fitText(g, text, room) {
    if (g.measureText(text).width <= room) return text;
    let kept = text;
    while (kept.length > 1 && g.measureText(`${kept}\u2026`).width > room) kept = kept.slice(0, -1);
    return `${kept}\u2026`;
  }

  /** The first bar that ends after a time, at or behind another one. */
  first(lane, t, from = 0) {
    let [low, high] = [from, lane.n];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.end[middle] < t) low = middle + 1; else high = middle;
    }
    return low;
  }

  bars(g, lane, width, ink) {
    const [a, b] = this.view;
    const k = (width - this.left) / (b - a);
    let last = -1; // the pixel that was painted last
    const labels = [];
    let thin = null;
    for (let i = this.first(lane, a); i < lane.n && lane.start[i] <= b; i += 1) {
      const from = Math.max(this.left, this.left + (lane.start[i] - a) * k);
      const to = this.left + (lane.end[i] - a) * k;
      if (to < last + 1 && to - from < 1) { // that pixel is full: on to the first bar behind it
        i = Math.max(i, this.first(lane, a + (last + 1 - this.left) / k, i) - 1);
        continue;
      }
      const wide = Math.max(1, Math.min(to, width) - from);
      last = to - from < 1 ? Math.floor(from) : Math.ceil(from + wide) - 1;
      const other = this.chosen !== null && !(D.tasks[lane.task[i]].app === this.chosen.app && lane.frame[i] === this.chosen.frame);
      const alpha = other ? 0.22 : lane.frame[i] % 2 ? 0.68 : 1;
      if (to - from < 1) { // thousands of these: a row of pixels, drawn at once
        thin = thin || new ImageData(width, 1);
        const [red, green, blue] = this.colors.get(lane.task[i]);
        thin.data.set([red, green, blue, 255 * alpha], 4 * Math.floor(from));
        continue;
      }
      g.globalAlpha = alpha;
      g.fillStyle = this.fills.get(lane.task[i]);
      g.fillRect(from, lane.y, wide > 3 ? wide - 0.7 : wide, this.thick);
      if (wide > 34 && this.lane === TALL && !other) labels.push([i, from, wide]);
    }
    g.globalAlpha = 1;
    if (thin) {
      this.row.width = width;
      this.row.getContext("2d").putImageData(thin, 0, 0);
      g.imageSmoothingEnabled = false;
      g.drawImage(this.row, 0, lane.y, width, this.thick);
    }
    g.fillStyle = ink.text;
    for (const [i, from, wide] of labels) {
      const task = D.tasks[lane.task[i]];
      const full = `${task.label} ${lane.frame[i]}`;
      const text = g.measureText(full).width + 8 <= wide ? full : this.fitText(g, task.label, wide - 8);
      if (text.length > 2) g.fillText(text, from + 4, lane.y + this.thick / 2 + 4.5);
    }
    if (this.at && this.at.lane === lane) {
      g.strokeStyle = ink.mark;
      g.lineWidth = 2;
      const from = this.x(lane.start[this.at.bar]);
      g.strokeRect(Math.max(this.left, from), lane.y, Math.max(2, this.x(lane.end[this.at.bar]) - Math.max(this.left, from)), this.thick);
    }
  }

  /** Releases are ticks below the lanes; deadlines that were missed are red ones. */
  marks(g, panel, y, width, ink) {
    let last = -9;
    g.fillStyle = ink.soft;
    for (const time of panel.chart.releases) {
      const x = this.x(time - panel.chart.zero_ns);
      if (x < this.left || x > width || x - last < 2) continue;
      last = x;
      g.fillRect(x, y - 4, 1.5, 8);
    }
    g.fillStyle = ink.bad;
    for (const frame of panel.chart.frames) {
      const x = this.x(frame.end_ns - panel.chart.zero_ns);
      if (!frame.late_ns || x < this.left || x > width) continue;
      g.beginPath();
      g.moveTo(x, y - 6);
      g.lineTo(x - 5, y + 4);
      g.lineTo(x + 5, y + 4);
      g.fill();
    }
  }

  zoom(k, at = 0.5) {
    const [a, b] = this.view;
    const middle = a + at * (b - a);
    const length = Math.min(Math.max((b - a) * k, 20), 3 * (this.all[1] - this.all[0]) + 20);
    this.view = [middle - at * length, middle + (1 - at) * length];
    this.paint();
  }

  move(share) {
    const by = share * (this.view[1] - this.view[0]);
    this.view = [this.view[0] + by, this.view[1] + by];
    this.paint();
  }

  hit(event) {
    const r = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - r.x, event.clientY - r.y];
    const lane = this.lanes.find((l) => y >= l.y && y < l.y + this.thick);
    if (!lane || x < this.left) return null;
    const perPixel = (this.view[1] - this.view[0]) / (this.width() - this.left);
    const t = this.view[0] + (x - this.left) * perPixel;
    const bar = this.first(lane, t - perPixel);
    return bar < lane.n && lane.start[bar] <= t + perPixel ? { lane, bar } : null;
  }

  words({ lane, bar }) {
    const task = D.tasks[lane.task[bar]];
    const unit = lane.panel.chart.unit;
    const lines = [`${shown(task.name)}, firing ${lane.firing[bar]} (frame ${lane.frame[bar]})`, `${lane.panel.title} on ${lane.name}: ${time(lane.end[bar] - lane.start[bar], unit)}`];
    const ready = this.ready(lane, bar);
    const before = bar ? lane.end[bar - 1] : null;
    const gap = before === null ? 0 : lane.start[bar] - before;
    if (gap > 0) {
      const waited = ready === null ? 0 : Math.min(gap, ready.end - before);
      lines.push(waited > 0.5 * gap ? `the lane waited ${time(gap)}, for data from ${shown(ready.name)}` : `the lane did nothing for ${time(gap)} before`);
    }
    return lines.join("\n");
  }

  /** The firing that its last data came from, and its end. */
  ready(lane, bar) {
    const panel = lane.panel;
    if (!panel.ends) {
      panel.ends = new Map();
      for (const l of panel.lanes) for (let k = 0; k < l.n; k += 1) panel.ends.set(l.task[k] * 4194304 + l.firing[k], l.end[k]);
    }
    const task = D.tasks[lane.task[bar]];
    let found = null;
    for (const c of D.channels) {
      if (c.target !== task.name) continue;
      const source = D.tasks.findIndex((t) => t.name === c.source);
      // All firings of one iteration of the source are over at the end of its last one: enough for words.
      const frame = Math.floor(lane.firing[bar] / Math.max(1, task.firings)) - (c.delay ? 1 : 0);
      const per = D.tasks[source].firings;
      const same = per === task.firings ? lane.firing[bar] - (c.delay ? per : 0) : frame * per + Math.max(0, Math.ceil(((lane.firing[bar] % Math.max(1, task.firings)) + 1) * per / Math.max(1, task.firings)) - 1);
      const end = panel.ends.get(source * 4194304 + same);
      if (end !== undefined && (found === null || end > found.end)) found = { end, name: c.source };
    }
    return found;
  }

  pick(at) {
    this.at = at;
    const task = D.tasks[at.lane.task[at.bar]];
    const frame = at.lane.frame[at.bar];
    const same = this.chosen && this.chosen.app === task.app && this.chosen.frame === frame;
    this.chosen = same ? null : { app: task.app, frame };
    const measured = this.panels.map((p) => p.chart.frames.find((f) => f.app === task.app && f.frame === frame)).find(Boolean);
    this.note.textContent = this.chosen === null ? "" : `Frame ${frame} of ${clean(task.app)}${measured ? `: ${time(measured.end_ns - measured.begin_ns)} from its release to its end${measured.late_ns ? `, ${time(measured.late_ns)} late` : ""}` : ""}. Choose it again to see all frames.`;
    this.paint();
  }

  step(by) {
    const lanes = this.lanes.filter((l) => l.n);
    if (!lanes.length) return;
    let at = this.at || { lane: lanes[0], bar: this.first(lanes[0], this.view[0]) - by };
    let bar = at.bar + by;
    let row = lanes.indexOf(at.lane);
    if (bar < 0 || bar >= at.lane.n) { row = (row + by + lanes.length) % lanes.length; bar = by > 0 ? 0 : lanes[row].n - 1; }
    at = { lane: lanes[row], bar };
    this.at = at;
    const middle = (at.lane.start[bar] + at.lane.end[bar]) / 2;
    if (middle < this.view[0] || middle > this.view[1]) {
      const half = (this.view[1] - this.view[0]) / 2;
      this.view = [middle - half, middle + half];
    }
    this.paint();
    const r = this.canvas.getBoundingClientRect();
    say(this.words(at), r.x + this.x(middle), r.y + at.lane.y + 10);
  }

  listen() {
    const canvas = this.canvas;
    let from = null;
    let moved = 0;
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const at = (event.clientX - canvas.getBoundingClientRect().x - this.left) / (this.width() - this.left);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / this.width());
      else this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, Math.max(0, at));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { from = event.clientX; moved = 0; });
    canvas.addEventListener("pointermove", (event) => {
      if (from !== null && event.buttons & 1) {
        moved += Math.abs(event.clientX - from);
        if (moved > 3) this.move((from - event.clientX) / (this.width() - this.left));
        from = event.clientX;
        return;
      }
      const at = this.hit(event);
      say(at ? this.words(at) : "", event.clientX, event.clientY);
      canvas.style.cursor = at ? "pointer" : "default";
    });
    canvas.addEventListener("pointerleave", () => say(""));
    canvas.addEventListener("pointerup", (event) => {
      const at = moved <= 3 ? this.hit(event) : null;
      from = null;
      if (at) this.pick(at);
    });
    canvas.addEventListener("blur", () => say(""));
    canvas.addEventListener("keydown", (event) => {
      const keys = {
        ArrowLeft: () => this.move(-0.15), ArrowRight: () => this.move(0.15), "+": () => this.zoom(1 / 1.3), "=": () => this.zoom(1 / 1.3),
        "-": () => this.zoom(1.3), 0: () => this.home(), ",": () => this.step(-1), ".": () => this.step(1),
        Enter: () => { if (this.at) this.pick(this.at); }, Escape: () => { this.chosen = null; this.note.textContent = ""; say(""); this.paint(); },
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}

function ganttSection() {
  const made = section("gantt", "Firings over time",
    "Predicted: every task takes its mean time, and each processor follows its order. Measured: a trace of the program. Both begin where the pipeline is full. Choose a firing to follow its frame.");
  if (!D.predicted.length && !D.measured) {
    made.append(nothing("Nothing to draw.", D.missing.predicted));
    return { made, draw: () => {}, gantt: null };
  }
  const note = h("p", { role: "status", class: "soft" });
  const build = (app) => {
    const predicted = D.predicted.find((c) => c.app === app);
    const charts = [];
    if (predicted && !(predicted.unit && D.measured)) charts.push({ title: predicted.unit ? "Predicted (no times are known: every firing takes 1)" : "Predicted", chart: predicted });
    if (D.measured) charts.push({ title: "Measured", chart: D.measured });
    return new Gantt(charts, note);
  };
  const holder = h("div", { class: "stage-plain" });
  const state = { made, gantt: null };
  const use = (app) => {
    state.gantt = build(app);
    holder.replaceChildren(state.gantt.canvas);
    state.gantt.home();
    keys.replaceChildren(...[...state.gantt.fills].slice(0, 24).map(([task, look]) => {
      const i = h("i", {});
      i.style.background = look;
      return h("li", {}, i, name(shown(D.tasks[task].name)));
    }));
  };
  const keys = h("ul", { class: "legend" });
  const names = D.predicted.length ? D.predicted.map((c) => c.app) : [D.apps[0].name];
  const choice = names.length > 1
    ? h("select", { "aria-label": "App whose firings are predicted", onchange: (event) => use(event.target.value) }, names.map((n) => h("option", { value: n }, n))) : null;
  made.append(h("div", { class: "tools" }, choice, h("span", { class: "keys wide-only" }, "drag, Ctrl + wheel, arrow keys, comma and period"), h("span", { class: "gap" }),
    button("\u2212", () => state.gantt.zoom(1.4), { "aria-label": "Zoom out" }), button("+", () => state.gantt.zoom(1 / 1.4), { "aria-label": "Zoom in" }), button("Start", () => state.gantt.home())));
  made.append(holder, keys, note);
  for (const chart of [...D.predicted, D.measured].filter((c) => c && c.lanes.length > MOST_LANES)) {
    made.append(h("p", { class: "soft" }, `${MOST_LANES} of ${chart.lanes.length} lanes are shown.`));
  }
  if (D.measured && D.measured.said) made.append(h("p", { class: "soft" }, `Measured: ${D.measured.said}.`));
  if (!D.measured) made.append(nothing("There is no trace to compare with.", D.missing.trace));
  else if (D.predicted.some((c) => c.unit)) made.append(nothing("Nothing is predicted where no times are known.", D.missing.times));
  state.draw = () => use(names[0]);
  return state;
}
