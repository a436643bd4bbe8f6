"""Runs the program `fusec` that the package contains, shows its messages, and raises its errors as exceptions."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import importlib.util
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
import typing
from typing import Any, Callable, Iterator, Mapping, Sequence

from fusec import _errors

PROGRAM = str(pathlib.Path(__file__).parent / "bin" / "fusec")
INTERRUPTED = 130
_ERROR = b"fusec: error: "
_stream: contextvars.ContextVar[Any] = contextvars.ContextVar("stream", default=None)  # None: sys.stderr


def main() -> None:
    """The entry point of the command `fusec`: replaces this process by the program."""
    os.execv(PROGRAM, ["fusec", *sys.argv[1:]])


@contextlib.contextmanager
def saying_to(stream: Any) -> Iterator[None]:
    """Within this context, the program's stderr goes to `stream` instead of sys.stderr."""
    before = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(before)


def run(arguments: Sequence[str]) -> str:
    """Runs the program and returns its stdout. Its stderr, including progress, is copied to sys.stderr as it arrives; the line of an
    error becomes the exception. Ctrl-C first stops the program, which removes partially written files, and then raises
    KeyboardInterrupt."""
    code, output, error = _run([PROGRAM, *arguments])
    if code == 0:
        return output
    if code == INTERRUPTED or code == -signal.SIGINT:
        raise KeyboardInterrupt
    kind = _errors.BY_CODE.get(code, _errors.Bug)
    failure = kind(error or f"fusec {arguments[0]} ended with exit code {code}")
    failure.output = output
    raise failure


def _run(command: list[str]) -> tuple[int, str, str]:
    stream = _stream.get() or sys.stderr
    show = _Shown(stream)
    # The program draws progress only on a terminal. If the user's stream is one, the program gets a pseudo-terminal.
    is_seen = hasattr(stream, "isatty") and stream.isatty()
    if is_seen:
        reading, writing = pty.openpty()
    else:
        reading, writing = os.pipe()
    interrupts = _HeldInterrupts()
    try:
        # The program runs in its own session, so that Ctrl-C reaches only this process, which forwards it exactly once: the program cleans
        # up after the first interrupt, and a second one would kill it during the cleanup.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing, env=_environment(), start_new_session=True
        )
    except OSError as failure:
        os.close(reading)
        interrupts.release()
        raise _errors.NoDevice(f"{command[0]} cannot be started: {failure.strerror}") from failure
    finally:
        os.close(writing)
    output: list[bytes] = []
    stdout = typing.cast(typing.IO[bytes], child.stdout)
    threads = [
        threading.Thread(target=lambda: output.append(stdout.read()), daemon=True),
        threading.Thread(target=show.copy, args=(reading,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        _wait(child, interrupts)
    finally:
        for thread in threads:
            thread.join()
        stdout.close()
        os.close(reading)
    return child.returncode, b"".join(output).decode(errors="replace"), show.error


class _HeldInterrupts:
    """Delays interrupts (SIGINT) until release(), so that none arrives between the start of a child process and the moment when it can be
    stopped. Only the main thread receives interrupts."""

    def __init__(self) -> None:
        self._came: list[tuple[int, Any]] = []
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._handler = signal.signal(signal.SIGINT, lambda number, frame: self._came.append((number, frame)))

    def release(self) -> None:
        if not self._is_main:
            return
        signal.signal(signal.SIGINT, self._handler)
        if self._came and callable(self._handler):
            self._handler(*self._came[0])


def _environment() -> dict[str, str]:
    """The environment of the program: if this interpreter has onnxruntime, FUSEC_PYTHON names it, so that verify compares with it too."""
    if "FUSEC_PYTHON" in os.environ or importlib.util.find_spec("onnxruntime") is None:
        return dict(os.environ)
    return {**os.environ, "FUSEC_PYTHON": sys.executable}


def _wait(child: subprocess.Popen[bytes], interrupts: _HeldInterrupts) -> None:
    try:
        interrupts.release()
        child.wait()
        return
    except BaseException:  # an interrupt, or an exception of another signal handler: the child must not outlive this call
        child.send_signal(signal.SIGINT)
        try:
            child.wait()
        except BaseException:  # a second interrupt
            child.kill()
            child.wait()
            raise
        raise


class _Shown:
    """Copies the program's stderr to a stream, except the line of an error, which it keeps in `error`."""

    def __init__(self, stream: Any) -> None:
        self.error = ""
        self._stream = stream
        self._held = b""  # bytes that may be the beginning of an error line

    def copy(self, reading: int) -> None:
        while True:
            try:
                text = os.read(reading, 65536)
            except OSError as failure:
                if failure.errno != errno.EIO:  # a pseudo-terminal reports EIO when its other end is closed
                    raise
                text = b""
            if not text:
                break
            self._take(text.replace(b"\r\n", b"\n"))
        self._show(self._held)

    def _take(self, text: bytes) -> None:
        text = self._held + text
        while (start := text.find(_ERROR)) >= 0 and (end := text.find(b"\n", start)) >= 0:
            self._show(text[:start])
            self.error = text[start + len(_ERROR) : end].decode(errors="replace")
            text = text[end + 1 :]
        if start < 0:
            start = next(place for place in range(len(text) + 1) if _ERROR.startswith(text[place:]))
        self._show(text[:start])
        self._held = text[start:]

    def _show(self, text: bytes) -> None:
        if text and self._stream is not None:
            self._stream.write(text.decode(errors="replace"))
            self._stream.flush()


def flags(values: Mapping[str, Any]) -> list[str]:
    """The arguments --name=value for all given flags: one per item if the value is a list, and without a value if it is True."""
    arguments: list[str] = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(flag)
        else:
            items = value if isinstance(value, (list, tuple)) else [value]
            arguments += [f"{flag}={_text(item)}" for item in items]
    return arguments


def _text(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def named(values: Mapping[str, Any] | None, text: Callable[[Any], str]) -> list[str] | None:
    """Converts {"batch": (1, 4096)} to ["batch=1..4096"]; `text` converts a value."""
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise _errors.BadUsage(f"expected a dict by name, got {values!r}")
    return [f"{name}={text(value)}" for name, value in values.items()]


def listed(value: str | Sequence[Any] | None) -> str | None:
    """Converts ["cpu", "sm_90a"] to "cpu,sm_90a"."""
    return value if value is None or isinstance(value, str) else ",".join(map(str, value))


def size_range(value: Any) -> str:
    """Converts (1, 4096) to "1..4096", and 64 to "64"."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return f"{int(value[0])}..{int(value[1])}"
    if isinstance(value, (int, str)):
        return str(value)
    raise _errors.BadUsage(f"the sizes of a dim are a number or a pair (low, high), got {value!r}")


def sizes(value: Any) -> str:
    """Converts [1, 128] to "1,128", and 64 to "64"."""
    if isinstance(value, str):
        return value
    try:
        return ",".join(str(int(size)) for size in value)
    except TypeError:
        return str(int(value))
