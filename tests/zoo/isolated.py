"""Runs a function in a process of its own, so that the caller survives whatever it does."""

import ctypes
import os
import pickle
import resource
import select
import signal
import time
import traceback


PR_SET_PDEATHSIG = 1  # a signal for the child when its parent ends


class Failed(Exception):
    """Why the function failed, in one line; `kind` is error, signal or timeout."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def isolated(function, *arguments, seconds=300, gibibytes=8, log=os.devnull):
    """The result of the function, which runs in a fork with limits of time and memory; its output goes to the file `log`."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        os.close(source)
        _run(function, arguments, gibibytes, log, sink)
    os.close(sink)
    try:
        return _result(child, source, seconds)
    finally:
        os.close(source)


def _run(function, arguments, gibibytes, log, sink):
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (gibibytes << 30, gibibytes << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        answer = (True, function(*arguments))
    except BaseException as error:
        traceback.print_exc()
        answer = (False, first_line(f"{type(error).__name__}: {error}"))
    os.write(sink, pickle.dumps(answer))
    os._exit(0)


def _result(child, source, seconds):
    end, data = time.monotonic() + seconds, b""
    while select.select([source], [], [], max(0, end - time.monotonic()))[0]:
        part = os.read(source, 65536)
        if not part:
            break
        data += part
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise Failed("timeout", f"over {seconds} s")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not data:
        raise Failed("signal", signal.Signals(-status).name if status < 0 else f"exit {status}")
    good, value = pickle.loads(data)
    if not good:
        raise Failed("error", value)
    return value


def first_line(text, columns=300):
    return " ".join(text.strip().split("\n")[0].split())[:columns]
