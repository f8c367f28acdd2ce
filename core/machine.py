"""What this machine is, for reports."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil


def chip_name() -> str:
    """The processor as its maker calls it."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return cpu_info("model name") or platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_info(field: str) -> str:
    """What the kernel of Linux tells of the first processor; empty where it does not."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(field):
            return line.partition(":")[2].strip()
    return ""


def describe() -> dict[str, str]:
    """Chip, cores, memory and system, in words."""
    return {
        "chip": chip_name(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 1e9:.1f} GB",
        "system": platform.platform(),
    }
