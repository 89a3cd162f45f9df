"""Clients' connections: TCP, WebSocket and in-process, each with a session behind it."""
