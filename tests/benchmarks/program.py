"""The program that benchmarks time: $FUSEC, or that of this build."""

import json
import os
import subprocess
import sys
from pathlib import Path

FUSEC = os.environ.get("FUSEC", str(Path(__file__).resolve().parents[2] / "build" / "fusec"))


def said(*command):
    """What a command of fusec prints; ends the benchmark if it fails."""
    result = subprocess.run([FUSEC, *map(str, command)], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"fusec {command[0]} failed with exit code {result.returncode}")
    return result.stdout


def benched(artifact, *flags, device=""):
    """`fusec bench`: the median microseconds of a run on the device (of the whole call on a CPU), and the report."""
    chosen = ["--device", device] if device else []
    (report,) = json.loads(said("bench", artifact, *flags, "--json", *chosen))
    times = report.get("device_us") or report["call_us"]
    return times["median"] if isinstance(times, dict) else times, report
