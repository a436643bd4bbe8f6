"""Gathers requests of one model into batches. An event loop gathers; each lane, which is a thread with a context of the model, runs one
batch while the next one is gathered."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from fusec import BadInput, _native
from fusec.serve._errors import DeadlineExceeded, QueueFull, RequestError, Unavailable, error_json
from fusec.serve._metrics import SECONDS, Metrics
from fusec.serve._signature import Request, Signature
from fusec.serve._statistics import Run

logger = logging.getLogger("fusec.serve")
_LATELY_S = 1.0  # how long the most requests at the same time are remembered
_MOST_KEYS = 4096
_GPU_ROWS, _CPU_ROWS = 4096, 1024  # of a batch, by default: so few on a CPU, because other requests wait for them


@dataclass(frozen=True)
class BatchOptions:
    """How requests are gathered."""

    max_rows: int = 0  # the most rows of a batch, by default 4096 on a GPU and 1024 on a CPU; a larger request runs alone
    max_delay_ms: float = 1.0  # how long the first request of a batch waits for others, if others may come (Crowd)
    max_queue: int = 1024  # the most waiting requests; one more gets 429
    lanes: int = 2  # batches that run at the same time
    timeout_ms: float = 0.0  # timeout of requests that do not state one; 0 for no limit


@dataclass(frozen=True)
class Answered:
    """What has become of planned requests that ran together."""

    said: _native.AnsweredRequests
    run: Run | None  # None if they were refused
    status: int = 200
    failed: Exception | None = None  # why the model failed


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
            results = self._results(inputs)
            computed = time.perf_counter_ns()
            answers = [results] if len(requests) == 1 else list(self._signature.split(results, requests))
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

    def _results(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = self._context(*inputs)
        return list(results) if isinstance(results, tuple) else [results]

    def run_planned(
        self,
        batch: _native.PlannedBatch,
        version: int,
        done: Callable[[_native.PlannedBatch, Answered], None],
    ) -> None:
        """Runs a batch of planned requests. `done` is called with each part of the batch that ran together, and sends its answers."""
        start = time.perf_counter_ns()
        try:
            inputs = self._planned_inputs(batch)
            joined = time.perf_counter_ns()
            results = [np.ascontiguousarray(result) for result in self._results(inputs)]
            computed = time.perf_counter_ns()
            said = batch.answer(str(version), [(result.reshape(-1).view(np.uint8), result.shape[1:]) for result in results], SECONDS)
            split = time.perf_counter_ns()
            done(batch, Answered(said, Run(batch.rows, len(batch), joined - start, computed - joined, split - computed)))
        except BadInput as error:
            if len(batch) == 1:
                done(batch, self._refused(batch, RequestError(str(error))))
                return
            for half in batch.halves():
                self.run_planned(half, version, done)
        except RequestError as error:  # raised if shards do not answer
            done(batch, self._refused(batch, error))
        except Exception as error:
            done(batch, self._refused(batch, RequestError(f"the model failed: {error}", 500), error))

    def _refused(self, batch: _native.PlannedBatch, error: RequestError, failed: Exception | None = None) -> Answered:
        said = batch.refuse(error.status, error_json(error), SECONDS)
        return Answered(said, None, error.status, failed)

    def _planned_inputs(self, batch: _native.PlannedBatch) -> list[np.ndarray]:
        inputs = []
        for i, (spec, dims) in enumerate(zip(self._signature.inputs, batch.input_row_dims)):
            size = math.prod(dims) * spec.dtype.itemsize
            rows = batch.input_bytes(i) // size if size else batch.rows
            inputs.append(self._array(i, (rows, *dims), spec.dtype))
        batch.join([array.reshape(-1).view(np.uint8) for array in inputs])
        return inputs

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


Deliver = Callable[[list[np.ndarray] | Exception, int], None]


class Waiting:
    """A request in the queue. `deliver` is called once in the event loop, with its results or its error and the version of the model that
    computed them. It is not called for a request that was cancelled."""

    __slots__ = ("request", "deliver", "since", "timer", "queued", "forget")

    def __init__(self, request: Request, deliver: Deliver):
        self.request, self.since = request, time.perf_counter()
        self.deliver: Deliver | None = deliver
        self.timer: asyncio.TimerHandle | None = None  # for its deadline
        self.queued: _native.NumberedRequest | None = None
        self.forget: Callable[[], Any] = lambda: None

    @property
    def is_done(self) -> bool:
        return self.deliver is None

    def cancel(self) -> None:
        """Removes the request from the queue before it is run; if its batch runs already, its results are dropped."""
        if self.queued is not None:
            self.queued.end()
        self.forget()
        self.deliver = None  # breaks a possible reference cycle, so that the memory is freed at once
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
    """Answers requests in batches. Its lanes are threads that take batches from the queue, and everything else runs in callbacks of one event
    loop; a request has no task. HTTP requests that match a plan of `plans` are put into the queue by the server that reads them.

    `version` is called when a batch begins; its result is delivered with the results of the batch.
    """

    def __init__(self, model: Any, signature: Signature, options: BatchOptions, metrics: Metrics, version: Callable[[], int] = lambda: 0):
        self._signature, self._metrics, self._version = signature, metrics, version
        self.timeout_ms = options.timeout_ms  # of requests that do not state one
        # The upper bounds of joined dims; that of row_dim is omitted if max_rows is the tighter limit.
        limits = {name: signature.dims[name][1] for name in signature.joined}
        is_on_cpu = model.device.startswith("cpu")
        self.max_rows = options.max_rows or (_CPU_ROWS if is_on_cpu else _GPU_ROWS)
        limits = {name: most for name, most in limits.items() if name != signature.row_dim or most < self.max_rows}
        self._limited = tuple(limits)
        self.queue = _native.BatchQueue(
            max_rows=self.max_rows,
            max_sizes=list(limits.values()),
            delay_s=options.max_delay_ms / 1000,
            max_waiting=options.max_queue,
            can_join=signature.can_join,
            shares=is_on_cpu,
            lately_s=_LATELY_S,
        )
        self.plans = _native.Plans()
        self._loop = asyncio.get_running_loop()
        self._numbers, self._waiting = itertools.count(), dict[int, Waiting]()
        self._keys = dict[Any, int]()
        has_slots = getattr(model, "adapter_slots", 0) > 0
        self.adapters = next((i for i, spec in enumerate(signature.inputs) if has_slots and spec.name == "adapter_id"), None)
        self.has_failed = False  # whether a batch has failed through no fault of its requests since the last health check
        self.lanes = [Lane(model, signature) for _ in range(options.lanes)]
        self._threads = [threading.Thread(target=self._serve, args=(lane,), name="fusec-lane", daemon=True) for lane in self.lanes]
        for thread in self._threads:
            thread.start()

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
        number = next(self._numbers)
        waiting = self._waiting[number] = Waiting(request, deliver)  # before a lane may take it
        queued = self.queue.push(number, self._key(request.key), request.rows, self.limited_sizes(request))
        if queued is None:
            del self._waiting[number]
            closed, full = "the model is being unloaded", f"{len(self.queue)} requests wait already"
            raise Unavailable(closed) if self.queue.is_closed else QueueFull(full)
        waiting.queued, waiting.forget = queued, functools.partial(self._waiting.pop, number, None)
        limit = timeout_ms or self.timeout_ms
        if limit:
            waiting.timer = self._loop.call_later(limit / 1000, self._expire, waiting, limit)
        return waiting

    def _key(self, key: Any) -> int:
        """A number that stands for a key of requests; equal numbers stand for equal keys."""
        if len(self._keys) >= _MOST_KEYS:
            self._keys.clear()  # numbers are not used again
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = next(self._numbers)
        return found

    def planned_key(self, key: Any) -> int:
        """The same for planned requests, which share no run with others."""
        return self._key(("planned", key))

    def limited_sizes(self, request: Request) -> list[int]:
        return [request.sizes[name] for name in self._limited]

    def _expire(self, waiting: Waiting, limit: float) -> None:
        waiting.end(DeadlineExceeded(f"no answer within {limit:g} ms"), 0)

    async def close(self) -> None:
        """Refuses new requests, and returns when the accepted ones have been answered."""
        self.queue.close()
        while any(thread.is_alive() for thread in self._threads):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)  # the last answers are delivered

    # ---- lanes ----

    def _serve(self, lane: Lane) -> None:
        while (taken := self.queue.take()) is not None:
            try:
                if isinstance(taken, list):
                    self._run(lane, taken)
                else:
                    self._run_planned(lane, taken)
            except Exception:
                if self._loop.is_closed():
                    return  # without close(), as at the end of a program
                logger.exception("a batch was not answered")
                self.has_failed = True

    def _run(self, lane: Lane, numbers: list[int]) -> None:
        found = [self._waiting.pop(number, None) for number in numbers]
        batch = [waiting for waiting in found if waiting is not None]  # the others were cancelled
        # Rows with equal adapters side by side are computed faster (runtime/README.md has figures).
        if self.adapters is not None and len(batch) > 1:
            batch.sort(key=lambda waiting: waiting.request.arrays[self.adapters][:1].tolist())
        version, start = self._version(), time.perf_counter()
        failed, answers = None, []
        try:
            answers = lane.run([waiting.request for waiting in batch]) if batch else []
        except Exception as error:
            failed = error
        self.queue.finish(len(numbers))
        self._loop.call_soon_threadsafe(self._answer, batch, answers, failed, version, start, lane.runs)

    def _run_planned(self, lane: Lane, batch: _native.PlannedBatch) -> None:
        start, whole = time.perf_counter(), (batch.rows, len(batch))

        def done(part: _native.PlannedBatch, answered: Answered) -> None:
            nonlocal whole
            self.queue.finish(len(part))
            noted, whole = whole, (0, 0)  # the batch is counted once, before its first answers
            self._loop.call_soon_threadsafe(self._note_planned, answered, *noted, time.perf_counter() - start)
            part.send()

        lane.run_planned(batch, self._version(), done)

    def _note_planned(self, answered: Answered, rows: int, requests: int, seconds: float) -> None:
        metrics, said = self._metrics, answered.said
        if answered.failed is not None:
            self.has_failed = True
            logger.error("a batch failed: %s", answered.failed)
        if requests:
            metrics.note_batch(rows, requests, seconds)
        metrics.wait_seconds.add(said.waits.counts, said.waits.sum)
        metrics.note_requests(answered.status, said.requests, said.wholes.counts, said.wholes.sum)
        metrics.refused_inputs += said.requests * (answered.status == 400)
        if answered.run is not None:
            metrics.statistics.note_run(answered.run)
            metrics.statistics.note_answers(said.requests, said.rows, round(1e9 * said.waits.sum), answered.run)

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
