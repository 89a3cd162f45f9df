"""Authentication of HTTP requests and WebSockets, browser sessions, tickets and rate limits.

`gateway.auth.authenticator` checks each request; the other modules implement parts of that check.
"""
