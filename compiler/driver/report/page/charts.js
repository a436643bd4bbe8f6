"use strict";
// The bars that compare before and after, the roofline chart, and the timeline of the kernels of a run.

function bar(label, before, after, text, less) {
  const row = (when, value) => {
    const width = (100 * value) / Math.max(1, before, after);
    const filled = html("span", { class: "bar-fill", style: `width:${width.toFixed(2)}%` });
    return html("div", { class: "bar-row " + when }, span("bar-when", when), span("bar-track", filled), span("bar-value", text(value)));
  };
  const factor = after > 0 ? before / after : 0;
  const factorText = (factor < 9.95 ? factor.toFixed(1) : factor.toFixed(0)) + "\u00d7 " + less;
  return html("div", { class: "bar" },
    html("div", { class: "bar-label" }, html("b", null, label), factor >= 1.05 ? span("factor", factorText) : null),
    row("before", before), row("after", after));
}

function startSummary() {
  replaceAll(byId("bars"), bar("Launches", data.before.launches, data.after.launches, String, "fewer"),
    bar("Memory traffic", data.before.bytes, data.after.bytes, bytesText, "less"));
  const halves = byId("headline").textContent.split("; ");  // the headline may break between its halves
  replaceAll(byId("headline"), html("span", null, halves[0] + ";\u00a0"), html("span", null, halves[1]));
  const dims = Object.entries(data.dims).map(([name, size]) => name + "=" + size).join(", ");
  const run = data.runs.find((one) => one.dims === (dims || "static dims"));
  replaceAll(byId("facts"), [
    "target " + data.target, dims || "static sizes", "opset " + data.opset, "matmul precision " + data.matmul_precision,
    data.rounding === "stores" ? "" : "rounding after " + data.rounding,
    data.index_policy === "error" ? "" : "index policy " + data.index_policy, data.batch_invariant ? "batch-invariant" : "",
    bytesText(data.footprint.weight_bytes) + " of weights", bytesText(data.footprint.arena_bytes) + " of scratch",
    run && run.device_us !== null ? microsecondsText(run.device_us) + " a run on " + run.device : "",
  ].filter((text) => text !== "").map((text) => html("span", null, text)));
}

// ---- roofline ----

// 10 to the power of i as text: "100 G".
const powerText = (i) => (i < 0 || i > 17 ? "1e" + i : 10 ** (i % 3) + " " + UNITS[Math.floor(i / 3)]);
const plainPower = (i) => (i >= -1 && i <= 4 ? String(10 ** i) : "1e" + i);

// Two logarithmic axes in a box, with lines at powers of ten. x and y map a value to its coordinate.
class LogChart {
  constructor(xs, ys, label) {
    const width = 900, height = 400, box = { left: 72, right: width - 24, top: 18, bottom: height - 44 };
    const ends = (all) => [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
    const [low, high] = ends(xs), [bottom, top] = ends(ys);
    this.x = (value) => box.left + ((Math.log10(value) - low) / (high - low)) * (box.right - box.left);
    this.y = (value) => box.bottom - ((Math.log10(value) - bottom) / (top - bottom)) * (box.bottom - box.top);
    this.box = box;
    this.range = { low: 10 ** low, high: 10 ** high, bottom: 10 ** bottom, top: 10 ** top };
    this.element = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (let i = low; i <= high; ++i) {
      const x = this.x(10 ** i);
      this.line("grid", x, box.top, x, box.bottom);
      this.text({ class: "tick", x, y: box.bottom + 16, "text-anchor": "middle" }, plainPower(i));
    }
    for (let i = bottom; i <= top; ++i) {
      const y = this.y(10 ** i);
      this.line("grid", box.left, y, box.right, y);
      this.text({ class: "tick", x: box.left - 8, y: y + 4, "text-anchor": "end" }, powerText(i));
    }
    this.text({ class: "axis", x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle" },
              "flops per byte of memory traffic");
    const middle = (box.top + box.bottom) / 2;
    this.text({ class: "axis", transform: `translate(16 ${middle}) rotate(-90)`, "text-anchor": "middle" }, "flop/s");
  }
  line(name, x1, y1, x2, y2) {
    this.element.append(svg("path", { class: name, d: "M" + [x1, y1].map(rounded).join(" ") + "L" + [x2, y2].map(rounded).join(" ") }));
  }
  text(attributes, text) {
    this.element.append(svg("text", attributes, text));
  }
}

// Draws the limits of the device: the rising line of the memory bandwidth, and a level line for each kind of arithmetic.
function drawRoofs(chart, bandwidth, roofs, most) {
  const { x, y, box, range } = chart;
  const start = Math.max(range.low, range.bottom / bandwidth), end = Math.min(range.high, most / bandwidth, range.top / bandwidth);
  chart.line("roof", x(start), y(bandwidth * start), x(end), y(bandwidth * end));
  const at = start ** 0.86 * end ** 0.14;  // the label is near the lower end, where few kernels are
  const slope = Math.atan2(y(bandwidth * end) - y(bandwidth * start), x(end) - x(start)) * (180 / Math.PI);
  const turned = `translate(${x(at)} ${y(bandwidth * at)}) rotate(${slope})`;
  chart.text({ class: "roof-name", transform: turned, dy: -14, "text-anchor": "middle" }, "memory, " + rateText(bandwidth, "B"));
  for (const [name, rate] of roofs) {
    const knee = rate / bandwidth;
    if (knee >= range.high) continue;
    chart.line(rate === most ? "roof" : "roof lower", x(knee), y(rate), box.right, y(rate));
    chart.text({ class: "roof-name", x: box.right - 4, y: y(rate) - 6, "text-anchor": "end" }, name + ", " + rateText(rate, "flop"));
  }
}

function startRoofline() {
  const peaks = data.peaks, points = kernels.filter((kernel) => kernel.flops > 0 && kernel.bytes > 0);
  if (!peaks || !(peaks.bytes_per_second > 0) || points.length === 0) return byId("roofline").remove();
  const bandwidth = peaks.bytes_per_second;
  const roofs = [["f32", peaks.f32_per_second], ["TF32", peaks.tf32_per_second], ["f16", peaks.f16_per_second]]
    .filter(([, rate]) => rate > 0);
  const most = roofs.reduce((most, [, rate]) => Math.max(most, rate), roofs.length ? 0 : Infinity);
  const intensity = (kernel) => kernel.flops / kernel.bytes;
  const roofAt = (x) => Math.min(bandwidth * x, most);
  const rate = (kernel) => (kernel.measured ? kernel.flops / (kernel.measured.us * 1e-6) : roofAt(intensity(kernel)));
  const xs = [0.1, 10, ...points.map(intensity), ...roofs.map(([, r]) => (1.5 * r) / bandwidth)];
  const ys = [...points.map((kernel) => 0.7 * rate(kernel)), ...points.map((kernel) => 1.2 * rate(kernel)),
              ...roofs.map(([, r]) => 1.2 * r), ...points.map((kernel) => roofAt(intensity(kernel)))];
  const chart = new LogChart(xs, ys, "Roofline of the kernels; the table of kernels has the numbers");
  drawRoofs(chart, bandwidth, roofs, most);
  drawPoints(chart.element, points, (kernel) => chart.x(intensity(kernel)), (kernel) => chart.y(rate(kernel)));
  const idle = kernels.filter((kernel) => kernel.flops === 0).map((kernel) => kernelLabel(kernel.number));
  replaceAll(byId("roofline"), html("h2", null, "Roofline"),
    html("p", { class: "note" },
      isMeasured ? "Each kernel's measured rate, under the limits of the device. "
                 : ["No times were given, so each kernel is drawn at its limit, the best rate that its traffic allows. ",
                    html("code", null, "fusec bench OUT --per-kernel --json"), " measures them. "],
      "Peaks: " + peaks.source + ".", idle.length ? ` Kernels without flops are not shown: ${idle.join(", ")}.` : ""),
    chart.element);
  watchLit(chart.element, ".point");
}

// Draws a dot for each kernel, with its number beside it where there is room.
function drawPoints(chart, points, x, y) {
  const wide = 24;
  const around = [[8, 15], [-8 - wide, -6], [-wide / 2, 21], [-wide / 2, -11], [10, 24], [-10 - wide, -15], [9, 4], [-9 - wide, 4]];
  const taken = points.map((kernel) => ({ left: x(kernel) - 6, right: x(kernel) + 6, top: y(kernel) - 6, bottom: y(kernel) + 6 }));
  const isFree = (box) => taken.every((other) =>
    box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
  for (const kernel of points) {
    const at = { x: x(kernel), y: y(kernel) };
    const dot = svg("g", clickable({ class: "point c-" + kernel.class + (kernel.measured ? "" : " hollow"), "data-kernel": kernel.number,
                                     "aria-label": "Kernel " + kernel.name }, () => select("kernel", kernel.number)),
      svg("title", null, kernel.name), svg("circle", { cx: at.x.toFixed(1), cy: at.y.toFixed(1), r: 6 }));
    const boxAt = ([dx, dy]) => ({ left: at.x + dx, right: at.x + dx + wide, top: at.y + dy - 11, bottom: at.y + dy + 2 });
    const place = around.find((offset) => isFree(boxAt(offset)));
    if (place) {
      taken.push(boxAt(place));
      dot.append(svg("text", { x: (at.x + place[0]).toFixed(1), y: (at.y + place[1]).toFixed(1) }, kernelLabel(kernel.number)));
    }
    chart.append(dot);
  }
}

function watchLit(chart, marks) {
  watchers.push((lit) => {
    for (const mark of chart.querySelectorAll(marks)) mark.classList.toggle("lit", lit.kernels.has(Number(mark.dataset.kernel)));
    chart.classList.toggle("some", lit.kernels.size > 0);
  });
}

// ---- times ----

// The kernels of a run as slices whose widths are their times. Below each is the time that its bytes take at the peak
// bandwidth of memory.
function timeline() {
  const width = 1000;
  const chart = svg("svg", { class: "chart timeline", viewBox: `0 0 ${width} 54`, role: "img",
                             "aria-label": "Kernels of one run; the width of each is its time" });
  let x = 0;
  for (const kernel of kernels) {
    const wide = (kernel.measured.us / totalUs) * width, time = microsecondsText(kernel.measured.us);
    const floor = kernel.floor_us === null ? 0 : Math.min(1, kernel.floor_us / kernel.measured.us) * wide;
    const floorText = kernel.floor_us === null ? "" : ", floor " + microsecondsText(kernel.floor_us);
    const name = shortened(wide > 120 ? kernel.name : kernelLabel(kernel.number), Math.floor(wide / 7.2));
    const slice = clickable({ class: "slice c-" + kernel.class, "data-kernel": kernel.number, "aria-label": kernel.name + ", " + time },
                            () => select("kernel", kernel.number));
    const box = (part, y, size, height) =>
      svg("rect", { class: part, x: x.toFixed(2), y, width: Math.max(0.5, size - 1).toFixed(2), height });
    chart.append(svg("g", slice, svg("title", null, kernel.name + "\n" + time + floorText), box("slice-back", 2, wide, 34),
                     box("slice-floor", 38, floor, 6), wide > 34 ? svg("text", { x: (x + 6).toFixed(1), y: 23 }, name) : null));
    x += wide;
  }
  watchLit(chart, ".slice");
  return chart;
}

function startTimes() {
  if (data.runs.length === 0) return byId("times").remove();
  const parts = [html("h2", null, "Times")];
  if (isMeasured) {
    const how = data.target === "cpu" ? "within whole runs" : "alone";
    parts.push(html("p", { class: "note" }, `The kernels of one run, ${microsecondsText(totalUs)} in all, each timed ${how}. `,
                    "Below each: the time that its bytes take at the peak bandwidth of memory."), timeline());
  }
  const rows = data.runs.filter((run) => run.call_us !== null).map((run) => ({
    cells: [same(run.dims), same(run.device), sized(run.device_us, microsecondsText), sized(run.call_us, microsecondsText)],
  }));
  if (rows.length) parts.push(table([toLeft("sizes"), toLeft("device"), toRight("device time"), toRight("whole call")], rows));
  replaceAll(byId("times"), parts);
}
