"""The HTTP façade: a NATS client that serves REST, WebSockets and server-sent events."""
