"""What an interrupt does before there is anything to shut down."""

import signal


def end_at_once() -> None:
    """Let SIGINT end this process as it ends any program: at once and without a word.

    Until a command takes the signal over. Who was started with it ignored goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """Let SIGINT be an exception again, for commands that are interrupted in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
