"use strict";
// The document, lists that are derived from it, and the selection. Kernels, nodes, values and lines are referred to by
// their indices in the document's lists.

const data = JSON.parse(byId("data").textContent);
const kernels = data.kernels, nodes = data.nodes, values = data.values;

kernels.forEach((kernel, number) => {
  kernel.number = number;
  kernel.bytes = kernel.bytes_read + kernel.bytes_written;
  kernel.nodes = [...new Set(kernel.body.flatMap((op) => op.nodes))].sort((a, b) => a - b);
  kernel.reads = [...new Set(kernel.body.flatMap((op) => op.reads))].sort((a, b) => a - b);
  kernel.title = kernel.name.replace(/^k\d+_/, "");
  kernel.edges = data.not_fused.filter((edge) => edge.from === number || edge.to === number);
  kernel.floor_us = data.peaks && data.peaks.bytes_per_second > 0 ? (kernel.bytes / data.peaks.bytes_per_second) * 1e6 : null;
});
for (const source of data.sources) source.text = source.parts.map((part) => data.texts[part]).join("");
nodes.forEach((node) => (node.kernels = []));
for (const kernel of kernels) for (const node of kernel.nodes) nodes[node].kernels.push(kernel.number);
values.forEach((value) => (value.reasons = []));
for (const edge of data.not_fused) if (edge.value !== null) values[edge.value].reasons.push(edge);

const isMeasured = kernels.some((kernel) => kernel.measured);
const totalUs = kernels.reduce((sum, kernel) => sum + (kernel.measured ? kernel.measured.us : 0), 0);
const nodeLabel = (node) => node.name || node.op;
const kernelLabel = (number) => "k" + String(number).padStart(2, "0");

// The nodes of each module. A node also belongs to the modules that contain its own: "layers.0" contains "layers.0.attn".
const modules = new Map();
nodes.forEach((node, number) => {
  const parts = node.module === "" ? [] : node.module.split(".");
  for (let length = 1; length <= Math.min(parts.length, 12); ++length) {
    const path = parts.slice(0, length).join(".");
    if (!modules.has(path)) modules.set(path, []);
    modules.get(path).push(number);
  }
});

// A block of the model: a module's path up to its first number ("layers.0"), or its first part.
function blockOf(path) {
  const parts = path.split(".");
  const number = parts.findIndex((part) => /^\d+$/.test(part));
  return parts.slice(0, number < 0 ? 1 : number + 1).join(".");
}

// Runs of two or more consecutive kernels whose nodes are mostly of one block. Other kernels are in no block.
function findBlocks() {
  const blocks = [];
  for (const kernel of kernels) {
    const counts = new Map();
    for (const node of kernel.nodes) {
      if (nodes[node].module === "") continue;
      const block = blockOf(nodes[node].module);
      counts.set(block, (counts.get(block) || 0) + 1);
    }
    const name = [...counts].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ["", 0])[0];
    const last = blocks[blocks.length - 1];
    if (last && name !== "" && last.name === name) last.kernels.push(kernel.number);
    else blocks.push({ name, kernels: [kernel.number] });
  }
  return blocks.filter((block) => block.name !== "" && block.kernels.length > 1);
}
const MANY_KERNELS = 12;  // blocks are used only for more kernels than this
const blocks = kernels.length > MANY_KERNELS ? findBlocks() : [];

// ---- the selection ----

// kind: "none", "kernel", "node", "module", "value", "ops" (of a kernel); `of` is its place, path, or [kernel, places].
let selection = { kind: "none", of: null };
const watchers = [];  // called with (lit, selection)

// Everything that is highlighted with the selection: sets of indices; ops are written as "kernel.place".
function litBy({ kind, of }) {
  const lit = { kernels: new Set(), nodes: new Set(), values: new Set(), ops: new Set(), any: kind !== "none" };
  const addOp = (kernel, place) => {
    lit.kernels.add(kernel);
    lit.ops.add(kernel + "." + place);
  };
  const addNode = (number) => {
    lit.nodes.add(number);
    for (const kernel of nodes[number].kernels) {
      kernels[kernel].body.forEach((op, place) => op.nodes.includes(number) && addOp(kernel, place));
    }
  };
  if (kind === "kernel") {
    lit.kernels.add(of);
    kernels[of].nodes.forEach((node) => lit.nodes.add(node));
    kernels[of].body.forEach((_, place) => lit.ops.add(of + "." + place));
    for (const value of kernels[of].reads) lit.values.add(value);
    for (const write of kernels[of].writes) lit.values.add(write.value);
  } else if (kind === "node") {
    addNode(of);
  } else if (kind === "module") {
    (modules.get(of) || []).forEach(addNode);
  } else if (kind === "ops") {
    for (const place of of[1]) {
      addOp(of[0], place);
      kernels[of[0]].body[place].nodes.forEach((node) => lit.nodes.add(node));
    }
  } else if (kind === "value") {
    lit.values.add(of);
    const touched = values[of].producer === null ? values[of].readers : [values[of].producer, ...values[of].readers];
    for (const kernel of touched) {
      lit.kernels.add(kernel);
      kernels[kernel].body.forEach((op, place) => op.reads.includes(of) && lit.ops.add(kernel + "." + place));
      for (const write of kernels[kernel].writes)
        if (write.value === of && write.from !== null) lit.ops.add(kernel + "." + write.from);
    }
  }
  return lit;
}

// The kernel whose code is shown. A selection changes it only if the kernel is not highlighted by it.
let shownKernel = 0;

function select(kind, of) {
  selection = { kind, of };
  const lit = litBy(selection);
  if (lit.kernels.size > 0 && !lit.kernels.has(shownKernel)) shownKernel = Math.min(...lit.kernels);
  const name = { kernel: () => kernels[of].name, node: () => nodeLabel(nodes[of]), module: () => of, value: () => values[of].name };
  const place = name[kind] ? "#" + kind + "/" + encodeURIComponent(wellFormed(name[kind]())) : "#";
  if (place.length < 2000) history.replaceState(null, "", place);
  for (const watcher of watchers) watcher(lit, selection);
}

// Replaces unpaired surrogates, for which encodeURIComponent throws.
const wellFormed = (text) => text.replace(/[\ud800-\udfff]/gu, "\ufffd");

// Selects what the address names, such as "#kernel/k00_add", so that links can point to a kernel, a node, a module or a
// tensor. Returns whether anything is selected.
function selectFromAddress() {
  const [kind, name] = location.hash.slice(1).split("/", 2);
  let wanted = null;
  try {
    wanted = decodeURIComponent(name || "");
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return false;  // not an address that this page made
  }
  const places = { kernel: kernels.map((k) => k.name), node: nodes.map(nodeLabel), value: values.map((v) => v.name) };
  const place = places[kind] ? places[kind].map(wellFormed).indexOf(wanted) : -1;
  if (kind === "module" && modules.has(wanted)) select(kind, wanted);
  else if (place >= 0) select(kind, place);
  return selection.kind !== "none";
}
