"""The ledger keeps the replicas of all models consistent: it has the log of each model's changes, and the version that each replica has
reached. This module does not use Ray.

A change is first tried on one replica, which reports errors. If it succeeds there, it is added to the ledger; the replicas follow, each at
its own pace, and one that starts later begins with the log. The ledger has no file: if its process is lost, a new one takes over the log of
a replica.
"""

from __future__ import annotations

import asyncio
import collections
import time
from dataclasses import dataclass, field
from typing import Any

from fusec.serve._changes import Change, ChangeLog
from fusec.serve._errors import RequestError
from fusec.serve._statistics import Statistics, total

POLL_S = 2.0  # how long a replica waits for news, which is also the greatest age of its values in /metrics
_LOST_AFTER_S = 3 * POLL_S  # a replica without a report for this time is not waited for
_APPLIED_WITHIN_S = 600.0


@dataclass
class Report:
    """The report of a replica about itself."""

    version: int
    ready: bool
    samples: list[tuple[str, dict[str, str], float]] = field(default_factory=list)
    part: str = ""  # the part of a sharded model, such as "shard_0"; "" for the dense part and for a model without shards
    statistics: Statistics | None = None
    heard: float = 0.0


class Ledger:
    """Everything runs in one event loop."""

    def __init__(self) -> None:
        self._logs: dict[str, ChangeLog] = {}
        self._replicas: dict[str, dict[str, Report]] = {}
        self._retries: collections.Counter[str] = collections.Counter()
        self._statistics: dict[str, dict[str, Statistics]] = {}  # by model and replica; "" has the sum of the replicas that have stopped
        self._news = asyncio.Condition()

    def _log(self, name: str) -> ChangeLog:
        return self._logs.setdefault(name, ChangeLog())

    async def add(self, name: str, change: Change) -> int:
        """Adds a change, and returns its version."""
        version = self._log(name).add(change).version
        await self._tell()
        return version

    async def hear(self, name: str, replica: str, report: Report) -> int:
        """Records the report of a replica, and returns the version of the log. A replica below it then calls `since` for the changes, and
        one above it calls `restore`."""
        report.heard = time.monotonic()
        self._replicas.setdefault(name, {})[replica] = report
        if report.statistics is not None:
            self._statistics.setdefault(name, {})[replica] = report.statistics
        await self._tell()
        return self._log(name).version

    async def follow(self, name: str, replica: str, report: Report) -> int:
        """The same, but waits up to POLL_S seconds until the version differs from the replica's."""
        await self.hear(name, replica, report)
        try:
            await asyncio.wait_for(self._until(lambda: self._log(name).version != report.version), POLL_S)
        except asyncio.TimeoutError:
            pass
        return self._log(name).version

    def since(self, name: str, version: int) -> list[Change]:
        """The changes after a version. The call does not register the model: a replica calls it before it has loaded the model, which may
        fail."""
        return self._logs[name].since(version) if name in self._logs else []

    async def restore(self, name: str, log: ChangeLog) -> None:
        """Takes over the log of a replica if it has more changes."""
        if log.version > self._log(name).version:
            self._logs[name] = log
            await self._tell()

    async def leave(self, name: str, replica: str) -> None:
        """Removes a replica that stops."""
        self._replicas.get(name, {}).pop(replica, None)
        if replica in (counted := self._statistics.get(name, {})):
            counted[""] = total([counted.get("", Statistics()), counted.pop(replica)])
        await self._tell()

    async def wait_applied(self, name: str, version: int, only_shards: bool = False) -> None:
        """Returns when all replicas, or all replicas of shards, have reached a version. A replica that is lost meanwhile is not waited
        for; its successor starts from the log."""

        def is_applied() -> bool:
            return all(report.version >= version for report in self._alive(name).values() if report.part or not only_shards)

        end = time.monotonic() + _APPLIED_WITHIN_S
        while not is_applied():
            if time.monotonic() > end:
                raise RequestError(f"version {version} is kept, but not all replicas had it after {_APPLIED_WITHIN_S:g} s", 504)
            try:
                await asyncio.wait_for(self._until(is_applied), POLL_S)  # or until one is lost
            except asyncio.TimeoutError:
                pass

    def note_retry(self, name: str) -> None:
        """Counts a request that was sent to another replica because the first was lost."""
        self._retries[name] += 1

    def overview(self) -> dict[str, dict[str, Any]]:
        """{model: {"version", "ready", "unloaded", "replicas"}}"""
        found = {}
        for name in self._logs:
            reports = self._alive(name).values()
            ready = {part: any(report.ready for report in reports if report.part == part) for part in {r.part for r in reports} | {""}}
            log = self._log(name)
            found[name] = {"version": log.version, "ready": all(ready.values()), "unloaded": log.is_unloaded, "replicas": len(reports)}
        return found

    def samples(self) -> list[tuple[dict[str, str], list[tuple[str, dict[str, str], float]]]]:
        """The contents of /metrics for each replica and each model."""
        of_replicas = [
            ({"model": name, **({"shard": report.part} if report.part else {}), "replica": replica}, report.samples)
            for name in self._logs
            for replica, report in self._alive(name).items()
        ]
        return of_replicas + [({"model": name}, [("retries_total", {}, float(self._retries[name]))]) for name in self._logs]

    def statistics(self) -> dict[str, Statistics]:
        """The statistics of each model, over all its replicas, including those that have stopped."""
        return {name: total(of_replicas.values()) for name, of_replicas in self._statistics.items()}

    def _alive(self, name: str) -> dict[str, Report]:
        oldest = time.monotonic() - _LOST_AFTER_S
        alive = {replica: report for replica, report in self._replicas.get(name, {}).items() if report.heard > oldest}
        self._replicas[name] = alive
        return alive

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _until(self, holds: Any) -> None:
        async with self._news:
            await self._news.wait_for(holds)
