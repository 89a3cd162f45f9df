"""The WebSocket at `/v1/ws`: publish, request, get, subscribe and acknowledge in one connection.

`frames`, `codec`, `credit`, `session` and `close_codes` have no I/O; `endpoint`, `connection` and
the feeds (`core_feed`, `durable_feed`, `ordered_feed`) do the I/O.
"""
