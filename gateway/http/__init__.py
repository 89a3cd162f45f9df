"""HTTP: the port, connections, request framing, responses and problem details.

`uvicorn_parts` holds the uses of private parts of uvicorn.
"""
