#!/usr/bin/env python3
"""Times a DLRM of one user and many items (dlrm_request of models/suite.py): as exported, with --per-request, with --request-map, and in
PyTorch.

    FUSEC=build/fusec python3 tests/benchmarks/per_request.py [--batches 512,2048] [--requests 1,8] [--precision highest] [--dtype fp16]
        [--scale medium] [--tune] [--torch] [--json FILE]

For each batch, the script prints the device time of one run (on a CPU, the time of the whole call) of three artifacts: one that computes
the user's part for every item, one that computes it once, and, for each number of requests, one with a request map; with their ratios to
the first. --torch adds torch.compile (max-autotune, in a CUDA graph) of a module that was split by hand: the user's part is computed for
one row, and the first layer of the top MLP has one product for each part. This needs a GPU, and the script prints how much the module's
answers differ from the artifact's. All are timed one after the other in two rounds; the better round counts. The script needs numpy and
onnx.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))
sys.path.append(str(Path(__file__).resolve().parent / "peers"))
import suite  # noqa: E402
from program import add_model_arguments, benched, compiled, said  # noqa: E402

NAME = "dlrm_request"
OF_USER = "in0,in1,in2"
ROUNDS = 2
REPLAYS = 200  # replays of a CUDA graph between two events


def build(model, folder, args):
    """The artifacts, by case."""
    flags = {"replicated": [], "split": ["--per-request", OF_USER], "mapped": ["--per-request", OF_USER, "--request-map"]}
    artifacts = {kind: folder / kind for kind in flags}
    for kind, artifact in artifacts.items():
        requests = [f"requests={args.requests}"] if kind == "mapped" else []
        compiled(model, artifact, flags[kind], args, f"batch={args.batches}", *requests)
    return artifacts


class ByHand:
    """The split PyTorch module, its inputs, and the artifact's answers to them."""

    def __init__(self, model, artifact, batch, folder, args):
        import numpy as np
        import torch
        import torch_models

        torch.backends.cuda.matmul.allow_tf32 = args.precision != "highest"
        family, config, _, weights = suite.read_weights(model)
        self.torch, self.module = torch, torch_models.load(family, config, weights, "cuda")
        arrays = suite.inputs_of(NAME, batch, args.dtype, seed=1, scale=args.scale)
        arrays.update({name: arrays[name][:1] for name in OF_USER.split(",")})
        np.savez(folder / "inputs.npz", **arrays)
        said("run", artifact, "--input", folder / "inputs.npz", "--output", folder / "answers")
        (answers,) = (folder / "answers").glob("*.npy")
        self.expected = np.load(answers).astype(np.float64)
        self.inputs = [torch.from_numpy(array).cuda() for array in arrays.values()]

    def prepare(self):
        """Captures the compiled module; returns the relative L2 distance of its answers from the artifact's."""
        torch = self.torch
        with torch.no_grad():
            compiled = torch.compile(self.module, mode="max-autotune-no-cudagraphs", dynamic=False)
            for _ in range(3):
                compiled(*self.inputs)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answer = compiled(*self.inputs)
        self.graph.replay()
        torch.cuda.synchronize()
        found = self.answer.double().cpu().numpy()
        return float(math.sqrt(((found - self.expected) ** 2).sum() / (self.expected**2).sum()))

    def time(self):
        torch = self.torch
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for events in (None, (begin, end)):
            if events:
                begin.record()
            for _ in range(REPLAYS):
                self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1000 / REPLAYS


def measure(model, artifacts, batch, folder, args):
    cases = {"replicated": ("replicated", []), "split": ("split", [])}
    for requests in args.requests.split(","):
        cases[f"mapped, {requests}"] = ("mapped", ["--dim", f"requests={requests}"])
    peer = ByHand(model, artifacts["split"], batch, folder, args) if args.torch else None
    distance = peer.prepare() if peer else None
    best, launches = {}, {}
    for _ in range(ROUNDS):
        for case, (kind, dims) in cases.items():
            us, report = benched(artifacts[kind], "--dim", f"batch={batch}", *dims, device=args.device)
            best[case], launches[case] = min(us, best.get(case, math.inf)), report["launches"]
        if peer:
            best["torch.compile, split by hand"] = min(peer.time(), best.get("torch.compile, split by hand", math.inf))
    return {"batch": batch, "device": report["device"], "us": best, "launches": launches, "torch_rel_l2": distance}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="2048")
    parser.add_argument("--requests", default="1,8", help="numbers of requests for artifacts with a map (default: %(default)s)")
    add_model_arguments(parser, suite)
    parser.add_argument("--torch", action="store_true", help="also time a PyTorch module")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = suite.write_model(NAME, folder, args.dtype, args.scale)
        artifacts = build(model, folder, args)
        results = [measure(model, artifacts, batch, folder, args) for batch in map(int, args.batches.split(","))]
    print(f"{args.dtype}, precision {args.precision}, on {results[0]['device']}\n")
    print("| batch | computed | launches | us | of replicated |\n| --- | --- | --- | --- | --- |")
    for r in results:
        for case, us in r["us"].items():
            print(f"| {r['batch']} | {case} | {r['launches'].get(case, '')} | {us:.1f} | {us / r['us']['replicated']:.3f} |")
        if r["torch_rel_l2"] is not None:
            print(f"\nPyTorch's answers are {r['torch_rel_l2']:.1e} away from the artifact's (relative L2)")
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}, indent=1) + "\n")


main()
