#!/usr/bin/env python3
"""Counts the GPU launches of one inference with torch.compile in its default mode, and with fusec.

    FUSEC=build/fusec python3 tests/benchmarks/launches_against_torch.py [--json FILE] [--fusec-only]

The models are those of models/suite.py with cut tables, at batch 128 (transformer blocks at 2), in strict float32, with adapters unmerged
in the module as in the ONNX file. PyTorch's launches are the kernels that its profiler records per call; copies and memsets are counted
separately. If the profiler records none, they are the nodes of a captured CUDA graph. fusec's launches are the steps of its artifact; with
--ncu also the kernels that Nsight Compute records, since a product of cuBLASLt may take more than one kernel. Exits with 1 if fusec needs
more than a third of PyTorch's launches for any model.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "models"), str(Path(__file__).resolve().parent / "peers")]
import suite  # noqa: E402

MODELS = ["dlrm_dot_small", "lecture_small", "dcnv2_small", "deep_fm", "two_tower", "lora_mlp_16", "lora_mlp_1k",
          "lola", "lora_block"]
BATCHES = {"lora_block": 2}  # of others:
BATCH = 128
CALLS = 4  # number of profiled calls
KINDS = ("kernels", "copies", "memsets")


def fusec_launches(arguments, model, batch, folder):
    artifact = Path(folder) / "artifact"
    fusec = str(arguments.fusec)
    subprocess.run([fusec, model, "-o", artifact, "--target", arguments.target], check=True, capture_output=True)
    text = subprocess.run([fusec, "explain", artifact, "--target", arguments.target, "--dim", f"batch={batch}", "--json"],
                          check=True, capture_output=True, text=True).stdout
    explained = json.loads(text)
    counts = {"launches": explained["launches"], "before_fusion": explained["before"]["launches"],
              "kernels": [kernel["name"] for kernel in explained["kernels"]]}
    if arguments.ncu:
        counts["seen"] = seen_by_ncu([fusec, "run", artifact, "--random", "--device", "cuda", "--dim", f"batch={batch}"])
    return counts


def seen_by_ncu(command):
    """The names of the kernels that the command runs."""
    text = subprocess.run(["ncu", "--clock-control", "none", "--csv", "--metrics", "launch__grid_size", *command],
                          check=True, capture_output=True, text=True,
                          env={**os.environ, "FUSEC_CUDA_GRAPH": "0"}).stdout
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    kernels = {row["ID"]: row["Kernel Name"] for row in csv.DictReader(lines[head:]) if (row["ID"] or "").isdigit()}
    return list(kernels.values())


def profiled(torch, call, folder):
    """The number of events per call in the profiler's trace, by category."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    path = str(Path(folder) / "trace.json")
    profiler.export_chrome_trace(path)
    with open(path, encoding="utf-8", errors="replace") as file:
        events = json.load(file)["traceEvents"]
    categories = [event.get("cat", "") for event in events]
    counts = dict(zip(KINDS, (categories.count(name) for name in ("kernel", "gpu_memcpy", "gpu_memset"))))
    uneven = {kind: count for kind, count in counts.items() if count % CALLS}
    if uneven:
        print(f"  not a multiple of {CALLS} calls: {uneven}", file=sys.stderr)
    return {kind: count / CALLS for kind, count in counts.items()}


def captured(torch, call):
    """The same, counted from the nodes of a CUDA graph of one call."""
    from cuda.bindings import runtime

    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        call()
    handle = runtime.cudaGraph_t(init_value=graph.raw_cuda_graph())
    _, _, count = runtime.cudaGraphGetNodes(handle)
    _, nodes, count = runtime.cudaGraphGetNodes(handle, count)
    types = [runtime.cudaGraphNodeGetType(node)[1] for node in nodes[:count]]
    kinds = runtime.cudaGraphNodeType
    wanted = (kinds.cudaGraphNodeTypeKernel, kinds.cudaGraphNodeTypeMemcpy, kinds.cudaGraphNodeTypeMemset)
    return dict(zip(KINDS, (float(types.count(kind)) for kind in wanted)))


def torch_launches(model, name, batch, folder):
    import torch
    import torch_models

    torch.set_float32_matmul_precision("highest")
    torch._dynamo.reset()
    family, config, _, weights = suite.read_weights(model)
    module = torch_models.load(family, config, weights, "cuda")
    arrays = suite.inputs_of(name, batch, "fp32", 0, "small")
    tensors = [torch.from_numpy(arrays[key]).cuda() for key in sorted(arrays)]
    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, dynamic=False)
        for _ in range(3):
            compiled(*tensors)
        torch.cuda.synchronize()
        counts = profiled(torch, lambda: compiled(*tensors), folder)
        counts["by"] = "profiler"
        if not counts["kernels"]:
            counts = {**captured(torch, lambda: compiled(*tensors)), "by": "graph"}
    return counts


def line(row):
    ours, theirs = row["fusec"], row.get("torch")
    launches = f"{ours['launches']}" + (f" ({len(ours['seen'])})" if "seen" in ours else "")
    text = f"{row['model']:16} {row['batch']:5} {ours['before_fusion']:14} {launches:>8}"
    if theirs is None:
        return text
    share = ours["launches"] / theirs["kernels"]
    verdict = "" if row["good"] else "   MORE than a third"
    return (f"{text} {theirs['kernels']:14.4g} {theirs['copies']:7.4g} {theirs['memsets']:8.4g} {share:7.2f}"
            f"{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--fusec", default=os.environ.get("FUSEC", str(ROOT / "build" / "fusec")))
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--fusec-only", action="store_true", help="count only fusec's launches, which needs neither PyTorch nor a GPU")
    parser.add_argument("--ncu", action="store_true", help="also count fusec's kernels with Nsight Compute")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    rows = []
    print(f"{'model':16} {'batch':>5} {'before fusion':>14} {'fusec':>8} {'torch.compile':>14} {'copies':>7} "
          f"{'memsets':>8} {'share':>7}")
    for name in arguments.models:
        batch = BATCHES.get(name, BATCH)
        with tempfile.TemporaryDirectory() as folder:
            model = suite.write_model(name, folder, scale="small")
            row = {"model": name, "batch": batch, "fusec": fusec_launches(arguments, model, batch, folder)}
            if not arguments.fusec_only:
                row["torch"] = torch_launches(model, name, batch, folder)
                row["good"] = 3 * row["fusec"]["launches"] <= row["torch"]["kernels"]
        rows.append(row)
        print(line(row), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    more = [row["model"] for row in rows if not row.get("good", True)]
    if more:
        print(f"more than a third of torch.compile's launches: {', '.join(more)}")
    sys.exit(1 if more else 0)


if __name__ == "__main__":
    main()
