"""Feeds of server-sent events: messages of a stream as they are stored, and advisories."""
