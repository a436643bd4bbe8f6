"""Requests of one model, gathered into batches: an event loop gathers, and each lane, a thread with a context of the model, runs one batch
while the next one gathers."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import logging
import math
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import numpy as np

from fusec import BadInput
from fusec.serve._errors import DeadlineExceeded, QueueFull, RequestError, Unavailable
from fusec.serve._metrics import Metrics
from fusec.serve._signature import Request, Signature
from fusec.serve._statistics import Run

logger = logging.getLogger("fusec.serve")


@dataclass(frozen=True)
class BatchOptions:
    """How requests are gathered."""

    max_rows: int = 1024  # of a batch; a larger request is a batch of its own
    max_delay_ms: float = 1.0  # that the first request of a batch waits for others
    max_queue: int = 1024  # requests that wait; one more gets 429
    lanes: int = 2  # batches that run at a time
    timeout_ms: float = 0.0  # of a request that gives none itself; 0 for no limit


class Lane:
    """A context with memory for its inputs, used by one batch at a time."""

    def __init__(self, model: Any, signature: Signature):
        self._model, self._signature = model, signature
        self._context = model.context()
        self._memory: list[np.ndarray] = [np.empty(0, np.uint8)] * len(signature.inputs)
        self.runs: list[Run] = []  # of the model, that the last batch needed, in the order of its requests

    def run(self, requests: Sequence[Request]) -> list[list[np.ndarray] | Exception]:
        """The results of each request, or what it failed with: a request that the model refuses does not fail the others."""
        self.runs = []
        return self._run(requests)

    def _run(self, requests: Sequence[Request]) -> list[list[np.ndarray] | Exception]:
        start = time.perf_counter_ns()
        try:
            inputs = self._inputs(requests)
            joined = time.perf_counter_ns()
            results = self._context(*inputs)
            computed = time.perf_counter_ns()
            results = results if isinstance(results, tuple) else (results,)
            answers = [list(results)] if len(requests) == 1 else list(self._signature.split(results, requests))
            split = time.perf_counter_ns()
            rows = sum(request.rows for request in requests)
            self.runs.append(Run(rows, len(requests), joined - start, computed - joined, split - computed))
            return answers
        except RequestError as error:  # of shards that do not answer
            return [error] * len(requests)
        except BadInput as error:
            if len(requests) == 1:
                return [RequestError(str(error))]
            middle = len(requests) // 2
            return self._run(requests[:middle]) + self._run(requests[middle:])

    def _inputs(self, requests: Sequence[Request]) -> list[np.ndarray]:
        first = requests[0]
        if len(requests) == 1:
            return first.arrays
        sizes = self._signature.joined_sizes(requests)
        inputs = []
        for i, spec in enumerate(self._signature.inputs):
            if not spec.shape or spec.shape[0] not in self._signature.joined:
                inputs.append(first.arrays[i])  # all have the same
                continue
            out = self._array(i, (sizes[str(spec.shape[0])], *first.arrays[i].shape[1:]), spec.dtype)
            self._signature.join(requests, i, out)
            inputs.append(out)
        return inputs

    def _array(self, i: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array in the memory of input `i`, which is page-locked where the model is on a GPU, and grows."""
        count = math.prod(shape) * dtype.itemsize
        if self._memory[i].size < count:
            self._memory[i] = np.asarray(self._model.allocate_host((max(count, 2 * self._memory[i].size),), "u8"))
        return self._memory[i][:count].view(dtype).reshape(shape)


@dataclass(eq=False)
class _Waiting:
    request: Request
    answer: asyncio.Future
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Answers requests in batches. Everything but the lanes runs in one event loop.

    `version` is asked when a batch begins, and its answer given with the results.
    """

    def __init__(self, model: Any, signature: Signature, options: BatchOptions, metrics: Metrics, version: Callable[[], int] = lambda: 0):
        self._signature, self._options, self._metrics, self._version = signature, options, metrics, version
        self._idle = [Lane(model, signature) for _ in range(options.lanes)]
        self._threads = concurrent.futures.ThreadPoolExecutor(options.lanes, "fusec-lane")
        self._queue: collections.deque[_Waiting] = collections.deque()
        self._running: set[asyncio.Future] = set()
        self._wake: asyncio.Event | None = None
        self._gathering: asyncio.Task | None = None
        self._is_closed = False
        self.has_failed = False  # since somebody looked: a batch, of which no request was to blame

    async def submit(self, request: Request, timeout_ms: float | None = None) -> tuple[list[np.ndarray], int]:
        """The results of a request, in the model's order, and the version of the model that computed them."""
        if self._is_closed:
            raise Unavailable("the model is being unloaded")
        if len(self._queue) >= self._options.max_queue:
            self._queue = collections.deque(waiting for waiting in self._queue if not waiting.answer.done())
        if len(self._queue) >= self._options.max_queue:
            raise QueueFull(f"{len(self._queue)} requests wait already")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop.create_future())
        self._queue.append(waiting)
        self._metrics.queued = len(self._queue)
        if self._gathering is None:
            self._wake = asyncio.Event()
            self._gathering = loop.create_task(self._gather())
        self._wake.set()
        limit = timeout_ms or self._options.timeout_ms
        if not limit:
            return await waiting.answer
        try:
            return await asyncio.wait_for(waiting.answer, limit / 1000)
        except asyncio.TimeoutError:
            raise DeadlineExceeded(f"no answer within {limit:g} ms") from None

    async def close(self) -> None:
        """Refuses new requests, and returns when those that were accepted have their answers."""
        self._is_closed = True
        while self._queue or self._running:
            await asyncio.sleep(0.005)
        if self._gathering is not None:
            self._gathering.cancel()
        self._threads.shutdown(wait=False)

    async def _gather(self) -> None:
        assert self._wake is not None
        while True:
            if not self._drop_cancelled() or not self._idle:
                self._wake.clear()
                await self._wake.wait()
                continue
            wait = self._queue[0].since + self._options.max_delay_ms / 1000 - time.perf_counter()
            if wait > 0 and self._signature.can_join and not self._is_closed and not self._is_full():
                self._wake.clear()
                timer = asyncio.get_running_loop().call_later(wait, self._wake.set)
                await self._wake.wait()
                timer.cancel()
                continue
            self._start(self._take())

    def _drop_cancelled(self) -> bool:
        """Whether a request is left that somebody waits for."""
        while self._queue and self._queue[0].answer.done():
            self._queue.popleft()
        self._metrics.queued = len(self._queue)
        return bool(self._queue)

    def _is_full(self) -> bool:
        rows = 0
        for waiting in self._queue:
            rows += waiting.request.rows
            if rows >= self._options.max_rows:
                return True
        return False

    def _take(self) -> list[_Waiting]:
        """The first request, and those behind it that may share its run and fit there."""
        first = self._queue.popleft()
        batch, left = [first], collections.deque()
        sizes, rows = dict(first.request.sizes), first.request.rows
        while self._queue:
            waiting = self._queue.popleft()
            if waiting.answer.done():
                continue
            request = waiting.request
            grown = {name: sizes[name] + request.sizes[name] for name in self._signature.joined}
            fits = rows + request.rows <= self._options.max_rows and all(
                size <= self._signature.dims[name][1] for name, size in grown.items()
            )
            if request.key == first.request.key and fits:
                batch.append(waiting)
                sizes.update(grown)
                rows += request.rows
            else:
                left.append(waiting)
        self._queue = left
        self._metrics.queued = len(left)
        return batch

    def _start(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        lane, version, start = self._idle.pop(), self._version(), time.perf_counter()
        running = loop.run_in_executor(self._threads, lane.run, [waiting.request for waiting in batch])
        self._running.add(running)

        def finish(done: asyncio.Future) -> None:
            self._idle.append(lane)
            self._running.discard(done)
            self._wake.set()
            self._answer(batch, done, version, start, lane.runs)

        running.add_done_callback(finish)

    def _answer(self, batch: list[_Waiting], done: asyncio.Future, version: int, start: float, runs: list[Run]) -> None:
        end = time.perf_counter()
        failed = done.exception()
        if failed is not None:
            self.has_failed = True
            logger.error("a batch failed: %s", failed)
        answers = [RequestError(f"the model failed: {failed}", 500) for _ in batch] if failed else done.result()
        self._metrics.note_batch(sum(waiting.request.rows for waiting in batch), len(batch), end - start)
        for run in runs:
            self._metrics.statistics.note_run(run)
        run_of_each = (run for run in runs for _ in range(run.requests))  # the refused have none
        for waiting, answer in zip(batch, answers):
            self._metrics.note_wait(start - waiting.since)
            run = None if isinstance(answer, BaseException) else next(run_of_each)
            if waiting.answer.done():
                continue  # cancelled meanwhile
            if run is None:
                self._metrics.refused_inputs += failed is None and answer.status == 400
                waiting.answer.set_exception(answer)
            else:
                queue_ns = round(1e9 * (start - waiting.since))
                self._metrics.statistics.note_answer(waiting.request.rows, queue_ns, run)
                waiting.answer.set_result((answer, version))
