#!/usr/bin/env python3
"""Compares the bytes that `fusec explain` gives for every kernel with the bytes that the GPU moves, as measured by Nsight Compute.

    FUSEC=build/fusec python3 tests/gpu/traffic.py [--json FILE] [--only NAME...]

explain counts the bytes that a launch must move: every input and weight once, a row for every look-up, every output once. ncu empties the
caches before each kernel (--cache-control all), so that everything that a kernel reads must come from DRAM once; data that several thread
blocks read again come from L2 and do not count. Written data may still be in L2 when the kernel ends, so writes are counted where the
multiprocessors pass them to L2. The comparison is therefore of

    bytes_read     of explain with  dram__bytes_read.sum
    bytes_written  of explain with  32 x lts__t_sectors_srcunit_tex_op_write.sum

and a launch fails if its sum is above 1.25 times that of explain plus --slack bytes (64 KB), which the code, arguments and constants of a
kernel may take from DRAM in addition. Reads of L2 are shown for information: those beyond the reads of DRAM are repeated reads. The ratio
is below 1 for launches that look up the same rows of small tables many times, since each row comes from DRAM once. A matrix product of the
library may take several kernels; consecutive products are compared together.
"""
import argparse
import csv
import datetime
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "benchmarks" / "peers"))
from machine import gpu_facts, native_target, said  # noqa: E402

MODELS = {"dlrm_dot.ts": (64, 2048), "lecture_dlrm.ts": (64, 2048), "lora_block.ts": (2, 2048), "lola.ts": (64, 2048)}
SECTOR = 32
METRICS = {  # name in the results -> name in ncu, bytes of one
    "dram_read": ("dram__bytes_read.sum", 1),
    "dram_written": ("dram__bytes_write.sum", 1),
    "l2_read": ("lts__t_sectors_srcunit_tex_op_read.sum", SECTOR),
    "l2_written": ("lts__t_sectors_srcunit_tex_op_write.sum", SECTOR),
}
MOST = 1.25
OF_RUNTIME = {"copy_inputs", "end_run"}  # launched in addition to those of the artifact (codegen_templates/runtime)


def run(command, environment=None):
    child = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {child.returncode}:\n{child.stderr[-2000:]}{child.stdout[-2000:]}")
    return child.stdout


def kernels_of(text):
    """(name, bytes by name in METRICS) of every kernel of the artifact or the library, in order, from ncu's CSV output."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        sys.exit(f"ncu saw no kernel:\n{text[-2000:]}")
    kernels = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[head:]))):
        if not (row["ID"] or "").isdigit():  # a remark of ncu
            continue
        name, found = kernels.setdefault(row["ID"], (row["Kernel Name"], {}))
        for key, (metric, bytes_of_one) in METRICS.items():
            if row["Metric Name"] != metric:
                continue
            try:
                found[key] = float(row["Metric Value"].replace(",", "")) * bytes_of_one
            except ValueError:
                sys.exit(f"ncu gives {row['Metric Value']!r} for {metric} of {name}")
    for name, found in kernels.values():
        missing = [METRICS[key][0] for key in METRICS if key not in found]
        if missing:
            sys.exit(f"ncu gives no {', '.join(missing)} for {name}")
    return [kernel for kernel in kernels.values() if kernel[0] not in OF_RUNTIME]


def groups_of(steps):
    """Steps that are compared together: each generated kernel alone, and consecutive products of the library."""
    groups, open_library = [], False
    for step in steps:
        library = step["launch"].startswith("library")
        if library and open_library:
            groups[-1].append(step)
        else:
            groups.append([step])
        open_library = library
    return groups


def compare(steps, kernels, slack):
    """A row for every group, with the bytes of explain and of ncu."""
    rows, at = [], 0
    names = {step["function"] for step in steps if "function" in step}
    for group in groups_of(steps):
        row = {"kernels": [step["name"] for step in group], "seen": 0,
               "explained_read": sum(step["bytes_read"] for step in group),
               "explained_written": sum(step["bytes_written"] for step in group), **dict.fromkeys(METRICS, 0)}
        library = group[0]["launch"].startswith("library")
        while at < len(kernels) and (kernels[at][0] not in names if library else row["seen"] == 0):
            name, found = kernels[at]
            if not library and name != group[0]["function"]:
                sys.exit(f"kernel {at} that ncu saw is {name}, expected {group[0]['function']}")
            for key, value in found.items():
                row[key] += value
            row["seen"] += 1
            at += 1
        row["explained"] = row["explained_read"] + row["explained_written"]
        row["measured"] = row["dram_read"] + row["l2_written"]
        row["ratio"] = row["measured"] / row["explained"] if row["explained"] else float("inf")
        row["good"] = row["seen"] > 0 and row["measured"] <= MOST * row["explained"] + slack
        rows.append(row)
    if at != len(kernels):
        sys.exit(f"ncu saw {len(kernels)} kernels, of which {at} belong to steps; the next is {kernels[at][0]}")
    return rows


def measure(arguments, model, batch, artifact):
    dim = f"{json.loads((artifact / 'manifest.json').read_text())['symbols'][0]['name']}={batch}"
    explained = json.loads(run([arguments.fusec, "explain", artifact, "--target", arguments.target, "--dim", dim, "--json"]))
    metrics = ",".join(metric for metric, _ in METRICS.values())
    text = run(["ncu", "--cache-control", "all", "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", metrics,
                arguments.fusec, "run", artifact, "--random", "--device", "cuda", "--dim", dim],
               {**os.environ, "FUSEC_CUDA_GRAPH": "0"})  # kernels one by one
    return {"model": model, "batch": batch, "rows": compare(explained["kernels"], kernels_of(text), arguments.slack)}


def kilobytes(value):
    return f"{value / 1000:,.1f}"


def print_table(cell):
    print(f"\n{cell['model']} at batch {cell['batch']}, KB")
    print(f"  {'kernel':58} {'explained':>11} {'measured':>11} {'ratio':>6}   {'reads':>10} {'of DRAM':>10} {'of L2':>10}"
          f"   {'writes':>10} {'to L2':>10}")
    for row in cell["rows"]:
        name = row["kernels"][0] + (f" and {len(row['kernels']) - 1} more" if len(row["kernels"]) > 1 else "")
        print(f"  {name[:58]:58} {kilobytes(row['explained']):>11} {kilobytes(row['measured']):>11} {row['ratio']:6.2f}   "
              f"{kilobytes(row['explained_read']):>10} {kilobytes(row['dram_read']):>10} {kilobytes(row['l2_read']):>10}   "
              f"{kilobytes(row['explained_written']):>10} {kilobytes(row['l2_written']):>10}"
              f"{'' if row['good'] else '   TOO MUCH'}", flush=True)
    sums = {key: sum(row[key] for row in cell["rows"]) for key in ("explained", "measured")}
    print(f"  {'together':58} {kilobytes(sums['explained']):>11} {kilobytes(sums['measured']):>11} "
          f"{sums['measured'] / sums['explained']:6.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--only", nargs="*", help="models to measure, of " + ", ".join(MODELS))
    parser.add_argument("--slack", type=int, default=64000, help="additional bytes that are not traffic of tensors")
    parser.add_argument("--fusec", default=os.environ.get("FUSEC", str(ROOT / "build" / "fusec")))
    parser.add_argument("--target", help="target of fusec; default: that of the GPU")
    arguments = parser.parse_args()
    arguments.target = arguments.target or native_target()

    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.only or MODELS:
            artifact = Path(folder) / model
            run([arguments.fusec, ROOT / "models" / f"{model}.onnx", "-o", artifact, "--target", arguments.target])
            for batch in MODELS[model]:
                cells.append(measure(arguments, model, batch, artifact))
                print_table(cells[-1])
    if arguments.json:
        facts = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "gpu": gpu_facts(),
                 "ncu": said("ncu", "--version"), "metrics": METRICS, "slack": arguments.slack, "most": MOST}
        arguments.json.write_text(json.dumps({**facts, "cells": cells}, indent=1) + "\n")
    bad = [row["kernels"][0] for cell in cells for row in cell["rows"] if not row["good"]]
    print(f"\n{len(bad)} of {sum(len(cell['rows']) for cell in cells)} launches move more than {MOST} times what explain says")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
