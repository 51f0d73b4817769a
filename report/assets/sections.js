// The other sections: results in words, tables and charts.
const FAR = 0.1; // more than this between predicted and measured is worth a look

/** Of the bounds of an app in states, the one nearest to its deadline. */
function tightest(app) {
  const own = D.states.flatMap((s) => s.bounds.map((b) => ({ state: s.name, ...b }))).filter((b) => b.app === app);
  const used = (b) => (b.bound_ns === null ? Infinity : b.bound_ns / (b.deadline_ns || Infinity));
  return own.reduce((a, b) => (a === null || used(b) > used(a) ? b : a), null);
}

/** What a bound supposes, behind its deadline. */
const condition = (bound) => (bound.supposed ? `, if ${bound.supposed}` : "");

function headSection() {
  const made = h("section", { id: "head", "aria-labelledby": "head-title" },
    h("div", { class: "title" }, h("h1", { id: "head-title" }, name(D.name)), h("span", { class: "soft" }, "platform ", name(D.platform))));
  if (D.twin) made.append(h("p", { class: "banner" }, h("b", {}, "Twin: "), "CPU threads played the GPU, DLAs and NPUs of ", name(D.platform), " in this run, on the machine that it ran on. What is measured here are times of that machine: they say nothing about the bounds and predictions, which are for ", name(D.platform), "."));
  const apps = h("div", { class: "apps" });
  for (const app of D.apps) {
    const path = D.paths.find((p) => p.app === app.name && !p.task);
    const worst = tightest(app.name);
    const figures = [];
    const figure = (word, value, below, look) => figures.push(h("div", {}, h("dt", {}, word), h("dd", { class: look }, value, below ? h("small", {}, below) : null)));
    if (app.frames) {
      figure("frames per second", app.fps === null ? "\u2013" : String(+app.fps.toPrecision(4)), `${app.frames.toLocaleString("en")} frames${app.skipped ? `, ${app.skipped} skipped` : ""}`);
      figure("latency, p99", time(path.p99_ns), `p50 ${time(path.p50_ns)}`);
    } else if (D.status !== null) {
      figure("frames", "0", "none was finished");
    }
    if (path.bound_ns !== null) figure("proved bound", time(path.bound_ns), `${path.deadline_ns === null ? "no deadline" : `deadline ${time(path.deadline_ns)}`}${condition(path)}`, path.deadline_ns !== null && path.bound_ns > path.deadline_ns ? "bad" : "");
    else if (worst) figure("proved bound", time(worst.bound_ns), `in ${worst.state}${worst.deadline_ns === null ? "" : `, deadline ${time(worst.deadline_ns)}`}${condition(worst)}`, worst.late ? "bad" : "");
    else if (path.deadline_ns !== null) figure("deadline", time(path.deadline_ns), "no bound");
    if (app.deadline_misses !== null && path.deadline_ns !== null) figure("deadlines missed", String(app.deadline_misses), app.overruns ? `${app.overruns} releases came late` : "", D.twin ? "" : app.deadline_misses ? "bad" : "good");
    if (app.period_ns !== null) figure("period", time(app.period_ns), app.least_period_ns === null || app.unit_times ? "" : `least possible ${time(app.least_period_ns)}`);
    else if (app.least_period_ns !== null && !app.unit_times) figure("least period", time(app.least_period_ns), "worst case, a processor for each task");
    const verdicts = [["consistent", app.consistent], ["deadlock-free", app.deadlock_free], [{ profile: "schedulable, as measured", mapping: "schedulable, by its bound" }[app.schedulable_by] || "schedulable", app.schedulable]];
    figure("checked", verdicts.every(([, v]) => v) ? "all good" : verdicts.some(([, v]) => v === false) ? "no" : "undecided",
      verdicts.map(([word, v]) => `${v ? "\u2713" : v === false ? "\u2717" : "?"} ${word}`).join(" "), verdicts.some(([, v]) => v === false) ? "bad" : "");
    apps.append(h("div", { class: "app" }, h("h3", {}, name(app.name)), h("p", {}, app.doc ? prose(app.doc) : null), h("dl", { class: "figures" }, figures)));
  }
  made.append(apps);
  if (D.failure) made.append(h("p", { class: "bad" }, "The run failed: ", prose(D.failure)));
  const facts = [
    [D.imported ? "times" : "measured on", D.machine && name(D.machine)],
    ["data from", D.commands.length && D.commands.map((c) => h("code", {}, c))],
    ["flowc", `${D.flowc}${D.build ? `, build ${D.build.slice(0, 12)}` : ""}`],
  ].filter(([, v]) => v);
  made.append(h("dl", { class: "facts" }, facts.map(([word, value]) => [h("dt", {}, word), h("dd", {}, value)])));
  if (D.missing.times) made.append(nothing("This application was not measured here: times, places and predictions are not known.", D.missing.times));
  if (D.diagnostics.length) {
    made.append(h("ul", { class: "notes" }, D.diagnostics.map(([severity, code, message]) => h("li", { class: severity }, h("b", {}, code), " ", prose(message)))));
  }
  return made;
}

/** Predicted, measured and worst on one line, by their logarithm. */
function bullet(task, least, most) {
  const X = (ns) => 2 + (146 * (Math.log(Math.max(ns, 1)) - least)) / (most - least || 1);
  const parts = [];
  if (task.measured_ns !== null) parts.push(s("rect", { class: "seen", x: 2, y: 4, width: Math.max(1, X(task.measured_ns) - 2), height: 8, rx: 1.5 }));
  if (task.measured_max_ns !== null && task.measured_ns !== null) parts.push(s("line", { class: "longest", x1: X(task.measured_ns), x2: X(task.measured_max_ns), y1: 8, y2: 8 }));
  if (task.predicted_ns !== null) parts.push(s("line", { class: "said", x1: X(task.predicted_ns), x2: X(task.predicted_ns), y1: 1, y2: 15 }));
  if (task.worst_ns !== null) parts.push(s("line", { class: "worst", x1: X(task.worst_ns), x2: X(task.worst_ns), y1: 4, y2: 12 }));
  return s("svg", { class: "bullet", viewBox: "0 0 150 16", "aria-hidden": "true" }, parts);
}

const nameCell = (text, attributes) => h("td", { class: "name", ...attributes }, name(text));

function tasksSection() {
  const made = section("tasks", "Tasks", "One firing: what was predicted with the profile, and what the run measured. Red: more than 10 % off, or longer than the worst case that proofs count with.");
  const rows = D.tasks.filter((t) => t.kind !== "resampling");
  const all = rows.flatMap((t) => [t.predicted_ns, t.measured_ns, t.worst_ns, t.measured_max_ns]);
  const { word, text } = timeColumn(all);
  const logs = all.filter((v) => v).map((v) => Math.log(v));
  const [least, most] = [Math.min(...logs) - 0.7, Math.max(...logs) + 0.1];
  const figure = (key) => (t, look) => number(t[key], text, { "data-key": key, class: look });
  const columns = [
    { head: "task", class: "name", cell: (t) => nameCell(shown(t.name)), by: (t) => t.name },
    { head: "on", class: "text", cell: (t) => h("td", { class: "text" }, placesOf(t) || "\u2013"), by: placesOf },
    { head: "in a frame", cell: (t) => number(t.firings, String, { "data-key": "firings" }), by: (t) => t.firings },
    { head: `predicted, ${word}`, cell: figure("predicted_ns"), by: (t) => t.predicted_ns },
    { head: `measured, ${word}`, cell: figure("measured_ns"), by: (t) => t.measured_ns },
    { head: "error", cell: (t) => number(t.error, signed, { "data-key": "error", class: t.error !== null && Math.abs(t.error) > FAR ? "off" : null }), by: (t) => (t.error === null ? null : Math.abs(t.error)) },
    { head: `worst case, ${word}`, cell: figure("worst_ns"), by: (t) => t.worst_ns },
    { head: `longest, ${word}`, cell: (t) => figure("measured_max_ns")(t, !D.twin && t.worst_ns !== null && t.measured_max_ns > t.worst_ns ? "off" : null), by: (t) => t.measured_max_ns },
    { head: "share of time", cell: (t) => number(t.share, percent, { "data-key": "share" }), by: (t) => t.share },
    { head: "times from", class: "text", cell: (t) => h("td", { class: "text" }, t.times_from || "\u2013"), by: (t) => t.times_from },
  ];
  if (logs.length) columns.splice(9, 0, { head: "logarithmic", class: "text wide-only", cell: (t) => h("td", { class: "text wide-only" }, bullet(t, least, most)) });
  made.append(table("tasks-table", "Times of tasks", columns, rows));
  if (logs.length) made.append(h("p", { class: "keys wide-only" }, "On the right: a bar for measured, its line to the longest; a dark mark for predicted, a red one for the worst case."));
  if (D.missing.run) made.append(nothing("Nothing was run: measured times are missing.", D.missing.run));
  const busy = D.processors.filter((p) => p.predicted !== null || p.measured !== null);
  if (busy.length) {
    const meter = (share) => { const i = h("i", {}); i.style.width = `${Math.min(100, 100 * share)}%`; return h("span", { class: "meter" }, i); };
    const cell = (key) => (p) => h("td", { "data-v": p[key] === null ? null : p[key], "data-key": key }, p[key] === null ? "\u2013" : [meter(p[key]), " ", percent(p[key])]);
    made.append(h("h3", {}, "Processors, share of their time"), table("processors-table", "Processors", [
      { head: "processor", class: "name", cell: (p) => nameCell(p.name), by: (p) => p.name },
      { head: "kind", class: "text", cell: (p) => h("td", { class: "text" }, p.kind), by: (p) => p.kind },
      { head: "predicted", cell: cell("predicted"), by: (p) => p.predicted },
      { head: "measured", cell: cell("measured"), by: (p) => p.measured },
    ], busy));
  }
  return made;
}

const pathName = (p) => (p.task ? `${p.kind === "path" ? "" : `${p.kind} `}${shown(p.source)} \u2192 ${short(p.task)}` : several ? `frames of ${p.app}` : "whole frames");

/** What bounds suppose, and which bounds. */
function suppositions(rows, label) {
  const bounded = rows.filter((r) => r.bound_ns !== null && r.supposed);
  return [...new Set(bounded.map((r) => r.supposed))].map((words) => {
    const names = bounded.filter((r) => r.supposed === words).map(label);
    return h("p", { class: "soft", "data-key": "supposed" }, `These bounds hold if ${words}: ${names.join(", ")}.`);
  });
}

/** How much longer tasks may take until an app is late. */
function slackTable() {
  const { word, text } = timeColumn(D.slack.flatMap((r) => [r.now_ns, r.most_ns]));
  const figure = (key) => ({ cell: (r) => number(r[key], text, { "data-key": key }), by: (r) => r[key] });
  const columns = [
    { head: "slack of", class: "name", cell: (r) => nameCell(shown(r.of)), by: (r) => r.of },
    { head: `worst case, ${word}`, ...figure("now_ns") },
    { head: `may take, ${word}`, ...figure("most_ns") },
    { head: "factor", cell: (r) => number(r.factor, (v) => v.toFixed(3), { "data-key": "factor" }), by: (r) => r.factor },
    { head: "then late", class: "text", cell: (r) => h("td", { class: "text" }, r.late.join(", ") || "nothing"), by: (r) => r.late.join() },
  ];
  return [h("h3", {}, "Slack: how long tasks may take, each row alone"), table("slack-table", "Slack", columns, D.slack)];
}

function pathsSection() {
  const made = section("paths", "Latencies", "From the release of the newest data to the end of the task that needs it. A bound is proved for the mapped program" + (D.twin ? " on the platform; what is measured is of a twin." : ": nothing measured may be above it."));
  const figures = D.paths.flatMap((p) => [p.p50_ns, p.p99_ns, p.max_ns, p.bound_ns, p.deadline_ns]);
  const { word, text } = timeColumn(figures);
  const figure = (key, look) => ({ cell: (p) => number(p[key], text, { "data-key": key, class: look ? look(p) : null }), by: (p) => p[key] });
  const over = (key, limit) => (p) => (p[key] !== null && p[limit] !== null && p[key] > p[limit] ? "off" : null);
  made.append(table("paths-table", "Latencies of paths", [
    { head: "path", class: "name", cell: (p) => nameCell(pathName(p)), by: pathName },
    { head: "measured", ...figure("count"), cell: (p) => number(p.count, String, { "data-key": "count" }) },
    { head: `mean, ${word}`, ...figure("mean_ns") },
    { head: `p50, ${word}`, ...figure("p50_ns") },
    { head: `p99, ${word}`, ...figure("p99_ns") },
    { head: `longest, ${word}`, ...figure("max_ns", (p) => (D.twin ? null : over("max_ns", "bound_ns")(p) || over("max_ns", "deadline_ns")(p))) },
    { head: `bound, ${word}`, ...figure("bound_ns", over("bound_ns", "deadline_ns")) },
    { head: `deadline, ${word}`, ...figure("deadline_ns") },
    { head: "missed", cell: (p) => number(p.deadline_ns === null ? null : p.deadline_misses, String, { "data-key": "deadline_misses", class: p.deadline_misses && !D.twin ? "off" : null }), by: (p) => p.deadline_misses },
    { head: "above bound", cell: (p) => number(p.above_bound, String, { "data-key": "above_bound", class: p.above_bound ? "off" : null }), by: (p) => p.above_bound },
  ], D.paths));
  made.append(...suppositions(D.paths, pathName));
  if (D.slack.length) made.append(...slackTable());
  const drawn = D.paths.filter((p) => p.counts.length);
  made.append(h("div", { class: "grid" }, drawn.map((p) => h("figure", { class: "plot" }, h("h3", {}, name(pathName(p))), histogram(p)))));
  if (!drawn.length) made.append(nothing(D.missing.run ? "Nothing was run: measured latencies are missing." : "No frame was finished: there are no latencies.", D.missing.run));
  if (D.states.some((r) => r.bounds.length)) made.append(h("p", { class: "soft" }, "What is proved of each state stands with the states."));
  if (D.missing.bounds !== undefined) made.append(nothing(D.missing.bounds ? "No mapping is stored: bounds are proved when one is looked for, for apps with a period." : "There are no bounds: the stored mapping was not found for deadlines.", D.missing.bounds || null));
  return made;
}

function buffersSection() {
  const made = section("buffers", "Buffers", "In tokens: what the program gives each channel, what it needed of it at once, and the least that keeps the graph alive, or its period.");
  if (!D.channels.length) {
    made.append(nothing("There are no channels."));
    return made;
  }
  const figure = (key) => ({ cell: (c) => number(c[key], String, { "data-key": key }), by: (c) => c[key] });
  const plot = h("div", { class: "plot" });
  const fills = D.measured ? D.measured.fills : {};
  const choose = (channel, row) => {
    row.parentNode.querySelectorAll("tr").forEach((other) => other.removeAttribute("aria-selected"));
    row.setAttribute("aria-selected", "true");
    const steps = fills[channel.name];
    const points = [];
    for (let k = 0; k < steps.length; k += 2) points.push([steps[k], steps[k + 1]]);
    const width = Math.max(300, plot.clientWidth || 900);
    // At most a few points a pixel: the highest of each.
    const [from, to] = [points[0][0], points[points.length - 1][0] + 1];
    const kept = new Map();
    for (const [at, v] of points) {
      const pixel = Math.floor(((at - from) / (to - from)) * width * 2);
      if (!kept.has(pixel) || kept.get(pixel)[1] < v) kept.set(pixel, [at, v]);
    }
    const { text, word } = timeAxis(to);
    plot.replaceChildren(h("h3", {}, name(channelName(channel))), stepLines({
      lines: [{ look: "line", points: [...kept.values()], until: to }, { look: "line other", points: channel.capacity === null ? [] : [[from, channel.capacity]], until: to }],
      x: [from, to], y: [0, Math.max(channel.capacity || 1, ...points.map(([, v]) => v))], xText: text, yText: brief, xName: `time, ${word}`, yName: "tokens", width,
      label: `Tokens on ${channel.name} over time; dashed: its capacity`,
    }));
  };
  made.append(table("buffers-table", "Sizes of channels", [
    { head: "channel", class: "name", cell: (c) => {
      if (!fills[c.name] || fills[c.name].length < 2) return nameCell(channelName(c));
      const pick = h("button", { class: "pick", type: "button", onclick: (event) => choose(c, event.target.closest("tr")) }, name(channelName(c)));
      return h("td", { class: "name" }, pick);
    }, by: channelName },
    { head: "capacity", ...figure("capacity") },
    { head: "most held", ...figure("most") },
    { head: "least", ...figure("least") },
    { head: "for the period", ...figure("for_period") },
    { head: "initial", ...figure("delay") },
    { head: "bytes of a token", ...figure("token_bytes") },
    { head: "type", class: "text", cell: (c) => h("td", { class: "text" }, c.type ? h("code", {}, c.type) : "\u2013"), by: (c) => c.type },
  ], D.channels));
  if (Object.keys(fills).length) made.append(h("p", { class: "keys" }, "Choose a channel to see how full it was."));
  made.append(plot);
  return made;
}

function frontsSection() {
  const made = section("fronts", "Trade-offs", "Choose a point: its configuration, what is different from the one in use, and what to write for it.");
  const grid = h("div", { class: "grid" });
  for (const app of D.apps) {
    const points = D.memory.filter((p) => p.app === app.name);
    if (!points.length) continue;
    const detail = h("div", { class: "detail", role: "status" }, "Choose a point.");
    const inBytes = points.every((p) => p.bytes !== null);
    const size = (p) => (inBytes ? p.bytes : p.tokens);
    const word = inBytes ? "bytes" : "tokens";
    const xs = points.map(size);
    const ys = points.map((p) => p.period_ns);
    const pad = (a, b) => [a - 0.06 * (b - a || a || 1), b + 0.06 * (b - a || b || 1)];
    const { text, word: unit } = app.unit_times ? { text: String, word: "firings" } : timeAxis(Math.max(...ys));
    const own = D.channels.filter((c) => c.app === app.name);
    grid.append(h("figure", { class: "plot", "data-front": app.name }, h("h3", {}, several ? [name(app.name), ": "] : null, "memory against period"),
      scatter({
        points: points.map((p) => ({ x: size(p), y: p.period_ns, label: `${size(p)} ${word}, period ${time(p.period_ns, app.unit_times)}` })),
        x: pad(Math.min(...xs), Math.max(...xs)), y: [0, Math.max(...ys) * 1.1], xText: brief, yText: text, xName: `buffers, ${word}`, yName: `period, ${unit}`, steps: true,
        label: `${count(points.length, "step")} of memory against period`,
        chosen: (k) => {
          const p = points[k];
          const changed = own.filter((c) => c.capacity !== null && c.capacity !== p.channels[c.name]);
          detail.replaceChildren(h("p", {}, h("b", { "data-key": "period_ns", "data-v": p.period_ns }, time(p.period_ns, app.unit_times)), " between frames with ",
            h("b", { "data-key": inBytes ? "bytes" : "tokens", "data-v": size(p) }, size(p).toLocaleString("en")), ` ${word} of buffers`),
          h("p", { class: "soft" }, changed.length ? `${count(changed.length, "channel")} of the program ${changed.length === 1 ? "has" : "have"} another capacity.` : ""),
          h("pre", {}, Object.entries(p.channels).map(([c, n]) => { const known = own.find((o) => o.name === c); return `${known ? channelName(known) : c}  ${n}${known && known.capacity !== null && known.capacity !== n ? `  (now ${known.capacity})` : ""}`; }).join("\n")));
        },
      }), detail));
  }
  if (D.search && D.search.contestants.length) grid.append(contestants());
  if (D.search && D.search.front.length) grid.append(searchFront());
  if (grid.childNodes.length) made.append(grid);
  if (D.missing.memory) made.append(nothing("Memory and period: there is nothing to trade, or finding out takes longer than a page should.", D.missing.memory));
  if (D.missing.search) made.append(nothing("No mapping is stored: there are no configurations to compare.", D.missing.search));
  return made;
}

/** Text to copy into a .flow text; a page whose server may change the stored mapping can apply it directly. */
function pins(text) {
  if (!text) return [];
  const use = window.flowc.use && text !== D.search.used && !D.states.length;
  return [h("pre", {}, text), button("Copy", (event) => copy(text, event.target)), use ? " " : "", use ? button("Use this mapping", (event) => window.flowc.use(text, event.target)) : ""];
}

const room = (values) => {
  const [a, b] = [Math.min(...values), Math.max(...values)];
  return [Math.max(0, a - 0.1 * (b - a || a)), b + 0.1 * (b - a || b)];
};
const share = (v) => `${+(100 * v).toPrecision(3)} %`;
const watts = (v) => `${+v.toPrecision(4)} W`;

/** The answers of a search for deadlines: load of the busiest processor against how tight the tightest deadline is, or against power if that was the objective. */
function searchFront() {
  const points = D.search.front;
  const detail = h("div", { class: "detail", role: "status" }, "Choose a point.");
  const power = points[0][3] !== null;
  const yText = power ? watts : share;
  const [xs, ys] = [points.map(([u]) => u), points.map(([, t, , w]) => (power ? w : t))];
  const busiest = (k) => ["the busiest processor works ", h("b", { "data-v": xs[k] }, share(xs[k])), " of its time"];
  const tightest = (k) => ["the tightest deadline is used up to ", h("b", { "data-v": points[k][1] }, share(points[k][1])), " in the worst case"];
  const taken = (k) => (power ? ["It takes ", h("b", { "data-v": ys[k] }, watts(ys[k])), " in the mean at its best clock rates. At the highest ones, "] : "Then ");
  const also = (k) => {
    const [, , , , cpus, bytes] = points[k];
    const memory = bytes === null ? "" : `, networks take ${bytes.toLocaleString("en")} bytes`;
    return cpus === null ? "" : ` It uses ${cpus} CPU${cpus === 1 ? "" : "s"}${memory}.`;
  };
  return h("figure", { class: "plot", "data-front": power ? "power" : "search" }, h("h3", {}, power ? "Places that were compared" : "Assignments of the search that keep all deadlines"), scatter({
    points: points.map((point, k) => ({ x: xs[k], y: ys[k], label: `busiest processor ${share(xs[k])}, ${power ? watts(ys[k]) : `tightest deadline ${share(ys[k])} used`}` })),
    x: room(xs), y: room(ys), xText: share, yText, xName: "time of the busiest processor", yName: power ? "mean power" : "share of the tightest deadline", steps: true,
    label: `Undominated assignments: utilization against ${power ? "power" : "response time"}`,
    chosen: (k) => detail.replaceChildren(h("p", {}, taken(k), busiest(k), "; ", tightest(k), ".", also(k)), ...pins(points[k][2])),
  }), detail);
}

/** The best value and the bound over time. */
function convergence(found) {
  const points = found.history;
  const values = points.flatMap(([, , v, b]) => [v, b]).filter((v) => v !== null);
  const until = Math.max(found.seconds, points[points.length - 1][0]);
  const axes = {
    ns: () => timeAxis(Math.max(...values)),
    nJ: () => ({ text: (v) => brief(v / 1e6), word: "mJ" }),
    W: () => ({ text: brief, word: "W" }),
  };
  const { text, word } = found.unit ? axes[found.unit]() : { text: share, word: "" };
  const energy = found.unit === "W" ? "mean power" : "energy";
  const what = { throughput: "time of a frame", latency: "latency", energy, utilization: "busiest processor" }[found.objective] || found.objective;
  return h("figure", { class: "plot", "data-front": "history" }, stepLines({
    lines: [{ look: "line", points: points.map(([at, , v]) => [at, v]), until }, { look: "line other", points: points.map(([at, , , b]) => [at, b]), until }],
    x: [0, until || 1], y: [0, Math.max(...values) * 1.1], xText: (v) => String(+v.toPrecision(3)), yText: text, xName: "s", yName: `best ${what}${word ? `, ${word}` : ""}`, width: Math.max(280, Math.min(900, document.documentElement.clientWidth - 40)),
    label: `The best value after each of ${points.length} steps; dashed: the bound`,
  }), h("p", { class: "keys" }, points.some(([, , , b]) => b !== null) ? "Dashed: what no answer can be below." : ""));
}

/** Configurations of a search: predicted against measured, on the diagonal where a prediction was right. */
function contestants() {
  const all = D.search.contestants;
  const isTime = D.search.unit === "ns";
  const value = (v) => (isTime ? time(v) : `${+(v / 1e6).toPrecision(4)} mJ`);
  const run = all.filter((c) => c.measured !== null && c.predicted !== null);
  const detail = h("div", { class: "detail", role: "status" }, run.length ? "Choose a point, or a row." : "Choose a row.");
  const better = all.find((c) => c.pins === D.search.used) || all[0];
  const chosen = (c) => {
    const rows = [c.predicted === null ? null : `predicted ${value(c.predicted)}`, c.measured === null ? "not run" : `measured ${value(c.measured)}`,
      c === better ? "the one in use" : c.measured !== null && better.measured ? `${signed(c.measured / better.measured - 1)} against the one in use` : null].filter(Boolean);
    detail.replaceChildren(h("p", {}, h("b", {}, name(c.name)), ": ", rows.join(", ")), h("p", { class: "soft" }, name(c.configuration)), ...pins(c.pins));
  };
  const figure = h("figure", { class: "plot", "data-front": "contestants" }, h("h3", {}, "Configurations of the search: predicted against measured"));
  if (run.length) {
    const limits = [0, Math.max(...run.flatMap((c) => [c.predicted, c.measured])) * 1.08];
    const { text, word } = isTime ? timeAxis(limits[1]) : { text: (v) => brief(v / 1e6), word: "mJ" };
    const what = D.search.objective === "latency" ? "latency" : "time of a frame";
    figure.append(scatter({
      points: run.map((c) => ({ x: c.predicted, y: c.measured, label: `${c.name}: predicted ${value(c.predicted)}, measured ${value(c.measured)}` })),
      x: limits, y: limits, xText: text, yText: text, xName: `predicted ${what}, ${word}`, yName: `measured, ${word}`, diagonal: true, label: "Configurations, predicted against measured", chosen: (k) => chosen(run[k]),
    }));
  }
  const { word, text } = isTime ? timeColumn(all.flatMap((c) => [c.predicted, c.measured])) : { word: "mJ", text: (v) => (v / 1e6).toFixed(3) };
  figure.append(table("contestants-table", "Configurations of the search", [
    { head: "configuration", class: "name", cell: (c) => h("td", { class: "name" }, h("button", { class: "pick", type: "button", onclick: () => chosen(c) }, name(c.name))), by: (c) => c.name },
    { head: `predicted, ${word}`, cell: (c) => number(c.predicted, text, { "data-key": "predicted" }), by: (c) => c.predicted },
    { head: `measured, ${word}`, cell: (c) => number(c.measured, text, { "data-key": "measured" }), by: (c) => c.measured },
    { head: "runs", cell: (c) => number(c.runs, String, { "data-key": "runs" }), by: (c) => c.runs },
  ], all), D.search.decided ? h("p", { class: "soft", "data-key": "decided" }, name(D.search.decided)) : "", detail);
  return figure;
}

/** The bounds of the apps of each state. */
function stateBounds() {
  const rows = D.states.flatMap((r) => r.bounds.map((b) => ({ state: r.name, ...b })));
  if (!rows.length) return [];
  const { word, text } = timeColumn(rows.flatMap((r) => [r.bound_ns, r.seen_ns, r.deadline_ns]));
  const figure = (key, look) => ({ cell: (r) => number(r[key], text, { "data-key": key, class: look ? look(r) : null }), by: (r) => r[key] });
  return [h("h3", {}, "Bounds in each state"), table("bounds-table", "Bounds in each state", [
    { head: "state", class: "name", cell: (r) => nameCell(r.state), by: (r) => r.state },
    { head: "app", class: "text", cell: (r) => h("td", { class: "text" }, name(r.app)), by: (r) => r.app },
    { head: `bound, ${word}`, ...figure("bound_ns", (r) => (r.late ? "off" : null)) },
    { head: `deadline, ${word}`, ...figure("deadline_ns") },
    rows.some((r) => r.seen_ns !== null) && { head: `seen by map, ${word}`, ...figure("seen_ns", (r) => (r.seen_ns !== null && r.bound_ns !== null && r.seen_ns > r.bound_ns ? "off" : null)) },
  ].filter(Boolean), rows), ...suppositions(rows, (r) => `${r.app} in ${r.state}`)];
}

function statesSection() {
  if (!D.states.length) return null;
  const made = section("states", "States", "What runs in each state, and what changes between them take: from the event until every app of the next state has ended a frame. A bound is proved" + (D.twin ? " for the platform; what is measured is of a twin." : ": nothing measured may be above it."));
  const plain = (key) => ({ cell: (r) => h("td", { class: "text" }, r[key] || "\u2013"), by: (r) => r[key] });
  const list = (key) => ({ cell: (r) => h("td", { class: "text" }, r[key].length ? r[key].map((each) => h("div", {}, name(each))) : "\u2013"), by: (r) => r[key].join() });
  const figure = (key, text) => ({ cell: (r) => number(r[key], text, { "data-key": key }), by: (r) => r[key] });
  const columns = [
    { head: "state", class: "name", cell: (r) => nameCell(r.name), by: (r) => r.name },
    { head: "runs", class: "text", ...list("runs") },
    { head: "variants", class: "text", cell: (r) => h("td", { class: "text" }, r.variants.length ? r.variants.map((v) => h("div", {}, name(r.best.some((n) => v.startsWith(`${n} = `)) ? `${v} (best)` : v))) : "\u2013"), by: (r) => r.variants.join() },
    { head: "elsewhere", class: "text", cell: (r) => h("td", { class: "text" }, Object.entries(r.own_places).map(([task, on]) => h("div", {}, name(`${shown(task)} on ${on}`)))), by: (r) => Object.keys(r.own_places).length },
    { head: "weight", ...figure("weight", percent) },
    { head: "clock rates", class: "text", ...plain("clocks") },
    { head: "mW by the model", ...figure("energy_mw", (mw) => mw.toFixed(0)) },
    { head: "entered", ...figure("entered", String) },
    { head: "seconds", ...figure("seconds", (x) => x.toFixed(3)) },
    { head: "joules", ...figure("joules", (x) => x.toFixed(3)) },
  ];
  const known = { variants: (r) => r.variants.length, elsewhere: (r) => Object.keys(r.own_places).length, "clock rates": (r) => r.clocks, "mW by the model": (r) => r.energy_mw !== null, entered: (r) => r.entered !== null, seconds: (r) => r.seconds !== null, joules: (r) => r.joules !== null };
  made.append(table("states-table", "States", columns.filter((c) => !known[c.head] || D.states.some(known[c.head])), D.states));
  if (D.states.some(known.elsewhere)) made.append(h("p", { class: "keys" }, "Elsewhere: what this state has in another place than the others, since it would be late there."));
  made.append(...stateBounds());
  if (!D.changes.length) return made;
  const { word, text } = timeColumn(D.changes.flatMap((c) => [c.bound_ns, c.mean_ns, c.max_ns]));
  const took = (key, look) => ({ cell: (c) => number(c[key], text, { "data-key": key, class: look ? look(c) : null }), by: (c) => c[key] });
  made.append(h("h3", {}, "Changes"), table("changes-table", "Changes of state", [
    { head: "from", class: "name", cell: (c) => nameCell(c.source), by: (c) => c.source },
    { head: "to", class: "text", cell: (c) => h("td", { class: "text" }, name(c.target)), by: (c) => c.target },
    { head: "on", class: "text", cell: (c) => h("td", { class: "text" }, name(c.on)), by: (c) => c.on },
    { head: "times", cell: (c) => number(c.count, String, { "data-key": "count" }), by: (c) => c.count },
    { head: `mean, ${word}`, ...took("mean_ns") },
    { head: `longest, ${word}`, ...took("max_ns", (c) => (c.above_bound ? "off" : null)) },
    { head: `bound, ${word}`, ...took("bound_ns") },
    { head: "above bound", cell: (c) => number(c.above_bound, String, { "data-key": "above_bound", class: c.above_bound ? "off" : null }), by: (c) => c.above_bound },
  ], D.changes));
  return made;
}

function dlaSection() {
  const made = section("dla", "Accelerators", "Which layers of each network an accelerator can run that does not take all, and what keeps the others from it.");
  if (!D.dla.length) {
    made.append(nothing("The platform has no DLA that TensorRT can use, and no NPU.", D.missing.dla));
    return made;
  }
  for (const net of D.dla) {
    made.append(h("h3", {}, name(net.network), h("span", { class: "soft" }, ` on ${net.on}: ${net.legal} of ${count(net.layers, "layer")} can run there`)));
    if (net.rows.length) {
      made.append(table(`dla-${D.dla.indexOf(net)}`, `Rules that layers of ${net.network} break`, [
        { head: "operator", class: "name", cell: (r) => nameCell(r[0]), by: (r) => r[0] },
        { head: "layers", cell: (r) => number(r[1], String), by: (r) => r[1] },
        { head: "rule", class: "text", cell: (r) => h("td", { class: "wide" }, name(r[2])), by: (r) => r[2] },
        { head: "which", class: "text", cell: (r) => h("td", { class: "wide" }, name(r[3])) },
      ], net.rows));
      made.append(h("p", { class: "soft" }, net.runs.length ? `Longest runs without a cut: ${net.runs.map(([a, b, n]) => `${count(n, "layer")} from ${clean(a)} to ${clean(b)}`).join("; ")}.` : ""));
    }
  }
  return made;
}

function searchSection() {
  const made = section("search", "Search", "How the mapping was found.");
  const found = D.search;
  if (!found) {
    made.append(nothing("No mapping is stored.", D.missing.search));
    return made;
  }
  const rows = [["search", found.name], ["objective", found.objective], ["looked at", `${count(found.evaluations, "configuration")}${found.measured_runs ? `, ${count(found.measured_runs, "run")}` : ""}`],
    ["took", `${found.seconds.toFixed(1)} s, seed ${found.seed}`], ["optimal", found.optimal ? `yes, in the model of times, ${found.over}` : "not proved"]];
  if (found.priorities) rows.push(["priorities", found.priorities]);
  made.append(h("dl", { class: "facts" }, rows.map(([word, value]) => [h("dt", {}, word), h("dd", {}, value)])));
  if (found.why.length) made.append(h("ul", { class: "notes" }, found.why.map((line) => h("li", {}, prose(line)))));
  if (found.history.some(([, , v]) => v !== null)) made.append(convergence(found));
  return made;
}

function compareSection() {
  if (!D.compare) return null;
  const made = section("compare", "Comparison", ["What is different from ", name(D.compare.name), ", the largest change first."]);
  const value = (d, v) => (v === null ? "\u2013" : typeof v === "string" ? name(v) : d.what.endsWith("_ns") ? time(v) : d.section === "processors" ? percent(v) : d.what === "energy_mw" ? `${v.toFixed(0)} mW` : String(v));
  const subject = (d) => (CHANNELS.has(d.name) ? channelName(CHANNELS.get(d.name)) : d.section === "paths" ? d.name : shown(d.name));
  const what = (d) => (d.what === "energy_mw" ? "power by the model" : d.what.replace(/_ns$/, "").replaceAll("_", " "));
  made.append(D.compare.differences.length ? table("compare-table", "Differences", [
    { head: "what", class: "name", cell: (d) => nameCell(subject(d)), by: (d) => d.name },
    { head: "", class: "text", cell: (d) => h("td", { class: "text" }, `${d.section}, ${what(d)}`), by: (d) => d.section + d.what },
    { head: "here", cell: (d) => h("td", { "data-v": String(d.here) }, value(d, d.here)) },
    { head: "there", cell: (d) => h("td", { "data-v": String(d.there) }, value(d, d.there)) },
    { head: "change", cell: (d) => number(d.change, signed), by: (d) => (d.change === null ? null : Math.abs(d.change)) },
  ], D.compare.differences) : nothing("Nothing that both of them know is different."));
  for (const [title, names] of [["Only here", D.compare.only_here], ["Only there", D.compare.only_there]]) {
    if (names.length) made.append(h("h3", {}, title), h("p", { class: "soft" }, names.slice(0, 60).map((n, k) => [k ? "; " : "", name(n)]), names.length > 60 ? ` and ${names.length - 60} more` : ""));
  }
  return made;
}

/** The trace as Chrome and Perfetto read it: measured as process 1, predicted as 2. */
function perfetto() {
  const events = [];
  const add = (chart, process, title) => {
    events.push({ ph: "M", name: "process_name", pid: process, tid: 0, args: { name: title } });
    chart.lanes.forEach((lane, k) => {
      events.push({ ph: "M", name: "thread_name", pid: process, tid: k + 1, args: { name: lane.name } });
      for (let i = 0; i < lane.bars.length; i += 4) {
        const task = D.tasks[lane.bars[i]];
        const firing = lane.bars[i + 1];
        events.push({ ph: "X", name: task.name, pid: process, tid: k + 1, ts: (lane.bars[i + 2] - chart.zero_ns) / 1000, dur: lane.bars[i + 3] / 1000, args: { firing, frame: Math.floor(firing / Math.max(1, task.firings)) } });
      }
    });
    for (const at of chart.releases) events.push({ ph: "i", s: "p", name: "release", pid: process, tid: 0, ts: (at - chart.zero_ns) / 1000 });
    for (const f of chart.frames) {
      const one = { cat: "frame", name: "frame", pid: process, tid: 0, id: `${f.app} ${f.frame}` };
      events.push({ ...one, ph: "b", ts: (f.begin_ns - chart.zero_ns) / 1000, args: { app: f.app, frame: f.frame } }, { ...one, ph: "e", ts: (f.end_ns - chart.zero_ns) / 1000 });
      if (f.late_ns) events.push({ ph: "i", s: "p", name: "deadline missed", pid: process, tid: 0, ts: (f.end_ns - chart.zero_ns) / 1000, args: { app: f.app, frame: f.frame, late_us: f.late_ns / 1000 } });
    }
    for (const [channel, steps] of Object.entries(chart.fills)) {
      for (let i = 0; i < steps.length; i += 2) events.push({ ph: "C", name: channel, pid: process, ts: (steps[i] - chart.zero_ns) / 1000, args: { tokens: steps[i + 1] } });
    }
  };
  if (D.measured) add(D.measured, 1, "measured");
  D.predicted.filter((c) => !c.unit).forEach((c, k) => add(c, k ? 100 + k : 2, `predicted: ${c.app}`));
  return JSON.stringify({ traceEvents: events, displayTimeUnit: "ms" });
}

function traceSection() {
  const made = section("trace", "Trace", "The firings above as a file for ui.perfetto.dev or chrome://tracing: measured, and predicted beside it, with frames, releases and missed deadlines.");
  if (!D.measured && !D.predicted.some((c) => !c.unit)) made.append(nothing("There is nothing to save yet.", D.missing.trace));
  else made.append(button("Save the trace", () => save(perfetto(), `${D.name}.trace.json`, "application/json")));
  return made;
}
