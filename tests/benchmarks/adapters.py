#!/usr/bin/env python3
"""Times LoRA models of the suite with adapters in slots (--adapters), and the same models with their adapters merged.

    FUSEC=build/fusec python3 tests/benchmarks/adapters.py [--models lora_block:4,lora_mlp_1k:4096] [--dtype fp16] [--slots 64] [--rank 16]
        [--mixed 8] [--json FILE]

Models are given with their batch. For each, the script prints the device time of one run (on a CPU, the time of the whole call) of the
merged model, and of the model with slots in four cases: no row uses an adapter, all rows use the same adapter, each row uses one of
--mixed adapters at random, and the same with the rows sorted by adapter. The ratio is that of the random rows to the merged model. The contents of a slot do not change the time, so no
adapter is loaded. The script needs numpy and onnx.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))
import suite  # noqa: E402
from program import benched, said  # noqa: E402

ROUNDS = 2


def measure(name, batch, folder, args):
    import numpy as np

    model = suite.write_model(name, folder, args.dtype, "small")
    target = ["--target", args.target] if args.target else []
    merged, slots = folder / f"{name}_merged", folder / f"{name}_slots"
    said("compile", model, "-o", merged, *target)
    said("compile", model, "-o", slots, *target, "--adapters", f"slots={args.slots},rank={args.rank}")
    inputs = suite.inputs_of(name, batch, args.dtype, seed=1)
    random = np.random.default_rng(1)
    cases = {
        "merged": (merged, None),
        "none": (slots, np.full(batch, -1)),
        "one": (slots, np.zeros(batch)),
        "mixed": (slots, random.integers(0, args.mixed, batch)),
    }
    cases["sorted"] = (slots, np.sort(cases["mixed"][1]))
    best = {}
    for _ in range(ROUNDS):
        for case, (artifact, ids) in cases.items():
            named = dict(inputs)
            if ids is not None:
                named["adapter_id"] = ids.astype(np.int32)
            file = folder / "inputs.npz"
            np.savez(file, **named)
            us, report = benched(artifact, "--inputs", file, device=args.device)
            if case not in best or us < best[case]["us"]:
                best[case] = {"us": us, "launches": report["launches"]}
    return {"model": name, "batch": batch, "device": report["device"], **best}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="lora_block:4,lora_mlp_1k:4096,lora_mlp_1k:128", help="NAME:BATCH,... (default: %(default)s)")
    parser.add_argument("--dtype", choices=suite.NUMPY_DTYPES, default="fp16")
    for name, value in (("slots", 64), ("rank", 16), ("mixed", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="", help="as for fusec bench")
    parser.add_argument("--target", default="", help="as for fusec compile")
    parser.add_argument("--folder", type=Path, help="folder for temporary models and artifacts")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for model in args.models.split(","):
            name, batch = model.split(":")
            results.append(measure(name, int(batch), Path(folder), args))
    print(f"{args.dtype}, {args.slots} slots of rank {args.rank}, mixed: {args.mixed} adapters, on {results[0]['device']}\n")
    print("| model | batch | merged us | no adapter | one | mixed | sorted | mixed / merged | launches |\n" + "| --- " * 9 + "|")
    for r in results:
        times = " | ".join(f"{r[case]['us']:.1f}" for case in ("merged", "none", "one", "mixed", "sorted"))
        launches = f"{r['merged']['launches']} -> {r['mixed']['launches']}"
        print(f"| {r['model']} | {r['batch']} | {times} | {r['mixed']['us'] / r['merged']['us']:.2f} | {launches} |")
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}, indent=1) + "\n")


main()
