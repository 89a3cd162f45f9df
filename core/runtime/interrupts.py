"""Sets the effect of SIGINT (Ctrl-C) on a process that has not installed its own handler yet."""

import signal


def end_at_once() -> None:
    """Make SIGINT end this process immediately and without a traceback, as for other programs.

    The setting applies until a command handles the signal. A process started with SIGINT ignored
    continues to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Undo `end_at_once`: SIGINT raises KeyboardInterrupt, for commands that shut down in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
