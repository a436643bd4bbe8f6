"""The statistics of a model in Triton's statistics extension: the number of answered requests, and how their time was spent.

Triton's extension_statistics.md defines the terms. An inference is a row; a model without rows has one inference per request. A request is
charged with the durations of the whole run that it shares with others, a batch size with those of its runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Iterable


@dataclass
class Duration:
    count: int = 0
    ns: int = 0

    def note(self, ns: int, count: int = 1) -> None:
        """Adds `count` events that took `ns` nanoseconds together."""
        self.count += count
        self.ns += ns

    def add(self, other: Duration) -> None:
        self.count += other.count
        self.ns += other.ns

    def described(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(frozen=True)
class Run:
    """A run of the model: its rows and requests, and the times for joining their inputs, for running, and for splitting the results."""

    rows: int
    requests: int
    input_ns: int
    infer_ns: int
    output_ns: int


@dataclass
class Compute:
    """The times of requests, or of runs."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def note(self, run: Run, count: int = 1) -> None:
        self.compute_input.note(count * run.input_ns, count)
        self.compute_infer.note(count * run.infer_ns, count)
        self.compute_output.note(count * run.output_ns, count)

    def add(self, other: Compute) -> None:
        self.compute_input.add(other.compute_input)
        self.compute_infer.add(other.compute_infer)
        self.compute_output.add(other.compute_output)

    def described(self) -> dict[str, Any]:
        return {name: duration.described() for name, duration in vars(self).items()}


@dataclass
class Statistics:
    """The statistics of a replica, or of several. Only one event loop writes to them."""

    last_inference_ms: int = 0  # since the epoch
    rows: int = 0  # rows of answered requests
    runs: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute: Compute = field(default_factory=Compute)
    batches: dict[int, Compute] = field(default_factory=dict)  # by number of rows

    def note_run(self, run: Run) -> None:
        self.last_inference_ms = time.time_ns() // 1_000_000
        self.runs += 1
        self.batches.setdefault(run.rows, Compute()).note(run)

    def note_answers(self, requests: int, rows: int, queue_ns: int, run: Run) -> None:
        """Adds requests that were answered by a run, with the sums of their rows and waiting times."""
        self.rows += rows
        self.queue.note(queue_ns, requests)
        self.compute.note(run, requests)

    def note_request(self, is_answered: bool, ns: int) -> None:
        (self.success if is_answered else self.fail).note(ns)

    def add(self, other: Statistics) -> None:
        self.last_inference_ms = max(self.last_inference_ms, other.last_inference_ms)
        self.rows += other.rows
        self.runs += other.runs
        for mine, its in ((self.success, other.success), (self.fail, other.fail), (self.queue, other.queue)):
            mine.add(its)
        self.compute.add(other.compute)
        for rows, compute in other.batches.items():
            self.batches.setdefault(rows, Compute()).add(compute)

    def described(self, model: str, version: int) -> dict[str, Any]:
        """An entry of model_stats."""
        requests = {"success": self.success, "fail": self.fail, "queue": self.queue}
        nothing = Duration().described()
        return {
            "name": model,
            "version": str(version),
            "last_inference": self.last_inference_ms,
            "inference_count": self.rows,
            "execution_count": self.runs,
            "inference_stats": {
                **{name: duration.described() for name, duration in requests.items()},
                **self.compute.described(),
                "cache_hit": nothing,
                "cache_miss": nothing,
            },
            "batch_stats": [{"batch_size": rows, **compute.described()} for rows, compute in sorted(self.batches.items())],
        }


def total(parts: Iterable[Statistics]) -> Statistics:
    found = Statistics()
    for part in parts:
        found.add(part)
    return found
