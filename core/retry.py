"""The pauses before PostgreSQL is tried again: the one owner of these intervals.

Each caller repeats its work at a fixed interval until storage is available, or its own deadline has
passed. The intervals are constants, not a backoff: a node resumes soon after an outage, and its few
sessions are no load for a database that starts.
"""

from typing import Final

COMMIT_S: Final = 0.1
"""Between attempts that publishers and API requests wait for, in seconds."""

BACKGROUND_S: Final = 0.2
"""Between attempts of loading, sourcing, retention and commits of staged batches, in seconds."""

CONSUMER_NS: Final = 250_000_000
"""Between attempts to read or count the messages of a consumer, in nanoseconds."""

SESSION_S: Final = 0.25
"""Between attempts to open a lease session, in seconds."""

START_S: Final = 0.5
"""Between attempts to reach the database at a start, and to serve, in seconds."""
