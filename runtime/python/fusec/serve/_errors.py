"""What a request can fail with: a status of HTTP and one line."""

from __future__ import annotations


class RequestError(Exception):
    """A request that gets no answer but a status of HTTP and one line that says why."""

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
    """As many requests wait as may."""

    status = 429


class Unavailable(RequestError):
    """The model is unloaded, or its replica is going."""

    status = 503


class DeadlineExceeded(RequestError):
    """The answer was not there in the time that the request gave."""

    status = 504
