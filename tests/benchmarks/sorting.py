#!/usr/bin/env python3
"""Times models around sorts, scatters, running sums and argmax, beside PyTorch: retrieval of the best items, bags whose ids come with the
number of their row, a router of experts, sampling from the most probable tokens, sums over the edges of a graph.

    FUSEC=build/fusec python3 tests/benchmarks/sorting.py [--only PATTERN] [--device cuda|cpu] [--older FUSEC] [--json FILE]

For each model and size, the script prints the time of one run of fusec; of PyTorch alone and of torch.compile (on a GPU each as a
replayed CUDA graph); on a CPU also of onnxruntime. With --older the times of another fusec as well. A case of fusec whose
measurement takes more than 20 seconds is "-". The script needs numpy, torch and onnx, and onnxruntime on a CPU.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "zoo"))

import torch  # noqa: E402
from program import FUSEC, benched, said  # noqa: E402
from torch import nn  # noqa: E402

SECONDS = 20


class Retrieval(nn.Module):
    """The 100 of 100,000 items that fit a user best."""

    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
        self.items = nn.Parameter(torch.randn(100_000, 64) * 0.1)

    def forward(self, user):
        return torch.topk(self.tower(user) @ self.items.t(), 100)


class Bags(nn.Module):
    """Sums of looked-up rows; `rows` says to which row of the batch each id belongs."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50_000, 128)

    def forward(self, ids, rows, dense):
        looked_up = self.table(ids)
        return dense.scatter_add(0, rows[:, None].expand(-1, looked_up.shape[1]), looked_up)


class Router(nn.Module):
    """The weights of 8 of 64 experts for each token."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(256, 64)

    def forward(self, tokens):
        scores = self.gate(tokens).softmax(-1)
        best, experts = torch.topk(scores, 8)
        return torch.zeros_like(scores).scatter(1, experts, best / best.sum(-1, keepdim=True))


class Sampling(nn.Module):
    """Probabilities of the most probable of 32,000 tokens that together have 0.9, and the best token."""

    def forward(self, logits):
        ordered, places = torch.sort(logits.softmax(-1), descending=True)
        before = torch.cumsum(ordered, -1) - ordered
        kept = ordered * (before < 0.9)
        return torch.zeros_like(logits).scatter(1, places, kept), logits.argmax(-1)


class Order(nn.Module):
    """Ids in ascending order, and where they were."""

    def forward(self, ids):
        return torch.sort(ids)


class GraphConvolution(nn.Module):
    """LightGCN (He et al., 2020) over 100,000 users and items: each of three layers adds up the rows of a node's neighbours, divided by the
    square roots of the degrees of both ends, and the result is the mean of all layers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(100_000, 64))

    def forward(self, edges):
        source, target = edges[0], edges[1]
        targets = target[:, None].expand(-1, self.table.shape[1])
        degree = torch.zeros_like(self.table[:, 0]).scatter_add(0, target, torch.ones_like(target, dtype=torch.float))
        factor = torch.where(degree > 0, degree.rsqrt(), 0)
        weight = (factor[source] * factor[target])[:, None]
        rows = total = self.table
        for _ in range(3):
            rows = torch.zeros_like(rows).scatter_add(0, targets, rows[source] * weight)
            total = total + rows
        return total / 4


class RunningSums(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)


def bags(entries, batch):
    rows = torch.sort(torch.randint(0, batch, (entries,))).values
    return torch.randint(0, 50_000, (entries,)), rows, torch.randn(batch, 128)


MODELS = {  # name -> module, names of inputs and their dims, inputs by size
    "retrieval": (Retrieval, {"user": ["batch"]}, {f"batch {n}": (torch.randn(n, 128),) for n in (1, 32, 256)}),
    "bags": (Bags, {"ids": ["n"], "rows": ["n"], "dense": ["batch"]}, {f"{n} ids in {b}": bags(n, b) for n, b in ((256, 32), (2_048, 256), (20_480, 2_048))}),
    "router": (Router, {"tokens": ["tokens"]}, {f"{n} tokens": (torch.randn(n, 256),) for n in (16, 2_048)}),
    "sampling": (Sampling, {"logits": ["batch"]}, {f"batch {n}": (torch.randn(n, 32_000) * 3,) for n in (1, 32)}),
    "order": (Order, {"ids": ["n"]}, {f"{n} ids": (torch.randint(0, 1_000_000, (n,)),) for n in (2_000, 20_000, 1_000_000)}),
    "graph_convolution": (
        GraphConvolution, {"edges": [2, "n"]}, {f"{n} edges": (torch.randint(0, 100_000, (2, n)),) for n in (20_000, 2_000_000)},
    ),
    "running_sums": (RunningSums, {"x": ["batch"]}, {f"batch {n}": (torch.randn(n, 4_000),) for n in (1, 2_048)}),
}


FLAGS = {"order": ["--dim", "n=0..1000000"], "graph_convolution": ["--dim", "n=0..2000000"]}  # of fusec compile


def by_fusec(program, model, artifact, inputs, device):
    """Microseconds of a run; None if it takes too long."""
    import numpy as np

    said("compile", model, "-o", artifact, *FLAGS.get(model.stem, []), program=program)
    file = artifact.parent / "inputs.npz"
    np.savez(file, **{name: value.numpy() for name, value in inputs.items()})
    try:
        return benched(artifact, "--inputs", file, device=device, program=program, timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None


def by_torch(call, inputs, device):
    from launches import replay_us

    if device == "cpu":
        return median_us(lambda: call(*inputs))
    inputs = [value.cuda() for value in inputs]
    for _ in range(3):
        call(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(*inputs)
    return replay_us(graph)


def median_us(call):
    call()
    times = []
    stop = time.perf_counter() + 2
    while time.perf_counter() < stop or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e6


def measure(name, folder, args):
    make, dims, sizes = MODELS[name]
    torch.manual_seed(1)
    module = make().eval()
    first = next(iter(sizes.values()))
    model = folder / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {key: {axis: name for axis, name in enumerate(names) if isinstance(name, str)} for key, names in dims.items()}
        torch.onnx.export(module, first, model, dynamo=False, opset_version=17, input_names=list(dims), dynamic_axes=axes)
    on_device = module.cuda() if args.device == "cuda" else module
    for size, inputs in sizes.items():
        named = dict(zip(dims, inputs))
        times = {"fusec": by_fusec(FUSEC, model, folder / f"{name}_fused", named, args.device)}
        if args.older:
            times["older"] = by_fusec(args.older, model, folder / f"{name}_older", named, args.device)
        with torch.no_grad():
            times["torch"] = by_torch(on_device, inputs, args.device)
            torch._dynamo.reset()
            compiled = torch.compile(on_device, dynamic=False)
            times["torch.compile"] = by_torch(compiled, inputs, args.device)
        if args.device == "cpu":
            import onnxruntime

            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            data = {key: value.numpy() for key, value in named.items()}
            times["onnxruntime"] = median_us(lambda: session.run(None, data))
        yield {"model": name, "size": size, "us": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of model names")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--older", type=pathlib.Path, help="another program of fusec, to compare with")
    parser.add_argument("--json", type=pathlib.Path, help="also write the numbers to this file")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            if not re.search(args.only, name):
                continue
            for result in measure(name, pathlib.Path(folder), args):
                if not results:
                    print("| model | size | " + " | ".join(f"{who} us" for who in result["us"]) + " |")
                    print("| --- " * (2 + len(result["us"])) + "|")
                results.append(result)
                times = " | ".join("-" if us is None else f"{us:.1f}" for us in result["us"].values())
                print(f"| {result['model']} | {result['size']} | {times} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"device": args.device, "torch": torch.__version__, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
