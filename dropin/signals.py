"""The flag `--signal`: sends a signal to a running server, to stop, reload or drain it."""

import os
import signal
from pathlib import Path

from core.errors import OperatorError

SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}


def send(order: str, executable: str) -> None:
    """Send a signal to a running server.

    Args:
        order: `name`, `name=pid` or `name=pidfile`, where name is a key of `SIGNALS`. The name
            alone requires that exactly one server runs on this machine.
        executable: File name of the command, by which servers are found.

    Raises:
        OperatorError: The signal is unknown, or no or several processes match.
    """
    name, _, target = order.partition("=")
    pids = [_pid(target)] if target else running(executable)
    if not pids:
        raise OperatorError("no nats-server processes running")
    if len(pids) > 1:
        listed = "\n".join(str(pid) for pid in pids)
        raise OperatorError(f"multiple nats-server processes running:\n{listed}")
    number = SIGNALS.get(name)
    if number is None:
        raise OperatorError(f'unknown signal "{name}"')
    try:
        os.kill(pids[0], number)
    except ProcessLookupError:
        raise OperatorError(f'\nsignal "{name}" {pids[0]}: no such process') from None
    except PermissionError:
        raise OperatorError(f'\nsignal "{name}" {pids[0]}: operation not permitted') from None


def _pid(target: str) -> int:
    text = target
    if not target.isdigit():
        try:
            text = Path(target).read_text().strip()
        except OSError:
            text = ""
    if not text.isdigit():
        raise OperatorError(f"invalid pid: {target}")
    return int(text)


def running(executable: str) -> list[int]:
    """Return the ids of the processes that run the command `executable`, except this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        names = {os.path.basename(word) for word in words[:3]}
        pid = int(entry.parent.name)
        if executable.encode() in names and pid != os.getpid():
            found.append(pid)
    return sorted(found)
