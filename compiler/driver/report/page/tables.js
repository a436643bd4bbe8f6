"use strict";
// Tables. A click on a heading sorts by its column, and a click on a row selects the item that it shows.

// columns: [{name, right, why}]; rows: [{cells: [[shown, sort key]], key, chosen}]. isLit(lit, key): is the row highlighted?
function table(columns, rows, isLit) {
  const elements = rows.map(({ cells, chosen }) => {
    const onkeydown = (event) => event.key === "Enter" && event.target === event.currentTarget && chosen();
    const acts = chosen ? { class: "chosen-row", tabindex: "0", onclick: chosen, onkeydown } : null;
    return html("tr", acts, cells.map(([shown], i) => html("td", { class: columns[i].right ? "r" : null }, shown)));
  });
  const body = html("tbody", null, elements);
  let by = -1, direction = 1;
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
  };
  const sort = (i) => {
    direction = by === i ? -direction : columns[i].right ? -1 : 1;
    by = i;
    const order = [...rows.keys()].sort((a, b) => compare(rows[a].cells[i][1], rows[b].cells[i][1]) * direction || a - b);
    body.replaceChildren(...order.map((row) => elements[row]));
    heads.forEach((head, place) =>
      head.setAttribute("aria-sort", place !== i ? "none" : direction > 0 ? "ascending" : "descending"));
  };
  const heads = columns.map(({ name, right, why }, i) =>
    html("th", { class: right ? "r" : null, scope: "col", "aria-sort": "none" },
      html("button", { type: "button", title: why || null, onclick: () => sort(i) }, name)));
  if (isLit) {
    watchers.push((lit) =>
      elements.forEach((element, i) => element.classList.toggle("lit", isLit(lit, rows[i].key))));
  }
  return html("div", { class: "table-wrap" },
    html("table", null, html("thead", null, html("tr", null, heads)), body));
}

const toLeft = (name, why) => ({ name, why });
const toRight = (name, why) => ({ name, why, right: true });
const clipped = (text, names) => html("span", { class: "clip " + (names || ""), title: text }, text);
const same = (text) => [text, text];
const NO_CELL = "\u2013";
const kernelMark = (number, ...name) => span("kernel-link c-" + kernels[number].class, span("swatch"), ...name);
const kernelCell = (number) => [number === null ? "" : kernelMark(number, kernelLabel(number)), number];
const sized = (value, text) => (value === undefined || value === null ? [NO_CELL, 0] : [text(value), value]);

function shareCell(part) {
  const filled = html("span", { class: "share-fill", style: `width:${(100 * Math.min(1, part)).toFixed(1)}%` });
  return [span("share-cell", filled, html("span", null, percentText(part))), part];
}

// The columns as [wanted, column, cell of a kernel]; a column that the report has no data for is not wanted.
function kernelColumns() {
  const hasPtx = kernels.some((kernel) => kernel.ptx), hasPeaks = Boolean(data.peaks);
  const ptx = (kernel) => kernel.ptx || {};
  return [
    [true, toLeft("kernel"), (k) => [kernelMark(k.number, clipped(k.name, "mono")), k.number]],
    [true, toLeft("class"), (k) => same(k.class)],
    [true, toRight("nodes", "ONNX nodes in it"), (k) => same(k.nodes.length)],
    [true, toLeft("launch"), (k) => [clipped(k.launch, "wide"), k.launch]],
    [true, toRight("reads"), (k) => sized(k.bytes_read, bytesText)],
    [true, toRight("writes"), (k) => sized(k.bytes_written, bytesText)],
    [true, toLeft("traffic", "its share of what all kernels read and write"), (k) => shareCell(k.bytes / Math.max(1, data.after.bytes))],
    [true, toRight("flops"), (k) => sized(k.flops || null, countText)],
    [true, toRight("flops/byte"), (k) => sized(k.flops ? k.flops / k.bytes : null, ratioText)],
    [isMeasured, toRight("time", "median of one launch"), (k) => sized(k.measured.us, microsecondsText)],
    [hasPeaks, toRight("floor", "the time that its bytes take at the peak bandwidth"), (k) => sized(k.floor_us, microsecondsText)],
    [isMeasured && hasPeaks, toRight("floor/time", "how close the time is to the floor"),
     (k) => sized(k.floor_us / k.measured.us, percentText)],
    [hasPtx, toRight("regs", "registers per thread"), (k) => sized(ptx(k).registers, String)],
    [hasPtx, toRight("occupancy"), (k) => sized(ptx(k).occupancy, percentText)],
    [hasPtx, toRight("shared", "shared memory per block"), (k) => sized(ptx(k).shared_bytes, bytesText)],
  ].filter(([wanted]) => wanted);
}

function startKernelTable() {
  const columns = kernelColumns();
  const rows = kernels.map((kernel) => ({
    key: kernel.number,
    chosen: () => select("kernel", kernel.number),
    cells: columns.map(([, , cell]) => cell(kernel)),
  }));
  replaceAll(byId("kernels"), html("h2", null, "Kernels"),
    table(columns.map(([, column]) => column), rows, (lit, number) => lit.kernels.has(number)));
}

// Edges that differ only in the node that reads the tensor share a row.
function startCrossingTable() {
  const edges = new Map();
  for (const edge of data.not_fused) {
    const key = [edge.from, edge.to, edge.tensor, edge.reason].join("|");
    if (!edges.has(key)) edges.set(key, edge);
  }
  const heading = html("h2", null, "What still crosses memory, and why");
  if (edges.size === 0) {
    replaceAll(byId("crossing"), heading, html("p", { class: "note" }, "Nothing crosses memory between two kernels."));
    return;
  }
  const rows = [...edges.values()].map((edge) => ({
    key: edge.value,
    chosen: edge.value === null ? null : () => select("value", edge.value),
    cells: [
      [clipped(edge.tensor, "mono"), edge.tensor], [span("mono", edge.type), edge.type], sized(edge.bytes, bytesText),
      kernelCell(edge.from), kernelCell(edge.to), [span("prose", edge.reason), edge.reason],
      [span("prose", edge.needed), edge.needed],
    ],
  }));
  const columns = [toLeft("tensor"), toLeft("type"), toRight("bytes"), toLeft("from"), toLeft("to"),
                   toLeft("why the two are not one kernel"), toLeft("what fusing them needs")];
  replaceAll(byId("crossing"), heading, table(columns, rows, (lit, value) => lit.values.has(value)));
}

function startTuningTable() {
  if (!data.tuning || data.tuning.choices.length === 0) return byId("tuning").remove();
  const rows = data.tuning.choices.map((choice) => {
    const kernel = kernels.findIndex((one) => one.name === choice.kernel);
    const sizes = Object.entries(choice.dims).map(([name, size]) => name + "=" + size).join(", ");
    return {
      key: kernel,
      chosen: kernel < 0 ? null : () => select("kernel", kernel),
      cells: [
        [clipped(choice.kernel, "mono"), choice.kernel], same(sizes), same(choice.chosen), sized(choice.us, microsecondsText),
        same(choice.runner_up || NO_CELL), sized(choice.runner_up_us, microsecondsText), sized(choice.planned_us, microsecondsText),
        sized(choice.us > 0 ? choice.planned_us / choice.us : null, (gain) => gain.toFixed(2) + "\u00d7"),
      ],
    };
  });
  const columns = [toLeft("kernel"), toLeft("sizes"), toLeft("chosen"), toRight("time"), toLeft("runner-up"), toRight("its time"),
                   toRight("planned", "time of the kernel that is chosen without measuring"), toRight("gain")];
  replaceAll(byId("tuning"), html("h2", null, "Tuning"),
    html("p", { class: "note" }, "Kernels were chosen by measuring on " + data.tuning.device + "."),
    table(columns, rows, (lit, kernel) => lit.kernels.has(kernel)));
}

function startNodeTable() {
  const became = (number) => nodes[number].kernels.map((kernel, i) =>
    [i > 0 ? ", " : "", opsText(kernel, placesOf(kernel, number)), " in ", kernelMark(kernel, kernelLabel(kernel))]);
  const hasLines = nodes.some((node) => node.line);
  const rows = nodes.map((node, number) => ({
    key: number,
    chosen: () => select("node", number),
    cells: [
      [clipped(nodeLabel(node), "mono wide"), nodeLabel(node)], same(node.op), [clipped(node.module), node.module],
      ...(hasLines ? [[span("mono", node.line), node.line]] : []), [became(number), node.kernels[0]],
    ],
  }));
  const columns = [toLeft("node"), toLeft("op"), toLeft("module"), ...(hasLines ? [toLeft("source")] : []), toLeft("became")];
  replaceAll(byId("nodes"), html("h2", null, "ONNX nodes"),
    nodes.length === 0 ? html("p", { class: "note" }, "The artifact names no ONNX nodes.")
                       : table(columns, rows, (lit, number) => lit.nodes.has(number)));
}
