"""Limits the address space of a process of Ray's, as its worker_process_setup_hook."""

import pathlib
import resource

LIMIT = 600 << 20  # bytes that it may take up behind its start


def set_limit():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT,) * 2)
