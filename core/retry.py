"""The intervals at which work is retried while PostgreSQL is unavailable.

Each caller repeats its work at a fixed interval until PostgreSQL answers, or until the caller's own
deadline. The intervals are constants, without backoff: a node resumes soon after an outage, and its
few sessions are no load for a database that starts.
"""

from typing import Final

COMMIT_S: Final = 0.1
"""Seconds between attempts to commit work for which publishers and API requests wait."""

BACKGROUND_S: Final = 0.2
"""Seconds between attempts of loading, sourcing, retention and commits of staged batches."""

CONSUMER_NS: Final = 250_000_000
"""Nanoseconds between attempts to read or count the messages of a consumer."""

SESSION_S: Final = 0.25
"""Seconds between attempts to open a lease session."""

START_S: Final = 0.5
"""Seconds between attempts to reach the database at a start, and to load after a failed load."""
