"""Requests: the route table, the call that a handler gets, and ways to respond."""
