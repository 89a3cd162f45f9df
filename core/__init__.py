"""jetgate's messaging server: the NATS protocol, and JetStream with storage in PostgreSQL."""

__version__ = "0.1.0"
