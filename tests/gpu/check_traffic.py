#!/usr/bin/env python3
"""Checks, with an example, how traffic.py evaluates the output of Nsight Compute."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
import traffic  # noqa: E402

HEAD = '==PROF== Connected to process 7\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def kernel(number, name, read, written):
    values = {"dram_read": read, "dram_written": 0, "l2_read": 3 * read / 32, "l2_written": written / 32}
    return "".join(f'"{number}","{name}","{traffic.METRICS[key][0]}","byte","{value:,.0f}"\n' for key, value in values.items())


def step(name, read, written, launch="64 blocks"):
    function = {} if launch.startswith("library") else {"function": name}
    return {"name": name, "launch": launch, "bytes_read": read, "bytes_written": written, **function}


def refuses(function, part):
    try:
        function()
    except SystemExit as error:
        assert part in str(error), error
        return
    raise AssertionError(f"nothing was said of {part!r}")


def main():
    library = "library matmul [64, 8] x [8, 4]"
    steps = [step("k0_gather", 3200, 6400), step("k1_matmul", 3200, 320, library), step("k2_matmul", 320, 320, library),
             step("k3_relu", 320, 320)]
    text = HEAD + kernel(0, "k0_gather", 3200, 6400) + kernel(1, "sgemm", 3200, 320) + kernel(2, "splitk", 640, 320) + \
        kernel(3, "sgemm", 320, 320) + kernel(4, "k3_relu", 3200, 320) + "==WARNING== a remark\n"
    seen = traffic.kernels_of(text)
    rows = traffic.compare(steps, seen, 0)
    assert [row["kernels"] for row in rows] == [["k0_gather"], ["k1_matmul", "k2_matmul"], ["k3_relu"]], rows
    assert [row["seen"] for row in rows] == [1, 3, 1], rows
    assert [row["good"] for row in rows] == [True, True, False], rows
    assert rows[0]["ratio"] == 1 and rows[1]["measured"] == 5120 and rows[2]["l2_read"] == 9600, rows
    assert all(row["good"] for row in traffic.compare(steps, seen, 64000))

    shared = [steps[0], {**steps[3], "function": "k0_gather"}]  # of equal kernels one is compiled
    assert [row["seen"] for row in traffic.compare(shared, [seen[0], seen[0]], 0)] == [1, 1]

    refuses(lambda: traffic.compare(steps, seen + [("k9", {})], 0), "the next is k9")
    refuses(lambda: traffic.compare(steps, seen[3:], 0), "kernel 0 that ncu saw is sgemm, expected k0_gather")
    refuses(lambda: traffic.kernels_of("==ERROR== no permission"), "ncu saw no kernel")
    refuses(lambda: traffic.kernels_of(text.replace('"3,200"', '"n/a"')), "'n/a' for dram__bytes_read.sum of k0_gather")
    refuses(lambda: traffic.kernels_of(HEAD + '"0","k0","dram__bytes_read.sum","byte","1"\n'), "ncu gives no dram__bytes_write.sum")
    print("traffic.py reads what ncu says")


main()
