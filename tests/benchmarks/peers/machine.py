"""Describes what is measured, for the results: machine, GPU, driver, versions, date and commit."""
import datetime
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def said(*command):
    """The stdout of the command, or None if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def gpu_facts():
    line = said("nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader")
    if not line:
        return None
    return dict(zip(("name", "driver", "compute_capability", "memory"), line.splitlines()[0].split(", ")))


def native_target():
    """fusec's name for this machine's GPU."""
    facts = gpu_facts()
    if facts is None:
        raise SystemExit("nvidia-smi finds no GPU; --device cpu tries this script out on the CPU")
    digits = facts["compute_capability"].replace(".", "")
    return f"sm_{digits}" + ("a" if int(digits) >= 90 else "")


def parse_arguments(parser):
    """The arguments that `parser` reads, and what to measure: fusec, device, target, commit."""
    parser.add_argument("--fusec", default=os.environ.get("FUSEC", str(ROOT / "build" / "fusec")))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", help="target of fusec; default: that of the GPU")
    parser.add_argument("--commit", help="recorded with the results; default: that of the git checkout")
    arguments = parser.parse_args()
    arguments.target = arguments.target or (native_target() if arguments.device != "cpu" else "cpu")
    return arguments


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def describe_machine(arguments):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": arguments.commit or said("git", "rev-parse", "HEAD") or "unknown",
        "gpu": gpu_facts(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "fusec": said(arguments.fusec, "--version"),
        "device": arguments.device,
        "scale": arguments.scale,
        "ids": arguments.ids,
        "rounds": arguments.rounds,
    }
