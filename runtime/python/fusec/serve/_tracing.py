"""OpenTelemetry spans, if it is installed and an application has set it up."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Iterator

try:
    from opentelemetry import trace
except ImportError:
    trace = None  # type: ignore[assignment]
else:
    _tracer = trace.get_tracer("fusec.serve")


LOOK_S = 0.25  # seconds between checks whether spans are recorded: a check takes 2 us, a whole request 20
_next_look, _is_seen = 0.0, False


def is_recorded() -> bool:
    """Whether spans are recorded."""
    global _next_look, _is_seen
    if trace is None:
        return False
    now = time.monotonic()
    if now >= _next_look:
        _next_look, _is_seen = now + LOOK_S, not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return _is_seen


def begin(name: str, **attributes: Any) -> Any:
    """Begins a span below the current one; returns None if spans are not recorded."""
    return _tracer.start_span(name, attributes=attributes) if is_recorded() else None


def end(span: Any, error: BaseException | None = None) -> None:
    """Ends a span of `begin`, with the error that occurred in it."""
    if span is None:
        return
    if isinstance(error, Exception):
        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()


@contextlib.contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """A context with a span, which is the current span within it."""
    begun = begin(name, **attributes)
    if begun is None:
        yield
        return
    with trace.use_span(begun, end_on_exit=True):
        yield
