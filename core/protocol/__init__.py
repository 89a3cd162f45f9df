"""Parsers and encoders of the NATS client and route protocols and of WebSocket frames; no I/O."""
