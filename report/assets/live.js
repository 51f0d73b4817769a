// While the program runs: its status twice a second, forwarded by its server.
const KEPT = 240; // two minutes
const live = section("live", "Now", null);
const state = h("p", { class: "lead", role: "status" }, "Waiting for the program to start.");
const board = h("div", { class: "apps" });
const others = h("div", { class: "grid" });
live.append(state, board, others);
document.getElementById("head").after(live);
const past = new Map();

function spark(values, label) {
  const most = Math.max(...values, 1e-9);
  const step = 300 / (KEPT - 1);
  const from = 300 - (values.length - 1) * step;
  const d = values.map((v, k) => `${k ? "L" : "M"}${(from + k * step).toFixed(1)} ${(42 - (38 * v) / most).toFixed(1)}`).join("");
  return s("svg", { viewBox: "0 0 300 46", role: "img", "aria-label": label }, s("line", { class: "axis", x1: 0, x2: 300, y1: 42.5, y2: 42.5 }), s("path", { class: "line", d }));
}

function keep(key, value) {
  const values = past.get(key) || [];
  if (value !== null) values.push(value);
  if (values.length > KEPT) values.shift();
  past.set(key, values);
  return values;
}

function meters(title, entries, words) {
  if (!entries.length) return null;
  return h("div", {}, h("h3", {}, title), entries.map(([label, share, text]) => {
    const i = h("i", {});
    i.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
    return h("div", { class: "layer", title: words }, name(label), h("span", { class: "meter" }, i), h("b", {}, text));
  }));
}

function show(now) {
  state.textContent = `Running for ${now.seconds.toFixed(0)} s${now.state ? `, in ${clean(now.state)}` : ""}.`;
  board.replaceChildren(...Object.entries(now.apps).map(([app, a]) => {
    const figure = (word, value, below, look) => h("div", {}, h("dt", {}, word), h("dd", { class: look, "data-live": `${app} ${word}` }, value, below));
    const plot = (key, value, label) => h("small", { class: "plot" }, spark(keep(`${app} ${key}`, value), label));
    return h("div", { class: "app" }, several ? h("h3", {}, name(app)) : null, h("dl", { class: "figures" },
      figure("frames", a.frames.toLocaleString("en"), a.skipped ? h("small", {}, `${a.skipped} skipped`) : null),
      figure("frames per second", String(+a.fps.toPrecision(4)), plot("fps", a.fps, "frames per second, the last two minutes")),
      figure("last latency", a.latency_ms === null ? "\u2013" : time(a.latency_ms * 1e6), plot("latency", a.latency_ms, "latency, the last two minutes")),
      figure("deadlines missed", String(a.deadline_misses), null, a.deadline_misses ? "bad" : "")));
  }));
  others.replaceChildren(...[
    meters("Processors", Object.entries(now.processors).map(([p, share]) => [p, share, percent(share, 0)]), "busy in the last half second"),
    meters("Channels between processors", Object.entries(now.channels).map(([c, [filled, capacity]]) => [CHANNELS.has(c) ? channelName(CHANNELS.get(c)) : c, filled / capacity, `${filled} of ${capacity}`]), "tokens now"),
  ].filter(Boolean));
}

/** The progress of a search: its messages, and the best value and the bound so far. */
function looking(now) {
  state.textContent = `Looking for a mapping for ${now.seconds.toFixed(0)} s: ${count(now.evaluations, "configuration")} so far.`;
  // Values are shares of a processor (with deadlines), or ns.
  const deadlines = now.history.every(([, , v, b]) => (v ?? b ?? 0) <= 10);
  const found = { seconds: now.seconds, history: now.history, unit: deadlines ? "" : "ns", objective: deadlines ? "utilization" : "throughput" };
  const known = now.history.some(([, , v]) => v !== null);
  board.replaceChildren(h("p", { class: "soft", "data-live": "search" }, now.text), ...(known ? [convergence(found)] : []));
  others.replaceChildren();
}

/** Opens the trace in a tab of Perfetto, which takes it by message: it never leaves this machine. */
function inPerfetto() {
  const origin = "https://ui.perfetto.dev";
  const tab = window.open(origin);
  if (!tab) return;
  const asks = setInterval(() => tab.postMessage("PING", origin), 200);
  window.addEventListener("message", function answer(event) {
    if (event.source !== tab || event.origin !== origin || event.data !== "PONG") return;
    clearInterval(asks);
    window.removeEventListener("message", answer);
    tab.postMessage({ perfetto: { buffer: new TextEncoder().encode(perfetto()).buffer, title: D.name } }, origin);
  });
  setTimeout(() => clearInterval(asks), 60000);
}
for (const saved of document.querySelectorAll("#trace button")) saved.after(" ", button("Open in Perfetto", inPerfetto));

/** Makes a mapping the stored one, if the server permits that. */
async function use(text, from) {
  from.disabled = true;
  from.textContent = "Working out what is proved of it\u2026";
  let said;
  try {
    const answer = await fetch("use", { method: "POST", body: text });
    said = answer.ok ? "It is the stored mapping now." : await answer.text();
  } catch (error) {
    said = "flowc does not answer any more.";
  }
  from.replaceWith(h("p", { role: "status" }, said));
}
if (CHOICE !== null) window.flowc.use = use;

const events = new EventSource("events");
let ran = false;
let searched = false;
events.addEventListener("chosen", (event) => { if (JSON.parse(event.data) !== CHOICE) location.reload(); }); // it has what is proved of it
events.addEventListener("search", (event) => { if (!ran) looking(JSON.parse(event.data)); });
events.addEventListener("live", (event) => { ran = true; show(JSON.parse(event.data)); });
events.addEventListener("state", (event) => {
  const now = JSON.parse(event.data);
  if (now === "searching") { searched = true; state.textContent = "Looking for a mapping."; }
  else if (now === "searched") { if (searched) location.reload(); } // the page has the mapping now
  else if (now === "running") { ran = true; board.replaceChildren(); state.textContent = "The program starts."; }
  else if (D.status === null && ran) location.reload(); // the page has what was measured now
  else {
    state.textContent = "The program has ended: what it measured is below.";
    if (CHOICE === null) events.close(); // else another mapping may be chosen, and the program runs again
  }
});
events.addEventListener("error", () => { if (events.readyState === EventSource.CLOSED || !ran) return; state.textContent = "flowc does not answer any more."; });
