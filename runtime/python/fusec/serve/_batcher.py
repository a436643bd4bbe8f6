"""Gathers requests of one model into batches. An event loop gathers; each lane, which is a thread with a context of the model, runs one
batch while the next one is gathered."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import logging
import math
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from fusec import BadInput
from fusec.serve._errors import DeadlineExceeded, QueueFull, RequestError, Unavailable
from fusec.serve._exact_timer import ExactTimer
from fusec.serve._metrics import Metrics
from fusec.serve._signature import Request, Signature
from fusec.serve._statistics import Run

logger = logging.getLogger("fusec.serve")
_LATELY_S = 1.0
_MANY = 8  # waiting requests from which Crowd draws conclusions


@dataclass(frozen=True)
class BatchOptions:
    """How requests are gathered."""

    max_rows: int = 1024  # the most rows of a batch; a larger request runs alone
    max_delay_ms: float = 1.0  # how long the first request of a batch waits for others, if others may come (Crowd)
    max_queue: int = 1024  # the most waiting requests; one more gets 429
    lanes: int = 2  # batches that run at the same time
    timeout_ms: float = 0.0  # timeout of requests that do not state one; 0 for no limit


class Lane:
    """A context with memory for its inputs, used by one batch at a time."""

    def __init__(self, model: Any, signature: Signature):
        self._model, self._signature = model, signature
        self._context = model.context()
        self._memory: list[np.ndarray] = [np.empty(0, np.uint8)] * len(signature.inputs)
        self.runs: list[Run] = []  # the runs of the model for the last batch, in the order of its requests

    def run(self, requests: Sequence[Request]) -> list[list[np.ndarray] | Exception]:
        """The results of each request, or its error: a request that the model refuses does not fail the others."""
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
        except RequestError as error:  # raised if shards do not answer
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
                inputs.append(first.arrays[i])  # it is the same in all requests
                continue
            out = self._array(i, (sizes[str(spec.shape[0])], *first.arrays[i].shape[1:]), spec.dtype)
            self._signature.join(requests, i, out)
            inputs.append(out)
        return inputs

    def _array(self, i: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array in the memory of input `i`, which grows as needed and is page-locked if the model is on a GPU."""
        count = math.prod(shape) * dtype.itemsize
        if self._memory[i].size < count:
            self._memory[i] = np.asarray(self._model.allocate_host((max(count, 2 * self._memory[i].size),), "u8"))
        return self._memory[i][:count].view(dtype).reshape(shape)


class Crowd:
    """Tracks how many requests waited or ran at the same time recently. If each client waits for its answer before it sends the next
    request, and there are as many requests as recently, then all clients have sent theirs, and the next batch need not be delayed. A small
    number of requests allows no such conclusion."""

    def __init__(self) -> None:
        self._end, self._most, self._most_before = 0.0, 0, 0

    def is_all(self, present: int, now: float) -> bool:
        """Records the number of requests that wait or run, and returns whether these are all that can be expected."""
        if now >= self._end:
            self._most_before = self._most if now < self._end + _LATELY_S else 0
            self._end, self._most = now + _LATELY_S, 0
        if present > self._most:
            self._most = present
        return present >= self._most_before >= _MANY and present >= self._most


Deliver = Callable[[list[np.ndarray] | Exception, int], None]


class Waiting:
    """A request in the queue. `deliver` is called once in the event loop, with its results or its error and the version of the model that
    computed them. It is not called for a request that was cancelled."""

    __slots__ = ("request", "deliver", "since", "is_done", "timer")

    def __init__(self, request: Request, deliver: Deliver):
        self.request, self.since, self.is_done = request, time.perf_counter(), False
        self.deliver: Deliver | None = deliver
        self.timer: asyncio.TimerHandle | None = None  # for its deadline

    def cancel(self) -> None:
        """Removes the request from the queue before it is run; if its batch runs already, its results are dropped."""
        self.is_done, self.deliver = True, None  # breaks a possible reference cycle, so that the memory is freed at once
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def end(self, result: list[np.ndarray] | Exception, version: int) -> None:
        deliver = self.deliver
        self.cancel()
        try:
            if deliver is not None:
                deliver(result, version)
        except Exception:
            logger.exception("an answer was not delivered")


class Batcher:
    """Answers requests in batches. Everything except the lanes runs in callbacks of one event loop; a request has no task.

    `version` is called when a batch begins; its result is delivered with the results of the batch.
    """

    def __init__(self, model: Any, signature: Signature, options: BatchOptions, metrics: Metrics, version: Callable[[], int] = lambda: 0):
        self._signature, self._options, self._metrics, self._version = signature, options, metrics, version
        self._idle = [Lane(model, signature) for _ in range(options.lanes)]
        self._threads = concurrent.futures.ThreadPoolExecutor(options.lanes, "fusec-lane")
        self._queue: collections.deque[Waiting] = collections.deque()
        self._queued_rows, self._running_requests, self._crowd = 0, 0, Crowd()
        self._is_due = False  # whether a look at the queue is scheduled for this turn of the loop
        self._timer: ExactTimer | None = None  # for the next look, when the first request has waited long enough
        # The upper bounds of joined dims; that of row_dim is omitted if max_rows is the tighter limit.
        limits = {name: signature.dims[name][1] for name in signature.joined}
        self._limits = [(name, most) for name, most in limits.items() if name != signature.row_dim or most < options.max_rows]
        has_slots = getattr(model, "adapter_slots", 0) > 0
        self._adapters = next((i for i, spec in enumerate(signature.inputs) if has_slots and spec.name == "adapter_id"), None)
        self._is_closed = False
        self.has_failed = False  # whether a batch has failed through no fault of its requests since the last health check

    async def submit(self, request: Request, timeout_ms: float | None = None) -> tuple[list[np.ndarray], int]:
        """Runs a request; returns its results in the model's order, and the version of the model that computed them."""
        answer = asyncio.get_running_loop().create_future()

        def deliver(result: list[np.ndarray] | Exception, version: int) -> None:
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result((result, version))

        waiting = self.begin(request, deliver, timeout_ms)
        answer.add_done_callback(lambda _: waiting.cancel())  # called for a cancelled future, too
        return await answer

    def begin(self, request: Request, deliver: Deliver, timeout_ms: float | None = None) -> Waiting:
        """Puts a request into the queue. Raises RequestError if the queue is full or closed."""
        if self._is_closed:
            raise Unavailable("the model is being unloaded")
        if len(self._queue) >= self._options.max_queue:
            self._queue = collections.deque(waiting for waiting in self._queue if not waiting.is_done)
            self._queued_rows = sum(waiting.request.rows for waiting in self._queue)
        if len(self._queue) >= self._options.max_queue:
            raise QueueFull(f"{len(self._queue)} requests wait already")
        waiting = Waiting(request, deliver)
        self._queue.append(waiting)
        self._queued_rows += request.rows
        self._metrics.queued = len(self._queue)
        limit = timeout_ms or self._options.timeout_ms
        if limit:
            waiting.timer = asyncio.get_running_loop().call_later(limit / 1000, self._expire, waiting, limit)
        is_all = self._crowd.is_all(len(self._queue) + self._running_requests, waiting.since)
        if self._idle and (is_all or not self._is_delayed() or self._queued_rows >= self._options.max_rows):
            self._look_soon()
        return waiting

    def _expire(self, waiting: Waiting, limit: float) -> None:
        waiting.end(DeadlineExceeded(f"no answer within {limit:g} ms"), 0)

    async def close(self) -> None:
        """Refuses new requests, and returns when the accepted ones have been answered."""
        self._is_closed = True
        self._look_soon()
        while self._queue or self._running_requests:
            await asyncio.sleep(0.005)
        if self._timer is not None:
            self._timer.close()
        self._threads.shutdown(wait=False)

    def _is_delayed(self) -> bool:
        return self._timer is not None and self._timer.is_set

    def _look_soon(self) -> None:
        """Schedules a look at the queue after this turn of the loop, which may read more requests."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Starts the batches that can be started, and schedules the next look."""
        self._is_due = False
        if self._timer is not None:
            self._timer.stop()
        while self._drop_cancelled() and self._idle:
            now = time.perf_counter()
            wait = self._queue[0].since + self._options.max_delay_ms / 1000 - now
            if wait > 0 and self._queued_rows < self._options.max_rows and self._may_grow(now):
                if self._timer is None:
                    self._timer = ExactTimer(self._look)
                self._timer.start(wait)
                return
            self._start(self._take())

    def _may_grow(self, now: float) -> bool:
        """Whether more requests may come that could share a run with the waiting ones."""
        is_all = self._crowd.is_all(len(self._queue) + self._running_requests, now)
        return self._signature.can_join and not self._is_closed and not is_all

    def _drop_cancelled(self) -> bool:
        """Drops cancelled requests at the front, and returns whether another request waits."""
        while self._queue and self._queue[0].is_done:
            self._queued_rows -= self._queue.popleft().request.rows
        self._metrics.queued = len(self._queue)
        return bool(self._queue)

    def _take(self) -> list[Waiting]:
        """Takes the first request, and the later ones that may share its run and fit into it."""
        first = self._queue.popleft()
        batch, left, left_rows = [first], collections.deque(), 0
        key, rows, most = first.request.key, first.request.rows, self._options.max_rows
        sizes = dict(first.request.sizes)
        for waiting in self._queue:
            if waiting.is_done:
                continue
            request = waiting.request
            if request.key == key and rows + request.rows <= most and self._grows(sizes, request):
                batch.append(waiting)
                rows += request.rows
            else:
                left.append(waiting)
                left_rows += request.rows
        self._queue, self._queued_rows = left, left_rows
        self._metrics.queued = len(left)
        return batch

    def _grows(self, sizes: dict[str, int], request: Request) -> bool:
        """Adds the sizes of a request to those of a batch if they fit; returns whether they do."""
        if any(sizes[name] + request.sizes[name] > most for name, most in self._limits):
            return False
        for name, _ in self._limits:
            sizes[name] += request.sizes[name]
        return True

    def _start(self, batch: list[Waiting]) -> None:
        loop = asyncio.get_running_loop()
        # Rows with equal adapters side by side are computed faster (runtime/README.md has figures).
        if self._adapters is not None and len(batch) > 1:
            batch.sort(key=lambda waiting: int(waiting.request.arrays[self._adapters].flat[0]))
        lane, version, start = self._idle.pop(), self._version(), time.perf_counter()
        requests = [waiting.request for waiting in batch]
        self._running_requests += len(batch)

        def run() -> None:
            failed, answers = None, []
            try:
                answers = lane.run(requests)
            except Exception as error:
                failed = error
            loop.call_soon_threadsafe(finish, answers, failed)

        def finish(answers: list[list[np.ndarray] | Exception], failed: Exception | None) -> None:
            self._idle.append(lane)
            self._running_requests -= len(batch)
            self._look_soon()
            self._answer(batch, answers, failed, version, start, lane.runs)

        self._threads.submit(run)

    def _answer(
        self,
        batch: list[Waiting],
        answers: list[list[np.ndarray] | Exception],
        failed: Exception | None,
        version: int,
        start: float,
        runs: list[Run],
    ) -> None:
        end = time.perf_counter()
        if failed is not None:
            self.has_failed = True
            logger.error("a batch failed: %s", failed)
            answers = [RequestError(f"the model failed: {failed}", 500) for _ in batch]
        self._metrics.note_batch(sum(waiting.request.rows for waiting in batch), len(batch), end - start)
        self._metrics.wait_seconds.note_all([start - waiting.since for waiting in batch])
        run_of_each = (i for i, run in enumerate(runs) for _ in range(run.requests))  # refused requests have none
        answered: list[list[Waiting]] = [[] for _ in runs]
        for waiting, answer in zip(batch, answers):
            run = None if isinstance(answer, BaseException) else next(run_of_each)
            if waiting.is_done:
                continue  # cancelled meanwhile
            if run is None:
                self._metrics.refused_inputs += failed is None and answer.status == 400
            else:
                answered[run].append(waiting)
            waiting.end(answer, version)
        for run, its in zip(runs, answered):
            queue_ns = round(1e9 * sum(start - waiting.since for waiting in its))
            self._metrics.statistics.note_run(run)
            self._metrics.statistics.note_answers(len(its), sum(waiting.request.rows for waiting in its), queue_ns, run)
        self._metrics.settle()
