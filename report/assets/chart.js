// Charts with axes: histograms, points, steps.

/** Round numbers between two others, about so many. */
function ticks(least, most, wanted) {
  if (!(most > least)) return [least];
  const rough = (most - least) / wanted;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * size).find((k) => k >= rough);
  const found = [];
  for (let v = Math.ceil(least / step) * step; v <= most * (1 + 1e-9); v += step) found.push(Math.abs(v) < step * 1e-6 ? 0 : v);
  return found;
}

/** Round numbers along a logarithmic axis, few enough to be read. */
function factors(least, most) {
  if (most / least < 4) return ticks(least, most, 4);
  const found = [];
  for (let size = 10 ** Math.floor(Math.log10(least)); size <= most; size *= 10) found.push(size, 2 * size, 5 * size);
  const inside = found.filter((v) => v >= least && v <= most);
  return inside.length > 7 ? inside.filter((v) => String(v)[0] === "1") : inside;
}

/** A frame with axes; `place(x, y)` are its coordinates. Labels of axes are written by `xText` and `yText`. */
function axes({ width = 480, height = 220, x, y, xText, yText, xName, yName, label, left = 56, logarithmic = false }) {
  const area = { left, top: 12, right: width - 12, bottom: height - (xName ? 40 : 24) };
  const along = logarithmic ? (v) => Math.log(Math.max(v, 1) / x[0]) / Math.log(x[1] / x[0]) : (v) => (v - x[0]) / (x[1] - x[0] || 1);
  const X = (v) => area.left + along(v) * (area.right - area.left);
  const Y = (v) => area.bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (area.bottom - area.top);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  for (const v of ticks(y[0], y[1], 4)) {
    svg.append(s("line", { class: "faint", x1: area.left, x2: area.right, y1: Y(v), y2: Y(v) }));
    svg.append(s("text", { x: area.left - 6, y: Y(v) + 4, "text-anchor": "end" }, yText(v)));
  }
  for (const v of logarithmic ? factors(x[0], x[1]) : ticks(x[0], x[1], width < 500 ? 4 : 8)) {
    svg.append(s("text", { x: X(v), y: area.bottom + 16, "text-anchor": "middle" }, xText(v)));
  }
  svg.append(s("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  if (xName) svg.append(s("text", { x: area.right, y: height - 6, "text-anchor": "end" }, xName));
  if (yName) svg.append(s("text", { x: area.left + 4, y: area.top + 4 }, yName));
  return { svg, X, Y, area };
}

/** A number on an axis: short. */
function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return String(+value.toPrecision(3));
}

/** Texts of times along an axis, all in the unit of the largest one. */
function timeAxis(most) {
  const [size, word] = unitOf(most);
  return { text: (ns) => `${+(ns / size).toPrecision(4)}`, word };
}

/** Latencies of a path, with its quantiles, bound and deadline. */
function histogram(path) {
  const ends = [path.edges_ns[path.edges_ns.length - 1], path.bound_ns, path.deadline_ns].filter((v) => v);
  // A bound far away would leave nothing of the rest: it is shown at the edge then.
  const longest = ends[0];
  const near = ends.filter((v) => v <= 4 * longest);
  const span = [Math.max(1, Math.min(path.edges_ns[0], ...near)), Math.max(...near)];
  const room = (span[1] / span[0]) ** 0.04 * 1.005;
  const x = [span[0] / room, span[1] * room];
  const most = Math.max(...path.counts);
  const { text, word } = timeAxis(x[1]);
  const { svg, X, Y, area } = axes({
    x, y: [0, most], xText: text, yText: brief, xName: `latency, ${word} (logarithmic)`, height: 210, left: 44, logarithmic: true,
    label: `${count(path.count, "latency").replace("latencys", "latencies")}, p50 ${time(path.p50_ns)}, p99 ${time(path.p99_ns)}, longest ${time(path.max_ns)}`,
  });
  path.counts.forEach((n, k) => {
    if (!n) return;
    const [from, to] = [X(path.edges_ns[k]), X(path.edges_ns[k + 1])];
    svg.append(s("rect", { class: "bar", x: from, width: Math.max(1, to - from - 0.5), y: Math.min(Y(n), area.bottom - 1), height: Math.max(1, area.bottom - Y(n)) },
      s("title", {}, `${count(n, "time")} from ${time(path.edges_ns[k])} to ${time(path.edges_ns[k + 1])}`)));
  });
  const marks = [["p50", path.p50_ns, "quantile"], ["p99", path.p99_ns, "quantile"], ["deadline", path.deadline_ns, "limit"], ["bound", path.bound_ns, "limit bound"]]
    .filter(([, at]) => at !== null).sort((a, b) => a[1] - b[1]);
  let last = -Infinity;
  let row = 0;
  for (const [word_, at, look] of marks) {
    const out = at > x[1];
    const place = out ? area.right : X(at);
    row = place - last < 62 ? row + 1 : 0;
    last = place;
    const y = area.top + 4 + 14 * (row % 4);
    if (!out) svg.append(s("line", { class: look, x1: place, x2: place, y1: area.top - 6, y2: area.bottom }));
    const side = place > (area.left + area.right) / 2;
    const strong = look.startsWith("limit") ? "limit" : "strong";
    svg.append(s("text", { class: strong, x: place + (side ? -4 : 4), y, "text-anchor": side ? "end" : "start" },
      out ? `${word_} ${time(at)} \u2192` : word_));
  }
  return svg;
}

/** Points to choose from. `points` have x, y and a label; `chosen` gets the chosen one. */
function scatter({ points, x, y, xText, yText, xName, yName, label, diagonal, steps, chosen }) {
  const frame = axes({ x, y, xText, yText, xName, yName, label, height: 270 });
  const { svg, X, Y } = frame;
  if (diagonal) svg.append(s("line", { class: "line other", x1: X(Math.max(x[0], y[0])), y1: Y(Math.max(x[0], y[0])), x2: X(Math.min(x[1], y[1])), y2: Y(Math.min(x[1], y[1])) }));
  if (steps) svg.append(s("path", { class: "line other", d: points.map((p, k) => (k ? `H${X(p.x)}V${Y(p.y)}` : `M${X(p.x)} ${Y(p.y)}`)).join("") }));
  const dots = points.map((p, k) => {
    const choose = () => {
      dots.forEach((dot) => { dot.classList.remove("chosen"); dot.setAttribute("aria-pressed", "false"); });
      dots[k].classList.add("chosen");
      dots[k].setAttribute("aria-pressed", "true");
      chosen(k);
    };
    return s("circle", {
      class: "point", cx: X(p.x), cy: Y(p.y), r: 6, tabindex: "0", role: "button", "aria-label": p.label, "aria-pressed": "false", onclick: choose,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } },
    }, s("title", {}, p.label));
  });
  svg.append(...dots);
  return svg;
}

/** Lines that stay where they are until they change: the best value of a search so far, or tokens on a channel. */
function stepLines({ lines, x, y, xText, yText, xName, yName, label, width, height = 200 }) {
  const { svg, X, Y } = axes({ x, y, xText, yText, xName, yName, label, width, height });
  for (const line of lines) {
    const points = line.points.filter(([, v]) => v !== null);
    if (!points.length) continue;
    const path = points.map(([at, v], k) => (k ? `H${X(at).toFixed(1)}V${Y(v).toFixed(1)}` : `M${X(at).toFixed(1)} ${Y(v).toFixed(1)}`)).join("");
    svg.append(s("path", { class: line.look, d: `${path}H${X(line.until === undefined ? points[points.length - 1][0] : line.until).toFixed(1)}` }));
  }
  return svg;
}
