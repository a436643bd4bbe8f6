"""A timer for an event loop that is exact to microseconds. The timers of asyncio and uvloop count whole milliseconds and round up, which a
batch that waits one millisecond would notice."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from typing import Callable

_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Setting(ctypes.Structure):
    """`struct itimerspec` of timerfd_settime(2)."""

    _fields_ = [("interval", _Time), ("delay", _Time)]  # a delay of zero stops the timer


class ExactTimer:
    """Calls `callback` in the running event loop once after each start, through a file descriptor of Linux (timerfd_create(2), which
    Python itself has from 3.13 on)."""

    def __init__(self, callback: Callable[[], None]):
        """Raises OSError if there is no file descriptor left."""
        self._callback, self.is_set = callback, False
        self._setting = _Setting()
        self._file = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._ring)

    def start(self, seconds: float) -> None:
        """(Re)starts the timer, which rings after `seconds`, or at once if they are over."""
        self._set(max(1, int(seconds * 1e9)))
        self.is_set = True

    def stop(self) -> None:
        if self.is_set:
            self._set(0)
            self.is_set = False

    def close(self) -> None:
        """Stops the timer for good."""
        self.is_set = False
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _set(self, nanoseconds: int) -> None:
        delay = self._setting.delay
        delay.seconds, delay.nanoseconds = divmod(nanoseconds, 1_000_000_000)
        _libc.timerfd_settime(self._file, 0, ctypes.byref(self._setting), None)

    def _ring(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:
            return  # it was restarted or stopped after it rang
        self.is_set = False
        self._callback()
