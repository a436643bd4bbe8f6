"use strict";
// Search, keys, theme, and the code that starts the page.

function startSearch() {
  const input = byId("search"), list = byId("found"), most = 40;
  const entries = [
    ...kernels.map((kernel) => ["kernel", kernel.number, kernel.name, kernel.class]),
    ...nodes.map((node, i) => ["node", i, nodeLabel(node), node.op + (node.module ? " in " + node.module : "")]),
    ...[...modules].map(([path, all]) => ["module", path, path, plural(all.length, "node")]),
    ...values.map((value, i) => ["value", i, value.label, value.kind === "weight" ? "weight" : value.type]),
  ].map(([kind, of, name, more]) => ({ kind, of, name, more, text: (name + " " + more).toLowerCase() }));
  let found = [], chosen = 0;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    if (found.length === 0) return;
    input.setAttribute("aria-activedescendant", "found-" + chosen);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  };
  const take = (i) => {
    const entry = found[i];
    if (!entry) return;
    close();
    input.blur();
    select(entry.kind, entry.of);
    byId("picture").scrollIntoView({ block: "nearest" });
  };
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    if (words.length === 0) return close();
    const all = entries.filter((entry) => words.every((word) => entry.text.includes(word)));
    found = all.slice(0, most);
    chosen = 0;
    const keepFocus = (event) => event.preventDefault();
    list.replaceChildren(...found.map(({ kind, name, more }, i) =>
      html("li", { role: "option", id: "found-" + i, onmousedown: keepFocus, onclick: () => take(i) },
        span("found-kind", kind === "value" ? "tensor" : kind), span("found-name mono", shortened(name, 60)),
        span("soft", shortened(more, 40)))));
    if (all.length > most) list.append(html("li", { class: "soft", role: "presentation" }, `and ${all.length - most} more`));
    if (all.length === 0) list.append(html("li", { class: "soft", role: "presentation" }, "Nothing is called so."));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark();
  };
  input.addEventListener("input", search);
  input.addEventListener("focus", search);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      chosen = (chosen + step + found.length) % found.length;
      mark();
      event.preventDefault();
    } else if (event.key === "Enter") {
      take(chosen);
    } else if (event.key === "Escape") {
      input.value = "";
      input.blur();
    }
    event.stopPropagation();
  });
}

// The theme follows the system until a key or the button changes it. Printing uses the light theme.
function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
  const follow = () => (root.dataset.theme = dark.matches ? "dark" : "light");
  follow();
  dark.addEventListener("change", follow);
  let shown = null;
  addEventListener("beforeprint", () => {
    shown = root.dataset.theme;
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => (root.dataset.theme = shown));
}

function toggleTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
}

function stepKernel(step) {
  const now = selection.kind === "none" ? (step > 0 ? -1 : kernels.length) : shownKernel;
  const next = Math.max(0, Math.min(kernels.length - 1, now + step));
  if (kernels.length > 0) select("kernel", next);
}

function startKeys() {
  const help = byId("help");
  const keys = {
    "/": () => byId("search").focus({ preventScroll: true }),
    "?": () => help.showModal(),
    t: toggleTheme,
    Escape: () => select("none", null),
    f: () => fit(true),
    "+": () => zoomBy(1.25),
    "=": () => zoomBy(1.25),
    "-": () => zoomBy(0.8),
    e: expandAll,
    c: collapseAll,
    j: () => stepKernel(1),
    k: () => stepKernel(-1),
    ArrowRight: () => stepKernel(1),
    ArrowLeft: () => stepKernel(-1),
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, dialog") !== null;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    if (event.key.startsWith("Arrow") && event.target.closest(".code, .table-wrap")) return;  // arrow keys scroll there
    event.preventDefault();
    keys[event.key]();
  });
  byId("theme").addEventListener("click", toggleTheme);
  byId("help-button").addEventListener("click", () => help.showModal());
}

function startModules() {
  const options = [...modules].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  byId("modules").append(html("option", { value: "" }, options.length ? "all" : "none are named"), ...options.map(([path, all]) =>
    html("option", { value: path }, "\u00a0".repeat(2 * (path.split(".").length - 1)) + shortened(path, 50) + " (" + all.length + ")")));
  byId("modules").disabled = options.length === 0;
  byId("modules").addEventListener("change", (event) => (event.target.value ? select("module", event.target.value) : select("none", null)));
}

function startSections() {
  const names = { picture: "Picture", kernels: "Kernels", crossing: "Crossing memory", roofline: "Roofline", times: "Times",
                  tuning: "Tuning", nodes: "Nodes" };
  byId("sections").append(...Object.entries(names).filter(([id]) => byId(id)).map(([id, name]) =>
    html("a", { href: "#" + id, onclick: (event) => {
      event.preventDefault();
      byId(id).scrollIntoView({ behavior: "smooth", block: "start" });
    } }, name)));
}

function startLegend() {
  const classes = [...new Set(kernels.map((kernel) => kernel.class))];
  const lines = { memory: "crosses memory", input: "input", output: "output", inside: "inside a kernel" };
  byId("legend").append(...classes.map((name) => span("c-" + name, span("swatch"), name)),
    ...Object.entries(lines).map(([kind, name]) => html("span", null, span("line-key " + kind), name)));
}

startTheme();
startSummary();
startLegend();
startModules();
startInspector();
startKernelTable();
startCrossingTable();
startRoofline();
startTimes();
startTuningTable();
startNodeTable();
startSections();
startCode();
startPicture();
startSearch();
startKeys();
if (!selectFromAddress()) select("none", null);
addEventListener("hashchange", selectFromAddress);  // select() uses replaceState, which does not fire this event
