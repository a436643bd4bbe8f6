#!/usr/bin/env python3
"""Measures how the time of a DLRM grows with the batch, and how the time of look-ups grows with the rows of their tables.

    FUSEC=build/fusec python3 tests/benchmarks/growth.py --results FILE.json [--markdown FILE.md] [--svg FILE.svg] [--minutes 6.5]

- dlrm_dot of models/suite.py at batches 1 to 65,536.
- Look-ups alone at batch 16,384, 26 a sample: in one table of 1,000 to 30,000,000 rows (at most 4 GB), and in 26 tables
  that no cache holds, joined side by side. Ids are spread over all rows evenly, or by Zipf's law (id i about 1/i as
  frequent). The bytes of a look-up are its id, its row and its part of the output; their rate is given as the share of
  --peak, 4.25 TB/s, which an H200 reaches when it copies.

Times are device times of `fusec bench`, with 8 sets of inputs in turn. Results accumulate: measurements that do not fit into --minutes are
made by the next run with the same results file.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "models"), str(Path(__file__).resolve().parent / "peers")]
import line_chart  # noqa: E402
import suite  # noqa: E402
import suite_graphs  # noqa: E402
from contest import Failure, run  # noqa: E402
from machine import describe_machine, parse_arguments  # noqa: E402
from report import table, us  # noqa: E402

BATCHES = [4 ** power for power in range(9)]
LOOK_UP_BATCH, LOOK_UPS = 16384, 26
# (tables, rows of each, dim): 26 tables of 1.7 and 3.3 GB together, and one table from 64 KB on.
WIDE = [(26, 1_000_000, 16), (26, 250_000, 128)]
DEEP = [(1, rows, 16) for rows in (10**3, 10**4, 10**5, 10**6, 10**7, 3 * 10**7)] + \
    [(1, rows, 128) for rows in (10**3, 10**4, 10**5, 10**6, 7 * 10**6)]
IDS = ("uniform", "zipf")


def look_up_model(tables, rows, dim):
    """(model, weights) of a model that looks up 26 rows of `dim` floats for each sample, in this number of tables."""
    builder = suite_graphs.Builder("fp32")
    ids = builder.input([LOOK_UPS], integer=True)
    if tables == 1:
        result = builder.node("Gather", builder.table("table", rows, dim), ids, axis=0)
        shape = ["batch", LOOK_UPS, dim]
    else:
        parts = builder.embeddings(ids, [(f"tables.{i}", rows, dim) for i in range(tables)])
        result, shape = builder.node("Concat", *parts, axis=1), ["batch", LOOK_UPS * dim]
    return builder.model("look_ups", result, shape), builder.weights


class Runner:
    """Compiles one model at a time into a folder, and times it."""

    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, Path(folder)
        self.environment = {**os.environ, "FUSEC_CACHE_DIR": str(self.folder / "cache")}

    def compile(self, make):
        """`make(folder)` writes the model and returns its path; the model is deleted after compilation."""
        files, artifact = self.folder / "model", self.folder / "artifact"
        for folder in (files, artifact):
            shutil.rmtree(folder, ignore_errors=True)
        files.mkdir()
        run([str(part) for part in (self.arguments.fusec, make(files), "-o", artifact, "--target", self.arguments.target)],
            400, self.environment)
        shutil.rmtree(files)

    def bench(self, batches, ids):
        sizes = ",".join(map(str, batches))
        return json.loads(run([str(part) for part in (
            self.arguments.fusec, "bench", self.folder / "artifact", "--device", self.arguments.device, "--json", "--seconds",
            self.arguments.seconds, "--ids", ids, "--dim", f"batch={sizes}")], 400, self.environment))


def measure_batches(runner, results):
    """Measures dlrm_dot, with all batches in one run of `fusec bench`."""
    scale = runner.arguments.scale
    runner.compile(lambda folder: suite.write_model("dlrm_dot", folder, "fp32", scale))
    for cell in runner.bench(BATCHES, "uniform"):
        batch = cell["dims"]["batch"]
        entry = {"batch": batch, "us": cell["device_us"], "call_us": cell["call_us"], "launches": cell["launches"],
                 "bytes": cell["bytes"], "samples_per_second": batch / cell["device_us"]["median"] * 1e6}
        results["batches"].append(entry)


def measure_look_ups(runner, results, tables, rows, dim):
    def make(folder):
        model, weights = look_up_model(tables, rows, dim)
        path = folder / "look_ups.onnx"
        suite.write_files(path, model, weights, "fp32", 1)
        return path

    runner.compile(make)
    for ids in IDS:
        cell = runner.bench([LOOK_UP_BATCH], ids)[0]
        rate = cell["bytes"] / cell["device_us"]["median"] * 1e6
        entry = {"tables": tables, "rows": rows, "dim": dim, "ids": ids, "batch": LOOK_UP_BATCH, "us": cell["device_us"],
                 "launches": cell["launches"], "bytes": cell["bytes"], "bytes_per_second": rate,
                 "share": rate / results["peak_bytes_per_second"]}
        results["look_ups"].append(entry)
        print("  ".join(look_up_row(entry)), flush=True)


def batch_row(entry):
    return [f"{entry['batch']:,}", us(entry["us"]["median"]), us(entry["us"]["p99"]), us(entry["call_us"]["median"]),
            f"{entry['samples_per_second'] / 1e6:,.2f}", str(entry["launches"]), f"{entry['bytes'] / 1e6:,.1f}"]


def look_up_row(entry):
    return [str(entry["tables"]), f"{entry['rows']:,}", str(entry["dim"]),
            f"{entry['tables'] * entry['rows'] * entry['dim'] * 4 / 1e6:,.1f}", entry["ids"], us(entry["us"]["median"]),
            f"{entry['bytes'] / 1e6:,.1f}", f"{entry['bytes_per_second'] / 1e9:,.0f}", f"{entry['share']:.1%}"]


def subtitle(results):
    machine = results["machine"]
    return f"{(machine['gpu'] or {}).get('name', machine['processor'])}, {machine['date'][:10]}"


def markdown(results):
    return "\n".join([
        "# How times grow\n", f"{subtitle(results)}: `tests/benchmarks/growth.py`, device time.\n",
        f"## dlrm_dot ({results['machine']['scale']} tables) with the batch\n",
        table(["batch", "us", "p99", "call us", "M samples/s", "launches", "MB"], map(batch_row, results["batches"])),
        f"## {LOOK_UPS} look-ups a sample at batch {LOOK_UP_BATCH:,}\n",
        f"The last column is the rate beside {results['peak_bytes_per_second'] / 1e12:g} TB/s.\n",
        table(["tables", "rows of each", "dim", "MB of tables", "ids", "us", "MB moved", "GB/s", "share"],
              map(look_up_row, results["look_ups"]))])


def svg(results):
    batches = [line_chart.Line("device", [(entry["batch"], entry["us"]["median"]) for entry in results["batches"]]),
               line_chart.Line("call", [(entry["batch"], entry["call_us"]["median"]) for entry in results["batches"]])]
    shares = []
    for dim in sorted({entry["dim"] for entry in results["look_ups"]}):
        for ids in IDS:
            points = [(entry["rows"], 100 * entry["share"]) for entry in results["look_ups"]
                      if (entry["tables"], entry["dim"], entry["ids"]) == (1, dim, ids)]
            shares += [line_chart.Line(f"dim {dim}, {ids} ids", sorted(points))] if points else []
    plots = [line_chart.Plot("dlrm_dot: microseconds of a run", "batch", batches, True)] if results["batches"] else []
    if shares:
        peak = f"70 % of {results['peak_bytes_per_second'] / 1e12:g} TB/s"
        plots.append(line_chart.Plot(f"Look-ups at batch {LOOK_UP_BATCH:,}: % of the bandwidth", "rows of the table", shares, False,
                                     70, peak))
    return line_chart.draw("How times grow", subtitle(results), plots)


def write(arguments, results):
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    if arguments.svg:
        arguments.svg.write_text(svg(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--most-bytes", type=float, default=4e9, help="limit for the tables of a model (default: %(default)g)")
    parser.add_argument("--peak", type=float, default=4.25e12, help="bytes per second (default: %(default)g)")
    parser.add_argument("--scale", choices=suite.SCALES, default="full", help="size of dlrm_dot's tables")
    parser.add_argument("--minutes", type=float, default=6.5, help="after this time, nothing new is begun (default: %(default)s)")
    parser.add_argument("--seconds", default="0.2", help="seconds of `fusec bench` for each time (default: %(default)s)")
    arguments = parse_arguments(parser)
    end = time.monotonic() + 60 * arguments.minutes
    arguments.ids, arguments.rounds = "uniform and zipf", 1
    results = {"machine": describe_machine(arguments), "peak_bytes_per_second": arguments.peak, "batches": [], "look_ups": []}
    if arguments.results.exists():
        results = json.loads(arguments.results.read_text())
    done = {(entry["tables"], entry["rows"], entry["dim"]) for entry in results["look_ups"]}
    wanted = [shape for shape in [*WIDE, *DEEP] if 4 * shape[0] * shape[1] * shape[2] <= arguments.most_bytes]
    jobs = [] if results["batches"] else [lambda runner: measure_batches(runner, results)]
    jobs += [lambda runner, shape=shape: measure_look_ups(runner, results, *shape) for shape in wanted if shape not in done]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments, folder)
        while jobs and time.monotonic() < end:
            job = jobs.pop(0)
            try:
                job(runner)
            except Failure as failure:
                failed += 1
                print(f"FAILED: {failure}", flush=True)
            write(arguments, results)
    print(markdown(results))
    print(f"{len(jobs)} measurements are left for the next run" if jobs else "all is measured")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
