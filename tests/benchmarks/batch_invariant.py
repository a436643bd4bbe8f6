#!/usr/bin/env python3
"""Times models of the suite with and without --batch-invariant.

    FUSEC=build/fusec python3 tests/benchmarks/batch_invariant.py [--models dlrm_dot,lola] [--batches 1,64,2048]
        [--precision high] [--dtype fp16] [--scale medium] [--tune] [--json FILE]

For each model and batch, the script prints the device time of one run (on a CPU, the time of the whole call) of an artifact whose kernels
are chosen by the batch, and of one that uses the same kernels for every batch, and their ratio. Both are timed one after the other in two
rounds; the better round counts. With --tune, `fusec tune` chooses the kernels of both artifacts, at the same sizes. The script needs numpy
and onnx; --folder must have room for twice the tables of one model (2.9 GB at --scale full).
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))
import suite  # noqa: E402
from program import add_model_arguments, benched, compiled  # noqa: E402

MODELS = ("dlrm_dot", "dcnv2", "lecture_small", "lora_mlp_1k", "lola")
ROUNDS = 2


def measure(name, folder, args):
    model = suite.write_model(name, folder, args.dtype, args.scale)
    artifacts = {"by_batch": folder / f"{name}_by_batch", "invariant": folder / f"{name}_invariant"}
    compiled(model, artifacts["by_batch"], [], args, f"batch={args.batches}")
    compiled(model, artifacts["invariant"], ["--batch-invariant"], args, f"batch={args.batches}")
    results = []
    for batch in map(int, args.batches.split(",")):
        best = {}
        for _ in range(ROUNDS):
            for kind, artifact in artifacts.items():
                us, report = benched(artifact, "--dim", f"batch={batch}", device=args.device)
                best[kind] = min(us, best.get(kind, math.inf))
        results.append({"model": name, "batch": batch, "device": report["device"], **best})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="names of models/suite.py (default: %(default)s)")
    parser.add_argument("--batches", default="1,64,2048")
    add_model_arguments(parser, suite)
    parser.add_argument("--folder", type=Path, help="folder for temporary models and artifacts")
    args = parser.parse_args()
    results = []
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            results += measure(name, Path(folder), args)
    print(f"{args.dtype}, precision {args.precision}, on {results[0]['device']}\n")
    print("| model | batch | us | us, batch-invariant | ratio |\n| --- | --- | --- | --- | --- |")
    for r in results:
        print(f"| {r['model']} | {r['batch']} | {r['by_batch']:.1f} | {r['invariant']:.1f} | {r['invariant'] / r['by_batch']:.2f} |")
    mean = math.exp(sum(math.log(r["invariant"] / r["by_batch"]) for r in results) / len(results))
    print(f"\ngeometric mean of the ratios: {mean:.2f}")
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}, indent=1) + "\n")


main()
