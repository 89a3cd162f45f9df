"""Signing in: what a request says about who asks, and what is kept of it between requests.

The door (`gateway.door`) is the only caller: it makes of these one answer to the question who asks.
"""
