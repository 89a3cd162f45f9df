"""Browser sessions and tickets as a resource: create, read, end."""
