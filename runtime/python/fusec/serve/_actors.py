"""What the deployments of fusec.serve have in common: options, the errors of lost replicas, and how a replica follows the ledger."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Sequence

import ray
from ray import serve
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError

from fusec.serve import _ledger
from fusec.serve._changes import Change
from fusec.serve._errors import RequestError
from fusec.serve._replica import Replica

logger = logging.getLogger("fusec.serve")
MOST_ONGOING = 100_000  # requests in a deployment: the batcher's queue says when it is enough
RETRY_AFTER_S = 0.1
QUIET = {"enable_access_log": False}  # a line for each request would cost more than the request
# What a call raises whose replica has died, or the node that had its answer.
LOST = (
    ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError, ray.exceptions.WorkerCrashedError,
    DeploymentUnavailableError, ReplicaUnavailableError,
)  # fmt: skip


async def as_value(awaited: Any) -> Any:
    """What is awaited, or the RequestError that it raises: as a value it needs no traceback on its way to the caller."""
    try:
        return await awaited
    except RequestError as error:
        return error


def unwrapped(value: Any) -> Any:
    if isinstance(value, RequestError):
        raise value
    return value


class Follower:
    """Keeps this process's replica at the version of the ledger. Made in the replica's event loop, behind its start."""

    def __init__(self, server: Replica, ledger: Any):
        self._server, self._ledger = server, ledger
        self._replica = serve.get_replica_context().replica_id.unique_id
        self._following: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Takes up what the log has, and follows it from then on: no change that comes later is complete without this replica."""
        await self.apply(await self._news("hear"))
        self._following = asyncio.get_running_loop().create_task(self._follow())

    def check(self) -> None:
        """Raises where the replica could not follow."""
        if self._following is not None and self._following.done():
            self._following.result()

    async def leave(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await self._report("hear")  # what it has counted since it last did
        await self._ledger.leave.remote(self._server.name, self._replica)

    async def apply(self, changes: Sequence[Change]) -> None:
        await self._server.follow(changes)

    async def _report(self, method: str) -> int:
        """Tells the ledger how far this replica is, and gives the version of the log."""
        server = self._server
        report = _ledger.Report(server.log.version, server.is_ready, server.samples(), server.part, server.statistics())
        return await getattr(self._ledger, method).remote(server.name, self._replica, report)

    async def _news(self, method: str) -> list[Change]:
        """The changes that come next for this replica, after a report."""
        name, log = self._server.name, self._server.log
        version = await self._report(method)
        if version < log.version:
            await self._ledger.restore.remote(name, log)
        return await self._ledger.since.remote(name, log.version) if version > log.version else []

    async def _follow(self) -> None:
        while True:
            changes = await self.retried(self._news, "follow")
            applying = asyncio.create_task(self.apply(changes))
            while not (await asyncio.wait({applying}, timeout=_ledger.POLL_S))[0]:
                await self.retried(self._report, "hear")  # it takes long, but the replica is there
            await applying

    async def retried(self, ask: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """What the ledger answers, when it does."""
        while True:
            try:
                return await ask(*arguments)
            except Exception as error:
                logger.warning("%s: the ledger does not answer: %s", self._server.name, error)
                await asyncio.sleep(RETRY_AFTER_S)
