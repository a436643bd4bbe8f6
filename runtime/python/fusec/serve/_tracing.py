"""Spans of OpenTelemetry, where it is installed and an application has set it up."""

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


_LOOK_S = 0.25  # between questions whether somebody sees spans: each takes 2 us, and a request as a whole 20
_next_look, _is_seen = 0.0, False


def begin(name: str, **attributes: Any) -> Any:
    """A span for what begins here, below the current one; None where nobody would see it."""
    global _next_look, _is_seen
    if trace is None:
        return None
    now = time.monotonic()
    if now >= _next_look:
        _next_look, _is_seen = now + _LOOK_S, not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return _tracer.start_span(name, attributes=attributes) if _is_seen else None


def end(span: Any, error: BaseException | None = None) -> None:
    """Ends a span of `begin`, with what failed in it."""
    if span is None:
        return
    if isinstance(error, Exception):
        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"))
    span.end()


@contextlib.contextmanager
def span(name: str, **attributes: Any) -> Iterator[None]:
    """A span around what is computed in it, and the current one there."""
    begun = begin(name, **attributes)
    if begun is None:
        yield
        return
    with trace.use_span(begun, end_on_exit=True):
        yield
