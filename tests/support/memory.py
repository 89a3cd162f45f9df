"""How much memory a process has."""

import resource
from pathlib import Path


def resident(pid: int) -> int:
    """Bytes of memory of a process that are in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
