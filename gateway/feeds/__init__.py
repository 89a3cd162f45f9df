"""Feeds of server-sent events: tails of streams, and advisories."""
