"""Durable storage of messages, streams and consumers: the interfaces, and PostgreSQL behind
them.
"""
