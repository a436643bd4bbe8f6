#!/usr/bin/env python3
"""Makes a Markdown table and a chart from the results of against_peers.py.

    python3 tests/benchmarks/report.py FILE.json [--markdown FILE.md] [--svg FILE.svg]

Only times of the same run are compared. A contestant whose error is above the limit of its class is listed as wrong and does not count. The
best peer of a cell is the one with the smallest ratio of its time to fusec's time in the same run.
"""
import argparse
import json
import math
import sys
from pathlib import Path

import chart

# The largest allowed relative L2 error against double precision: for sums of up to 186,624 products in another order, for inputs rounded to
# 10 bits (TF32), and for all tensors rounded to 10 bits (float16).
ERROR_LIMITS = {"highest": 1e-4, "high": 5e-3, "fp16": 1e-2}


def class_of(cell):
    return cell.split("/")[2]


def time_of(entry):
    """The device time: fusec and PyTorch have graphs of eight inferences and of one, and the faster counts."""
    return min(entry[figure]["median"] for figure in ("device_us", "device_single_us") if figure in entry)


def is_wrong(cell, entry):
    """Whether the error is above the limit; also true if it is NaN, or if there was nothing to compare with."""
    return "error" not in entry or not entry["error"]["relative_l2"] <= ERROR_LIMITS[class_of(cell)]


def is_valid(cell, entry):
    return "device_us" in entry and not is_wrong(cell, entry)


def latest(contests, peer):
    """The newest contest with results of both, or None."""
    for contest in reversed(contests):
        results = contest["results"]
        if "device_us" in results.get(peer, {}) and "device_us" in results.get("fusec", {}):
            return contest
    return None


class Row:
    """A cell: each peer's newest contest with fusec, and the best peer."""

    def __init__(self, cell, contests):
        self.cell, self.ratios, self.contests = cell, {}, {}
        peers = dict.fromkeys(peer for contest in contests for peer in contest["results"] if peer != "fusec")
        for peer in peers:
            contest = latest(contests, peer)
            if contest is None:
                continue
            self.contests[peer] = contest["results"]
            if is_valid(cell, contest["results"][peer]) and is_valid(cell, contest["results"]["fusec"]):
                self.ratios[peer] = time_of(contest["results"][peer]) / time_of(contest["results"]["fusec"])
        self.best = min(self.ratios, key=self.ratios.get, default=None)

    @property
    def ratio(self):
        return self.ratios[self.best]

    def entry(self, contestant):
        """The figures of a contestant; for fusec, those of the run with the best peer."""
        return self.contests[self.best if contestant == "fusec" else contestant][contestant]


def rows_of(data):
    """Sorts by workload (in order of appearance), batch and class."""
    workloads = list(dict.fromkeys(cell.split("/")[0] for cell in data["cells"]))

    def place(cell):
        name, batch, precision, *unmerged = cell.split("/")
        return workloads.index(name), bool(unmerged), int(batch), list(ERROR_LIMITS).index(precision)
    return [Row(cell, data["cells"][cell]) for cell in sorted(data["cells"], key=place)]


def failures_of(data):
    """The (cell, contestant, reason) of everything that is not in the table."""
    failures = []
    for cell, contests in data["cells"].items():
        for contestant in dict.fromkeys(name for contest in contests for name in contest["results"]):
            entries = [contest["results"][contestant] for contest in contests if contestant in contest["results"]]
            if not any("device_us" in entry for entry in entries):
                failures.append((cell, contestant, entries[-1].get("failure", "was not measured")))
                continue
            measured = [entry for entry in entries if "device_us" in entry][-1]
            if is_wrong(cell, measured):
                failures.append((cell, contestant, f"wrong: relative L2 error {error_text(measured)}, "
                                                   f"expected at most {ERROR_LIMITS[class_of(cell)]:.0e}"))
    return failures


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def us(value):
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def spread(figure):
    return f"{us(figure['median'])} ({us(figure['p10'])}-{us(figure['p90'])})"


def error_text(entry):
    return f"{entry['error']['relative_l2']:.1e}" if "error" in entry else "unknown"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    rows = [[cell.replace("|", "/") for cell in row] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def version_texts(run):
    versions = [run["fusec"].splitlines()[0]] if run.get("fusec") else []
    for name, facts in run.get("versions", {}).items():
        versions.append(f"{name} {facts.get(name, '?')}")
    return versions


def runs_text(data):
    lines = []
    for number, run in enumerate(data["runs"]):
        gpu = run.get("gpu")
        machine = f"{gpu['name']}, driver {gpu['driver']}" if gpu else "no GPU"
        lines.append(f"- run {number}: {run['date']}, {machine}, {run['processor']} ({run['cores']} cores), "
                     f"{', '.join(version_texts(run))}, commit {run['commit'][:12]}, ids {run['ids']}, "
                     f"{run['rounds']} rounds, {run.get('seconds', 0):.0f} s")
    return "\n".join(lines) + "\n"


def summary_text(rows):
    """The summary sentence that the README quotes."""
    ratios = [row.ratio for row in rows if row.best]
    if not ratios:
        return "No cell has times of fusec and of a peer.\n"
    ahead = sum(ratio >= 1 for ratio in ratios)
    return (f"fusec is at or ahead of the best peer in {ahead} of {len(ratios)} cells; the best peer's time over fusec's is "
            f"{geometric_mean(ratios):.2f} in the geometric mean, {min(ratios):.2f} at least, {max(ratios):.2f} at most.\n")


def device_table(rows):
    """The table of device times, with errors in brackets after the peers' times."""
    peers = list(dict.fromkeys(peer for row in rows for peer in row.contests))
    lines = []
    for row in rows:
        if not row.best:
            continue
        name, batch, precision = row.cell.split("/", 2)
        ours = row.entry("fusec")
        others = [us(time_of(row.contests[peer][peer])) + ("" if peer in row.ratios else " wrong")
                  if peer in row.contests else "-" for peer in peers]
        lines.append([name, batch, precision, spread(ours["device_us"]), f"{row.ratio:.2f} {row.best}", *others,
                      error_text(ours), error_text(row.entry(row.best)), str(ours.get("launches", "-"))])
    head = ["workload", "batch", "class", "fusec us (p10-p90)", "best peer / fusec", *peers, "error", "best peer's error",
            "launches"]
    return table(head, lines)


def single_table(rows):
    """The table of device times with one graph per inference, for contestants that have them."""
    lines = []
    for row in rows:
        # Both times of a ratio are of one run.
        times = {peer: (results["fusec"]["device_single_us"]["median"], results[peer]["device_single_us"]["median"])
                 for peer, results in row.contests.items() if peer in row.ratios and
                 all("device_single_us" in results[contestant] for contestant in ("fusec", peer))}
        if times:
            best = min(times, key=lambda peer: times[peer][1] / times[peer][0])
            ours, theirs = times[best]
            lines.append([row.cell, us(ours), f"{us(theirs)} {best}", f"{theirs / ours:.2f}"])
    if not lines:
        return ""
    return ("## With a graph per inference, in microseconds\n\n"
            + table(["cell", "fusec", "best peer", "best peer / fusec"], lines))


def call_table(rows):
    """The table of call latencies and compile times, for contestants that have them."""
    peers = ["fusec", *dict.fromkeys(peer for row in rows for peer in row.contests)]
    lines = []
    for row in rows:
        if not row.best:
            continue
        cells = []
        for peer in peers:
            entry = row.entry(peer) if peer in ("fusec", *row.contests) else {}
            call = us(entry["call_us"]["median"]) if "call_us" in entry else "-"
            plain = f" ({us(entry['call_plain_us']['median'])} uncaptured)" if "call_plain_us" in entry else ""
            compiled = f", {entry['compile_s']:.1f} s" if "compile_s" in entry else ""
            cells.append(f"{call}{plain}{compiled}")
        lines.append([row.cell, *cells])
    return table(["cell", *peers], lines)


def markdown(data):
    rows = rows_of(data)
    suite_rows = [row for row in rows if not row.cell.endswith("/unmerged")]
    parts = ["# fusec beside its peers\n", runs_text(data), summary_text(suite_rows),
             "Device time of an inference in microseconds, medians; relative L2 errors against double precision.\n",
             device_table(rows), single_table(rows), "## Call latency in microseconds, and seconds of compiling\n", call_table(rows)]
    failures = failures_of(data)
    if failures:
        parts += ["## Not in the table\n", table(["cell", "contestant", "why"], failures)]
    return "\n".join(parts)


def svg(data):
    rows = [row for row in rows_of(data) if row.best and not row.cell.endswith("/unmerged")]
    bars = [chart.Bar(*row.cell.split("/"), row.ratio,
                      f"{us(time_of(row.entry('fusec')))} us, {row.best} {us(time_of(row.entry(row.best)))} us")
            for row in rows]
    run = data["runs"][-1]
    gpu = (run.get("gpu") or {}).get("name", run["processor"])
    versions = ", ".join(dict.fromkeys(text for run in data["runs"] for text in version_texts(run)[1:]))
    return chart.draw("Best peer's time over fusec's", f"{gpu}, {run['date'][:10]}, {versions}", bars)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--markdown", type=Path, help="default: stdout")
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    data = json.loads(arguments.results.read_text())
    if arguments.svg:
        arguments.svg.write_text(svg(data))
    if arguments.markdown:
        arguments.markdown.write_text(markdown(data))
    else:
        sys.stdout.write(markdown(data))


if __name__ == "__main__":
    main()
