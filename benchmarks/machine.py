"""Facts about the machine that a figure needs to be meaningful."""

import os
import platform
from pathlib import Path


def facts() -> dict[str, str | int | float]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": cores(),
        "memory_bytes": memory_bytes(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load_average": os.getloadavg()[0],
    }


def cores() -> int:
    return os.cpu_count() or 1


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
