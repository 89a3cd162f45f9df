"""Authentication of requests and sockets, and the sessions and tickets between requests.

Each request passes the `authenticator`; the other modules serve it.
"""
