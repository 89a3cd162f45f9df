"""JetStream on the node that leads the streams: publishes, consumers, Direct Get, sourcing.

The decisions are in `core.rules`, as functions and state machines without I/O. This package adds
the I/O: storage, timers, subscriptions and replies to clients.
"""
