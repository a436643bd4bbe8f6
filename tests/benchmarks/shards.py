#!/usr/bin/env python3
"""Estimates how the time of a batch grows when a model's tables lie on 8 to 512 machines. The times of shards and of the dense part are
measured on this machine's CPU, with artifacts of fusec shard; the network between them is simulated with the parameters below. Nothing runs
on a GPU.

    PYTHONPATH=build/python .deps/venv/bin/python tests/benchmarks/shards.py [--runs 40] [--batches 2000] [--json FILE]

The model sums `IDS` rows of each of T tables for every row of the batch, followed by an MLP; for every T, the tables have 0.4 GB in total.
For each T and number of shards in MEASURED, some shards, the dense part and the whole model run alone, with one thread and random ids. In
other cases, the time of a shard is computed from the time of one sum in its batch, for a whole table or for one that is cut by columns or
by rows; the script prints how well this fits.

A simulated batch: the dense machine sends its messages one after the other through its link. Each message takes a latency to its shard; the
shard runs; its answer takes another latency, and then waits for its turn on the link of the dense machine, which all answers share. After
the last answer, the dense part runs. The time of a run is the median of its case, times the ratio of a randomly drawn measured run to its
median. Latencies are lognormal, and some have an additional delay (hiccup).

Tables: `measured` has the times of shards and of the dense part beside the planner's cost model. `simulated` has the mean, the 99th
percentile, the time of waiting for shards, the share of the dense machine's link in it, the planner's expected and worst time from the
measured times of the parts, and the times of an unsharded machine. `fan-out` has the 99th percentile of the slowest of N answers beside
that of a single answer.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("FUSEC_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parent / "peers"))

import fusec  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from fusec.serve._shards import ShardedManifest  # noqa: E402
from machine import processor  # noqa: E402

COLUMNS, IDS, HIDDEN = 32, 10, 256
ALL_ROWS = 3_200_000  # rows of all tables together
TABLES = (16, 64)
MEASURED = {16: (8, 32, 64), 64: (8,)}  # shards, by tables; of 16 tables, 32 have half the columns of one each and 64 a quarter of the rows
LEAST_BYTES_OF_ROW = 64  # least bytes of a row on a shard; tables that would have fewer are cut by rows
SHARDS = (8, 16, 32, 64, 128, 256, 512)
CPU = {"target": "cpu", "cpu_level": "native"}
BATCHES = (64, 512, 2048)
MOST_TIMED = 4  # number of shards of an artifact that are timed
ROW_BANDWIDTH = 10e9  # bytes per second that fusec shard assumes
NETWORK = {
    "bandwidth": 3.125e9,  # bytes per second into or out of a machine: 25 Gbit/s
    "latency_us": 25.0,  # median latency of a message one way; both ways are the planner's 50 us
    "latency_sigma": 0.3,  # standard deviation of the latency's logarithm
    "hiccup_share": 1e-3,  # share of messages with an additional delay
    "hiccup_us": 1000.0,  # mean of that delay, which is exponentially distributed
    "send_us": 2.0,  # CPU time of the dense machine for each message and its answer
}


def write_model(path, tables):
    random, rows = np.random.default_rng(0), ALL_ROWS // tables
    nodes, inputs, weights = [], [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 16])], {}
    make = onnx.helper.make_node
    for i in range(tables):
        inputs.append(onnx.helper.make_tensor_value_info(f"ids_{i}", onnx.TensorProto.INT64, ["batch", IDS]))
        weights[f"table_{i}"] = random.standard_normal((rows, COLUMNS), np.float32)
        nodes += [make("Gather", [f"table_{i}", f"ids_{i}"], [f"rows_{i}"], axis=0)]
        nodes += [make("ReduceSum", [f"rows_{i}", "axes"], [f"sum_{i}"], keepdims=0)]
    nodes.append(make("Concat", ["x", *(f"sum_{i}" for i in range(tables))], ["features"], axis=1))
    weights["first"] = random.standard_normal((16 + tables * COLUMNS, HIDDEN), np.float32)
    weights["second"] = random.standard_normal((HIDDEN, 1), np.float32)
    nodes += [make("MatMul", ["features", "first"], ["hidden"]), make("Relu", ["hidden"], ["positive"])]
    nodes.append(make("MatMul", ["positive", "second"], ["scores"]))
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    tensors.append(onnx.numpy_helper.from_array(np.array([1]), "axes"))
    scores = onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", 1])
    graph = onnx.helper.make_graph(nodes, "bags", inputs, [scores], tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


class Timed:
    """An artifact that is timed alone with random ids."""

    def __init__(self, folder, rows):
        self._model, self._rows = fusec.load(folder, "cpu"), rows
        self._context, self._random = self._model.context(), np.random.default_rng(0)

    def _inputs(self, batch):
        for info in self._model.inputs:
            shape = tuple(batch if isinstance(dim, str) else dim for dim in info.shape)
            yield self._random.integers(0, self._rows, shape) if info.dtype == "i64" else self._random.standard_normal(shape, np.float32)

    def us(self, batch, runs):
        """The CPU time in microseconds of each run, with one thread and four sets of inputs in turn. Time in which other processes have the
        core does not count."""
        times, sets = [], [list(self._inputs(batch)) for _ in range(4)]
        for i in range(runs + 4):
            start = time.process_time_ns()
            self._context(*sets[i % 4])
            times.append((time.process_time_ns() - start) / 1e3)
        return times[4:]

    def bytes(self, batch, which):
        sizes = {"f32": 4, "i64": 8}
        return sum(
            sizes[info.dtype] * int(np.prod([batch if isinstance(dim, str) else dim for dim in info.shape]))
            for info in getattr(self._model, which)
        )


def measure(folder, runs):
    """A list of {tables, shards, batch, part, us, planned_us...} for everything that is measured, and the ratios of runs to their
    medians."""
    cells, spread = [], []

    def note(times, **cell):
        cells.append({**cell, "us": float(np.median(times))})
        spread.extend(np.asarray(times) / np.median(times))

    for tables in TABLES:
        rows = ALL_ROWS // tables
        write_model(folder / "bags.onnx", tables)
        with contextlib.redirect_stderr(io.StringIO()):
            fusec.compile(folder / "bags.onnx", folder / "whole", **CPU)
        whole = Timed(folder / "whole", rows)
        for batch in BATCHES:
            note(whole.us(batch, runs), tables=tables, shards=1, batch=batch, part="whole")
        del whole
        for shards in MEASURED[tables]:
            with contextlib.redirect_stderr(io.StringIO()):
                fusec.shard(folder / "bags.onnx", shards, folder / "sharded", **CPU)
            artifact = ShardedManifest(folder / "sharded")
            of_all = {"tables": tables, "shards": shards}
            for i in np.linspace(0, shards - 1, MOST_TIMED).astype(int):
                part, plan = Timed(artifact.folder(i), rows), artifact.plan["shards"][i]
                first = plan["tables"][0]
                columns = first.get("end_column", COLUMNS) - first.get("first_column", 0)
                cut = "columns" if columns < COLUMNS else "rows" if first["end_row"] - first["first_row"] < rows else "no"
                held = {"held": len(plan["tables"]), "cut": cut}
                for batch in BATCHES:
                    scale = batch / artifact.plan["dims"]["batch"]
                    planned = {name: plan[name] * scale for name in ("row_bytes", "id_bytes", "wire_bytes")}
                    moved = part.bytes(batch, "inputs") + part.bytes(batch, "outputs")
                    note(part.us(batch, runs), **of_all, batch=batch, part=artifact.parts[i].folder, **held, bytes=moved, planned=planned)
            dense = Timed(artifact.folder(shards), rows)
            for batch in BATCHES:
                planned = artifact.plan["dense"]["us"] * batch / artifact.plan["dims"]["batch"]
                note(dense.us(batch, runs), **of_all, batch=batch, part="dense", planned_us=planned)
            del part, dense
            shutil.rmtree(folder / "sharded")
            print(f"measured {tables} tables on {shards} shards", file=sys.stderr, flush=True)
    return cells, np.asarray(spread)


class Fit:
    """The microseconds that a shard takes per sum, by batch and by how its tables are cut; a part of a table computes the sums for all
    ids."""

    def __init__(self, cells):
        shards = [cell for cell in cells if "held" in cell]
        by_case = {}
        for cell in shards:
            by_case.setdefault(self._case(cell), []).append(cell["us"] / (cell["batch"] * cell["held"]))
        self.us_of = {case: float(np.median(values)) for case, values in by_case.items()}
        self.errors = np.array([abs(self.us(cell["batch"], cell["held"], cell["cut"]) / cell["us"] - 1) for cell in shards])

    @staticmethod
    def _case(cell):
        return cell["batch"], cell["cut"]

    def us(self, batch, held, cut):
        return batch * held * self.us_of[batch, cut]


def latencies(random, shape):
    found = NETWORK["latency_us"] * np.exp(NETWORK["latency_sigma"] * random.standard_normal(shape))
    return found + (random.random(shape) < NETWORK["hiccup_share"]) * random.exponential(NETWORK["hiccup_us"], shape)


def simulate(random, spread, shards, shard_us, dense_us, bytes_in, bytes_out, batches):
    """Simulates batches; returns, in microseconds: times until the last answer, times until the dense part has run, and times of a single
    answer."""
    shape = (batches, shards)
    link_us = 1e6 / NETWORK["bandwidth"]
    sent = np.arange(1, shards + 1) * (NETWORK["send_us"] + bytes_in * link_us)
    own = latencies(random, shape) + shard_us * random.choice(spread, shape) + latencies(random, shape)
    arrived = np.sort(sent + own, axis=1)
    end = np.zeros(batches)
    for i in range(shards):
        end = np.maximum(end, arrived[:, i]) + bytes_out * link_us
    return end, end + dense_us * random.choice(spread, batches), own


def planned_times(shards, shard_us, dense_us, bytes_in, bytes_out):
    """The (expected, worst) microseconds of a batch by the formulas of compiler/driver/shard/shard_plan.cc, for equal shards."""
    link_us, message_us = 1e6 / NETWORK["bandwidth"], 2 * NETWORK["latency_us"]
    end = 0.0
    for i in range(shards):
        end = max(end, (i + 1) * bytes_in * link_us + message_us + shard_us) + bytes_out * link_us
    return end + dense_us, message_us + shard_us + shards * (bytes_in + bytes_out) * link_us + dense_us


def cut_on(tables, shards):
    """How tables are cut for this number of shards: "no" (not at all), "columns" or "rows"."""
    parts = max(1, shards // tables)
    return "no" if parts == 1 else "columns" if COLUMNS * 4 // parts >= LEAST_BYTES_OF_ROW else "rows"


def simulated(cells, fit, spread, batches):
    random, found = np.random.default_rng(0), []
    median = {(cell["tables"], cell["batch"], cell["part"]): cell["us"] for cell in cells if cell["part"] == "whole"}
    dense = {(cell["tables"], cell["batch"], cut_on(cell["tables"], cell["shards"])): cell["us"] for cell in cells if cell["part"] == "dense"}
    for tables, shards, batch in itertools.product(TABLES, SHARDS, BATCHES):
        held, parts, cut = max(1, tables // shards), max(1, shards // tables), cut_on(tables, shards)
        bytes_in, bytes_out = batch * held * IDS * 8, batch * held * COLUMNS * 4 // (parts if cut == "columns" else 1)
        shard_us = fit.us(batch, held, cut)
        dense_us = dense.get((tables, batch, cut), dense[tables, batch, "no"])
        answered, done, own = simulate(random, spread, shards, shard_us, dense_us, bytes_in, bytes_out, batches)
        whole = median[tables, batch, "whole"] * random.choice(spread, batches)
        expected, worst = planned_times(shards, shard_us, dense_us, bytes_in, bytes_out)
        found.append(
            {
                "tables": tables,
                "shards": shards,
                "batch": batch,
                "cut": cut,
                "shard_us": shard_us,
                "dense_us": dense_us,
                "expected_us": expected,
                "worst_us": worst,
                "answered_mean_us": answered.mean(),
                "answered_p99_us": np.quantile(answered, 0.99),
                "mean_us": done.mean(),
                "p99_us": np.quantile(done, 0.99),
                "whole_mean_us": whole.mean(),
                "whole_p99_us": np.quantile(whole, 0.99),
                "one_p99_us": np.quantile(own, 0.99),
                "slowest_p99_us": np.quantile(own.max(axis=1), 0.99),
                "link_us": 1e6 * shards * (bytes_in + bytes_out) / NETWORK["bandwidth"],
            }  # fmt: skip
        )
    return [{name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()} for row in found]


def planner(cells):
    """The planner's time for the work of a shard, which is that of reading its rows, beside the measured time."""
    rows = []
    for cell in cells:
        if "planned" in cell:
            planned = 1e6 * cell["planned"]["row_bytes"] / ROW_BANDWIDTH
            rows.append(
                {
                    **{name: cell[name] for name in ("tables", "shards", "batch", "part", "us")},
                    "planned_us": planned,
                    "row_gb_per_s": cell["planned"]["row_bytes"] / cell["us"] / 1e3,
                    "bytes": [cell["bytes"], cell["planned"]["id_bytes"] + cell["planned"]["wire_bytes"]],
                }  # fmt: skip
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="number of runs of each part and batch (40)")
    parser.add_argument("--batches", type=int, default=2000, help="number of simulated batches in each case (2000)")
    parser.add_argument("--json", type=Path, help="file for the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fusec_shards_") as folder:
        cells, spread = measure(Path(folder), arguments.runs)
    fit, plan = Fit(cells), planner(cells)
    rows = simulated(cells, fit, spread, arguments.batches)

    print(f"spread of runs: p50 1, p90 {np.quantile(spread, 0.9):.2f}, p99 {np.quantile(spread, 0.99):.2f} of the median")
    for (batch, cut), us in sorted(fit.us_of.items()):
        print(f"a sum in a batch of {batch}, of {'a whole table' if cut == 'no' else f'a table cut by {cut}'}: {us:.3f} us")
    print(f"which is off by {np.median(fit.errors):.0%} in the median, {fit.errors.max():.0%} at most")
    print("measured: tables shards batch   shard us (planned for its rows)   GB/s of rows   message bytes (planned)")
    for row in plan:
        print(
            f"{row['tables']:6} {row['shards']:4} {row['batch']:5} {row['us']:10.0f} ({row['planned_us']:.0f})"
            f" {row['row_gb_per_s']:8.2f} {row['bytes'][0]:12.0f} ({row['bytes'][1]:.0f})"
        )
    print("measured: tables shards batch   dense us (planned)")
    for cell in cells:
        if "planned_us" in cell:
            print(f"{cell['tables']:6} {cell['shards']:4} {cell['batch']:5} {cell['us']:10.0f} ({cell['planned_us']:.0f})")
    print("simulated: tables shards batch   mean us    p99 us   of that shards   link   planned   worst   unsharded mean us   p99 us   fan-out p99 / one p99")
    for row in rows:
        print(
            f"{row['tables']:6} {row['shards']:4} {row['batch']:5} {row['mean_us']:10.0f} {row['p99_us']:10.0f} {row['answered_mean_us']:10.0f}"
            f" {row['link_us']:10.0f} {row['expected_us']:10.0f} {row['worst_us']:10.0f}"
            f" {row['whole_mean_us']:10.0f} {row['whole_p99_us']:10.0f} {row['slowest_p99_us']:8.0f} / {row['one_p99_us']:.0f}"
        )
    if arguments.json:
        result = {
            "processor": processor(), "cores": os.cpu_count(), "network": NETWORK, "columns": COLUMNS, "ids": IDS, "runs": arguments.runs,
            "batches": arguments.batches, "spread": {f"p{100 * q:g}": float(np.quantile(spread, q)) for q in (0.5, 0.9, 0.99, 0.999)},
            "sum_us": [{"batch": batch, "cut": cut, "us": us} for (batch, cut), us in sorted(fit.us_of.items())],
            "largest_error": float(fit.errors.max()),
            "measured": cells, "planner": plan, "simulated": rows,
        }  # fmt: skip
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
