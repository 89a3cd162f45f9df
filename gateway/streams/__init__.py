"""Streams: management, purging, dead letters."""
