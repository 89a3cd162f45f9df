"""The console script `jetgate-nats-server`; Ctrl-C during imports ends it without a traceback."""

from core.runtime.interrupts import end_at_once

end_at_once()  # before the slow imports


def main() -> None:
    """Run the command `jetgate-nats-server`, and exit with its code."""
    from core.runtime.threads import leave
    from dropin.command import main as command

    try:
        command()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
