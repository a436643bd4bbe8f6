#!/usr/bin/env python3
"""Counts the kernels of an inference of each model of libraries/ or full_size/, by torch.compile and by fusec, and measures their times on a GPU.

    python3 tests/zoo/launches.py [--library NAME]... [--full-size] [--only PATTERN] [--fusec PROGRAM] [--target GPU] [--jobs N]
        [--minutes M] [--batch N] [--work FOLDER] --table FILE.tsv

Run it on a machine with a GPU, with the Python that has the libraries. A row has, for one batch of valid inputs in float32 (TF32 products
in both):

    launches   kernels, copies and fills of one call of torch.compile(module), by torch.profiler, after the calls that compile it; and of
               one run of the artifact (`fusec bench`). A model is exported by torch.export, or by TorchScript where that fails.
    us         torch.compile: one CUDA graph of the call, replayed (a model that waits for data on the host has none and no time).
               fusec: the device time of `fusec bench`, likewise of a graph of one run

First, --jobs processes compile and count everything; times are measured afterwards, one model at a time. Models that are not begun within
M minutes are left out.
"""

import argparse
import csv
import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES, FULL_SIZE = (sorted(file.stem for file in (HERE / folder).glob("*.py")) for folder in ("libraries", "full_size"))
MODEL_SECONDS = 150  # for exporting and compiling one model, by both
FULL_SIZE_SECONDS = 400  # the same for models of full_size/
REPLAYS = 200
READY = "ready\n"  # what a process prints once it has compiled everything


@dataclasses.dataclass
class Row:
    library: str
    model: str
    exporter: str = ""
    torch_launches: str = ""
    fusec_launches: str = ""
    torch_us: str = ""
    fusec_us: str = ""
    why: str = ""  # what failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this one (may be given again)")
    parser.add_argument("--full-size", action="store_true", help="the models of full_size/, which have the sizes of published ones")
    parser.add_argument("--only", default="", metavar="PATTERN", help="models whose LIBRARY/MODEL matches this regular expression")
    parser.add_argument("--fusec", type=pathlib.Path, default=HERE.parents[1] / "build/fusec", help="program (default: build/fusec)")
    parser.add_argument("--target", default="sm_90a", help="the GPU's architecture (default: sm_90a)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="models at once while compiling (default: the number of cores)")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no model after this time")
    parser.add_argument("--batch", type=int, default=256, help="rows of the dim named batch (default: 256)")
    parser.add_argument("--work", type=pathlib.Path, help="folder for exports and artifacts (default: a temporary one)")
    parser.add_argument("--table", type=pathlib.Path, required=True, help="table to write")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)  # a process of --jobs: every jobs-th model from this one on
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.share is not None:
        return work(arguments)
    rows = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory() as scratch:
            measure(rows, [sys.executable, "-W", "ignore", *sys.argv, "--work", str(arguments.work or scratch)], arguments.jobs)
    finally:
        rows = sorted(rows.values(), key=lambda row: (row.library, row.model))
        with open(arguments.table, "w", newline="") as file:
            table = csv.writer(file, delimiter="\t", lineterminator="\n")
            table.writerow(field.name for field in dataclasses.fields(Row))
            table.writerows(dataclasses.astuple(row) for row in rows)
        summarize(rows)


def measure(rows, command, jobs):
    """Runs the processes; `rows` takes what they print, by library and model."""
    begin = time.monotonic()
    workers = [subprocess.Popen([*command, "--share", str(share)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for share in range(jobs)]  # fmt: skip

    def take(worker):
        """Takes rows until the process says that it is ready, or ends."""
        for line in worker.stdout:
            if line == READY:
                return
            row = Row(**json.loads(line))
            rows[row.library, row.model] = row

    for worker in workers:
        take(worker)
    print(f"compiled after {time.monotonic() - begin:.0f} s", flush=True)
    for worker in workers:
        if worker.poll() is None:
            worker.stdin.write("\n")
            worker.stdin.flush()
            take(worker)
        if worker.wait() != 0:
            print(f"a process ended with {worker.returncode}", flush=True)


def summarize(rows):
    """Prints the ratios of the models for which both figures are known, and the models with the highest share of torch's launches."""
    counted = [row for row in rows if row.torch_launches and row.fusec_launches]
    print(f"{len(rows)} models, {len(counted)} counted by both")
    if not counted:
        return
    shares = sorted(((int(row.fusec_launches) / int(row.torch_launches), row) for row in counted), key=lambda pair: -pair[0])
    print(f"launches: {sum(int(row.torch_launches) for row in counted)} by torch.compile, "
          f"{sum(int(row.fusec_launches) for row in counted)} by fusec; "
          f"at most a third in {sum(share <= 1 / 3 for share, _ in shares)}")  # fmt: skip
    timed = [float(row.torch_us) / float(row.fusec_us) for row in counted if row.torch_us and row.fusec_us]
    if timed:
        mean = math.exp(sum(map(math.log, timed)) / len(timed))
        print(f"times of {len(timed)}: torch.compile's over fusec's {mean:.2f} in the geometric mean, {min(timed):.2f} at least, "
              f"{max(timed):.2f} at most, fusec ahead in {sum(ratio > 1 for ratio in timed)}")  # fmt: skip
    for share, row in shares:
        if share > 1 / 3:
            print(f"  {row.library}/{row.model}: {row.fusec_launches} of {row.torch_launches}, {row.fusec_us} of {row.torch_us} us")


def work(arguments):
    """A process of --jobs: compiles and counts its share of the models; after a line of input, times them and prints their rows."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    until = time.monotonic() + 60 * arguments.minutes
    sys.path.insert(0, str(HERE))
    import torch

    torch.set_float32_matmul_precision("high")
    say = lambda row: print(json.dumps(dataclasses.asdict(row)), file=answers, flush=True)  # noqa: E731
    models = list(share_of(arguments))
    rows = [Row(library.removesuffix("_models"), model.name) for library, model in models]
    seconds = FULL_SIZE_SECONDS if arguments.full_size else MODEL_SECONDS

    def each(step):
        """What `step` makes of each model; null where it fails or is left out."""
        made = []
        for row, (library, model) in zip(rows, models):
            folder = arguments.work / library / model.name
            folder.mkdir(parents=True, exist_ok=True)
            made.append(attempt(lambda: step(row, model, folder, arguments), row, until, seconds))
            say(row)
        return made

    # All artifacts first, since some libraries share tables between their models, which torch moves to the GPU.
    benches = each(artifact_of)
    graphs = each(torch_graph)
    print(READY, end="", file=answers, flush=True)
    sys.stdin.readline()
    for row, captured, bench in zip(rows, graphs, benches):
        if captured:
            row.torch_us = f"{replay_us(captured[0]):.2f}"
        if bench:
            row.fusec_us = f"{measured_by(arguments, bench)['device_us']['median']:.2f}"
        say(row)


def share_of(arguments):
    """The models of this process."""
    import importlib

    number = 0
    folder = "full_size" if arguments.full_size else "libraries"
    for library in arguments.library or (FULL_SIZE if arguments.full_size else LIBRARIES):
        try:
            models = list(importlib.import_module(f"{folder}.{library}").models())
        except ImportError as failure:
            print(f"{library}: {failure}", file=sys.stderr)
            continue
        for model in models:
            if re.search(arguments.only, f"{library}/{model.name}"):
                if number % arguments.jobs == arguments.share:
                    yield library, model
                number += 1


def attempt(step, row, until, seconds):
    """The result of the step; null if it fails, which the row tells, or if the time is over."""
    if time.monotonic() > until:
        row.why += "left out "
        return None
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        return step()
    except Exception as failure:
        row.why += f"{type(failure).__name__}: {failure}"[:200].replace("\n", " ").replace("\t", " ") + " "
        return None
    finally:
        signal.alarm(0)


def give_up(*_):
    raise TimeoutError("it took too long")


def torch_graph(row, model, _, arguments):
    """Counts torch.compile's launches, and captures its call."""
    import torch
    from export import prepared
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    torch._dynamo.reset()
    module, inputs = prepared(model).cuda(), [x.cuda() for x in data_of(model, arguments)]
    function = torch.compile(module, dynamic=False)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            function(*inputs)
        stream.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as events:
            function(*inputs)
            stream.synchronize()
        row.torch_launches = str(sum(event.device_type == DeviceType.CUDA for event in events.events()))
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream):
                kept = function(*inputs)
        except Exception as failure:  # it waits for data on the host
            torch.cuda.synchronize()
            row.why += f"no CUDA graph: {failure}"[:80].replace("\n", " ") + " "
            return None
    return graph, (module, function, inputs, kept)  # which the graph reads and writes


def data_of(model, arguments):
    return model.data({**model.sizes[-1], "batch": arguments.batch}, seed=5)


def replay_us(graph):
    """The microseconds of a replay of a CUDA graph of PyTorch: the median of five measurements."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(5):
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / REPLAYS)
    return sorted(samples)[len(samples) // 2]


def artifact_of(row, model, folder, arguments):
    """Exports and compiles the model; the command that measures its artifact."""
    import numpy
    from export import EXPORTERS, export

    why = ""
    for row.exporter in reversed(EXPORTERS):
        try:
            export(model, row.exporter, folder)
            break
        except Exception as failure:
            why = f"{type(failure).__name__}: {failure}"
    else:
        raise RuntimeError("not exported: " + why[:150])
    names = [one.name for one in model.inputs]
    kept = set(numpy.load(folder / "inputs.0.npz").files)
    inputs = folder / "inputs.npz"
    numpy.savez(inputs, **{name: value.numpy() for name, value in zip(names, data_of(model, arguments)) if name in kept})
    artifact = folder / "artifact"
    output_of(arguments, folder / "model.onnx", "-o", artifact, "--target", arguments.target, "--matmul-precision", "high")
    bench = ["bench", artifact, "--device", "cuda", "--inputs", inputs, "--json", "--seconds", "0.02"]
    row.fusec_launches = str(measured_by(arguments, bench)["launches"])
    return bench


def measured_by(arguments, bench):
    return json.loads(output_of(arguments, *bench))[0]


def output_of(arguments, *words):
    """What fusec prints; an error if it fails."""
    from judge import Fusec

    done = Fusec(arguments.fusec)(*words)
    if done.code != 0:
        raise RuntimeError(done.reason)
    return done.output


if __name__ == "__main__":
    main()
