#!/usr/bin/env python3
"""Measures, for a DLRM with small tables, the seconds from the start of a process to its first answer, the latency of later calls, and the
seconds of compiling.

    FUSEC=build/fusec python3 tests/benchmarks/start_against_peers.py --results FILE.json --markdown FILE.md

    fusec            `fusec run` on an artifact
    fusec from C     a program that does the same through libfusec_rt.so (build/tests/call_latency), and goes on calling, then
                     with page-locked inputs, and with inputs and outputs in the GPU's memory
    torch-*, xla     a Python process that imports the framework, loads the weights, compiles where it does, answers, and goes on calling
    context          what creating a CUDA context takes of each of them
    compile cold     `fusec compile` with an empty kernel cache, compile warm: with the kernels in it

All take turns for --rounds rounds; the medians count. A first round, which does not count, brings the files that a process needs into the
page cache. Unless stated otherwise, a call is from inputs in host memory to the answer in host memory; p50 and p99 are those of --seconds
of consecutive calls in that process, as the median of the rounds (against_peers.py also times calls of peers with CUDA graphs). If
FILE.json exists, only the rounds that it lacks are measured.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).resolve().parent / "peers"
sys.path += [str(ROOT / "models"), str(PEERS)]
import suite  # noqa: E402
from contest import Failure, run  # noqa: E402
from machine import describe_machine, parse_arguments  # noqa: E402
from report import table  # noqa: E402

MODEL, BATCH = "dlrm_dot_small", 128


def timed(command, environment):
    """Returns the seconds of the command and None; or, for a command that prints "answered", the seconds until then and its figures of
    later calls; or, for a command that prints a number of seconds, that number and None."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log,
                                                               text=True, env=environment) as child:
        watch = threading.Timer(120, child.kill)
        watch.start()
        first = child.stdout.readline().strip()
        answered = time.perf_counter() - begin
        rest = child.stdout.read()
        child.wait()
        ended = time.perf_counter() - begin
        watch.cancel()
        log.seek(0)
        said = log.read().strip().splitlines()
    if child.returncode:
        raise Failure(f"exit {child.returncode}: {said[-1] if said else 'no message'}"[:400])
    if first == "answered":
        return answered, json.loads(rest)
    try:
        return float(first), None
    except ValueError:
        return ended, None


def commands_of(arguments, folder):
    """Name -> (command, environment, paths to remove before)."""
    model = suite.write_model(MODEL, folder)
    inputs = folder / "inputs.npz"
    np.savez(inputs, **suite.inputs_of(MODEL, BATCH, "fp32", 0))
    artifact, cold, warm = folder / "artifact", folder / "cold", folder / "warm"
    compiling = [arguments.fusec, model, "--target", arguments.target, "-o"]
    cached = {**os.environ, "FUSEC_CACHE_DIR": str(warm)}
    run([str(part) for part in [*compiling, artifact]], 120, cached)
    commands = {
        "compile cold": ([*compiling, folder / "other"], {**os.environ, "FUSEC_CACHE_DIR": str(cold)}, cold),
        "compile warm": ([*compiling, folder / "other"], cached, None),
        "fusec": ([arguments.fusec, "run", artifact, "--input", inputs, "--device", arguments.device], cached, None),
        "fusec from C": ([arguments.call_latency, artifact, arguments.device, BATCH, arguments.seconds], cached, None),
    }
    for peer in [peer for peer in arguments.peers.split(",") if peer]:
        inductor = folder / "inductor"
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(inductor), "TRITON_CACHE_DIR": str(inductor)}
        commands[peer] = ([sys.executable, PEERS / "first_answer.py", peer, model, inputs, arguments.seconds], environment,
                          inductor if peer == "torch-compile" else None)
    return commands


def medians(results):
    """Name -> seconds; and name -> p50 and p99 of calls in microseconds."""
    return ({name: float(np.median(values)) for name, values in results["rounds"].items()},
            {name: {key: float(np.median([figure[key] for figure in figures])) for key in ("p50", "p99")}
             for name, figures in results["call_rounds"].items()})


def markdown(results):
    """The tables of the page: starts and compiling, calls, and failures."""
    seconds, calls = medians(results)
    machine = results["machine"]
    gpu = machine["gpu"] or {"name": machine["processor"], "driver": "none"}
    versions = ", ".join(sorted(set(results["versions"].values())))
    rounds = max(map(len, results["rounds"].values()), default=0)
    parts = ["# From the start of a process to its first answer\n",
             f"{gpu['name']}, driver {gpu['driver']}, {machine['processor']} ({machine['cores']} cores), {machine['date'][:10]}, "
             f"commit {machine['commit'][:7]}{', ' + versions if versions else ''}: {results['model']} at batch {results['batch']}, "
             f"medians of {rounds} rounds (`tests/benchmarks/start_against_peers.py`, whose head says what each is).\n",
             table(["what", "s", "rounds"],
                   [[name, f"{seconds[name]:.3f}", ", ".join(f"{value:.3f}" for value in values)]
                    for name, values in results["rounds"].items()]),
             "## Calls behind it, in microseconds\n",
             table(["who", "p50", "p99"], [[name, f"{call['p50']:,.1f}", f"{call['p99']:,.1f}"] for name, call in calls.items()])]
    if results["failures"]:
        parts += ["## Not measured\n", table(["what", "why"], results["failures"].items())]
    return "\n".join(parts)


def add(results, name, taken, call_us):
    """The figures of one process."""
    results["rounds"].setdefault(name, []).append(taken)
    if not call_us:
        return
    if version := call_us.pop("version", None):
        results["versions"][name] = version
    figures = {name: call_us, f"{name}, page-locked inputs": call_us.pop("page_locked", None),
               f"{name}, GPU memory": call_us.pop("device", None)}
    for who, figure in figures.items():
        if figure:
            results["call_rounds"].setdefault(who, []).append(figure)


def measure(arguments, results, folder):
    """Runs all commands in turn until each has its rounds; returns whether there was enough time."""
    commands = commands_of(arguments, folder)
    end = time.monotonic() + 60 * arguments.minutes
    for number in range(arguments.rounds + 1):
        for name, (command, environment, remove) in commands.items():
            if name in results["failures"] or len(results["rounds"].get(name, [])) >= max(number, 1):
                continue
            if time.monotonic() > end:
                return False
            if remove is not None:
                shutil.rmtree(remove, ignore_errors=True)
            try:
                taken, call_us = timed(command, environment)
            except Failure as failure:
                results["failures"][name] = str(failure)
                print(f"{name}: FAILED: {failure}", flush=True)
                continue
            if number:
                add(results, name, taken, call_us)
                arguments.results.write_text(json.dumps(results, indent=1) + "\n")
            print(f"{f'round {number} of {arguments.rounds}' if number else 'first'}: {name} {taken:.3f} s", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--peers", default="context,torch-eager,torch-compile,xla", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=7, help="after this time, nothing new is begun (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of calls in each round (default: %(default)s)")
    parser.add_argument("--call-latency", default=str(ROOT / "build" / "tests" / "call_latency"), help="default: %(default)s")
    arguments = parse_arguments(parser)
    arguments.scale, arguments.ids = "small tables", "uniform"

    results = {"machine": describe_machine(arguments), "model": MODEL, "batch": BATCH, "versions": {}, "rounds": {}, "call_rounds": {}}
    if arguments.results.exists():
        results = json.loads(arguments.results.read_text())
    results["failures"] = {}
    with tempfile.TemporaryDirectory() as folder:
        is_whole = measure(arguments, results, Path(folder))
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    seconds, calls = medians(results)
    for name, median in seconds.items():
        print(f"{name:14} {median:7.3f} s")
    for name, figure in calls.items():
        print(f"{name:14} {figure['p50']:9.1f} us a call, p99 {figure['p99']:.1f}")
    if not is_whole:
        print("the rest is left for the next run")


if __name__ == "__main__":
    main()
