"""A sharded model in the processes of its replicas: ShardServer serves a shard, and ShardedModelServer the dense part, which answers
requests. New weights reach all shards before the dense part uses them. This module does not use Ray."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import Any, Mapping, Protocol

import numpy as np
from fusec.serve import _metrics
from fusec.serve._batcher import BatchOptions
from fusec.serve._changes import Change
from fusec.serve._replica import Replica, resident_bytes
from fusec.serve._server import ModelServer
from fusec.serve._shards import PartHolder, Rows, ShardedManifest, ShardedModel, Shards, look_up


class ShardServer(Replica):
    """Serves a shard of the sharded artifact at `path` to the replicas of the model's dense part.

    lanes: look-ups that run at the same time.
    """

    def __init__(self, name: str, path: str, number: int, device: Any = None, lanes: int = 4):
        super().__init__(name)
        self.part = ShardedManifest(path).parts[number].folder
        self._path, self._shard = path, PartHolder(path, number, device)
        self._threads = concurrent.futures.ThreadPoolExecutor(lanes, "fusec-look-up")
        self._seconds = _metrics.Histogram(_metrics.SECONDS)

    @property
    def is_ready(self) -> bool:
        return self._shard.current is not None

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        values = [("version", {}, self.log.version), ("resident_bytes", {}, resident_bytes())]
        return [*values, *self._seconds.samples("look_up_seconds")]

    async def look_up(self, inputs: Mapping[str, np.ndarray], weights: str) -> Rows:
        """The rows for a run that requests this set of weights."""
        start = time.perf_counter()
        rows = await asyncio.get_running_loop().run_in_executor(self._threads, look_up, self._shard, inputs, weights)
        self._seconds.note(time.perf_counter() - start)
        return rows

    def retire(self, version: int) -> None:
        """Retires older weights if this replica is at `version`, which all replicas have reached."""
        if self.log.version == version:
            self._shard.retire()

    async def _try(self, change: Change) -> bool:
        """Tries a change. New weights are only checked, because runs still need the old ones."""
        if change.kind in ("weights", "load"):
            await asyncio.to_thread(self._shard.check, change.path or self._path)
        elif change.kind == "rows":
            await self._apply(change)
        return False

    async def _apply(self, change: Change) -> None:
        if change.kind == "unload":
            self._shard.unload()
        elif change.kind in ("weights", "load"):
            await asyncio.to_thread(self._shard.use, change.path or self._path)
        elif change.kind == "rows":
            await asyncio.to_thread(self._shard.update_rows, change.subject, change.ids, change.rows)


class ServedShards(Shards, Protocol):
    """Shards that ShardServers serve, each possibly in several replicas."""

    async def try_change(self, change: Change) -> None:
        """Tries a change on a replica of each shard. Raises RequestError."""

    async def wait_applied(self, version: int) -> None:
        """Returns when all replicas of all shards have reached a version of the model's log."""

    @property
    def retries(self) -> Mapping[str, int]:
        """The number of requests that were repeated because a replica had died, by shard."""
        ...


class ShardedModelServer(ModelServer):
    """Serves the sharded artifact at `path`: a replica of its dense part."""

    def __init__(self, name: str, path: str, shards: ServedShards, device: Any = None, options: BatchOptions = BatchOptions()):
        super().__init__(name, path, device, options)
        self._shards, self._original = shards, PartHolder(path, len(ShardedManifest(path).shards), device)

    def _open(self, path: str) -> Any:
        return ShardedModel(path, self._device, self._shards)

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        found = super().samples()
        found += [("shard_retries_total", {"shard": shard}, count) for shard, count in self._shards.retries.items()]
        if self._loaded is not None:
            model = self._loaded.model
            found += [("shard_reruns_total", {}, model.reruns), *model.shards_seconds.samples("shards_seconds")]
        return found

    async def _try(self, change: Change) -> bool:
        """Tries a change. New weights are only read, because not all shards have them."""
        if change.kind == "rows":
            self._served().model.check_rows(change.subject, change.ids)
        await self._shards.try_change(change)
        if change.kind not in ("weights", "load"):
            return await super()._try(change)
        await asyncio.to_thread(self._original.check, change.path or self._path)
        return False

    async def _apply(self, change: Change) -> None:
        if change.kind in ("weights", "load") and change.version:
            await self._shards.wait_applied(change.version)
        await super()._apply(change)
