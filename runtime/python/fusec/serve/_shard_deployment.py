"""The shards of a model on Ray Serve: a deployment for each of them, and how replicas of the dense part reach them."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import logging
import math
import time
from typing import Any, Mapping, Sequence

import numpy as np
import ray
from ray import serve

from fusec.serve._actors import LOST, MOST_ONGOING, QUIET, RETRY_AFTER_S, Follower, as_value, unwrapped
from fusec.serve._changes import Change
from fusec.serve._errors import RequestError, Unavailable
from fusec.serve._shard_server import ShardServer
from fusec.serve._shards import PATIENCE_S, Rows, ShardedManifest, is_sharded

logger = logging.getLogger("fusec.serve")


class ShardFollower(Follower):
    """Retires older weights when all replicas of the model have newer ones, and accepts no others before that."""

    _settling: asyncio.Task[None] | None = None

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes and self._settling is not None:
            await self._settling
        await super().apply(changes)
        if any(change.brings_weights for change in changes):
            self._settling = asyncio.get_running_loop().create_task(self._settle(self._server.log.version))

    async def _settle(self, version: int) -> None:
        while await self.retried(self._ledger.wait_applied.remote, self._server.name, version) is not None:
            logger.warning("%s: version %d is not applied everywhere yet", self._server.name, version)
        self._server.retire(version)


@serve.deployment(name="Shard", max_ongoing_requests=MOST_ONGOING, logging_config=QUIET)
class ShardDeployment:
    """A replica of a shard."""

    async def __init__(self, name: str, path: str, number: int, ledger: Any, device: str | None) -> None:
        self._server = ShardServer(name, path, number, device)
        self._follower = ShardFollower(self._server, ledger)
        await self._server.start(await ledger.since.remote(name, 1))
        await self._follower.begin()

    async def look_up(self, inputs: Mapping[str, np.ndarray], weights: str) -> Rows:
        return await self._server.look_up(inputs, weights)

    async def try_change(self, change: Change) -> None | RequestError:
        return await as_value(self._server.try_change(change))

    async def wait_ready(self) -> None:
        """Returns when there is a replica."""

    async def check_health(self) -> None:
        self._follower.check()

    async def __del__(self) -> None:
        await self._follower.leave()


class RayShards:
    """Shards behind handles of their deployments. It is created in the event loop of the replica that uses them."""

    def __init__(self, name: str, path: str, handles: list[Any], ledger: Any):
        self._name, self._handles, self._ledger = name, handles, ledger
        self._folders = [part.folder for part in ShardedManifest(path).shards]
        self._loop = asyncio.get_running_loop()
        self.retries: collections.Counter[str] = collections.Counter({folder: 0 for folder in self._folders})

    def look_up(self, number: int, inputs: Mapping[str, np.ndarray], weights: str) -> concurrent.futures.Future[Rows]:
        return asyncio.run_coroutine_threadsafe(self._ask(number, PATIENCE_S, "look_up", inputs, weights), self._loop)

    async def wait_ready(self) -> None:
        """Returns when each shard has a replica, however long that takes to load."""
        await asyncio.gather(*(self._ask(number, math.inf, "wait_ready") for number in range(len(self._handles))))

    async def try_change(self, change: Change) -> None:
        await asyncio.gather(*(self._ask(number, math.inf, "try_change", change) for number in range(len(self._handles))))

    async def wait_applied(self, version: int) -> None:
        while True:
            try:
                if await self._ledger.wait_applied.remote(self._name, version, True) is None:
                    return
                logger.warning("%s: the shards do not all have version %d yet", self._name, version)
            except LOST:
                await asyncio.sleep(RETRY_AFTER_S)

    async def _ask(self, number: int, patience_s: float, method: str, *arguments: Any) -> Any:
        """The answer of a replica of a shard; if the replica dies, another one is called. Repeating is safe because calls change nothing
        beyond their replica."""
        end, folder = time.monotonic() + patience_s, self._folders[number]
        while (left := end - time.monotonic()) > 0:
            try:
                asking = getattr(self._handles[number], method).remote(*arguments)
                return unwrapped(await asyncio.wait_for(asking, None if left == math.inf else left))
            except LOST as error:
                logger.warning("%s of %s: a replica of %s was lost: %s", method, self._name, folder, type(error).__name__)
                self.retries[folder] += 1
                await asyncio.sleep(RETRY_AFTER_S)
            except asyncio.TimeoutError:
                break
            except RequestError as error:
                raise RequestError(f"{folder}: {error}", error.status) from None
        raise Unavailable(f"{folder} has not answered in {patience_s:g} s")


def bind_shards(
    name: str, path: str, ledger: Any, device: str | None, options: Mapping[str, Any], dense_options: Mapping[str, Any]
) -> list[Any]:
    """A deployment for each shard of an artifact, in order; none if the artifact is not sharded.

    options: Ray's options for each of them. By default a replica requests one CPU and the memory of its shard in the plan, and there are
    two replicas of each shard if the cluster has enough free resources in addition to those of the dense part, else one.
    """
    if not is_sharded(path):
        return []
    asked = [
        {"num_cpus": 1.0, "memory": int(shard["table_bytes"]), **options.get("ray_actor_options", {})}
        for shard in ShardedManifest(path).plan["shards"]
    ]
    replicas = 2 if _has_free(2 * asked + _asked_by(dense_options)) else 1
    return [
        ShardDeployment.options(
            **{"num_replicas": replicas, **options, "name": f"{name} shard {number}", "ray_actor_options": resources}
        ).bind(name, path, number, ledger, device)
        for number, resources in enumerate(asked)
    ]


def _asked_by(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    replicas = options.get("num_replicas")
    return [{"num_cpus": 1.0, **options.get("ray_actor_options", {})}] * (replicas if isinstance(replicas, int) else 1)


def _has_free(asked: list[dict[str, Any]]) -> bool:
    """Whether the cluster as a whole has these resources free."""
    needed: collections.Counter[str] = collections.Counter()
    for resources in asked:
        needed.update(
            {"CPU": resources.get("num_cpus") or 0, "GPU": resources.get("num_gpus") or 0, "memory": resources.get("memory") or 0}
        )
        needed.update(resources.get("resources", {}))
    free = ray.available_resources() if ray.is_initialized() else {}
    return all(count <= free.get(resource, 0) for resource, count in needed.items())
