"use strict";
// Shows the IR and the code of kernels, with a row for each line. A click on a line selects the ops to which it belongs.

const irRows = [];
let codeRows = [], shownSource = null;  // {kernel, source}

function fillLines(element, lines, kinds, chosen) {
  const digits = String(lines.length).length;
  const rows = lines.map((text, i) => html("div", { class: "row", "data-line": i },
    html("span", { class: "number", "aria-hidden": "true" }, String(i + 1).padStart(digits)),
    html("span", { class: "text" }, highlighted(text, kinds))));
  element.replaceChildren(...rows);
  element.onclick = (event) => {
    const row = event.target.closest(".row");
    if (row && String(getSelection()) === "") chosen(Number(row.dataset.line));  // not while text is marked to copy it
  };
  return rows;
}

const linesOf = (text) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");

function startCode() {
  byId("ir-file").textContent = data.ir.file;
  irRows.push(...fillLines(byId("ir"), linesOf(data.ir.text), IR_TOKENS, (line) => {
    const link = data.ir.links[line];
    if (link && link.length > 1) select("ops", [link[0], [link[1]]]);
    else if (link) select("kernel", link[0]);
    else if (line in data.ir.values) select("value", data.ir.values[line]);
  }));
  for (const [line, link] of Object.entries(data.ir.links)) irRows[line].classList.add(link.length > 1 ? "links" : "links-kernel");
  for (const line of Object.keys(data.ir.values)) irRows[line].classList.add("links");
  byId("source").addEventListener("change", (event) => {
    const [kernel, source] = event.target.value.split(",");
    showSource(Number(kernel), source === "" ? null : Number(source));
    lightCode(litBy(selection));
  });
  watchers.push((lit) => {
    showSourceOf(shownKernel);
    lightIr(lit);
    lightCode(lit);
  });
  showSourceOf(shownKernel);
  const first = irRows.find((_, line) => line in data.ir.links);
  if (first) scrollInside(byId("ir"), first, 0);
}

function showSourceOf(number) {
  if (shownSource && shownSource.kernel === number) return;
  const kernel = kernels[number];
  const others = kernel.other_sizes.map(({ name, source }) => ({ name: name + ", at other sizes", source }));
  const entries = [{ name: kernel.name, source: kernel.source }, ...others];
  byId("source").replaceChildren(...entries.map((entry) =>
    html("option", { value: number + "," + (entry.source === null ? "" : entry.source) }, shortened(entry.name, 60))));
  showSource(number, kernel.source);
}

function showSource(number, source) {
  shownSource = { kernel: number, source };
  const element = byId("code");
  byId("code-title").textContent = data.target === "cpu" ? "C++" : "CUDA";
  if (source === null) {
    codeRows = [];
    element.onclick = null;
    element.replaceChildren(html("p", { class: "note" }, "A library computes this product (", data.target === "cpu" ? "oneDNN" : "cuBLASLt",
                                 "): ", kernels[number].launch, ". There is no generated code."));
    return;
  }
  const { text, ops, file } = data.sources[source];
  codeRows = fillLines(element, linesOf(text), CODE_TOKENS, (line) => {
    if (line in ops) select("ops", [number, ops[line]]);
    else select("kernel", number);
  });
  element.setAttribute("aria-label", "Code of " + kernels[number].name + ", " + file);
  for (const line of Object.keys(ops)) codeRows[line].classList.add("links");
  const begin = codeRows.findIndex((row) => row.lastChild.textContent.startsWith("// kernel  : "));
  scrollInside(element, codeRows[Math.max(0, begin)], 0);
}

function scrollInside(element, row, before) {
  element.scrollTop = Math.max(0, row.offsetTop - element.offsetTop - before);
}

// Scrolls to the first highlighted row if none is visible.
function revealLit(element, rows) {
  const lit = rows.filter((row) => row.classList.contains("lit"));
  const top = element.scrollTop, bottom = top + element.clientHeight;
  const isSeen = (row) => row.offsetTop - element.offsetTop >= top && row.offsetTop - element.offsetTop + row.offsetHeight <= bottom;
  if (lit.length > 0 && !lit.some(isSeen)) scrollInside(element, lit[0], 40);
}

function lightIr(lit) {
  const shown = [];  // highlighted lines of ops; scrolling prefers them to lines of weights far above
  irRows.forEach((row, line) => {
    const link = data.ir.links[line];
    const isOp = link && link.length > 1 && lit.ops.has(link[0] + "." + link[1]);
    const isKernel = link && selection.kind === "kernel" && link[0] === selection.of;
    const isValue = line in data.ir.values && lit.values.has(data.ir.values[line]);
    row.classList.toggle("lit", Boolean(isOp || isKernel || isValue));
    if (isOp || isKernel) shown.push(row);
  });
  revealLit(byId("ir"), shown.length ? shown : irRows);
}

function lightCode(lit) {
  if (shownSource === null || shownSource.source === null) return;
  const { ops } = data.sources[shownSource.source];
  const whole = selection.kind === "kernel";
  codeRows.forEach((row, line) => {
    row.classList.toggle("lit", !whole && (ops[line] || []).some((place) => lit.ops.has(shownSource.kernel + "." + place)));
  });
  const litRows = codeRows.filter((row) => row.classList.contains("lit"));
  const statements = litRows.filter((row) => !row.lastChild.textContent.trimStart().startsWith("constexpr "));
  revealLit(byId("code"), statements.length ? statements : litRows);
}
