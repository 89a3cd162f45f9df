"""The NATS client protocol, for server and client, and its WebSocket framing; no I/O."""
