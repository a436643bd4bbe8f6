#!/usr/bin/env python3
"""Tests reports in a headless Chromium: clicks, keys, highlighting, overlaps, contrast. Any script error is a failure.

usage: check_browser.py FUSEC [--keep FOLDER]       FOLDER gets the pages, a screenshot of each and a PDF
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser
from models import hostile_model, layers_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREENS = ((1366, 768, False), (1920, 1080, True))
LEAST_CONTRAST = 4.5  # WCAG 2.1 AA, for text of ordinary size

# Pairs of text and background, as report.css names them.
COLOURS = [(text, back) for back in ("--back", "--panel", "--raised") for text in ("--text", "--soft")]
COLOURS += [("--accent", "--panel"), ("--memory", "--memory-back"), ("--text", "--accent-back"), ("--text", "--memory-back"),
            ("--soft", "--input-back"), ("--soft", "--output-back"), ("--output", "--back")]
COLOURS += [(name, back) for name in ("--comment", "--string", "--keyword", "--type", "--number", "--value")
            for back in ("--panel", "--accent-back")]

# Boxes of the picture that overlap, and texts that are wider than their boxes.
MISPLACED = """(() => {
  const found = [], boxes = picture.boxes;
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height) found.push(a.name + " lies on " + b.name);
  }));
  for (const text of picture.root.querySelectorAll("text")) {
    const group = text.parentNode, box = group.querySelector("rect:not(.behind)").getBBox(), place = text.getBBox();
    if (place.width > 0 && (place.x < box.x - 1 || place.x + place.width > box.x + box.width + 1)) found.push(text.textContent + " is wider than its box");
  }
  for (const inside of kernels.map(insideOf)) for (const a of inside.cells) for (const b of inside.cells)
    if (a !== b && a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + CELL_HEIGHT && b.y < a.y + CELL_HEIGHT) found.push(a.text + " lies on " + b.text);
  return found;
})()"""

CONTRAST = """(([text, back, hue]) => {
  const probe = document.createElement("span");
  if (hue) probe.className = hue;
  document.body.append(probe);
  const luminance = (name) => {
    probe.style.color = `var(${name})`;
    const parts = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [low, high] = [luminance(text), luminance(back)].sort((a, b) => a - b);
  probe.remove();
  return (high + 0.05) / (low + 0.05);
})"""


class Checks:
    def __init__(self):
        self.passed, self.failures, self.place = 0, [], ""

    def expect(self, good, what):
        if good:
            self.passed += 1
        else:
            self.failures.append(f"{self.place}: {what}")
            print(f"{self.place}: {what}", flush=True)


def lit(page):
    """The numbers of highlighted items, by view."""
    return page.run("""({
      cards: document.querySelectorAll("#graph .card.lit").length, cells: document.querySelectorAll("#graph .cell.lit").length,
      pills: document.querySelectorAll("#graph .pill.lit").length, ir: document.querySelectorAll("#ir .row.lit").length,
      code: document.querySelectorAll("#code .row.lit").length, kernels: document.querySelectorAll("#kernels tr.lit").length,
      nodes: document.querySelectorAll("#nodes tr.lit").length })""")


def check_picture(checks, page):
    counts = page.run("[kernels.length, nodes.length, document.querySelectorAll('#kernels tbody tr').length,"
                      " document.querySelectorAll('#nodes tbody tr').length]")
    checks.expect(counts[0] == counts[2] and counts[1] == counts[3], f"tables have other rows than there are kernels and nodes: {counts}")
    headline = page.run("document.getElementById('headline').textContent")
    checks.expect(headline.startswith(f"{counts[1]} ONNX node") and f" became {counts[0]} kernel" in headline, headline)
    checks.expect(page.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window")
    checks.expect(page.run(MISPLACED) == [], f"misplaced: {page.run(MISPLACED)[:5]}")
    page.run("expandAll()")
    drawn = page.run("[picture.drawn.kernels.size, new Set(picture.drawn.cells.flatMap((cell) => cell.nodes)).size]")
    checks.expect(drawn == counts[:2], f"{drawn} kernels and nodes are drawn, expected {counts[:2]}")
    checks.expect(page.run(MISPLACED) == [], f"misplaced, all kernels shown: {page.run(MISPLACED)[:5]}")


def check_links(checks, page):
    """A selection in each view highlights the related items in the others."""
    page.run("expandAll()")
    page.run("fit(false)")
    page.click("#graph .card .name")
    now = lit(page)
    checks.expect(now["cards"] == now["kernels"] == 1 and now["ir"] > 1 and now["nodes"] > 0 and now["cells"] > 0, f"a card lights {now}")
    checks.expect("#kernel/" in page.run("location.hash"), "a kernel has no address")
    page.click("#graph .card.lit .cell")
    now = lit(page)
    checks.expect(now["cells"] > 0 and now["ir"] > 0 and now["nodes"] > 0 and now["kernels"] > 0, f"a cell lights {now}")
    page.run("select('none', null)")
    page.click("#ir .row.links[data-line='" + page.run("String(Math.max(...Object.keys(data.ir.links).filter((i) => data.ir.links[i].length > 1)))") + "']")
    now = lit(page)
    checks.expect(now["ir"] == 1 and now["cells"] == 1 and now["kernels"] == 1, f"a line of IR lights {now}")
    with_code = page.run("kernels.findIndex((kernel) => kernel.source !== null && Object.keys(data.sources[kernel.source].ops).length > 0)")
    if with_code >= 0:
        page.run(f"select('kernel', {with_code})")
        page.click("#code .row.links")
        now = lit(page)
        checks.expect(now["code"] > 0 and now["ir"] > 0 and now["cells"] > 0 and now["kernels"] == 1, f"a line of code lights {now}")
    crossing = page.run("values.findIndex((value) => value.reasons.length > 0)")
    if crossing >= 0:
        page.run(f"select('value', {crossing})")
        now = lit(page)
        checks.expect(now["pills"] == 1 and now["kernels"] > 1, f"a tensor lights {now}")
        checks.expect("not one kernel because" in page.run("document.getElementById('inspector').textContent"), "a tensor has no reason")
        page.click("#crossing tbody tr")
        checks.expect(page.run("selection.kind") == "value", "a row of the table of tensors selects nothing")
    page.click("#nodes tbody tr")
    checks.expect(page.run("selection.kind") == "node" and lit(page)["cells"] > 0, "a row of the table of nodes selects nothing")
    for path in page.run("[...modules.keys()].slice(0, 3)"):
        page.run(f"byId('modules').value = {json.dumps(path)}; byId('modules').dispatchEvent(new Event('change'))")
        checks.expect(page.run("selection.kind") == "module" and lit(page)["cells"] > 0, f"module {path} lights nothing")
    page.run("select('none', null)")
    checks.expect(sum(lit(page).values()) == 0, f"nothing selected lights {lit(page)}")


def check_keys(checks, page):
    count = page.run("kernels.length")
    page.run("document.activeElement.blur()")
    for key in ("ArrowRight", "j", "j", "k"):
        page.key(key)
    checks.expect(page.run("[selection.kind, selection.of]") == ["kernel", min(1, count - 1)], "arrows do not step through kernels")
    page.key("Escape")
    checks.expect(page.run("selection.kind") == "none", "Escape selects something")
    name = page.run("nodeLabel(nodes[nodes.length - 1])")
    page.key("/")
    checks.expect(page.run("document.activeElement.id") == "search", "/ does not search")
    page.type(name[:200])
    checks.expect(page.run("byId('found').querySelectorAll('[role=option]').length") > 0, f"{name[:60]!r} is not found")
    page.key("ArrowDown")
    page.key("Enter")
    checks.expect(page.run("selection.kind") != "none", "Enter takes nothing that was found")
    checks.expect(page.run("document.activeElement.id") != "search", "the search keeps the keys")
    theme = page.run("document.documentElement.dataset.theme")
    page.key("t")
    checks.expect(page.run("document.documentElement.dataset.theme") != theme, "t does not change the theme")
    page.key("t")
    before = page.run("zoom")
    page.key("+")
    checks.expect(page.run("zoom") > before, "+ is no larger")
    page.key("f")
    checks.expect(page.run("picture.width * zoom <= byId('graph').clientWidth && picture.height * zoom <= byId('graph').clientHeight + 1 || zoom === 0.1"),
                  "f does not fit")
    page.key("?")
    checks.expect(page.run("byId('help').open"), "? shows no help")
    page.key("Escape")
    checks.expect(not page.run("byId('help').open"), "Escape leaves the help open")
    page.run("select('none', null); byId('graph').focus()")
    page.key("Tab")
    checks.expect(page.run("document.activeElement.closest('#graph .card') !== null"), "Tab does not reach a kernel")
    page.key("Enter")
    checks.expect(page.run("selection.kind") == "kernel", "Enter does not select the kernel")
    page.click("#kernels th:nth-child(5) button")
    sizes = page.run("[...document.querySelectorAll('#kernels tbody td:first-child .mono')].map((cell) => kernels.find((k) => k.name === cell.textContent).bytes_read)")
    checks.expect(sizes == sorted(sizes, reverse=True), f"the table does not sort: {sizes}")


def check_contrast(checks, page):
    hues = page.run("[...new Set(kernels.map((kernel) => 'c-' + kernel.class))]")
    for text, back, hue in [(*pair, "") for pair in COLOURS] + [(text, "--c-back", hue) for hue in hues for text in ("--text", "--soft", "--c")]:
        ratio = page.run(f"{CONTRAST}({json.dumps([text, back, hue])})")
        checks.expect(ratio >= LEAST_CONTRAST, f"{text} on {back} {hue} has a contrast of {ratio:.2f}, expected {LEAST_CONTRAST}")


def check_address(checks, page):
    name = page.run("kernels[kernels.length - 1].name")
    page.run("select('none', null)")
    page.run(f"location.hash = 'kernel/' + encodeURIComponent({json.dumps(name)})")
    page.load("Page.reload")
    checks.expect(page.run("selection.kind === 'kernel' && kernels[selection.of].name") == name, "an address of a kernel does not select it")


def check_page(checks, path, keep):
    for width, height, dark in SCREENS:
        checks.place = f"{path.name} at {width} x {height}, {'dark' if dark else 'light'}"
        with Browser(width, height, dark) as page:
            page.open(path)
            page.screenshot(keep / f"{path.stem}-{width}-{'dark' if dark else 'light'}.png")
            check_picture(checks, page)
            check_links(checks, page)
            check_keys(checks, page)
            check_contrast(checks, page)
            check_address(checks, page)
            page.pdf(keep / f"{path.stem}.pdf")
            checks.expect(page.run("typeof harm") == "undefined", "a name ran as a script")
            checks.expect(page.problems == [], f"problems: {page.problems[:5]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fusec")
    parser.add_argument("--keep")
    options = parser.parse_args()
    fusec = str(pathlib.Path(options.fusec).resolve())
    checks = Checks()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hostile.onnxtxt").write_text(hostile_model(), encoding="utf-8")
        (folder / "layers.onnxtxt").write_text(layers_model(7), encoding="utf-8")
        models = (("dlrm", ROOT / "models/dlrm_dot.ts.onnx", "cpu,sm_90a"), ("block", ROOT / "models/lora_block.dynamo.onnx", "cpu,sm_90a"),
                  ("hostile", folder / "hostile.onnxtxt", "cpu"), ("layers", folder / "layers.onnxtxt", "sm_90a"))
        for name, model, targets in models:
            artifact = folder / (name + "_fused")
            flags = ["--target", targets, "--cpu-level", "x86-64-v3"] + (["--keep-lora"] if name == "layers" else [])
            subprocess.run([fusec, str(model), "-o", str(artifact), *flags], check=True, stderr=subprocess.DEVNULL)
            extra = []
            if name == "block":  # with times
                times = folder / "times.json"
                with open(times, "w", encoding="utf-8") as file:
                    subprocess.run([fusec, "bench", str(artifact), "--device", "cpu", "--seconds", "0.05", "--per-kernel", "--json"], check=True, stdout=file)
                extra = ["--bench", str(times)]
            path = folder / (name + ".html")
            subprocess.run([fusec, "report", str(artifact), "-o", str(path), *extra], check=True, stderr=subprocess.DEVNULL)
            check_page(checks, path, folder)
    print(f"{checks.passed} passed, {len(checks.failures)} failed")
    sys.exit(1 if checks.failures else 0)


main()
