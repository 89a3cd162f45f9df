"""Durable storage: the interfaces, and their implementation with PostgreSQL."""
