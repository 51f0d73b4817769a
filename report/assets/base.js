// Shared by all scripts: the document, elements, readable numbers, tables.
const D = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const FILLS = ["#9cc9ee", "#a9d8a0", "#f6c27d", "#cdb7ec", "#8fd6cf", "#f3b0c3", "#e9dd7e", "#c9b8a6", "#b8c4f0", "#c9e39b"];
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text unchanged, except characters that would hide or reverse the following text: those are shown. */
function clean(text) {
  return String(text).replace(HIDDEN, (c) => `\u27e8${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : typeof value === "string" ? clean(value) : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : clean(child));
  }
  return made;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(NS, tag), attributes, children);
const name = (text) => h("bdi", { title: text }, text);
/** Text of users and messages, with `code` in it. */
const prose = (text) => h("bdi", {}, String(text).split(/`([^`]+)`/).map((part, k) => (k % 2 ? h("code", {}, part) : part)));
const colors = new Map();
/** A color of the style; they change with the scheme. */
function color(variable) {
  if (!colors.has(variable)) colors.set(variable, getComputedStyle(document.documentElement).getPropertyValue(variable).trim());
  return colors.get(variable);
}
const short = (full) => full.slice(full.indexOf(".") + 1);
const several = D.apps.length > 1;
const channelName = (c) => `${shown(c.source)}.${c.source_port} \u2192 ${short(c.target)}.${c.target_port}`;
const CHANNELS = new Map(D.channels.map((c) => [c.name, c]));
/** The place of a task, and the states with another one. */
const placesOf = (task) => [task.processors.join(", "), ...D.states.filter((s) => s.own_places[task.name]).map((s) => `${s.own_places[task.name]} in ${s.name}`)].join("; ");
const shown = (full) => (several ? full : short(full));
const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const signed = (change) => `${change > 0 ? "+" : change < 0 ? "\u2212" : ""}${(100 * Math.abs(change)).toFixed(Math.abs(change) < 0.1 ? 1 : 0)} %`;

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
/** The unit in which a time of so many ns is a number of sensible length. */
const unitOf = (ns) => UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];

/** A time on its own: four digits and a unit. */
function time(ns, unit = false) {
  if (ns === null || ns === undefined) return "\u2013";
  if (unit) return String(ns);
  const [size, word] = unitOf(ns);
  const value = ns / size;
  return `${word === "ns" ? Math.round(value) : value.toFixed(Math.max(0, 3 - Math.floor(Math.log10(Math.max(1, Math.abs(value))))))} ${word}`;
}

/** Numbers of one column of times have one unit. */
function timeColumn(values) {
  const most = Math.max(0, ...values.filter((v) => v !== null && v !== undefined));
  const [size, word] = most >= 1e10 ? UNITS[0] : most >= 1e6 ? UNITS[1] : most >= 2e4 ? UNITS[2] : UNITS[3];
  const digits = { s: 4, ms: 3, "\u00b5s": 1, ns: 0 }[word];
  return { word, text: (ns) => (ns / size).toFixed(digits) };
}

/** A cell with a number: `data-v` is the value in the document, the text is readable. */
function number(value, text, attributes) {
  const known = value !== null && value !== undefined;
  return h("td", { "data-v": known ? value : null, ...attributes }, known ? text(value) : "\u2013");
}

//: Rows of a table that are shown at first: a click shows more.
const MOST_ROWS = 200;

/**
 * A table that sorts by its heads. A column has a `head`, a `cell` (row -> td), and `by` (row -> what to sort by).
 */
function table(id, caption, columns, rows, options = {}) {
  const body = h("tbody");
  let order = [...rows];
  let most = MOST_ROWS;
  const rest = h("p", {}, rows.length > most ? button(`Show all ${rows.length.toLocaleString("en")}`, () => { most = Infinity; rest.remove(); draw(); }) : null);
  const draw = () => body.replaceChildren(...order.slice(0, most).map((row) => {
    const made = h("tr", {}, columns.map((c) => c.cell(row)));
    if (options.row) options.row(made, row);
    return made;
  }));
  const heads = columns.map((c) => {
    const head = h("th", { scope: "col", class: c.class });
    if (!c.by) return fill(head, {}, [c.head]);
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const value = (row) => (c.by(row) === null || c.by(row) === undefined ? -Infinity : c.by(row));
      order = [...rows].sort((a, b) => {
        const [x, y] = down ? [value(a), value(b)] : [value(b), value(a)];
        return x < y ? -1 : x > y ? 1 : 0;
      });
      draw();
    };
    return fill(head, {}, [h("button", { type: "button", onclick: sort }, c.head)]);
  });
  draw();
  const made = h("table", { id }, h("caption", { class: "sr" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  const end = rows.length > most ? rest : null;
  return h("div", { class: columns.length > 5 ? "scroll" : "scroll compact", tabindex: "0", role: "region", "aria-label": caption }, made, end);
}

/** Shown for unknown values: the command that computes them. */
function nothing(said, command) {
  return h("p", { class: "none" }, said, command ? [" ", h("code", {}, command)] : null);
}

const button = (label, action, attributes) => h("button", { type: "button", class: "tool", onclick: action, ...attributes }, label);

function section(id, title, lead, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, children);
}

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) { // pages of files may not be allowed to
    const area = h("textarea", { class: "sr" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    from.focus();
  }
  const before = from.textContent;
  from.textContent = "Copied";
  setTimeout(() => { from.textContent = before; }, 1500);
}

function save(text, file, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const tip = document.getElementById("tip");
function say(text, x, y) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = clean(text);
  const room = document.documentElement.clientWidth;
  tip.style.left = "0px";
  const width = tip.offsetWidth;
  tip.style.left = `${Math.max(8, Math.min(x + 14, room - width - 8)) + window.scrollX}px`;
  tip.style.top = `${y + 16 + window.scrollY}px`;
}
