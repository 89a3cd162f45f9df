"""jetgate's messaging server: NATS protocol, JetStream, PostgreSQL storage."""

__version__ = "0.1.0"
