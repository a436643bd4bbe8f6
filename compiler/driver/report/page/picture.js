"use strict";
// Draws the graph: kernels as cards with their ONNX nodes inside, and tensors in memory as pills between them.

const CARD_PADDING = 10, CARD_HEAD = 44, CARD_FOOT = 24, CELL_HEIGHT = 32, LEAST_CARD = 216, MOST_CELLS = 28;
const PILL_HEIGHT = 36, MANY_PILLS = 4, CROWD = 24;

const collapsed = new Set(kernels.length > CROWD ? blocks.map((_, i) => i) : []);
let zoom = 1, picture = null;  // {width, height, drawn}

// The width of a text as the browser draws it, in pixels.
const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const cache = new Map();
  return (text, font) => {
    const key = font + text;
    if (!cache.has(key)) {
      context.font = font;
      cache.set(key, context.measureText(text).width);
    }
    return cache.get(key);
  };
})();
const FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const textWidth = (text, size, weight) => measure(text, (weight || 400) + " " + size + "px " + FONT);

// ---- inside a kernel ----

// The cells of a kernel. Ops from the same ONNX nodes share a cell; three or more similar cells that feed the same cells
// are merged.
function cellsOf(kernel) {
  const cells = [], byKey = new Map(), cellOf = [];
  kernel.body.forEach((op, place) => {
    if (op.op === "constant") return;
    const key = op.nodes.length ? op.nodes.join(",") : "made " + place;
    if (!byKey.has(key)) {
      byKey.set(key, cells.length);
      cells.push({ nodes: new Set(op.nodes), ops: [], down: new Set() });
    }
    cellOf[place] = byKey.get(key);
    cells[cellOf[place]].ops.push(place);
  });
  kernel.body.forEach((op, place) => {
    for (const from of op.from) {
      const a = cellOf[from], b = cellOf[place];
      if (a !== undefined && b !== undefined && a < b) cells[a].down.add(b);  // a < b keeps the graph of cells acyclic
    }
  });
  for (const cell of cells) setCellText(kernel, cell);
  return stacked(cells);
}

function setCellText(kernel, cell) {
  const origins = [...cell.nodes].map((node) => nodes[node]);
  const names = cell.ops.map((place) => kernel.body[place].op);
  if (origins.length === 0) {
    cell.title = names.join(", ");
    cell.detail = "made by fusec";
    cell.made = true;
    return;
  }
  const isPart = origins.some((node) => node.kernels.length > 1);
  const kinds = [...new Set(origins.map((node) => node.op))];
  cell.title = shortened(kinds[0], 26) + (kinds.length > 1 ? " + " + (kinds.length > 2 ? kinds.length - 1 : shortened(kinds[1], 20)) : "");
  const label = nodeLabel(origins[0]), more = origins.length > 1 ? " +" + (origins.length - 1) : "";
  const place = shortened(origins[0].module || label.split("/").pop() || label, 20) + more;
  cell.detail = isPart ? "only " + shortened([...new Set(names)].join(", "), 26) : place;  // other kernels have the rest
}

function stacked(cells) {
  const kinds = [], kindOf = [], known = new Map();
  for (let i = cells.length - 1; i >= 0; --i) {
    const key = cells[i].title + "|" + [...new Set([...cells[i].down].map((to) => kindOf[to]))].sort((a, b) => a - b).join(",");
    if (!known.has(key)) {
      known.set(key, kinds.length);
      kinds.push([]);
    }
    kindOf[i] = known.get(key);
    kinds[kindOf[i]].unshift(i);
  }
  const result = [], place = [];
  cells.forEach((cell, i) => {
    const alike = kinds[kindOf[i]];
    if (alike.length < 3) {
      place[i] = result.push({ ...cell, count: 1 }) - 1;
    } else if (alike[0] === i) {
      const all = alike.map((other) => cells[other]);
      const stack = { ...cell, count: all.length, nodes: new Set(all.flatMap((c) => [...c.nodes])), ops: all.flatMap((c) => c.ops) };
      stack.detail = shortened(all[0].detail, 11) + " \u2026 " + shortened(all[all.length - 1].detail, 11);
      result.push(stack);
      alike.forEach((other) => (place[other] = result.length - 1));
    } else {
      place[i] = place[alike[0]];
    }
  });
  result.forEach((cell) => (cell.to = new Set()));
  cells.forEach((cell, i) => cell.down.forEach((to) => place[i] !== place[to] && result[place[i]].to.add(place[to])));
  for (const cell of result) {
    cell.text = cell.count > 1 ? cell.title + " \u00d7" + cell.count : cell.title;
    cell.width = Math.max(64, textWidth(cell.text, 12, 600), textWidth(cell.detail, 10)) + 20;
    cell.height = CELL_HEIGHT;
  }
  return result;
}

// The cells of a kernel with very many nodes: one for each kind of node, in rows and without lines between them.
function asRows(cells, width) {
  const byText = new Map();
  for (const cell of cells) {
    const all = byText.get(cell.title) || { ...cell, count: 0, nodes: new Set(), ops: [], to: new Set() };
    all.count += cell.count;
    cell.nodes.forEach((node) => all.nodes.add(node));
    all.ops.push(...cell.ops);
    byText.set(cell.title, all);
  }
  const rows = [...byText.values()];
  let x = 0, y = 0;
  for (const cell of rows) {
    cell.text = cell.count > 1 ? cell.title + " \u00d7" + cell.count : cell.title;
    cell.detail = cell.count > 1 ? plural(cell.nodes.size, "node") : cell.detail;
    cell.width = Math.max(textWidth(cell.text, 12, 600), textWidth(cell.detail, 10)) + 20;
    if (x > 0 && x + cell.width > width) {
      x = 0;
      y += CELL_HEIGHT + 8;
    }
    cell.x = x;
    cell.y = y;
    x += cell.width + 8;
  }
  return { cells: rows, width, height: y + CELL_HEIGHT, paths: [] };
}

function insideOf(kernel) {
  if (kernel.inside) return kernel.inside;
  const cells = cellsOf(kernel);
  const places = new Map(cells.map((cell, i) => [cell, i]));
  const edges = cells.flatMap((cell) => [...cell.to].filter((to) => to > places.get(cell)).map((to) => [places.get(cell), to]));
  const laid = cells.length > MOST_CELLS ? null : layOut(cells, edges, 16);
  const isWide = !laid || laid.width > 560;
  kernel.inside = isWide && cells.length > 8 ? asRows(cells, 460) : { cells, ...laid };
  return kernel.inside;
}

// ---- the boxes ----

function kernelBox(kernel) {
  const inside = insideOf(kernel);
  const name = shortened(kernel.title, 44);
  const sub = kernel.class + " \u00b7 " + bytesText(kernel.bytes_read) + " in \u00b7 " + bytesText(kernel.bytes_written) + " out";
  const weights = kernel.reads.filter((value) => values[value].kind === "weight");
  const share = isMeasured ? kernel.measured.us / totalUs : kernel.bytes / Math.max(1, data.after.bytes);
  const weightBytes = weights.reduce((sum, value) => sum + values[value].bytes, 0);
  const foot = weights.length ? plural(weights.length, "weight") + " \u00b7 " + bytesText(weightBytes) : "";
  const width = Math.max(LEAST_CARD, inside.width + 2 * CARD_PADDING, textWidth(name, 13, 600) + 62, textWidth(sub, 11) + 24,
                         textWidth(foot, 11) + 120);
  return { kind: "kernel", kernel, name, sub, foot, share, inside, width, height: CARD_HEAD + inside.height + 8 + CARD_FOOT };
}

function blockBox(number) {
  const block = blocks[number], inside = block.kernels.map((k) => kernels[k]);
  const count = new Set(inside.flatMap((kernel) => kernel.nodes)).size;
  const bytes = inside.reduce((sum, kernel) => sum + kernel.bytes, 0);
  const us = inside.reduce((sum, kernel) => sum + (kernel.measured ? kernel.measured.us : 0), 0);
  const sub = plural(count, "ONNX node") + " in " + plural(inside.length, "kernel") + " \u00b7 " + bytesText(bytes);
  const name = shortened(block.name, 34);
  return { kind: "block", number, block, name, sub, foot: "", share: isMeasured ? us / totalUs : bytes / Math.max(1, data.after.bytes),
           width: Math.max(LEAST_CARD, textWidth(name, 13, 600) + 40, textWidth(sub, 11) + 24), height: 78 };
}

// Tensors that the same kernels write and read share a pill if there are many.
function pillBoxes(boxOf) {
  const groups = new Map();
  values.forEach((value, number) => {
    if (value.kind === "weight") return;
    const producer = value.producer === null ? null : boxOf[value.producer];
    const readers = [...new Set(value.readers.map((reader) => boxOf[reader]))];
    if (value.kind === "memory" && value.outputs.length === 0 && readers.every((reader) => reader === producer)) return;
    const key = [value.kind, producer, readers.join(","), value.outputs.length > 0].join("|");
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ number, value, producer, readers });
  });
  const pills = [];
  for (const group of groups.values()) {
    for (const part of group.length >= MANY_PILLS ? [group] : group.map((one) => [one])) {
      const { value, producer, readers } = part[0];
      const bytes = part.reduce((sum, one) => sum + one.value.bytes, 0);
      const kind = value.outputs.length ? "output" : value.kind;
      const label = value.outputs.length ? value.outputs.join(", ") : value.label;
      const several = part.length + " " + { input: "inputs", output: "outputs", memory: "tensors" }[kind];
      const name = part.length > 1 ? several : shortened(label, 34);
      const sub = (part.length > 1 ? "" : shortened(value.type, 34) + " \u00b7 ") + bytesText(bytes);
      pills.push({ kind: "pill", role: kind, values: part.map((one) => one.number), producer, readers, bytes, name, sub,
                   width: Math.max(textWidth(name, 12, 600), textWidth(sub, 11)) + 30, height: PILL_HEIGHT });
    }
  }
  return pills;
}

// ---- drawing ----

function draw() {
  const boxes = [], boxOf = [], placeOfBlock = new Map();
  const blockOfKernel = new Map(blocks.flatMap((block, i) => block.kernels.map((kernel) => [kernel, i])));
  for (const kernel of kernels) {
    const block = blockOfKernel.get(kernel.number);
    if (block !== undefined && collapsed.has(block)) {
      if (!placeOfBlock.has(block)) placeOfBlock.set(block, boxes.push(blockBox(block)) - 1);
      boxOf.push(placeOfBlock.get(block));
    } else {
      const box = kernelBox(kernel);
      box.block = block;
      boxOf.push(boxes.push(box) - 1);
    }
  }
  const pills = pillBoxes(boxOf), edges = [], lines = [];
  for (const pill of pills) {
    const place = boxes.push(pill) - 1;
    const join = (from, to) => {
      edges.push([from, to]);
      lines.push({ pill, reader: from === place ? boxes[to] : null });
    };
    if (pill.producer !== null) join(pill.producer, place);
    for (const reader of pill.readers) if (reader !== pill.producer) join(place, reader);
  }
  const laid = layOut(boxes, edges, 30);
  const margin = 16, width = laid.width + 2 * margin, height = laid.height + 2 * margin + 8;
  const most = Math.max(1, ...pills.map((pill) => pill.bytes));
  const drawn = { kernels: new Map(), cells: [], pills: [], lines: [], blocks: [] };
  const root = svg("svg", { class: "drawing", viewBox: [0, 0, width, height].join(" "), role: "presentation" });
  const lineLayer = svg("g", { transform: `translate(${margin} ${margin})` });
  const boxLayer = svg("g", { transform: `translate(${margin} ${margin})` });
  laid.paths.forEach((points, i) => {
    const { pill, reader } = lines[i];
    const thick = (1.5 + 7 * Math.sqrt(pill.bytes / most)).toFixed(2);
    const line = svg("path", { class: "line " + pill.role, d: pathText(points), "stroke-width": thick });
    drawn.lines.push({ line, pill, readers: reader && (reader.kind === "kernel" ? [reader.kernel.number] : reader.block.kernels) });
    lineLayer.append(line);
  });
  for (const box of boxes) {
    const drawBox = { kernel: drawKernel, block: drawBlock, pill: drawPill }[box.kind];
    boxLayer.append(drawBox(box, drawn));
  }
  root.append(lineLayer, boxLayer);
  byId("graph").replaceChildren(root);
  picture = { root, width, height, drawn, boxes };
  setZoom(zoom);
  light(litBy(selection));
}

const moved = (box) => `translate(${rounded(box.x)} ${rounded(box.y)})`;
const clickable = (attributes, chosen) => ({
  ...attributes, role: "button", tabindex: "-1",
  onclick: (event) => {
    event.stopPropagation();
    chosen();
  },
  onkeydown: (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    chosen();
  },
});

function shareBar(box, width, y) {
  const whole = width - 2 * CARD_PADDING, part = Math.max(2, whole * Math.min(1, box.share));
  const rect = (name, wide) => svg("rect", { class: name, x: CARD_PADDING, y, width: rounded(wide), height: 3, rx: 1.5 });
  return [rect("share-back", whole), rect("share", part)];
}

function drawKernel(box, drawn) {
  const { kernel, inside, width, height } = box;
  const shareText = percentText(box.share) + (isMeasured ? " of time" : " of traffic");
  const label = `Kernel ${kernel.name}, ${plural(kernel.nodes.length, "ONNX node")}, ${box.sub}, ${shareText}`;
  const card = svg("g", clickable({ class: "card c-" + kernel.class, transform: moved(box), "aria-label": label },
                                  () => select("kernel", kernel.number)),
    svg("title", null, kernel.name),
    svg("rect", { class: "card-back", width, height, rx: 8 }),
    svg("rect", { class: "card-bar", width: 5, height: height - 16, y: 8, rx: 2 }),
    svg("text", { class: "badge", x: 14, y: 19 }, kernelLabel(kernel.number)),
    svg("text", { class: "name", x: 46, y: 19 }, box.name),
    svg("text", { class: "sub", x: 14, y: 35 }, box.sub));
  if (box.block !== undefined) card.append(blockTag(box));
  const left = (width - inside.width) / 2;
  const wires = svg("g", { transform: `translate(${left.toFixed(1)} ${CARD_HEAD})` });
  for (const points of inside.paths) wires.append(svg("path", { class: "wire", d: pathText(points) }));
  for (const cell of inside.cells) wires.append(drawCell(kernel, cell, drawn));
  card.append(wires);
  const y = height - CARD_FOOT;
  card.append(svg("text", { class: "foot", x: 14, y: y + 10 }, box.foot),
              svg("text", { class: "foot end", x: width - 12, y: y + 10 }, shareText), ...shareBar(box, width, y + 15));
  drawn.kernels.set(kernel.number, card);
  return card;
}

// The tag on the upper edge of a card, which shows the kernels of its block as one box.
function blockTag(box) {
  const text = "\u2212 " + shortened(blocks[box.block].name, 20), width = textWidth(text, 10, 600) + 12;
  return svg("g", clickable({ class: "tag", transform: `translate(${(box.width - width - 10).toFixed(1)} -8)`,
                              "aria-label": "Show the kernels of " + blocks[box.block].name + " as one box" },
                            () => toggleBlock(box.block)),
    svg("title", null, "Show the kernels of " + blocks[box.block].name + " as one box"),
    svg("rect", { width: width.toFixed(1), height: 16, rx: 8 }), svg("text", { x: 6, y: 12 }, text));
}

function drawCell(kernel, cell, drawn) {
  const all = [...cell.nodes];
  const chosen = () => (all.length === 1 ? select("node", all[0]) : select("ops", [kernel.number, cell.ops]));
  const title = all.length ? all.slice(0, 12).map((node) => nodeLabel(nodes[node])).join("\n") + (all.length > 12 ? "\n\u2026" : "")
                           : "made by fusec: " + cell.title;
  const width = rounded(cell.width), middle = rounded(cell.width / 2);
  const back = (x, y) => svg("rect", { class: "cell-back", x, y, width, height: CELL_HEIGHT, rx: 5 });
  const element = svg("g", clickable({ class: "cell" + (cell.made ? " made" : ""), transform: moved(cell),
                                       "aria-label": cell.text + ", " + cell.detail }, chosen),
    svg("title", null, title), cell.count > 1 ? [back(5, -4), back(2.5, -2)] : null, back(0, 0),
    svg("text", { class: "cell-text", x: middle, y: 14 }, cell.text),
    svg("text", { class: "cell-detail", x: middle, y: 26 }, cell.detail));
  drawn.cells.push({ element, kernel: kernel.number, nodes: all, ops: cell.ops });
  return element;
}

function drawBlock(box, drawn) {
  const { width, height } = box;
  const card = svg("g", clickable({ class: "card block", transform: moved(box), "aria-label": `Module ${box.block.name}, ${box.sub}; opens` },
                                  () => toggleBlock(box.number)),
    svg("title", null, "Show the kernels of " + box.block.name),
    svg("rect", { class: "card-back behind", x: 6, y: 6, width, height, rx: 8 }),
    svg("rect", { class: "card-back", width, height, rx: 8 }),
    svg("text", { class: "name", x: 14, y: 22 }, "+ " + box.name),
    svg("text", { class: "sub", x: 14, y: 40 }, box.sub),
    svg("text", { class: "foot end", x: width - 12, y: height - 14 }, percentText(box.share) + (isMeasured ? " of time" : " of traffic")),
    ...shareBar(box, width, height - 9));
  drawn.blocks.push({ element: card, block: box.block });
  return card;
}

function drawPill(box, drawn) {
  const first = values[box.values[0]];
  const role = { input: "Input", output: "Output", memory: "Tensor in memory" }[box.role];
  const element = svg("g", clickable({ class: "pill " + box.role, transform: moved(box),
                                       "aria-label": `${role} ${box.name}, ${box.sub}` }, () => select("value", box.values[0])),
    svg("title", null, box.values.slice(0, 12).map((value) => values[value].label + " " + values[value].type).join("\n") +
                       (first.reasons.length ? "\n\n" + first.reasons[0].reason : "")),
    svg("rect", { width: box.width.toFixed(1), height: PILL_HEIGHT, rx: PILL_HEIGHT / 2 }),
    svg("text", { class: "pill-name", x: (box.width / 2).toFixed(1), y: 15 }, box.name),
    svg("text", { class: "pill-sub", x: (box.width / 2).toFixed(1), y: 28 }, box.sub));
  drawn.pills.push({ element, values: box.values });
  return element;
}

// ---- highlighting and zoom ----

function light(lit) {
  const { drawn, root } = picture;
  root.classList.toggle("some", lit.any);
  const set = (element, on) => element.classList.toggle("lit", on);
  drawn.kernels.forEach((card, number) => {
    set(card, lit.kernels.has(number));
    card.classList.toggle("chosen", selection.kind === "kernel" && selection.of === number);
    card.setAttribute("tabindex", number === shownKernel ? "0" : "-1");
  });
  for (const { element, block } of drawn.blocks) set(element, block.kernels.some((kernel) => lit.kernels.has(kernel)));
  for (const cell of drawn.cells) set(cell.element, cell.ops.some((place) => lit.ops.has(cell.kernel + "." + place)));
  const isLit = (pill) => pill.values.some((value) => lit.values.has(value));
  for (const pill of drawn.pills) set(pill.element, isLit(pill));
  for (const { line, pill, readers } of drawn.lines)
    set(line, isLit(pill) && (readers === null || readers.some((kernel) => lit.kernels.has(kernel))));
}

function setZoom(wanted) {
  zoom = Math.max(0.1, Math.min(3, wanted));
  picture.root.setAttribute("width", (picture.width * zoom).toFixed(0));
  picture.root.setAttribute("height", (picture.height * zoom).toFixed(0));
}

// Zooms around the point (x, y) of the view, by default its middle, which stays in place.
function zoomBy(factor, x, y) {
  const graph = byId("graph");
  const atX = x === undefined ? graph.clientWidth / 2 : x, atY = y === undefined ? graph.clientHeight / 2 : y;
  const left = (graph.scrollLeft + atX) / zoom, top = (graph.scrollTop + atY) / zoom;
  setZoom(zoom * factor);
  graph.scrollTo(left * zoom - atX, top * zoom - atY);
}

function fit(whole) {
  const graph = byId("graph");
  const byWidth = (graph.clientWidth - 4) / picture.width, byHeight = (graph.clientHeight - 4) / picture.height;
  setZoom(whole ? Math.min(byWidth, byHeight, 1.4) : Math.max(Math.min(byWidth, 1.15), 0.66));
  graph.scrollTo((picture.width * zoom - graph.clientWidth) / 2, 0);
}

function toggleBlock(number) {
  if (!collapsed.delete(number)) collapsed.add(number);
  draw();
  reveal(blocks[number].kernels[0]);
}

// Scrolls only the graph so that a kernel is visible, and opens its block.
function reveal(number) {
  const graph = byId("graph");
  const block = blocks.findIndex((one) => one.kernels.includes(number));
  const box = picture.boxes.find((one) => (one.kind === "kernel" && one.kernel.number === number) ||
                                          (one.kind === "block" && one.number === block));
  const left = box.x * zoom, top = box.y * zoom, right = left + box.width * zoom, bottom = top + box.height * zoom;
  const isSeen = left >= graph.scrollLeft && right <= graph.scrollLeft + graph.clientWidth && top >= graph.scrollTop &&
                 bottom <= graph.scrollTop + graph.clientHeight;
  if (!isSeen) graph.scrollTo(Math.max(0, (left + right - graph.clientWidth) / 2), Math.max(0, top - 40));
}

function openBlockOf(number) {
  const block = blocks.findIndex((one) => one.kernels.includes(number));
  if (block >= 0 && collapsed.delete(block)) draw();
}

function startPicture() {
  const graph = byId("graph");
  draw();
  fit(false);
  watchers.push((lit, { kind, of }) => {
    if (kind === "kernel") openBlockOf(of);
    light(lit);
    if (lit.kernels.size > 0 && kind !== "module") reveal(shownKernel);
  });
  graph.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // the wheel alone scrolls
    event.preventDefault();
    const place = graph.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY * 0.002), event.clientX - place.left, event.clientY - place.top);
  }, { passive: false });
  let drag = null;
  graph.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, left: graph.scrollLeft, top: graph.scrollTop, moved: false };
  });
  graph.addEventListener("pointermove", (event) => {
    if (!drag || event.buttons === 0) return;
    const x = event.clientX - drag.x, y = event.clientY - drag.y;
    drag.moved = drag.moved || Math.abs(x) + Math.abs(y) > 4;
    if (drag.moved) graph.scrollTo(drag.left - x, drag.top - y);
  });
  graph.addEventListener("click", (event) => {  // the click at the end of a drag is ignored
    if (drag && drag.moved) event.stopPropagation();
    else if (event.target === graph || event.target.closest(".card, .pill") === null) select("none", null);
    drag = null;
  }, true);
  byId("fit").addEventListener("click", () => fit(true));
  byId("zoom-in").addEventListener("click", () => zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => zoomBy(0.8));
  byId("expand").addEventListener("click", expandAll);
  byId("collapse").addEventListener("click", collapseAll);
  if (blocks.length === 0) byId("block-buttons").remove();
}

function expandAll() {
  collapsed.clear();
  draw();
}

function collapseAll() {
  blocks.forEach((_, i) => collapsed.add(i));
  draw();
  fit(false);
}
