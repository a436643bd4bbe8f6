#!/usr/bin/env python3
"""Seconds from the start of a process to its first answer, and of compiling, for a DLRM with small tables.

    FUSEC=build/fusec python3 tests/benchmarks/start_against_peers.py --results FILE.json

    fusec            `fusec run` on an artifact
    torch-*, xla     a Python process that imports the framework, loads the weights, compiles where it does, answers
    context          what creating a CUDA context takes of each of them
    compile cold     `fusec compile` with an empty kernel cache, compile warm: with the kernels in it

All take turns for --rounds rounds; medians. What a process needs to be found in the page cache is there from a first
round that does not count.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).resolve().parent / "peers"
sys.path += [str(ROOT / "models"), str(PEERS)]
import suite  # noqa: E402
from contest import Failure, run  # noqa: E402
from machine import describe_machine, native_target  # noqa: E402

MODEL, BATCH = "dlrm_dot_small", 128


def timed(command, environment):
    """Seconds of the command, or those that it printed if it printed a number."""
    begin = time.perf_counter()
    said = run([str(part) for part in command], 120, environment).strip()
    seconds = time.perf_counter() - begin
    try:
        return float(said)
    except ValueError:
        return seconds


def commands_of(arguments, folder):
    """Name -> (command, environment, what to remove before)."""
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
    }
    for peer in [peer for peer in arguments.peers.split(",") if peer]:
        inductor = folder / "inductor"
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(inductor), "TRITON_CACHE_DIR": str(inductor)}
        commands[peer] = ([sys.executable, PEERS / "first_answer.py", peer, model, inputs], environment,
                          inductor if peer == "torch-compile" else None)
    return commands


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--peers", default="context,torch-eager,torch-compile,xla", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fusec", default=os.environ.get("FUSEC", str(ROOT / "build" / "fusec")))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", help="of fusec; default: the GPU's")
    parser.add_argument("--commit", help="recorded with the results; default: that of the git checkout")
    arguments = parser.parse_args()
    arguments.target = arguments.target or (native_target() if arguments.device != "cpu" else "cpu")
    arguments.scale, arguments.ids = "small tables", "uniform"

    seconds, failures = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.rounds + 1):
            commands = commands if number else commands_of(arguments, Path(folder))
            for name, (command, environment, remove) in commands.items():
                if name in failures:
                    continue
                if remove is not None:
                    shutil.rmtree(remove, ignore_errors=True)
                try:
                    taken = timed(command, environment)
                except Failure as failure:
                    failures[name] = str(failure)
                    print(f"{name}: FAILED: {failure}", flush=True)
                    continue
                if number:
                    seconds.setdefault(name, []).append(taken)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:14} {median:7.3f} s   rounds {', '.join(f'{value:.3f}' for value in seconds[name])}")
    results = {"machine": describe_machine(arguments), "model": MODEL, "batch": BATCH, "seconds": medians,
               "rounds": seconds, "failures": failures}
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
