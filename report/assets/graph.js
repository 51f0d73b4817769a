// The graph: tasks in columns along the data flow. Composites and networks that were cut can be folded.
const PROCESSORS = D.processors.map((p) => p.name);
const processorFill = (p) => (PROCESSORS.includes(p) ? FILLS[PROCESSORS.indexOf(p) % FILLS.length] : color("--free"));
const TASKS = new Map(D.tasks.map((t) => [t.name, t]));
//: Boxes from which on composites are folded at first, and those that are a list instead of a picture.
const MOST_OPEN = 40;
const MOST_BOXES = 2000;
const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  return (text, size) => { context.font = `${size}px ${family}`; return context.measureText(text).width; };
})();
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

class Graph {
  constructor(app, panel) {
    this.app = app;
    this.panel = panel;
    this.tasks = D.tasks.filter((t) => t.app === app.name);
    this.channels = D.channels.filter((c) => c.app === app.name);
    this.groups = [...new Set(this.tasks.flatMap((t) => this.above(t.group)))].filter(
      (g) => this.tasks.filter((t) => this.above(t.group).includes(g)).length > 1);
    this.folded = new Set(this.tasks.length > MOST_OPEN ? this.groups.filter((g) => !g.includes(".")) : []);
    this.svg = s("svg", { role: "group", tabindex: "0", "aria-label": `Graph of ${app.name}. Arrow keys move it, plus and minus zoom.` });
    this.listen();
  }

  /** A composite, and those that it is in. */
  above(group) {
    const parts = group ? group.split(".") : [];
    return parts.map((_, k) => parts.slice(0, k + 1).join("."));
  }

  /** The box that stands for a task: its outermost folded composite, or itself. */
  box(task) {
    const folded = this.above(task.group).find((g) => this.folded.has(g));
    return folded ? `${this.app.name}.${folded}` : task.name;
  }

  layout(vertical) {
    const boxes = new Map();
    for (const task of this.tasks) {
      const id = this.box(task);
      if (!boxes.has(id)) boxes.set(id, { id, tasks: [], label: id === task.name ? task.label : short(id), at: [] });
      boxes.get(id).tasks.push(task);
    }
    const where = new Map();
    this.app.columns.forEach((names, column) => names.forEach((n, k) => where.set(n, [column, k - (names.length - 1) / 2])));
    for (const box of boxes.values()) {
      const places = box.tasks.map((t) => where.get(t.name));
      box.column = Math.min(...places.map(([c]) => c));
      box.row = places.reduce((sum, [, r]) => sum + r, 0) / places.length;
      const fold = box.tasks.length > 1 || box.id !== box.tasks[0].name;
      box.fold = fold;
      const only = box.tasks[0];
      box.spot = !fold && only.kind === "resampling";
      box.below = fold ? count(box.tasks.length, only.kind === "network" ? "stage" : "task") : only.definition;
      if (!fold && only.group && !this.groups.includes(only.group)) box.label = `${only.group}.${only.label}`;
      box.label = cut(clean(box.label), 26);
      box.below = cut(clean(box.below), 30);
      box.width = box.spot ? measure(box.label, 11) + 16 : Math.max(92, measure(box.label, 13) + 26, measure(box.below, 11) + 26);
    }
    // Arrows between boxes; an arrow needs no room where everything it crosses is folded.
    const column = new Map([...boxes.values()].map((b) => [b.id, b.column]));
    const wires = new Map();
    for (const c of this.channels) {
      const [from, to] = [this.box(TASKS.get(c.source)), this.box(TASKS.get(c.target))];
      if (from === to && c.source !== c.target) continue;
      const plain = from === c.source && to === c.target;
      const key = plain ? c.name : `${from} ${to}`;
      if (!wires.has(key)) wires.set(key, { from, to, channels: [], through: [] });
      const wire = wires.get(key);
      wire.channels.push(c);
      if (wire.through.length || column.get(to) <= column.get(from)) continue;
      wire.through = (this.app.routes[c.name] || []).map((n) => ({ id: n, column: where.get(n)[0], row: where.get(n)[1], width: 0 }))
        .filter((p) => p.column > column.get(from) && p.column < column.get(to));
    }
    // Columns that hold nothing go.
    const used = [...new Set([...boxes.values()].map((b) => b.column))].sort((a, b) => a - b);
    const columns = used.map(() => []);
    for (const box of boxes.values()) columns[used.indexOf(box.column)].push(box);
    for (const wire of wires.values()) {
      wire.through = wire.through.filter((p) => used.includes(p.column));
      for (const p of wire.through) columns[used.indexOf(p.column)].push(p);
    }
    columns.forEach((items) => items.sort((a, b) => a.row - b.row));
    return this.place(boxes, [...wires.values()], columns, vertical);
  }

  /** Coordinates: along the flow by columns, across it by rows. */
  place(boxes, wires, columns, vertical) {
    const HIGH = 46;
    let along = 0;
    let size = 0;
    const labeled = boxes.size <= 120;
    // Between columns there is room for the rates at both ends of an arrow.
    const gaps = wires.map((w) => ({ from: boxes.get(w.from), room: w.channels.length > 1 ? 0 : w.channels[0].rates.reduce((sum, r) => sum + (r === "1" ? 0 : measure(r, 11) + 8), 26) }));
    for (const items of columns) {
      const thick = vertical ? HIGH : Math.max(...items.map((b) => b.width));
      const spans = items.map((b) => (vertical ? Math.max(b.width, 16) : b.label === undefined ? 14 : HIGH));
      const gap = 24;
      const total = spans.reduce((sum, n) => sum + n + gap, -gap);
      let across = -total / 2;
      items.forEach((b, k) => {
        b.x = vertical ? across + (spans[k] - b.width) / 2 : along + (thick - b.width) / 2;
        b.y = vertical ? along : across + (spans[k] - (b.label === undefined ? 0 : HIGH)) / 2;
        b.height = b.label === undefined ? 0 : HIGH;
        if (b.label === undefined && vertical) b.height = HIGH;
        if (b.label === undefined && !vertical) { b.x = along; b.width = thick; }
        across += spans[k] + gap;
      });
      size = Math.max(size, total);
      along += thick + (labeled ? (vertical ? 44 : Math.max(56, ...gaps.filter((g) => items.includes(g.from)).map((g) => g.room))) : 30);
    }
    const back = wires.filter((w) => boxes.get(w.to)[vertical ? "y" : "x"] <= boxes.get(w.from)[vertical ? "y" : "x"]);
    back.forEach((w, k) => { w.lane = size / 2 + 26 + 16 * k; });
    this.spread(boxes, wires, vertical);
    return { boxes, wires, vertical, labeled };
  }

  /** Where arrows leave and reach a box: side by side, in the order of their other ends. */
  spread(boxes, wires, vertical) {
    const at = (b) => (vertical ? b.x + b.width / 2 : b.y + b.height / 2);
    for (const [own, other, key] of [["from", "to", "leaves"], ["to", "from", "reaches"]]) {
      const ends = new Map();
      for (const wire of wires) ends.set(wire[own], [...(ends.get(wire[own]) || []), wire]);
      for (const [id, list] of ends) {
        const first = (w) => (own === "from" ? w.through[0] : w.through[w.through.length - 1]) || boxes.get(w[other]);
        const place = (w) => (w.lane === undefined ? at(first(w)) : w.lane + 1e6);
        list.sort((a, b) => place(a) - place(b));
        const box = boxes.get(id);
        const room = Math.min((vertical ? box.width : box.height) * 0.6, 15 * (list.length - 1));
        list.forEach((w, k) => { w[key] = list.length > 1 ? room * (k / (list.length - 1) - 0.5) : 0; });
      }
    }
  }

  draw() {
    const vertical = this.svg.clientWidth > 0 && this.svg.clientWidth < 560;
    const { boxes, wires, labeled } = this.layout(vertical);
    this.extent([...boxes.values()], wires, vertical);
    const scene = s("g", {});
    const marker = (id, look) => s("marker", { id, viewBox: "0 0 8 8", refX: "7.5", refY: "4", markerWidth: "9", markerHeight: "9", markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 .6 8 4 0 7.4z", fill: look }));
    const key = D.apps.indexOf(this.app);
    this.svg.replaceChildren(s("defs", {}, marker(`tip-${key}`, color("--edge")), marker(`red-${key}`, color("--bad"))), scene);
    this.frames(scene, boxes);
    this.wires = wires.map((wire) => {
      const critical = wire.channels.some((c) => this.app.critical_channels.includes(c.name));
      const path = this.curve(boxes.get(wire.from), boxes.get(wire.to), wire, vertical);
      const made = s("g", { class: "wire-group" },
        s("path", { class: critical ? "wire critical" : "wire", d: path.d, "marker-end": `url(#${critical ? "red" : "tip"}-${key})` },
          s("title", {}, wire.channels.map((c) => `${c.name}${c.type ? `: ${c.type}` : ""}`).join("\n"))));
      const [channel] = wire.channels;
      if (labeled && wire.channels.length === 1) {
        const [start, end] = path.ends;
        if (channel.rates[0] !== "1") made.append(s("text", { class: "rate", x: start[0] + 5, y: start[1] + (vertical ? 13 : -5) }, channel.rates[0]));
        if (channel.rates[1] !== "1") made.append(s("text", { class: "rate", x: end[0] + (vertical ? 5 : -12), y: end[1] + (vertical ? -9 : -5), "text-anchor": vertical ? "start" : "end" }, channel.rates[1]));
      }
      const delay = wire.channels.reduce((sum, c) => sum + c.delay, 0);
      if (delay) made.append(s("circle", { class: "dot", cx: path.middle[0], cy: path.middle[1], r: 9 }), s("text", { class: "dot-text", x: path.middle[0], y: path.middle[1] + 3.6 }, delay));
      scene.append(made);
      return { wire, made };
    });
    this.boxes = new Map();
    for (const box of boxes.values()) {
      const made = this.drawBox(box);
      scene.append(made);
      this.boxes.set(box.id, made);
    }
    this.scene = scene;
    this.fit();
  }

  /** The visible content: boxes with their frames, and the lanes of arrows that lead back. */
  extent(boxes, wires, vertical) {
    const lanes = wires.filter((w) => w.lane !== undefined).map((w) => w.lane + 12);
    const through = wires.flatMap((w) => w.through);
    const left = Math.min(...boxes.map((b) => b.x), ...through.map((p) => p.x)) - 28;
    const top = Math.min(...boxes.map((b) => b.y), ...through.map((p) => p.y)) - 30;
    const right = Math.max(...boxes.map((b) => b.x + b.width), ...(vertical ? lanes : [])) + 28;
    const bottom = Math.max(...boxes.map((b) => b.y + b.height), ...through.map((p) => p.y), ...(vertical ? [] : lanes)) + 24;
    const deep = 16 * Math.max(0, ...this.groups.map((g) => g.split(".").length - 1));
    this.full = [left, top - deep, right - left, bottom - top + 2 * deep];
  }

  frames(scene, boxes) {
    for (const group of this.groups) {
      const inside = [...boxes.values()].filter((b) => b.tasks.every((t) => this.above(t.group).includes(group)));
      if (inside.length < 2) continue;
      const depth = (g) => g.split(".").length;
      // Its content has frames of its own.
      const nested = this.groups.filter((g) => g.startsWith(`${group}.`) && !this.folded.has(g));
      const deep = Math.max(0, ...nested.map((g) => depth(g) - depth(group)));
      const left = Math.min(...inside.map((b) => b.x)) - 10 - 6 * deep;
      const top = Math.min(...inside.map((b) => b.y)) - 22 - 16 * deep;
      const right = Math.max(...inside.map((b) => b.x + b.width)) + 10 + 6 * deep;
      const bottom = Math.max(...inside.map((b) => b.y + b.height)) + 10 + 6 * deep;
      const foreign = [...boxes.values()].some((b) => !inside.includes(b) && b.x < right && b.x + b.width > left && b.y < bottom && b.y + b.height > top);
      if (foreign) continue;
      scene.append(s("rect", { class: "frame", x: left, y: top, width: right - left, height: bottom - top, rx: 10 }),
        s("text", { class: "frame-name", x: left + 10, y: top + 15 }, cut(clean(group), 40)));
    }
  }

  curve(from, to, wire, vertical) {
    const swap = (p) => (vertical ? [p[1], p[0]] : p);
    const far = (b) => (vertical ? [b.y + b.height, b.x + b.width / 2] : [b.x + b.width, b.y + b.height / 2]);
    const near = (b) => (vertical ? [b.y, b.x + b.width / 2] : [b.x, b.y + b.height / 2]);
    const [a, b] = [far(from), near(to)];
    a[1] += wire.leaves;
    b[1] += wire.reaches;
    const text = (points) => points.map((p) => swap(p).map((v) => v.toFixed(1)).join(" ")).join(" ");
    if (wire.lane !== undefined) {
      const l = wire.lane;
      const r = 26;
      return {
        d: `M${text([a])}C${text([[a[0] + r, a[1]], [a[0] + r, l], [a[0], l]])}L${text([[b[0], l]])}C${text([[b[0] - r, l], [b[0] - r, b[1]], b])}`,
        ends: [swap(a), swap(b)], middle: swap([(a[0] + b[0]) / 2, l]),
      };
    }
    const stops = [a, ...wire.through.flatMap((p) => [near(p), far(p)]), b];
    let d = `M${text([a])}`;
    for (let k = 1; k < stops.length; k += 1) {
      const [p, q] = [stops[k - 1], stops[k]];
      if (k % 2 === 0) { d += `L${text([q])}`; continue; }
      const bend = Math.max(12, (q[0] - p[0]) / 2);
      d += `C${text([[p[0] + bend, p[1]], [q[0] - bend, q[1]], q])}`;
    }
    const m = stops.length >> 1;
    const middle = stops.length % 2 ? stops[m] : [(stops[m - 1][0] + stops[m][0]) / 2, (stops[m - 1][1] + stops[m][1]) / 2];
    return { d, ends: [swap(a), swap(b)], middle: swap(middle) };
  }

  drawBox(box) {
    const { x, y, width, height } = box;
    const critical = box.tasks.some((t) => this.app.critical_tasks.includes(t.name));
    const [task] = box.tasks;
    const places = [...new Set(box.tasks.flatMap((t) => t.processors))];
    const open = () => { this.choose(box.id); this.show(box); };
    const made = s("g", {
      class: `box${critical ? " critical" : ""}`, tabindex: "0", role: "button", "data-box": box.id,
      "aria-label": `${short(box.id)}${places.length ? `, on ${places.join(", ")}` : ""}${critical ? ", dictates the period" : ""}`,
      onclick: (event) => { event.stopPropagation(); open(); },
      ondblclick: () => { if (box.fold) this.toggle(short(box.id)); },
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } },
    });
    const middle = x + width / 2;
    if (box.spot) {
      made.append(s("rect", { x, y: y + height / 2 - 11, width, height: 22, rx: 11, class: "dot" }), s("rect", { class: "edge", x, y: y + height / 2 - 11, width, height: 22, rx: 11 }),
        s("text", { class: "dot-text", x: middle, y: y + height / 2 + 3.6 }, box.label));
      return made;
    }
    const round = box.tasks.some((t) => t.kind === "network") ? 2 : 9;
    const id = `clip-${D.apps.indexOf(this.app)}-${[...this.boxes.keys()].length}`;
    const fills = places.length ? places : [""];
    made.append(s("clipPath", { id }, s("rect", { x, y, width, height, rx: round })));
    if (box.fold) made.append(s("rect", { class: "edge", x: x + 4, y: y + 4, width, height, rx: round }));
    fills.forEach((p, k) => made.append(s("rect", { x: x + (width * k) / fills.length, y, width: width / fills.length + 0.5, height, fill: processorFill(p), "clip-path": `url(#${id})` })));
    made.append(s("rect", { class: "edge", x, y, width, height, rx: round }),
      s("text", { x: middle, y: y + 20 }, box.label), s("text", { class: "small", x: middle, y: y + 36 }, box.below),
      s("title", {}, `${short(box.id)}${task.doc && !box.fold ? `\n${task.doc.replaceAll("`", "")}` : ""}`));
    return made;
  }

  fit() {
    const width = this.svg.clientWidth || 800;
    const scale = Math.min(1, Math.max(width / this.full[2], 0.42));
    const high = Math.min(Math.max(150, this.full[3] * scale), 560);
    this.svg.style.height = `${high}px`;
    const [w, t] = [width / scale, high / scale];
    const fits = w >= this.full[2];
    this.view = [fits ? this.full[0] - (w - this.full[2]) / 2 : this.full[0], this.full[1] + (this.full[3] - t) / 2, w, t];
    this.set();
  }

  whole() {
    const k = Math.max(this.full[2] / this.view[2], this.full[3] / this.view[3]);
    const [w, t] = [this.view[2] * k, this.view[3] * k];
    this.view = [this.full[0] - (w - this.full[2]) / 2, this.full[1] - (t - this.full[3]) / 2, w, t];
    this.set();
  }

  set() { this.svg.setAttribute("viewBox", this.view.map((v) => v.toFixed(2)).join(" ")); }

  zoom(k, x = 0.5, y = 0.5) {
    const [left, top, w, t] = this.view;
    const grown = Math.min(Math.max(w * k, 120), 40 * this.full[2]) / w;
    this.view = [left + w * x * (1 - grown), top + t * y * (1 - grown), w * grown, t * grown];
    this.set();
  }

  move(x, y) { this.view[0] += x * this.view[2]; this.view[1] += y * this.view[3]; this.set(); }

  listen() {
    const svg = this.svg;
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg) return;
      event.preventDefault();
      const r = svg.getBoundingClientRect();
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - r.x) / r.width, (event.clientY - r.y) / r.height);
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") from = [event.clientX, event.clientY]; });
    svg.addEventListener("pointermove", (event) => {
      if (!from || !(event.buttons & 1)) { from = null; return; }
      const r = svg.getBoundingClientRect();
      this.move((from[0] - event.clientX) / r.width, (from[1] - event.clientY) / r.height);
      from = [event.clientX, event.clientY];
    });
    svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (moves[event.key]) this.move(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(1 / 1.2);
      else if (event.key === "-") this.zoom(1.2);
      else if (event.key === "0") this.whole();
      else return;
      event.preventDefault();
    });
  }

  toggle(group) {
    if (this.folded.has(group)) this.folded.delete(group); else this.folded.add(group);
    this.draw();
    if (this.onfold) this.onfold();
  }

  choose(id) {
    for (const [box, made] of this.boxes) made.classList.toggle("chosen", box === id);
    for (const { wire, made } of this.wires) made.firstChild.classList.toggle("chosen", wire.from === id || wire.to === id);
  }

  find(word) {
    const wanted = word.trim().toLowerCase();
    const hits = this.tasks.filter((t) => wanted && `${t.name} ${t.definition} ${t.code}`.toLowerCase().includes(wanted));
    const ids = new Set(hits.map((t) => this.box(t)));
    for (const [id, made] of this.boxes) made.classList.toggle("dim", Boolean(wanted) && !ids.has(id));
    const [first] = ids;
    if (first) {
      const b = this.boxes.get(first).getBBox();
      const [left, top, w, t] = this.view;
      if (b.x < left || b.x + b.width > left + w || b.y < top || b.y + b.height > top + t) {
        this.view = [b.x + b.width / 2 - w / 2, b.y + b.height / 2 - t / 2, w, t];
        this.set();
      }
    }
    return hits.length;
  }

  show(box) {
    if (box.fold) {
      this.panel.replaceChildren(h("h3", {}, name(short(box.id))), h("p", { class: "soft" }, box.below),
        h("p", {}, button("Unfold", () => this.toggle(short(box.id)))),
        h("ul", {}, box.tasks.map((t) => h("li", {}, name(short(t.name)), " ", h("span", { class: "soft" }, t.measured_ns === null ? "" : time(t.measured_ns))))));
      return;
    }
    this.panel.replaceChildren(...taskDetails(box.tasks[0], this.app));
  }
}

/** All results for a task. */
function taskDetails(task, app) {
  const rows = [
    ["is", task.definition && name(task.definition)],
    ["at", task.place && h("code", {}, task.place)],
    ["code", task.code && h("code", {}, task.code)],
    ["on", placesOf(task)],
    ["firings", `${task.firings} in a frame`],
    ["predicted", task.predicted_ns !== null && `${time(task.predicted_ns)} (${task.times_from})`],
    ["measured", task.measured_ns !== null && `${time(task.measured_ns)}${task.error === null ? "" : `, ${signed(task.error)}`}`],
    ["longest", task.measured_max_ns !== null && time(task.measured_max_ns)],
    ["worst case", task.worst_ns !== null && time(task.worst_ns)],
  ];
  const made = [h("h3", {}, name(short(task.name)))];
  if (task.doc) made.push(h("p", { class: "soft" }, prose(cut(task.doc, 600))));
  made.push(h("dl", {}, rows.filter(([, value]) => value).map(([word, value]) => [h("dt", {}, word), h("dd", {}, value)])));
  if (task.ports.length) {
    made.push(h("h3", {}, "Ports"), h("dl", {}, task.ports.map((p) => [h("dt", {}, p.way), h("dd", {}, name(p.name), p.type ? [" ", h("code", {}, p.type)] : null, p.rates === "1" ? null : ` rate ${p.rates}`, p.list && p.list.mean !== null ? `: ${p.list.mean} on average, ${p.list.most} at most` : null)])));
  }
  const net = task.network;
  if (net) {
    made.push(h("h3", {}, "Network"), h("p", { class: "soft" }, `${net.precision}${net.engine ? ` on ${net.engine}` : ""}${net.noise ? `, ${net.noise}` : ""}${net.batch > 1 ? `, ${net.batch} firings at once` : ""}${net.dla ? `; ${net.dla}` : ""}`));
    const most = Math.max(1, ...net.layers.map(([, ns]) => ns));
    made.push(...net.layers.map(([layer, ns]) => {
      const bar = h("i", {});
      bar.style.width = `${Math.max(1, (100 * ns) / most)}%`;
      return h("div", { class: "layer" }, name(layer), bar, h("b", {}, time(ns)));
    }));
  }
  const near = D.channels.filter((c) => c.app === app.name && (c.source === task.name || c.target === task.name));
  if (near.length) {
    made.push(h("h3", {}, "Channels"), h("ul", {}, near.map((c) => h("li", {},
      c.source === task.name ? ["to ", name(short(c.target))] : ["from ", name(short(c.source))],
      h("span", { class: "soft" }, c.capacity === null ? "" : ` ${c.most === null ? "" : `${c.most} of `}${count(c.capacity, "token")}`)))));
  }
  return made;
}

function graphSection() {
  const made = section("graph", "Graph", "Boxes are colored by processor. What dictates the least period is red. Choose a box for all that is known of it.");
  const graphs = [];
  for (const app of D.apps) {
    const tasks = D.tasks.filter((t) => t.app === app.name);
    if (several) made.append(h("h3", {}, name(app.name)));
    const caption = app.least_period_ns === null ? null : h("p", {},
      app.unit_times ? "No times are known: every firing counts 1. " : ["Least period ", h("b", {}, time(app.least_period_ns)), " at worst-case times, with a processor for each task. "],
      app.critical_tasks.length ? [h("span", { class: "bad" }, app.critical_tasks.map(short).slice(0, 8).join(" \u2192 ")), app.critical_tasks.length > 1 ? " dictate it." : " dictates it: its firings follow each other."] : null);
    if (caption) made.append(caption);
    if (tasks.length > MOST_BOXES) {
      made.append(nothing(`${count(tasks.length, "task")} are too many for a picture: the table below has all of them.`));
      continue;
    }
    const panel = h("aside", { "aria-live": "polite", "aria-label": "Chosen task" }, graphs.length ? null : h("p", { class: "soft" }, "Choose a box: its ports, code, times and channels are shown here."));
    const graph = new Graph(app, panel);
    graphs.push(graph);
    const found = h("span", { class: "keys", role: "status" });
    const search = h("input", { type: "search", placeholder: "Find a task", "aria-label": `Find a task of ${app.name}`, oninput: (event) => {
      const hits = graph.find(event.target.value);
      found.textContent = event.target.value.trim() ? `${hits} found` : "";
    } });
    const folds = h("span", { class: "tools" });
    graph.onfold = () => folds.replaceChildren(...(graph.groups.length > 12
      ? [button(graph.folded.size ? "Unfold all" : "Fold all", () => { graph.folded = new Set(graph.folded.size ? [] : graph.groups.filter((g) => !g.includes("."))); graph.draw(); graph.onfold(); })]
      : graph.groups.map((g) => button(`${graph.folded.has(g) ? "+" : "\u2212"} ${cut(clean(g), 24)}`, () => graph.toggle(g), { "aria-expanded": String(!graph.folded.has(g)), "aria-label": `${graph.folded.has(g) ? "Unfold" : "Fold"} ${g}` }))));
    graph.onfold();
    made.append(h("div", { class: "tools" }, search, found, folds, h("span", { class: "gap" }), h("span", { class: "keys wide-only" }, "drag, Ctrl + wheel, arrow keys"),
      button("\u2212", () => graph.zoom(1.25), { "aria-label": "Zoom out" }), button("+", () => graph.zoom(0.8), { "aria-label": "Zoom in" }), button("Fit", () => graph.whole())));
    made.append(h("div", { class: "graph" }, h("div", { class: "stage" }, graph.svg), panel));
  }
  const used = D.processors.filter((p) => D.tasks.some((t) => t.processors.includes(p.name)));
  made.append(used.length
    ? h("ul", { class: "legend" }, used.map((p) => { const i = h("i", {}); i.style.background = processorFill(p.name); return h("li", {}, i, name(p.name)); }))
    : nothing("Nothing is placed yet: once times are known, boxes are colored by processor.", D.missing.times));
  return { made, draw: () => graphs.forEach((g) => g.draw()), graphs };
}
