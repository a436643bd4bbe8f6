"""One model in the process of a replica: it is loaded, its requests are batched and answered, and it is changed meanwhile. This module
does not use Ray."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

import numpy as np

import fusec
from fusec.serve import _protocol, _tracing
from fusec.serve._batcher import BatchOptions, Batcher, Lane
from fusec.serve._changes import Change
from fusec.serve._errors import RequestError, Unavailable
from fusec.serve._http_protocol import Answer, HttpInfer
from fusec.serve._metrics import Metrics
from fusec.serve._plans import Plan, Plans
from fusec.serve._protocol import InferRequest, Result
from fusec.serve._replica import Replica, resident_bytes
from fusec.serve._signature import Request, Signature, TensorSpec, numpy_dtype, read_signature
from fusec.serve._statistics import Statistics

logger = logging.getLogger("fusec.serve")
_EXAMPLE_ROWS = (2, 3, 1)
_CLIENT_HAS_GONE = 499  # the status that nginx uses for this


@dataclass
class _Loaded:
    model: Any
    signature: Signature
    batcher: Batcher
    plans: Plans


class Begun:
    """A request that is answered without a task. `done` is called once, with its answer or its error."""

    __slots__ = ("_server", "_plan", "_done", "_start", "_span", "_waiting")

    def __init__(self, server: ModelServer, plan: Plan, size: int, done: Callable[[Answer | RequestError], None]):
        self._server, self._plan, self._done, self._start = server, plan, done, time.perf_counter()
        self._span = _tracing.begin("fusec.infer", model=server.name, bytes=size)

    def wait(self, batcher: Batcher, request: Request) -> None:
        """Puts the request into the queue for a batch. Raises RequestError if it is refused."""
        try:
            self._waiting = batcher.begin(request, self._deliver, self._plan.timeout_ms)
        except RequestError as error:
            self._note(error.status, error)
            raise

    def cancel(self) -> None:
        """Called when the client has closed the connection."""
        if not self._waiting.is_done:
            self._waiting.cancel()
            self._note(_CLIENT_HAS_GONE)

    def _deliver(self, result: list[np.ndarray] | Exception, version: int) -> None:
        if isinstance(result, RequestError):
            self._note(result.status, result)
            self._done(result)
            return
        try:
            answer = self._plan.answer(self._server.name, version, result)
        except Exception as error:
            self._note(500, error)
            self._done(RequestError(f"the server failed: {type(error).__name__}", 500))
            raise
        self._server.metrics.answered_seconds.append(time.perf_counter() - self._start)
        if self._span is not None:
            _tracing.end(self._span)
        self._done(answer)

    def _note(self, status: int, error: Exception | None = None) -> None:
        self._server.metrics.note_request(status, time.perf_counter() - self._start)
        _tracing.end(self._span, error)


class ModelServer(Replica):
    """Serves the artifact at `path` under a name.

    device: as fusec.load takes it.
    """

    def __init__(self, name: str, path: str | os.PathLike[str], device: Any = None, options: BatchOptions = BatchOptions()):
        super().__init__(name)
        self.options, self.metrics = options, Metrics()
        self._path, self._device = os.fspath(path), device
        self._loaded: _Loaded | None = None
        self._random = np.random.default_rng(0)
        self._apart = concurrent.futures.ThreadPoolExecutor(1, "fusec-large")

    # ---- its life ----

    async def close(self) -> None:
        """Frees the model after the accepted requests have been answered."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await loaded.batcher.close()
            loaded.model.close()

    async def _load(self, path: str) -> _Loaded:
        def load() -> tuple[Any, Signature]:
            model = self._open(path)
            signature = read_signature(model)
            why = _why_not_joined(model, signature, self._random)
            if why:
                signature.row_dim = ""
                logger.warning("%s: requests are not batched: %s", self.name, why)
            return model, signature

        model, signature = await asyncio.to_thread(load)
        batcher = Batcher(model, signature, self.options, self.metrics, lambda: self.log.version)
        return _Loaded(model, signature, batcher, Plans(signature, self.name, batcher))

    def _open(self, path: str) -> Any:
        return fusec.load(path, self._device)

    async def check_health(self) -> None:
        """After a failure that was not the fault of a request, runs the model once. Raises an error if it cannot run, for example after an
        error of its GPU."""
        loaded = self._loaded
        if loaded is not None and loaded.batcher.has_failed:
            request = loaded.signature.example(1, self._random)
            await asyncio.to_thread(lambda: Lane(loaded.model, loaded.signature).run([request]))
            loaded.batcher.has_failed = False

    # ---- requests ----

    def _served(self) -> _Loaded:
        if self._loaded is None:
            raise Unavailable(f"model {_protocol.quoted(self.name)} is not loaded")
        return self._loaded

    @property
    def is_ready(self) -> bool:
        return self._loaded is not None

    @property
    def batcher(self) -> Batcher | None:
        """The batcher of the loaded model."""
        return self._loaded.batcher if self._loaded is not None else None

    async def predict(self, tensors: Mapping[str, Any], timeout_ms: float | None = None) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name. Raises RequestError."""
        with self._counted():
            loaded = self._served()
            request = loaded.signature.request({name: np.asarray(tensor) for name, tensor in tensors.items()})
            results, _ = await loaded.batcher.submit(request, timeout_ms)
            return {spec.name: result for spec, result in zip(loaded.signature.outputs, results)}

    async def infer(self, request: InferRequest) -> Any:
        """Answers an HTTP or gRPC request. Raises RequestError."""
        with self._counted(), _tracing.span("fusec.infer", model=self.name, bytes=request.size):
            return await self._infer(request)

    def begin(self, data: bytes, start: int, size: int, json_length: int, done: Callable[[Answer | RequestError], None]) -> Begun | None:
        """Begins to answer an HTTP request without a task, if its tensors are all binary and it has no errors; otherwise returns None, and
        `infer` has to answer it or to report the error. Raises RequestError if it may not wait in the queue. The body is `size` bytes of
        `data` from `start` on; its JSON is the first `json_length` of them."""
        loaded = self._loaded
        plan = loaded.plans.plan(data, start, size, json_length) if loaded is not None and json_length <= size else None
        request = plan.request(data, start + json_length) if plan is not None else None
        if loaded is None or plan is None or request is None:
            return None
        begun = Begun(self, plan, size, done)
        begun.wait(loaded.batcher, request)
        return begun

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """A context that counts the request that is answered in it."""
        start, status = time.perf_counter(), 500
        try:
            yield
            status = 200
        except RequestError as error:
            status = error.status
            raise
        except asyncio.CancelledError:
            status = _CLIENT_HAS_GONE
            raise
        finally:
            self.metrics.note_request(status, time.perf_counter() - start)

    async def _infer(self, request: InferRequest) -> Any:
        loaded = self._served()
        _protocol.check_version(request.version, self.log.version, self.name)
        specs = loaded.signature.outputs
        infer = await self._without_delay(request.is_large, request.parse, loaded.signature.inputs)
        selected = _protocol.select_outputs(infer, specs)
        arrays, version = await loaded.batcher.submit(loaded.signature.request(infer.tensors), infer.timeout_ms)
        result = Result(self.name, version, specs, arrays, selected)
        return await self._without_delay(request.has_large_answer(result), request.answer, infer, result)

    async def _without_delay(self, is_large: bool, work: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the work. Large work is done in a thread, one item after another, so that it does not delay other requests."""
        return await asyncio.get_running_loop().run_in_executor(self._apart, work, *arguments) if is_large else work(*arguments)

    # ---- metadata and counters ----

    def metadata(self) -> dict[str, Any]:
        return _protocol.model_metadata(self.name, self.log.version, self._served().signature)

    def config(self) -> dict[str, Any]:
        loaded = self._served()
        return _protocol.model_config(self.name, loaded.signature, loaded.batcher.max_rows, self.options.max_delay_ms)

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        if self._loaded is not None:
            model, self.metrics.queued = self._loaded.model, len(self._loaded.batcher.queue)
            caches = {table.name: model.table_cache(table.name) for table in model.tables}
            self.metrics.caches = {name: (cache.hits, cache.misses) for name, cache in caches.items() if cache.rows}
        self.metrics.version, self.metrics.resident_bytes = self.log.version, resident_bytes()
        return self.metrics.samples()

    def statistics(self) -> Statistics:
        return self.metrics.statistics

    # ---- changes ----

    async def rows_change(self, request: HttpInfer) -> Change:
        """The change in the body of a request for new rows: inputs `ids` and `rows`, and the parameter `table`."""
        return await self._without_delay(request.is_large, self._rows_change, request)

    def _rows_change(self, request: HttpInfer) -> Change:
        tables = {table.name: table for table in self._served().model.tables}
        parameters = request.json.get("parameters")
        name = parameters.get("table") if isinstance(parameters, dict) else None
        if not isinstance(name, str) or name not in tables:
            raise RequestError(
                f"the parameter table is {_protocol.quoted(name)}, the model has {', '.join(map(_protocol.quoted, tables)) or 'none'}"
            )
        table = tables[name]
        specs = [
            TensorSpec("ids", "i64", np.dtype(np.int64), ("count",)),
            TensorSpec("rows", table.dtype, numpy_dtype(table.dtype), ("count", table.columns)),
        ]
        given = Signature(tuple(specs), (), {"count": (0, table.rows)}, "")
        ids, rows = (array.copy() for array in given.request(request.parse(specs).tensors).arrays)  # aligned, and without the body
        return Change("rows", name, ids=ids, rows=rows)

    async def _apply(self, change: Change) -> None:
        if change.kind == "load":
            loaded, old = await self._load(change.path or self._path), self._loaded
            self._loaded = loaded
            if old is not None:
                await old.batcher.close()
                old.model.close()
            return
        if change.kind == "unload":
            await self.close()
            return
        model = self._served().model
        if change.kind == "weights":
            await asyncio.to_thread(model.update_weights, change.path)
        elif change.kind == "rows":
            await asyncio.to_thread(model.update_rows, change.subject, change.ids, change.rows)
        elif change.path:
            await asyncio.to_thread(model.load_adapter, int(change.subject), change.path)
        else:
            await asyncio.to_thread(model.unload_adapter, int(change.subject))


def _why_not_joined(model: Any, signature: Signature, random: np.random.Generator) -> str:
    """Why requests cannot share a run, or "" if a trial shows that joined requests get the same results as single ones."""
    if not signature.can_join:
        return "no dim is the first of all outputs and of inputs"
    requests = [signature.example(rows, random) for rows in _EXAMPLE_ROWS]
    for i, spec in enumerate(signature.inputs):
        if not spec.shape or spec.shape[0] not in signature.joined:
            for request in requests:
                request.arrays[i] = requests[0].arrays[i]
    lane = Lane(model, signature)
    try:
        alone = [lane.run([request])[0] for request in requests]
        joined = lane.run(requests)
    except fusec.Error as error:
        return str(error)
    for one, other in zip(alone, joined):
        for answer in (one, other):
            if isinstance(answer, Exception):
                return f"random inputs are refused: {answer}"
        if not all(_are_close(a, b) for a, b in zip(one, other)):
            return "joined requests get other results than single ones"
    return ""


def _are_close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether results agree within the rounding differences of another order of summation."""
    if a.shape != b.shape:
        return False
    tolerance = 1e-3 if a.dtype.itemsize > 2 else 5e-2
    a, b = a.astype(np.float64), b.astype(np.float64)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * float(np.nanmax(np.abs(a), initial=0.0)), equal_nan=True))
