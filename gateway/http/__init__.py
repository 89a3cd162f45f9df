"""HTTP server: listening port, connections, parsing of requests, responses and problem details.

`gateway.http.uvicorn_parts` contains all uses of private parts of uvicorn.
"""
