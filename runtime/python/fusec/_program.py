"""The program `fusec` that the package brings along: runs it, shows what it says, and raises its errors."""

from __future__ import annotations

import errno
import importlib.util
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
from typing import Any, Callable, Mapping, Sequence

from fusec import _errors

PROGRAM = str(pathlib.Path(__file__).parent / "bin" / "fusec")
INTERRUPTED = 130
_ERROR = b"fusec: error: "


def main() -> None:
    """The command `fusec` of the environment: becomes the program."""
    os.execv(PROGRAM, ["fusec", *sys.argv[1:]])


def run(arguments: Sequence[str]) -> str:
    """What the program prints on stdout. What it says on stderr, progress included, appears on sys.stderr as it comes; the line of an
    error becomes the exception. Ctrl-C stops the program, which removes what is half written, before KeyboardInterrupt goes on."""
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
    show = _Shown(sys.stderr)
    # A terminal of its own for a program whose progress somebody sees: it draws progress only there.
    is_seen = hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
    if is_seen:
        reading, writing = pty.openpty()
    else:
        reading, writing = os.pipe()
    try:
        # In a session of its own, so that the terminal's Ctrl-C reaches this process alone, which hands it on once: the program cleans
        # up after the first interrupt, and a second one would end it in the middle of that.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing, env=_environment(), start_new_session=True
        )
    except OSError as failure:
        os.close(reading)
        raise _errors.NoDevice(f"{command[0]} cannot be started: {failure.strerror}") from failure
    finally:
        os.close(writing)
    output: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: output.append(child.stdout.read()), daemon=True),
        threading.Thread(target=show.copy, args=(reading,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        _wait(child)
    finally:
        for thread in threads:
            thread.join()
        child.stdout.close()
        os.close(reading)
    return child.returncode, b"".join(output).decode(errors="replace"), show.error


def _environment() -> dict[str, str]:
    """This interpreter judges answers, too, where it has onnxruntime."""
    if "FUSEC_PYTHON" in os.environ or importlib.util.find_spec("onnxruntime") is None:
        return dict(os.environ)
    return {**os.environ, "FUSEC_PYTHON": sys.executable}


def _wait(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait()
        return
    except BaseException:  # an interrupt, or what else a signal handler raises: nothing outlives the call
        child.send_signal(signal.SIGINT)
        try:
            child.wait()
        except BaseException:  # a second one
            child.kill()
            child.wait()
            raise
        raise


class _Shown:
    """Copies what the program says to a stream, and keeps the line of its error."""

    def __init__(self, stream: Any) -> None:
        self.error = ""
        self._stream = stream
        self._line = b""  # the beginning of one that may be an error's

    def copy(self, reading: int) -> None:
        while True:
            try:
                text = os.read(reading, 65536)
            except OSError as failure:
                if failure.errno != errno.EIO:  # how a terminal says that its other end is closed
                    raise
                text = b""
            if not text:
                break
            self._take(text.replace(b"\r\n", b"\n"))
        self._show(self._line)

    def _take(self, text: bytes) -> None:
        for line in (self._line + text).splitlines(keepends=True):
            if line.startswith(_ERROR) and line.endswith(b"\n"):
                self.error = line[len(_ERROR) :].decode(errors="replace").strip()
                self._line = b""
            elif not line.endswith(b"\n") and _ERROR.startswith(line[: len(_ERROR)]):
                self._line = line
                return
            else:
                self._show(line)
        self._line = b""

    def _show(self, text: bytes) -> None:
        if text and self._stream is not None:
            self._stream.write(text.decode(errors="replace"))
            self._stream.flush()


def flags(values: Mapping[str, Any]) -> list[str]:
    """--name=value for every flag that is given: once for each item of a list, without a value where it is True."""
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
    """["batch=1..4096"] of {"batch": (1, 4096)}."""
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise _errors.BadUsage(f"expected a dict by name, got {values!r}")
    return [f"{name}={text(value)}" for name, value in values.items()]


def listed(value: str | Sequence[Any] | None) -> str | None:
    """"cpu,sm_90a" of ["cpu", "sm_90a"]."""
    return value if value is None or isinstance(value, str) else ",".join(map(str, value))


def size_range(value: Any) -> str:
    """"1..4096" of (1, 4096), "64" of 64."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return f"{int(value[0])}..{int(value[1])}"
    if isinstance(value, (int, str)):
        return str(value)
    raise _errors.BadUsage(f"the sizes of a dim are a number or a pair (low, high), got {value!r}")


def sizes(value: Any) -> str:
    """"1,128" of [1, 128], "64" of 64."""
    if isinstance(value, str):
        return value
    try:
        return ",".join(str(int(size)) for size in value)
    except TypeError:
        return str(int(value))
