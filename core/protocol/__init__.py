"""The NATS wire protocol, both sides, without I/O."""
