"""The WebSocket at `/v1/ws`: publish, request, get, subscribe and acknowledge in one connection.

`frames`, `codec`, `credit`, `session` and `close_codes` are pure; `endpoint`, `connection` and the
feeds do the I/O.
"""
