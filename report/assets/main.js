// Puts the page together.
const graph = graphSection();
const gantt = ganttSection();
const sections = [headSection(), graph.made, gantt.made, tasksSection(), pathsSection(), statesSection(), buffersSection(), frontsSection(), dlaSection(), searchSection(), compareSection(), traceSection()].filter(Boolean);
document.getElementById("main").append(...sections);
const links = sections.map((made) => h("a", { href: `#${made.id}` }, made.id === "head" ? name(D.name) : made.querySelector("h2").textContent));
document.getElementById("nav").append(h("div", {}, links));
graph.draw();
gantt.draw();

let width = document.documentElement.clientWidth;
window.addEventListener("resize", () => {
  if (width === document.documentElement.clientWidth) return;
  width = document.documentElement.clientWidth;
  graph.draw();
  if (gantt.gantt) gantt.gantt.paint();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colors.clear();
  graph.draw();
  if (gantt.gantt) gantt.gantt.paint();
});
if ("IntersectionObserver" in window) {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links[sections.indexOf(entry.target)].setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  sections.forEach((made) => seen.observe(made));
}
window.flowc = { document: D, graph, gantt };
window.READY = performance.now();
