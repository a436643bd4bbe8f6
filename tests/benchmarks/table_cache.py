#!/usr/bin/env python3
"""Times look-ups of skewed ids in tables in GPU memory, in page-locked host memory, and in host memory with a cache on the GPU
(--table-cache).

    FUSEC=build/fusec FUSEC_LIBRARY=build/runtime/libfusec_rt.so python3 tests/benchmarks/table_cache.py
        [--model dcnv2 --precision high]
        [--tables 26 --rows 1000000 --dim 128 --ids 10 --batch 2048 --cache 10% --exponents 1.05,1.2] [--json FILE]

The model sums `ids` rows of each table for every row of the batch and concatenates the sums; or it is DLRM-DCNv2 of models/suite.py, in float32
and with `tables` tables of `rows` rows, of which it looks up one each. Every batch has other ids: the row of rank r is
looked up with probability proportional to 1 / r^exponent, and ranks are spread over each table at random. After `--fill` batches the script
times `--runs` more, whose ids are already on the GPU, and prints

    us              time of one batch, over all of them
    of the GPU      the throughput beside that of the same tables in the GPU's memory
    hits            the share of noted look-ups that the cache had, while the batches ran that are timed
    best            the share of look-ups of the rows that a cache of this size holds at best
    bus GB/s        the bytes of rows that the cache had not, by the time

It checks that the answers of the last batch have the same bits as with tables in GPU memory. It needs numpy, onnx, PyTorch with a GPU, and
page-locked host memory for the tables (13.3 GB); the folder for the model and artifacts (--folder) must have room for twice that.
"""

import argparse
import ctypes
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from bags import write_model  # noqa: E402
from program import FUSEC, said  # noqa: E402

PREFIX = {"bags": "emb", "dcnv2": "tables"}  # of the names of a model's tables
LIBRARY = os.environ.get("FUSEC_LIBRARY", str(Path(FUSEC).resolve().parent / "runtime" / "libfusec_rt.so"))


class CacheInfo(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("bytes", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in ("hits", "misses", "loaded")]


class Served:
    """A program on the GPU, with its inputs and its output bound to PyTorch tensors."""

    def __init__(self, library, path, inputs, output):
        self.library, self.program, self.context = library, ctypes.c_void_p(), ctypes.c_void_p()
        self.call("fusec_load", str(path).encode(), b"cuda", ctypes.byref(self.program))
        self.call("fusec_create_context", self.program, ctypes.byref(self.context))
        for i, bound in enumerate(inputs):
            dims = (ctypes.c_int64 * bound.dim())(*bound.shape)
            self.call("fusec_bind_input", self.context, i, ctypes.c_void_p(bound.data_ptr()), dims, bound.dim(), 1)
        size = ctypes.c_size_t(output.numel() * output.element_size())
        self.call("fusec_bind_output", self.context, 0, ctypes.c_void_p(output.data_ptr()), size, 1)

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            self.library.fusec_last_error.restype = ctypes.c_char_p
            sys.exit(f"{name}: {self.library.fusec_last_error().decode()}")

    def run(self, stream):
        self.call("fusec_run_async", self.context, ctypes.c_void_p(stream))

    def cache(self, args):
        """The (hits, misses, loaded rows) of all tables."""
        sums = [0, 0, 0]
        for t in range(args.tables):
            info = CacheInfo()
            self.call("fusec_table_cache", self.program, f"{PREFIX[args.model]}.{t}.weight".encode(), ctypes.byref(info))
            sums = [a + b for a, b in zip(sums, (info.hits, info.misses, info.loaded))]
        return sums

    def close(self):
        self.call("fusec_synchronize", self.context)
        self.library.fusec_destroy_context(self.context)
        self.library.fusec_unload(self.program)


def ranks_of(exponent, args, generator):
    """A function that draws ids, and the share of look-ups that go to the most frequent rows."""
    import torch

    weights = torch.arange(1, args.rows + 1, device="cuda", dtype=torch.float64) ** -exponent
    cumulative = weights.cumsum(0) / weights.sum()
    places = torch.stack([torch.randperm(args.rows, device="cuda", generator=generator) for _ in range(args.tables)])

    def draw():
        uniform = torch.rand((args.batch, args.tables, args.ids), device="cuda", generator=generator, dtype=torch.float64)
        ranks = torch.searchsorted(cumulative, uniform).clamp_(max=args.rows - 1)
        drawn = torch.gather(places.expand(args.batch, -1, -1), 2, ranks)
        return drawn if args.model == "bags" else drawn.squeeze(2)

    return draw, lambda share: float(cumulative[max(0, int(share * args.rows) - 1)])


def write_dcnv2(path, tables, rows, dim, seed=1):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))
    import suite
    import suite_graphs

    workload = suite.WORKLOADS["dcnv2"]
    config = {**workload.config, "rows": [rows] * tables, "dim": dim, "bottom": [*workload.config["bottom"][:-1], dim]}
    model, weights = suite_graphs.build("dcnv2", suite.FAMILIES[workload.family], config, "fp32")
    suite.write_files(path, model, weights, "fp32", seed)


def memory_of(args):
    """The tensors for the ids, for the other inputs, and for the output."""
    import torch

    if args.model == "bags":
        ids = torch.zeros((args.batch, args.tables, args.ids), device="cuda", dtype=torch.int64)
        return ids, [], torch.empty((args.batch, args.tables * args.dim), device="cuda")
    ids = torch.zeros((args.batch, args.tables), device="cuda", dtype=torch.int64)
    dense = torch.randn((args.batch, 13), device="cuda", generator=torch.Generator("cuda").manual_seed(5))
    return ids, [dense], torch.empty((args.batch, 1), device="cuda")


def measure(library, artifact, place, draw, args):
    """The microseconds of a batch, the (hits, misses, loaded rows) of the timed batches, and the ids and answers of the last batch."""
    import torch

    ids, others, answers = memory_of(args)
    stream = torch.cuda.current_stream().cuda_stream
    served = Served(library, artifact, [*others, ids], answers)
    for _ in range(args.fill if place == "cache" else 3):
        ids.copy_(draw())
        served.run(stream)
    before = served.cache(args)
    batches = [draw() for _ in range(args.runs)]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for batch in batches:
        ids.copy_(batch)
        served.run(stream)
    end.record()
    torch.cuda.synchronize()
    counted = [b - a for a, b in zip(before, served.cache(args))]
    served.close()
    return begin.elapsed_time(end) / args.runs * 1e3, counted, [*others, batches[-1]], answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("tables", 26), ("rows", 1000000), ("dim", 128), ("ids", 10), ("batch", 2048), ("fill", 1500), ("runs", 200)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--model", choices=("bags", "dcnv2"), default="bags")
    parser.add_argument("--precision", default="highest", help="as --matmul-precision of fusec compile (default: highest)")
    parser.add_argument("--cache", default="10%")
    parser.add_argument("--exponents", default="1.05,1.2")
    parser.add_argument("--folder", type=Path, help="folder for temporary models and artifacts")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    if args.model == "dcnv2":
        args.ids = 1
    import torch

    library = ctypes.CDLL(LIBRARY)
    on_host = ["--table-placement", f"{PREFIX[args.model]}.*=host"]
    places = {"gpu": [], "host": on_host, "cache": [*on_host, "--table-cache", args.cache]}
    results = []
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        model = folder / f"{args.model}.onnx"
        if args.model == "bags":
            write_model(model, args.tables, args.rows, args.dim, args.ids, one_input=True)
        else:
            write_dcnv2(model, args.tables, args.rows, args.dim)
        right = {}
        for place, flags in places.items():
            artifact = folder / place
            said(model, "-o", artifact, "--target", "native", "--matmul-precision", args.precision, *flags)
            for exponent in map(float, args.exponents.split(",")):
                draw, share_of = ranks_of(exponent, args, torch.Generator("cuda").manual_seed(7))
                us, (hits, misses, loaded), inputs, answers = measure(library, artifact, place, draw, args)
                if place == "gpu":
                    right[exponent] = (inputs, answers)
                else:
                    check = Served(library, artifact, right[exponent][0], answers)
                    check.run(torch.cuda.current_stream().cuda_stream)
                    check.close()
                    if not torch.equal(answers, right[exponent][1]):
                        sys.exit(f"{place}, exponent {exponent}: the answers differ from those of tables in the GPU's memory")
                hit_rate = hits / max(1, hits + misses)
                share = float(args.cache[:-1]) / 100 if args.cache.endswith("%") else None
                looked_up = args.batch * args.tables * args.ids * args.dim * 4
                over_bus = 0 if place == "gpu" else looked_up * (1 - hit_rate)
                results.append(
                    {"place": place, "exponent": exponent, "us": us, "hit_rate": hit_rate, "loaded": loaded, "gb_s": over_bus / us * 1e-3,
                     "best": share_of(share) if share else None}
                )
                torch.cuda.empty_cache()
            shutil.rmtree(artifact)
    print(f"{args.model} ({args.precision}): {args.tables} tables of {args.rows} x {args.dim} f32, {args.ids} ids each, batch {args.batch}, "
          f"cache {args.cache}, on {torch.cuda.get_device_name()}\n")
    print("| exponent | tables in | us | of the GPU | hits | best | bus GB/s | rows loaded while timed |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        (on_gpu,) = [r for r in results if r["place"] == "gpu" and r["exponent"] == result["exponent"]]
        cached = result["place"] == "cache"
        print(
            f"| {result['exponent']} | {result['place']} | {result['us']:.1f} | {on_gpu['us'] / result['us']:.0%} | "
            f"{format(result['hit_rate'], '.1%') if cached else '-'} | {format(result['best'], '.1%') if cached and result['best'] else '-'} | "
            f"{result['gb_s']:.1f} | {result['loaded'] if cached else '-'} |"
        )
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "results": results}, indent=1) + "\n")


main()
