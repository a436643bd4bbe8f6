"""Writes the models that fusec is measured with as ONNX files like those of PyTorch's exporter, without PyTorch.

    python3 models/suite.py dlrm_dot FOLDER [--dtype fp16] [--scale small]

This writes FOLDER/NAME.DTYPE.onnx, its weights in NAME.DTYPE.data, and NAME.DTYPE.json, which maps the PyTorch module's name of each weight
to its place in the .data file. Weights are random numbers with PyTorch's usual distribution. They depend on the seed, but not on the dtype
or the number of threads.
"""
import argparse
import dataclasses
import json
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import family_graphs
import suite_graphs

FAMILIES = {**suite_graphs.FAMILIES, **family_graphs.FAMILIES}

# Rows of the 26 tables of Criteo Kaggle, 33.8 million in total.
KAGGLE_ROWS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27,
               14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
# The rows of the 26 tables of MLPerf's DLRM-DCNv2 (Criteo 1 TB, multi-hot), and the number of ids per row of the batch that each table
# sums.
MLPERF_ROWS = [40_000_000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40_000_000, 3067956, 405282, 10,
               2209, 11938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590152, 12973, 108, 36]
MLPERF_BAGS = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]  # 214
SCALES = {"full": 2**31, "medium": 10_000, "small": 100}  # the most rows of a table
HASHED_IDS = 2**31 - 2  # limit of raw ids, for models that hash ids themselves
NUMPY_DTYPES = {"fp32": np.float32, "fp16": np.float16}
CHUNK = 1 << 22  # number of weights that one thread makes at a time


def capped(rows, most):
    return [min(r, most) for r in rows]


@dataclasses.dataclass
class Workload:
    family: str                                  # a function of suite_graphs or family_graphs, with counterparts in PyTorch and JAX
    config: dict                                 # arguments of that function
    cells: dict = dataclasses.field(default_factory=dict)  # precision class -> measured batches
    id_rows: list = None                         # ids of column i are below id_rows[i]; default: config["rows"], once for each id of a bag


EVERY = ("highest", "high", "fp16")
FLOAT32 = ("highest", "high")

LECTURE = {"rows": capped(KAGGLE_ROWS, 10_000), "dim": 16}
DLRM = {"dim": 16, "bottom": [13, 512, 256, 64, 16], "top": [512, 256, 1]}

WORKLOADS = {
    "lecture_main": Workload("lecture", {**LECTURE, "bottom": [13, 512, 256, 64, 16], "top": [512, 256, 1]},
                             dict.fromkeys(FLOAT32, [1, 128]), [HASHED_IDS] * 26),
    "lecture_small": Workload("lecture", {**LECTURE, "bottom": [13, 32, 16], "top": [32, 1]},
                              dict.fromkeys(FLOAT32, [64]), [HASHED_IDS] * 26),
    "dlrm_dot": Workload("dot", {**DLRM, "rows": KAGGLE_ROWS}, dict.fromkeys(EVERY, [1, 128, 2048, 16384])),
    "dcnv2": Workload("dcnv2", {"rows": capped(KAGGLE_ROWS, 1_000_000), "dim": 128, "rank": 512, "crosses": 3,
                                "bottom": [13, 512, 256, 128], "top": [1024, 1024, 512, 256, 1]},
                      dict.fromkeys(EVERY, [1, 128, 2048])),
    # MLPerf's bags; the tables are cut to 1 million rows, so that they fit into memory beside the peers' copies.
    "dcnv2_bags": Workload("dcnv2", {"rows": capped(MLPERF_ROWS, 1_000_000), "bags": MLPERF_BAGS, "dim": 128, "rank": 512, "crosses": 3,
                                     "bottom": [13, 512, 256, 128], "top": [1024, 1024, 512, 256, 1]},
                           {"high": [2048], "fp16": [2048]}),
    "lora_mlp_16": Workload("lora_mlp", {"width": 16, "rank": 5}, dict.fromkeys(FLOAT32, [7])),
    "lora_mlp_1k": Workload("lora_mlp", {"width": 1024, "rank": 5}, dict.fromkeys(EVERY, [128, 4096])),
    "lola": Workload("lola", {"width": 1024}, dict.fromkeys(EVERY, [1, 1024])),
    "lora_block": Workload("lora_block", {"width": 768, "heads": 12, "rank": 16, "tokens": 512}, {"fp16": [1, 8]}),
    # Not timed: families that are used only to count launches.
    "dlrm_dot_small": Workload("dot", {**DLRM, "rows": capped(KAGGLE_ROWS, 1000)}),
    "deep_fm": Workload("deep_fm", {"rows": capped(KAGGLE_ROWS, 1000), "dim": 16, "deep": [400, 400, 1]}),
    "two_tower": Workload("two_tower", {"rows": [1000] * 8, "dim": 32, "tower": [256, 128, 64]}),
    # Not part of the suite's times; tests/benchmarks/per_request.py compares it with a model that is split by hand.
    "dlrm_request": Workload("dlrm_request", {"rows": capped(KAGGLE_ROWS, 100_000)[:20], "dim": 64, "user_tables": 8, "history": 50,
                                              "tower": [512, 256], "bottom": [256, 64], "top": [512, 256, 1]}),
    "dcnv2_small": Workload("dcnv2", {"rows": capped(KAGGLE_ROWS, 1000), "dim": 16, "rank": 64, "crosses": 3,
                                      "bottom": [13, 64, 16], "top": [256, 64, 1]}),
    # Families for which nothing was tuned when they were added.
    "target_attention": Workload("target_attention", {"rows": [1_000_000], "dim": 64, "history": 50, "attention": [80, 40]}, {"high": [1024]}),
    "compressed_interaction": Workload("compressed_interaction", {"rows": capped(KAGGLE_ROWS, 100_000), "dim": 16, "layers": [100, 100, 50]},
                                       {"high": [1024]}),
    "hstu": Workload("hstu", {"width": 256, "heads": 4, "tokens": 200}, {"fp16": [16]}),
    "experts": Workload("experts", {"rows": capped(KAGGLE_ROWS, 100_000), "dim": 16, "tasks": 3, "experts": 4, "levels": [256, 128],
                                    "tower": [64, 1]}, {"high": [2048]}),
    "field_attention": Workload("field_attention", {"rows": capped(KAGGLE_ROWS, 100_000), "dim": 32, "heads": 2, "layers": 3}, {"high": [2048]}),
    "bert": Workload("bert", {"width": 384, "heads": 6, "tokens": 128, "layers": 2}, {"fp16": [16]}),
    "llama_block": Workload("llama_block", {"width": 1024, "heads": 16, "key_heads": 4, "tokens": 256, "hidden": 2816, "rank": 16},
                            {"fp16": [8]}),
    "gru": Workload("gru", {"rows": [1_000_000], "dim": 128, "history": 50}, {"high": [64]}),
}


def config_of(name, scale="full"):
    config = dict(WORKLOADS[name].config)
    if "rows" in config:
        config["rows"] = capped(config["rows"], SCALES[scale])
    return config


def inputs_of_family(family, config, id_rows):
    """For each input in0, in1, ...: its dims after the batch, and the exclusive limits of the ids of each column, or None for floats."""
    if family in family_graphs.FAMILIES:
        return family_graphs.inputs_of(family, config)
    return suite_graphs.inputs_of_family(family, config, id_rows)


def inputs_of(name, batch, dtype, seed, scale="full", ids="uniform"):
    """Random inputs by name: standard normal floats; ids are uniform, or id i has a frequency of about 1/i."""
    workload, config = WORKLOADS[name], config_of(name, scale)
    rng = np.random.default_rng([seed, batch, zlib.crc32(name.encode())])
    inputs = {}
    id_rows = workload.id_rows or config.get("rows")
    if "bags" in config:
        id_rows = [rows for rows, size in zip(id_rows, config["bags"]) for _ in range(size)]
    for i, (shape, rows) in enumerate(inputs_of_family(workload.family, config, id_rows)):
        if rows is None:
            inputs[f"in{i}"] = rng.standard_normal([batch, *shape], np.float32).astype(NUMPY_DTYPES[dtype])
            continue
        draw = rng.random([batch, *shape])
        if ids == "zipf":
            values = np.exp(draw * np.log(np.asarray(rows) + 1.0)) - 1
        else:
            values = draw * np.asarray(rows)
        inputs[f"in{i}"] = np.minimum(values.astype(np.int64), np.asarray(rows) - 1)
    return inputs


def fill(target, weight, seed, pool):
    """Starts to write random values of `weight` to `target`, a flat array in the file's dtype; returns the futures to wait for."""
    def fill_chunk(begin):
        end = min(begin + CHUNK, target.size)
        rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(weight.name.encode()), begin]))
        values = rng.random(end - begin, np.float32)
        values -= np.float32(0.5)
        values *= np.float32(2 * weight.bound)
        values += np.float32(weight.center)
        target[begin:end] = values
    return [pool.submit(fill_chunk, begin) for begin in range(0, target.size, CHUNK)]


def write_weights(path, weights, dtype, seed):
    """Writes the weights' file; returns its index: name -> offset, shape as stored, whether it is transposed."""
    index, size = {}, 0
    item = np.dtype(NUMPY_DTYPES[dtype]).itemsize
    for weight in weights:
        index[weight.name] = {"offset": size, "shape": weight.stored_shape, "transposed": weight.transposed}
        size += -(-math.prod(weight.stored_shape) * item // 4096) * 4096
    data = np.memmap(path, np.uint8, "w+", shape=(size,))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = []
        for weight in weights:
            count = math.prod(weight.stored_shape)
            begin = index[weight.name]["offset"]
            target = data[begin:begin + count * item].view(NUMPY_DTYPES[dtype])
            tasks += fill(target, weight, seed, pool)
        for task in tasks:
            task.result()
    return index


def write_model(name, folder, dtype="fp32", scale="full", seed=1):
    """Writes the three files unless they exist; returns the path of the .onnx file."""
    path = Path(folder) / (f"{name}.{dtype}" + ("" if scale == "full" else f".{scale}") + ".onnx")
    if path.exists():
        return path
    config = config_of(name, scale)
    model, weights = suite_graphs.build(name, FAMILIES[WORKLOADS[name].family], config, dtype)
    write_files(path, model, weights, dtype, seed, family=WORKLOADS[name].family, config=config)
    return path


def write_files(path, model, weights, dtype, seed, **described):
    """Writes the .onnx file, random weights in a .data file beside it, and a .json file that describes them."""
    import onnx

    data = path.with_suffix(".data")
    index = write_weights(data, weights, dtype, seed)
    for tensor in model.graph.initializer:
        if tensor.name not in index:
            continue
        tensor.data_location = onnx.TensorProto.EXTERNAL
        length = math.prod(tensor.dims) * np.dtype(NUMPY_DTYPES[dtype]).itemsize
        for key, value in (("location", data.name), ("offset", index[tensor.name]["offset"]), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    described = {**described, "dtype": dtype, "data": data.name, "weights": index}
    path.with_suffix(".json").write_text(json.dumps(described) + "\n")
    path.write_bytes(model.SerializeToString())


def read_weights(path, merged=False):
    """Returns family, config, dtype and the weights in PyTorch's layout of the .onnx file `path`. With `merged`, every low-rank adapter is
    added to the weights of its layer, in float32 and rounded once, and removed."""
    described = json.loads(Path(path).with_suffix(".json").read_text())
    dtype = NUMPY_DTYPES[described["dtype"]]
    data = np.memmap(Path(path).with_name(described["data"]), np.uint8, "r")
    weights = {}
    for name, entry in described["weights"].items():
        count = math.prod(entry["shape"])
        begin = entry["offset"]
        array = data[begin:begin + count * np.dtype(dtype).itemsize].view(dtype).reshape(entry["shape"])
        weights[name] = array.T if entry["transposed"] else array
    if merged:
        for prefix in [name[:-2] for name in weights if name.endswith(".A")]:
            a, b = (weights.pop(f"{prefix}.{part}").astype(np.float32) for part in "AB")
            key = f"{prefix}.linear.weight"
            weights[key] = (weights[key].astype(np.float32) + suite_graphs.ALPHA * (a @ b).T).astype(dtype)
    return described["family"], described["config"], described["dtype"], weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*WORKLOADS, "all"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=NUMPY_DTYPES, default="fp32")
    parser.add_argument("--scale", choices=SCALES, default="full",
                        help="cut tables to at most 10,000 (medium) or 100 rows (small)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in WORKLOADS if arguments.name == "all" else [arguments.name]:
        print(write_model(name, arguments.folder, arguments.dtype, arguments.scale, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
