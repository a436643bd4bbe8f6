"""Spans of OpenTelemetry, where it is installed and an application has set it up."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager

try:
    from opentelemetry import trace
except ImportError:

    def span(name: str, **attributes: Any) -> ContextManager[Any]:
        """A span around what is computed in it; here nothing, as OpenTelemetry is not installed."""
        return contextlib.nullcontext()

else:
    _tracer = trace.get_tracer("fusec.serve")

    def span(name: str, **attributes: Any) -> ContextManager[Any]:
        """A span around what is computed in it."""
        return _tracer.start_as_current_span(name, attributes=attributes)
