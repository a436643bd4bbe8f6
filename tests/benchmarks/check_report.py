#!/usr/bin/env python3
"""Checks the output of report.py, fusions.py, growth.py and start_against_peers.py for made-up results (which time counts, which answers
are wrong, what failed, what a fusion gains), the cells of the suite, and that processes take turns on the GPU."""
import copy
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "benchmarks"), str(ROOT / "models")]
import against_peers  # noqa: E402
import ahead  # noqa: E402
import fusions  # noqa: E402
import growth  # noqa: E402
import report  # noqa: E402
import start_against_peers  # noqa: E402

RUN = {"date": "2026-11-21 05:00 UTC", "commit": "0123456789abcdef", "gpu": {"name": "G<1>", "driver": "1.2"},
       "processor": "P", "cores": 4, "fusec": "fusec 0.1.0\nmore", "ids": "uniform", "rounds": 3, "seconds": 9.5,
       "versions": {"torch": {"torch": "2.11"}}}


def entry(median, error=1e-7, **more):
    figure = {"median": median, "p10": median * 0.9, "p90": median * 1.1}
    return {"device_us": figure, "call_us": figure, "compile_s": 1.5, "error": {"relative_l2": error, "worst": error},
            **more}


def results(cells):
    return {"runs": [RUN, {**RUN, "gpu": None}], "cells": cells}


class Report(unittest.TestCase):
    def test_best_peer_is_judged_within_its_run(self):
        data = results({"dlrm_dot/128/high": [
            {"run": 0, "results": {"fusec": entry(10), "xla": entry(30)}},
            {"run": 1, "results": {"fusec": entry(20), "torch-max": entry(50)}}]})
        row = report.rows_of(data)[0]
        self.assertEqual((row.best, row.ratio), ("torch-max", 2.5))  # 30 us are 3 times those 10 us
        text = report.markdown(data)
        self.assertIn("| dlrm_dot | 128 | high | 20.0 (18.0-22.0) | 2.50 torch-max | 30.0 | 50.0 |", text)
        self.assertIn("in 1 of 1 cells", text)

    def test_newer_contests_replace_older_ones(self):
        data = results({"lola/1/fp16": [{"run": 0, "results": {"fusec": entry(9), "xla": entry(9)}},
                                        {"run": 1, "results": {"fusec": entry(5), "xla": entry(10)}}]})
        self.assertEqual(report.rows_of(data)[0].ratio, 2)

    def test_pytorchs_faster_way_counts(self):
        slow = entry(40, device_single_us={"median": 30, "p10": 29, "p90": 31})
        data = results({"lola/1/high": [{"run": 0, "results": {"fusec": entry(10), "torch-eager": slow}}]})
        self.assertEqual(report.rows_of(data)[0].ratio, 3)

    def test_wrong_and_failed_contestants_are_told_and_do_not_count(self):
        contest = {"fusec": entry(10), "xla": entry(1, error=0.5), "torch-max": {"failure": "out | of memory"},
                   "torch-eager": entry(20)}
        data = results({"lola/1/highest": [{"run": 0, "results": contest}]})
        self.assertEqual(report.rows_of(data)[0].best, "torch-eager")
        text = report.markdown(data)
        self.assertIn("1.0 wrong", text)
        self.assertIn("| lola/1/highest | xla | wrong: relative L2 error 5.0e-01, expected at most 1e-04 |", text)
        self.assertIn("| lola/1/highest | torch-max | out / of memory |", text)

    def test_a_wrong_fusec_wins_nothing(self):
        contest = {"fusec": entry(1, error=float("nan")), "xla": entry(2)}
        data = results({"lola/1/highest": [{"run": 0, "results": contest}]})
        self.assertIsNone(report.rows_of(data)[0].best)
        self.assertIn("| lola/1/highest | fusec | wrong", report.markdown(data))
        self.assertIn("No cell has times", report.markdown(data))

    def test_unmerged_cells_stand_in_the_table_alone(self):
        contest = [{"run": 0, "results": {"fusec": entry(10), "xla": entry(20)}}]
        data = results({"lora_mlp_1k/128/high": contest, "lora_mlp_1k/128/high/unmerged": contest})
        self.assertIn("in 1 of 1 cells", report.markdown(data))
        self.assertIn("high/unmerged", report.markdown(data))
        self.assertEqual(report.svg(data).count("2.00x <tspan"), 1)

    def test_the_chart_is_well_formed(self):
        data = results({"dlrm_dot/1/high": [{"run": 0, "results": {"fusec": entry(1), "xla": entry(123.4)}}]})
        data["runs"][-1] = RUN
        root = xml.etree.ElementTree.fromstring(report.svg(data))
        texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("123.40x 1.0 us, xla 123 us", texts)
        self.assertIn("G<1>, 2026-11-21, torch 2.11", texts)

    def test_no_results_at_all(self):
        self.assertIn("No cell", report.markdown(results({})))
        xml.etree.ElementTree.fromstring(report.svg(results({})))

    def test_results_accumulate(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            first = against_peers.Results(path, dict(RUN))
            first.entry("lola/1/high", "fusec").update(entry(1))
            first.entry("lola/1/high", "xla").update(entry(2))
            first.fail("lola/1/high", "torch-max", "no")
            first.write()
            second = against_peers.Results(path, dict(RUN))
            self.assertEqual(second.missing("lola/1/high", ["xla", "torch-max"]), [])
            self.assertEqual(second.missing("lola/1/high", ["xla", "torch-max"], retry=True), ["torch-max"])
            second.entry("lola/1/high", "torch-max").update(entry(3))
            second.write()
            data = json.loads(path.read_text())
            self.assertEqual(len(data["runs"]), 2)
            self.assertEqual([contest["run"] for contest in data["cells"]["lola/1/high"]], [0, 1])

    def test_the_suite_has_53_cells(self):
        self.assertEqual(len(list(against_peers.all_cells(False))), 53)
        self.assertEqual(len(list(against_peers.all_cells(True))), 63)


class Turns(unittest.TestCase):
    def test_a_holder_may_enter_again_and_others_wait(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/lock"
            others = [sys.executable, "-c", f"import fcntl; fcntl.flock(open({path!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"]

            def is_free():
                return subprocess.run(others, stderr=subprocess.DEVNULL).returncode == 0

            turn = ahead.Turn(path)
            for _ in range(2):
                with turn:
                    with turn:
                        self.assertFalse(is_free())
                    self.assertFalse(is_free())
                self.assertTrue(is_free())


class Fusions(unittest.TestCase):
    @staticmethod
    def cell(fusion, batch, with_us, without_us):
        sides = ({"us": {"median": us}, "launches": launches, "bytes": 2_000_000 * launches}
                 for us, launches in ((with_us, 3), (without_us, 9)))
        return {"fusion": fusion, "model": "lola", "batch": batch, "ratio": without_us / with_us, **dict(zip(("with", "without"), sides))}

    def test_gains_and_losses_are_told(self):
        cells = [self.cell("fuse-pointwise", 1, 10, 40), self.cell("fuse-pointwise", 128, 20, 20),
                 self.cell("fold-scale", 1, 10, 9)]
        text = fusions.markdown({"machine": RUN, "cells": cells, "failures": [["lola", "merge-lora", "exit 70: a bug"]]})
        self.assertIn("| fuse-pointwise | 2.00 | 1.00 | 4.00 | 2 | 0 |", text)
        self.assertIn("| fuse-pointwise | lola | 1 | 10.0 | 40.0 | 4.00 | 3 / 9 | 6.00 / 18.00 |", text)
        lost = text[text.index("## What lost"):text.index("## Every cell")]
        self.assertIn("| fold-scale | lola | 1 | 10.0 | 9.0 | 0.90 |", lost)
        self.assertNotIn("fuse-pointwise", lost)
        self.assertIn("| lola | merge-lora | exit 70: a bug |", text)

    def test_every_optional_pass_is_known(self):
        passes = fusions.optional_passes()
        self.assertIn("fuse-pointwise", passes)
        self.assertNotIn("outline-regions", passes)  # no model compiles without it


class Growth(unittest.TestCase):
    RESULTS = {
        "machine": {**RUN, "scale": "full"}, "peak_bytes_per_second": 4e12,
        "batches": [{"batch": batch, "us": {"median": us, "p99": us}, "call_us": {"median": 2 * us}, "launches": 7, "bytes": 1e6,
                     "samples_per_second": batch / us * 1e6} for batch, us in ((1, 10), (65536, 300))],
        "look_ups": [{"tables": tables, "rows": rows, "dim": 16, "ids": ids, "batch": 16384, "us": {"median": 20}, "launches": 1,
                      "bytes": 6e7, "bytes_per_second": 3e12, "share": 0.75}
                     for tables, rows, ids in ((1, 1000, "uniform"), (1, 30_000_000, "zipf"), (26, 1_000_000, "uniform"))]}

    def test_tables(self):
        text = growth.markdown(self.RESULTS)
        self.assertIn("| 65,536 | 300 | 300 | 600 | 218.45 | 7 | 1.0 |", text)
        self.assertIn("| 1 | 30,000,000 | 16 | 1,920.0 | zipf | 20.0 | 60.0 | 3,000 | 75.0% |", text)

    def test_the_chart_is_well_formed(self):
        for part in ({}, {"batches": []}, {"look_ups": []}):
            xml.etree.ElementTree.fromstring(growth.svg({**self.RESULTS, **part}))


class Start(unittest.TestCase):
    RESULTS = {"machine": RUN, "model": "dlrm_dot_small", "batch": 128, "versions": {"torch-eager": "torch 2.11"},
               "rounds": {"fusec from C": [0.5, 0.25, 0.3], "torch-eager": [4.0]}, "call_rounds": {}, "failures": {"xla": "exit 1: no jax"}}

    def test_tables(self):
        results = copy.deepcopy(self.RESULTS)
        start_against_peers.add(results, "fusec from C", 0.2, {"p50": 21.04, "p99": 30, "page_locked": {"p50": 15, "p99": 20}})
        text = start_against_peers.markdown(results)
        self.assertIn("| fusec from C | 0.275 | 0.500, 0.250, 0.300, 0.200 |", text)
        self.assertIn("| fusec from C | 21.0 | 30.0 |", text)
        self.assertIn("| fusec from C, page-locked inputs | 15.0 | 20.0 |", text)
        self.assertIn("commit 0123456, torch 2.11: dlrm_dot_small at batch 128", text)
        self.assertIn("| xla | exit 1: no jax |", text)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
