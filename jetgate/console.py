"""The console script `jetgate`. Ctrl-C ends it without a traceback, even during imports."""

from core.runtime.interrupts import end_at_once

end_at_once()  # before the slow imports


def main() -> None:
    """Run the command line `jetgate`, and exit with its code."""
    from core.runtime.threads import leave
    from jetgate.commands import main as command

    try:
        command()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
