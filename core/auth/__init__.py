"""Authentication and permissions of connections: pure functions and values."""
