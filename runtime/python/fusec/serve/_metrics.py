"""The counters of a replica, and their text for Prometheus (exposition format 0.0.4)."""

from __future__ import annotations

import bisect
from typing import Any, Iterable, Mapping, Sequence

from fusec.serve._statistics import Statistics

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)

# name, type, help
_TABLE = (
    ("requests_total", "counter", "Requests by the status of HTTP that they got."),
    ("queued_requests", "gauge", "Requests that wait for a batch."),
    ("request_seconds", "histogram", "From a request's arrival in the replica to its answer."),
    ("wait_seconds", "histogram", "From a request's arrival to the start of its batch."),
    ("run_seconds", "histogram", "Time of a batch in the model, on a GPU with its copies."),
    ("batch_rows", "histogram", "Rows of a batch."),
    ("batch_requests", "histogram", "Requests of a batch."),
    ("refused_inputs_total", "counter", "Requests that the model refused, as for out-of-range ids."),
    ("retries_total", "counter", "Requests that were sent to another replica after one had died."),
    ("shards_seconds", "histogram", "From a run's questions to its shards to the answers of all."),
    ("shard_retries_total", "counter", "Questions that were sent to another replica of a shard after one had died."),
    ("shard_reruns_total", "counter", "Runs that asked their shards again because one had other weights."),
    ("look_up_seconds", "histogram", "From a question's arrival in a shard to its answer."),
    ("version", "gauge", "The version of the model's weights, rows and adapters."),
    ("table_cache_hits_total", "counter", "Look-ups that found their row in a table's cache, of those that were noted."),
    ("table_cache_misses_total", "counter", "Look-ups that did not."),
    ("resident_bytes", "gauge", "Memory of the replica's process."),
)


class Histogram:
    """A histogram: the counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]):
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def note(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    def note_all(self, values: list[float]) -> None:
        """Adds many values at once, which are sorted for that."""
        values.sort()
        done = 0
        for i, bound in enumerate(self.bounds):
            if done == len(values):
                break
            end = bisect.bisect_right(values, bound, done)
            self.counts[i] += end - done
            done = end
        self.counts[-1] += len(values) - done
        self.sum += sum(values)

    def add(self, counts: Sequence[int], total: float) -> None:
        """Adds values that were counted by the same bounds."""
        self.counts = [mine + more for mine, more in zip(self.counts, counts)]
        self.sum += total

    def samples(self, name: str) -> Iterable[tuple[str, dict[str, str], float]]:
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts):
            total += count
            yield f"{name}_bucket", {"le": "+Inf" if bound == float("inf") else f"{bound:g}"}, total
        yield f"{name}_sum", {}, self.sum
        yield f"{name}_count", {}, total


class Metrics:
    """The counters of one replica of a model. Only its event loop writes to them."""

    def __init__(self) -> None:
        self.queued = 0
        self.version = 0
        self.refused_inputs = 0
        self.requests: dict[int, int] = {}
        self.request_seconds, self.wait_seconds, self.run_seconds = (Histogram(SECONDS) for _ in range(3))
        self.batch_rows, self.batch_requests = Histogram(_SIZES), Histogram(_SIZES)
        self.caches: dict[str, tuple[int, int]] = {}  # hits and misses of each table that has one
        self.resident_bytes = 0
        self.statistics = Statistics()
        self.answered_seconds: list[float] = []  # latencies of requests that got 200; `settle` counts them

    def note_request(self, status: int, seconds: float) -> None:
        self.requests[status] = self.requests.get(status, 0) + 1
        self.request_seconds.note(seconds)
        self.statistics.note_request(status == 200, round(1e9 * seconds))

    def note_requests(self, status: int, count: int, counts: Sequence[int], seconds: float) -> None:
        """Adds requests with the same status, whose latencies were counted by `SECONDS`."""
        if count == 0:
            return
        self.requests[status] = self.requests.get(status, 0) + count
        self.request_seconds.add(counts, seconds)
        (self.statistics.success if status == 200 else self.statistics.fail).note(round(1e9 * seconds), count)

    def settle(self) -> None:
        """Counts the requests of `answered_seconds` at once, after their batch was answered."""
        if self.answered_seconds:
            count = len(self.answered_seconds)
            self.requests[200] = self.requests.get(200, 0) + count
            self.request_seconds.note_all(self.answered_seconds)
            self.statistics.success.note(round(1e9 * sum(self.answered_seconds)), count)
            self.answered_seconds = []

    def note_batch(self, rows: int, requests: int, seconds: float) -> None:
        self.batch_rows.note(rows)
        self.batch_requests.note(requests)
        self.run_seconds.note(seconds)

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """(name, labels, value) of every counter, in a form that can be sent to another process."""
        found: list[tuple[str, dict[str, str], float]] = [
            ("queued_requests", {}, self.queued),
            ("refused_inputs_total", {}, self.refused_inputs),
            ("version", {}, self.version),
            ("resident_bytes", {}, self.resident_bytes),
        ]
        found += [("requests_total", {"status": str(status)}, count) for status, count in sorted(self.requests.items())]
        for table, (hits, misses) in sorted(self.caches.items()):
            found += [("table_cache_hits_total", {"table": table}, hits), ("table_cache_misses_total", {"table": table}, misses)]
        for name in ("request_seconds", "wait_seconds", "run_seconds", "batch_rows", "batch_requests"):
            found += getattr(self, name).samples(name)
        return found


def render(groups: Iterable[tuple[Mapping[str, str], Iterable[tuple[str, Mapping[str, str], float]]]]) -> str:
    """The text of /metrics: (labels, samples) of each replica."""
    lines: dict[str, list[str]] = {name: [] for name, _, _ in _TABLE}
    for common, samples in groups:
        for name, labels, value in samples:
            family = next(family for family, kind, _ in _TABLE if name == family or kind == "histogram" and name.startswith(f"{family}_"))
            text = ",".join(f'{key}="{_escaped(word)}"' for key, word in {**common, **labels}.items())
            lines[family].append(f"fusec_{name}{{{text}}} {value:.10g}")
    texts = []
    for name, kind, about in _TABLE:
        if lines[name]:
            texts += [f"# HELP fusec_{name} {about}", f"# TYPE fusec_{name} {kind}", *lines[name]]
    return "\n".join(texts) + "\n"


def _escaped(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
