"""Common code of the deployments of fusec.serve: options, the errors of lost replicas, and how a replica follows the ledger."""

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
MOST_ONGOING = 100_000  # requests in a deployment; in effect no limit, because the batcher's queue has one
RETRY_AFTER_S = 0.1
QUIET = {"enable_access_log": False}  # writing a log line would take longer than answering the request
# The errors that a call raises if its replica, or the node with its answer, has died.
LOST = (
    ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.NodeDiedError, ray.exceptions.WorkerCrashedError,
    DeploymentUnavailableError, ReplicaUnavailableError,
)  # fmt: skip


async def as_value(awaited: Any) -> Any:
    """Awaits and returns the value, or returns the RequestError that is raised: a returned error is sent to the caller without a
    traceback."""
    try:
        return await awaited
    except RequestError as error:
        return error


def unwrapped(value: Any) -> Any:
    if isinstance(value, RequestError):
        raise value
    return value


class Follower:
    """Keeps the replica of this process at the version of the ledger. It is created in the replica's event loop, after its start."""

    def __init__(self, server: Replica, ledger: Any):
        self._server, self._ledger = server, ledger
        self._replica = serve.get_replica_context().replica_id.unique_id
        self._following: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Applies the log and follows it from then on: later changes are complete only when this replica has applied them."""
        await self.apply(await self._news("hear"))
        self._following = asyncio.get_running_loop().create_task(self._follow())

    def check(self) -> None:
        """Raises an error if the replica could not follow."""
        if self._following is not None and self._following.done():
            self._following.result()

    async def leave(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await self._report("hear")  # reports its last counts
        await self._ledger.leave.remote(self._server.name, self._replica)

    async def apply(self, changes: Sequence[Change]) -> None:
        await self._server.follow(changes)

    async def _report(self, method: str) -> int:
        """Reports this replica's version to the ledger, and returns the version of the log."""
        server = self._server
        report = _ledger.Report(server.log.version, server.is_ready, server.samples(), server.part, server.statistics())
        return await getattr(self._ledger, method).remote(server.name, self._replica, report)

    async def _news(self, method: str) -> list[Change]:
        """Reports, and returns the changes that this replica has to apply next."""
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
                await self.retried(self._report, "hear")  # says that the replica is alive during a long change
            await applying

    async def retried(self, ask: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Calls the ledger, again and again until it answers, and returns its answer."""
        while True:
            try:
                return await ask(*arguments)
            except Exception as error:
                logger.warning("%s: the ledger does not answer: %s", self._server.name, error)
                await asyncio.sleep(RETRY_AFTER_S)
