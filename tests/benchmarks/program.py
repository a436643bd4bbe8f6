"""Runs the program that benchmarks time: $FUSEC, or that of this build."""

import json
import os
import subprocess
import sys
from pathlib import Path

FUSEC = os.environ.get("FUSEC", str(Path(__file__).resolve().parents[2] / "build" / "fusec"))


def said(*command, program=FUSEC, timeout=None):
    """The output of a fusec command; ends the benchmark if the command fails. Raises TimeoutExpired after `timeout` seconds."""
    result = subprocess.run([program, *map(str, command)], stdout=subprocess.PIPE, text=True, timeout=timeout)
    if result.returncode != 0:
        sys.exit(f"fusec {command[0]} failed with exit code {result.returncode}")
    return result.stdout


def benched(artifact, *flags, device="", **how):
    """Runs `fusec bench`; returns the median microseconds of a run on the device (on a CPU, of the whole call), and the report.
    `how` is for `said`."""
    chosen = ["--device", device] if device else []
    (report,) = json.loads(said("bench", artifact, *flags, "--json", *chosen, **how))
    times = report.get("device_us") or report["call_us"]
    return times["median"] if isinstance(times, dict) else times, report


def add_model_arguments(parser, suite):
    """Adds the arguments for writing, compiling, tuning and timing a model of models/suite.py, for `compiled` and `benched`."""
    parser.add_argument("--precision", default="highest", help="as for fusec compile")
    parser.add_argument("--dtype", choices=suite.NUMPY_DTYPES, default="fp32")
    parser.add_argument("--scale", choices=suite.SCALES, default="medium")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--device", default="", help="as for fusec bench")
    parser.add_argument("--target", default="", help="as for fusec compile")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")


def compiled(model, artifact, flags, args, *dims):
    """Compiles a model as the arguments say; with --tune also tunes it for `dims`, each NAME=SIZE,...."""
    target = ["--target", args.target] if args.target else []
    said("compile", model, "-o", artifact, "--matmul-precision", args.precision, *target, *flags)
    if args.tune:
        device = ["--device", args.device] if args.device else []
        said("tune", artifact, *(word for dim in dims for word in ("--dim", dim)), *device)
