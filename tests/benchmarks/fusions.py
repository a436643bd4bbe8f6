#!/usr/bin/env python3
"""Measures the gain of each fusion and rewrite: times of a model with all passes, and with that pass left out.

    FUSEC=build/fusec python3 tests/benchmarks/fusions.py --results FILE.json [--markdown FILE.md] [--minutes 7]

For every model and every optional pass of passes/passes.def, the model is compiled with --disable-fusion PASS. If launches and kernels stay
the same, the pass has no effect on the model. Otherwise both artifacts are timed (`fusec bench`: device time, with several sets of inputs
in turn); the ratio is above 1 if the pass gains. Where a pass seems to lose, both are timed again in turns, and the better time of each
counts. Compilation uses all cores first; then artifacts are timed one by one. Measurements that do not fit into --minutes are made by the
next run with the same results file.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "models"), str(Path(__file__).resolve().parent / "peers")]
import suite  # noqa: E402
from contest import Failure, run  # noqa: E402
from machine import describe_machine, parse_arguments  # noqa: E402
from report import geometric_mean, table, us  # noqa: E402

BATCHES = (1, 128, 2048)
# Files are those of models/, and the small models of other families on which further passes have an effect. Names are those of
# models/suite.py, with tables cut to 10,000 rows, and the dtype.
FILES = ["models/dlrm_dot.ts.onnx", "models/lecture_dlrm.ts.onnx", "models/lola.ts.onnx", "models/lora_block.ts.onnx",
         "models/lora_mlp.ts.onnx", "models/lora_mlp_256.ts.onnx", "tests/end_to_end/models/auto_int.ts.onnx",
         "tests/end_to_end/models/bags.ts.onnx", "tests/end_to_end/models/dcn_mixture.ts.onnx",
         "tests/end_to_end/models/dot_triangle.ts.onnx", "tests/end_to_end/models/encoder.dynamo.onnx",
         "tests/end_to_end/models/id_list.dynamo.onnx", "tests/end_to_end/models/lora_llama.ts.onnx"]
SUITE = {"dlrm_dot": "fp32", "lecture_main": "fp32", "dcnv2_small": "fp32", "deep_fm": "fp32", "two_tower": "fp32",
         "lora_mlp_1k": "fp32", "lola": "fp32", "lora_block": "fp16"}
MOST_BATCH = {"lora_block.fp16.medium": 128}  # an activation for batch 2048 would take gigabytes
EVEN = 0.02  # a ratio closer to 1 than this counts as no difference


def optional_passes():
    text = (ROOT / "passes" / "passes.def").read_text()
    return re.findall(r'^FUSEC_PASS\("([^"]+)",\s*\w+,\s*true,', text, re.MULTILINE)


def models(patterns, folder):
    """Name -> path of the selected models."""
    wanted = {}
    for file in FILES:
        wanted[Path(file).name.removesuffix(".onnx")] = lambda file=file: ROOT / file
    for name, dtype in SUITE.items():
        wanted[f"{name}.{dtype}.medium"] = lambda name=name, dtype=dtype: suite.write_model(name, folder, dtype, "medium")
    chosen = [name for name in wanted if not patterns or any(pattern in name for pattern in patterns)]
    return {name: wanted[name]() for name in chosen}


def what_runs(artifact, target):
    """Everything in an artifact that determines what is launched: two artifacts with equal values run the same kernels."""
    manifest = json.loads((artifact / "manifest.json").read_text())
    sources = {path: text for path, text in manifest["files"].items() if not path.startswith("ir/")}
    return manifest["targets"][target]["steps"], sources


class Variants:
    """The artifacts of one model: "" has all passes, and each of the others lacks the pass of its name."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.environment = {**os.environ, "FUSEC_CACHE_DIR": str(folder / "cache")}

    def path(self, model, without):
        return self.folder / f"{model}--{without or 'everything'}"

    def compile(self, model, path, without):
        command = [self.arguments.fusec, path, "-o", self.path(model, without), "--target", self.arguments.target]
        command += ["--disable-fusion", without] if without else []
        run([str(part) for part in command], 300, self.environment)

    def compile_all(self, paths, pairs):
        """(model, pass) -> why it failed, or None."""
        jobs = {(model, without): self.pool.submit(self.compile, model, paths[model], without) for model, without in pairs}
        failures = {}
        for key, job in jobs.items():
            try:
                failures[key] = job.result()
            except Failure as failure:
                failures[key] = str(failure)
        return failures

    def bench(self, model, without):
        """Batch -> figures."""
        artifact = self.path(model, without)
        symbols = json.loads((artifact / "manifest.json").read_text())["symbols"]
        most = min(MOST_BATCH.get(model, BATCHES[-1]), symbols[0]["max"])
        batches = [batch for batch in BATCHES if batch <= most]
        command = [self.arguments.fusec, "bench", artifact, "--device", self.arguments.device, "--json", "--seconds",
                   self.arguments.seconds, "--dim", f"{symbols[0]['name']}={','.join(map(str, batches))}"]
        cells = json.loads(run([str(part) for part in command], 120, self.environment))
        return {batch: {"us": cell["device_us"], "launches": cell["launches"], "bytes": cell["bytes"]}
                for batch, cell in zip(batches, cells)}


def better(first, second):
    """The smaller of two measurements of the same artifact, which has less noise."""
    return first if first["us"]["median"] <= second["us"]["median"] else second


def cells_of(model, fusion, with_it, without_it):
    return [{"fusion": fusion, "model": model, "batch": batch, "with": with_it[batch], "without": without_it[batch],
             "ratio": without_it[batch]["us"]["median"] / with_it[batch]["us"]["median"]} for batch in with_it]


def lost(cells):
    return [cell for cell in cells if cell["ratio"] < 1 - EVEN]


def measure(variants, model, fusion, everything):
    """The cells of a model and a pass. `everything` is the time with all passes, which a second measurement may improve."""
    without = variants.bench(model, fusion)
    if lost(cells_of(model, fusion, everything, without)):
        for known, name in ((everything, ""), (without, fusion)):
            again = variants.bench(model, name)
            known.update({batch: better(known[batch], again[batch]) for batch in known})
    return cells_of(model, fusion, dict(everything), without)


def measure_model(variants, model, fusions, results, end):
    """Adds the cells of a model and these passes; returns the number of passes for which no time was left."""
    everything = None
    for number, fusion in enumerate(fusions):
        if time.monotonic() > end:
            return len(fusions) - number
        try:
            everything = everything or variants.bench(model, "")
            cells = measure(variants, model, fusion, everything)
        except Failure as failure:
            results["failures"].append([model, fusion, str(failure)])
            continue
        results["cells"] += cells
        for cell in cells:
            print("  ".join(row_of(cell)), flush=True)
    return 0


def row_of(cell):
    fields = (cell["with"], cell["without"])
    return [cell["fusion"], cell["model"], str(cell["batch"]), *(us(field["us"]["median"]) for field in fields),
            f"{cell['ratio']:.2f}", " / ".join(str(field["launches"]) for field in fields),
            " / ".join(f"{field['bytes'] / 1e6:,.2f}" for field in fields)]


def markdown(results):
    """The tables of the page: one line per fusion, the cells where a fusion lost, and all cells."""
    cells = sorted(results["cells"], key=lambda cell: (cell["fusion"], cell["model"], cell["batch"]))
    by_fusion = {}
    for cell in cells:
        by_fusion.setdefault(cell["fusion"], []).append(cell["ratio"])
    summary = [[fusion, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", str(len(ratios)),
                str(sum(ratio < 1 - EVEN for ratio in ratios))]
               for fusion, ratios in sorted(by_fusion.items(), key=lambda item: -geometric_mean(item[1]))]
    losers = sorted(lost(cells), key=lambda cell: cell["ratio"])
    head = ["fusion", "model", "batch", "us with", "us without", "without / with", "launches", "MB"]
    machine = results["machine"]
    gpu = (machine["gpu"] or {}).get("name", machine["processor"])
    parts = ["# What each fusion is worth\n",
             f"{gpu}, {machine['date'][:10]}: device time of a run with everything beside that with one pass left out "
             "(`tests/benchmarks/fusions.py`).\nRatios above 1 are what the pass gains. Launches and MB: with / without.\n",
             table(["fusion", "mean ratio", "least", "most", "cells", f"below {1 - EVEN:.2f}"], summary),
             f"## What lost more than {EVEN:.0%}\n", table(head, map(row_of, losers)) if losers else "Nothing.\n",
             "## Every cell\n", table(head, map(row_of, cells))]
    if results["failures"]:
        parts += ["## Not measured\n", table(["model", "fusion", "why"], results["failures"])]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--only", nargs="*", help="parts of names of models")
    parser.add_argument("--passes", nargs="*", default=optional_passes(), help="default: all optional passes")
    parser.add_argument("--minutes", type=float, default=7, help="after this time, nothing new is begun (default: %(default)s)")
    parser.add_argument("--seconds", default="0.05", help="seconds of `fusec bench` for each time (default: %(default)s)")
    arguments = parse_arguments(parser)
    end = time.monotonic() + 60 * arguments.minutes
    arguments.scale, arguments.ids, arguments.rounds = "medium", "uniform", 2
    results = {"machine": describe_machine(arguments), "cells": [], "idle": [], "failures": []}
    if arguments.results.exists():
        results = json.loads(arguments.results.read_text())
    done = {(cell["model"], cell["fusion"]) for cell in results["cells"]} | {tuple(pair) for pair in results["idle"]}
    results["failures"] = []
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        variants = Variants(arguments, Path(folder))
        paths = models(arguments.only, folder)
        wanted = {model: [fusion for fusion in arguments.passes if (model, fusion) not in done] for model in paths}
        failures = variants.compile_all(paths, [(model, fusion) for model in paths if wanted[model] for fusion in ["", *wanted[model]]])
        print(f"compiled {len(failures)} artifacts, {end - time.monotonic():.0f} s are left", flush=True)
        for model, fusions in wanted.items():
            busy = []
            for fusion in fusions:
                if why := failures[(model, "")] or failures[(model, fusion)]:
                    results["failures"].append([model, fusion, why])
                elif what_runs(variants.path(model, ""), arguments.target) == what_runs(variants.path(model, fusion), arguments.target):
                    results["idle"].append([model, fusion])
                else:
                    busy.append(fusion)
            left += measure_model(variants, model, busy, results, end)
            arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    print(f"{len(results['cells'])} cells, {len(results['idle'])} pairs of which the pass has nothing to do, "
          f"{len(results['failures'])} failures" + (f"; {left} pairs are left for the next run" if left else ""))


if __name__ == "__main__":
    main()
