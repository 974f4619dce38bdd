"""Descendants, memory and CPU time of processes, from the kernel.

Reads /proc, so it works only on Linux; elsewhere `is_supported` is False and figures are nan.
"""

import contextlib
import math
import os
import resource
import signal
import time
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
is_supported = (PROC / "self" / "stat").exists()


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name, which may contain spaces and brackets."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def tree(root: int) -> list[int]:
    """Return `root` and all its living descendants, parents before children."""
    if not is_supported:
        return [root]
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def rss_bytes(root: int) -> float:
    """Return the resident memory of a process tree."""
    return _sum(root, 21) * resource.getpagesize()


def cpu_seconds(root: int) -> float:
    """Return the user and system time that a process tree has used so far."""
    return _sum(root, 11, 12) / os.sysconf("SC_CLK_TCK")


def _sum(root: int, *fields: int) -> float:
    if not is_supported:
        return math.nan
    total = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            stat = _stat(pid)
            total += sum(int(stat[field]) for field in fields)
    return float(total)


def own_cpu_seconds(*, with_children: bool = False) -> float:
    """Return the user and system time of this process and, if asked, of the children it has waited for."""
    parts = [resource.getrusage(resource.RUSAGE_SELF)]
    if with_children:
        parts.append(resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in parts)


def machine_cpu_seconds() -> float:
    """Return the CPU time of all programs since boot plus time stolen by the hypervisor, without interrupts."""
    if not is_supported:
        return math.nan
    user, nice, system, _, _, _, _, steal, *_ = map(int, (PROC / "stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def _is_running(pid: int) -> bool:
    try:
        if is_supported:
            return _stat(pid)[0] != "Z"
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def stop(pids: Iterable[int], *, grace_s: float) -> None:
    """Send SIGTERM, wait, then SIGKILL. Callers pass only processes that this run has started."""
    left = list(pids)
    _signal(left, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [pid for pid in left if _is_running(pid)]
    _signal(left, signal.SIGKILL)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def raise_file_limit(wanted: int = 65536) -> int:
    """Raise the soft limit on open files as far as allowed; brokers started later inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return soft
