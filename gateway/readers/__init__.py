"""Readers of streams for WebSockets and server-sent events.

Each reader gets messages in order, at its own pace, and never with an unreported gap.
"""
