"""The effect of SIGINT while a command cannot shut down in order yet."""

import signal


def end_at_once() -> None:
    """Let SIGINT end this process immediately and silently, as for any program.

    The setting applies until a command handles the signal. A process started with SIGINT ignored
    continues to ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt again, for commands that shut down in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
