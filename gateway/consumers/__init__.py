"""Consumers: management, fetching, acknowledgements."""
