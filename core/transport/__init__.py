"""The connections of NATS clients over TCP, over WebSocket and inside the process.

A `core.transport.session.ClientSession` serves each of them.
"""
