"""The common base of all processes of a model that Ray starts: a log of changes, which they apply one at a time. It does not use Ray."""

from __future__ import annotations

import asyncio
import os
from typing import Sequence

import fusec
from fusec.serve._changes import Change, ChangeLog
from fusec.serve._errors import RequestError
from fusec.serve._statistics import Statistics


class Replica:
    """Follows the log of the model `name`. Subclasses implement the changes in _apply."""

    part = ""  # the part of a sharded model: "shard_0" and so on; "" for the dense part and for a model without shards

    def __init__(self, name: str):
        self.name, self.log = name, ChangeLog()
        self._changing = asyncio.Lock()
        self._tried: tuple[str, str, str] | None = None  # the change that was applied last, if it was tried and has no version yet

    async def start(self, changes: Sequence[Change] = ()) -> None:
        """Loads the model with the most recent weights of its log. Raises the errors of fusec.load."""
        last = next((change for change in reversed(changes) if change.brings_weights), None)
        if last is None or last.kind != "unload":
            await self._apply(Change("load", path=last.path if last else ""))
        self._tried = last.what if last else None

    @property
    def is_ready(self) -> bool:
        raise NotImplementedError

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """The current values for Prometheus."""
        raise NotImplementedError

    def statistics(self) -> Statistics | None:
        """The current values of Triton's statistics extension; None for a replica that answers no requests."""
        return None

    async def _apply(self, change: Change) -> None:
        raise NotImplementedError

    async def _try(self, change: Change) -> bool:
        """Tries a change; returns whether it is applied thereby and need not be applied again with its version."""
        await self._apply(change)
        return change.kind != "rows"

    async def try_change(self, change: Change) -> None:
        """Tries a change that has no version yet. Raises RequestError if it cannot be applied; the model is not changed then."""
        async with self._changing:
            try:
                self._tried = None
                self._tried = change.what if await self._try(change) else None
            except fusec.NoDevice as error:
                raise RequestError(str(error), 503) from None
            except fusec.Error as error:
                raise RequestError(str(error)) from None

    async def follow(self, changes: Sequence[Change]) -> None:
        """Applies changes with versions: those of the common log after this replica's version."""
        async with self._changing:
            for change in changes:
                if change.what != self._tried:
                    await self._apply(change)
                self._tried = None
                self.log.add(change)

    async def rebase(self, changes: Sequence[Change]) -> None:
        """Applies changes that come before those of the log, and then the log again."""
        async with self._changing:
            self._tried = None
            for change in (*changes, *self.log.changes):
                await self._apply(change)


def resident_bytes() -> int:
    """The resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
