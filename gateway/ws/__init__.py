"""`/v1/ws`: publish, ask, get, follow and acknowledge over one WebSocket.

`frames`, `codec`, `credit`, `session` and `close_codes` are pure; `endpoint`, `connection` and the
feeds do the input and output.
"""
