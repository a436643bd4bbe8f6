"""The errors of requests: an HTTP status and one line of text."""

from __future__ import annotations

import json


class RequestError(Exception):
    """A request that fails with an HTTP status and one line that says why."""

    status = 400

    def __init__(self, text: str, status: int | None = None):
        super().__init__(text)
        self.status = status or type(self).status

    def __reduce__(self):  # so that a replica can raise it in its caller
        return type(self), (str(self), self.status)


class NotFound(RequestError):
    """There is no such model, version or page."""

    status = 404


class TooLarge(RequestError):
    """The body has more bytes than the server takes."""

    status = 413


class QueueFull(RequestError):
    """The queue of waiting requests is full."""

    status = 429


class Unavailable(RequestError):
    """The model is unloaded, or its replica is stopping."""

    status = 503


class DeadlineExceeded(RequestError):
    """The request was not answered within its timeout."""

    status = 504


def error_json(error: RequestError) -> bytes:
    """The body of the answer to a request that failed."""
    return json.dumps({"error": " ".join(str(error).split())}).encode()
