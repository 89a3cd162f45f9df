"""Readers of streams: they deliver the messages of a stream, in order, to WebSockets and SSE feeds.

Each client has its own reader, which reads at the client's speed. If messages were removed before
the client received them, the reader reports a gap.
"""
