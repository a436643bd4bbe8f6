"""Parses heads of HTTP/1.1 requests, and bodies that come in chunks, with llhttp (of httptools)."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from typing import Callable

import httptools

from fusec.serve._http_protocol import HEADER_LENGTH

_INFER = re.compile(r"/v2/models/([^/]+)/infer")
_MOST_HEADS = 256
_LONGEST_KEPT = 1024  # bytes of a cached head; at most 256 KB of them are cached


class Head:
    """The contents of the head of a request. `infer` is the name of the model if the request can be answered without a task (its tensors
    are binary and the body is not compressed), or ""."""

    __slots__ = ("method", "path", "headers", "length", "is_chunked", "keeps_alive", "infer", "json_length", "accepts", "rest")

    def __init__(self, told: Told):
        headers, path = told.headers, (httptools.parse_url(told.url).path or b"").decode("ascii")
        self.method, self.path, self.headers, self.keeps_alive = told.method, urllib.parse.unquote(path), headers, told.keeps_alive
        self.is_chunked = "transfer-encoding" in headers
        self.rest = told if self.is_chunked else None
        self.length = 0 if self.is_chunked else int(headers.get("content-length", "0"))
        self.accepts = headers.get("accept-encoding", "")
        match, json_length = _INFER.fullmatch(self.path), headers.get(HEADER_LENGTH, "")
        is_plain = told.method == "POST" and json_length.isdecimal() and headers.get("content-encoding", "identity") == "identity"
        self.infer = match[1] if match and is_plain else ""
        self.json_length = int(json_length) if self.infer else 0


class Told:
    """The callbacks of llhttp for a request. After the head they read a body that comes in chunks."""

    def __init__(self) -> None:
        self.url, self.headers, self.method, self.keeps_alive = b"", dict[str, str](), "", False
        self.has_head = self.is_complete = self.has_more = False
        self.add: Callable[[bytes], None] = lambda piece: None
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.has_more = self.is_complete  # another request follows this one

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # otherwise it is a trailer
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.has_head, self.method = True, self.parser.get_method().decode("ascii")
        self.keeps_alive = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"

    def on_body(self, piece: bytes) -> None:
        self.add(piece)

    def on_message_complete(self) -> None:
        self.is_complete = True


class Heads:
    """Parses heads, and caches those of inference requests, because clients repeat them byte for byte."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Head] = {}

    def read(self, data: bytes) -> Head:
        """Parses these bytes, a head with its final empty line. Raises httptools.HttpParserError."""
        head = self._kept.get(data)
        return head if head is not None else self._read(data)

    def _read(self, data: bytes) -> Head:
        told = Told()
        with contextlib.suppress(httptools.HttpParserUpgrade):  # upgrades are not supported; the answer is HTTP/1.1
            told.parser.feed_data(data)
        if not told.has_head:
            raise httptools.HttpParserError("it has no head")
        head = Head(told)
        if head.infer and not head.is_chunked and len(data) <= _LONGEST_KEPT:
            if len(self._kept) >= _MOST_HEADS:
                del self._kept[next(iter(self._kept))]  # the oldest
            self._kept[data] = head
        return head
