#!/usr/bin/env python3
"""Times fusec and its peers for the cells of models/suite.py, in one run on one machine with a GPU.

    FUSEC=build/fusec python3 tests/benchmarks/against_peers.py --results FILE.json [--only 'dlrm_dot/*/high,...']
        [--peers torch-eager,torch-compile,torch-max,xla,xla-scan,onnxruntime] [--minutes 8]

A cell is WORKLOAD/BATCH/CLASS. The class is `highest` (strict float32), `high` (TF32) or `fp16` (a model in half precision); with
`/unmerged` appended (--unmerged), low-rank adapters stay beside their layers for all contestants. All contestants of a cell are prepared
(compiled, captured), and then take turns for --rounds rounds. Each round measures:

    device_us         time on the GPU of an inference: runs back to back that go round eight sets of random inputs. fusec and
                      PyTorch: one CUDA graph of eight inferences, replayed, which spares seven launches of a graph of
                      eight. XLA: calls that are waited for once; xla-scan: a scan over the eight sets.
    device_single_us  fusec and PyTorch with a graph per inference, as a server runs them
    call_us           from inputs in host memory to the result there, the inputs going round the eight sets. fusec and PyTorch have
                      page-locked memory on both sides and one graph; XLA and onnxruntime take and give NumPy's arrays
    compile_s         fusec: the whole artifact for all batches, from ONNX; others: the first call

Results accumulate in FILE: a contestant for which a cell already has results is skipped, so that the work can be done in several runs of
--minutes each. fusec is measured again beside every peer, since only times of the same run are compared. Failures are recorded with their
cell. report.py makes a table and a chart from the file.
"""
import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "models"), str(Path(__file__).resolve().parent / "peers")]
import ahead  # noqa: E402
import suite  # noqa: E402
from contest import (Failure, Fusec, OTHER_SECONDS, PREPARE_SECONDS, WORKER_OF, Worker, error_of,  # noqa: E402
                     spread_of)
from machine import describe_machine, parse_arguments  # noqa: E402

SETS = 8


def all_cells(unmerged):
    """Names of the cells, the cells of one group (workload, class, merging) together."""
    for name, workload in suite.WORKLOADS.items():
        for suffix in ("", "/unmerged"):
            if suffix and not (unmerged and workload.family.startswith("lora")):
                continue
            for precision, batches in workload.cells.items():
                for batch in batches:
                    yield f"{name}/{batch}/{precision}{suffix}"


def group_of(cell):
    name, _, precision, *unmerged = cell.split("/")
    return name, precision, not unmerged


def batch_of(cell):
    return int(cell.split("/")[1])


class Results:
    """The file of results: runs, and per cell a list of contests, each with the contestants' figures of one run."""

    def __init__(self, path, machine):
        self.path = Path(path)
        self.data = {"runs": [], "cells": {}}
        if self.path.exists():
            self.data = json.loads(self.path.read_text())
        self.run = len(self.data["runs"])
        self.data["runs"].append(machine)
        self.begin = time.monotonic()

    def missing(self, cell, peers, retry=False):
        """The contestants that have no times for this cell yet and, without --retry, have not failed at it."""
        contests = self.data["cells"].get(cell, [])
        done = {peer for contest in contests for peer, entry in contest["results"].items()
                if "device_us" in entry or ("failure" in entry and not retry)}
        return [peer for peer in peers if peer not in done]

    def entry(self, cell, peer):
        contests = self.data["cells"].setdefault(cell, [])
        if not contests or contests[-1]["run"] != self.run:
            contests.append({"run": self.run, "results": {}})
        return contests[-1]["results"].setdefault(peer, {})

    def fail(self, cell, peer, failure):
        self.entry(cell, peer)["failure"] = str(failure)
        say(f"  {cell} {peer}: FAILED: {failure}")

    def write(self):
        self.data["runs"][self.run]["seconds"] = round(time.monotonic() - self.begin, 1)
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(self.data, indent=1) + "\n")
        temporary.replace(self.path)


BEGIN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGIN:6.1f} s] {text}", flush=True)


class Benchmark:
    def __init__(self, arguments, folder, results):
        self.arguments, self.folder, self.results = arguments, Path(folder), results
        self.environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
                            "TRITON_CACHE_DIR": str(self.folder / "triton")}
        self.workers = {}
        self.ahead_file = self.folder / "compiled_ahead.json"  # for later runs
        known = self.ahead_file.exists()
        self.compiled_ahead = json.loads(self.ahead_file.read_text()) if known else {}  # seconds by cell

    def compile_ahead(self, cells):
        jobs = []
        for cell in cells:
            if cell in self.compiled_ahead:
                continue
            name, precision, merged = group_of(cell)
            dtype, model = self.model_of(name, precision)
            jobs.append((cell, model, precision, merged, self.inputs(name, dtype, batch_of(cell))))
        if not jobs:
            return
        say(f"compiling for max-autotune, {self.arguments.ahead} of {len(jobs)} cells at a time")
        lock = self.folder / "gpu.lock"
        for cell, seconds in ahead.compile_ahead(jobs, self.arguments.ahead, self.environment, lock, self.arguments.log,
                                                 say):
            self.compiled_ahead[cell] = seconds
            self.ahead_file.write_text(json.dumps(self.compiled_ahead))

    def worker(self, name):
        worker = self.workers.get(name)
        if worker is None or not worker.alive():
            worker = self.workers[name] = Worker(name, self.arguments.log, self.environment)
            hello = worker.ask(OTHER_SECONDS, op="hello")
            self.results.data["runs"][self.results.run].setdefault("versions", {})[name] = hello
            say(f"{name}: {hello}")
        return worker

    def out_of_time(self):
        return time.monotonic() - BEGIN > 60 * self.arguments.minutes

    def close(self):
        for worker in self.workers.values():
            worker.end()

    def model_of(self, name, precision):
        """The dtype of a workload, and the file of its model."""
        dtype = "fp16" if precision == "fp16" else "fp32"
        return dtype, suite.write_model(name, self.folder, dtype, self.arguments.scale)

    def inputs(self, name, dtype, batch):
        """The files with the sets of inputs."""
        paths = []
        for seed in range(SETS):
            path = self.folder / f"{name}.{dtype}.{batch}.{seed}.npz"
            if not path.exists():
                np.savez(path, **suite.inputs_of(name, batch, dtype, seed, self.arguments.scale, self.arguments.ids))
            paths.append(str(path))
        return paths

    def references(self, model, name, dtype, inputs):
        """By batch, the file with the double-precision answers to the first set of inputs."""
        paths = {batch: str(self.folder / f"{name}.{dtype}.{batch}.reference.npy") for batch in inputs}
        missing = [batch for batch in inputs if not Path(paths[batch]).exists()]
        if missing:
            self.worker("torch").ask(OTHER_SECONDS, op="reference", model=str(model),
                                     inputs=[inputs[batch][0] for batch in missing],
                                     outputs=[paths[batch] for batch in missing])
        return paths

    def run_group(self, group, cells, peers):
        name, precision, merged = group
        say(f"{name} {precision}{'' if merged else ' unmerged'}: {', '.join(['fusec', *peers[cells[0]]])}")
        dtype, model = self.model_of(name, precision)
        batches = {cell: batch_of(cell) for cell in cells}
        inputs = {batch: self.inputs(name, dtype, batch) for batch in batches.values()}
        references = {}
        try:
            references = self.references(model, name, dtype, inputs)
        except Failure as failure:
            say(f"  no reference: {failure}")
        contest = Contest(self, group, model, batches, inputs, references)
        contest.prepare_fusec()
        contest.prepare_peers(peers)
        for number in range(self.arguments.rounds):
            contest.round(number)
        contest.finish()


class Contest:
    """Prepares and measures the contestants of one group in turns."""

    def __init__(self, benchmark, group, model, batch_of, inputs, references):
        self.benchmark, self.group, self.model, self.batch_of = benchmark, group, model, batch_of
        self.inputs, self.references, self.results = inputs, references, benchmark.results
        arguments = benchmark.arguments
        self.folder = benchmark.folder
        self.seconds = arguments.seconds
        self.fusec = Fusec(arguments.fusec, self.folder / "artifact", arguments.target, arguments.device,
                           self.folder / "kernels")
        self.ready, self.loaded = [], set()  # (cell, peer)
        self.samples = {}  # (cell, peer) -> figure -> statistics of each round

    def judge(self, cell, peer, answer):
        reference = self.references.get(self.batch_of[cell])
        if reference:
            self.results.entry(cell, peer)["error"] = error_of(answer, reference)

    def prepare_fusec(self):
        _, precision, merged = self.group
        try:
            compiled = self.fusec.load(self.model, precision, merged)
        except Failure as failure:
            for cell in self.batch_of:
                self.results.fail(cell, "fusec", failure)
            return
        say(f"  fusec: compiled in {compiled['compile_s']:.1f} s")
        for cell in self.batch_of:
            self.results.entry(cell, "fusec").update(compiled)
            self.ready.append((cell, "fusec"))

    def load(self, worker_name):
        _, precision, merged = self.group
        worker = self.benchmark.worker(worker_name)
        if worker_name not in self.loaded:
            worker.ask(OTHER_SECONDS, op="load", model=str(self.model), precision=precision, merged=merged)
            self.loaded.add(worker_name)
        return worker

    def prepare_peers(self, peers):
        for cell, batch in self.batch_of.items():
            for peer in peers[cell]:
                if self.benchmark.out_of_time():
                    say(f"  {cell} {peer}: left for another run")
                    continue
                answer = str(self.folder / "answer.npy")
                try:
                    worker = self.load(WORKER_OF[peer])
                    prepared = worker.ask(PREPARE_SECONDS.get(peer, OTHER_SECONDS), op="prepare", peer=peer,
                                          key=f"{cell} {peer}", inputs=self.inputs[batch], output=answer)
                    self.judge(cell, peer, answer)
                except Failure as failure:
                    self.results.fail(cell, peer, failure)
                    self.forget_dead(WORKER_OF[peer])
                    continue
                entry = self.results.entry(cell, peer)
                entry["compile_s"] = prepared["compile_s"]
                if peer == ahead.PEER:
                    entry["compile_s"] = self.benchmark.compiled_ahead.get(cell, entry["compile_s"])
                if "call_plain_us" in prepared:
                    entry["call_plain_us"] = spread_of(prepared["call_plain_us"])
                self.ready.append((cell, peer))
                say(f"  {cell} {peer}: ready in {prepared['compile_s']:.1f} s")

    def forget_dead(self, worker_name):
        """Forgets what was prepared in a process that has ended."""
        worker = self.benchmark.workers.get(worker_name)
        if worker is not None and worker.alive():
            return
        self.loaded.discard(worker_name)
        for cell, peer in [pair for pair in self.ready if WORKER_OF.get(pair[1]) == worker_name]:
            self.ready.remove((cell, peer))
            self.results.fail(cell, peer, "its process ended before it was measured")

    def round(self, number):
        """Measures each contestant once; the one that begins changes from round to round."""
        contestants = ["fusec", *sorted({peer for _, peer in self.ready if peer != "fusec"})]
        shift = number % len(contestants)
        for contestant in contestants[shift:] + contestants[:shift]:
            cells = [cell for cell, peer in self.ready if peer == contestant]
            if contestant == "fusec" and cells:
                self.measure_fusec(cells, number)
            for cell in cells if contestant != "fusec" else []:
                try:
                    worker = self.benchmark.workers[WORKER_OF[contestant]]
                    measured = worker.ask(OTHER_SECONDS, op="measure", key=f"{cell} {contestant}",
                                          seconds=self.seconds)
                except Failure as failure:
                    self.results.fail(cell, contestant, failure)
                    self.ready.remove((cell, contestant))
                    self.forget_dead(WORKER_OF[contestant])
                    continue
                for figure, samples in measured.items():
                    self.keep(cell, contestant, figure, spread_of(samples))

    def measure_fusec(self, cells, number):
        batches = [self.batch_of[cell] for cell in cells]
        try:
            measured, answers = self.fusec.measure(batches, self.inputs, self.seconds / 2, self.folder / "answers")
            for cell, batch in zip(cells, batches):
                self.judge(cell, "fusec", answers[batch])
        except Failure as failure:
            for cell in cells:
                self.results.fail(cell, "fusec", failure)
                self.ready.remove((cell, "fusec"))
            return
        for cell, batch in zip(cells, batches):
            figures = {"device_us": "device_together_us", "device_single_us": "device_us", "call_us": "call_us"}
            for figure, name in figures.items():
                # A CPU has no graphs.
                spread = {key: measured[batch].get(name, measured[batch]["device_us"])[key]
                          for key in ("median", "p10", "p90")}
                self.keep(cell, "fusec", figure, spread)
            for key in ("launches", "bytes", "flops"):
                self.results.entry(cell, "fusec")[key] = measured[batch][key]

    def keep(self, cell, contestant, figure, spread):
        self.samples.setdefault((cell, contestant), {}).setdefault(figure, []).append(spread)

    def finish(self):
        for (cell, contestant), figures in self.samples.items():
            for figure, rounds in figures.items():
                self.results.entry(cell, contestant)[figure] = {
                    "median": float(np.median([r["median"] for r in rounds])),
                    "p10": min(r["p10"] for r in rounds), "p90": max(r["p90"] for r in rounds),
                    "rounds": [round(r["median"], 3) for r in rounds]}
        for cell in self.batch_of:
            last = self.results.data["cells"].get(cell, [{"results": {}}])[-1]["results"]
            said = [f"{peer} {entry['device_us']['median']:.1f}" if "device_us" in entry else f"{peer} failed"
                    for peer, entry in last.items()]
            say(f"  {cell}: {', '.join(said)} us")
        self.fusec.unload()
        for name in self.loaded:
            worker = self.benchmark.workers[name]
            if worker.alive():
                worker.ask(OTHER_SECONDS, op="unload")
        self.results.write()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", "--resume", required=True, type=Path, help="file for the results")
    parser.add_argument("--only", help="comma-separated cells or patterns of cells")
    parser.add_argument("--peers", help="default: all; onnxruntime only if it has its CUDA provider")
    parser.add_argument("--retry", action="store_true", help="repeat cells that failed")
    parser.add_argument("--unmerged", action="store_true", help="also cells with low-rank adapters left unmerged")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.16, help="seconds of measuring per contestant, cell and round")
    parser.add_argument("--minutes", type=float, default=8, help="then prepare no further contestant, and measure the prepared ones")
    parser.add_argument("--ahead", type=int, default=0, metavar="N",
                        help="first compile for max-autotune, this many cells at a time (which affects compile_s), then measure them")
    parser.add_argument("--ids", choices=["uniform", "zipf"], default="uniform")
    parser.add_argument("--scale", choices=suite.SCALES, default="full", help="size of tables; others than full are for a trial")
    parser.add_argument("--folder", help="folder for models (7 GB), which is kept; default: a temporary folder")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "against_peers.log",
                        help="file for the output of the peers' processes")
    parser.add_argument("--dry-run", action="store_true", help="print what would be measured")
    return parse_arguments(parser)


def in_pieces(groups, cells):
    """Splits the items of `groups` into lists that each have at least this many cells in total."""
    piece = []
    for item in groups.items():
        piece.append(item)
        if sum(len(members) for _, members in piece) >= cells:
            yield piece
            piece = []
    if piece:
        yield piece


def has_onnxruntime():
    try:
        import onnxruntime
    except ImportError:
        return False
    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def main():
    arguments = parse()
    if arguments.peers is None:
        peers = [peer for peer in WORKER_OF if peer != "onnxruntime" or has_onnxruntime()]
    else:
        peers = [peer for peer in arguments.peers.split(",") if peer]
    unknown = [peer for peer in peers if peer not in WORKER_OF]
    if unknown:
        sys.exit(f"unknown peers {', '.join(unknown)}; known: {', '.join(WORKER_OF)}")
    patterns = (arguments.only or "*").split(",")
    cells = [cell for cell in all_cells(arguments.unmerged)
             if any(fnmatch.fnmatch(cell, pattern) or cell.startswith(pattern + "/") for pattern in patterns)]
    results = Results(arguments.results, {} if arguments.dry_run else describe_machine(arguments))
    missing = {cell: results.missing(cell, peers or ["fusec"], arguments.retry) for cell in cells}
    cells = [cell for cell in cells if missing[cell]]
    groups = {}
    for cell in cells:
        absent = tuple(peer for peer in missing[cell] if peer != "fusec")
        groups.setdefault((group_of(cell), absent), []).append(cell)
    say(f"{len(cells)} cells in {len(groups)} groups, results go to {arguments.results}")
    if arguments.dry_run:
        for (group, absent), members in groups.items():
            print(f"  {', '.join(members)}: fusec, {', '.join(absent)}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        benchmark = Benchmark(arguments, folder, results)
        try:
            for piece in in_pieces(groups, arguments.ahead):
                if arguments.ahead > 0 and not benchmark.out_of_time():
                    benchmark.compile_ahead([cell for (_, absent), members in piece if ahead.PEER in absent for cell in members])
                for (group, absent), members in piece:
                    if not benchmark.out_of_time():
                        benchmark.run_group(group, members, dict.fromkeys(members, absent))
        finally:
            benchmark.close()
            results.write()
    left = sum(bool(results.missing(cell, peers or ["fusec"])) for cell in cells)
    say(f"{left} cells are left" if left else "all cells are measured")


if __name__ == "__main__":
    main()
