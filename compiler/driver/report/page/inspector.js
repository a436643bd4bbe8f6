"use strict";
// The panel that shows everything known about the selection.

const link = (kind, of, text) =>
  html("button", { type: "button", class: "link", title: text, onclick: () => select(kind, of) }, shortened(text, 70));
const kernelLink = (number) =>
  span("kernel-link c-" + kernels[number].class, link("kernel", number, kernels[number].name));
const valueLink = (number) => link("value", number, values[number].label);
const moduleLink = (path) => link("module", path, path);
const nodeLink = (number) => link("node", number, nodeLabel(nodes[number]));

// The first `most` items, and a button that shows the others.
function many(items, most, noun) {
  const shown = items.slice(0, most).flatMap((item, i) => (i > 0 ? [", ", item] : [item]));
  if (items.length <= most) return shown;
  const showAll = () => more.replaceWith(...items.slice(most).flatMap((item) => [", ", item]));
  const text = `and ${items.length - most} more ${noun}`;
  const more = html("button", { type: "button", class: "link more", onclick: showAll }, text);
  return [...shown, " ", more];
}

const fact = (name, ...value) => html("div", { class: "fact" }, html("dt", null, name), html("dd", null, value));
const line = (name, ...text) => html("p", null, html("b", null, name + " "), text);
const title = (name, what) => html("h2", { title: name }, name, " ", span("soft", what));

function topList(heading, items, size, text, name) {
  const most = 5, top = items.slice().sort((a, b) => size(b) - size(a)).slice(0, most);
  if (top.length === 0) return null;
  const rows = top.map((item) => html("li", null, name(item), html("span", null, text(size(item)))));
  return html("div", null, html("h3", null, heading), html("ol", null, rows));
}

function showNothing() {
  const crossing = values.filter((value) => value.kind === "memory" && value.reasons.length > 0);
  const bytes = crossing.reduce((sum, value) => sum + value.bytes, 0);
  const still = crossing.length === 1 ? " still crosses" : " still cross";
  return [
    html("h2", null, "What fusion did"),
    html("p", null, `Each box is a kernel. The ${plural(nodes.length, "ONNX node")} drawn in one box run in one launch, `,
         "and the values between them are never stored in memory."),
    crossing.length === 0
      ? html("p", null, "Nothing crosses memory between kernels.")
      : html("p", null, span("memory-word", plural(crossing.length, "orange tensor")), still,
             " memory between kernels, ", bytesText(bytes), " in all. Select one to see why."),
    html("p", null, "Select a node, a kernel, a tensor, a line of IR or a line of code to highlight it in all views. ",
         html("kbd", null, "/"), " searches, ", html("kbd", null, "?"), " explains."),
    html("div", { class: "tops" },
      isMeasured
        ? topList("Kernels that take the longest", kernels, (kernel) => kernel.measured.us, microsecondsText,
                  (kernel) => kernelLink(kernel.number))
        : topList("Kernels that move the most bytes", kernels, (kernel) => kernel.bytes, bytesText,
                  (kernel) => kernelLink(kernel.number)),
      topList("Tensors that cross memory", crossing, (value) => value.bytes, bytesText,
              (value) => valueLink(values.indexOf(value)))),
  ];
}

function figuresOf(kernel) {
  const { ptx, measured } = kernel;
  const facts = [
    fact("reads", bytesText(kernel.bytes_read)), fact("writes", bytesText(kernel.bytes_written)),
    fact("flops", kernel.flops > 0 ? countText(kernel.flops) : "none"),
    fact("flops per byte", kernel.flops > 0 ? ratioText(kernel.flops / kernel.bytes) : "0"),
  ];
  if (measured) facts.push(fact("time", microsecondsText(measured.us), span("soft", " p99 " + microsecondsText(measured.p99_us))));
  if (kernel.floor_us !== null) facts.push(fact("floor of its bytes", microsecondsText(kernel.floor_us)));
  if (!ptx) return facts;
  facts.push(fact("registers", ptx.registers));
  if (ptx.occupancy !== undefined) facts.push(fact(`occupancy (${ptx.limited_by})`, percentText(ptx.occupancy)));
  facts.push(fact("shared memory", bytesText(ptx.shared_bytes)), fact("stack", bytesText(ptx.frame_bytes)),
             fact("code", bytesText(ptx.code_bytes)));
  return facts;
}

function showKernel(number) {
  const kernel = kernels[number];
  const weights = kernel.reads.filter((value) => values[value].kind === "weight");
  const inputs = kernel.reads.filter((value) => values[value].kind !== "weight");
  const parts = [...new Set(kernel.nodes.map((node) => nodes[node].module))].filter((path) => path !== "");
  const isShared = kernel.function && kernel.function !== kernel.name;
  return [
    html("h2", { class: "c-" + kernel.class }, span("swatch"), kernel.name, " ", span("soft", kernel.class)),
    html("dl", { class: "facts-grid" }, figuresOf(kernel)),
    line("launch", kernel.launch),
    isShared ? line("code", "shared with the identical kernel ", kernel.function) : null,
    line(plural(kernel.nodes.length, "ONNX node"), many(kernel.nodes.map(nodeLink), 8, "nodes")),
    parts.length ? line("modules", many(parts.map(moduleLink), 8, "modules")) : null,
    inputs.length ? line("inputs", many(inputs.map(valueLink), 8, "tensors")) : null,
    weights.length ? line(plural(weights.length, "weight"), many(weights.map(valueLink), 4, "weights")) : null,
    line("outputs", many(kernel.writes.map((write) => valueLink(write.value)), 8, "tensors")),
    kernel.edges.map(showEdge),
    kernel.other_sizes.length
      ? line("at other sizes", kernel.other_sizes.map((other) => shortened(other.name, 60)).join(", ")) : null,
  ];
}

const showEdge = (edge) => html("div", { class: "edge" },
  html("p", null, edge.from === null ? "" : kernelLink(edge.from), " \u2192 ", edge.to === null ? "" : kernelLink(edge.to),
       " through ", edge.value === null ? edge.tensor : valueLink(edge.value), ", " + bytesText(edge.bytes)),
  line("not one kernel because", edge.reason),
  edge.needed ? line("needs", edge.needed) : null);

function showValue(number) {
  const value = values[number];
  const inMemory = value.outputs.length ? "output of the model" : "tensor in memory";
  const role = { input: "input of the model", weight: "weight", memory: inMemory }[value.kind];
  return [
    title(value.label, (value.label === value.name ? "" : "%" + value.name + " ") + role),
    html("dl", { class: "facts-grid" }, fact("type", span("mono", value.type)), fact("bytes", bytesText(value.bytes)),
         value.outputs.length ? fact("output as", value.outputs.join(", ")) : null),
    value.producer !== null ? line("written by", kernelLink(value.producer)) : null,
    value.readers.length ? line("read by", many(value.readers.map(kernelLink), 8, "kernels")) : null,
    value.reasons.map(showEdge),
  ];
}

const opsText = (kernel, places) => places.map((place) => kernels[kernel].body[place].op).join(", ");
const placesOf = (kernel, node) =>
  kernels[kernel].body.flatMap((op, place) => (op.nodes.includes(node) ? [place] : []));

function showNode(number) {
  const node = nodes[number];
  return [
    title(nodeLabel(node), node.op),
    node.module ? line("module", moduleLink(node.module)) : null,
    node.line ? line("source", span("mono", node.line)) : null,
    node.kernels.map((kernel) =>
      line("became", opsText(kernel, placesOf(kernel, number)), " in ", kernelLink(kernel))),
  ];
}

function showModule(path) {
  const lit = litBy({ kind: "module", of: path });
  const inOrder = [...lit.kernels].sort((a, b) => a - b);
  return [
    title(path, "module"),
    line(plural(lit.kernels.size, "kernel"), many(inOrder.map(kernelLink), 12, "kernels")),
    line(plural(lit.nodes.size, "ONNX node"), many([...lit.nodes].map(nodeLink), 12, "nodes")),
  ];
}

function showOps([kernel, places]) {
  const most = 6, body = kernels[kernel].body;
  const from = [...new Set(places.flatMap((place) => body[place].nodes))];
  const declared = (place) => html("p", null, span("mono", shortened(`%${body[place].value} : ${body[place].type}`, 80)));
  return [
    title(shortened(opsText(kernel, places), 60), "in the IR"),
    places.slice(0, most).map(declared),
    line("in", kernelLink(kernel)),
    from.length ? line("from", many(from.map(nodeLink), 8, "nodes")) : line("made by fusec"),
  ];
}

function startInspector() {
  const show = { none: showNothing, kernel: showKernel, node: showNode, module: showModule, value: showValue, ops: showOps };
  watchers.push((_, { kind, of }) => {
    replaceAll(byId("inspector"), show[kind](of));
    byId("inspector").scrollTop = 0;
    byId("modules").value = kind === "module" ? of : "";
  });
}
